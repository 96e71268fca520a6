/* SPDX-License-Identifier: BSD-3-Clause
 * Random matrices and the error of a product. A column is made from the seed and its number alone,
 * so any part of a matrix can be made again to check against, and all CPUs can fill one. Called by
 * every measuring program. */
#include "perf.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const char *const data_dist_names[] = {"signed",    "uniform",  "normal", "graded", "cancel",
                                       "subnormal", "overflow", "huge",   "infnan", NULL};

int data_dist_find(const char *name)
{
    for (int i = 0; i < DATA_DISTS; i++)
        if (strcmp(name, data_dist_names[i]) == 0)
            return i;
    return -1;
}

uint16_t data_to_half(double x)
{
    const _Float16 half = (_Float16)x;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}

double data_from_half(uint16_t h)
{
    _Float16 half;
    memcpy(&half, &h, sizeof half);
    return (double)half;
}

static uint16_t data_to_bfloat(double x)
{
    const float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (isnan(f))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double data_from_bfloat(uint16_t h)
{
    const uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

static void data_put(enum tb_type type, void *out, int64_t i, const double x[2])
{
    switch (type) {
    case TB_F16:
        ((uint16_t *)out)[i] = data_to_half(x[0]);
        break;
    case TB_BF16:
        ((uint16_t *)out)[i] = data_to_bfloat(x[0]);
        break;
    case TB_F32:
        ((float *)out)[i] = (float)x[0];
        break;
    case TB_F64:
        ((double *)out)[i] = x[0];
        break;
    case TB_C32:
        ((float *)out)[2 * i] = (float)x[0];
        ((float *)out)[2 * i + 1] = (float)x[1];
        break;
    default:
        ((double *)out)[2 * i] = x[0];
        ((double *)out)[2 * i + 1] = x[1];
        break;
    }
}

void data_narrow(enum tb_type type, double x, uint16_t *out)
{
    *out = type == TB_BF16 ? data_to_bfloat(x) : data_to_half(x);
}

void data_widen(enum tb_type type, const void *from, int64_t stride, int64_t n, double *out)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = i * stride;
        switch (type) {
        case TB_F16:
            out[i] = data_from_half(((const uint16_t *)from)[at]);
            break;
        case TB_BF16:
            out[i] = data_from_bfloat(((const uint16_t *)from)[at]);
            break;
        case TB_F32:
            out[i] = (double)((const float *)from)[at];
            break;
        case TB_F64:
            out[i] = ((const double *)from)[at];
            break;
        case TB_C32:
            out[2 * i] = (double)((const float *)from)[2 * at];
            out[2 * i + 1] = (double)((const float *)from)[2 * at + 1];
            break;
        default:
            out[2 * i] = ((const double *)from)[2 * at];
            out[2 * i + 1] = ((const double *)from)[2 * at + 1];
            break;
        }
    }
}

/* --- random numbers
 * -------------------------------------------------------------------------------- */

uint64_t data_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static inline uint64_t data_next(uint64_t *state) /* never 0 */
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545f4914f6cdd1du;
}

static inline double data_unit_open(uint64_t *state)
{
    return ((double)(data_next(state) >> 12) + 0.5) * 0x1p-52;
}

static double data_normal(uint64_t *state)
{
    const double r = sqrt(-2 * log(data_unit_open(state)));
    return r * cos(6.283185307179586 * data_unit_open(state));
}

/* --- distributions
 * --------------------------------------------------------------------------------- */

static int data_min_exponent(enum tb_type type)
{
    static const int least[TB_TYPES] = {[TB_F16] = -18,   [TB_BF16] = -132, [TB_F32] = -140,
                                        [TB_F64] = -1060, [TB_C32] = -140,  [TB_C64] = -1060};
    return least[type];
}

static double data_largest(enum tb_type type)
{
    switch (type) {
    case TB_F16:
        return 65504;
    case TB_BF16:
        return 0x1.fep127;
    case TB_F32:
    case TB_C32:
        return (double)FLT_MAX;
    default:
        return DBL_MAX;
    }
}

/* One part (real or imaginary) of element (i, j); k is its place along the sum, of `depth`. */
static double data_part(const struct data_matrix *x, uint64_t *state, int64_t k, int64_t depth)
{
    const bool is_a = x->role == DATA_A;
    const double place = depth > 1 ? 20.0 * (double)k / (double)(depth - 1) - 10.0 : 0;
    const bool half = x->type == TB_F16;
    double u;
    switch (x->role == DATA_C ? DATA_SIGNED : x->dist) {
    case DATA_UNIFORM:
        return data_unit_open(state);
    case DATA_NORMAL:
    case DATA_CANCEL:
        return data_normal(state);
    case DATA_GRADED: /* f16 would leave its range: a fifth of the exponents */
        return data_normal(state) * exp2((half ? 0.2 : 1) * (is_a ? place : -place));
    case DATA_SUBNORMAL:
        return data_normal(state) * exp2(is_a ? data_min_exponent(x->type) : half ? 6 : 60);
    case DATA_OVERFLOW:
        u = data_unit_open(state);
        if (is_a)
            return (u < 0.5 ? u - 1 : u) * data_largest(x->type);
        return (2 * u - 1) / (4.0 * (double)depth);
    case DATA_INFNAN:
        u = data_unit_open(state);
        if (u * 16.0 * (double)depth < 1)
            return u * 64.0 * (double)depth < 1 ? NAN
                                                : (data_next(state) & 1 ? INFINITY : -INFINITY);
        return 2 * data_unit_open(state) - 1;
    default:
        return 2 * data_unit_open(state) - 1;
    }
}

static void data_column_any(const struct data_matrix *x, int64_t j, void *out)
{
    const int64_t depth = x->k_by_row ? x->rows : x->cols, half = depth / 2;
    const bool cancel = x->dist == DATA_CANCEL && x->role != DATA_C;
    const bool again = cancel && !x->k_by_row && j >= half && j < 2 * half;
    const double scale = x->triangle ? 1.0 / (double)x->rows : 1;
    uint64_t state = data_mix(x->seed ^ data_mix((uint64_t)(again ? j - half : j))) | 1;
    /* what undoes B differs from it by a random 2^-10; drawn apart, so that the rest stays the same
     */
    uint64_t other = data_mix(state) | 1;
    double *kept = cancel && x->k_by_row ? malloc((size_t)(half + 1) * 2 * sizeof *kept) : NULL;
    for (int64_t i = 0; i < x->rows; i++) {
        const bool repeat = again || (kept && i >= half && i < 2 * half);
        double v[2];
        if (kept && repeat) {
            v[0] = kept[2 * (i - half)];
            v[1] = kept[2 * (i - half) + 1];
        } else {
            v[0] = data_part(x, &state, x->k_by_row ? i : j, depth);
            v[1] = call_is_complex(x->type) ? data_part(x, &state, x->k_by_row ? i : j, depth) : 0;
        }
        if (kept && i < half) {
            kept[2 * i] = v[0];
            kept[2 * i + 1] = v[1];
        }
        for (int part = 0; part < 2; part++) {
            if (repeat && x->role == DATA_B)
                v[part] *= -(1 - 0x1p-10 * data_unit_open(&other));
            if (x->dist == DATA_HUGE && x->role == DATA_A && i == x->rows / 3 && j == x->cols / 2)
                v[part] *= x->type == TB_F16 ? 0x1p10 : 0x1p60;
            if (x->triangle)
                v[part] = i == j ? (part == 0 ? 1.5 + 0.5 * v[part] : 0) : v[part] * scale;
        }
        data_put(x->type, out, i, v);
    }
    free(kept);
}

/* U(-1,1) and U(0,1) in single precision, which large timings use, without a call an element. */
static void data_column_f32(const struct data_matrix *x, int64_t j, float *out)
{
    const int64_t n = x->rows * (x->type == TB_C32 ? 2 : 1);
    const float scale = x->dist == DATA_UNIFORM && x->role != DATA_C ? 0x1p-24f : 0x1p-23f;
    const float shift = x->dist == DATA_UNIFORM && x->role != DATA_C ? 0.0f : -1.0f;
    uint64_t state = data_mix(x->seed ^ data_mix((uint64_t)j)) | 1;
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)(data_next(&state) >> 40) * scale + shift;
}

void data_column(const struct data_matrix *matrix, int64_t j, void *out)
{
    const bool plain = matrix->dist == DATA_SIGNED || matrix->dist == DATA_UNIFORM;
    if (plain && !matrix->triangle && (matrix->type == TB_F32 || matrix->type == TB_C32))
        data_column_f32(matrix, j, out);
    else
        data_column_any(matrix, j, out);
}

/* --- all CPUs
 * -------------------------------------------------------------------------------------- */

struct data_team {
    void (*fn)(void *, int64_t);
    void *arg;
    int64_t n;
    _Atomic int64_t next;
};

static void *data_member(void *arg)
{
    struct data_team *team = arg;
    for (;;) {
        const int64_t i = atomic_fetch_add(&team->next, 1);
        if (i >= team->n)
            return NULL;
        team->fn(team->arg, i);
    }
}

void data_parallel(int64_t n, void (*fn)(void *arg, int64_t i), void *arg)
{
    struct data_team team = {.fn = fn, .arg = arg, .n = n};
    pthread_t threads[64];
    int made = 0, wanted = table_cpus();
    if (wanted > 64)
        wanted = 64;
    while (made < wanted - 1 && made < n - 1 &&
           pthread_create(&threads[made], NULL, data_member, &team) == 0)
        made++;
    data_member(&team);
    while (made > 0)
        pthread_join(threads[--made], NULL);
}

struct data_job {
    const struct data_matrix *matrix;
    char *out;
};

static void data_fill_column(void *arg, int64_t j)
{
    const struct data_job *job = arg;
    data_column(job->matrix, j,
                job->out + (size_t)(j * job->matrix->rows) * call_elem_bytes(job->matrix->type));
}

void data_fill(const struct data_matrix *matrix, void *out)
{
    struct data_job job = {matrix, out};
    data_parallel(matrix->cols, data_fill_column, &job);
}

/* --- errors
 * ---------------------------------------------------------------------------------------- */

double data_unit(enum tb_type ab)
{
    static const double units[TB_TYPES] = {
        [TB_F16] = 0x1p-11, [TB_BF16] = 0x1p-8, [TB_F32] = 0x1p-24,
        [TB_F64] = 0x1p-53, [TB_C32] = 0x1p-24, [TB_C64] = 0x1p-53};
    return units[ab];
}

/* The sum and the sum of magnitudes, of either part where complex. */
#define DOT(NAME, REAL, SIZE)                                                                      \
    static void NAME(const double *a, const double *b, int64_t k, bool complex_type,               \
                     long double sum[2], long double size[2])                                      \
    {                                                                                              \
        REAL s[4] = {0}, t[4] = {0}; /* four chains: the adder waits for none */                   \
        for (int64_t i = 0; !complex_type && i < k; i++) {                                         \
            const REAL p = (REAL)a[i] * (REAL)b[i];                                                \
            s[i & 3] += p;                                                                         \
            t[i & 3] += p < 0 ? -p : p;                                                            \
        }                                                                                          \
        for (int64_t i = 0; complex_type && i < k; i++) {                                          \
            const REAL ar = a[2 * i], ai = a[2 * i + 1], br = b[2 * i], bi = b[2 * i + 1];         \
            s[0] += ar * br - ai * bi;                                                             \
            s[1] += ar * bi + ai * br;                                                             \
            t[0] += SIZE(ar * br) + SIZE(ai * bi);                                                 \
            t[1] += SIZE(ar * bi) + SIZE(ai * br);                                                 \
        }                                                                                          \
        sum[0] = complex_type ? s[0] : (s[0] + s[1]) + (s[2] + s[3]);                              \
        sum[1] = complex_type ? s[1] : 0;                                                          \
        size[0] = complex_type ? t[0] : (t[0] + t[1]) + (t[2] + t[3]);                             \
        size[1] = complex_type ? t[1] : 0;                                                         \
    }
DOT(data_dot, double, fabs)
DOT(data_dot_wide, long double, fabsl)

static bool data_same_kind(double got, long double want)
{
    if (isnan(want))
        return isnan(got);
    return isinf(got) && (got > 0) == (want > 0);
}

void data_reference(struct data_wanted *out, const double *a, const double *b, int64_t k,
                    const double alpha[2], const double beta[2], const double c0[2],
                    bool complex_type, bool wide)
{
    long double sum[2], parts[2], *want = out->value, *size = out->size;
    (wide ? data_dot_wide : data_dot)(a, b, k, complex_type, sum, parts);
    want[0] = alpha[0] * sum[0];
    want[1] = 0;
    if (complex_type) {
        want[0] = (long double)alpha[0] * sum[0] - (alpha[1] != 0 ? alpha[1] * sum[1] : 0);
        want[1] = (long double)alpha[0] * sum[1] + (alpha[1] != 0 ? alpha[1] * sum[0] : 0);
    }
    size[0] = fabs(alpha[0]) * parts[0];
    size[1] = fabs(alpha[0]) * parts[1];
    if (complex_type) {
        size[0] += fabs(alpha[1]) * parts[1];
        size[1] += fabs(alpha[1]) * parts[0];
    }
    if (beta[0] != 0 || beta[1] != 0) {
        want[0] += (long double)beta[0] * c0[0] - (complex_type ? beta[1] * c0[1] : 0);
        size[0] += fabs(beta[0] * c0[0]) + (complex_type ? fabs(beta[1] * c0[1]) : 0);
        if (complex_type) {
            want[1] += (long double)beta[0] * c0[1] + beta[1] * c0[0];
            size[1] += fabs(beta[0] * c0[1]) + fabs(beta[1] * c0[0]);
        }
    }
}

void data_judge(struct data_error *error, const struct data_wanted *wanted, const double got[2],
                bool complex_type)
{
    const long double *want = wanted->value;
    error->entries++;
    const bool finite = isfinite(want[0]) && isfinite(want[1]);
    const bool got_finite = isfinite(got[0]) && (!complex_type || isfinite(got[1]));
    if (!finite || !got_finite) {
        /* complex: textbook and other products differ in which part is Inf and which NaN */
        if (complex_type ? finite != got_finite : !data_same_kind(got[0], want[0]))
            error->bad++;
        return;
    }
    /* The parts of a complex entry apart: a small one must not hide behind a large one. */
    const int parts = complex_type ? 2 : 1;
    for (int i = 0; i < parts; i++) {
        const long double miss = fabsl(got[i] - want[i]), size = wanted->size[i];
        const double e = size > 0 ? (double)(miss / size) : miss == 0 ? 0 : INFINITY;
        if (e > error->max)
            error->max = e;
        error->sum2 += e * e / parts;
    }
}

void data_compare(struct data_error *error, const double *a, const double *b, int64_t k,
                  const double alpha[2], const double beta[2], const double c0[2],
                  const double got[2], bool complex_type, bool wide)
{
    struct data_wanted wanted;
    data_reference(&wanted, a, b, k, alpha, beta, c0, complex_type, wide);
    data_judge(error, &wanted, got, complex_type);
}

void data_error_merge(struct data_error *into, const struct data_error *from)
{
    if (from->max > into->max)
        into->max = from->max;
    into->sum2 += from->sum2;
    into->entries += from->entries;
    into->bad += from->bad;
}

double data_rms(const struct data_error *error)
{
    return error->entries > 0 ? sqrt(error->sum2 / (double)error->entries) : 0;
}
