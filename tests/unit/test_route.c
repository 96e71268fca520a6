/* SPDX-License-Identifier: BSD-3-Clause
 * route.c: forced routes, states of the device, and estimates that have to come out on the right
 * side on shapes whose winner is known by a wide margin (measured on the H200 host). */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
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

static struct tb_profile host; /* the built-in figures, for 16 CPUs */

static struct tb_facts facts(enum tb_device_state state, int threads)
{
    profile_builtin(NULL, 16, &host);
    return (struct tb_facts){.device = state,
                             .has_kernel = true,
                             .cpu_threads = threads,
                             .copiers = 12,
                             .profile = &host};
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

static struct tb_call other(enum tb_op op, enum tb_type type, int64_t m, int64_t n, int64_t k)
{
    struct tb_call call = gemm(type, m, n, k);
    const bool rank = op == TB_SYRK || op == TB_SYR2K;
    call.op = op;
    call.side = rank ? 0 : 'L';
    call.uplo = 'L';
    call.diag = 'N';
    return call;
}

/* The winners of the other routines, by a wide margin where the device won; and a long triangle
 * costs its time however narrow the other matrix is. */
Test(route, other_routines)
{
    static const enum tb_op ops[] = {TB_SYRK, TB_SYR2K, TB_SYMM, TB_TRMM, TB_TRSM};
    static const enum tb_type with[] = {TB_F32, TB_F64, TB_C32, TB_C64};
    for (int t = 0; t < 4; t++)
        for (int o = 0; o < 5; o++)
            for (int threads = 1; threads <= 16; threads += 15) {
                const struct tb_facts f = facts(TB_DEVICE_READY, threads);
                const struct tb_call large = other(ops[o], with[t], 4096, 4096, 4096);
                const struct tb_call small = other(ops[o], with[t], 160, 160, 160);
                cr_expect_eq(route_choose(&large, &f, &automatic).where, TB_ON_GPU, "%d %d", t, o);
                cr_expect(threads == 1 || route_choose(&small, &f, &automatic).where == TB_ON_CPU,
                          "%d %d", t, o);
            }
    const struct tb_facts f = facts(TB_DEVICE_READY, 16);
    const struct tb_call narrow = other(TB_TRSM, TB_F64, 8192, 8, 0);
    const struct tb_call wide = other(TB_SYMM, TB_F64, 8192, 8, 0);
    cr_assert_gt(route_gpu_ns(&narrow, &f), route_gpu_ns(&wide, &f) + 8192 * 400.0);
    cr_assert_eq(route_choose(&narrow, &f, &automatic).where, TB_ON_CPU);
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

/* On a card with little FP64 a host with many cores keeps dgemm. */
Test(route, a_consumer_card_leaves_fp64_to_the_cpu)
{
    struct tb_profile consumer;
    profile_builtin(&(struct tb_caps){.sms = 66, .fp64_ratio = 64, .clock_mhz = 1980}, 16,
                    &consumer);
    struct tb_facts f = facts(TB_DEVICE_READY, 16);
    f.profile = &consumer;
    const struct tb_call d = gemm(TB_F64, 4096, 4096, 4096), s = gemm(TB_F32, 4096, 4096, 4096);
    cr_assert_eq(route_choose(&d, &f, &automatic).where, TB_ON_CPU);
    cr_assert_eq(route_choose(&s, &f, &automatic).where, TB_ON_GPU);
}

Test(route, a_start_under_way_is_shorter)
{
    const struct tb_call c = gemm(TB_F64, 4096, 4096, 4096);
    struct tb_facts f = facts(TB_DEVICE_STARTING, 16);
    cr_assert_eq(route_choose(&c, &f, &automatic).reason, TB_WHY_STARTING);
    f.starting_ns = 0.35e9;
    cr_assert_eq(route_choose(&c, &f, &automatic).where, TB_ON_GPU);
    f.starting_ns = 0.45e9; /* a little overdue */
    cr_assert_eq(route_choose(&c, &f, &automatic).where, TB_ON_GPU);
    f.starting_ns = 1e12; /* it will never end */
    cr_assert_eq(route_choose(&c, &f, &automatic).reason, TB_WHY_STARTING);
}

Test(route, a_queue_can_make_the_cpu_the_sooner_one)
{
    const struct tb_call c = gemm(TB_F64, 1024, 1024, 1024);
    struct tb_facts f = facts(TB_DEVICE_READY, 16);
    const struct tb_choice alone = route_choose(&c, &f, &automatic);
    cr_assert_eq(alone.where, TB_ON_GPU);
    f.queued = 1;
    f.queue_ns = 1e9; /* a long call holds a short one up by no more than its own time */
    const struct tb_choice second = route_choose(&c, &f, &automatic);
    cr_assert(second.est_gpu_ns > alone.est_gpu_ns && second.est_gpu_ns < 2.01 * alone.est_gpu_ns);
    f.queued = 1000;
    cr_assert_eq(route_choose(&c, &f, &automatic).where, TB_ON_CPU);
}

Test(route, a_crowd_on_the_cpu_makes_the_device_the_sooner_one)
{
    const struct tb_call c = gemm(TB_F64, 400, 400, 400);
    struct tb_facts f = facts(TB_DEVICE_READY, 16);
    cr_assert_eq(route_choose(&c, &f, &automatic).where, TB_ON_CPU);
    f.on_cpu = 3;
    cr_assert_eq(route_choose(&c, &f, &automatic).where, TB_ON_GPU);
    /* With one thread each they do not meet. */
    f.cpu_threads = 1;
    const double crowded = route_choose(&c, &f, &automatic).est_cpu_ns;
    f.on_cpu = 0;
    cr_assert(crowded == route_choose(&c, &f, &automatic).est_cpu_ns);
}

/* Few copiers (a process on one core) make a slow link; pinned memory needs none. */
Test(route, copiers_and_pinned_memory)
{
    struct tb_call c = gemm(TB_F64, 8192, 512, 8192);
    struct tb_facts f = facts(TB_DEVICE_READY, 16);
    const double many = route_gpu_ns(&c, &f);
    f.copiers = 1;
    cr_assert(route_gpu_ns(&c, &f) > 3 * many);
    memset(c.where, TB_HOST_PINNED, sizeof c.where);
    cr_assert(route_gpu_ns(&c, &f) < many);
}

static const int64_t sides[] = {1, 2, 8, 16, 50, 128, 500, 1024, 3000, 10000, 100000};
enum { SIDES = sizeof sides / sizeof *sides };

static void check_sane(enum tb_type type, int threads, const struct tb_size *x)
{
    const struct tb_call c = gemm(type, x->m, x->n, x->k);
    struct tb_facts f = facts(TB_DEVICE_READY, threads);
    const double cpu = route_cpu_ns(&c, &f), gpu = route_gpu_ns(&c, &f);
    cr_assert(isfinite(cpu) && cpu > 0 && isfinite(gpu) && gpu > 0);
    /* No CPU of ours does more than this, nor needs less than a nanosecond a flop. */
    cr_assert(call_flops(&c) / cpu < 2000 && cpu < call_flops(&c) * 25 + 3e6,
              "%s %d threads %lldx%lldx%lld: %g ns", call_type_name(type), threads, (long long)x->m,
              (long long)x->n, (long long)x->k, cpu);
    /* More work takes longer on either side. */
    for (int side = 0; side < 3; side++) {
        const struct tb_call more = gemm(type, side == 0 ? 2 * x->m : x->m,
                                         side == 1 ? 2 * x->n : x->n, side == 2 ? 2 * x->k : x->k);
        cr_assert(route_gpu_ns(&more, &f) >= 0.8 * gpu); /* more tiles overlap better */
        cr_assert(route_cpu_ns(&more, &f) >= 0.4 * cpu,
                  "%s %d threads %lldx%lldx%lld, side %d doubled: %g ns after %g",
                  call_type_name(type), threads, (long long)x->m, (long long)x->n, (long long)x->k,
                  side, route_cpu_ns(&more, &f), cpu);
    }
}

Test(route, estimates_are_sane_at_every_shape)
{
    for (int type = 0; type < TB_TYPES; type++)
        for (int threads = 1; threads <= 16; threads *= 4)
            for (int i = 0; i < SIDES * SIDES * SIDES; i++)
                check_sane((enum tb_type)type, threads,
                           &(struct tb_size){sides[i % SIDES], sides[i / SIDES % SIDES],
                                             sides[i / SIDES / SIDES]});
}

/* The rates that were measured come out where they were measured. */
Test(route, estimates_meet_the_measured_shapes)
{
    for (int type = TB_F32; type <= TB_C64; type++)
        for (int crew = 0; crew < TB_CREWS; crew++)
            for (int shape = 0; shape < TB_SHAPES; shape++) {
                const struct tb_size *const x = &profile_shape[shape];
                const struct tb_call c = gemm((enum tb_type)type, x->m, x->n, x->k);
                const struct tb_facts f = facts(TB_DEVICE_READY, crew == TB_ALONE ? 1 : 16);
                const double rate = call_flops(&c) / route_cpu_ns(&c, &f);
                const double seen = host.cpu_rate[type][crew][shape];
                cr_assert(rate > seen / 1.35 && rate < seen * 1.35,
                          "%s, crew %d, shape %d: %g instead of %g",
                          call_type_name((enum tb_type)type), crew, shape, rate, seen);
            }
}

Test(route, small_volume)
{
    cr_assert(route_small_volume(&(struct tb_conf){.route = TB_ROUTE_CPU}) == HUGE_VAL);
    cr_assert(route_small_volume(&(struct tb_conf){.route = TB_ROUTE_GPU}) == 0);
    cr_assert(route_small_volume(&(struct tb_conf){.verbose = 1}) == 0);
    cr_assert(route_small_volume(&(struct tb_conf){.route = TB_ROUTE_AUTO}) > 64 * 64 * 64);
}
