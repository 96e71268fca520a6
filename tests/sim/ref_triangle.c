/* SPDX-License-Identifier: BSD-3-Clause
 * Triangles on the simulated device: plain loops in double for all types, the contract of
 * kparams.h. Single precision is rounded once, at the end. */
#pragma GCC optimize("O3")
#include "dev_sim.h"

#include <complex.h>
#include <stdlib.h>

static double _Complex load(enum tb_type type, const void *base, int64_t i)
{
    const float *f = base;
    const double *d = base;
    switch (type) {
    case TB_F32:
        return CMPLX((double)f[i], 0);
    case TB_F64:
        return CMPLX(d[i], 0);
    case TB_C32:
        return CMPLX((double)f[2 * i], (double)f[2 * i + 1]);
    default:
        return CMPLX(d[2 * i], d[2 * i + 1]);
    }
}

static void store(enum tb_type type, void *base, int64_t i, double _Complex x)
{
    float *f = base;
    double *d = base;
    if (type == TB_F32)
        f[i] = (float)creal(x);
    else if (type == TB_F64)
        d[i] = creal(x);
    if (type == TB_C32) {
        f[2 * i] = (float)creal(x);
        f[2 * i + 1] = (float)cimag(x);
    } else if (type == TB_C64) {
        d[2 * i] = creal(x);
        d[2 * i + 1] = cimag(x);
    }
}

/* A real type stays real: 0 i times infinity would be NaN. */
static double _Complex times(enum tb_type type, double _Complex x, double _Complex y)
{
    if (type == TB_F32 || type == TB_F64)
        return creal(x) * creal(y);
    const double xr = creal(x), xi = cimag(x), yr = creal(y), yi = cimag(y);
    return CMPLX(xr * yr - xi * yi, xr * yi + xi * yr);
}

static double _Complex over(enum tb_type type, double _Complex x, double _Complex y)
{
    return type == TB_F32 || type == TB_F64 ? creal(x) / creal(y) : x / y;
}

/* op(A)(i, j), which counts. */
static double _Complex op_element(enum tb_type type, const struct tb_gemm_params *p, const void *a,
                                  int64_t i, int64_t j)
{
    const bool t = p->op_a & TB_KOP_T;
    if (i == j && p->way & TB_WAY_UNIT)
        return 1;
    const double _Complex x = load(type, a, t ? j + i * p->lda : i + j * p->lda);
    return p->op_a & TB_KOP_R ? conj(x) : x;
}

void sim_triangle(enum tb_type type, const struct tb_gemm_params *p, const void *a, void *c)
{
    const bool right = p->way & TB_WAY_RIGHT, solve = p->way & TB_WAY_SOLVE;
    const bool stored_lower = (p->uplo & TB_KUPLO_SIDE) == TB_KUPLO_LOWER;
    const bool op_lower = stored_lower == !(p->op_a & TB_KOP_T), lower = op_lower != right;
    const int64_t order = p->k, vectors = right ? p->m : p->n;
    const int64_t along = right ? p->ldc : 1, across = right ? 1 : p->ldc;
    const double _Complex alpha = CMPLX(p->alpha[0], p->alpha[1]);
    double _Complex *x = malloc((size_t)order * sizeof *x);
    double _Complex *w = malloc((size_t)(order * order) * sizeof *w);
    if (!x || !w)
        abort();
    /* W works from the left, and is lower in the order in which it is gone through. */
    for (int64_t q = 0; q < order; q++)
        for (int64_t r = 0; r <= q; r++) {
            const int64_t i = lower ? q : order - 1 - q, j = lower ? r : order - 1 - r;
            w[q * order + r] = right ? op_element(type, p, a, j, i) : op_element(type, p, a, i, j);
        }
    for (int64_t v = 0; v < vectors; v++) {
        for (int64_t q = 0; q < order; q++)
            x[q] = load(type, c, v * across + (lower ? q : order - 1 - q) * along);
        for (int64_t y = 0; y < order; y++) {
            const int64_t q = solve ? y : order - 1 - y;
            double _Complex sum = solve ? times(type, alpha, x[q]) : 0;
            for (int64_t r = 0; r < q; r++)
                sum = solve ? sum - times(type, w[q * order + r], x[r])
                            : sum + times(type, w[q * order + r], x[r]);
            if (p->way & TB_WAY_UNIT)
                x[q] = solve ? sum : sum + x[q];
            else
                x[q] = solve ? over(type, sum, w[q * order + q])
                             : sum + times(type, w[q * order + q], x[q]);
            if (!solve)
                x[q] = times(type, alpha, x[q]);
        }
        for (int64_t q = 0; q < order; q++)
            store(type, c, v * across + (lower ? q : order - 1 - q) * along, x[q]);
    }
    free(x);
    free(w);
}

void sim_mirror(enum tb_type type, const struct tb_gemm_params *p, void *c)
{
    const bool lower = (p->uplo & TB_KUPLO_SIDE) == TB_KUPLO_LOWER, real = p->uplo & TB_KUPLO_REAL;
    for (int64_t j = 0; j < p->k; j++)
        for (int64_t i = j; i < p->k; i++) {
            const int64_t low = i + j * p->ldc, high = j + i * p->ldc;
            const double _Complex x = load(type, c, lower ? low : high);
            if (i != j)
                store(type, c, lower ? high : low, real ? conj(x) : x);
            else if (real)
                store(type, c, low, creal(x));
        }
}
