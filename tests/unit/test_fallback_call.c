/* SPDX-License-Identifier: BSD-3-Clause
 * Every routine the fallback computes from a descriptor, against its definition in long double:
 * sizes around the panel edges, guard pages behind the operands, NaN in everything that must not be
 * read. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../../fallback/fallback.h"
#include "../../fallback/half.h"

#include <complex.h>
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef long double complex wide; /* shorter than its C name; local to this file */

/* ---- Matrices whose last byte lies in front of a page nobody may touch ---- */

struct matrix {
    enum tb_type type;
    int64_t rows, cols, ld;
    void *data, *map;
    size_t bytes, mapped;
};

static struct matrix matrix_make(enum tb_type type, int64_t rows, int64_t cols, int64_t pad)
{
    struct matrix m = {.type = type, .rows = rows, .cols = cols, .ld = (rows > 0 ? rows : 1) + pad};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int64_t elems = rows > 0 && cols > 0 ? (cols - 1) * m.ld + rows : 0;
    m.bytes = (size_t)elems * call_elem_bytes(type);
    m.mapped = (m.bytes + page - 1) / page * page + page;
    m.map = mmap(NULL, m.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(m.map, MAP_FAILED);
    mprotect((char *)m.map + m.mapped - page, page, PROT_NONE);
    m.data = (char *)m.map + m.mapped - page - m.bytes;
    memset(m.data, 0xff, m.bytes); /* NaN in every type */
    return m;
}

static void matrix_free(struct matrix *m)
{
    munmap(m->map, m->mapped);
}

static void *at(const struct matrix *m, int64_t i, int64_t j)
{
    return (char *)m->data + (size_t)(i + j * m->ld) * call_elem_bytes(m->type);
}

static wide read_element(enum tb_type type, const void *p)
{
    const float *f = p;
    const double *d = p;
    switch (type) {
    case TB_F16:
        return half_from_f16(*(const uint16_t *)p);
    case TB_BF16:
        return half_from_bf16(*(const uint16_t *)p);
    case TB_F32:
        return *f;
    case TB_F64:
        return *d;
    case TB_C32:
        return f[0] + I * f[1];
    case TB_C64:
        return d[0] + I * d[1];
    default:
        return NAN;
    }
}

static void write_element(enum tb_type type, void *p, wide x)
{
    float *f = p;
    double *d = p;
    if (type == TB_F16)
        *(uint16_t *)p = half_to_f16((float)creall(x));
    if (type == TB_BF16)
        *(uint16_t *)p = half_to_bf16((float)creall(x));
    if (type == TB_F32 || type == TB_C32)
        f[0] = (float)creall(x);
    if (type == TB_C32)
        f[1] = (float)cimagl(x);
    if (type == TB_F64 || type == TB_C64)
        d[0] = (double)creall(x);
    if (type == TB_C64)
        d[1] = (double)cimagl(x);
}

static wide get(const struct matrix *m, int64_t i, int64_t j)
{
    return read_element(m->type, at(m, i, j));
}

static double uniform(void)
{
    static uint64_t state = 88172645463325252ULL;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (double)(state >> 11) * 0x1p-52 - 1;
}

/* Which entries a routine may read: all, a triangle, or a triangle without its diagonal. */
static void matrix_fill(struct matrix *m, char uplo, bool unit)
{
    for (int64_t j = 0; j < m->cols; j++)
        for (int64_t i = 0; i < m->rows; i++)
            if (!uplo || (uplo == 'U' ? i < j : i > j) || (i == j && !unit))
                write_element(m->type, at(m, i, j),
                              uniform() + I * uniform() + (uplo && i == j ? 4 : 0));
}

static struct matrix matrix_copy(const struct matrix *m)
{
    struct matrix copy =
        matrix_make(m->type, m->rows, m->cols, m->ld - (m->rows > 0 ? m->rows : 1));
    memcpy(copy.data, m->data, m->bytes);
    return copy;
}

/* ---- The definitions ---- */

static bool half(enum tb_type t)
{
    return t == TB_F16 || t == TB_BF16;
}

static wide op_of(const struct matrix *m, char trans, int64_t i, int64_t j)
{
    wide x = trans == 'N' ? get(m, i, j) : get(m, j, i);
    return trans == 'C' ? conjl(x) : x;
}

static wide symmetric(const struct matrix *m, char uplo, bool hermitian, int64_t i, int64_t j)
{
    if (i == j)
        return hermitian ? creall(get(m, i, i)) : get(m, i, i);
    if (uplo == 'U' ? i < j : i > j)
        return get(m, i, j);
    return hermitian ? conjl(get(m, j, i)) : get(m, j, i);
}

static wide triangular(const struct matrix *m, const struct tb_call *c, int64_t i, int64_t j)
{
    if (c->ta != 'N') {
        int64_t t = i;
        i = j, j = t;
    }
    if (i == j && c->diag == 'U')
        return 1;
    if (i != j && (c->uplo == 'U' ? i > j : i < j))
        return 0;
    return c->ta == 'C' ? conjl(get(m, i, j)) : get(m, i, j);
}

struct sum {
    wide value;
    long double scale;
};

static void add(struct sum *s, wide x, wide y)
{
    s->value += x * y;
    s->scale += cabsl(x) * cabsl(y);
}

/* The product alone, without alpha: of entry (i, j). x is what a triangular matrix multiplies. */
static struct sum product(const struct tb_call *c, const struct matrix *a, const struct matrix *b,
                          const struct matrix *x, int64_t i, int64_t j)
{
    struct sum s = {0};
    bool left = c->side == 'L', hermitian = c->op == TB_HEMM;
    if (c->op == TB_TRMM || c->op == TB_TRSM)
        for (int64_t l = 0; l < a->rows; l++)
            left ? add(&s, triangular(a, c, i, l), get(x, l, j))
                 : add(&s, triangular(a, c, l, j), get(x, i, l));
    else if (c->op == TB_SYMM || c->op == TB_HEMM)
        for (int64_t l = 0; l < a->rows; l++)
            left ? add(&s, symmetric(a, c->uplo, hermitian, i, l), get(b, l, j))
                 : add(&s, symmetric(a, c->uplo, hermitian, l, j), get(b, i, l));
    else
        for (int64_t l = 0; l < c->k; l++)
            add(&s, op_of(a, c->ta, i, l), op_of(b, c->tb, l, j));
    return s;
}

static wide scalar(enum tb_type type, const union tb_scalar *s)
{
    return read_element(type, s);
}

/* alpha times the product, for the rank-k forms with their second term. */
static struct sum term(const struct tb_call *c, const struct matrix *a, const struct matrix *b,
                       const struct matrix *x, int64_t i, int64_t j)
{
    wide alpha = scalar(c->alpha_type, &c->alpha);
    bool rank = c->op == TB_SYRK || c->op == TB_HERK || c->op == TB_SYR2K || c->op == TB_HER2K;
    struct tb_call full = *c;
    if (rank) {
        char trans = c->op == TB_HERK || c->op == TB_HER2K ? 'C' : 'T';
        full.tb = c->ta == 'N' ? trans : 'N';
        full.ta = c->ta == 'N' ? 'N' : c->ta;
    }
    if (c->op == TB_SYRK || c->op == TB_HERK)
        b = a;
    struct sum s = product(&full, a, b, x, i, j);
    s.value *= alpha;
    s.scale *= cabsl(alpha);
    if (c->op == TB_SYR2K || c->op == TB_HER2K) {
        struct sum t = product(&full, b, a, x, i, j);
        s.value += (c->op == TB_HER2K ? conjl(alpha) : alpha) * t.value;
        s.scale += cabsl(alpha) * t.scale;
    }
    return s;
}

static bool is_triangle(enum tb_op op)
{
    return op == TB_GEMMT || op == TB_SYRK || op == TB_HERK || op == TB_SYR2K || op == TB_HER2K;
}

static double unit_of(const struct tb_call *c)
{
    static const double unit[TB_TYPES] = {
        [TB_F16] = 0x1p-11, [TB_BF16] = 0x1p-8, [TB_F32] = 0x1p-24,
        [TB_F64] = 0x1p-53, [TB_C32] = 0x1p-24, [TB_C64] = 0x1p-53};
    return unit[c->c_type];
}

static bool is_ours(const struct tb_call *c, const struct tb_rect *r, int64_t i, int64_t j)
{
    bool inside = i >= r->i0 && i < r->i0 + r->m && j >= r->j0 && j < r->j0 + r->n;
    return inside && (!is_triangle(c->op) || (c->uplo == 'U' ? i <= j : i >= j));
}

/* Compares C with what it should be; entries outside the rectangle or triangle with their old
 * bytes. */
static void check(const struct tb_call *c, const struct tb_rect *rect, const struct matrix *a,
                  const struct matrix *b, const struct matrix *old, const struct matrix *now)
{
    bool in_place = c->op == TB_TRMM || c->op == TB_TRSM, solve = c->op == TB_TRSM;
    bool nothing = scalar_is_zero(c->alpha_type, &c->alpha) && !solve;
    wide beta = in_place ? 0 : scalar(c->beta_type, &c->beta);
    double inner = half(c->ab) ? 0x1p-24 : unit_of(c), k = (double)(c->k + c->m + c->n + 8);
    for (int64_t j = 0; j < now->cols; j++)
        for (int64_t i = 0; i < now->rows; i++) {
            const char *what = call_op_name(c->op);
            if (!is_ours(c, rect, i, j)) {
                cr_assert_arr_eq(at(now, i, j), at(old, i, j), call_elem_bytes(c->c_type),
                                 "%s wrote (%ld,%ld)", what, (long)i, (long)j);
                continue;
            }
            struct sum s = {0};
            if (!nothing)
                s = term(c, a, b, solve ? now : old, i, j);
            wide got = get(now, i, j), want = s.value;
            if (solve) { /* op(A) X = alpha B: compare the sides */
                wide alpha = scalar(c->alpha_type, &c->alpha);
                got = s.value / alpha;
                s.scale /= cabsl(alpha);
                want = alpha * get(old, i, j);
            }
            if (beta != 0) {
                wide c0 = get(old, i, j);
                if ((c->op == TB_HERK || c->op == TB_HER2K) && i == j)
                    c0 = creall(c0);
                want += beta * c0;
                s.scale += cabsl(beta) * cabsl(c0);
            }
            if ((c->op == TB_HERK || c->op == TB_HER2K) && i == j)
                want = creall(want);
            long double bound =
                4 * k * inner * s.scale + (half(c->c_type) ? 1.01L * unit_of(c) * cabsl(want) : 0);
            cr_assert(cabsl(got - want) <= bound + 0x1p-25L * half(c->c_type),
                      "%s %s m %ld n %ld k %ld %c%c%c%c%c (%ld,%ld): %Lg%+Lgi, not %Lg%+Lgi", what,
                      call_type_name(c->ab), (long)c->m, (long)c->n, (long)c->k,
                      c->side ? c->side : '-', c->uplo ? c->uplo : '-', c->ta ? c->ta : '-',
                      c->tb ? c->tb : '-', c->diag ? c->diag : '-', (long)i, (long)j, creall(got),
                      cimagl(got), creall(want), cimagl(want));
        }
    for (int64_t j = 0; j + 1 < now->cols; j++) /* the padding between columns */
        cr_assert_eq(memcmp(at(now, now->rows, j), at(old, now->rows, j),
                            (size_t)(now->ld - now->rows) * call_elem_bytes(c->c_type)),
                     0);
}

/* ---- Cases ---- */

static void set_scalar(enum tb_type type, union tb_scalar *s, wide x)
{
    write_element(type, s, x);
}

/* Fills in the scalar types and flags that follow from op and type. */
static struct tb_call call_make(enum tb_op op, enum tb_type ab, enum tb_type c_type, wide alpha,
                                wide beta)
{
    struct tb_call c = {.name = "test", .op = op, .ab = ab, .c_type = c_type, .batch = 1};
    enum tb_type real = ab == TB_C32 ? TB_F32 : ab == TB_C64 ? TB_F64 : ab;
    c.alpha_type = half(ab) ? c_type : op == TB_HERK ? real : ab;
    c.beta_type = half(ab) ? c_type : op == TB_HERK || op == TB_HER2K ? real : ab;
    set_scalar(c.alpha_type, &c.alpha, alpha);
    set_scalar(c.beta_type, &c.beta, beta);
    return c;
}

struct operands {
    struct matrix a, b, c, old;
};

static struct operands operands_make(struct tb_call *c, int64_t pad)
{
    struct operands o;
    int64_t rows, cols;
    bool in_place = c->op == TB_TRMM || c->op == TB_TRSM,
         rank1 = c->op == TB_SYRK || c->op == TB_HERK;
    bool square = in_place || c->op == TB_SYMM || c->op == TB_HEMM;
    bool beta = in_place || !scalar_is_zero(c->beta_type, &c->beta);
    bool reads = c->k != 0 || square;
    reads = reads && (in_place || !scalar_is_zero(c->alpha_type, &c->alpha));
    call_stored_a(c, &rows, &cols);
    o.a = matrix_make(c->ab, rows, cols, pad);
    if (reads)
        matrix_fill(&o.a, square ? c->uplo : 0, c->diag == 'U');
    call_stored_b(c, &rows, &cols);
    o.b = matrix_make(c->ab, in_place || rank1 ? 0 : rows, cols, pad);
    if (reads)
        matrix_fill(&o.b, 0, false);
    o.c = matrix_make(c->c_type, c->m, c->n, pad);
    if (beta)
        matrix_fill(&o.c, is_triangle(c->op) ? c->uplo : 0, false);
    o.old = matrix_copy(&o.c);
    c->a = o.a.data, c->lda = o.a.ld;
    c->b = in_place || rank1 ? NULL : o.b.data, c->ldb = o.b.ld;
    c->c = o.c.data, c->ldc = o.c.ld;
    if (!reads)
        c->a = c->b = NULL;
    return o;
}

static void operands_free(struct operands *o)
{
    matrix_free(&o->a), matrix_free(&o->b), matrix_free(&o->c), matrix_free(&o->old);
}

static bool in_rectangles; /* through fallback_rect(), as after a fault */

/* A triangle in four parts, of which the diagonal crosses some; else whole columns, or rows. */
static bool computed_in_rectangles(const struct tb_call *c)
{
    const bool rank = is_triangle(c->op);
    const int64_t i = rank || c->side == 'R' ? (c->m + 2) / 3 : c->m;
    const int64_t j = rank || c->side == 'L' ? c->n / 2 : c->n;
    const struct tb_rect rects[] = {{.m = i, .n = j},
                                    {.i0 = i, .m = c->m - i, .n = j},
                                    {.j0 = j, .m = i, .n = c->n - j},
                                    {.i0 = i, .j0 = j, .m = c->m - i, .n = c->n - j}};
    bool ok = true;
    for (int r = 0; r < 4; r++)
        ok = fallback_rect(c, &rects[r]) && ok;
    return ok;
}

static void run_case(struct tb_call c, int64_t pad)
{
    if (c.op == TB_GEMMT || is_triangle(c.op))
        c.m = c.n;
    struct operands o = operands_make(&c, pad);
    struct tb_rect all = {.m = c.m, .n = c.n};
    cr_assert(in_rectangles ? computed_in_rectangles(&c) : fallback_call(&c));
    check(&c, &all, &o.a, &o.b, &o.old, &o.c);
    operands_free(&o);
}

static const enum tb_type plain_types[] = {TB_F32, TB_F64, TB_C32, TB_C64};

static bool exists(enum tb_op op, enum tb_type type)
{
    bool hermitian = op == TB_HEMM || op == TB_HERK || op == TB_HER2K;
    return (!hermitian && op != TB_GEMM3M) || call_is_complex(type);
}

static const wide scalars[][2] = {{1, 0}, {1, 1}, {0.5L, 0.25L}, {0, 0}, {0, 2}, {-1, 1}};

/* trsm with alpha 0 has its own test. */
static void run_shape(struct tb_call c, int64_t m, int64_t n, int64_t k, int64_t pad)
{
    static const char trans[] = "NTC", sides[] = "LR", uplos[] = "UL", diags[] = "NU";
    bool product = c.op == TB_GEMM || c.op == TB_GEMM3M || c.op == TB_GEMMT,
         rank = is_triangle(c.op) && !product;
    bool in_place = c.op == TB_TRMM || c.op == TB_TRSM;
    for (int i = 0; i < 72; i++) {
        int ta = i % 3, tb = i / 3 % 3, side = i / 9 % 2, uplo = i / 18 % 2, diag = i / 36;
        bool hermitian = c.op == TB_HERK || c.op == TB_HER2K;
        if ((tb && !product) || (side && (product || rank)) || (diag && !in_place) ||
            (uplo && (c.op == TB_GEMM || c.op == TB_GEMM3M)) ||
            (ta && (c.op == TB_SYMM || c.op == TB_HEMM)) ||
            (rank && call_is_complex(c.ab) && ta == (hermitian ? 1 : 2)))
            continue;
        c.ta = trans[ta], c.tb = trans[tb], c.side = sides[side], c.uplo = uplos[uplo],
        c.diag = diags[diag];
        c.m = m, c.n = n, c.k = in_place || c.op == TB_SYMM || c.op == TB_HEMM ? 0 : k;
        run_case(c, pad);
    }
}

Test(fallback_call, every_routine_at_sizes_from_1_to_33, .timeout = 120)
{
    static const int64_t sizes[] = {1, 2, 3, 5, 8, 16, 17, 31, 32, 33};
    size_t count = sizeof sizes / sizeof sizes[0], s = 0;
    for (int op = 0; op < TB_OPS; op++)
        for (size_t t = 0; t < 4; t++) {
            if (!exists((enum tb_op)op, plain_types[t]))
                continue;
            for (size_t i = 0; i < count; i++, s++) {
                const wide *ab = scalars[s % 6];
                if ((op == TB_TRSM || op == TB_TRMM) && ab[0] == 0)
                    ab = scalars[2];
                struct tb_call c =
                    call_make((enum tb_op)op, plain_types[t], plain_types[t], ab[0], ab[1]);
                run_shape(c, sizes[i], sizes[(i * 7 + t) % count], sizes[(i * 3 + t) % count],
                          (int64_t)(i % 3));
            }
        }
}

Test(fallback_call, gemmt_around_the_block_edge, .timeout = 120)
{
    for (int64_t n = 63; n <= 130; n += n == 65 ? 64 : 1)
        for (size_t t = 0; t < 4; t++)
            run_shape(call_make(TB_GEMMT, plain_types[t], plain_types[t], 0.5L, (wide)(t % 2)), n,
                      n, 3, 1);
}

/* What a fault leaves of the routines other than gemm. */
Test(fallback_call, what_is_left_of_every_routine, .timeout = 120)
{
    static const int64_t sizes[] = {1, 2, 7, 33, 70};
    in_rectangles = true;
    for (int op = TB_GEMMT; op < TB_OPS; op++)
        for (size_t t = 0; t < 4; t++)
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
                if (exists((enum tb_op)op, plain_types[t]))
                    run_shape(call_make((enum tb_op)op, plain_types[t], plain_types[t], 0.5L,
                                        (wide)(i % 2)),
                              sizes[i], sizes[(i + t) % 5], 3, (int64_t)(i % 3));
}

static const enum tb_type half_types[][2] = {
    {TB_F16, TB_F32}, {TB_BF16, TB_F32}, {TB_F16, TB_F16}, {TB_BF16, TB_BF16}};

Test(fallback_call, half_types_at_small_sizes, .timeout = 120)
{
    static const int64_t sizes[] = {1, 2, 3, 7, 15, 16, 17, 33};
    for (size_t t = 0; t < 4; t++)
        for (size_t i = 0; i < 48; i++) {
            const wide *ab = scalars[i % 6];
            struct tb_call c = call_make(TB_GEMM, half_types[t][0], half_types[t][1], ab[0], ab[1]);
            run_shape(c, sizes[i % 8], sizes[(i * 3 + 1) % 8],
                      i % 11 == 0 ? 0 : sizes[(i * 5 + 2) % 8], (int64_t)(i % 2));
        }
}

Test(fallback_call, half_types_around_the_panel_edge, .timeout = 120)
{
    static const int64_t shapes[][3] = {{511, 2, 3}, {512, 1, 5}, {513, 3, 2},
                                        {1, 513, 3}, {2, 2, 512}, {3, 2, 1025}};
    for (size_t t = 0; t < 4; t++)
        for (size_t i = 0; i < 6; i++)
            run_shape(call_make(TB_GEMM, half_types[t][0], half_types[t][1], 0.5L, (wide)(i % 2)),
                      shapes[i][0], shapes[i][1], shapes[i][2], 1);
}

/* ---- Rectangles ---- */

static void *openblas_symbol(const char *name)
{
    return dlsym(dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL), name);
}

static void run_rect(struct tb_call c, struct tb_rect rect)
{
    struct operands o = operands_make(&c, 2);
    cr_assert(fallback_rect(&c, &rect));
    check(&c, &rect, &o.a, &o.b, &o.old, &o.c);
    operands_free(&o);
}

static void run_rects(struct tb_call c)
{
    static const struct tb_rect rects[] = {{0, 0, 0, 20, 20}, {0, 3, 5, 9, 8},  {0, 19, 0, 1, 20},
                                           {0, 0, 7, 5, 2},   {0, 12, 2, 3, 3}, {0, 4, 4, 0, 3}};
    c.m = c.n = 20, c.k = 11;
    for (size_t r = 0; r < sizeof rects / sizeof rects[0]; r++)
        for (int i = 0; i < 9; i++) {
            c.ta = "NTC"[i % 3], c.tb = "NTC"[i / 3];
            c.uplo = i & 1 ? 'U' : 'L';
            run_rect(c, rects[r]);
        }
}

Test(fallback_rect, through_the_cpu_blas_of_the_call_or_the_plain_routine)
{
    static const char *const names[4][2] = {{"sgemm_", "cblas_sgemm"},
                                            {"dgemm_", "cblas_dgemm"},
                                            {"cgemm_", "cblas_cgemm"},
                                            {"zgemm_", "cblas_zgemm"}};
    for (size_t t = 0; t < 4; t++)
        for (int style = 0; style < 3; style++) {
            struct tb_cpu cpu = {.fn = style < 2 ? (tb_fn)openblas_symbol(names[t][style]) : NULL};
            struct tb_call c =
                call_make(TB_GEMM, plain_types[t], plain_types[t], 0.5L + I * 0.25L, style ? 1 : 0);
            c.cpu = &cpu;
            c.cblas = style == 1;
            run_rects(c);
            c.op = TB_GEMMT;
            run_rects(c);
        }
}

Test(fallback_rect, of_half_types)
{
    struct tb_cpu cpu = {0};
    for (size_t t = 0; t < 4; t++) {
        struct tb_call c = call_make(TB_GEMM, half_types[t][0], half_types[t][1], 2, 1);
        c.cpu = &cpu;
        run_rects(c);
    }
}

/* ---- Batches ---- */

static void check_batch(bool lists, enum tb_type ab, enum tb_type c_type)
{
    enum { COUNT = 5, M = 4, N = 3, K = 6 };
    struct matrix a = matrix_make(ab, M, K * COUNT, 1), b = matrix_make(ab, K, N * COUNT, 0);
    struct matrix c = matrix_make(c_type, M, N * COUNT, 2);
    matrix_fill(&a, 0, false), matrix_fill(&b, 0, false), matrix_fill(&c, 0, false);
    struct matrix old = matrix_copy(&c);
    const void *as[COUNT], *bs[COUNT];
    void *cs[COUNT];
    for (int i = 0; i < COUNT; i++)
        as[i] = at(&a, 0, K * i), bs[i] = at(&b, 0, N * (COUNT - 1 - i)), cs[i] = at(&c, 0, N * i);
    struct tb_call call = call_make(TB_GEMM, ab, c_type, 2, 1);
    call.ta = call.tb = 'N';
    call.m = M, call.n = N, call.k = K, call.batch = COUNT;
    call.lda = a.ld, call.ldb = b.ld, call.ldc = c.ld;
    if (lists) {
        call.alist = as, call.blist = bs, call.clist = cs;
    } else { /* B backwards: strides may be negative */
        call.a = as[0], call.b = bs[0], call.c = cs[0];
        call.stride_a = K * a.ld, call.stride_b = -N * b.ld, call.stride_c = N * c.ld;
    }
    cr_assert(fallback_call(&call));
    for (int i = 0; i < COUNT; i++) {
        struct matrix ai = a, bi = b, ci = c, oi = old;
        ai.data = at(&a, 0, K * i), bi.data = at(&b, 0, N * (COUNT - 1 - i));
        ci.data = at(&c, 0, N * i), oi.data = at(&old, 0, N * i);
        ai.cols = K, bi.cols = ci.cols = oi.cols = N;
        check(&call, &(struct tb_rect){.m = M, .n = N}, &ai, &bi, &oi, &ci);
    }
    matrix_free(&a), matrix_free(&b), matrix_free(&c), matrix_free(&old);
}

Test(fallback_call, batches_by_list_and_by_stride)
{
    for (int lists = 0; lists < 2; lists++) {
        for (size_t t = 0; t < 4; t++)
            check_batch(lists, plain_types[t], plain_types[t]);
        for (size_t t = 0; t < 4; t++)
            check_batch(lists, half_types[t][0], half_types[t][1]);
    }
}

/* ---- NaN, Inf, rounding ---- */

static uint16_t half_product(enum tb_type type, uint16_t alpha, uint16_t a, uint16_t b,
                             uint16_t beta, uint16_t c)
{
    struct tb_call call = {.op = TB_GEMM,
                           .ab = type,
                           .c_type = type,
                           .alpha_type = type,
                           .beta_type = type,
                           .ta = 'N',
                           .tb = 'N',
                           .m = 1,
                           .n = 1,
                           .k = 1,
                           .lda = 1,
                           .ldb = 1,
                           .ldc = 1,
                           .alpha.h = alpha,
                           .beta.h = beta,
                           .a = &a,
                           .b = &b,
                           .c = &c,
                           .batch = 1};
    cr_assert(fallback_call(&call));
    return c;
}

Test(fallback_call, half_special_values)
{
    const enum tb_type h = TB_F16, b = TB_BF16;
    cr_assert_eq(half_product(h, 0x3c00, 0x7bff, 0x4000, 0, 0x7e00),
                 0x7c00); /* overflow; C not read */
    cr_assert_eq(half_product(b, 0x3f80, 0x7f7f, 0x4000, 0, 0x7fc0), 0x7f80);
    cr_assert_gt(half_product(h, 0x3c00, 0x7c00, 0x0000, 0, 0) & 0x7fff, 0x7c00); /* Inf x 0 */
    cr_assert_gt(half_product(b, 0x3f80, 0x7f80, 0x0000, 0, 0) & 0x7fff, 0x7f80);
    cr_assert_eq(half_product(h, 0, 0x7c00, 0x7e00, 0x3c00, 0x3555),
                 0x3555); /* alpha 0: A, B not read */
    cr_assert_eq(half_product(h, 0x8000, 0x7c00, 0x7e00, 0x8000, 0x7e00), 0); /* -0 counts as 0 */
    cr_assert_gt(half_product(h, 0x3c00, 0x3c00, 0x3c00, 0x3c00, 0x7e01) & 0x7fff, 0x7c00);
    cr_assert_gt(half_product(h, 0x7e00, 0x3c00, 0x3c00, 0, 0) & 0x7fff, 0x7c00); /* alpha NaN */
    cr_assert_eq(half_product(h, 0x3c00, 0x0001, 0x3c00, 0, 0), 0x0001);          /* subnormal */
    /* 2048 + 1 is a tie between 2048 and 2050: rounded once, to even. */
    cr_assert_eq(half_product(h, 0x3c00, 0x3c00, 0x3c00, 0x3c00, 0x6800), 0x6800);
}

Test(fallback_call, alpha_zero_reads_neither_a_nor_b)
{
    for (size_t t = 0; t < 4; t++)
        for (int64_t n = 1; n < 120; n += 17) {
            struct tb_call c = call_make(TB_GEMM, plain_types[t], plain_types[t], 0, 0.5L);
            c.ta = c.tb = 'N';
            c.m = c.n = c.k = n;
            run_case(c, 0);
        }
}

static int64_t recorded_k;

static void record(const char *ta, const char *tb, const int *m, const int *n, const int *k)
{
    (void)ta, (void)tb, (void)m, (void)n;
    recorded_k = *k;
}

/* Some kernels read A and B whatever alpha is, but none with k = 0. */
Test(fallback_rect, alpha_zero_goes_out_as_k_zero)
{
    struct tb_cpu cpu = {.fn = (tb_fn)record};
    float x = 1;
    struct tb_call c = call_make(TB_GEMM, TB_F32, TB_F32, 0, 1);
    c.cpu = &cpu, c.ta = c.tb = 'N', c.m = c.n = c.k = c.lda = c.ldb = c.ldc = 1;
    c.a = c.b = c.c = &x;
    recorded_k = -1;
    cr_assert(fallback_rect(&c, &(struct tb_rect){.m = 1, .n = 1}));
    cr_assert_eq(recorded_k, 0);
}

Test(fallback_call, trsm_and_trmm_with_alpha_zero_clear_b)
{
    for (int op = TB_TRMM; op <= TB_TRSM; op++) {
        double b[4] = {1, NAN, 3, INFINITY}, a[4] = {NAN, NAN, NAN, NAN};
        struct tb_call c = call_make((enum tb_op)op, TB_F64, TB_F64, 0, 0);
        c.side = 'L', c.uplo = 'U', c.ta = 'N', c.diag = 'N', c.m = c.n = 2;
        c.a = a, c.lda = 2, c.c = b, c.ldc = 2;
        cr_assert(fallback_call(&c));
        for (int i = 0; i < 4; i++)
            cr_assert_eq(b[i], 0);
    }
}

Test(fallback_call, empty_calls_touch_nothing)
{
    for (int op = 0; op < TB_OPS; op++) {
        struct tb_call c = call_make((enum tb_op)op, TB_C64, TB_C64, 1, 0);
        c.side = 'L', c.uplo = 'U', c.ta = c.tb = 'N', c.diag = 'N', c.k = 3;
        c.lda = c.ldb = c.ldc = 3;
        cr_assert(fallback_call(&c));
    }
}

/* ---- Numbers beyond 2^31 ---- */

static void *sparse(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    cr_assert_neq(p, MAP_FAILED);
    return p;
}

/* A far apart: leading dimension `far` for the operands that `which` names. */
static void check_far(enum tb_type ab, enum tb_type c_type, int64_t far, int which, char ta,
                      char tb)
{
    enum { M = 3, N = 2, K = 5 };
    struct tb_call c = call_make(TB_GEMM, ab, c_type, 0.5L, 1);
    c.ta = ta, c.tb = tb, c.m = M, c.n = N, c.k = K, c.wide = true;
    struct matrix m[3] = {{.type = ab, .rows = ta == 'N' ? M : K, .cols = ta == 'N' ? K : M},
                          {.type = ab, .rows = tb == 'N' ? K : N, .cols = tb == 'N' ? N : K},
                          {.type = c_type, .rows = M, .cols = N}};
    for (int i = 0; i < 3; i++) {
        m[i].ld = which >> i & 1 ? far + i : m[i].rows;
        m[i].bytes = (size_t)(m[i].ld * (m[i].cols - 1) + m[i].rows) * call_elem_bytes(m[i].type);
        m[i].data = sparse(m[i].bytes);
        matrix_fill(&m[i], 0, false);
    }
    struct matrix old = {.type = c_type, .rows = M, .cols = N, .ld = M};
    char bytes[M * N * 16];
    old.data = bytes;
    for (int64_t j = 0; j < N; j++)
        memcpy(at(&old, 0, j), at(&m[2], 0, j), M * call_elem_bytes(c_type));
    c.a = m[0].data, c.b = m[1].data, c.c = m[2].data;
    c.lda = m[0].ld, c.ldb = m[1].ld, c.ldc = m[2].ld;
    cr_assert(fallback_call(&c));
    struct matrix now = m[2]; /* without the padding: it is sparse */
    char packed[M * N * 16];
    for (int64_t j = 0; j < N; j++)
        memcpy(packed + (size_t)(j * M) * call_elem_bytes(c_type), at(&m[2], 0, j),
               M * call_elem_bytes(c_type));
    now.data = packed, now.ld = M;
    check(&c, &(struct tb_rect){.m = M, .n = N}, &m[0], &m[1], &old, &now);
    for (int i = 0; i < 3; i++)
        munmap(m[i].data, m[i].bytes);
}

Test(fallback_call, leading_dimensions_beyond_2_to_the_31, .timeout = 120)
{
    static const int64_t far[] = {((int64_t)1 << 30) + 1, ((int64_t)1 << 31) + 7};
    for (int f = 0; f < 2; f++)
        for (int which = 1; which < 8; which++)
            for (int i = 0; i < 4; i++) {
                char ta = i & 1 ? 'T' : 'N', tb = i & 2 ? 'C' : 'N';
                for (size_t t = 0; t < 4; t++)
                    check_far(plain_types[t], plain_types[t], far[f], which, ta, tb);
                for (size_t t = 0; t < 4; t++)
                    check_far(half_types[t][0], half_types[t][1], far[f], which, ta, tb);
            }
}

/* Longer than one block of the copies, in one direction each. */
static void check_far_blocks(int64_t m, int64_t n, int64_t k)
{
    const int64_t far = ((int64_t)1 << 31) + 1;
    struct tb_call c = call_make(TB_GEMM, TB_F32, TB_F32, 0.5L, 0);
    struct matrix a = {.type = TB_F32, .rows = m, .cols = k, .ld = far};
    a.bytes = (size_t)(far * (k - 1) + m) * 4;
    a.data = sparse(a.bytes);
    struct matrix b = matrix_make(TB_F32, k, n, 0), o = matrix_make(TB_F32, m, n, 1);
    matrix_fill(&a, 0, false), matrix_fill(&b, 0, false);
    struct matrix old = matrix_copy(&o);
    c.ta = c.tb = 'N', c.m = m, c.n = n, c.k = k;
    c.a = a.data, c.b = b.data, c.c = o.data, c.lda = far, c.ldb = b.ld, c.ldc = o.ld;
    cr_assert(fallback_call(&c));
    check(&c, &(struct tb_rect){.m = m, .n = n}, &a, &b, &old, &o);
    munmap(a.data, a.bytes);
    matrix_free(&b), matrix_free(&o), matrix_free(&old);
}

Test(fallback_call, a_far_gemm_longer_than_one_block)
{
    check_far_blocks(257, 3, 2);
    check_far_blocks(2, 513, 3);
    check_far_blocks(3, 2, 513);
}

/* Operands of a small call spread out over sparse memory. */
static struct matrix spread(const struct matrix *m, int64_t far)
{
    struct matrix s = *m;
    s.ld = far;
    s.bytes =
        (size_t)(far * (m->cols > 0 ? m->cols - 1 : 0) + m->rows + 1) * call_elem_bytes(m->type);
    s.data = sparse(s.bytes);
    for (int64_t j = 0; j < m->cols && m->rows > 0; j++)
        memcpy(at(&s, 0, j), at(m, 0, j), (size_t)m->rows * call_elem_bytes(m->type));
    return s;
}

static void gather(struct matrix *to, const struct matrix *from)
{
    for (int64_t j = 0; j < to->cols; j++)
        memcpy(at(to, 0, j), at(from, 0, j), (size_t)to->rows * call_elem_bytes(to->type));
}

static void check_far_call(enum tb_op op, enum tb_type type, int64_t length, int i)
{
    const int64_t far = ((int64_t)1 << 31) + 5;
    bool square = op == TB_SYMM || op == TB_HEMM || op == TB_TRMM || op == TB_TRSM;
    struct tb_call c = call_make(op, type, type, 0.5L, 1);
    c.side = i & 1 ? 'L' : 'R', c.uplo = i & 2 ? 'U' : 'L', c.ta = 'N', c.diag = 'N';
    c.m = square && c.side == 'R' ? length : 3, c.n = square && c.side == 'L' ? length : 3;
    c.k = square ? 0 : length;
    struct operands o = operands_make(&c, 0);
    struct matrix a = spread(&o.a, i & 4 ? far : o.a.ld), b = spread(&o.b, far),
                  x = spread(&o.c, far);
    c.a = a.data, c.lda = a.ld, c.c = x.data, c.ldc = x.ld;
    if (c.b)
        c.b = b.data, c.ldb = b.ld;
    cr_assert(fallback_call(&c));
    gather(&o.c, &x);
    check(&c, &(struct tb_rect){.m = c.m, .n = c.n}, &o.a, &o.b, &o.old, &o.c);
    munmap(a.data, a.bytes), munmap(b.data, b.bytes), munmap(x.data, x.bytes);
    operands_free(&o);
}

Test(fallback_call, the_other_routines_with_far_leading_dimensions, .timeout = 120)
{
    for (int op = TB_SYMM; op < TB_OPS; op++)
        for (size_t t = 0; t < 4; t++)
            for (int i = 0; exists((enum tb_op)op, plain_types[t]) && i < 8; i++) {
                check_far_call((enum tb_op)op, plain_types[t], 5, i);
                check_far_call((enum tb_op)op, plain_types[t], 259, i);
            }
}

/* ---- The library in use, and xerbla ---- */

Test(fallback_find, tells_path_and_threads)
{
    cr_assert_str_empty(fallback_path());
    struct tb_found found = fallback_find("dgemm_", NULL, true);
    cr_assert_not_null((void *)found.fn);
    cr_assert_eq(found.fn, found.origin);
    cr_assert_not(found.wide);
    cr_assert_str_not_empty(fallback_path());
    int (*ask)(void) = (int (*)(void))openblas_symbol("openblas_get_num_threads");
    cr_assert_eq(fallback_threads(), ask());
    cr_assert_null((void *)fallback_find("no_such_routine_", NULL, true).fn);
}

static char reported[64];
static int reported_info;

void xerbla_(const char *name, const int *info, size_t length);
__attribute__((visibility("default"))) void xerbla_(const char *name, const int *info,
                                                    size_t length)
{
    snprintf(reported, sizeof reported, "%.*s|", (int)length, name);
    reported_info = *info;
}

Test(fallback_xerbla, names_and_numbers)
{
    static const struct {
        const char *called, *reported;
        enum tb_op op;
    } cases[] = {{"cblas_sbgemm", "SBGEMM |", TB_GEMM},
                 {"dgemmt_", "DGEMMT|", TB_GEMMT},
                 {"scipy_cblas_dgemm64_", "DGEMM |", TB_GEMM},
                 {"dgemm_64", "DGEMM |", TB_GEMM},
                 {"dgemm", "DGEMM |", TB_GEMM},
                 {"cblas_zgemmtr_64", "ZGEMMTR|", TB_GEMMT},
                 {"zherk_64_", "ZHERK |", TB_HERK},
                 {"dsyr2k64_", "DSYR2K|", TB_SYR2K},
                 {"gemm_f16f16f32_", "GEMM_F16F16F32 |", TB_GEMM}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tb_call c = {.name = cases[i].called, .op = cases[i].op};
        fallback_xerbla(&c, (int)i + 1);
        cr_assert_str_eq(reported, cases[i].reported);
        cr_assert_eq(reported_info, (int)i + 1);
    }
}
