/* SPDX-License-Identifier: BSD-3-Clause
 * Descriptors from arguments, one function per argument list: the doors of both styles hand in
 * flags as letters, sizes widened and scalars by address. All of it is constant-folded at the
 * doors. */
#ifndef TB_SHIM_FILL_H
#define TB_SHIM_FILL_H

#include "types.h"
#include "../src/run.h"

static inline void fill_gemm(struct tb_call *call, char ta, char tb, int64_t m, int64_t n,
                             int64_t k, const void *alpha, const void *a, int64_t lda,
                             const void *b, int64_t ldb, const void *beta, void *c, int64_t ldc)
{
    call->ta = ta;
    call->tb = tb;
    call->m = m;
    call->n = n;
    call->k = k;
    call->alpha = scalar_read(call->alpha_type, alpha);
    call->beta = scalar_read(call->beta_type, beta);
    call->a = a;
    call->b = b;
    call->c = c;
    call->lda = lda;
    call->ldb = ldb;
    call->ldc = ldc;
}

static inline void fill_strides(struct tb_call *call, int64_t a, int64_t b, int64_t c,
                                int64_t count)
{
    call->form = TB_STRIDED;
    call->stride_a = a;
    call->stride_b = b;
    call->stride_c = c;
    call->batch = count;
}

static inline void fill_gemmt(struct tb_call *call, char uplo, char ta, char tb, int64_t n,
                              int64_t k, const void *alpha, const void *a, int64_t lda,
                              const void *b, int64_t ldb, const void *beta, void *c, int64_t ldc)
{
    fill_gemm(call, ta, tb, n, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    call->uplo = uplo;
}

static inline void fill_symm(struct tb_call *call, char side, char uplo, int64_t m, int64_t n,
                             const void *alpha, const void *a, int64_t lda, const void *b,
                             int64_t ldb, const void *beta, void *c, int64_t ldc)
{
    fill_gemm(call, 0, 0, m, n, 0, alpha, a, lda, b, ldb, beta, c, ldc);
    call->side = side;
    call->uplo = uplo;
}

static inline void fill_syr2k(struct tb_call *call, char uplo, char trans, int64_t n, int64_t k,
                              const void *alpha, const void *a, int64_t lda, const void *b,
                              int64_t ldb, const void *beta, void *c, int64_t ldc)
{
    fill_gemm(call, trans, 0, n, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    call->uplo = uplo;
}

static inline void fill_syrk(struct tb_call *call, char uplo, char trans, int64_t n, int64_t k,
                             const void *alpha, const void *a, int64_t lda, const void *beta,
                             void *c, int64_t ldc)
{
    fill_syr2k(call, uplo, trans, n, k, alpha, a, lda, NULL, 0, beta, c, ldc);
}

static inline void fill_trmm(struct tb_call *call, char side, char uplo, char trans, char diag,
                             int64_t m, int64_t n, const void *alpha, const void *a, int64_t lda,
                             void *b, int64_t ldb)
{
    call->side = side;
    call->uplo = uplo;
    call->ta = trans;
    call->diag = diag;
    call->m = m;
    call->n = n;
    call->alpha = scalar_read(call->alpha_type, alpha);
    call->a = a;
    call->lda = lda;
    call->c = b;
    call->ldc = ldb;
}

/* Hands a filled descriptor in. FORWARD calls pass.fn with the caller's own arguments. */
#define TB_SUBMIT(CALL, FORWARD)                                                                   \
    do {                                                                                           \
        const struct tb_pass pass = run_enter(CALL);                                               \
        if (pass.fn == NULL)                                                                       \
            return;                                                                                \
        FORWARD;                                                                                   \
        if (pass.counted)                                                                          \
            run_leave(CALL, &pass);                                                                \
    } while (0)

/* A grouped batch, in either style and integer width: group g is group_size[g] products with the
 * parameters of slot g; the lists name every matrix of every group. */
struct tb_groups {
    struct tb_call head;                             /* what all groups share */
    const void *ta, *tb;                             /* letters, or CBLAS enums where head.cblas */
    const void *m, *n, *k, *lda, *ldb, *ldc, *sizes; /* int32_t or, where head.wide, int64_t */
    const void *alpha, *beta;                        /* arrays of the scalar types */
    const void *const *a, *const *b;
    void *const *c;
    int64_t count;
};
/* NULL: done; else the batch is to be forwarded there unchanged. */
tb_fn batch_enter(const struct tb_groups *groups);

static inline char flag_letter(const char *flag)
{
    return *flag >= 'a' && *flag <= 'z' ? (char)(*flag - ('a' - 'A')) : *flag;
}

/* CBLAS enums to Fortran letters; what is none becomes '?', which no check accepts. */
static inline char cblas_letter(int value)
{
    switch (value) {
    case 111: /* CblasNoTrans */
    case 131: /* CblasNonUnit */
        return 'N';
    case 112: /* CblasTrans */
        return 'T';
    case 113: /* CblasConjTrans */
        return 'C';
    case 114: /* CblasConjNoTrans */
        return 'R';
    case 121: /* CblasUpper */
    case 132: /* CblasUnit */
        return 'U';
    case 122: /* CblasLower */
    case 141: /* CblasLeft */
        return 'L';
    case 142: /* CblasRight */
        return 'R';
    default:
        return '?';
    }
}

/* The same letter stands for different enums: a flag must come from its own range. */
static inline char cblas_flag(int value, int first, int last)
{
    return value >= first && value <= last ? cblas_letter(value) : '?';
}
#define CBLAS_TRANS_LETTER(X) cblas_flag((int)(X), 111, 114)
#define CBLAS_UPLO_LETTER(X)  cblas_flag((int)(X), 121, 122)
#define CBLAS_DIAG_LETTER(X)  cblas_flag((int)(X), 131, 132)
#define CBLAS_SIDE_LETTER(X)  cblas_flag((int)(X), 141, 142)

#endif
