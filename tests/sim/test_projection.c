/* SPDX-License-Identifier: BSD-3-Clause
 * The check of a product by itself: thousands of products as a CPU BLAS computes them are never
 * refused, whatever the data, and one wrong entry of the stated size is always found. With the
 * argument "time" it tells what a check costs. */
#include "../../fallback/fallback.h"
#include "../../src/verify.h"
#include "dev_sim.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIDE = 96, KINDS = 9, CALLS = 10000 };

static const struct tb_cpu none;
static uint64_t state = 1;

static const struct {
    enum tb_type ab, c;
    double unit, unit_c, least; /* roundoff of the sums, of C; the smallest number */
} pairs[] = {
    {TB_F32, TB_F32, 0x1p-24, 0x1p-24, 0x1p-149},  {TB_F64, TB_F64, 0x1p-53, 0x1p-53, 0x1p-1074},
    {TB_C32, TB_C32, 0x1p-24, 0x1p-24, 0x1p-149},  {TB_C64, TB_C64, 0x1p-53, 0x1p-53, 0x1p-1074},
    {TB_F16, TB_F16, 0x1p-21, 0x1p-11, 0x1p-24},   {TB_F16, TB_F32, 0x1p-21, 0x1p-24, 0x1p-24},
    {TB_BF16, TB_BF16, 0x1p-21, 0x1p-8, 0x1p-133}, {TB_BF16, TB_F32, 0x1p-21, 0x1p-24, 0x1p-133}};

static unsigned random_below(unsigned n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % n;
}

static double uniform(void)
{
    return random_below(1u << 30) * 0x1p-30;
}

/* Kinds of data that are hard on a tolerance. */
static double value(unsigned kind, int64_t row, int64_t col, enum tb_type type)
{
    const bool half = type == TB_F16, wide = type == TB_F64 || type == TB_C64;
    switch (kind) {
    case 0:
        return 2 * uniform() - 1;
    case 1:
        return uniform(); /* no cancellation */
    case 2:               /* from entry to entry */
        return (2 * uniform() - 1) * ldexp(1, (int)random_below(half ? 8 : 40) - (half ? 4 : 20));
    case 3: /* row by row and column by column */
        return (2 * uniform() - 1) *
               ldexp(1, (int)((row * 7 + col * 3) % (half ? 9 : 61)) - (half ? 4 : 30));
    case 4: /* hardly numbers any more */
        return uniform() * (half ? 1e-6 : wide ? 1e-310 : type == TB_BF16 ? 1e-38 : 1e-40);
    case 5: /* sums that do not fit */
        return (2 * uniform() - 1) * (half ? 6e4 : wide ? 1e200 : 1e25);
    case 6:
        return random_below(200) == 0 ? (random_below(2) ? (double)INFINITY : (double)NAN)
                                      : uniform();
    case 7:
        return (row + col) % 2 ? 1 : -1; /* partial sums of 0 */
    default:
        return random_below(100) == 0; /* mostly nothing */
    }
}

static double fetch(enum tb_type type, const void *at, int64_t i)
{
    return type == TB_F16                     ? (double)sim_half_to_float(((const uint16_t *)at)[i])
           : type == TB_BF16                  ? (double)sim_bf16_to_float(((const uint16_t *)at)[i])
           : type == TB_F32 || type == TB_C32 ? (double)((const float *)at)[i]
                                              : ((const double *)at)[i];
}

static void store(enum tb_type type, void *at, int64_t i, double x)
{
    if (type == TB_F16)
        ((uint16_t *)at)[i] = sim_float_to_half((float)x);
    else if (type == TB_BF16)
        ((uint16_t *)at)[i] = sim_float_to_bf16((float)x);
    else if (type == TB_F32 || type == TB_C32)
        ((float *)at)[i] = (float)x;
    else
        ((double *)at)[i] = x;
}

static void fill(enum tb_type type, void *at, int64_t rows, int64_t cols, int64_t ld, unsigned kind)
{
    const int parts = call_is_complex(type) ? 2 : 1;
    for (int64_t j = 0; j < cols; j++)
        for (int64_t i = 0; i < rows * parts; i++)
            store(type, at, j * ld * parts + i, value(kind, i / parts, j, type));
}

static double a[2 * SIDE * SIDE], b[2 * SIDE * SIDE], c[2 * SIDE * SIDE], old[2 * SIDE * SIDE];

struct trial {
    unsigned pair, kind_a, kind_b;
    struct tb_call call;
};

static struct trial trial(bool tame)
{
    struct trial t = {.pair = random_below(8)};
    const enum tb_type ab = pairs[t.pair].ab, c_type = pairs[t.pair].c;
    const enum tb_type scalar = ab == TB_F16 || ab == TB_BF16 ? TB_F32 : ab;
    const char ta = "NTC"[random_below(3)], tb = "NTC"[random_below(3)];
    const unsigned most = random_below(8) ? 24 : SIDE;
    const int64_t m = 1 + random_below(most), n = 1 + random_below(most),
                  k = 1 + random_below(most);
    t.kind_a = random_below(tame ? 2 : KINDS);
    t.kind_b = random_below(tame ? 2 : KINDS);
    t.call =
        (struct tb_call){.name = "test",
                         .cpu = &none,
                         .op = call_is_complex(ab) && random_below(4) == 0 ? TB_GEMM3M : TB_GEMM,
                         .form = TB_ONE,
                         .ab = ab,
                         .c_type = c_type,
                         .alpha_type = scalar,
                         .beta_type = scalar,
                         .ta = ta,
                         .tb = tb,
                         .m = m,
                         .n = n,
                         .k = k,
                         .a = a,
                         .b = b,
                         .c = c,
                         .lda = ta == 'N' ? m : k,
                         .ldb = tb == 'N' ? k : n,
                         .ldc = m,
                         .batch = 1};
    const double beta = random_below(3) == 0 ? 0 : random_below(2) ? 1 : 2 * uniform() - 1;
    const bool imaginary = call_is_complex(scalar) && beta != 0;
    store(scalar, &t.call.alpha, 0, random_below(2) ? 1 : 3 * uniform() - 1.5);
    if (call_is_complex(scalar))
        store(scalar, &t.call.alpha, 1, uniform());
    store(scalar, &t.call.beta, 0, beta);
    if (imaginary)
        store(scalar, &t.call.beta, 1, random_below(2) ? 0 : uniform());
    fill(ab, a, ta == 'N' ? m : k, ta == 'N' ? k : m, t.call.lda, t.kind_a);
    fill(ab, b, tb == 'N' ? k : n, tb == 'N' ? n : k, t.call.ldb, t.kind_b);
    fill(c_type, c, m, n, m, random_below(tame ? 2 : KINDS));
    memcpy(old, c, sizeof old);
    if (!fallback_call(&t.call))
        exit(77);
    return t;
}

static int right(void)
{
    int refused = 0;
    for (int i = 0; i < CALLS; i++) {
        const struct trial t = trial(false);
        if (verify_product(&t.call, old, false, (uint64_t)i))
            continue;
        refused++;
        fprintf(stderr,
                "refused, call %d: types %d %d, %c%c, %lld x %lld x %lld, data %u %u, beta %g\n", i,
                t.call.ab, t.call.c_type, t.call.ta, t.call.tb, (long long)t.call.m,
                (long long)t.call.n, (long long)t.call.k, t.kind_a, t.kind_b,
                fetch(t.call.beta_type, &t.call.beta, 0));
    }
    fprintf(stderr, "%d of %d right products refused\n", refused, CALLS);
    return refused != 0;
}

/* Entry (i, l) of op(X), as the square of its size. */
static double square(const struct tb_call *call, const void *x, char trans, int64_t ld, int64_t i,
                     int64_t l)
{
    const int parts = call_is_complex(call->ab) ? 2 : 1;
    const int64_t at = (trans == 'N' ? i + l * ld : l + i * ld) * parts;
    double sum = 0;
    for (int p = 0; p < parts; p++)
        sum += pow(fetch(call->ab, x, at + p), 2);
    return sum;
}

static double size_of(enum tb_type type, const void *at, int64_t i)
{
    return call_is_complex(type) ? hypot(fetch(type, at, 2 * i), fetch(type, at, 2 * i + 1))
                                 : fabs(fetch(type, at, i));
}

/* The size that is promised to be found in row i: 24 times what rounding may do to an entry of the
 * largest column there could be. */
static double promised(const struct trial *t, int64_t i)
{
    const struct tb_call *const call = &t->call;
    const bool wide = call->ab == TB_F64 || call->ab == TB_C64;
    double row = 0, all = 0, before = 0, after = 0;
    for (int64_t l = 0; l < call->k; l++)
        row += square(call, a, call->ta, call->lda, i, l);
    for (int64_t l = 0; l < call->k; l++)
        for (int64_t j = 0; j < call->n; j++)
            all += square(call, b, call->tb, call->ldb, l, j);
    for (int64_t j = 0; j < call->n; j++) {
        before += pow(size_of(call->c_type, old, i + j * call->m), 2);
        after += pow(size_of(call->c_type, c, i + j * call->m), 2);
    }
    const double n = (double)call->n, k = (double)call->k;
    const double chain = 8 + sqrt(k) + (wide ? 2 * (sqrt(n) + sqrt(k)) : 0);
    const double beta = size_of(call->beta_type, &call->beta, 0),
                 alpha = size_of(call->alpha_type, &call->alpha, 0);
    return 24 * (2 * chain * pairs[t->pair].unit * (alpha * sqrt(row * all) + beta * sqrt(before)) +
                 pairs[t->pair].unit_c * sqrt(after) + sqrt(n) * (2 + k) * pairs[t->pair].least);
}

static int wrong(void)
{
    int passed = 0, planted = 0;
    for (int x = 0; x < CALLS / 4; x++) {
        const struct trial t = trial(true);
        const enum tb_type type = t.call.c_type;
        const int64_t i = random_below((unsigned)t.call.m), j = random_below((unsigned)t.call.n);
        const int parts = call_is_complex(type) ? 2 : 1;
        const int64_t at = (i + j * t.call.m) * parts + random_below((unsigned)parts);
        const double was = fetch(type, c, at), by = promised(&t, i);
        store(type, c, at, was + (random_below(2) ? by : -by));
        if (fabs(fetch(type, c, at) - was) < 0.9 * by)
            continue; /* rounded away: not as large as promised any more */
        planted++;
        if (!verify_product(&t.call, old, false, (uint64_t)x))
            continue;
        passed++;
        fprintf(stderr, "not found, call %d: types %d %d, %c%c, %lld x %lld x %lld, %g off by %g\n",
                x, t.call.ab, type, t.call.ta, t.call.tb, (long long)t.call.m, (long long)t.call.n,
                (long long)t.call.k, was, by);
    }
    fprintf(stderr, "%d of %d wrong entries not found\n", passed, planted);
    return passed != 0 || planted < CALLS / 8;
}

static void cost(int64_t side, unsigned pair)
{
    const size_t bytes = (size_t)side * (size_t)side * call_elem_bytes(pairs[pair].ab);
    void *x[3];
    for (int i = 0; i < 3; i++) {
        x[i] = malloc(bytes);
        fill(pairs[pair].ab, x[i], side, side, side, 0);
    }
    struct tb_call call = {.op = TB_GEMM,
                           .ab = pairs[pair].ab,
                           .c_type = pairs[pair].c,
                           .alpha_type = pairs[pair].ab,
                           .beta_type = pairs[pair].ab,
                           .ta = 'N',
                           .tb = 'N',
                           .m = side,
                           .n = side,
                           .k = side,
                           .a = x[0],
                           .b = x[1],
                           .c = x[2],
                           .lda = side,
                           .ldb = side,
                           .ldc = side,
                           .batch = 1};
    store(pairs[pair].ab, &call.alpha, 0, 1);
    const clock_t start = clock();
    (void)verify_product(&call, NULL, false, 1);
    printf("type %d, %lld: %.1f ms of CPU, %.2f ns an entry of A, B and C\n", (int)call.ab,
           (long long)side, (double)(clock() - start) * 1e3 / CLOCKS_PER_SEC,
           (double)(clock() - start) * 1e9 / CLOCKS_PER_SEC / 3 / (double)(side * side));
    for (int i = 0; i < 3; i++)
        free(x[i]);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "time") == 0) {
        for (unsigned pair = 0; pair < 4; pair++)
            cost(2048, pair);
        return 0;
    }
    return right() + wrong() != 0;
}
