/* SPDX-License-Identifier: BSD-3-Clause
 * What was asked: one descriptor for every level-3 call. The doors fill it; everything behind
 * them works on it, whatever the spelling, the integer width or the element type of the call.
 * Sizes and leading dimensions are 64-bit from the door on and count elements. */
#ifndef TB_CALL_H
#define TB_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tb_op {
    TB_GEMM,   /* C = alpha op(A) op(B) + beta C; also every batch form */
    TB_GEMM3M, /* the same with three real products (complex types) */
    TB_GEMMT,  /* the same, only the triangle uplo of the n x n matrix C */
    TB_SYMM,
    TB_HEMM,
    TB_SYRK,
    TB_HERK,
    TB_SYR2K,
    TB_HER2K,
    TB_TRMM,
    TB_TRSM,
    TB_OPS
};

/* Element types. The complex ones are pairs (re, im) of the real one. */
enum tb_type { TB_F16, TB_BF16, TB_F32, TB_F64, TB_C32, TB_C64, TB_TYPES };

/* A scalar as it was handed in; its type says which member holds. 16-bit scalars are bit patterns.
 */
union tb_scalar {
    uint16_t h;
    float f[2];
    double d[2];
};

/* The CPU BLAS behind one door. Written by whoever resolves the name, perhaps by several threads
 * that come to the same answer while others already read it. */
typedef void (*tb_fn)(void);
struct tb_cpu {
    _Atomic(tb_fn) fn;     /* where valid calls compute; NULL: the CPU BLAS lacks the name */
    _Atomic(tb_fn) origin; /* what the program would have reached; illegal calls go there */
    _Atomic(tb_fn) direct; /* fn, where a small call may go there without being looked at */
};

enum tb_order { TB_ROW_MAJOR = 101, TB_COL_MAJOR = 102 };

/* Where an operand lies. TB_DEVICE_FAR: on a device, but not one our kernels may touch. */
enum tb_where { TB_HOST_PAGEABLE, TB_HOST_PINNED, TB_DEVICE, TB_MANAGED, TB_DEVICE_FAR };

/* How the products of a call are laid out, and so how its arguments are counted. */
enum tb_form { TB_ONE, TB_BATCH, TB_STRIDED };

/* Flags are the Fortran letters, upper case. CBLAS doors translate: a bad enum becomes '?'. */
struct tb_call {
    const char *name;         /* as called: "cblas_dgemm", for messages and xerbla */
    const struct tb_cpu *cpu; /* the CPU BLAS's entry of that name and spelling */
    enum tb_op op;
    enum tb_form form;
    enum tb_type ab, c_type; /* element type of A and B; of C (B too for trmm, trsm) */
    enum tb_type alpha_type, beta_type;
    bool cblas, wide;              /* calling convention of cpu->fn: by value; 64-bit integers */
    bool row_major;                /* as called; call_check() leaves the descriptor column-major */
    bool bad_order;                /* CBLAS order was neither 101 nor 102 */
    char side, uplo, ta, tb, diag; /* ta is "trans" of syrk and its relatives */
    int64_t m, n, k;               /* syrk family and gemmt: n and k (m = n); trmm, trsm: m and n */
    union tb_scalar alpha, beta;
    const void *a, *b;
    void *c; /* trmm, trsm: the matrix B, in and out (b is NULL) */
    int64_t lda, ldb, ldc;
    /* Batches: `batch` products of the same shape. With lists, a, b and c are unused and matrix i
     * is alist[i] ...; without, matrix i lies i * stride elements further on. 1 and NULL otherwise.
     */
    int64_t batch;
    const void *const *alist, *const *blist;
    void *const *clist;
    int64_t stride_a, stride_b, stride_c;
    uint8_t where[3]; /* enum tb_where of A, B, C; place_find() tells, doors leave it 0 */
};

size_t call_elem_bytes(enum tb_type type);
bool call_is_complex(enum tb_type type);
const char *call_type_name(enum tb_type type);
const char *call_op_name(enum tb_op op);

/* A number of 16 bits, TB_F16 or TB_BF16. */
double half_widen(enum tb_type type, uint16_t bits);
/* Is the scalar zero, of either sign? Its value as a pair (re, im), exactly. */
bool scalar_is_zero(enum tb_type type, const union tb_scalar *s);
void scalar_widen(enum tb_type type, const union tb_scalar *s, double out[2]);

/* Turns a row-major call into the equal column-major one (A and B, m and n, uplo, side, trans
 * swap), in place; nothing to do for a column-major call. */
void call_normalize(struct tb_call *call);

/* Only the triangle uplo of C is asked for. */
bool call_is_triangular(const struct tb_call *call);
/* C = alpha op(A) op(B) + alpha' op(B) op(A) + beta C: two products. */
bool call_is_rank_2k(const struct tb_call *call);
/* Is there a B? Without one the second factor is A again, or B is what C says. */
bool call_has_b(const struct tb_call *call);

/* Writes a rank-k form as the product op(A) op(B) that it is: B is A where it had none, and tb is
 * set. Nothing to do for other calls, nor for one that was written so before. */
void call_as_product(struct tb_call *call);

/* Strict check of a normalized call: 0 if plainly valid, else the number of the first wrong
 * argument as Fortran counts them. Negative: not plainly valid but an extension of some libraries
 * (trans 'R'), left to the CPU BLAS to judge; where it lacks the name the argument -number is
 * wrong. A bad CBLAS order is number 0 to xerbla and -1 here. */
int call_check(const struct tb_call *call);

/* Nothing to compute on a device: m, n or the batch is 0, k = 0, or alpha = 0. */
bool call_is_trivial(const struct tb_call *call);

/* Floating point operations (complex counted as real ones) and bytes of the referenced operands. */
double call_flops(const struct tb_call *call);
double call_bytes_in(const struct tb_call *call);
double call_bytes_out(const struct tb_call *call);

/* Rows and columns of A and B as stored. */
void call_stored_a(const struct tb_call *call, int64_t *rows, int64_t *cols);
void call_stored_b(const struct tb_call *call, int64_t *rows, int64_t *cols);

/* Operand base addresses of product i of the batch. */
const void *call_a(const struct tb_call *call, int64_t i);
const void *call_b(const struct tb_call *call, int64_t i);
void *call_c(const struct tb_call *call, int64_t i);

/* A rectangle of C of one product of the batch that still has to be computed. */
struct tb_rect {
    int64_t item, i0, j0, m, n;
};

#endif
