/* SPDX-License-Identifier: BSD-3-Clause
 * The model of x3_model.h. Products of 16-bit numbers are exact in double, and so are sums of what
 * the tensor core keeps of them. */
#include "x3_model.h"

#include "../../kernels/fold.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Kept behind the point when everything is aligned to the largest term. */
enum { FRACTION = 25 };

static float cut_to_float(double x)
{
    float f = (float)x;
    if (fabs((double)f) > fabs(x))
        f = nextafterf(f, 0);
    return f;
}

/* The exponent of a product is the sum of those of its factors: its significand lies in [1, 4). */
static int exponent_of(double x)
{
    return x == 0 ? INT32_MIN / 4 : ilogb(x);
}

float x3_model_step(float acc, const float *x, const float *y, int n)
{
    int top = exponent_of((double)acc);
    double sum = 0;
    for (int i = 0; i < n; i++) {
        const int e = exponent_of((double)x[i]) + exponent_of((double)y[i]);
        top = x[i] != 0 && y[i] != 0 && e > top ? e : top;
    }
    if (top < -300)
        return 0;
    const double up = ldexp(1, FRACTION - top);
    for (int i = 0; i < n; i++)
        sum += trunc((double)x[i] * (double)y[i] * up);
    return cut_to_float((sum + trunc((double)acc * up)) / up);
}

/* To nearest even with `bits` of significand, subnormal below 2^least. */
static double rounded(double x, int bits, int least)
{
    if (x == 0)
        return x;
    const int e = ilogb(x) > least ? ilogb(x) : least;
    const double unit = ldexp(1, e - bits + 1);
    return nearbyint(x / unit) * unit;
}

static float cut(float x, uint32_t threshold)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = tb_x3_cut(bits, threshold);
    memcpy(&x, &bits, sizeof bits);
    return (float)rounded((double)x, 11, -14);
}

void x3_model_planes(double x, int k, int which, int planes, float out[TB_X3_PLANES_MAX])
{
    float left = (float)x;
    for (int i = 0; i < planes; i++) {
        out[i] = planes == 2 ? cut(left, tb_x3_threshold(k, which, i))
                             : (float)rounded((double)left, 8, -126);
        left = (left - out[i]) * (planes == 2 ? TB_X3_LO : 1);
    }
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffffu;
}

static uint32_t most_of(const float *row, int k)
{
    uint32_t most = 0;
    for (int l = 0; l < k; l++)
        most = bits_of(row[l]) > most ? bits_of(row[l]) : most;
    return most;
}

static void look(const float *x, int rows, int k, uint32_t *small, uint32_t *tiny,
                 struct tb_x3_guard *guard)
{
    for (int r = 0; r < rows; r++, x += k) {
        const uint32_t most = most_of(x, k);
        const int top = tb_x3_exponent(most, 0);
        if (most >= 0x7f800000u)
            guard->special = 1;
        for (int l0 = 0; l0 < k && most > 0 && most < 0x7f800000u; l0 += TB_X3_SEG) {
            const int end = l0 + TB_X3_SEG < k ? l0 + TB_X3_SEG : k;
            uint32_t s = 0, t = 0;
            for (int l = l0; l < end; l++) {
                const uint32_t bits = bits_of(x[l]);
                const int below = top - tb_x3_exponent(bits, -1000);
                s += below >= TB_X3_SMALL;
                t += bits > 0 && below >= TB_X3_TINY;
                guard->wide |= bits > 0 && below >= TB_X3_WIDE;
            }
            if (end - l0 == TB_X3_SEG && s > *small)
                *small = s;
            *tiny = t > *tiny ? t : *tiny;
        }
    }
}

enum tb_x3_path x3_model_path(const struct x3_problem *p, struct tb_x3_guard *guard)
{
    memset(guard, 0, sizeof *guard);
    look(p->a, p->m, p->k, &guard->small[0], &guard->tiny[0], guard);
    look(p->b, p->n, p->k, &guard->small[1], &guard->tiny[1], guard);
    guard->path = tb_x3_decide(guard, p->k);
    return (enum tb_x3_path)guard->path;
}

/* --- the ways --- */

/* All planes of all rows, k filled up with zeros: [row][plane][k]. */
static float *pack(const float *x, int rows, int k, int filled, int which, int planes)
{
    const int top = planes == 2 ? TB_X3_TOP_F16 : TB_X3_TOP_BF16;
    float *out = calloc((size_t)rows * (size_t)planes * (size_t)filled, sizeof *out);
    for (int r = 0; r < rows; r++) {
        const int up = top - tb_x3_exponent(most_of(x + (size_t)r * (size_t)k, k), top);
        for (int l = 0; l < k; l++) {
            float parts[TB_X3_PLANES_MAX];
            x3_model_planes(ldexp((double)x[(size_t)r * (size_t)k + (size_t)l], up), l, which,
                            planes, parts);
            for (int i = 0; i < planes; i++)
                out[((size_t)r * (size_t)planes + (size_t)i) * (size_t)filled + (size_t)l] =
                    parts[i];
        }
    }
    return out;
}

static float step_of(float acc, const float *x, const float *y, int filled, int i, int j, int l)
{
    return x3_model_step(acc, x + (size_t)i * (size_t)filled + l,
                         y + (size_t)j * (size_t)filled + l, 16);
}

/* One entry from the planes x of B and y of A, in the order of the kernel. */
static float entry(const float *x, const float *y, int filled, int planes)
{
    static const int pairs[][2] = {{0, 2}, {1, 1}, {2, 0}, {0, 1}, {1, 0}};
    float level = 0;
    for (int l0 = 0; l0 < filled; l0 += TB_X3_FOLD) {
        float sum = 0, cross = 0;
        for (int l = l0; l < l0 + TB_X3_FOLD && l < filled; l += TB_X3_LEAVE) {
            float lead = 0;
            for (int h = 0; h < TB_X3_LEAVE; h += 16)
                lead = step_of(lead, x, y, filled, 0, 0, l + h);
            for (int q = planes == 2 ? 3 : 0; q < 5; q++)
                for (int h = 0; h < TB_X3_LEAVE; h += 16)
                    cross = step_of(cross, x, y, filled, pairs[q][0], pairs[q][1], l + h);
            sum += lead;
        }
        const float part = fmaf(cross, planes == 2 ? 1 / TB_X3_LO : 1, sum);
        level = l0 ? level + part : part;
    }
    return level;
}

static float chain(const float *a, const float *b, int k)
{
    float level = 0;
    const int fold = (int)tb_fold_every(k, 1);
    for (int l0 = 0; l0 < k; l0 += fold) {
        float sum = 0;
        for (int l = l0; l < l0 + fold && l < k; l++)
            sum = fmaf(a[l], b[l], sum);
        level += sum;
    }
    return level;
}

void x3_model(const struct x3_problem *p, enum tb_x3_path path, float *c)
{
    const int planes = path == TB_X3_F16 ? 2 : 3,
              filled = (p->k + TB_X3_STEP - 1) / TB_X3_STEP * TB_X3_STEP;
    const int top = planes == 2 ? TB_X3_TOP_F16 : TB_X3_TOP_BF16;
    const size_t k = (size_t)p->k, line = (size_t)planes * (size_t)filled;
    float *a = NULL, *b = NULL;
    if (path != TB_X3_SIMT) {
        a = pack(p->a, p->m, p->k, filled, 0, planes);
        b = pack(p->b, p->n, p->k, filled, 1, planes);
    }
    for (int i = 0; i < p->m; i++)
        for (int j = 0; j < p->n; j++) {
            float *to = c + (size_t)i * (size_t)p->n + (size_t)j;
            if (path == TB_X3_SIMT) {
                *to = chain(p->a + (size_t)i * k, p->b + (size_t)j * k, p->k);
                continue;
            }
            const int e = tb_x3_exponent(most_of(p->a + (size_t)i * k, p->k), top) +
                          tb_x3_exponent(most_of(p->b + (size_t)j * k, p->k), top) - 2 * top;
            *to = (float)ldexp(
                (double)entry(b + (size_t)j * line, a + (size_t)i * line, filled, planes), e);
        }
    free(a);
    free(b);
}
