/* SPDX-License-Identifier: BSD-3-Clause
 * tileblas.h: prototypes of the BLAS extensions in libtileblas that most <cblas.h> lack: products
 * of 16-bit matrices, batches, and products of which only a triangle is wanted. For C and C++.
 * Nobody needs this header for the standard routines: their prototypes are those of <cblas.h>. */
#ifndef TILEBLAS_H
#define TILEBLAS_H

#include <stdint.h>

#define TILEBLAS_VERSION        "0.1.0"
#define TILEBLAS_VERSION_NUMBER 100 /* 10000 * major + 100 * minor + patch */

/* NAMES
 *
 * Every routine is declared here as tileblas_NAME and tileblas_NAME_64. These are the library's
 * exported cblas_NAME and cblas_NAME_64 under a C name that no other header uses, so they compile
 * beside any version of any <cblas.h>.
 *
 * The usual names cblas_NAME and cblas_NAME_64 are declared too
 *   - all of them, if no <cblas.h> was included before this header;
 *   - after a <cblas.h>, only those that no <cblas.h> is known to declare (hgemm, gemm_f16f16f32,
 *     gemm_bf16bf16f32, and the _64 forms of the others but gemmtr): what it does declare depends
 * on its version. Define TILEBLAS_CBLAS_NAMES to get all of them from here (for a <cblas.h> that is
 * older).
 *   - none after oneMKL's header, which declares them.
 * So include <cblas.h>, if at all, before this header. Define TILEBLAS_NO_CBLAS_NAMES for none of
 * them, TILEBLAS_NO_FORTRAN_NAMES for none of the Fortran forms at the end.
 *
 * UNITS
 *
 * Sizes, leading dimensions and strides count elements, never bytes. A plain name takes 32-bit
 * integers (int), a name with _64 takes int64_t. Flags have the values of CBLAS: order 101
 * row-major, 102 column-major; trans 111 no, 112 transposed, 113 conjugate transposed; uplo 121
 * upper, 122 lower. Column-major, with op(X) = X, X' or conj(X'): gemm          C = alpha op(A)
 * op(B) + beta C;  op(A) is m x k, op(B) k x n, C m x n lda >= max(1, rows of A as stored): m, or k
 * if transposed; ldb: k, or n; ldc: m gemmt, gemmtr the same with m = n, touching only the triangle
 * uplo of C Row-major: leading dimensions count the columns as stored instead of the rows. beta =
 * 0: C is not read. alpha = 0 or k = 0: A and B are not read.
 *
 * 16-BIT TYPES are bit patterns in a uint16_t, scalars by value among them (an argument of type
 * _Float16 would travel in another register). The product is accumulated in single precision and
 * rounded once.
 *
 * ERRORS: a bad argument is reported to xerbla_ with its number as the Fortran form counts it, and
 * C is left untouched. Nothing is returned. A batch is checked as a whole before anything is
 * written. C must not overlap A or B, nor one C of a batch another. See libtileblas(7). */

typedef uint16_t tileblas_half;     /* IEEE 754 binary16 */
typedef uint16_t tileblas_bfloat16; /* upper half of a binary32 */

/* After a <cblas.h> flags have its enum types, so that its own constants pass without a cast and
 * equal declarations agree; else they are int. Both travel alike. */
#if defined(CBLAS_H) || defined(__GSL_CBLAS_H__)
#define TILEBLAS_AFTER_CBLAS 1
typedef enum CBLAS_ORDER tileblas_order;
typedef enum CBLAS_TRANSPOSE tileblas_trans;
typedef enum CBLAS_UPLO tileblas_uplo;
#else
#define TILEBLAS_AFTER_CBLAS 0
typedef int tileblas_order;
typedef int tileblas_trans;
typedef int tileblas_uplo;
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* PARAMETER LISTS. I: integer type. S: scalars. AB, C: elements of A and B, of C. */

#define TILEBLAS_GEMM(I, S, AB, C)                                                                 \
    (tileblas_order order, tileblas_trans transa, tileblas_trans transb, I m, I n, I k, S alpha,   \
     const AB *a, I lda, const AB *b, I ldb, S beta, C *c, I ldc)

#define TILEBLAS_GEMMT(I, S, T)                                                                    \
    (tileblas_order order, tileblas_uplo uplo, tileblas_trans transa, tileblas_trans transb, I n,  \
     I k, S alpha, const T *a, I lda, const T *b, I ldb, S beta, T *c, I ldc)

/* Product i multiplies a + i stride_a and b + i stride_b into c + i stride_c, i = 0 ... count - 1.
 */
#define TILEBLAS_STRIDED(I, S, AB, C)                                                              \
    (tileblas_order order, tileblas_trans transa, tileblas_trans transb, I m, I n, I k, S alpha,   \
     const AB *a, I lda, I stride_a, const AB *b, I ldb, I stride_b, S beta, C *c, I ldc,          \
     I stride_c, I count)

/* group_count groups of products. Everything named ..._array has one entry per group but a_array,
 * b_array and c_array, which list the matrices of all groups one after the other: group g has
 * group_size[g] of them. Complex scalars: S is void, the arrays hold (re, im) pairs. */
#define TILEBLAS_BATCH(I, S, AB, C)                                                                \
    (tileblas_order order, const tileblas_trans *transa_array, const tileblas_trans *transb_array, \
     const I *m_array, const I *n_array, const I *k_array, const S *alpha_array,                   \
     const AB **a_array, const I *lda_array, const AB **b_array, const I *ldb_array,               \
     const S *beta_array, C **c_array, const I *ldc_array, I group_count, const I *group_size)

/* THE ROUTINES, as TILEBLAS_X(NAME, LIST OF int, LIST OF int64_t). */

/* 16-bit products nobody's <cblas.h> declares: half everywhere; half or bfloat16 into float. */
#define TILEBLAS_OWN(X)                                                                            \
    X(hgemm, TILEBLAS_GEMM(int, tileblas_half, tileblas_half, tileblas_half),                      \
      TILEBLAS_GEMM(int64_t, tileblas_half, tileblas_half, tileblas_half))                         \
    X(gemm_f16f16f32, TILEBLAS_GEMM(int, float, tileblas_half, float),                             \
      TILEBLAS_GEMM(int64_t, float, tileblas_half, float))                                         \
    X(gemm_bf16bf16f32, TILEBLAS_GEMM(int, float, tileblas_bfloat16, float),                       \
      TILEBLAS_GEMM(int64_t, float, tileblas_bfloat16, float))

/* Half into float, bfloat16 into float, bfloat16 everywhere; batches of bfloat16 into float. */
#define TILEBLAS_SHARED_16BIT(X)                                                                   \
    X(shgemm, TILEBLAS_GEMM(int, float, tileblas_half, float),                                     \
      TILEBLAS_GEMM(int64_t, float, tileblas_half, float))                                         \
    X(sbgemm, TILEBLAS_GEMM(int, float, tileblas_bfloat16, float),                                 \
      TILEBLAS_GEMM(int64_t, float, tileblas_bfloat16, float))                                     \
    X(bgemm, TILEBLAS_GEMM(int, tileblas_bfloat16, tileblas_bfloat16, tileblas_bfloat16),          \
      TILEBLAS_GEMM(int64_t, tileblas_bfloat16, tileblas_bfloat16, tileblas_bfloat16))             \
    X(sbgemm_batch, TILEBLAS_BATCH(int, float, tileblas_bfloat16, float),                          \
      TILEBLAS_BATCH(int64_t, float, tileblas_bfloat16, float))                                    \
    X(sbgemm_batch_strided, TILEBLAS_STRIDED(int, float, tileblas_bfloat16, float),                \
      TILEBLAS_STRIDED(int64_t, float, tileblas_bfloat16, float))

#define TILEBLAS_SHARED_BATCH(X)                                                                   \
    X(sgemm_batch, TILEBLAS_BATCH(int, float, float, float),                                       \
      TILEBLAS_BATCH(int64_t, float, float, float))                                                \
    X(dgemm_batch, TILEBLAS_BATCH(int, double, double, double),                                    \
      TILEBLAS_BATCH(int64_t, double, double, double))                                             \
    X(cgemm_batch, TILEBLAS_BATCH(int, void, void, void),                                          \
      TILEBLAS_BATCH(int64_t, void, void, void))                                                   \
    X(zgemm_batch, TILEBLAS_BATCH(int, void, void, void),                                          \
      TILEBLAS_BATCH(int64_t, void, void, void))                                                   \
    X(sgemm_batch_strided, TILEBLAS_STRIDED(int, float, float, float),                             \
      TILEBLAS_STRIDED(int64_t, float, float, float))                                              \
    X(dgemm_batch_strided, TILEBLAS_STRIDED(int, double, double, double),                          \
      TILEBLAS_STRIDED(int64_t, double, double, double))                                           \
    X(cgemm_batch_strided, TILEBLAS_STRIDED(int, const void *, void, void),                        \
      TILEBLAS_STRIDED(int64_t, const void *, void, void))                                         \
    X(zgemm_batch_strided, TILEBLAS_STRIDED(int, const void *, void, void),                        \
      TILEBLAS_STRIDED(int64_t, const void *, void, void))

#define TILEBLAS_SHARED_GEMM3M(X)                                                                  \
    X(cgemm3m, TILEBLAS_GEMM(int, const void *, void, void),                                       \
      TILEBLAS_GEMM(int64_t, const void *, void, void))                                            \
    X(zgemm3m, TILEBLAS_GEMM(int, const void *, void, void),                                       \
      TILEBLAS_GEMM(int64_t, const void *, void, void))

#define TILEBLAS_SHARED_GEMMT(X)                                                                   \
    X(sgemmt, TILEBLAS_GEMMT(int, float, float), TILEBLAS_GEMMT(int64_t, float, float))            \
    X(dgemmt, TILEBLAS_GEMMT(int, double, double), TILEBLAS_GEMMT(int64_t, double, double))        \
    X(cgemmt, TILEBLAS_GEMMT(int, const void *, void),                                             \
      TILEBLAS_GEMMT(int64_t, const void *, void))                                                 \
    X(zgemmt, TILEBLAS_GEMMT(int, const void *, void), TILEBLAS_GEMMT(int64_t, const void *, void))

/* The newer name of gemmt. */
#define TILEBLAS_SHARED_GEMMTR(X)                                                                  \
    X(sgemmtr, TILEBLAS_GEMMT(int, float, float), TILEBLAS_GEMMT(int64_t, float, float))           \
    X(dgemmtr, TILEBLAS_GEMMT(int, double, double), TILEBLAS_GEMMT(int64_t, double, double))       \
    X(cgemmtr, TILEBLAS_GEMMT(int, const void *, void),                                            \
      TILEBLAS_GEMMT(int64_t, const void *, void))                                                 \
    X(zgemmtr, TILEBLAS_GEMMT(int, const void *, void), TILEBLAS_GEMMT(int64_t, const void *, void))

#define TILEBLAS_SHARED(X)                                                                         \
    TILEBLAS_SHARED_16BIT(X)                                                                       \
    TILEBLAS_SHARED_BATCH(X)                                                                       \
    TILEBLAS_SHARED_GEMM3M(X)                                                                      \
    TILEBLAS_SHARED_GEMMT(X)

#define TILEBLAS_ALIAS(NAME, LIST, LIST_64)                                                        \
    void tileblas_##NAME LIST __asm__("cblas_" #NAME);                                             \
    void tileblas_##NAME##_64 LIST_64 __asm__("cblas_" #NAME "_64");
#define TILEBLAS_PLAIN(NAME, LIST, LIST_64)   void cblas_##NAME LIST;
#define TILEBLAS_PLAIN64(NAME, LIST, LIST_64) void cblas_##NAME##_64 LIST_64;

TILEBLAS_OWN(TILEBLAS_ALIAS)
TILEBLAS_SHARED(TILEBLAS_ALIAS)
TILEBLAS_SHARED_GEMMTR(TILEBLAS_ALIAS)

/* oneMKL's header declares all of these itself, with enum types that have no tag to refer to. */
#if !defined(TILEBLAS_NO_CBLAS_NAMES) && !defined(__MKL_CBLAS_H__)
TILEBLAS_OWN(TILEBLAS_PLAIN)
TILEBLAS_OWN(TILEBLAS_PLAIN64)
TILEBLAS_SHARED(TILEBLAS_PLAIN64)
#if !TILEBLAS_AFTER_CBLAS || defined(TILEBLAS_CBLAS_NAMES)
TILEBLAS_SHARED(TILEBLAS_PLAIN)
TILEBLAS_SHARED_GEMMTR(TILEBLAS_PLAIN)
TILEBLAS_SHARED_GEMMTR(TILEBLAS_PLAIN64)
#endif
#endif

/* FORTRAN FORMS: NAME_ with int, NAME_64_ with int64_t; every argument a pointer, flags are letters
 * of which the first counts ("N", "T", "C"; "U", "L"), no order: column-major. The lengths that a
 * Fortran compiler adds for the letters may be left out. Batches have arrays where the CBLAS form
 * has them. */

#define TILEBLAS_F_GEMM(I, S, AB, C)                                                               \
    (const char *transa, const char *transb, const I *m, const I *n, const I *k, const S *alpha,   \
     const AB *a, const I *lda, const AB *b, const I *ldb, const S *beta, C *c, const I *ldc)

#define TILEBLAS_F_GEMMT(I, T)                                                                     \
    (const char *uplo, const char *transa, const char *transb, const I *n, const I *k,             \
     const T *alpha, const T *a, const I *lda, const T *b, const I *ldb, const T *beta, T *c,      \
     const I *ldc)

#define TILEBLAS_F_STRIDED(I, S, AB, C)                                                            \
    (const char *transa, const char *transb, const I *m, const I *n, const I *k, const S *alpha,   \
     const AB *a, const I *lda, const I *stride_a, const AB *b, const I *ldb, const I *stride_b,   \
     const S *beta, C *c, const I *ldc, const I *stride_c, const I *count)

#define TILEBLAS_F_BATCH(I, S, AB, C)                                                              \
    (const char *transa_array, const char *transb_array, const I *m_array, const I *n_array,       \
     const I *k_array, const S *alpha_array, const AB **a_array, const I *lda_array,               \
     const AB **b_array, const I *ldb_array, const S *beta_array, C **c_array, const I *ldc_array, \
     const I *group_count, const I *group_size)

#define TILEBLAS_F_ROUTINES(X, I)                                                                  \
    X(hgemm, TILEBLAS_F_GEMM(I, tileblas_half, tileblas_half, tileblas_half))                      \
    X(gemm_f16f16f32, TILEBLAS_F_GEMM(I, float, tileblas_half, float))                             \
    X(gemm_bf16bf16f32, TILEBLAS_F_GEMM(I, float, tileblas_bfloat16, float))                       \
    X(shgemm, TILEBLAS_F_GEMM(I, float, tileblas_half, float))                                     \
    X(sbgemm, TILEBLAS_F_GEMM(I, float, tileblas_bfloat16, float))                                 \
    X(bgemm, TILEBLAS_F_GEMM(I, tileblas_bfloat16, tileblas_bfloat16, tileblas_bfloat16))          \
    X(sbgemm_batch, TILEBLAS_F_BATCH(I, float, tileblas_bfloat16, float))                          \
    X(sbgemm_batch_strided, TILEBLAS_F_STRIDED(I, float, tileblas_bfloat16, float))                \
    X(sgemm_batch, TILEBLAS_F_BATCH(I, float, float, float))                                       \
    X(dgemm_batch, TILEBLAS_F_BATCH(I, double, double, double))                                    \
    X(cgemm_batch, TILEBLAS_F_BATCH(I, void, void, void))                                          \
    X(zgemm_batch, TILEBLAS_F_BATCH(I, void, void, void))                                          \
    X(sgemm_batch_strided, TILEBLAS_F_STRIDED(I, float, float, float))                             \
    X(dgemm_batch_strided, TILEBLAS_F_STRIDED(I, double, double, double))                          \
    X(cgemm_batch_strided, TILEBLAS_F_STRIDED(I, void, void, void))                                \
    X(zgemm_batch_strided, TILEBLAS_F_STRIDED(I, void, void, void))                                \
    X(cgemm3m, TILEBLAS_F_GEMM(I, void, void, void))                                               \
    X(zgemm3m, TILEBLAS_F_GEMM(I, void, void, void))                                               \
    X(sgemmt, TILEBLAS_F_GEMMT(I, float))                                                          \
    X(dgemmt, TILEBLAS_F_GEMMT(I, double))                                                         \
    X(cgemmt, TILEBLAS_F_GEMMT(I, void))                                                           \
    X(zgemmt, TILEBLAS_F_GEMMT(I, void))                                                           \
    X(sgemmtr, TILEBLAS_F_GEMMT(I, float))                                                         \
    X(dgemmtr, TILEBLAS_F_GEMMT(I, double))                                                        \
    X(cgemmtr, TILEBLAS_F_GEMMT(I, void))                                                          \
    X(zgemmtr, TILEBLAS_F_GEMMT(I, void))

#define TILEBLAS_F_PLAIN(NAME, LIST)   void NAME##_ LIST;
#define TILEBLAS_F_PLAIN64(NAME, LIST) void NAME##_64_ LIST;

/* <f77blas.h> declares some of them without types. */
#if !defined(TILEBLAS_NO_FORTRAN_NAMES) && !defined(OPENBLAS_F77BLAS_H)
TILEBLAS_F_ROUTINES(TILEBLAS_F_PLAIN, int)
TILEBLAS_F_ROUTINES(TILEBLAS_F_PLAIN64, int64_t)
#endif

#ifdef __cplusplus
}
#endif

#endif
