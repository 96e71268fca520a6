/* SPDX-License-Identifier: BSD-3-Clause
 * The CBLAS doors: an order in front, flags as enums (int), sizes and real scalars by value,
 * complex scalars by pointer, 16-bit scalars as the bits in a uint16_t. As in fortran.c a door
 * decides nothing. */
#include "doors.h"
#include "fill.h"

#define HEAD(OP, TYPES, SPELLED, I)                                                                \
    call_head(#SPELLED, &tb_cpu[TB_DOOR_##SPELLED], TB_##OP, true, sizeof(I) == 8, TB_TYPES_##TYPES)
#define ALPHA_TYPE_(AB, C, ALPHA, BETA) ALPHA
#define ALPHA_TYPE(...)                 ALPHA_TYPE_(__VA_ARGS__)

static inline void set_order(struct tb_call *call, int order)
{
    call->row_major = order == TB_ROW_MAJOR;
    call->bad_order = order != TB_ROW_MAJOR && order != TB_COL_MAJOR;
}

#define CBLAS_GEMM(OP, TYPES, SPELLED, I)                                                          \
    void tb_door_##SPELLED(int ORDER, int TA, int TB, I M, I N, I K, TB_ALPHA_##TYPES ALPHA,       \
                           const void *A, I LDA, const void *B, I LDB, TB_BETA_##TYPES BETA,       \
                           void *C, I LDC)                                                         \
    {                                                                                              \
        typedef void fn(int, int, int, I, I, I, TB_ALPHA_##TYPES, const void *, I, const void *,   \
                        I, TB_BETA_##TYPES, void *, I);                                            \
        const tb_fn direct = tb_cpu[TB_DOOR_##SPELLED].direct;                                     \
        if (run_is_small(M, N, K) && direct != NULL &&                                             \
            !alpha_needs_look(TB_##OP, ALPHA_TYPE(TB_TYPES_##TYPES), TB_ADDRESS(ALPHA))) {         \
            ((fn *)direct)(ORDER, TA, TB, M, N, K, ALPHA, A, LDA, B, LDB, BETA, C, LDC);           \
            return;                                                                                \
        }                                                                                          \
        struct tb_call call = HEAD(OP, TYPES, SPELLED, I);                                         \
        set_order(&call, ORDER);                                                                   \
        fill_gemm(&call, CBLAS_TRANS_LETTER(TA), CBLAS_TRANS_LETTER(TB), M, N, K,                  \
                  TB_ADDRESS(ALPHA), A, LDA, B, LDB, TB_ADDRESS(BETA), C, LDC);                    \
        TB_SUBMIT(&call, ((fn *)pass.fn)(ORDER, TA, TB, M, N, pass.k_is_zero ? 0 : K, ALPHA, A,    \
                                         LDA, B, LDB, BETA, C, LDC));                              \
    }

#define CBLAS_STRIDED(OP, TYPES, SPELLED, I)                                                       \
    void tb_door_##SPELLED(int ORDER, int TA, int TB, I M, I N, I K, TB_ALPHA_##TYPES ALPHA,       \
                           const void *A, I LDA, I STRIDEA, const void *B, I LDB, I STRIDEB,       \
                           TB_BETA_##TYPES BETA, void *C, I LDC, I STRIDEC, I COUNT)               \
    {                                                                                              \
        typedef void fn(int, int, int, I, I, I, TB_ALPHA_##TYPES, const void *, I, I,              \
                        const void *, I, I, TB_BETA_##TYPES, void *, I, I, I);                     \
        struct tb_call call = HEAD(OP, TYPES, SPELLED, I);                                         \
        set_order(&call, ORDER);                                                                   \
        fill_gemm(&call, CBLAS_TRANS_LETTER(TA), CBLAS_TRANS_LETTER(TB), M, N, K,                  \
                  TB_ADDRESS(ALPHA), A, LDA, B, LDB, TB_ADDRESS(BETA), C, LDC);                    \
        fill_strides(&call, STRIDEA, STRIDEB, STRIDEC, COUNT);                                     \
        TB_SUBMIT(&call,                                                                           \
                  ((fn *)pass.fn)(ORDER, TA, TB, M, N, pass.k_is_zero ? 0 : K, ALPHA, A, LDA,      \
                                  STRIDEA, B, LDB, STRIDEB, BETA, C, LDC, STRIDEC, COUNT));        \
    }

#define CBLAS_GEMMT(OP, TYPES, SPELLED, I)                                                         \
    void tb_door_##SPELLED(int ORDER, int UPLO, int TA, int TB, I N, I K, TB_ALPHA_##TYPES ALPHA,  \
                           const void *A, I LDA, const void *B, I LDB, TB_BETA_##TYPES BETA,       \
                           void *C, I LDC)                                                         \
    {                                                                                              \
        typedef void fn(int, int, int, int, I, I, TB_ALPHA_##TYPES, const void *, I, const void *, \
                        I, TB_BETA_##TYPES, void *, I);                                            \
        const tb_fn direct = tb_cpu[TB_DOOR_##SPELLED].direct;                                     \
        if (run_is_small(N, N, K) && direct != NULL &&                                             \
            !alpha_needs_look(TB_##OP, ALPHA_TYPE(TB_TYPES_##TYPES), TB_ADDRESS(ALPHA))) {         \
            ((fn *)direct)(ORDER, UPLO, TA, TB, N, K, ALPHA, A, LDA, B, LDB, BETA, C, LDC);        \
            return;                                                                                \
        }                                                                                          \
        struct tb_call call = HEAD(OP, TYPES, SPELLED, I);                                         \
        set_order(&call, ORDER);                                                                   \
        fill_gemmt(&call, CBLAS_UPLO_LETTER(UPLO), CBLAS_TRANS_LETTER(TA), CBLAS_TRANS_LETTER(TB), \
                   N, K, TB_ADDRESS(ALPHA), A, LDA, B, LDB, TB_ADDRESS(BETA), C, LDC);             \
        TB_SUBMIT(&call, ((fn *)pass.fn)(ORDER, UPLO, TA, TB, N, pass.k_is_zero ? 0 : K, ALPHA, A, \
                                         LDA, B, LDB, BETA, C, LDC));                              \
    }

#define CBLAS_SYMM(OP, TYPES, SPELLED, I)                                                          \
    void tb_door_##SPELLED(int ORDER, int SIDE, int UPLO, I M, I N, TB_ALPHA_##TYPES ALPHA,        \
                           const void *A, I LDA, const void *B, I LDB, TB_BETA_##TYPES BETA,       \
                           void *C, I LDC)                                                         \
    {                                                                                              \
        typedef void fn(int, int, int, I, I, TB_ALPHA_##TYPES, const void *, I, const void *, I,   \
                        TB_BETA_##TYPES, void *, I);                                               \
        const tb_fn direct = tb_cpu[TB_DOOR_##SPELLED].direct;                                     \
        if (run_is_small(M, N, M > N ? M : N) && direct != NULL) {                                 \
            ((fn *)direct)(ORDER, SIDE, UPLO, M, N, ALPHA, A, LDA, B, LDB, BETA, C, LDC);          \
            return;                                                                                \
        }                                                                                          \
        struct tb_call call = HEAD(OP, TYPES, SPELLED, I);                                         \
        set_order(&call, ORDER);                                                                   \
        fill_symm(&call, CBLAS_SIDE_LETTER(SIDE), CBLAS_UPLO_LETTER(UPLO), M, N,                   \
                  TB_ADDRESS(ALPHA), A, LDA, B, LDB, TB_ADDRESS(BETA), C, LDC);                    \
        TB_SUBMIT(&call,                                                                           \
                  ((fn *)pass.fn)(ORDER, SIDE, UPLO, M, N, ALPHA, A, LDA, B, LDB, BETA, C, LDC));  \
    }

#define CBLAS_SYRK(OP, TYPES, SPELLED, I)                                                          \
    void tb_door_##SPELLED(int ORDER, int UPLO, int TRANS, I N, I K, TB_ALPHA_##TYPES ALPHA,       \
                           const void *A, I LDA, TB_BETA_##TYPES BETA, void *C, I LDC)             \
    {                                                                                              \
        typedef void fn(int, int, int, I, I, TB_ALPHA_##TYPES, const void *, I, TB_BETA_##TYPES,   \
                        void *, I);                                                                \
        const tb_fn direct = tb_cpu[TB_DOOR_##SPELLED].direct;                                     \
        if (run_is_small(N, N, K) && direct != NULL) {                                             \
            ((fn *)direct)(ORDER, UPLO, TRANS, N, K, ALPHA, A, LDA, BETA, C, LDC);                 \
            return;                                                                                \
        }                                                                                          \
        struct tb_call call = HEAD(OP, TYPES, SPELLED, I);                                         \
        set_order(&call, ORDER);                                                                   \
        fill_syrk(&call, CBLAS_UPLO_LETTER(UPLO), CBLAS_TRANS_LETTER(TRANS), N, K,                 \
                  TB_ADDRESS(ALPHA), A, LDA, TB_ADDRESS(BETA), C, LDC);                            \
        TB_SUBMIT(&call, ((fn *)pass.fn)(ORDER, UPLO, TRANS, N, K, ALPHA, A, LDA, BETA, C, LDC));  \
    }

#define CBLAS_SYR2K(OP, TYPES, SPELLED, I)                                                         \
    void tb_door_##SPELLED(int ORDER, int UPLO, int TRANS, I N, I K, TB_ALPHA_##TYPES ALPHA,       \
                           const void *A, I LDA, const void *B, I LDB, TB_BETA_##TYPES BETA,       \
                           void *C, I LDC)                                                         \
    {                                                                                              \
        typedef void fn(int, int, int, I, I, TB_ALPHA_##TYPES, const void *, I, const void *, I,   \
                        TB_BETA_##TYPES, void *, I);                                               \
        const tb_fn direct = tb_cpu[TB_DOOR_##SPELLED].direct;                                     \
        if (run_is_small(N, N, K) && direct != NULL) {                                             \
            ((fn *)direct)(ORDER, UPLO, TRANS, N, K, ALPHA, A, LDA, B, LDB, BETA, C, LDC);         \
            return;                                                                                \
        }                                                                                          \
        struct tb_call call = HEAD(OP, TYPES, SPELLED, I);                                         \
        set_order(&call, ORDER);                                                                   \
        fill_syr2k(&call, CBLAS_UPLO_LETTER(UPLO), CBLAS_TRANS_LETTER(TRANS), N, K,                \
                   TB_ADDRESS(ALPHA), A, LDA, B, LDB, TB_ADDRESS(BETA), C, LDC);                   \
        TB_SUBMIT(&call,                                                                           \
                  ((fn *)pass.fn)(ORDER, UPLO, TRANS, N, K, ALPHA, A, LDA, B, LDB, BETA, C, LDC)); \
    }

#define CBLAS_TRMM(OP, TYPES, SPELLED, I)                                                          \
    void tb_door_##SPELLED(int ORDER, int SIDE, int UPLO, int TRANS, int DIAG, I M, I N,           \
                           TB_ALPHA_##TYPES ALPHA, const void *A, I LDA, void *B, I LDB)           \
    {                                                                                              \
        typedef void fn(int, int, int, int, int, I, I, TB_ALPHA_##TYPES, const void *, I, void *,  \
                        I);                                                                        \
        const tb_fn direct = tb_cpu[TB_DOOR_##SPELLED].direct;                                     \
        if (run_is_small(M, N, M > N ? M : N) && direct != NULL) {                                 \
            ((fn *)direct)(ORDER, SIDE, UPLO, TRANS, DIAG, M, N, ALPHA, A, LDA, B, LDB);           \
            return;                                                                                \
        }                                                                                          \
        struct tb_call call = HEAD(OP, TYPES, SPELLED, I);                                         \
        set_order(&call, ORDER);                                                                   \
        fill_trmm(&call, CBLAS_SIDE_LETTER(SIDE), CBLAS_UPLO_LETTER(UPLO),                         \
                  CBLAS_TRANS_LETTER(TRANS), CBLAS_DIAG_LETTER(DIAG), M, N, TB_ADDRESS(ALPHA), A,  \
                  LDA, B, LDB);                                                                    \
        TB_SUBMIT(&call,                                                                           \
                  ((fn *)pass.fn)(ORDER, SIDE, UPLO, TRANS, DIAG, M, N, ALPHA, A, LDA, B, LDB));   \
    }

#define CBLAS_BATCH(OP, TYPES, SPELLED, I)                                                         \
    void tb_door_##SPELLED(int ORDER, const int *TA, const int *TB, const I *M, const I *N,        \
                           const I *K, const void *ALPHA, const void *const *A, const I *LDA,      \
                           const void *const *B, const I *LDB, const void *BETA, void *const *C,   \
                           const I *LDC, I COUNT, const I *SIZES)                                  \
    {                                                                                              \
        typedef void fn(int, const int *, const int *, const I *, const I *, const I *,            \
                        const void *, const void *const *, const I *, const void *const *,         \
                        const I *, const void *, void *const *, const I *, I, const I *);          \
        struct tb_groups groups = {.head = HEAD(OP, TYPES, SPELLED, I),                            \
                                   .ta = TA,                                                       \
                                   .tb = TB,                                                       \
                                   .m = M,                                                         \
                                   .n = N,                                                         \
                                   .k = K,                                                         \
                                   .lda = LDA,                                                     \
                                   .ldb = LDB,                                                     \
                                   .ldc = LDC,                                                     \
                                   .sizes = SIZES,                                                 \
                                   .alpha = ALPHA,                                                 \
                                   .beta = BETA,                                                   \
                                   .a = A,                                                         \
                                   .b = B,                                                         \
                                   .c = C,                                                         \
                                   .count = COUNT};                                                \
        set_order(&groups.head, ORDER);                                                            \
        const tb_fn to = batch_enter(&groups);                                                     \
        if (to != NULL)                                                                            \
            ((fn *)to)(ORDER, TA, TB, M, N, K, ALPHA, A, LDA, B, LDB, BETA, C, LDC, COUNT, SIZES); \
    }

#define EXPAND_CBLAS(SHAPE, OP, TYPES, SPELLED, I) CBLAS_##SHAPE(OP, TYPES, SPELLED, I)
#define EXPAND_FORTRAN(SHAPE, OP, TYPES, SPELLED, I)
#define DOOR(SHAPE, OP, NAME, TYPES, SPELLED, I, STYLE) EXPAND_##STYLE(SHAPE, OP, TYPES, SPELLED, I)
#include "doors.def"
