/* SPDX-License-Identifier: BSD-3-Clause
 * Test operands and the plain reference: one loop in double for all types. */
#include "product.h"

#include "dev_sim.h"
#include <complex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static double _Complex load(enum tb_type type, const char *at)
{
    const float *f = (const float *)(const void *)at;
    const double *d = (const double *)(const void *)at;
    const uint16_t *h = (const uint16_t *)(const void *)at;
    switch (type) {
    case TB_F16:
        return sim_half_to_float(*h);
    case TB_BF16:
        return sim_bf16_to_float(*h);
    case TB_F32:
        return f[0];
    case TB_F64:
        return d[0];
    case TB_C32:
        return f[0] + f[1] * I;
    case TB_C64:
        return d[0] + d[1] * I;
    case TB_TYPES:
        break;
    }
    abort();
}

static void store(enum tb_type type, char *at, double _Complex x)
{
    float *f = (float *)(void *)at;
    double *d = (double *)(void *)at;
    uint16_t *h = (uint16_t *)(void *)at;
    if (type == TB_F16)
        *h = sim_float_to_half((float)creal(x));
    else if (type == TB_BF16)
        *h = sim_float_to_bf16((float)creal(x));
    else if (type == TB_F32 || type == TB_C32)
        f[0] = (float)creal(x);
    else
        d[0] = creal(x);
    if (type == TB_C32)
        f[1] = (float)cimag(x);
    if (type == TB_C64)
        d[1] = cimag(x);
}

static unsigned next(unsigned *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 16;
}

/* The last byte of the matrix is the last before a page nobody may touch. */
static void matrix_open(struct matrix *x, enum tb_type type, int64_t rows, int64_t cols,
                        int64_t items, const struct spec *spec, unsigned seed, bool nan)
{
    const size_t elem = call_elem_bytes(type), page = (size_t)sysconf(_SC_PAGESIZE);
    const int range = type == TB_F16 || type == TB_BF16 ? 1 : 3;
    x->rows = rows;
    x->cols = cols;
    x->ld = rows + spec->gap;
    x->stride = x->ld * cols + spec->gap;
    x->bytes = (size_t)((items - 1) * x->stride + (cols - 1) * x->ld + rows) * elem;
    const size_t inside = (x->bytes + page - 1) / page * page;
    x->map_bytes = inside + 2 * page;
    x->map = mmap(NULL, x->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (x->map == MAP_FAILED || mprotect(x->map + page, inside, PROT_READ | PROT_WRITE) != 0)
        abort();
    x->data = x->map + page + inside - x->bytes;
    memset(x->map + page, 0xFF, inside); /* NaN in every type */
    x->list = calloc((size_t)items, sizeof *x->list);
    for (int64_t item = 0; item < items; item++) {
        char *base = x->data + (size_t)(item * x->stride) * elem;
        x->list[item] = base;
        for (int64_t col = 0; col < cols && !nan; col++)
            for (int64_t row = 0; row < rows; row++) {
                const double re = (int)(next(&seed) % (unsigned)(2 * range + 1)) - range;
                const double im = (int)(next(&seed) % (unsigned)(2 * range + 1)) - range;
                store(type, base + (size_t)(col * x->ld + row) * elem, re + im * I);
            }
    }
    x->copy = malloc(inside);
    memcpy(x->copy, x->map + page, inside);
}

static void matrix_place(struct matrix *x, enum tb_type type, int64_t items, enum tb_where where)
{
    if (where == TB_HOST_PAGEABLE)
        return;
    x->far = sim_user_alloc(where, x->bytes);
    for (int64_t item = 0; item < items; item++)
        x->list[item] =
            (const void *)((uintptr_t)x->far + (size_t)(item * x->stride) * call_elem_bytes(type));
}

void product_push(struct product *p)
{
    for (int i = 0; i < 3; i++)
        if (p->x[i].far)
            sim_user_write(p->x[i].far, p->x[i].data, p->x[i].bytes);
}

void product_pull(struct product *p)
{
    for (int i = 0; i < 3; i++)
        if (p->x[i].far)
            sim_user_read(p->x[i].data, p->x[i].far, p->x[i].bytes);
}

static char *place_of(const struct matrix *x)
{
    return x->far ? x->far : x->data;
}

static void scalar_set(enum tb_type type, union tb_scalar *s, double x)
{
    memset(s, 0, sizeof *s);
    store(type, (char *)s, x);
}

void product_open(struct product *p, const struct spec *spec)
{
    const int64_t items = spec->batch > 1 ? spec->batch : 1;
    const bool ta = spec->ta != 'N', tb = spec->tb != 'N';
    const enum tb_type scalar = spec->ab == TB_F16 || spec->ab == TB_BF16 ? TB_F32 : spec->ab;
    memset(p, 0, sizeof *p);
    p->spec = *spec;
    matrix_open(&p->x[0], spec->ab, ta ? spec->k : spec->m, ta ? spec->m : spec->k,
                spec->share_a ? 1 : items, spec, spec->seed * 3 + 1, false);
    matrix_open(&p->x[1], spec->ab, tb ? spec->n : spec->k, tb ? spec->k : spec->n, items, spec,
                spec->seed * 3 + 2, false);
    matrix_open(&p->x[2], spec->c, spec->m, spec->n, items, spec, spec->seed * 3 + 3, spec->nan_c);
    matrix_place(&p->x[0], spec->ab, spec->share_a ? 1 : items, spec->where[0]);
    matrix_place(&p->x[1], spec->ab, items, spec->where[1]);
    matrix_place(&p->x[2], spec->c, items, spec->where[2]);
    product_push(p);
    p->call = (struct tb_call){
        .name = "test",
        .op = TB_GEMM,
        .ab = spec->ab,
        .c_type = spec->c,
        .alpha_type = scalar,
        .beta_type = scalar,
        .ta = spec->ta,
        .tb = spec->tb,
        .m = spec->m,
        .n = spec->n,
        .k = spec->k,
        .a = place_of(&p->x[0]),
        .b = place_of(&p->x[1]),
        .c = place_of(&p->x[2]),
        .lda = p->x[0].ld,
        .ldb = p->x[1].ld,
        .ldc = p->x[2].ld,
        .batch = items,
        .stride_a = spec->share_a ? 0 : p->x[0].stride,
        .stride_b = p->x[1].stride,
        .stride_c = p->x[2].stride,
        .where = {(uint8_t)spec->where[0], (uint8_t)spec->where[1], (uint8_t)spec->where[2]},
    };
    if (spec->lists) {
        p->call.form = TB_BATCH;
        p->call.alist = p->x[0].list;
        p->call.blist = p->x[1].list;
        p->call.clist = (void *const *)(void *)p->x[2].list;
        p->call.a = p->call.b = p->call.c = NULL;
    } else if (items > 1) {
        p->call.form = TB_STRIDED;
    }
    scalar_set(scalar, &p->call.alpha, spec->alpha);
    scalar_set(scalar, &p->call.beta, spec->beta);
}

static size_t inside_bytes(const struct matrix *x)
{
    return x->map_bytes - 2 * (size_t)sysconf(_SC_PAGESIZE);
}

static char *inside_of(const struct matrix *x)
{
    return x->map + (size_t)sysconf(_SC_PAGESIZE);
}

void product_close(struct product *p)
{
    for (int i = 0; i < 3; i++) {
        if (p->x[i].far)
            sim_user_free(p->x[i].far);
        munmap(p->x[i].map, p->x[i].map_bytes);
        free(p->x[i].copy);
        free(p->x[i].list);
    }
}

void product_reset(struct product *p)
{
    memcpy(inside_of(&p->x[2]), p->x[2].copy, inside_bytes(&p->x[2]));
    product_push(p);
}

static double _Complex element(const struct matrix *x, enum tb_type type, int64_t item, char trans,
                               int64_t row, int64_t col)
{
    const int64_t r = trans == 'N' ? row : col, c = trans == 'N' ? col : row;
    const double _Complex value =
        load(type, x->data + (size_t)(item * x->stride + c * x->ld + r) * call_elem_bytes(type));
    return trans == 'C' ? conj(value) : value;
}

/* What an element of C becomes, given what it was. */
static double _Complex wanted(const struct product *p, int64_t item, int64_t i, int64_t j,
                              double _Complex old)
{
    const struct spec *s = &p->spec;
    double _Complex sum = 0;
    for (int64_t l = 0; l < s->k; l++)
        sum += element(&p->x[0], s->ab, s->share_a ? 0 : item, s->ta, i, l) *
               element(&p->x[1], s->ab, item, s->tb, l, j);
    return s->beta == 0 ? s->alpha * sum : s->alpha * sum + s->beta * old;
}

void product_rect(struct product *p, const struct tb_rect *rect)
{
    const struct matrix *x = &p->x[2];
    const enum tb_type type = p->spec.c;
    product_pull(p);
    for (int64_t j = rect->j0; j < rect->j0 + rect->n; j++)
        for (int64_t i = rect->i0; i < rect->i0 + rect->m; i++) {
            char *at =
                x->data + (size_t)(rect->item * x->stride + j * x->ld + i) * call_elem_bytes(type);
            store(type, at, wanted(p, rect->item, i, j, load(type, at)));
        }
    product_push(p);
}

bool product_right(struct product *p)
{
    struct matrix *x = &p->x[2];
    const enum tb_type type = p->spec.c;
    const size_t elem = call_elem_bytes(type), before = (size_t)(x->data - inside_of(x));
    char *want = malloc(inside_bytes(x));
    bool right = true;
    product_pull(p);
    memcpy(want, x->copy, inside_bytes(x));
    for (int64_t item = 0; item < p->call.batch; item++)
        for (int64_t j = 0; j < x->cols; j++)
            for (int64_t i = 0; i < x->rows; i++) {
                char *at = want + before + (size_t)(item * x->stride + j * x->ld + i) * elem;
                store(type, at, wanted(p, item, i, j, load(type, at)));
                const char *got = x->data + (at - want - (ptrdiff_t)before);
                if (right && load(type, got) != load(type, at)) {
                    fprintf(stderr, "C(%lld, %lld) of %lld is %g%+gi, not %g%+gi\n", (long long)i,
                            (long long)j, (long long)item, creal(load(type, got)),
                            cimag(load(type, got)), creal(load(type, at)), cimag(load(type, at)));
                    right = false;
                }
                memcpy(at, got, elem); /* equal, but for the sign of a zero */
            }
    if (right && memcmp(want, inside_of(x), inside_bytes(x)) != 0) {
        fprintf(stderr, "bytes beside C were written\n");
        right = false;
    }
    for (int i = 0; i < 2; i++)
        right = right && memcmp(p->x[i].copy, inside_of(&p->x[i]), inside_bytes(&p->x[i])) == 0;
    free(want);
    return right;
}
