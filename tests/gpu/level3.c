/* SPDX-License-Identifier: BSD-3-Clause
 * Level 3 beyond the plain product on a real device, through plan and engine: whole numbers, so
 * that every result is exact, around the edges of tiles, strips and diagonal blocks; backward
 * errors of systems with random and with ill-conditioned triangles; times from host memory to host
 * memory. level3 [--bench] [s d c z]    Exit 0: all right; 1: not; 77: no device. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../src/exec.h"
#include "../../src/pool.h"
#include "../sim/dev_sim.h"
#include "../sim/product.h"

/* product.c knows other memory than the host's; this program does not use it. */
void *sim_user_alloc(enum tb_where where, size_t bytes)
{
    (void)where;
    (void)bytes;
    abort();
}
void sim_user_free(void *at)
{
    (void)at;
}
void sim_user_read(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
void sim_user_write(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

static struct tb_caps caps;
static int failures, cases;

static enum tb_status run(const struct tb_call *call, struct tb_exec_stats *stats)
{
    struct tb_plan plan;
    struct tb_undone undone;
    enum tb_status status = plan_build(call, &caps, pool_budget(&caps), &plan);
    if (status != TB_OK)
        return status;
    status = exec_run(call, &plan, &undone, stats);
    undone_free(&undone);
    plan_free(&plan);
    return status;
}

static void exact(const struct spec *spec)
{
    struct product p;
    struct tb_exec_stats stats;
    product_open(&p, spec);
    const enum tb_status status = run(&p.call, &stats);
    cases++;
    if (status != TB_OK || !product_right(&p)) {
        failures++;
        printf("%s %s: side %c uplo %c ops %c%c diag %c %lldx%lldx%lld tile %lld: %s%s%s\n",
               call_type_name(spec->ab), call_op_name(spec->op), spec->side ? spec->side : '-',
               spec->uplo, spec->ta ? spec->ta : '-', spec->tb ? spec->tb : '-',
               spec->diag ? spec->diag : '-', (long long)spec->m, (long long)spec->n,
               (long long)spec->k, (long long)caps.tile, tb_status_text(status),
               status != TB_OK ? ", " : "", status != TB_OK ? tb_dev()->last_error() : "");
    }
    product_close(&p);
}

static bool is_rank(enum tb_op op)
{
    return op == TB_GEMMT || op == TB_SYRK || op == TB_HERK || op == TB_SYR2K || op == TB_HER2K;
}

static bool exists(const struct spec *s)
{
    const bool complex = call_is_complex(s->ab);
    if (s->op == TB_HERK || s->op == TB_HER2K)
        return complex && s->ta != 'T';
    if (s->op == TB_SYRK || s->op == TB_SYR2K)
        return !complex || s->ta != 'C';
    return s->op != TB_HEMM || complex;
}

static void exact_all(enum tb_type type)
{
    /* The last: sums long enough for the fast rows of every type, few of its forms. */
    static const int64_t shapes[][2] = {{1, 1},    {31, 70},  {64, 64},  {65, 33},
                                        {130, 70}, {300, 40}, {513, 17}, {1100, 520}};
    static const enum tb_op ops[] = {TB_GEMMT, TB_SYRK, TB_HERK, TB_SYR2K, TB_HER2K,
                                     TB_SYMM,  TB_HEMM, TB_TRMM, TB_TRSM};
    unsigned seed = 0;
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int flags = 0; flags < 24; flags++) {
                const bool rank = is_rank(ops[o]), square = ops[o] == TB_TRMM || ops[o] == TB_TRSM;
                const char side = "LR"[flags % 2];
                if (shapes[s][0] > 1000 && flags % 11 != 0)
                    continue;
                seed++;
                caps.tile = seed % 2 ? 0 : 128;
                const int64_t order = shapes[s][0], other = shapes[s][1];
                const struct spec spec = {.op = ops[o],
                                          .ab = type,
                                          .c = type,
                                          .side = rank ? 0 : side,
                                          .uplo = "LU"[flags / 2 % 2],
                                          .diag = square ? "NU"[flags / 4 % 2] : 0,
                                          .ta = rank || square ? "NTC"[flags / 8] : 0,
                                          .tb = ops[o] == TB_GEMMT ? "NTC"[seed % 3] : 'N',
                                          .m = rank || side == 'L' ? order : other,
                                          .n = rank || side == 'R' ? order : other,
                                          .k = rank ? other : 0,
                                          .gap = seed % 3,
                                          .alpha = seed % 2 ? 1 : -2,
                                          .beta = square || seed % 5 == 0 ? 0 : -2,
                                          .nan_c = !square && seed % 5 == 0,
                                          .seed = seed};
                const bool needed = square || flags % 8 < 4;
                if (needed && exists(&spec) && (rank || square || flags < 4))
                    exact(&spec);
            }
    caps.tile = 0;
}

/* --- Backward errors --- */

static double uniform(unsigned long long *seed)
{
    *seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(*seed >> 11) * 0x1p-53;
}

static double get(enum tb_type type, const void *x, int64_t i)
{
    return type == TB_F32 ? (double)((const float *)x)[i] : ((const double *)x)[i];
}

static void put(enum tb_type type, void *x, int64_t i, double value)
{
    if (type == TB_F32)
        ((float *)x)[i] = (float)value;
    else
        ((double *)x)[i] = value;
}

/* max |alpha b - A x| / (|A||x| + |b|) over all entries of some columns, in units u; lower, left.
 */
static double backward(enum tb_type type, const void *a, const void *x, const void *b, int64_t n,
                       int64_t cols, bool unit)
{
    const double u = type == TB_F32 ? 0x1p-24 : 0x1p-53;
    double worst = 0;
    for (int64_t j = 0; j < cols; j += cols / 8)
        for (int64_t i = 0; i < n; i++) {
            long double sum = get(type, b, i + j * n), size = fabsl(sum);
            for (int64_t l = 0; l <= i; l++) {
                const long double term =
                    (long double)(unit && l == i ? 1 : get(type, a, i + l * n)) *
                    (long double)get(type, x, l + j * n);
                sum -= term;
                size += fabsl(term);
            }
            const double error = size > 0 ? (double)(fabsl(sum) / size) / u : 0;
            if (!(error <= worst))
                worst = error;
        }
    return worst;
}

/* Ill-conditioned: a unit triangle of random entries; its inverse grows beyond 1e100. */
static void solve_errors(enum tb_type type, int64_t n, bool unit)
{
    const int64_t cols = 64;
    const size_t elem = call_elem_bytes(type);
    unsigned long long seed = 12345;
    void *a = malloc((size_t)(n * n) * elem), *b = malloc((size_t)(n * cols) * elem),
         *x = malloc((size_t)(n * cols) * elem);
    const double spread = unit ? (type == TB_F32 ? 0.2 : 1) : 1;
    for (int64_t i = 0; i < n * n; i++)
        put(type, a, i, spread * (2 * uniform(&seed) - 1));
    for (int64_t i = 0; i < n && !unit; i++)
        put(type, a, i + i * n, 4 + (double)n / 16);
    for (int64_t i = 0; i < n * cols; i++)
        put(type, b, i, 2 * uniform(&seed) - 1);
    memcpy(x, b, (size_t)(n * cols) * elem);
    struct tb_exec_stats stats;
    struct tb_call call = {.name = "trsm",
                           .op = TB_TRSM,
                           .ab = type,
                           .c_type = type,
                           .alpha_type = type,
                           .beta_type = type,
                           .side = 'L',
                           .uplo = 'L',
                           .ta = 'N',
                           .diag = unit ? 'U' : 'N',
                           .m = n,
                           .n = cols,
                           .a = a,
                           .c = x,
                           .lda = n,
                           .ldc = n,
                           .batch = 1};
    put(type, &call.alpha, 0, 1);
    const enum tb_status status = run(&call, &stats);
    const double error = backward(type, a, x, b, n, cols, unit);
    double most = 0;
    for (int64_t i = 0; i < n * cols; i++)
        most = fmax(most, fabs(get(type, x, i)));
    /* Substitution in any order of summation: n u at worst; seen are a few u. */
    const bool right = status == TB_OK && error < 24;
    printf("%s trsm n %lld %s: backward error %.2f u, largest of X %.1e%s\n", call_type_name(type),
           (long long)n, unit ? "ill-conditioned" : "well-conditioned", error, most,
           right ? "" : "  WRONG");
    failures += !right;
    cases++;
    free(a);
    free(b);
    free(x);
}

/* --- Times --- */

static void bench_one(enum tb_type type, enum tb_op op, int64_t n, const void *a, const void *b,
                      void *c)
{
    struct tb_call call = {.name = "bench",
                           .op = op,
                           .ab = type,
                           .c_type = type,
                           .alpha_type = type,
                           .beta_type = type,
                           .side = is_rank(op) || op == TB_GEMM ? 0 : 'L',
                           .uplo = 'L',
                           .ta = 'N',
                           .tb = 'N',
                           .diag = 'U',
                           .m = n,
                           .n = n,
                           .k = n,
                           .a = a,
                           .b = call_has_b(&(struct tb_call){.op = op}) ? b : NULL,
                           .c = c,
                           .lda = n,
                           .ldb = n,
                           .ldc = n,
                           .batch = 1};
    struct tb_exec_stats stats, best = {.ns = INT64_MAX};
    put(type, &call.alpha, 0, 1e-3);
    enum tb_status status = TB_OK;
    for (int i = 0; i < 4 && status == TB_OK; i++) {
        status = run(&call, &stats);
        if (stats.ns < best.ns)
            best = stats;
    }
    const double ns = (double)best.ns;
    printf("%s %-6s %5lld  %8.3f ms  %7.2f TFLOP/s  in %6.1f out %6.1f MB  %5.1f GB/s  %s\n",
           call_type_name(type), call_op_name(op), (long long)n, ns / 1e6,
           call_flops(&call) / ns / 1e3, best.bytes_in / 1e6, best.bytes_out / 1e6,
           fmax(best.bytes_in, best.bytes_out) / ns, tb_status_text(status));
}

/* Products of operands on the device: what the kernel takes, nearly. */
static void bench_in_place(enum tb_type type, enum tb_op op, int64_t n)
{
    const size_t bytes = (size_t)(n * n) * call_elem_bytes(type);
    tb_dptr at[3] = {0, 0, 0};
    for (int i = 0; i < 3; i++)
        if (tb_dev()->alloc(bytes, &at[i]) != TB_OK)
            return;
    struct tb_lane *lane;
    struct tb_event *event;
    if (tb_dev()->lane_open(&lane, false) != TB_OK || tb_dev()->event_open(&event) != TB_OK)
        return;
    for (int i = 0; i < 3; i++)
        (void)tb_dev()->fill0(lane, at[i], bytes);
    (void)tb_dev()->record(event, lane);
    (void)tb_dev()->sync(event);
    struct tb_call call = {.name = "bench",
                           .op = op,
                           .ab = type,
                           .c_type = type,
                           .alpha_type = type,
                           .beta_type = type,
                           .uplo = 'L',
                           .ta = 'N',
                           .tb = 'T',
                           .m = n,
                           .n = n,
                           .k = n,
                           .a = (void *)(uintptr_t)at[0],
                           .b = (void *)(uintptr_t)at[1],
                           .c = (void *)(uintptr_t)at[2],
                           .lda = n,
                           .ldb = n,
                           .ldc = n,
                           .batch = 1,
                           .where = {TB_DEVICE, TB_DEVICE, TB_DEVICE}};
    struct tb_exec_stats stats, best = {.ns = INT64_MAX};
    put(type, &call.alpha, 0, 1);
    for (int i = 0; i < 4; i++)
        if (run(&call, &stats) == TB_OK && stats.ns < best.ns)
            best = stats;
    printf("%s %-6s %5lld on the device %8.3f ms  %7.2f TFLOP/s\n", call_type_name(type),
           call_op_name(op), (long long)n, (double)best.ns / 1e6,
           call_flops(&call) / (double)best.ns / 1e3);
    for (int i = 0; i < 3; i++)
        (void)tb_dev()->free(at[i]);
    tb_dev()->event_close(event);
    tb_dev()->lane_close(lane);
}

static void bench(enum tb_type type)
{
    static const enum tb_op ops[] = {TB_GEMM, TB_SYRK, TB_SYR2K, TB_SYMM, TB_TRMM, TB_TRSM};
    const int64_t most = 8192;
    const size_t bytes = (size_t)(most * most) * call_elem_bytes(type);
    char *x[3];
    for (int i = 0; i < 3; i++) {
        x[i] = malloc(bytes);
        unsigned long long seed = 7 + (unsigned)i;
        for (int64_t e = 0; e < (int64_t)(bytes / call_elem_bytes(type)); e++)
            put(type, x[i], e, (uniform(&seed) - 0.5) * (i == 0 ? 1e-2 : 1));
    }
    for (int64_t n = 1024; n <= most; n *= 2)
        for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
            bench_one(type, ops[o], n, x[0], x[1], x[2]);
    for (int64_t n = 2048; n <= most; n *= 2) {
        bench_in_place(type, TB_GEMM, n);
        bench_in_place(type, TB_SYRK, n);
    }
    for (int i = 0; i < 3; i++)
        free(x[i]);
}

int main(int argc, char **argv)
{
    static const char letters[] = "sdcz";
    static const enum tb_type types[] = {TB_F32, TB_F64, TB_C32, TB_C64};
    bool any = false, timing = argc > 1 && !strcmp(argv[1], "--bench");
    int n = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!tb_dev() || tb_dev()->count(&n) != TB_OK || n == 0 || tb_dev()->open(0, &caps) != TB_OK) {
        printf("no device\n");
        return 77;
    }
    pool_limit(caps.mem_free / 4);
    for (int t = 0; t < 4; t++) {
        bool wanted = argc <= 1 + timing;
        for (int i = 1 + timing; i < argc; i++)
            wanted = wanted || argv[i][0] == letters[t];
        if (!wanted)
            continue;
        any = true;
        if (timing) {
            bench(types[t]);
            continue;
        }
        exact_all(types[t]);
        if (t > 1)
            continue;
        for (int64_t order = 130; order <= 1300; order *= 2) {
            solve_errors(types[t], order, false);
            solve_errors(types[t], order, true);
        }
    }
    if (any && !timing)
        printf("%d cases, %d failures\n", cases, failures);
    pool_close();
    tb_dev()->close();
    return failures ? 1 : 0;
}
