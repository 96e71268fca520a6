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

/* --- The other routines --- */

static const enum tb_op ops[] = {TB_GEMMT, TB_SYMM,  TB_HEMM, TB_SYRK, TB_HERK,
                                 TB_SYR2K, TB_HER2K, TB_TRMM, TB_TRSM};

static bool is_hermitian(enum tb_op op)
{
    return op == TB_HEMM || op == TB_HERK || op == TB_HER2K;
}

static struct tb_call other_of(enum tb_op op, enum tb_type type, unsigned seed, const void *a,
                               const void *b, void *c)
{
    const bool rank = op == TB_SYRK || op == TB_SYR2K || op == TB_HERK || op == TB_HER2K;
    const bool complex = call_is_complex(type), solves = op == TB_TRMM || op == TB_TRSM;
    const enum tb_type real = type == TB_C32 ? TB_F32 : type == TB_C64 ? TB_F64 : type;
    struct tb_call call = call_of(0, seed, a, b, c);
    call.op = op;
    call.ab = call.c_type = type;
    call.alpha_type = op == TB_HERK ? real : type;
    call.beta_type = op == TB_HERK || op == TB_HER2K ? real : type;
    call.uplo = "LU"[seed / 2 % 2];
    if (rank)
        call.ta = seed % 3 == 0 ? 'N' : is_hermitian(op) ? 'C' : 'T';
    if (rank || op == TB_GEMMT)
        call.m = call.n;
    else
        call.side = "LR"[seed % 2];
    if (!rank && !solves && op != TB_GEMMT)
        call.ta = call.tb = 'N';
    call.diag = solves ? "NU"[seed / 4 % 2] : 0;
    if (!call_has_b(&call))
        call.b = NULL;
    memset(&call.alpha, 0, sizeof call.alpha);
    memset(&call.beta, 0, sizeof call.beta);
    store(call.alpha_type, &call.alpha, 0, seed % 4 ? 1 : -0.7);
    if (complex && op != TB_HERK && seed % 3 == 1)
        store(call.alpha_type, &call.alpha, 1, 0.4);
    store(call.beta_type, &call.beta, 0, seed % 5 == 0 ? 0 : seed % 5 == 1 ? 1 : -1.3);
    return call;
}

static void try_other(enum tb_op op, enum tb_type type, int data, unsigned seed)
{
    void *a = matrix(type, data), *b = matrix(type, data), *c = matrix(type, data);
    struct tb_call call = other_of(op, type, seed, a, b, c);
    if (run_enter(&call).fn != NULL || device_state() != TB_DEVICE_READY) {
        fprintf(stderr, "refused: %s, type %d, data %d, seed %u\n", call_op_name(op), type, data,
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

/* A triangle that is far from singular; in place or not, alone or with the old C. */
static void try_wrong_other(enum tb_op op, enum tb_type type, unsigned seed, enum tb_where where)
{
    const int64_t numbers = (int64_t)SIDE * SIDE * (call_is_complex(type) ? 2 : 1);
    const size_t bytes = (size_t)SIDE * SIDE * call_elem_bytes(type);
    void *a = matrix(type, 0), *b = matrix(type, 0), *c = matrix(type, 0), *home = c;
    void *want = malloc(bytes);
    memcpy(want, c, bytes);
    for (int64_t i = 0; i < SIDE && op == TB_TRSM; i++)
        store(type, a, (i + i * SIDE) * (call_is_complex(type) ? 2 : 1), 2 * SIDE);
    struct tb_call reference = other_of(op, type, seed, a, b, want);
    reference.m = reference.n = reference.k = SIDE;
    if (op == TB_TRSM)
        reference.diag = 'N';
    if (where != TB_HOST_PAGEABLE) {
        home = sim_user_alloc(where, bytes);
        sim_user_write(home, c, bytes);
    }
    struct tb_call call = reference;
    call.c = home;
    if (run_enter(&call).fn != NULL)
        failures++;
    fallback_call(&reference);
    if (where != TB_HOST_PAGEABLE) {
        sim_user_read(c, home, bytes);
        sim_user_free(home);
    }
    double most = 0, off = 0;
    for (int64_t i = 0; i < numbers; i++) {
        const int64_t at = call_is_complex(type) ? i / 2 : i, row = at % SIDE, col = at / SIDE;
        if (call_is_triangular(&call) && (call.uplo == 'L' ? row < col : row > col))
            continue; /* the wrong kernel spoils that too, where C is in place */
        most = fmax(most, fabs(number(type, want, i)));
        off = fmax(off, fabs(number(type, c, i) - number(type, want, i)));
    }
    if (!(off < 1e-4 * most) || device_state() != TB_DEVICE_DEAD) {
        fprintf(stderr, "not repaired: %s, type %d, off by %g of %g, device %d\n", call_op_name(op),
                type, off, most, (int)device_state());
        failures++;
    }
    free(a);
    free(b);
    free(c);
    free(want);
}

/* From 16 on: four of each routine, the types and flags as they come; the third into a C on
 * the device. */
static void try_wrong_number(unsigned number)
{
    static const enum tb_type real[] = {TB_F64, TB_F32, TB_C64, TB_C32};
    const enum tb_op op = ops[number / 4 % 9];
    const enum tb_type type = real[is_hermitian(op) ? 2 + number % 2 : number % 4];
    const bool place = number % 4 == 2;
    try_wrong_other(op, type, number + number / 4, place ? TB_DEVICE : TB_HOST_PAGEABLE);
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
    if (wrong && atoi(argv[2]) >= 16)
        try_wrong_number((unsigned)atoi(argv[2]) - 16);
    else if (wrong) /* a process for each: the device is off afterwards */
        try_wrong((unsigned)atoi(argv[2]) % 8, atoi(argv[2]) < 8 ? TB_HOST_PAGEABLE : TB_DEVICE);
    else
        for (unsigned t = 0; t < 8; t++)
            for (int data = 0; data < DATA; data++)
                for (unsigned seed = 0; seed < 12; seed++)
                    try_right(t, data, seed * 5 + t);
    for (unsigned o = 0; o < 9 && !wrong; o++)
        for (unsigned t = is_hermitian(ops[o]) ? 2 : 0; t < 4; t++)
            for (int data = 0; data < DATA; data++)
                for (unsigned seed = 0; seed < 6; seed++)
                    try_other(ops[o], pairs[t].ab, data, seed * 5 + t);
    return failures != 0;
}
