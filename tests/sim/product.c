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
        return CMPLX((double)f[0], (double)f[1]);
    case TB_C64:
        return CMPLX(d[0], d[1]);
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

static bool counts(const struct matrix *x, int64_t row, int64_t col)
{
    if (x->part && (x->part == 'L' ? row < col : row > col))
        return false;
    return !(x->unit && row == col);
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
                char *at = base + (size_t)(col * x->ld + row) * elem;
                if (!counts(x, row, col))
                    continue;
                store(type, at, re + im * I);
                if (x->real && row == col && call_is_complex(type))
                    memset(at + elem / 2, 0xFF, elem / 2);
            }
    }
}

/* A diagonal that can be divided by without rounding. */
static void diagonal_set(struct matrix *x, enum tb_type type)
{
    for (int64_t i = 0; i < x->rows && !x->unit; i++)
        store(type, x->data + (size_t)(i * x->ld + i) * call_elem_bytes(type),
              call_is_complex(type) && i % 3 == 0 ? 2 * I
              : i % 2                             ? 1
                                                  : -2);
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

static void scalar_set(enum tb_type type, union tb_scalar *s, double _Complex x)
{
    memset(s, 0, sizeof *s);
    store(type, (char *)s, x);
}

static struct matrix *make(struct product *p, int which, int64_t rows, int64_t cols)
{
    const struct spec *spec = &p->spec;
    const int64_t items = which == 0 && spec->share_a ? 1 : p->call.batch;
    const enum tb_type type = which == 2 ? spec->c : spec->ab;
    matrix_open(&p->x[which], type, rows, cols, items, spec, spec->seed * 3 + 1 + (unsigned)which,
                which == 2 && spec->nan_c);
    return &p->x[which];
}

static void call_open(struct product *p)
{
    const struct spec *spec = &p->spec;
    const enum tb_type scalar = spec->ab == TB_F16 || spec->ab == TB_BF16 ? TB_F32 : spec->ab;
    const enum tb_type real = spec->ab == TB_C32 ? TB_F32 : spec->ab == TB_C64 ? TB_F64 : scalar;
    const bool hermitian = spec->op == TB_HERK || spec->op == TB_HER2K;
    p->call = (struct tb_call){
        .name = "test",
        .op = spec->op,
        .ab = spec->ab,
        .c_type = spec->c,
        .alpha_type = spec->op == TB_HERK ? real : scalar,
        .beta_type = hermitian ? real : scalar,
        .side = spec->side,
        .uplo = spec->uplo,
        .diag = spec->diag,
        .ta = spec->ta,
        .tb = spec->tb,
        .m = spec->m,
        .n = spec->n,
        .k = spec->k,
        .batch = spec->batch > 1 ? spec->batch : 1,
        .where = {(uint8_t)spec->where[0], (uint8_t)spec->where[1], (uint8_t)spec->where[2]},
    };
}

static void system_open(struct product *p);

/* The copies are what all is compared with later. */
static void copy_open(struct matrix *x, const char *from)
{
    const size_t bytes = x->map_bytes - 2 * (size_t)sysconf(_SC_PAGESIZE);
    x->copy = malloc(bytes);
    memcpy(x->copy, from, bytes);
}

void product_open(struct product *p, const struct spec *spec)
{
    int64_t rows, cols;
    memset(p, 0, sizeof *p);
    p->spec = *spec;
    call_open(p);
    struct tb_call *call = &p->call;
    const bool square =
        spec->op == TB_SYMM || spec->op == TB_HEMM || spec->op == TB_TRMM || spec->op == TB_TRSM;
    p->x[0].part = square ? spec->uplo : 0;
    p->x[0].unit = spec->diag == 'U';
    p->x[0].real = spec->op == TB_HEMM;
    p->x[2].part = call_is_triangular(call) ? spec->uplo : 0;
    p->x[2].real = spec->op == TB_HERK || spec->op == TB_HER2K;
    call_stored_a(call, &rows, &cols);
    make(p, 0, rows, cols);
    call_stored_b(call, &rows, &cols);
    make(p, 1, call_has_b(call) ? rows : 1, call_has_b(call) ? cols : 1);
    make(p, 2, spec->m, spec->n);
    if (spec->op == TB_TRSM) {
        diagonal_set(&p->x[0], spec->ab);
        system_open(p);
    }
    for (int i = 0; i < 3; i++)
        copy_open(&p->x[i], p->x[i].map + sysconf(_SC_PAGESIZE));
    matrix_place(&p->x[0], spec->ab, spec->share_a ? 1 : call->batch, spec->where[0]);
    matrix_place(&p->x[1], spec->ab, call->batch, spec->where[1]);
    matrix_place(&p->x[2], spec->c, call->batch, spec->where[2]);
    product_push(p);
    call->a = place_of(&p->x[0]);
    call->b = call_has_b(call) ? place_of(&p->x[1]) : NULL;
    call->c = place_of(&p->x[2]);
    call->lda = p->x[0].ld;
    call->ldb = p->x[1].ld;
    call->ldc = p->x[2].ld;
    call->stride_a = spec->share_a ? 0 : p->x[0].stride;
    call->stride_b = p->x[1].stride;
    call->stride_c = p->x[2].stride;
    if (spec->lists) {
        call->form = TB_BATCH;
        call->alist = p->x[0].list;
        call->blist = p->x[1].list;
        call->clist = (void *const *)(void *)p->x[2].list;
        call->a = call->b = call->c = NULL;
    } else if (call->batch > 1) {
        call->form = TB_STRIDED;
    }
    scalar_set(call->alpha_type, &call->alpha, spec->alpha + spec->alpha_im * I);
    scalar_set(call->beta_type, &call->beta, spec->beta);
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

/* An element of the square matrix of symm, hemm, trmm and trsm, with its op. */
static double _Complex square_element(const struct product *p, int64_t row, int64_t col)
{
    const struct spec *s = &p->spec;
    const struct matrix *x = &p->x[0];
    const bool mirrored = s->op == TB_SYMM || s->op == TB_HEMM;
    const char trans = mirrored ? 'N' : s->ta;
    const int64_t r = trans == 'N' ? row : col, c = trans == 'N' ? col : row;
    if (x->unit && r == c)
        return 1;
    if (counts(x, r, c)) {
        const double _Complex value = element(x, s->ab, 0, trans, row, col);
        return x->real && r == c ? creal(value) : value;
    }
    if (!mirrored)
        return 0;
    const double _Complex value = element(x, s->ab, 0, 'N', c, r);
    return s->op == TB_HEMM ? conj(value) : value;
}

/* A factor of a product with its op, vector behind vector: the rows of the left one, the columns of
 * the right one. */
struct factor {
    int64_t length;
    double *re, *im;
};

static struct factor factor_open(int64_t length, int64_t vectors)
{
    struct factor x = {length, malloc((size_t)(length * vectors + 1) * sizeof *x.re),
                       malloc((size_t)(length * vectors + 1) * sizeof *x.im)};
    if (!x.re || !x.im)
        abort();
    return x;
}

static void factor_put(struct factor *x, int64_t vector, int64_t l, double _Complex value)
{
    x->re[vector * x->length + l] = creal(value);
    x->im[vector * x->length + l] = cimag(value);
}

static void factor_close(struct factor *x)
{
    free(x->re);
    free(x->im);
}

/* Row i of the one times column j of the other. Of real types only the real parts count: zero times
 * infinity would be NaN. */
static double _Complex dot(const struct factor *x, int64_t i, const struct factor *y, int64_t j,
                           bool real)
{
    const double *xr = x->re + i * x->length, *xi = x->im + i * x->length;
    const double *yr = y->re + j * x->length, *yi = y->im + j * x->length;
    double re = 0, im = 0;
    for (int64_t l = 0; l < x->length && real; l++)
        re += xr[l] * yr[l];
    for (int64_t l = 0; l < x->length && !real; l++) {
        re += xr[l] * yr[l] - xi[l] * yi[l];
        im += xr[l] * yi[l] + xi[l] * yr[l];
    }
    return CMPLX(re, im);
}

/* The square matrix of symm, hemm, trmm and trsm as a factor. */
static struct factor square_open(const struct product *p)
{
    const bool left = p->spec.side == 'L';
    const int64_t order = left ? p->spec.m : p->spec.n;
    struct factor x = factor_open(order, order);
    for (int64_t v = 0; v < order; v++)
        for (int64_t l = 0; l < order; l++)
            factor_put(&x, v, l, left ? square_element(p, v, l) : square_element(p, l, v));
    return x;
}

/* The factors of the product behind C, by the type of routine; of a rank-2k form, of its second
 * product. `c`: what C holds, m x n. */
static void factors_open(const struct product *p, int64_t item, bool second,
                         const double _Complex *c, struct factor *x, struct factor *y)
{
    const struct spec *s = &p->spec;
    const bool twin = s->op == TB_SYRK || s->op == TB_HERK;
    const struct matrix *a = &p->x[second], *b = &p->x[twin ? 0 : !second];
    const int64_t item_a = s->share_a && !second ? 0 : item;
    struct tb_call product = p->call;
    call_as_product(&product);
    if (p->x[0].part) {
        const bool left = s->side == 'L', triangle = s->op == TB_TRMM;
        const int64_t order = left ? s->m : s->n;
        struct factor *const square = left ? x : y, *const other = left ? y : x;
        *square = square_open(p);
        *other = factor_open(order, left ? s->n : s->m);
        for (int64_t v = 0; v < (left ? s->n : s->m); v++)
            for (int64_t l = 0; l < order; l++) {
                const int64_t i = left ? l : v, j = left ? v : l;
                factor_put(other, v, l,
                           triangle ? c[i + j * s->m] : element(&p->x[1], s->ab, 0, 'N', i, j));
            }
        return;
    }
    *x = factor_open(s->k, s->m);
    *y = factor_open(s->k, s->n);
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t l = 0; l < s->k; l++)
            factor_put(x, i, l, element(a, s->ab, item_a, s->ta, i, l));
    for (int64_t j = 0; j < s->n; j++)
        for (int64_t l = 0; l < s->k; l++)
            factor_put(y, j, l, element(b, s->ab, item, product.tb, l, j));
}

/* op(A) X = alpha C, or X op(A) = alpha C, in place of c. */
static void solve(const struct product *p, double _Complex *c)
{
    const struct spec *s = &p->spec;
    const bool left = s->side == 'L', lower = (s->uplo == 'L') == (s->ta == 'N');
    const bool real = !call_is_complex(s->ab);
    const int64_t order = left ? s->m : s->n, others = left ? s->n : s->m;
    const int64_t step = left ? 1 : s->m, other = left ? s->m : 1;
    struct factor square = square_open(p), x = factor_open(order, 1);
    for (int64_t o = 0; o < others; o++) {
        for (int64_t q = 0; q < order; q++) /* what is not solved for yet counts as zero */
            factor_put(&x, 0, q, 0);
        for (int64_t q = 0; q < order; q++) {
            const int64_t i = lower == left ? q : order - 1 - q;
            const double _Complex sum = (s->alpha + s->alpha_im * I) * c[o * other + i * step] -
                                        dot(&square, i, &x, 0, real);
            c[o * other + i * step] = sum / square_element(p, i, i);
            factor_put(&x, 0, i, c[o * other + i * step]);
        }
    }
    factor_close(&square);
    factor_close(&x);
}

/* All elements of C as they become, from what `data` says they were; NaN where they do not count.
 */
static double _Complex *results(const struct product *p, int64_t item, const char *data)
{
    const struct spec *s = &p->spec;
    const struct matrix *x = &p->x[2];
    double _Complex *old = malloc((size_t)(s->m * s->n) * sizeof *old);
    double _Complex *out = malloc((size_t)(s->m * s->n) * sizeof *out);
    if (!old || !out)
        abort();
    for (int64_t j = 0; j < s->n; j++)
        for (int64_t i = 0; i < s->m; i++) {
            double _Complex value = load(s->c, data + (size_t)(item * x->stride + j * x->ld + i) *
                                                          call_elem_bytes(s->c));
            old[i + j * s->m] = x->real && i == j ? creal(value) : value;
        }
    if (s->op == TB_TRSM) {
        solve(p, old);
        free(out);
        return old;
    }
    const bool real = !call_is_complex(s->ab);
    const double _Complex alpha = s->alpha + (s->op == TB_HERK ? 0 : s->alpha_im) * I;
    for (int second = 0; second <= call_is_rank_2k(&p->call); second++) {
        struct factor left, right;
        factors_open(p, item, second, old, &left, &right);
        const double _Complex scale = second && s->op == TB_HER2K ? conj(alpha) : alpha;
        for (int64_t j = 0; j < s->n; j++)
            for (int64_t i = 0; i < s->m; i++) {
                double _Complex *to = &out[i + j * s->m];
                if (!counts(&p->x[2], i, j))
                    continue;
                *to = (second ? *to : 0) + scale * dot(&left, i, &right, j, real);
            }
        factor_close(&left);
        factor_close(&right);
    }
    for (int64_t j = 0; j < s->n; j++)
        for (int64_t i = 0; i < s->m; i++) {
            double _Complex *to = &out[i + j * s->m];
            if (!counts(x, i, j))
                continue;
            if (s->beta != 0 && s->op != TB_TRMM)
                *to += s->beta * old[i + j * s->m];
            if (x->real && i == j)
                *to = creal(*to);
        }
    free(old);
    return out;
}

/* C = op(A) X / alpha, for a random X of whole numbers, which is there already. */
static void system_open(struct product *p)
{
    struct spec kept = p->spec;
    p->spec.op = TB_TRMM;
    p->spec.alpha = 1 / kept.alpha;
    p->spec.alpha_im = 0;
    double _Complex *c = results(p, 0, p->x[2].data);
    p->spec = kept;
    for (int64_t j = 0; j < kept.n; j++)
        for (int64_t i = 0; i < kept.m; i++)
            store(kept.c, p->x[2].data + (size_t)(j * p->x[2].ld + i) * call_elem_bytes(kept.c),
                  c[i + j * kept.m]);
    free(c);
}

void product_rect(struct product *p, const struct tb_rect *rect)
{
    const struct matrix *x = &p->x[2];
    const enum tb_type type = p->spec.c;
    product_pull(p);
    double _Complex *c = results(p, rect->item, x->data);
    for (int64_t j = rect->j0; j < rect->j0 + rect->n; j++)
        for (int64_t i = rect->i0; i < rect->i0 + rect->m; i++)
            if (counts(x, i, j))
                store(type,
                      x->data +
                          (size_t)(rect->item * x->stride + j * x->ld + i) * call_elem_bytes(type),
                      c[i + j * p->spec.m]);
    free(c);
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
    for (int64_t item = 0; item < p->call.batch; item++) {
        double _Complex *c = results(p, item, want + before);
        for (int64_t j = 0; j < x->cols; j++)
            for (int64_t i = 0; i < x->rows; i++) {
                if (!counts(x, i, j))
                    continue;
                char *at = want + before + (size_t)(item * x->stride + j * x->ld + i) * elem;
                store(type, at, c[i + j * p->spec.m]);
                const char *got = x->data + (at - want - (ptrdiff_t)before);
                if (right && load(type, got) != load(type, at)) {
                    fprintf(stderr, "C(%lld, %lld) of %lld is %g%+gi, not %g%+gi\n", (long long)i,
                            (long long)j, (long long)item, creal(load(type, got)),
                            cimag(load(type, got)), creal(load(type, at)), cimag(load(type, at)));
                    right = false;
                }
                memcpy(at, got, elem); /* equal, but for the sign of a zero */
            }
        free(c);
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
