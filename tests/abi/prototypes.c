/* SPDX-License-Identifier: BSD-3-Clause
 * Our CBLAS definitions against the prototypes of a <cblas.h> and of tileblas.h: both sides must be
 * the same argument list, spelled out here once per shape. Pointers to elements are void to us and
 * flags int, which travel alike. Compiling it is the test; the including command picks the header
 * with TB_CBLAS_H or, with none, checks tileblas.h. */
#include "../../shim/cblas.c"

#ifdef TB_CBLAS_H
#include TB_CBLAS_H
#endif
#include "tileblas.h"

/* ORDER, TRANS, UPLO, SIDE, DIAG: types of the flags. I: integers. AL, BE: of alpha and beta. AB,
 * CC: pointers to elements of A and B, and of C. */
#define LIST_GEMM(ORDER, TRANS, UPLO, SIDE, DIAG, I, AL, BE, AB, CC)                               \
    void(ORDER, TRANS, TRANS, I, I, I, AL, AB, I, AB, I, BE, CC, I)
#define LIST_SYMM(ORDER, TRANS, UPLO, SIDE, DIAG, I, AL, BE, AB, CC)                               \
    void(ORDER, SIDE, UPLO, I, I, AL, AB, I, AB, I, BE, CC, I)
#define LIST_SYRK(ORDER, TRANS, UPLO, SIDE, DIAG, I, AL, BE, AB, CC)                               \
    void(ORDER, UPLO, TRANS, I, I, AL, AB, I, BE, CC, I)
#define LIST_SYR2K(ORDER, TRANS, UPLO, SIDE, DIAG, I, AL, BE, AB, CC)                              \
    void(ORDER, UPLO, TRANS, I, I, AL, AB, I, AB, I, BE, CC, I)
#define LIST_TRMM(ORDER, TRANS, UPLO, SIDE, DIAG, I, AL, BE, AB, CC)                               \
    void(ORDER, SIDE, UPLO, TRANS, DIAG, I, I, AL, AB, I, CC, I)
#define LIST_GEMMT(ORDER, TRANS, UPLO, SIDE, DIAG, I, AL, BE, AB, CC)                              \
    void(ORDER, UPLO, TRANS, TRANS, I, I, AL, AB, I, AB, I, BE, CC, I)
#define LIST_STRIDED(ORDER, TRANS, UPLO, SIDE, DIAG, I, AL, BE, AB, CC)                            \
    void(ORDER, TRANS, TRANS, I, I, I, AL, AB, I, I, AB, I, I, BE, CC, I, I, I)

/* How CBLAS passes each row of types; how C declares the elements. */
#define AL_S   float
#define AL_D   double
#define AL_C   const void *
#define AL_Z   const void *
#define AL_CS  float
#define AL_ZD  double
#define AL_CR  const void *
#define AL_ZR  const void *
#define AL_HHH uint16_t
#define AL_BBB uint16_t
#define AL_HS  float
#define AL_BS  float
#define BE_S   float
#define BE_D   double
#define BE_C   const void *
#define BE_Z   const void *
#define BE_CS  float
#define BE_ZD  double
#define BE_CR  float
#define BE_ZR  double
#define BE_HHH uint16_t
#define BE_BBB uint16_t
#define BE_HS  float
#define BE_BS  float
#define AB_S   float
#define AB_D   double
#define AB_C   void
#define AB_Z   void
#define AB_CS  void
#define AB_ZD  void
#define AB_CR  void
#define AB_ZR  void
#define AB_HHH uint16_t
#define AB_BBB uint16_t
#define AB_HS  uint16_t
#define AB_BS  uint16_t
#define CC_S   float
#define CC_D   double
#define CC_C   void
#define CC_Z   void
#define CC_CS  void
#define CC_ZD  void
#define CC_CR  void
#define CC_ZR  void
#define CC_HHH uint16_t
#define CC_BBB uint16_t
#define CC_HS  float
#define CC_BS  float

#define SAME(FUNCTION, ...)                                                                        \
    _Static_assert(__builtin_types_compatible_p(__typeof__(FUNCTION), __VA_ARGS__),                \
                   "argument list of " #FUNCTION)

#define OURS(SHAPE, NAME, TYPES)                                                                   \
    SAME(tb_door_cblas_##NAME, LIST_##SHAPE(int, int, int, int, int, int32_t, AL_##TYPES,          \
                                            BE_##TYPES, const void *, void *));                    \
    SAME(tb_door_cblas_##NAME##_64, LIST_##SHAPE(int, int, int, int, int, int64_t, AL_##TYPES,     \
                                                 BE_##TYPES, const void *, void *));               \
    SAME(tb_door_scipy_cblas_##NAME##64_,                                                          \
         LIST_##SHAPE(int, int, int, int, int, int64_t, AL_##TYPES, BE_##TYPES, const void *,      \
                      void *));

#define THEIRS(FUNCTION, SHAPE, TYPES, ORDER, TRANS, UPLO, SIDE, DIAG, I)                          \
    SAME(FUNCTION, LIST_##SHAPE(ORDER, TRANS, UPLO, SIDE, DIAG, I, AL_##TYPES, BE_##TYPES,         \
                                const AB_##TYPES *, CC_##TYPES *));

/* Expands what stands for several arguments first. */
#define EXPAND(FUNCTION, SHAPE, TYPES, ...) THEIRS(FUNCTION, SHAPE, TYPES, __VA_ARGS__)

#ifdef TB_CBLAS_H
#define FLAGS                                                                                      \
    enum CBLAS_ORDER, enum CBLAS_TRANSPOSE, enum CBLAS_UPLO, enum CBLAS_SIDE, enum CBLAS_DIAG
#define STANDARD(SHAPE, NAME, TYPES) EXPAND(cblas_##NAME, SHAPE, TYPES, FLAGS, int)

_Static_assert(sizeof(enum CBLAS_ORDER) == sizeof(int) && sizeof(enum CBLAS_DIAG) == sizeof(int) &&
                   sizeof(enum CBLAS_TRANSPOSE) == sizeof(int) &&
                   sizeof(enum CBLAS_UPLO) == sizeof(int) && sizeof(enum CBLAS_SIDE) == sizeof(int),
               "flags travel as int");
_Static_assert(CblasRowMajor == TB_ROW_MAJOR && CblasColMajor == TB_COL_MAJOR &&
                   CblasNoTrans == 111 && CblasTrans == 112 && CblasConjTrans == 113 &&
                   CblasUpper == 121 && CblasLower == 122 && CblasNonUnit == 131 &&
                   CblasUnit == 132 && CblasLeft == 141 && CblasRight == 142,
               "values of the flags");
#else
#define STANDARD(SHAPE, NAME, TYPES)
#endif

/* tileblas.h's own names of the extensions, and with no <cblas.h> their usual ones. */
#define OUR_HEADER(SHAPE, NAME, TYPES)                                                             \
    EXPAND(tileblas_##NAME, SHAPE, TYPES, tileblas_order, tileblas_trans, tileblas_uplo, int, int, \
           int)                                                                                    \
    EXPAND(tileblas_##NAME##_64, SHAPE, TYPES, tileblas_order, tileblas_trans, tileblas_uplo, int, \
           int, int64_t)

#define BATCH_LIST(ORDER, TRANS, I, S, AB, CC)                                                     \
    void(ORDER, const TRANS *, const TRANS *, const I *, const I *, const I *, const S *,          \
         const AB **, const I *, const AB **, const I *, const S *, CC **, const I *, I,           \
         const I *)
#define BATCH(NAME, S, AB, CC)                                                                     \
    SAME(tileblas_##NAME, BATCH_LIST(tileblas_order, tileblas_trans, int, S, AB, CC));             \
    SAME(tileblas_##NAME##_64, BATCH_LIST(tileblas_order, tileblas_trans, int64_t, S, AB, CC));    \
    SAME(tb_door_cblas_##NAME,                                                                     \
         void(int, const int *, const int *, const int32_t *, const int32_t *, const int32_t *,    \
              const void *, const void *const *, const int32_t *, const void *const *,             \
              const int32_t *, const void *, void *const *, const int32_t *, int32_t,              \
              const int32_t *));                                                                   \
    SAME(tb_door_cblas_##NAME##_64,                                                                \
         void(int, const int *, const int *, const int64_t *, const int64_t *, const int64_t *,    \
              const void *, const void *const *, const int64_t *, const void *const *,             \
              const int64_t *, const void *, void *const *, const int64_t *, int64_t,              \
              const int64_t *));
BATCH(sgemm_batch, float, float, float)
BATCH(dgemm_batch, double, double, double)
BATCH(cgemm_batch, void, void, void)
BATCH(zgemm_batch, void, void, void)
BATCH(sbgemm_batch, float, uint16_t, float)

/* Which rows of the table a <cblas.h> of 2022 has, and which only tileblas.h declares. */
#define IN_CBLAS(SHAPE, NAME, TYPES)  OURS(SHAPE, NAME, TYPES) STANDARD(SHAPE, NAME, TYPES)
#define IN_OURS(SHAPE, NAME, TYPES)   OURS(SHAPE, NAME, TYPES) OUR_HEADER(SHAPE, NAME, TYPES)
#define ROW_GEMM(OP, NAME, TYPES)     ROW_GEMM_##TYPES(OP, NAME, TYPES)
#define ROW_GEMM_S(OP, NAME, TYPES)   IN_CBLAS(GEMM, NAME, TYPES)
#define ROW_GEMM_D(OP, NAME, TYPES)   IN_CBLAS(GEMM, NAME, TYPES)
#define ROW_GEMM_C(OP, NAME, TYPES)   ROW_OP_##OP(NAME, TYPES)
#define ROW_GEMM_Z(OP, NAME, TYPES)   ROW_OP_##OP(NAME, TYPES)
#define ROW_GEMM_HHH(OP, NAME, TYPES) IN_OURS(GEMM, NAME, TYPES)
#define ROW_GEMM_BBB(OP, NAME, TYPES) IN_OURS(GEMM, NAME, TYPES)
#define ROW_GEMM_HS(OP, NAME, TYPES)  IN_OURS(GEMM, NAME, TYPES)
#define ROW_GEMM_BS(OP, NAME, TYPES)  IN_OURS(GEMM, NAME, TYPES)
#define ROW_OP_GEMM(NAME, TYPES)      IN_CBLAS(GEMM, NAME, TYPES)
#define ROW_OP_GEMM3M(NAME, TYPES)    IN_OURS(GEMM, NAME, TYPES)
#define ROW_SYMM(OP, NAME, TYPES)     IN_CBLAS(SYMM, NAME, TYPES)
#define ROW_SYRK(OP, NAME, TYPES)     IN_CBLAS(SYRK, NAME, TYPES)
#define ROW_SYR2K(OP, NAME, TYPES)    IN_CBLAS(SYR2K, NAME, TYPES)
#define ROW_TRMM(OP, NAME, TYPES)     IN_CBLAS(TRMM, NAME, TYPES)
#define ROW_GEMMT(OP, NAME, TYPES)    IN_OURS(GEMMT, NAME, TYPES)
#define ROW_STRIDED(OP, NAME, TYPES)  IN_OURS(STRIDED, NAME, TYPES)
#define ROW_BATCH(OP, NAME, TYPES)
#define ROUTINE(SHAPE, OP, NAME, TYPES) ROW_##SHAPE(OP, NAME, TYPES)
#include "../../src/routines.def"
