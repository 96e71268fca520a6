/* SPDX-License-Identifier: BSD-3-Clause
 * route.c: forced routes, states of the device, and estimates that have to come out on the right
 * side on shapes whose winner is known by a wide margin (measured on the H200 host). */
#include <criterion/criterion.h>
#include <math.h>
#include "../../src/route.h"

static struct tb_call gemm(enum tb_type type, int64_t m, int64_t n, int64_t k)
{
    return (struct tb_call){.name = "gemm",
                            .op = TB_GEMM,
                            .ab = type,
                            .c_type = type,
                            .alpha_type = type,
                            .beta_type = type,
                            .ta = 'N',
                            .tb = 'N',
                            .m = m,
                            .n = n,
                            .k = k,
                            .lda = m,
                            .ldb = k,
                            .ldc = m,
                            .batch = 1,
                            .alpha = {.d = {1}}};
}

static struct tb_facts facts(enum tb_device_state state, int threads)
{
    struct tb_facts f = {.device = state, .has_kernel = true, .cpu_threads = threads};
    route_default_rates(NULL, &f.rates);
    return f;
}

static const struct tb_conf automatic = {.route = TB_ROUTE_AUTO};

Test(route, states_of_the_device)
{
    static const struct {
        enum tb_device_state state;
        enum tb_reason reason;
    } cases[] = {{TB_DEVICE_ABSENT, TB_WHY_NO_DEVICE},
                 {TB_DEVICE_DEAD, TB_WHY_DEVICE_OFF},
                 {TB_DEVICE_FORKED, TB_WHY_FORKED}};
    const struct tb_conf forced = {.route = TB_ROUTE_GPU};
    const struct tb_call big = gemm(TB_F64, 8192, 8192, 8192);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct tb_facts f = facts(cases[i].state, 16);
        const struct tb_choice c = route_choose(&big, &f, &automatic);
        cr_assert(c.where == TB_ON_CPU && c.reason == cases[i].reason);
        cr_assert(route_is_final(c.reason));
        cr_assert_eq(route_choose(&big, &f, &forced).where, TB_ON_CPU,
                     "forcing does not make a GPU");
    }
    struct tb_facts f = facts(TB_DEVICE_READY, 16);
    f.has_kernel = false;
    cr_assert_eq(route_choose(&big, &f, &forced).reason, TB_WHY_NO_KERNEL);
    cr_assert_not(route_is_final(TB_WHY_NO_KERNEL));
}

Test(route, forced)
{
    const struct tb_conf cpu = {.route = TB_ROUTE_CPU}, gpu = {.route = TB_ROUTE_GPU};
    const struct tb_call big = gemm(TB_F64, 8192, 8192, 8192), small = gemm(TB_F64, 2, 2, 2);
    const struct tb_facts f = facts(TB_DEVICE_READY, 16);
    cr_assert_eq(route_choose(&big, &f, &cpu).where, TB_ON_CPU);
    cr_assert_eq(route_choose(&small, &f, &gpu).where, TB_ON_GPU);
    cr_assert_eq(route_choose(&small, &f, &gpu).reason, TB_WHY_FORCED);
}

Test(route, known_winners)
{
    static const struct {
        enum tb_type type;
        int64_t m, n, k;
        int threads;
        enum tb_side side;
    } cases[] = {
        {TB_F32, 4096, 4096, 4096, 16, TB_ON_GPU}, {TB_F64, 4096, 4096, 4096, 16, TB_ON_GPU},
        {TB_F64, 2048, 2048, 2048, 16, TB_ON_GPU}, {TB_C64, 1024, 1024, 1024, 16, TB_ON_GPU},
        {TB_F64, 256, 256, 256, 16, TB_ON_CPU}, /* 0.13 ms there */
        {TB_F32, 128, 128, 128, 1, TB_ON_CPU},     {TB_F32, 4096, 4096, 4, 16, TB_ON_CPU},
        {TB_F64, 1000000, 8, 8, 16, TB_ON_CPU},    {TB_F64, 2048, 2048, 2048, 1, TB_ON_GPU},
        {TB_F64, 16384, 1, 16384, 16, TB_ON_CPU},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct tb_call c = gemm(cases[i].type, cases[i].m, cases[i].n, cases[i].k);
        const struct tb_facts f = facts(TB_DEVICE_READY, cases[i].threads);
        const struct tb_choice choice = route_choose(&c, &f, &automatic);
        cr_assert_eq(choice.where, cases[i].side, "case %zu: CPU %.3f ms, GPU %.3f ms", i,
                     choice.est_cpu_ns * 1e-6, choice.est_gpu_ns * 1e-6);
        cr_assert(isfinite(choice.est_cpu_ns) && choice.est_cpu_ns > 0 && choice.est_gpu_ns > 0);
    }
}

Test(route, does_not_wait_for_a_start_the_call_cannot_repay)
{
    const struct tb_call c = gemm(TB_F64, 4096, 4096, 4096); /* 0.24 s on 16 threads */
    struct tb_facts f = facts(TB_DEVICE_UNTRIED, 16);
    cr_assert_eq(route_choose(&c, &f, &automatic).reason, TB_WHY_STARTING);
    f.device = TB_DEVICE_STARTING;
    cr_assert_eq(route_choose(&c, &f, &automatic).where, TB_ON_CPU);
    f.device = TB_DEVICE_READY;
    cr_assert_eq(route_choose(&c, &f, &automatic).where, TB_ON_GPU);
    f.device = TB_DEVICE_UNTRIED;
    const struct tb_call big = gemm(TB_F64, 16384, 16384, 16384);
    cr_assert_eq(route_choose(&big, &f, &automatic).where, TB_ON_GPU);
    const struct tb_conf wait = {.route = TB_ROUTE_AUTO, .start = TB_START_WAIT};
    cr_assert_eq(route_choose(&c, &f, &wait).where, TB_ON_GPU);
}

Test(route, rates_scale_with_the_device)
{
    struct tb_rates h200, consumer;
    route_default_rates(&(struct tb_caps){.sms = 132, .fp64_ratio = 2, .clock_mhz = 1980}, &h200);
    route_default_rates(&(struct tb_caps){.sms = 66, .fp64_ratio = 64, .clock_mhz = 1980},
                        &consumer);
    cr_assert(fabs(consumer.gpu[TB_F32] / h200.gpu[TB_F32] - 0.5) < 1e-9);
    cr_assert(fabs(consumer.gpu[TB_F64] / h200.gpu[TB_F64] - 1.0 / 64) < 1e-9);
    /* On such a card a host with many cores keeps dgemm. */
    struct tb_facts f = {
        .device = TB_DEVICE_READY, .has_kernel = true, .cpu_threads = 16, .rates = consumer};
    const struct tb_call c = gemm(TB_F64, 4096, 4096, 4096);
    cr_assert_eq(route_choose(&c, &f, &automatic).where, TB_ON_CPU);
}

Test(route, small_volume)
{
    cr_assert(route_small_volume(&(struct tb_conf){.route = TB_ROUTE_CPU}) == HUGE_VAL);
    cr_assert(route_small_volume(&(struct tb_conf){.route = TB_ROUTE_GPU}) == 0);
    cr_assert(route_small_volume(&(struct tb_conf){.verbose = 1}) == 0);
    cr_assert(route_small_volume(&(struct tb_conf){.route = TB_ROUTE_AUTO}) > 64 * 64 * 64);
}
