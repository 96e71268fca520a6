/* SPDX-License-Identifier: BSD-3-Clause
 * A plain level-3 BLAS in long double for the tests of this folder: matrices of any element type
 * and either layout, seen through views (transposed, symmetric, triangular); sums in the order of k
 * with every product counted, so that NaN and Inf appear where a plain product has them. */
#ifndef TB_TESTS_ABI_REF_H
#define TB_TESTS_ABI_REF_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum elem { E_H, E_B, E_S, E_D, E_C, E_Z };

struct value {
    long double re, im;
};

static inline size_t elem_bytes(enum elem t)
{
    static const size_t bytes[] = {2, 2, 4, 8, 8, 16};
    return bytes[t];
}

static inline bool elem_complex(enum elem t)
{
    return t >= E_C;
}

static inline struct value elem_get(enum elem t, const void *p, int64_t i)
{
    const char *const at = (const char *)p + i * (int64_t)elem_bytes(t);
    struct value v = {0, 0};
    if (t == E_H) {
        _Float16 h;
        memcpy(&h, at, 2);
        v.re = (long double)(float)h;
    } else if (t == E_B) {
        uint16_t b;
        memcpy(&b, at, 2);
        const uint32_t bits = (uint32_t)b << 16;
        float f;
        memcpy(&f, &bits, 4);
        v.re = f;
    } else if (t == E_S || t == E_C) {
        float f[2] = {0, 0};
        memcpy(f, at, elem_bytes(t));
        v = (struct value){f[0], f[1]};
    } else {
        double d[2] = {0, 0};
        memcpy(d, at, elem_bytes(t));
        v = (struct value){d[0], d[1]};
    }
    return v;
}

/* bfloat16 is cut, not rounded: callers keep to values that have no more bits, or do not mind. */
static inline void elem_put(enum elem t, void *p, int64_t i, struct value v)
{
    char *const at = (char *)p + i * (int64_t)elem_bytes(t);
    const float f[2] = {(float)v.re, (float)v.im};
    const double d[2] = {(double)v.re, (double)v.im};
    if (t == E_H) {
        const _Float16 h = (_Float16)f[0];
        memcpy(at, &h, 2);
    } else if (t == E_B) {
        uint32_t bits;
        memcpy(&bits, f, 4);
        const uint16_t b = (uint16_t)(bits >> 16);
        memcpy(at, &b, 2);
    } else if (t == E_S || t == E_C) {
        memcpy(at, f, elem_bytes(t));
    } else {
        memcpy(at, d, elem_bytes(t));
    }
}

/* A stored matrix, and how an operand sees it. */
struct view {
    enum elem t;
    const void *p;
    int64_t ld;
    bool row;   /* row-major */
    char trans; /* N, T, C */
    char kind;  /* 0 general, S symmetric, H hermitian, T triangular */
    char uplo, diag;
};

static inline struct value view_stored(const struct view *v, int64_t i, int64_t j)
{
    return elem_get(v->t, v->p, v->row ? i * v->ld + j : j * v->ld + i);
}

static inline struct value view_get(const struct view *v, int64_t i, int64_t j)
{
    const bool flip = v->trans == 'T' || v->trans == 'C';
    int64_t r = flip ? j : i, c = flip ? i : j;
    const bool inside = v->kind == 0 || r == c || (r < c) == (v->uplo == 'U');
    struct value x = {0, 0};
    if (v->kind == 'T') {
        if (!inside)
            return x;
        if (r == c && v->diag == 'U')
            return (struct value){1, 0};
    } else if (!inside) {
        x = view_stored(v, c, r);
        if (v->kind == 'H')
            x.im = -x.im;
        return x;
    }
    x = view_stored(v, r, c);
    if (v->kind == 'H' && r == c)
        x.im = 0;
    if (v->trans == 'C')
        x.im = -x.im;
    return x;
}

static inline struct value value_mul(struct value a, struct value b, bool complex)
{
    if (!complex)
        return (struct value){a.re * b.re, 0};
    return (struct value){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static inline struct value value_add(struct value a, struct value b)
{
    return (struct value){a.re + b.re, a.im + b.im};
}

static inline long double value_abs(struct value a)
{
    return fabsl(a.re) + fabsl(a.im);
}

static inline bool value_finite(struct value a)
{
    return isfinite(a.re) && isfinite(a.im);
}

/* Entry (i, j) of A B over k terms; *size gets the sum of the absolute products. */
static inline struct value ref_dot(const struct view *a, const struct view *b, int64_t i, int64_t j,
                                   int64_t k, long double *size)
{
    const bool complex = elem_complex(a->t);
    struct value sum = {0, 0};
    for (int64_t l = 0; l < k; l++) {
        const struct value x = view_get(a, i, l), y = view_get(b, l, j);
        sum = value_add(sum, value_mul(x, y, complex));
        *size += value_abs(x) * value_abs(y);
    }
    return sum;
}

/* alpha dot + beta old by the rules: alpha = 0 or k = 0 (given as use = false) does not look at the
 * dot, beta = 0 not at the old value. */
static inline struct value ref_blend(struct value alpha, struct value dot, bool use,
                                     struct value beta, struct value old, bool complex)
{
    struct value out = {0, 0};
    if (use && (alpha.re != 0 || alpha.im != 0))
        out = value_mul(alpha, dot, complex);
    if (beta.re != 0 || beta.im != 0)
        out = value_add(out, beta.re == 1 && beta.im == 0 ? old : value_mul(beta, old, complex));
    return out;
}

/* Numbers that repeat from run to run. */
static uint64_t random_state = 1;
static inline uint32_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 16);
}
static inline int random_int(int low, int high)
{
    return low + (int)(random_bits() % (uint32_t)(high - low + 1));
}

#endif
