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

/* The sum behind an element of a product, by the type of routine. `c`: what C holds, m x n. */
static double _Complex sum_of(const struct product *p, int64_t item, int64_t i, int64_t j,
                              const double _Complex *c)
{
    const struct spec *s = &p->spec;
    const struct matrix *a = &p->x[0], *b = &p->x[1];
    const bool left = s->side == 'L';
    struct tb_call product = p->call;
    double _Complex sum = 0, alpha = s->alpha + s->alpha_im * I;
    if (s->op == TB_HERK)
        alpha = s->alpha;
    call_as_product(&product);
    if (s->op == TB_SYRK || s->op == TB_HERK)
        b = a;
    switch (s->op) {
    case TB_SYMM:
    case TB_HEMM:
        for (int64_t l = 0; l < a->rows; l++)
            sum += left ? square_element(p, i, l) * element(b, s->ab, 0, 'N', l, j)
                        : element(b, s->ab, 0, 'N', i, l) * square_element(p, l, j);
        return alpha * sum;
    case TB_TRMM:
        for (int64_t l = 0; l < a->rows; l++) {
            const double _Complex x = left ? square_element(p, i, l) : square_element(p, l, j);
            if (x != 0)
                sum += x * (left ? c[l + j * s->m] : c[i + l * s->m]);
        }
        return alpha * sum;
    default:
        for (int64_t l = 0; l < s->k; l++)
            sum += element(a, s->ab, s->share_a ? 0 : item, s->ta, i, l) *
                   element(b, s->ab, item, product.tb, l, j);
        sum *= alpha;
        for (int64_t l = 0; l < s->k && call_is_rank_2k(&p->call); l++)
            sum += (s->op == TB_HER2K ? conj(alpha) : alpha) * element(b, s->ab, 0, s->ta, i, l) *
                   element(a, s->ab, 0, product.tb, l, j);
        return sum;
    }
}

/* op(A) X = alpha C, or X op(A) = alpha C, in place of c. */
static void solve(const struct product *p, double _Complex *c)
{
    const struct spec *s = &p->spec;
    const bool left = s->side == 'L', lower = (s->uplo == 'L') == (s->ta == 'N');
    const int64_t order = left ? s->m : s->n, others = left ? s->n : s->m;
    const int64_t step = left ? 1 : s->m, other = left ? s->m : 1;
    for (int64_t o = 0; o < others; o++)
        for (int64_t q = 0; q < order; q++) {
            const int64_t i = lower == left ? q : order - 1 - q;
            double _Complex sum = (s->alpha + s->alpha_im * I) * c[o * other + i * step];
            for (int64_t r = 0; r < q; r++) {
                const int64_t l = lower == left ? r : order - 1 - r;
                sum -= (left ? square_element(p, i, l) : square_element(p, l, i)) *
                       c[o * other + l * step];
            }
            c[o * other + i * step] = sum / square_element(p, i, i);
        }
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
    for (int64_t j = 0; j < s->n; j++)
        for (int64_t i = 0; i < s->m; i++) {
            double _Complex *to = &out[i + j * s->m];
            const bool adds = s->beta != 0 && s->op != TB_TRMM;
            if (!counts(x, i, j))
                continue;
            *to = sum_of(p, item, i, j, old);
            *to = adds ? *to + s->beta * old[i + j * s->m] : *to;
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
