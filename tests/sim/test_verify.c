/* SPDX-License-Identifier: BSD-3-Clause
 * The check of results: no right result is refused, whatever the data, and one planted wrong column
 * of a tile is found, computed again and ends the use of the device. Modes: right, wrong. */
#include "../../fallback/fallback.h"
#include "../../src/device.h"
#include "../../src/run.h"
#include "dev_sim.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 150, DATA = 8 };
static const struct tb_cpu none;
static int failures;
static uint64_t state = 1;

static const struct {
    enum tb_type ab, c;
} pairs[] = {{TB_F32, TB_F32}, {TB_F64, TB_F64}, {TB_C32, TB_C32},   {TB_C64, TB_C64},
             {TB_F16, TB_F16}, {TB_F16, TB_F32}, {TB_BF16, TB_BF16}, {TB_BF16, TB_F32}};

static double uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) * 0x1p-53;
}

/* Kinds of data that are hard on a tolerance. */
static double value(int data, int64_t i, enum tb_type type)
{
    const bool half = type == TB_F16, wide = type == TB_F64 || type == TB_C64;
    switch (data) {
    case 0:
        return 2 * uniform() - 1;
    case 1:
        return uniform(); /* no cancellation */
    case 2:
        return (2 * uniform() - 1) * ldexp(1, (int)(uniform() * (half ? 8 : 40)) - (half ? 4 : 20));
    case 3: /* hardly numbers any more */
        return uniform() * (half ? 1e-6 : wide ? 1e-310 : type == TB_BF16 ? 1e-38 : 1e-40);
    case 4: /* sums that do not fit */
        return (2 * uniform() - 1) * (half ? 6e4 : wide ? 1e200 : 1e25);
    case 5:
        return i % 977 == 3 ? (double)INFINITY : i % 1009 == 5 ? (double)NAN : uniform();
    case 6:
        return i % 2 ? 1 : -1; /* partial sums of 0 */
    default:
        return i % 100 == 0; /* mostly nothing */
    }
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

static void *matrix(enum tb_type type, int data)
{
    const int64_t numbers = (int64_t)SIDE * SIDE * (call_is_complex(type) ? 2 : 1);
    void *at = malloc((size_t)numbers * 8);
    for (int64_t i = 0; i < numbers; i++)
        store(type, at, i, value(data, i, type));
    return at;
}

static struct tb_call call_of(unsigned t, unsigned seed, const void *a, const void *b, void *c)
{
    const enum tb_type scalar =
        pairs[t].ab == TB_F16 || pairs[t].ab == TB_BF16 ? TB_F32 : pairs[t].ab;
    struct tb_call call = {.name = "test",
                           .cpu = &none,
                           .op = TB_GEMM,
                           .form = TB_ONE,
                           .ab = pairs[t].ab,
                           .c_type = pairs[t].c,
                           .alpha_type = scalar,
                           .beta_type = scalar,
                           .ta = "NTC"[seed % 3],
                           .tb = "NTC"[seed / 3 % 3],
                           .m = 1 + seed * 7 % SIDE,
                           .n = 1 + seed * 11 % SIDE,
                           .k = 1 + seed * 13 % SIDE,
                           .a = a,
                           .b = b,
                           .c = c,
                           .lda = SIDE,
                           .ldb = SIDE,
                           .ldc = SIDE,
                           .batch = 1};
    store(scalar, &call.alpha, 0, seed % 4 ? 1 : -0.7);
    store(scalar, &call.beta, 0, seed % 5 == 0 ? 0 : seed % 5 == 1 ? 1 : -1.3);
    return call;
}

static void try_right(unsigned t, int data, unsigned seed)
{
    void *a = matrix(pairs[t].ab, data), *b = matrix(pairs[t].ab, data),
         *c = matrix(pairs[t].c, data);
    struct tb_call call = call_of(t, seed, a, b, c);
    if (run_enter(&call).fn != NULL || device_state() != TB_DEVICE_READY) {
        fprintf(stderr, "refused: types %d %d, data %d, seed %u\n", pairs[t].ab, pairs[t].c, data,
                seed);
        exit(1);
    }
    free(a);
    free(b);
    free(c);
}

static double number(enum tb_type type, const void *at, int64_t i)
{
    return type == TB_F16                     ? (double)sim_half_to_float(((const uint16_t *)at)[i])
           : type == TB_BF16                  ? (double)sim_bf16_to_float(((const uint16_t *)at)[i])
           : type == TB_F32 || type == TB_C32 ? (double)((const float *)at)[i]
                                              : ((const double *)at)[i];
}

static void try_wrong(unsigned t, enum tb_where where)
{
    void *a = matrix(pairs[t].ab, 0), *b = matrix(pairs[t].ab, 0), *c = matrix(pairs[t].c, 0);
    const size_t bytes = (size_t)SIDE * SIDE * 16;
    void *want = calloc(bytes, 1), *home = c;
    const int64_t numbers = (int64_t)SIDE * SIDE * (call_is_complex(pairs[t].c) ? 2 : 1);
    memcpy(want, c,
           (size_t)numbers * 8 / (pairs[t].c == TB_F64 || pairs[t].c == TB_C64 ? 1 : 2) /
               (pairs[t].c == TB_F16 || pairs[t].c == TB_BF16 ? 2 : 1));
    struct tb_call reference = call_of(t, 149, a, b, want);
    reference.m = reference.n = reference.k = SIDE;
    if (where != TB_HOST_PAGEABLE) {
        home = sim_user_alloc(where, bytes / 2);
        sim_user_write(home, c,
                       (size_t)numbers * call_elem_bytes(pairs[t].c) /
                           (call_is_complex(pairs[t].c) ? 2 : 1));
    }
    struct tb_call call = reference;
    call.c = home;
    if (run_enter(&call).fn != NULL)
        failures++;
    fallback_call(&reference);
    if (where != TB_HOST_PAGEABLE) {
        sim_user_read(c, home,
                      (size_t)numbers * call_elem_bytes(pairs[t].c) /
                          (call_is_complex(pairs[t].c) ? 2 : 1));
        sim_user_free(home);
    }
    for (int64_t i = 0; i < numbers; i++)
        if (!(fabs(number(pairs[t].c, c, i) - number(pairs[t].c, want, i)) < 0.2)) {
            fprintf(stderr, "not repaired: types %d %d, number %lld\n", pairs[t].ab, pairs[t].c,
                    (long long)i);
            failures++;
            break;
        }
    if (device_state() != TB_DEVICE_DEAD) {
        fprintf(stderr, "not found: types %d %d\n", pairs[t].ab, pairs[t].c);
        failures++;
    }
    free(a);
    free(b);
    free(c);
    free(want);
}

int main(int argc, char **argv)
{
    const bool wrong = argc > 2 && strcmp(argv[1], "wrong") == 0;
    setenv("TILEBLAS_SIM_MEMORY", "100000000", 1);
    setenv("TILEBLAS_SIM_TILE", "64", 1);
    setenv("TILEBLAS_SIM_PLANT", wrong ? "wrong" : "", 1);
    setenv("TILEBLAS_ROUTE", "gpu", 1);
    setenv("TILEBLAS_VERIFY", "1", 1);
    run_setup();
    if (wrong) /* a process for each: the device is off afterwards */
        try_wrong((unsigned)atoi(argv[2]) % 8, atoi(argv[2]) < 8 ? TB_HOST_PAGEABLE : TB_DEVICE);
    else
        for (unsigned t = 0; t < 8; t++)
            for (int data = 0; data < DATA; data++)
                for (unsigned seed = 0; seed < 12; seed++)
                    try_right(t, data, seed * 5 + t);
    return failures != 0;
}
