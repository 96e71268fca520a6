/* SPDX-License-Identifier: BSD-3-Clause
 * The descriptor's arithmetic: row-major to column-major, the strict check, flops and bytes.
 * Decides nothing about where a call goes. Pure. */
#include "call.h"
#include <string.h>

size_t call_elem_bytes(enum tb_type type)
{
    static const size_t bytes[TB_TYPES] = {
        [TB_F16] = 2, [TB_BF16] = 2, [TB_F32] = 4, [TB_F64] = 8, [TB_C32] = 8, [TB_C64] = 16};
    return bytes[type];
}

bool call_is_complex(enum tb_type type)
{
    return type == TB_C32 || type == TB_C64;
}

const char *call_type_name(enum tb_type type)
{
    static const char *const name[TB_TYPES] = {
        [TB_F16] = "f16", [TB_BF16] = "bf16", [TB_F32] = "f32",
        [TB_F64] = "f64", [TB_C32] = "c32",   [TB_C64] = "c64"};
    return name[type];
}

const char *call_op_name(enum tb_op op)
{
    static const char *const name[TB_OPS] = {
        [TB_GEMM] = "gemm",   [TB_GEMM3M] = "gemm3m", [TB_GEMMT] = "gemmt", [TB_SYMM] = "symm",
        [TB_HEMM] = "hemm",   [TB_SYRK] = "syrk",     [TB_HERK] = "herk",   [TB_SYR2K] = "syr2k",
        [TB_HER2K] = "her2k", [TB_TRMM] = "trmm",     [TB_TRSM] = "trsm"};
    return name[op];
}

static float bits_to_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

double half_widen(enum tb_type type, uint16_t h)
{
    if (type == TB_BF16)
        return (double)bits_to_float((uint32_t)h << 16);
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t exponent = (h >> 10) & 31u;
    const uint32_t fraction = h & 1023u;
    if (exponent == 31)
        return (double)bits_to_float(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0) {
        const double value = (double)fraction * 0x1p-24;
        return sign ? -value : value;
    }
    return (double)bits_to_float(sign | (exponent + 112) << 23 | fraction << 13);
}

void scalar_widen(enum tb_type type, const union tb_scalar *s, double out[2])
{
    out[0] = out[1] = 0;
    switch (type) {
    case TB_F16:
    case TB_BF16:
        out[0] = half_widen(type, s->h);
        break;
    case TB_C32:
        out[1] = (double)s->f[1];
        out[0] = (double)s->f[0];
        break;
    case TB_F32:
        out[0] = (double)s->f[0];
        break;
    case TB_C64:
        out[1] = s->d[1];
        out[0] = s->d[0];
        break;
    case TB_F64:
    case TB_TYPES:
        out[0] = s->d[0];
        break;
    }
}

bool scalar_is_zero(enum tb_type type, const union tb_scalar *s)
{
    double v[2];
    scalar_widen(type, s, v);
    return v[0] == 0 && v[1] == 0;
}

static void swap_i64(int64_t *x, int64_t *y)
{
    const int64_t t = *x;
    *x = *y;
    *y = t;
}

static void swap_operands(struct tb_call *call)
{
    const void *const a = call->a;
    call->a = call->b;
    call->b = a;
    const void *const *const alist = call->alist;
    call->alist = call->blist;
    call->blist = alist;
    swap_i64(&call->lda, &call->ldb);
    swap_i64(&call->stride_a, &call->stride_b);
    const char ta = call->ta;
    call->ta = call->tb;
    call->tb = ta;
}

static char other_triangle(char uplo)
{
    return uplo == 'U' ? 'L' : uplo == 'L' ? 'U' : uplo;
}

static char other_side(char side)
{
    return side == 'L' ? 'R' : side == 'R' ? 'L' : side;
}

/* The row-major matrix is the transpose of the column-major one in the same memory, so C^T is asked
 * for: (op(A) op(B))^T = op(B)^T op(A)^T. For the rank-k forms A A^T in row-major is A'^T A' of
 * what is stored. */
static char other_trans(const struct tb_call *call)
{
    const bool hermitian = call->op == TB_HERK || call->op == TB_HER2K;
    switch (call->ta) {
    case 'N':
        return hermitian ? 'C' : 'T';
    case 'T':
        return hermitian ? 'T' : 'N'; /* herk 'T' does not exist and must stay wrong */
    case 'C':
        return hermitian || !call_is_complex(call->ab) ? 'N' : 'C'; /* nor does csyrk 'C' */
    default:
        return call->ta;
    }
}

void call_normalize(struct tb_call *call)
{
    if (!call->row_major)
        return;
    call->row_major = false;
    switch (call->op) {
    case TB_GEMM:
    case TB_GEMM3M:
        swap_operands(call);
        swap_i64(&call->m, &call->n);
        break;
    case TB_GEMMT:
        swap_operands(call);
        call->uplo = other_triangle(call->uplo);
        break;
    case TB_SYMM:
    case TB_HEMM:
    case TB_TRMM:
    case TB_TRSM:
        call->side = other_side(call->side);
        call->uplo = other_triangle(call->uplo);
        swap_i64(&call->m, &call->n);
        break;
    case TB_HER2K:
        /* C^T of alpha A B^H + conj(alpha) B A^H swaps the roles of alpha and its conjugate. */
        if (call->alpha_type == TB_C32)
            call->alpha.f[1] = -call->alpha.f[1];
        else
            call->alpha.d[1] = -call->alpha.d[1];
        /* fall through */
    case TB_SYRK:
    case TB_HERK:
    case TB_SYR2K:
        call->uplo = other_triangle(call->uplo);
        call->ta = other_trans(call);
        break;
    case TB_OPS:
        break;
    }
}

static int64_t at_least_one(int64_t x)
{
    return x > 1 ? x : 1;
}

/* 0: a standard flag of op(X). Conjugation without transpose ('R') is an extension of some
 * libraries. */
static int trans_info(char trans, int number)
{
    if (trans == 'N' || trans == 'T' || trans == 'C')
        return 0;
    return trans == 'R' ? -number : number;
}

static int check_gemm(const struct tb_call *c, int first)
{
    /* first: the number of argument ta; gemmt has uplo before it and no m. */
    const bool triangle = c->op == TB_GEMMT;
    const int shift = triangle ? -1 : 0;
    if (triangle && c->uplo != 'U' && c->uplo != 'L')
        return 1;
    const int ta = trans_info(c->ta, first), tb = trans_info(c->tb, first + 1);
    if (ta > 0)
        return ta;
    if (tb > 0)
        return tb;
    if (!triangle && c->m < 0)
        return first + 2;
    if (c->n < 0)
        return first + 3 + shift;
    if (c->k < 0)
        return first + 4 + shift;
    const int64_t m = triangle ? c->n : c->m;
    if (c->lda < at_least_one(c->ta == 'N' || c->ta == 'R' ? m : c->k))
        return first + 7 + shift;
    if (c->ldb < at_least_one(c->tb == 'N' || c->tb == 'R' ? c->k : c->n))
        return first + 9 + shift + (c->form == TB_STRIDED ? 1 : 0);
    if (c->ldc < at_least_one(m))
        return first + 12 + shift + (c->form == TB_STRIDED ? 2 : 0);
    if (c->batch < 0)
        return c->form == TB_STRIDED ? 17 : 15;
    return ta < 0 ? ta : tb;
}

static int check_symm(const struct tb_call *c)
{
    if (c->side != 'L' && c->side != 'R')
        return 1;
    if (c->uplo != 'U' && c->uplo != 'L')
        return 2;
    if (c->m < 0)
        return 3;
    if (c->n < 0)
        return 4;
    if (c->lda < at_least_one(c->side == 'L' ? c->m : c->n))
        return 7;
    if (c->ldb < at_least_one(c->m))
        return 9;
    return c->ldc < at_least_one(c->m) ? 12 : 0;
}

static int check_rank_k(const struct tb_call *c, bool two)
{
    if (c->uplo != 'U' && c->uplo != 'L')
        return 1;
    const bool hermitian = c->op == TB_HERK || c->op == TB_HER2K;
    const bool complex_symmetric = !hermitian && call_is_complex(c->ab);
    const bool standard =
        c->ta == 'N' || (c->ta == 'T' && !hermitian) || (c->ta == 'C' && !complex_symmetric);
    if (!standard)
        return 2;
    if (c->n < 0)
        return 3;
    if (c->k < 0)
        return 4;
    const int64_t rows = at_least_one(c->ta == 'N' ? c->n : c->k);
    if (c->lda < rows)
        return 7;
    if (two && c->ldb < rows)
        return 9;
    return c->ldc < at_least_one(c->n) ? (two ? 12 : 10) : 0;
}

static int check_trmm(const struct tb_call *c)
{
    if (c->side != 'L' && c->side != 'R')
        return 1;
    if (c->uplo != 'U' && c->uplo != 'L')
        return 2;
    const int ta = trans_info(c->ta, 3);
    if (ta > 0)
        return ta;
    if (c->diag != 'U' && c->diag != 'N')
        return 4;
    if (c->m < 0)
        return 5;
    if (c->n < 0)
        return 6;
    if (c->lda < at_least_one(c->side == 'L' ? c->m : c->n))
        return 9;
    if (c->ldc < at_least_one(c->m))
        return 11;
    return ta;
}

int call_check(const struct tb_call *call)
{
    if (call->bad_order)
        return -1;
    int info = 0;
    switch (call->op) {
    case TB_GEMM:
    case TB_GEMM3M:
        info = check_gemm(call, 1);
        break;
    case TB_GEMMT:
        info = check_gemm(call, 2);
        break;
    case TB_SYMM:
    case TB_HEMM:
        info = check_symm(call);
        break;
    case TB_SYRK:
    case TB_HERK:
        info = check_rank_k(call, false);
        break;
    case TB_SYR2K:
    case TB_HER2K:
        info = check_rank_k(call, true);
        break;
    case TB_TRMM:
    case TB_TRSM:
        info = check_trmm(call);
        break;
    case TB_OPS:
        break;
    }
    return info;
}

static bool has_k(enum tb_op op)
{
    return op != TB_SYMM && op != TB_HEMM && op != TB_TRMM && op != TB_TRSM;
}

bool call_is_trivial(const struct tb_call *call)
{
    return call->m <= 0 || call->n <= 0 || call->batch <= 0 || (has_k(call->op) && call->k <= 0) ||
           scalar_is_zero(call->alpha_type, &call->alpha);
}

bool call_is_triangular(const struct tb_call *call)
{
    return call->op == TB_GEMMT || call->op == TB_SYRK || call->op == TB_HERK ||
           call_is_rank_2k(call);
}

bool call_is_rank_2k(const struct tb_call *call)
{
    return call->op == TB_SYR2K || call->op == TB_HER2K;
}

bool call_has_b(const struct tb_call *call)
{
    return call->op != TB_SYRK && call->op != TB_HERK && call->op != TB_TRMM && call->op != TB_TRSM;
}

void call_as_product(struct tb_call *call)
{
    const bool one = call->op == TB_SYRK || call->op == TB_HERK;
    const bool hermitian = call->op == TB_HERK || call->op == TB_HER2K;
    if (!one && !call_is_rank_2k(call))
        return;
    if (one) {
        call->b = call->a;
        call->ldb = call->lda;
        call->where[1] = call->where[0];
    }
    call->tb = call->ta != 'N' ? 'N' : hermitian ? 'C' : 'T';
}

double call_flops(const struct tb_call *call)
{
    const double m = (double)call->m, n = (double)call->n, k = (double)call->k;
    const double one = call_is_complex(call->ab) ? 4.0 : 1.0;
    const double triangle = call->side == 'L' ? m : n;
    double flops = 0;
    switch (call->op) {
    case TB_GEMM:
    case TB_GEMM3M:
        flops = 2 * m * n * k;
        break;
    case TB_GEMMT:
    case TB_SYRK:
    case TB_HERK:
        flops = n * (n + 1) * k;
        break;
    case TB_SYR2K:
    case TB_HER2K:
        flops = 2 * n * (n + 1) * k;
        break;
    case TB_SYMM:
    case TB_HEMM:
        flops = 2 * m * n * triangle;
        break;
    case TB_TRMM:
    case TB_TRSM:
        flops = m * n * triangle;
        break;
    case TB_OPS:
        break;
    }
    return flops * one * (double)call->batch;
}

void call_stored_a(const struct tb_call *call, int64_t *rows, int64_t *cols)
{
    const bool square = !has_k(call->op);
    const int64_t order = call->side == 'L' ? call->m : call->n;
    const bool plain = call->ta == 'N' || call->ta == 'R';
    *rows = square ? order : plain ? call->m : call->k;
    *cols = square ? order : plain ? call->k : call->m;
}

void call_stored_b(const struct tb_call *call, int64_t *rows, int64_t *cols)
{
    const bool rank2 = call->op == TB_SYR2K || call->op == TB_HER2K;
    if (rank2) {
        call_stored_a(call, rows, cols);
        return;
    }
    const bool plain = call->tb == 'N' || call->tb == 'R';
    const bool square = !has_k(call->op);
    *rows = square ? call->m : plain ? call->k : call->n;
    *cols = square ? call->n : plain ? call->n : call->k;
}

static double matrix_bytes(int64_t rows, int64_t cols, enum tb_type type)
{
    return (double)rows * (double)cols * (double)call_elem_bytes(type);
}

/* The diagonal and one side of it. */
static double triangle_bytes(int64_t order, enum tb_type type)
{
    return (double)order * ((double)order + 1) / 2 * (double)call_elem_bytes(type);
}

static double c_bytes(const struct tb_call *call)
{
    return call_is_triangular(call) ? triangle_bytes(call->n, call->c_type)
                                    : matrix_bytes(call->m, call->n, call->c_type);
}

double call_bytes_out(const struct tb_call *call)
{
    return c_bytes(call) * (double)call->batch;
}

double call_bytes_in(const struct tb_call *call)
{
    int64_t rows, cols;
    call_stored_a(call, &rows, &cols);
    double bytes =
        has_k(call->op) ? matrix_bytes(rows, cols, call->ab) : triangle_bytes(rows, call->ab);
    if (call_has_b(call)) {
        call_stored_b(call, &rows, &cols);
        bytes += matrix_bytes(rows, cols, call->ab);
    }
    const bool in_place = call->op == TB_TRMM || call->op == TB_TRSM;
    if (in_place || !scalar_is_zero(call->beta_type, &call->beta))
        bytes += c_bytes(call);
    return bytes * (double)call->batch;
}

/* i * stride may exceed 2^31 elements, and a matrix of no elements may lie at NULL: integer
 * arithmetic. */
static uintptr_t item(const void *base, int64_t i, int64_t stride, enum tb_type type)
{
    return (uintptr_t)base + (uintptr_t)(i * stride * (int64_t)call_elem_bytes(type));
}

const void *call_a(const struct tb_call *call, int64_t i)
{
    return call->alist ? call->alist[i] : (const void *)item(call->a, i, call->stride_a, call->ab);
}

const void *call_b(const struct tb_call *call, int64_t i)
{
    return call->blist ? call->blist[i] : (const void *)item(call->b, i, call->stride_b, call->ab);
}

void *call_c(const struct tb_call *call, int64_t i)
{
    return call->clist ? call->clist[i] : (void *)item(call->c, i, call->stride_c, call->c_type);
}
