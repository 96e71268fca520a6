/* SPDX-License-Identifier: BSD-3-Clause
 * The Fortran doors: every argument a pointer, one hidden length per character argument behind them
 * (which C callers leave out: never read, 1 when forwarding). A door fills the descriptor and
 * passes on what run.c says; it decides nothing. */
#include "doors.h"
#include "fill.h"

#define HEAD(OP, TYPES, SPELLED, I)                                                                \
    call_head(#SPELLED, &tb_cpu[TB_DOOR_##SPELLED], TB_##OP, false, sizeof(I) == 8,                \
              TB_TYPES_##TYPES)
#define ALPHA_TYPE_(AB, C, ALPHA, BETA) ALPHA
#define ALPHA_TYPE(...)                 ALPHA_TYPE_(__VA_ARGS__)

#define FORTRAN_GEMM(OP, TYPES, SPELLED, I)                                                        \
    void tb_door_##SPELLED(const char *TA, const char *TB, const I *M, const I *N, const I *K,     \
                           const void *ALPHA, const void *A, const I *LDA, const void *B,          \
                           const I *LDB, const void *BETA, void *C, const I *LDC)                  \
    {                                                                                              \
        typedef void fn(const char *, const char *, const I *, const I *, const I *, const void *, \
                        const void *, const I *, const void *, const I *, const void *, void *,    \
                        const I *, size_t, size_t);                                                \
        const tb_fn direct = tb_cpu[TB_DOOR_##SPELLED].direct;                                     \
        if (run_is_small(*M, *N, *K) && direct != NULL &&                                          \
            !alpha_needs_look(TB_##OP, ALPHA_TYPE(TB_TYPES_##TYPES), ALPHA)) {                     \
            ((fn *)direct)(TA, TB, M, N, K, ALPHA, A, LDA, B, LDB, BETA, C, LDC, 1, 1);            \
            return;                                                                                \
        }                                                                                          \
        static const I none = 0;                                                                   \
        struct tb_call call = HEAD(OP, TYPES, SPELLED, I);                                         \
        fill_gemm(&call, flag_letter(TA), flag_letter(TB), *M, *N, *K, ALPHA, A, *LDA, B, *LDB,    \
                  BETA, C, *LDC);                                                                  \
        TB_SUBMIT(&call, ((fn *)pass.fn)(TA, TB, M, N, pass.k_is_zero ? &none : K, ALPHA, A, LDA,  \
                                         B, LDB, BETA, C, LDC, 1, 1));                             \
    }

#define FORTRAN_STRIDED(OP, TYPES, SPELLED, I)                                                     \
    void tb_door_##SPELLED(const char *TA, const char *TB, const I *M, const I *N, const I *K,     \
                           const void *ALPHA, const void *A, const I *LDA, const I *STRIDEA,       \
                           const void *B, const I *LDB, const I *STRIDEB, const void *BETA,        \
                           void *C, const I *LDC, const I *STRIDEC, const I *COUNT)                \
    {                                                                                              \
        typedef void fn(const char *, const char *, const I *, const I *, const I *, const void *, \
                        const void *, const I *, const I *, const void *, const I *, const I *,    \
                        const void *, void *, const I *, const I *, const I *, size_t, size_t);    \
        static const I none = 0;                                                                   \
        struct tb_call call = HEAD(OP, TYPES, SPELLED, I);                                         \
        fill_gemm(&call, flag_letter(TA), flag_letter(TB), *M, *N, *K, ALPHA, A, *LDA, B, *LDB,    \
                  BETA, C, *LDC);                                                                  \
        fill_strides(&call, *STRIDEA, *STRIDEB, *STRIDEC, *COUNT);                                 \
        TB_SUBMIT(&call,                                                                           \
                  ((fn *)pass.fn)(TA, TB, M, N, pass.k_is_zero ? &none : K, ALPHA, A, LDA,         \
                                  STRIDEA, B, LDB, STRIDEB, BETA, C, LDC, STRIDEC, COUNT, 1, 1));  \
    }

#define FORTRAN_BATCH(OP, TYPES, SPELLED, I)                                                       \
    void tb_door_##SPELLED(const char *TA, const char *TB, const I *M, const I *N, const I *K,     \
                           const void *ALPHA, const void *const *A, const I *LDA,                  \
                           const void *const *B, const I *LDB, const void *BETA, void *const *C,   \
                           const I *LDC, const I *COUNT, const I *SIZES)                           \
    {                                                                                              \
        typedef void fn(const char *, const char *, const I *, const I *, const I *, const void *, \
                        const void *const *, const I *, const void *const *, const I *,            \
                        const void *, void *const *, const I *, const I *, const I *, size_t,      \
                        size_t);                                                                   \
        const struct tb_groups groups = {.head = HEAD(OP, TYPES, SPELLED, I),                      \
                                         .ta = TA,                                                 \
                                         .tb = TB,                                                 \
                                         .m = M,                                                   \
                                         .n = N,                                                   \
                                         .k = K,                                                   \
                                         .lda = LDA,                                               \
                                         .ldb = LDB,                                               \
                                         .ldc = LDC,                                               \
                                         .sizes = SIZES,                                           \
                                         .alpha = ALPHA,                                           \
                                         .beta = BETA,                                             \
                                         .a = A,                                                   \
                                         .b = B,                                                   \
                                         .c = C,                                                   \
                                         .count = *COUNT};                                         \
        const tb_fn to = batch_enter(&groups);                                                     \
        if (to != NULL)                                                                            \
            ((fn *)to)(TA, TB, M, N, K, ALPHA, A, LDA, B, LDB, BETA, C, LDC, COUNT, SIZES, 1, 1);  \
    }

#define FORTRAN_GEMMT(OP, TYPES, SPELLED, I)                                                       \
    void tb_door_##SPELLED(const char *UPLO, const char *TA, const char *TB, const I *N,           \
                           const I *K, const void *ALPHA, const void *A, const I *LDA,             \
                           const void *B, const I *LDB, const void *BETA, void *C, const I *LDC)   \
    {                                                                                              \
        typedef void fn(const char *, const char *, const char *, const I *, const I *,            \
                        const void *, const void *, const I *, const void *, const I *,            \
                        const void *, void *, const I *, size_t, size_t, size_t);                  \
        const tb_fn direct = tb_cpu[TB_DOOR_##SPELLED].direct;                                     \
        if (run_is_small(*N, *N, *K) && direct != NULL &&                                          \
            !alpha_needs_look(TB_##OP, ALPHA_TYPE(TB_TYPES_##TYPES), ALPHA)) {                     \
            ((fn *)direct)(UPLO, TA, TB, N, K, ALPHA, A, LDA, B, LDB, BETA, C, LDC, 1, 1, 1);      \
            return;                                                                                \
        }                                                                                          \
        static const I none = 0;                                                                   \
        struct tb_call call = HEAD(OP, TYPES, SPELLED, I);                                         \
        fill_gemmt(&call, flag_letter(UPLO), flag_letter(TA), flag_letter(TB), *N, *K, ALPHA, A,   \
                   *LDA, B, *LDB, BETA, C, *LDC);                                                  \
        TB_SUBMIT(&call, ((fn *)pass.fn)(UPLO, TA, TB, N, pass.k_is_zero ? &none : K, ALPHA, A,    \
                                         LDA, B, LDB, BETA, C, LDC, 1, 1, 1));                     \
    }

#define FORTRAN_SYMM(OP, TYPES, SPELLED, I)                                                        \
    void tb_door_##SPELLED(const char *SIDE, const char *UPLO, const I *M, const I *N,             \
                           const void *ALPHA, const void *A, const I *LDA, const void *B,          \
                           const I *LDB, const void *BETA, void *C, const I *LDC)                  \
    {                                                                                              \
        typedef void fn(const char *, const char *, const I *, const I *, const void *,            \
                        const void *, const I *, const void *, const I *, const void *, void *,    \
                        const I *, size_t, size_t);                                                \
        const tb_fn direct = tb_cpu[TB_DOOR_##SPELLED].direct;                                     \
        if (run_is_small(*M, *N, *M > *N ? *M : *N) && direct != NULL) {                           \
            ((fn *)direct)(SIDE, UPLO, M, N, ALPHA, A, LDA, B, LDB, BETA, C, LDC, 1, 1);           \
            return;                                                                                \
        }                                                                                          \
        struct tb_call call = HEAD(OP, TYPES, SPELLED, I);                                         \
        fill_symm(&call, flag_letter(SIDE), flag_letter(UPLO), *M, *N, ALPHA, A, *LDA, B, *LDB,    \
                  BETA, C, *LDC);                                                                  \
        TB_SUBMIT(&call,                                                                           \
                  ((fn *)pass.fn)(SIDE, UPLO, M, N, ALPHA, A, LDA, B, LDB, BETA, C, LDC, 1, 1));   \
    }

#define FORTRAN_SYRK(OP, TYPES, SPELLED, I)                                                        \
    void tb_door_##SPELLED(const char *UPLO, const char *TRANS, const I *N, const I *K,            \
                           const void *ALPHA, const void *A, const I *LDA, const void *BETA,       \
                           void *C, const I *LDC)                                                  \
    {                                                                                              \
        typedef void fn(const char *, const char *, const I *, const I *, const void *,            \
                        const void *, const I *, const void *, void *, const I *, size_t, size_t); \
        const tb_fn direct = tb_cpu[TB_DOOR_##SPELLED].direct;                                     \
        if (run_is_small(*N, *N, *K) && direct != NULL) {                                          \
            ((fn *)direct)(UPLO, TRANS, N, K, ALPHA, A, LDA, BETA, C, LDC, 1, 1);                  \
            return;                                                                                \
        }                                                                                          \
        struct tb_call call = HEAD(OP, TYPES, SPELLED, I);                                         \
        fill_syrk(&call, flag_letter(UPLO), flag_letter(TRANS), *N, *K, ALPHA, A, *LDA, BETA, C,   \
                  *LDC);                                                                           \
        TB_SUBMIT(&call, ((fn *)pass.fn)(UPLO, TRANS, N, K, ALPHA, A, LDA, BETA, C, LDC, 1, 1));   \
    }

#define FORTRAN_SYR2K(OP, TYPES, SPELLED, I)                                                       \
    void tb_door_##SPELLED(const char *UPLO, const char *TRANS, const I *N, const I *K,            \
                           const void *ALPHA, const void *A, const I *LDA, const void *B,          \
                           const I *LDB, const void *BETA, void *C, const I *LDC)                  \
    {                                                                                              \
        typedef void fn(const char *, const char *, const I *, const I *, const void *,            \
                        const void *, const I *, const void *, const I *, const void *, void *,    \
                        const I *, size_t, size_t);                                                \
        const tb_fn direct = tb_cpu[TB_DOOR_##SPELLED].direct;                                     \
        if (run_is_small(*N, *N, *K) && direct != NULL) {                                          \
            ((fn *)direct)(UPLO, TRANS, N, K, ALPHA, A, LDA, B, LDB, BETA, C, LDC, 1, 1);          \
            return;                                                                                \
        }                                                                                          \
        struct tb_call call = HEAD(OP, TYPES, SPELLED, I);                                         \
        fill_syr2k(&call, flag_letter(UPLO), flag_letter(TRANS), *N, *K, ALPHA, A, *LDA, B, *LDB,  \
                   BETA, C, *LDC);                                                                 \
        TB_SUBMIT(&call,                                                                           \
                  ((fn *)pass.fn)(UPLO, TRANS, N, K, ALPHA, A, LDA, B, LDB, BETA, C, LDC, 1, 1));  \
    }

#define FORTRAN_TRMM(OP, TYPES, SPELLED, I)                                                        \
    void tb_door_##SPELLED(const char *SIDE, const char *UPLO, const char *TRANS,                  \
                           const char *DIAG, const I *M, const I *N, const void *ALPHA,            \
                           const void *A, const I *LDA, void *B, const I *LDB)                     \
    {                                                                                              \
        typedef void fn(const char *, const char *, const char *, const char *, const I *,         \
                        const I *, const void *, const void *, const I *, void *, const I *,       \
                        size_t, size_t, size_t, size_t);                                           \
        const tb_fn direct = tb_cpu[TB_DOOR_##SPELLED].direct;                                     \
        if (run_is_small(*M, *N, *M > *N ? *M : *N) && direct != NULL) {                           \
            ((fn *)direct)(SIDE, UPLO, TRANS, DIAG, M, N, ALPHA, A, LDA, B, LDB, 1, 1, 1, 1);      \
            return;                                                                                \
        }                                                                                          \
        struct tb_call call = HEAD(OP, TYPES, SPELLED, I);                                         \
        fill_trmm(&call, flag_letter(SIDE), flag_letter(UPLO), flag_letter(TRANS),                 \
                  flag_letter(DIAG), *M, *N, ALPHA, A, *LDA, B, *LDB);                             \
        TB_SUBMIT(&call, ((fn *)pass.fn)(SIDE, UPLO, TRANS, DIAG, M, N, ALPHA, A, LDA, B, LDB, 1,  \
                                         1, 1, 1));                                                \
    }

#define EXPAND_FORTRAN(SHAPE, OP, TYPES, SPELLED, I) FORTRAN_##SHAPE(OP, TYPES, SPELLED, I)
#define EXPAND_CBLAS(SHAPE, OP, TYPES, SPELLED, I)
#define DOOR(SHAPE, OP, NAME, TYPES, SPELLED, I, STYLE) EXPAND_##STYLE(SHAPE, OP, TYPES, SPELLED, I)
#include "doors.def"
