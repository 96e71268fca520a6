/* SPDX-License-Identifier: BSD-3-Clause
 * Calls made from a descriptor: through the CPU BLAS of the call, or through the plain Fortran
 * routines of whatever CPU BLAS there is. Does not decide where a call goes, and knows nothing of
 * re-entry. x86-64 only, as the doors are: integers are passed in 64 bits also to 32-bit routines,
 * which read the low half of the register, stack slot or memory word. */
#include "fallback.h"
#include "base.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TB_TRIANGLE_BLOCK = 64, TB_COPY_BLOCK = 256, TB_SPARE_BLOCK = 8, TB_PLAIN_BLOCK = 1 << 30 };

static int64_t min_i64(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

static int64_t max_i64(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

/* ---- The plain routines ---- */

struct base {
    tb_fn fn;
    bool wide;
};

static struct base find_base(enum tb_op op, enum tb_type type)
{
    static const char letters[TB_TYPES] = {
        [TB_F32] = 's', [TB_F64] = 'd', [TB_C32] = 'c', [TB_C64] = 'z'};
    static const struct {
        const char *format;
        bool wide;
    } spellings[] = {{"%c%s_", false},
                     {"%c%s_64_", true},
                     {"%c%s64_", true},
                     {"scipy_%c%s_", false},
                     {"scipy_%c%s_64_", true}};
    const char *routine = op == TB_GEMM3M ? "gemm" : call_op_name(op);
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        char name[32];
        snprintf(name, sizeof name, spellings[i].format, letters[type], routine);
        struct tb_found found = fallback_find(name, NULL, true);
        if (found.fn)
            return (struct base){found.fn, spellings[i].wide || found.wide};
    }
    return (struct base){0};
}

static struct base base_of(enum tb_op op, enum tb_type type)
{
    static struct {
        _Atomic(tb_fn) fn;
        atomic_bool wide;
    } known[TB_OPS][TB_TYPES];
    tb_fn fn = atomic_load_explicit(&known[op][type].fn, memory_order_acquire);
    if (fn)
        return (struct base){fn, atomic_load_explicit(&known[op][type].wide, memory_order_relaxed)};
    struct base base = find_base(op, type);
    if (base.fn) {
        atomic_store_explicit(&known[op][type].wide, base.wide, memory_order_relaxed);
        atomic_store_explicit(&known[op][type].fn, base.fn, memory_order_release);
    }
    return base;
}

/* ---- Argument lists ---- */

typedef void tb_gemm_f(const char *, const char *, const int64_t *, const int64_t *,
                       const int64_t *, const void *, const void *, const int64_t *, const void *,
                       const int64_t *, const void *, void *, const int64_t *, size_t, size_t);
typedef void tb_symm_f(const char *, const char *, const int64_t *, const int64_t *, const void *,
                       const void *, const int64_t *, const void *, const int64_t *, const void *,
                       void *, const int64_t *, size_t, size_t);
typedef void tb_syrk_f(const char *, const char *, const int64_t *, const int64_t *, const void *,
                       const void *, const int64_t *, const void *, void *, const int64_t *, size_t,
                       size_t);
typedef void tb_trmm_f(const char *, const char *, const char *, const char *, const int64_t *,
                       const int64_t *, const void *, const void *, const int64_t *, void *,
                       const int64_t *, size_t, size_t, size_t, size_t);

static void fortran(tb_fn fn, const struct tb_call *x)
{
    switch (x->op) {
    case TB_GEMM:
    case TB_GEMM3M:
    case TB_GEMMT:
        ((tb_gemm_f *)fn)(&x->ta, &x->tb, &x->m, &x->n, &x->k, &x->alpha, x->a, &x->lda, x->b,
                          &x->ldb, &x->beta, x->c, &x->ldc, 1, 1);
        break;
    case TB_SYMM:
    case TB_HEMM:
        ((tb_symm_f *)fn)(&x->side, &x->uplo, &x->m, &x->n, &x->alpha, x->a, &x->lda, x->b, &x->ldb,
                          &x->beta, x->c, &x->ldc, 1, 1);
        break;
    case TB_SYRK:
    case TB_HERK:
        ((tb_syrk_f *)fn)(&x->uplo, &x->ta, &x->n, &x->k, &x->alpha, x->a, &x->lda, &x->beta, x->c,
                          &x->ldc, 1, 1);
        break;
    case TB_SYR2K:
    case TB_HER2K:
        ((tb_symm_f *)fn)(&x->uplo, &x->ta, &x->n, &x->k, &x->alpha, x->a, &x->lda, x->b, &x->ldb,
                          &x->beta, x->c, &x->ldc, 1, 1);
        break;
    case TB_TRMM:
    case TB_TRSM:
        ((tb_trmm_f *)fn)(&x->side, &x->uplo, &x->ta, &x->diag, &x->m, &x->n, &x->alpha, x->a,
                          &x->lda, x->c, &x->ldc, 1, 1, 1, 1);
        break;
    case TB_OPS:
        break;
    }
}

static int cblas_trans(char letter)
{
    return letter == 'N' ? 111 : letter == 'T' ? 112 : letter == 'C' ? 113 : 114;
}

typedef void tb_gemm_by_float(int, int, int, int64_t, int64_t, int64_t, float, const void *,
                              int64_t, const void *, int64_t, float, void *, int64_t);
typedef void tb_gemm_by_double(int, int, int, int64_t, int64_t, int64_t, double, const void *,
                               int64_t, const void *, int64_t, double, void *, int64_t);
typedef void tb_gemm_by_bits(int, int, int, int64_t, int64_t, int64_t, uint16_t, const void *,
                             int64_t, const void *, int64_t, uint16_t, void *, int64_t);
typedef void tb_gemm_by_address(int, int, int, int64_t, int64_t, int64_t, const void *,
                                const void *, int64_t, const void *, int64_t, const void *, void *,
                                int64_t);

static void cblas_gemm(tb_fn fn, const struct tb_call *x)
{
    int ta = cblas_trans(x->ta), tb = cblas_trans(x->tb);
    switch (x->alpha_type) {
    case TB_F32:
        ((tb_gemm_by_float *)fn)(TB_COL_MAJOR, ta, tb, x->m, x->n, x->k, x->alpha.f[0], x->a,
                                 x->lda, x->b, x->ldb, x->beta.f[0], x->c, x->ldc);
        break;
    case TB_F64:
        ((tb_gemm_by_double *)fn)(TB_COL_MAJOR, ta, tb, x->m, x->n, x->k, x->alpha.d[0], x->a,
                                  x->lda, x->b, x->ldb, x->beta.d[0], x->c, x->ldc);
        break;
    case TB_F16:
    case TB_BF16:
        ((tb_gemm_by_bits *)fn)(TB_COL_MAJOR, ta, tb, x->m, x->n, x->k, x->alpha.h, x->a, x->lda,
                                x->b, x->ldb, x->beta.h, x->c, x->ldc);
        break;
    case TB_C32:
    case TB_C64:
        ((tb_gemm_by_address *)fn)(TB_COL_MAJOR, ta, tb, x->m, x->n, x->k, &x->alpha, x->a, x->lda,
                                   x->b, x->ldb, &x->beta, x->c, x->ldc);
        break;
    case TB_TYPES:
        break;
    }
}

/* ---- One product ---- */

static bool is_gemm(enum tb_op op)
{
    return op == TB_GEMM || op == TB_GEMM3M;
}

/* OpenBLAS's kernels for small real matrices read A and B even if alpha is 0; with k = 0 nobody
 * does. */
static struct tb_call without_ab(const struct tb_call *call)
{
    struct tb_call copy = *call;
    if (is_gemm(call->op) && scalar_is_zero(call->alpha_type, &call->alpha))
        copy.k = 0;
    return copy;
}

static bool fits_int32(const struct tb_call *x)
{
    int64_t most = max_i64(max_i64(x->m, x->n), max_i64(x->k, x->ldc));
    return max_i64(most, max_i64(x->lda, x->ldb)) <= INT32_MAX;
}

/* On integers: an operand that is not read may be NULL. */
static const void *offset(const void *base, int64_t elems, enum tb_type type)
{
    return (const void *)((uintptr_t)base + (uintptr_t)(elems * (int64_t)call_elem_bytes(type)));
}

static bool is_plain(char trans)
{
    return trans == 'N' || trans == 'R';
}

/* The part of a GEMM that makes rows i.. and columns j.. of C from l.. of k. */
static struct tb_call part_of(const struct tb_call *call, const struct tb_rect *rect, int64_t l,
                              int64_t k)
{
    int64_t i = rect->i0, j = rect->j0;
    struct tb_call part = *call;
    part.m = rect->m;
    part.n = rect->n;
    part.k = k;
    part.a = offset(call->a, is_plain(call->ta) ? i + l * call->lda : l + i * call->lda, call->ab);
    part.b = offset(call->b, is_plain(call->tb) ? l + j * call->ldb : j + l * call->ldb, call->ab);
    part.c = (void *)(uintptr_t)offset(call->c, i + j * call->ldc, call->c_type);
    return part;
}

static void copy_matrix(void *to, int64_t ldto, const void *from, int64_t ldfrom, int64_t rows,
                        int64_t cols, size_t bytes)
{
    for (int64_t j = 0; rows > 0 && j < cols; j++)
        memcpy((char *)to + (size_t)(j * ldto) * bytes,
               (const char *)from + (size_t)(j * ldfrom) * bytes, (size_t)rows * bytes);
}

/* Puts an operand with a leading dimension beyond 2^31 into `scratch`. */
static void pack(const void **x, int64_t *ld, int64_t rows, int64_t cols, void *scratch,
                 size_t bytes)
{
    if (*ld <= INT32_MAX)
        return;
    copy_matrix(scratch, rows, *x, *ld, rows, cols, bytes);
    *x = scratch;
    *ld = max_i64(rows, 1);
}

static void set_one(union tb_scalar *s, enum tb_type type)
{
    *s = (union tb_scalar){0};
    if (type == TB_F64 || type == TB_C64)
        s->d[0] = 1;
    else
        s->f[0] = 1;
}

/* Room for three operands of one block. */
struct scratch {
    char *bytes;
    int64_t side;
};

/* One block of a GEMM, small enough to be copied where a leading dimension asks for it. */
static void narrow_block(tb_fn fn, struct tb_call *part, const struct scratch *scratch)
{
    size_t bytes = call_elem_bytes(part->ab);
    size_t block = (size_t)(scratch->side * scratch->side) * bytes;
    bool plain_a = is_plain(part->ta), plain_b = is_plain(part->tb), far_c = part->ldc > INT32_MAX;
    void *c = part->c;
    int64_t ldc = part->ldc;
    pack(&part->a, &part->lda, plain_a ? part->m : part->k, plain_a ? part->k : part->m,
         scratch->bytes, bytes);
    pack(&part->b, &part->ldb, plain_b ? part->k : part->n, plain_b ? part->n : part->k,
         scratch->bytes + block, bytes);
    if (far_c) {
        part->c = scratch->bytes + 2 * block;
        part->ldc = part->m;
        if (!scalar_is_zero(part->beta_type, &part->beta))
            copy_matrix(part->c, part->m, c, ldc, part->m, part->n, bytes);
    }
    fortran(fn, part);
    if (far_c)
        copy_matrix(c, ldc, part->c, part->m, part->m, part->n, bytes);
}

static void narrow_blocks(tb_fn fn, const struct tb_call *call, const struct scratch *scratch)
{
    int64_t side = scratch->side;
    for (int64_t j = 0; j < call->n; j += side)
        for (int64_t i = 0; i < call->m; i += side) {
            struct tb_rect rect = {
                .i0 = i, .j0 = j, .m = min_i64(side, call->m - i), .n = min_i64(side, call->n - j)};
            int64_t l = 0;
            do {
                struct tb_call part = part_of(call, &rect, l, min_i64(side, call->k - l));
                if (l > 0)
                    set_one(&part.beta, part.beta_type);
                narrow_block(fn, &part, scratch);
                l += side;
            } while (l < call->k);
        }
}

/* A GEMM with numbers beyond 2^31 through a routine with 32-bit integers. */
static void narrow_gemm(tb_fn fn, const struct tb_call *call)
{
    char spare[3 * TB_SPARE_BLOCK * TB_SPARE_BLOCK * 16];
    bool far = max_i64(max_i64(call->lda, call->ldb), call->ldc) > INT32_MAX;
    size_t square = (size_t)TB_COPY_BLOCK * TB_COPY_BLOCK * call_elem_bytes(call->ab);
    char *memory = far ? malloc(3 * square) : NULL;
    struct scratch scratch = {memory, far ? TB_COPY_BLOCK : TB_PLAIN_BLOCK};
    if (far && !memory)
        scratch = (struct scratch){spare, TB_SPARE_BLOCK};
    narrow_blocks(fn, call, &scratch);
    free(memory);
}

/* ---- The other routines with numbers beyond 2^31 ---- */

static bool is_rank_k(enum tb_op op)
{
    return op == TB_SYRK || op == TB_HERK || op == TB_SYR2K || op == TB_HER2K;
}

/* A compact copy of an operand with a far leading dimension, replacing it; NULL: left as it was, or
 * (*ld still far) no memory. uplo: only that triangle may be read. */
static void *compact(const void **x, int64_t *ld, int64_t rows, int64_t cols, char uplo,
                     size_t bytes)
{
    char *copy = *ld > INT32_MAX ? malloc((size_t)(rows * cols) * bytes + 1) : NULL;
    if (!copy)
        return NULL;
    for (int64_t j = 0; j < cols; j++) {
        int64_t from = uplo == 'L' ? j : 0, to = uplo == 'U' ? min_i64(j + 1, rows) : rows;
        if (from < to)
            memcpy(copy + (size_t)(from + j * rows) * bytes,
                   (const char *)*x + (size_t)(from + j * *ld) * bytes,
                   (size_t)(to - from) * bytes);
    }
    *x = copy;
    *ld = max_i64(rows, 1);
    return copy;
}

static void write_back(const struct tb_call *call, const struct tb_call *compacted)
{
    size_t bytes = call_elem_bytes(call->c_type);
    char uplo = is_rank_k(call->op) ? call->uplo : 0;
    for (int64_t j = 0; j < call->n; j++) {
        int64_t from = uplo == 'L' ? j : 0, to = uplo == 'U' ? j + 1 : call->m;
        memcpy((char *)call->c + (size_t)(from + j * call->ldc) * bytes,
               (const char *)compacted->c + (size_t)(from + j * compacted->ldc) * bytes,
               (size_t)(to - from) * bytes);
    }
}

/* Sizes fit, leading dimensions may not. */
static bool compacted_call(tb_fn fn, const struct tb_call *call)
{
    struct tb_call near = *call;
    size_t bytes = call_elem_bytes(call->ab);
    bool rank = is_rank_k(call->op);
    const void *c = call->c;
    int64_t rows, cols;
    call_stored_a(call, &rows, &cols);
    void *a_copy = compact(&near.a, &near.lda, rows, cols, rank ? 0 : call->uplo, bytes);
    call_stored_b(call, &rows, &cols);
    void *b_copy = call->b ? compact(&near.b, &near.ldb, rows, cols, 0, bytes) : NULL;
    void *c_copy = compact(&c, &near.ldc, call->m, call->n, rank ? call->uplo : 0, bytes);
    near.ldb = call->b ? near.ldb : 0;
    bool ok = fits_int32(&near);
    if (c_copy)
        near.c = c_copy;
    if (ok)
        fortran(fn, &near);
    if (ok && c_copy)
        write_back(call, &near);
    free(a_copy);
    free(b_copy);
    free(c_copy);
    return ok;
}

/* Cut along the one direction that may be long: k of the rank-k forms, the columns (side L) or rows
 * (side R) of the others. The order of a triangle cannot be beyond 2^31 in any memory. */
static bool narrow_call(tb_fn fn, const struct tb_call *call)
{
    bool rank = is_rank_k(call->op), left = call->side == 'L', ok = true;
    bool far = max_i64(max_i64(call->lda, call->ldb), call->ldc) > INT32_MAX;
    int64_t length = rank ? call->k : left ? call->n : call->m, l = 0;
    int64_t most = far ? TB_COPY_BLOCK : TB_PLAIN_BLOCK;
    do {
        struct tb_call part = *call;
        int64_t count = min_i64(most, length - l);
        if (rank) {
            part.k = count;
            part.a = offset(call->a, is_plain(call->ta) ? l * call->lda : l, call->ab);
            part.b =
                call->b ? offset(call->b, is_plain(call->ta) ? l * call->ldb : l, call->ab) : NULL;
            if (l > 0)
                set_one(&part.beta, part.beta_type);
        } else {
            *(left ? &part.n : &part.m) = count;
            part.b = call->b ? offset(call->b, left ? l * call->ldb : l, call->ab) : NULL;
            part.c = (void *)(uintptr_t)offset(call->c, left ? l * call->ldc : l, call->c_type);
        }
        ok = compacted_call(fn, &part);
        l += count;
    } while (ok && l < length);
    return ok;
}

bool base_call(const struct tb_call *call)
{
    struct base base = base_of(call->op, call->ab);
    if (!base.fn)
        return false;
    struct tb_call plain = without_ab(call);
    if (base.wide || fits_int32(&plain))
        fortran(base.fn, &plain);
    else if (is_gemm(call->op))
        narrow_gemm(base.fn, &plain);
    else
        return narrow_call(base.fn, &plain);
    return true;
}

static bool is_half(enum tb_type type)
{
    return type == TB_F16 || type == TB_BF16;
}

static bool gemm(const struct tb_call *call)
{
    return is_half(call->ab) ? half_gemm(call) : base_call(call);
}

/* ---- GEMMT: the triangle by blocks of columns ---- */

static bool in_triangle(char uplo, int64_t i, int64_t j)
{
    return uplo == 'U' ? i <= j : i >= j;
}

static void copy_triangle(const struct tb_call *call, const struct tb_rect *rect, void *tile,
                          bool in)
{
    size_t bytes = call_elem_bytes(call->c_type);
    for (int64_t j = 0; j < rect->n; j++)
        for (int64_t i = 0; i < rect->m; i++) {
            int64_t row = rect->i0 + i, col = rect->j0 + j;
            if (!in_triangle(call->uplo, row, col))
                continue;
            char *outer = (char *)call->c + (size_t)(row + col * call->ldc) * bytes;
            char *inner = (char *)tile + (size_t)(i + j * rect->m) * bytes;
            memcpy(in ? inner : outer, in ? outer : inner, bytes);
        }
}

/* The part of a rectangle that the diagonal crosses: computed whole in `tile`, the triangle copied.
 */
static bool diagonal_block(const struct tb_call *call, const struct tb_rect *rect, void *tile)
{
    if (rect->m <= 0)
        return true;
    struct tb_call part = part_of(call, rect, 0, call->k);
    if (rect->m > 1 || rect->n > 1) {
        part.c = tile;
        part.ldc = rect->m;
        memset(tile, 0, (size_t)(rect->m * rect->n) * call_elem_bytes(call->c_type));
        if (!scalar_is_zero(call->beta_type, &call->beta))
            copy_triangle(call, rect, tile, true);
    }
    if (!gemm(&part))
        return false;
    if (part.c == tile)
        copy_triangle(call, rect, tile, false);
    return true;
}

static bool full_block(const struct tb_call *call, const struct tb_rect *rect)
{
    struct tb_call part = part_of(call, rect, 0, call->k);
    return rect->m <= 0 || gemm(&part);
}

/* The triangle's share of one rectangle of C. Without memory for a tile: column by column. */
static bool gemmt_rect(const struct tb_call *gemmt, const struct tb_rect *rect)
{
    struct tb_call call = *gemmt;
    call.op = TB_GEMM;
    void *tile =
        malloc((size_t)TB_TRIANGLE_BLOCK * TB_TRIANGLE_BLOCK * call_elem_bytes(call.c_type));
    int64_t block = tile ? TB_TRIANGLE_BLOCK : 1;
    int64_t top = rect->i0, bottom = rect->i0 + rect->m, right = rect->j0 + rect->n;
    bool ok = true;
    for (int64_t j = rect->j0; ok && j < right; j += block) {
        int64_t n = min_i64(block, right - j);
        int64_t from = max_i64(top, j), to = min_i64(bottom, j + n);
        struct tb_rect crossed = {.i0 = from, .j0 = j, .m = to - from, .n = n};
        struct tb_rect full = {.i0 = top, .j0 = j, .m = min_i64(bottom, j) - top, .n = n};
        if (call.uplo == 'L') {
            full.i0 = max_i64(top, j + n);
            full.m = bottom - full.i0;
        }
        ok = full_block(&call, &full) && diagonal_block(&call, &crossed, tile);
    }
    free(tile);
    return ok;
}

/* ---- Rectangles of the rank-k forms ---- */

/* What is stored of the imaginary part of a Hermitian diagonal does not count, and becomes zero. */
static void real_diagonal(const struct tb_call *call, const struct tb_rect *rect)
{
    const size_t bytes = call_elem_bytes(call->c_type);
    int64_t first = max_i64(rect->i0, rect->j0);
    int64_t last = min_i64(rect->i0 + rect->m, rect->j0 + rect->n);
    for (int64_t i = first; i < last; i++)
        memset((char *)call->c + (size_t)(i + i * call->ldc) * bytes + bytes / 2, 0, bytes / 2);
}

/* Real scalars of a complex routine. */
static void widen_scalar(union tb_scalar *s, enum tb_type *type, enum tb_type to)
{
    if (*type != to && to == TB_C32)
        s->f[1] = 0;
    else if (*type != to)
        s->d[1] = 0;
    *type = to;
}

/* op(A) op(B) in the triangle's share of a rectangle, and for a rank-2k form op(B) op(A) as well.
 */
static bool triangle_rect(const struct tb_call *call, const struct tb_rect *rect)
{
    const bool hermitian = call->op == TB_HERK || call->op == TB_HER2K;
    struct tb_call part = *call;
    call_as_product(&part);
    widen_scalar(&part.alpha, &part.alpha_type, call->ab);
    widen_scalar(&part.beta, &part.beta_type, call->ab);
    if (hermitian)
        real_diagonal(call, rect);
    bool ok = gemmt_rect(&part, rect);
    if (ok && call_is_rank_2k(call)) {
        part.a = call->b;
        part.lda = call->ldb;
        part.b = call->a;
        part.ldb = call->lda;
        if (call->op == TB_HER2K && call->ab == TB_C32)
            part.alpha.f[1] = -part.alpha.f[1];
        else if (call->op == TB_HER2K)
            part.alpha.d[1] = -part.alpha.d[1];
        set_one(&part.beta, part.beta_type);
        ok = gemmt_rect(&part, rect);
    }
    if (hermitian)
        real_diagonal(call, rect);
    return ok;
}

/* ---- Columns and rows of the routines with a triangle ---- */

/* Side L: whole columns of C do not depend on each other; side R: whole rows. */
static bool lines_rect(const struct tb_call *call, const struct tb_rect *rect)
{
    struct tb_call part = *call;
    if (call->side == 'L' ? rect->m != call->m : rect->n != call->n)
        return false;
    part.m = rect->m;
    part.n = rect->n;
    if (call->b)
        part.b = offset(call->b, rect->i0 + rect->j0 * call->ldb, call->ab);
    part.c = (void *)(uintptr_t)offset(call->c, rect->i0 + rect->j0 * call->ldc, call->c_type);
    return base_call(&part);
}

/* ---- The interface ---- */

static struct tb_call item_of(const struct tb_call *call, int64_t i)
{
    struct tb_call item = *call;
    item.a = call_a(call, i);
    item.b = call_b(call, i);
    item.c = call_c(call, i);
    item.alist = item.blist = NULL;
    item.clist = NULL;
    item.stride_a = item.stride_b = item.stride_c = 0;
    item.batch = 1;
    return item;
}

static bool one(const struct tb_call *call)
{
    struct tb_rect all = {.m = call->n, .n = call->n};
    if (call->op == TB_GEMMT)
        return gemmt_rect(call, &all);
    return is_gemm(call->op) ? gemm(call) : base_call(call);
}

bool fallback_call(const struct tb_call *call)
{
    bool ok = true;
    if (call->m <= 0 || call->n <= 0)
        return true;
    for (int64_t i = 0; ok && i < call->batch; i++) {
        struct tb_call item = item_of(call, i);
        ok = one(&item);
    }
    return ok;
}

bool fallback_rect(const struct tb_call *call, const struct tb_rect *rect)
{
    if (rect->m <= 0 || rect->n <= 0)
        return true;
    struct tb_call item = item_of(call, rect->item);
    if (call_is_triangular(call))
        return triangle_rect(&item, rect);
    if (!is_gemm(call->op))
        return lines_rect(&item, rect);
    struct tb_call part = part_of(&item, rect, 0, call->k);
    tb_fn fn = call->cpu && call->form == TB_ONE ? call->cpu->fn : NULL;
    if (!fn)
        return gemm(&part);
    part = without_ab(&part);
    if (call->cblas)
        cblas_gemm(fn, &part);
    else
        fortran(fn, &part);
    return true;
}
