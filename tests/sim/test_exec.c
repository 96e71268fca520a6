/* SPDX-License-Identifier: BSD-3-Clause
 * The execution of plans on the simulated device: right results for every type,
 * shape, order and seed, and after every fault. Each Criterion test is a
 * process of its own; a violation ends it with status 99. */
#include "../../src/exec.h"
#include "../../src/kernel.h"
#include "../../src/pool.h"
#include "dev_sim.h"
#include "product.h"
#include <criterion/criterion.h>
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct tb_caps caps;

static void device_up(const char *tile, const char *chunk, const char *memory, bool inline_calls)
{
    setenv("TILEBLAS_SIM_TILE", tile, 1);
    setenv("TILEBLAS_SIM_CHUNK", chunk, 1);
    setenv("TILEBLAS_SIM_MEMORY", memory, 1);
    setenv("TILEBLAS_SIM_INLINE", inline_calls ? "1" : "0", 1);
    setenv("TILEBLAS_THREADS", "6", 1); /* one of them is for brief calls */
    cr_assert_eq(tb_dev()->open(0, &caps), TB_OK);
    pool_limit(caps.mem_free);
}

static void device_down(void)
{
    pool_close();
    tb_dev()->close();
}

/* Runs it; finishes what is left as the CPU would. Returns the status and the
 * number of rectangles.
 */
static enum tb_status attempt(struct product *p, size_t memory, int64_t *rects)
{
    struct tb_plan plan;
    struct tb_undone undone;
    struct tb_exec_stats stats;
    struct tb_rect rect;
    *rects = 0;
    enum tb_status status = plan_build(&p->call, &caps, memory, &plan);
    if (status != TB_OK)
        return status;
    status = exec_run(&p->call, &plan, &undone, &stats);
    for (; undone_next(&undone, &rect); ++*rects)
        product_rect(p, &rect);
    cr_expect(status != TB_OK || *rects == 0);
    undone_free(&undone);
    plan_free(&plan);
    return status;
}

static void try_spec(const struct spec *spec, size_t memory)
{
    struct product p;
    int64_t rects;
    product_open(&p, spec);
    const enum tb_status status = attempt(&p, memory, &rects);
    cr_expect_eq(status, TB_OK, "%s: %lldx%lldx%lld", tb_status_text(status), (long long)spec->m,
                 (long long)spec->n, (long long)spec->k);
    cr_expect(product_right(&p), "types %d %d, ops %c%c, %lldx%lldx%lld, alpha %g beta %g",
              spec->ab, spec->c, spec->ta, spec->tb, (long long)spec->m, (long long)spec->n,
              (long long)spec->k, spec->alpha, spec->beta);
    product_close(&p);
}

static const struct {
    enum tb_type ab, c;
} pairs[] = {{TB_F32, TB_F32}, {TB_F64, TB_F64}, {TB_C32, TB_C32},   {TB_C64, TB_C64},
             {TB_F16, TB_F16}, {TB_F16, TB_F32}, {TB_BF16, TB_BF16}, {TB_BF16, TB_F32}};

static void every_type(bool inline_calls, const char *tile, size_t memory)
{
    static const int64_t shapes[][3] = {{1, 1, 1},    {7, 5, 3},   {16, 16, 16}, {17, 40, 9},
                                        {50, 33, 20}, {3, 70, 11}, {64, 2, 31}};
    device_up(tile, "512", "4000000", inline_calls);
    unsigned seed = 0;
    for (size_t t = 0; t < sizeof pairs / sizeof *pairs; t++)
        for (const char *ta = "NTC"; *ta; ta++)
            for (const char *tb = "NTC"; *tb; tb++)
                for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
                    sim_seed(++seed);
                    exec_brief_bytes = seed % 2 ? 0 : 1e9;
                    const struct spec spec = {.ab = pairs[t].ab,
                                              .c = pairs[t].c,
                                              .ta = *ta,
                                              .tb = *tb,
                                              .m = shapes[s][0],
                                              .n = shapes[s][1],
                                              .k = shapes[s][2],
                                              .gap = seed % 3,
                                              .alpha = seed % 2 ? 1 : -2,
                                              .beta = seed % 5 == 0   ? 0
                                                      : seed % 5 == 1 ? 1
                                                                      : -2,
                                              .nan_c = seed % 5 == 0,
                                              .seed = seed};
                    try_spec(&spec, memory * (call_elem_bytes(spec.ab) + 2) / 8);
                }
    device_down();
}

Test(exec, every_type_on_the_caller)
{
    every_type(true, "0", 4000000);
}

Test(exec, every_type_in_tiles)
{
    every_type(false, "16", 4000000);
}

Test(exec, every_type_with_parts_of_k_ahead)
{
    setenv("TILEBLAS_SIM_ORDER", "2", 1);
    every_type(false, "16", 4000000);
}

Test(exec, every_type_in_odd_tiles)
{
    every_type(false, "5", 4000000);
}

Test(exec, every_type_with_little_memory)
{
    every_type(false, "16", 14000);
}

/* Products of one tile and a long k, whose kernel has an area in the workspace, in a slab that
 * other calls have used before; with little memory they do without. */
Test(exec, kernels_find_their_scratch)
{
    int scratch = 0;
    for (int little = 0; little < 2; little++) {
        device_up("0", "65536", "20000000", false);
        for (unsigned seed = 1; seed <= 2; seed++) {
            sim_seed(seed);
            const struct spec spec = {.ab = seed % 2 ? TB_F16 : TB_BF16,
                                      .c = seed % 3   ? TB_F32
                                           : seed % 2 ? TB_F16
                                                      : TB_BF16,
                                      .ta = seed % 4 < 2 ? 'N' : 'T',
                                      .tb = seed % 8 < 4 ? 'N' : 'T',
                                      .m = 130,
                                      .n = 133,
                                      .k = 4000,
                                      .alpha = 1,
                                      .beta = seed % 2,
                                      .seed = seed};
            const size_t memory = little ? 2300000 : 20000000;
            struct tb_plan plan;
            struct product p;
            product_open(&p, &spec);
            cr_assert_eq(plan_build(&p.call, &caps, memory, &plan), TB_OK);
            scratch += plan.scratch_bytes > 0;
            plan_free(&plan);
            product_close(&p);
            try_spec(&spec, memory);
        }
        device_down();
    }
    cr_assert_eq(scratch, 2);
}

static void *wait_for_byte(void *from)
{
    char byte;
    return read(*(int *)from, &byte, 1) < 0 ? from : NULL;
}

/* The caller may be bound to one CPU; threads of ours go wherever the program may. */
Test(exec, threads_run_where_any_of_the_program_may)
{
    const struct spec spec = {
        .ab = TB_F64, .c = TB_F64, .ta = 'N', .tb = 'N', .m = 64, .n = 64, .k = 64, .alpha = 1};
    cpu_set_t all, one, other;
    int ends[2], threads = 0;
    pthread_t elsewhere;
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(pthread_create(&elsewhere, NULL, wait_for_byte, &ends[0]), 0);
    cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    device_up("16", "512", "4000000", false);
    try_spec(&spec, 4000000);
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        const int tid = atoi(entry->d_name);
        if (tid <= 0 || tid == gettid() || sched_getaffinity(tid, sizeof other, &other) != 0)
            continue;
        threads++;
        cr_expect(CPU_EQUAL(&other, &all), "%d CPUs of %d", CPU_COUNT(&other), CPU_COUNT(&all));
    }
    closedir(tasks);
    cr_expect_geq(threads, 1 + 6 + 1, "%d threads", threads);
    device_down();
    cr_assert_eq(write(ends[1], "", 1), 1);
    pthread_join(elsewhere, NULL);
}

Test(exec, many_seeds)
{
    device_up("8", "256", "4000000", false);
    for (unsigned seed = 1; seed <= 300; seed++) {
        exec_brief_bytes = seed % 2 ? 0 : 1e9;
        sim_seed(seed);
        const struct spec spec = {.ab = TB_F64,
                                  .c = TB_F64,
                                  .ta = 'N',
                                  .tb = 'T',
                                  .m = 30,
                                  .n = 27,
                                  .k = 41,
                                  .gap = 1,
                                  .alpha = 1,
                                  .beta = seed % 2,
                                  .seed = seed};
        try_spec(&spec, seed % 3 ? 1 << 20 : 9000);
    }
    device_down();
}

Test(exec, batches)
{
    device_up("0", "2048", "4000000", false);
    for (unsigned seed = 1; seed <= 60; seed++) {
        sim_seed(seed);
        const struct spec spec = {.ab = pairs[seed % 8].ab,
                                  .c = pairs[seed % 8].c,
                                  .ta = "NTC"[seed % 3],
                                  .tb = "NTC"[seed / 3 % 3],
                                  .m = 1 + seed % 13,
                                  .n = 1 + seed % 11,
                                  .k = 1 + seed % 17,
                                  .gap = seed % 2,
                                  .alpha = 1,
                                  .beta = seed % 4 ? -1 : 0,
                                  .batch = 2 + seed * 3,
                                  .lists = seed % 2,
                                  .share_a = seed % 4 == 2,
                                  .nan_c = seed % 4 == 0,
                                  .seed = seed};
        try_spec(&spec, 1 << 20);
    }
    device_down();
}

/* A plan whose products are several kernels each. */
static void plan_in_planes(const struct product *product, struct tb_plan *plan)
{
    int row = 0;
    while (kernel_row(row)->family != TB_X3 || kernel_row(row)->ta || kernel_row(row)->tb)
        row++;
    cr_assert_eq(plan_build(&product->call, &caps, 1 << 20, plan), TB_OK);
    const struct tb_gemm_params tile = {
        .m = plan->tile_m, .n = plan->tile_n, .k = plan->tile_k, .batch = 1};
    plan->kernel = row;
    plan->scratch_offset = plan->bytes;
    plan->scratch_bytes = kernel_scratch(kernel_row(row), &caps, &tile);
    plan->bytes = plan_scratch_offset(plan, TB_PLAN_LANES);
}

/* A kernel that packs, although the product is small: tiles on two lanes, each with an area of its
 * own. */
Test(exec, areas_of_lanes_are_apart)
{
    const struct spec spec = {.ab = TB_F32,
                              .c = TB_F32,
                              .ta = 'N',
                              .tb = 'N',
                              .m = 100,
                              .n = 60,
                              .k = 270,
                              .alpha = 1,
                              .beta = 1,
                              .seed = 1};
    struct product product;
    struct tb_plan plan;
    struct tb_undone undone;
    struct tb_exec_stats stats;
    device_up("32", "2048", "4000000", false);
    product_open(&product, &spec);
    plan_in_planes(&product, &plan);
    cr_assert_eq(exec_run(&product.call, &plan, &undone, &stats), TB_OK);
    cr_assert(product_right(&product));
    undone_free(&undone);
    plan_free(&plan);
    product_close(&product);
    device_down();
}

/* Operands in device, managed and pinned memory, with any of them elsewhere. */
static void every_place(const char *tile, size_t memory, int64_t batch)
{
    static const enum tb_where places[] = {TB_HOST_PAGEABLE, TB_HOST_PINNED, TB_DEVICE, TB_MANAGED};
    device_up(tile, "512", "4000000", true);
    for (unsigned seed = 0; seed < 64 * 8; seed++) {
        sim_seed(seed);
        const unsigned t = seed / 64;
        const struct spec spec = {
            .ab = pairs[t].ab,
            .c = pairs[t].c,
            .ta = "NTC"[seed % 3],
            .tb = "NTC"[seed / 3 % 3],
            .m = 1 + seed % 31,
            .n = 1 + seed % 23,
            .k = 1 + seed % 17,
            .gap = seed % 2,
            .alpha = 1,
            .beta = seed % 5 ? -1 : 0,
            .batch = batch,
            .lists = batch > 1 && seed % 2,
            .share_a = batch > 1 && seed % 4 == 2,
            .nan_c = seed % 5 == 0,
            .seed = seed,
            .where = {places[seed % 4], places[seed / 4 % 4], places[seed / 16 % 4]}};
        try_spec(&spec, memory);
    }
    cr_expect_gt(sim_counts().follows, 0);
    device_down();
}

Test(exec, every_place)
{
    every_place("0", 1 << 20, 1);
}

Test(exec, every_place_in_tiles)
{
    every_place("8", 1 << 20, 1);
}

Test(exec, every_place_with_little_memory)
{
    every_place("8", 9000, 1);
}

Test(exec, every_place_of_a_batch)
{
    every_place("0", 1 << 20, 7);
}

Test(exec, in_place_nothing_is_moved)
{
    struct product p;
    int64_t rects;
    device_up("8", "512", "4000000", true);
    struct spec spec = {.ab = TB_F64,
                        .c = TB_F64,
                        .ta = 'N',
                        .tb = 'T',
                        .m = 40,
                        .n = 30,
                        .k = 20,
                        .gap = 3,
                        .alpha = 1,
                        .beta = 1,
                        .where = {TB_DEVICE, TB_MANAGED, TB_DEVICE}};
    product_open(&p, &spec);
    cr_expect_eq(attempt(&p, 1 << 20, &rects), TB_OK);
    cr_expect(product_right(&p));
    cr_expect_eq(sim_counts().launches, 1);
    cr_expect_eq(sim_counts().copies_in + sim_counts().copies_out, 0);
    product_close(&p);
    device_down();
}

Test(exec, batch_in_tiles)
{
    device_up("8", "512", "4000000", false);
    for (unsigned seed = 1; seed <= 20; seed++) {
        sim_seed(seed);
        const struct spec spec = {.ab = TB_C32,
                                  .c = TB_C32,
                                  .ta = 'C',
                                  .tb = 'N',
                                  .m = 20,
                                  .n = 13,
                                  .k = 9,
                                  .gap = 1,
                                  .alpha = 1,
                                  .beta = 1,
                                  .batch = 7,
                                  .lists = seed % 2,
                                  .share_a = seed % 4 == 2,
                                  .seed = seed};
        try_spec(&spec, seed % 3 ? 1 << 20 : 20000);
    }
    device_down();
}

Test(exec, many_small_products_share_launches)
{
    struct product p;
    int64_t rects;
    device_up("0", "0", "100000000", false);
    const struct spec spec = {.ab = TB_F32,
                              .c = TB_F32,
                              .ta = 'N',
                              .tb = 'N',
                              .m = 8,
                              .n = 8,
                              .k = 8,
                              .alpha = 1,
                              .beta = 1,
                              .batch = 10000,
                              .seed = 5};
    product_open(&p, &spec);
    cr_expect_eq(attempt(&p, 100000000, &rects), TB_OK);
    cr_expect(product_right(&p));
    const struct sim_counts counts = sim_counts();
    cr_expect_lt(counts.launches, 30, "%ld launches", counts.launches);
    cr_expect_lt(counts.copies_in + counts.copies_out, 150);
    product_close(&p);
    device_down();
}

Test(exec, small_calls_need_no_thread)
{
    struct product p;
    int64_t rects;
    device_up("0", "0", "1000000", true);
    const struct spec spec = {.ab = TB_F64,
                              .c = TB_F64,
                              .ta = 'N',
                              .tb = 'N',
                              .m = 10,
                              .n = 10,
                              .k = 10,
                              .alpha = 1,
                              .beta = 1,
                              .seed = 5};
    product_open(&p, &spec);
    cr_expect_eq(attempt(&p, 1000000, &rects), TB_OK);
    cr_expect(product_right(&p));
    int threads = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; (entry = readdir(tasks));)
        threads += entry->d_name[0] != '.';
    closedir(tasks);
    cr_expect_eq(pool_get()->copiers, 0);
    cr_expect_leq(threads, 2, "%d threads", threads); /* Criterion has one of its own */
    product_close(&p);
    device_down();
}

/* --- Faults --- */

/* The n-th operation of the seam fails, for every n until none does. */
static void countdown(const struct spec *spec, enum sim_fail mode, size_t memory, bool inline_calls)
{
    long n = 1, fired = 0, salvaged = 0;
    for (bool more = true; more; n++) {
        struct product p;
        int64_t rects;
        device_up("8", "256", "4000000", inline_calls);
        exec_brief_bytes = n % 2 ? 0 : 1e9; /* both classes of calls */
        sim_seed((uint64_t)n);
        product_open(&p, spec);
        sim_fail(mode, n);
        const enum tb_status status = attempt(&p, memory, &rects);
        more = sim_failed();
        cr_expect(product_right(&p), "fault %ld, status %s, %lld rectangles", n,
                  tb_status_text(status), (long long)rects);
        fired += more;
        salvaged += more && status != TB_OK && rects < 12;
        if (mode != SIM_FAIL_ONCE) {
            pool_close(); /* the device is gone; a new one */
            tb_dev()->close();
            device_up("8", "256", "4000000", inline_calls);
        }
        sim_fail(SIM_FAIL_NONE, 0);
        product_reset(&p);
        cr_expect_eq(attempt(&p, memory, &rects), TB_OK, "the call after fault %ld", n);
        cr_expect(product_right(&p), "the call after fault %ld", n);
        product_close(&p);
        device_down();
    }
    cr_expect_gt(fired, 5);
    cr_log_info("%ld faults, %ld of them with part of C done", fired, salvaged);
    if (!inline_calls)
        cr_expect_gt(salvaged, 0);
}

static const struct spec fault_spec = {.ab = TB_F64,
                                       .c = TB_F64,
                                       .ta = 'N',
                                       .tb = 'N',
                                       .m = 20,
                                       .n = 21,
                                       .k = 12,
                                       .gap = 1,
                                       .alpha = -1,
                                       .beta = 2,
                                       .seed = 9};

Test(faults, once)
{
    countdown(&fault_spec, SIM_FAIL_ONCE, 1 << 20, false);
}

Test(faults, ever)
{
    countdown(&fault_spec, SIM_FAIL_EVER, 1 << 20, false);
}

Test(faults, late)
{
    countdown(&fault_spec, SIM_FAIL_LATE, 1 << 20, false);
}

Test(faults, once_with_parts_of_k_ahead)
{
    setenv("TILEBLAS_SIM_ORDER", "2", 1);
    countdown(&fault_spec, SIM_FAIL_ONCE, 1 << 20, false);
}

Test(faults, late_with_parts_of_k_ahead)
{
    setenv("TILEBLAS_SIM_ORDER", "2", 1);
    countdown(&fault_spec, SIM_FAIL_LATE, 1 << 20, false);
}

Test(faults, once_with_little_memory)
{
    countdown(&fault_spec, SIM_FAIL_ONCE, 6000, false);
}

Test(faults, late_with_little_memory)
{
    countdown(&fault_spec, SIM_FAIL_LATE, 6000, false);
}

/* Memory runs out at every place where it can: the call is right, and so is the next one. */
Test(faults, memory)
{
    long n = 1;
    for (bool more = true; more; n++) {
        struct product p;
        int64_t rects;
        device_up("8", "256", "4000000", n % 2);
        product_open(&p, &fault_spec);
        sim_fail(SIM_FAIL_MEMORY, n);
        const enum tb_status status = attempt(&p, 1 << 20, &rects);
        more = sim_failed();
        cr_expect(product_right(&p), "no memory at %ld, status %s", n, tb_status_text(status));
        sim_fail(SIM_FAIL_NONE, 0);
        pool_limit(4000000);
        product_reset(&p);
        cr_expect_eq(attempt(&p, 1 << 20, &rects), TB_OK, "the call after %ld", n);
        cr_expect(product_right(&p), "the call after %ld", n);
        product_close(&p);
        device_down();
    }
    cr_expect_gt(n, 30, "only %ld places", n);
}

/* The program resets the device between two calls: nothing of ours on it is touched any more. */
Test(faults, reset)
{
    struct product p;
    int64_t rects;
    device_up("8", "256", "4000000", false);
    product_open(&p, &fault_spec);
    cr_expect_eq(attempt(&p, 1 << 20, &rects), TB_OK);
    product_reset(&p);
    usleep(20000); /* all threads idle */
    sim_reset();
    const long calls = sim_counts().calls;
    pool_idle_ns = 1000000;
    cr_expect_eq(attempt(&p, 1 << 20, &rects), TB_DEVICE_FAULT);
    cr_expect(product_right(&p));
    cr_expect(exec_broken());
    product_reset(&p);
    cr_expect_eq(attempt(&p, 1 << 20, &rects), TB_DEVICE_FAULT);
    cr_expect(product_right(&p));
    usleep(20000);
    const clock_t before = clock();
    usleep(300000);
    cr_expect_lt(clock() - before, CLOCKS_PER_SEC / 50, "threads of a broken engine should sleep");
    cr_expect_eq(sim_counts().calls, calls, "%ld calls", sim_counts().calls - calls);
    product_close(&p);
    device_down();
}

/* The same in the middle of a call. */
Test(faults, reset_midway)
{
    for (long n = 1; n < 200; n += 7) {
        struct product p;
        int64_t rects;
        device_up("8", "256", "4000000", false);
        product_open(&p, &fault_spec);
        sim_fail(SIM_FAIL_EVER, n);
        attempt(&p, 1 << 20, &rects);
        cr_expect(product_right(&p), "reset at %ld", n);
        product_close(&p);
        device_down();
    }
}

Test(faults, on_the_caller)
{
    static const struct spec spec = {.ab = TB_F32,
                                     .c = TB_F32,
                                     .ta = 'N',
                                     .tb = 'T',
                                     .m = 7,
                                     .n = 8,
                                     .k = 5,
                                     .gap = 1,
                                     .alpha = 1,
                                     .beta = 2,
                                     .seed = 9};
    countdown(&spec, SIM_FAIL_ONCE, 1 << 20, true);
    countdown(&spec, SIM_FAIL_EVER, 1 << 20, true);
}

/* A C in device memory: every tile is old or new, none has beta twice. */
Test(faults, in_place)
{
    struct spec spec = fault_spec;
    spec.where[2] = TB_DEVICE;
    countdown(&spec, SIM_FAIL_ONCE, 1 << 20, false);
    countdown(&spec, SIM_FAIL_ONCE, 9000, false);
    spec.where[0] = TB_HOST_PINNED;
    countdown(&spec, SIM_FAIL_ONCE, 1 << 20, false);
}

Test(faults, batch)
{
    struct spec spec = fault_spec;
    spec.m = spec.n = 5;
    spec.batch = 40;
    spec.lists = true;
    countdown(&spec, SIM_FAIL_ONCE, 1 << 20, false);
}

Test(faults, too_little_memory)
{
    struct product p;
    int64_t rects;
    device_up("8", "256", "4000", false);
    product_open(&p, &fault_spec);
    pool_limit(100000); /* more than there is */
    cr_expect_eq(attempt(&p, 100000, &rects), TB_NO_MEMORY);
    cr_expect(product_right(&p));
    cr_expect_leq(pool_budget(&caps), 4000); /* it learned */
    product_close(&p);
    device_down();
}

/* The last kernel of a row of several is refused, when another may have added to C: what C in place
 * holds nobody can tell, one at home is finished. */
Test(faults, part_refused)
{
    struct spec spec = fault_spec;
    spec.ab = spec.c = TB_F32;
    spec.m = spec.n = 150;
    spec.k = 270;
    for (int device = 0; device < 2; device++) {
        struct product p;
        struct tb_plan plan;
        struct tb_undone undone;
        struct tb_exec_stats stats;
        struct tb_rect rect;
        spec.where[2] = device ? TB_DEVICE : TB_HOST_PAGEABLE;
        device_up("32", "2048", "4000000", false);
        product_open(&p, &spec);
        plan_in_planes(&p, &plan);
        sim_fail(SIM_FAIL_PART, 2);
        cr_expect_eq(exec_run(&p.call, &plan, &undone, &stats), TB_TORN);
        cr_expect(sim_failed());
        cr_expect_eq(undone.unsure, device, "C on the device: %d", device);
        while (!device && undone_next(&undone, &rect))
            product_rect(&p, &rect);
        cr_expect(device || product_right(&p));
        undone_free(&undone);
        plan_free(&plan);
        product_close(&p);
        device_down();
    }
}

/* The n-th operation does not return. The caller does, and nothing touches its
 * operands afterwards.
 */
Test(faults, hang, .timeout = 120)
{
    int64_t limit = 20000000;
    bool hung = true;
    for (long n = 1; n < 400 && hung;) {
        struct product p;
        int64_t rects;
        device_up("8", "256", "4000000", false);
        exec_queue_ns = exec_watchdog_ns = limit;
        sim_seed((uint64_t)n);
        product_open(&p, &fault_spec);
        sim_hang(n);
        const enum tb_status status = attempt(&p, 1 << 20, &rects);
        hung = sim_hanging();
        cr_expect(product_right(&p), "hang %ld, %s", n, tb_status_text(status));
        if (status == TB_TIMEOUT)
            cr_expect_neq(attempt(&p, 1 << 20, &rects), TB_OK);
        product_close(&p); /* whatever still ran would now fault */
        sim_release();
        usleep(2000);
        pool_close();
        tb_dev()->close();
        if (status != TB_OK && !hung) { /* the machine was busy elsewhere: more patience, again */
            limit *= 4;
            hung = true;
            cr_assert_lt(limit, INT64_C(10000000000), "%s without a hang", tb_status_text(status));
            continue;
        }
        n += n < 60 ? 1 : 13;
    }
    exec_queue_ns = 2000000000;
    exec_watchdog_ns = 60000000000;
}

/* The same with C in managed memory, which the CPU could read: what it is not told to be unsure of
 * it may finish, and beta is never applied twice. */
Test(faults, hang_with_managed_c, .timeout = 120)
{
    struct spec spec = fault_spec;
    int finished = 0, unsure = 0;
    spec.where[2] = TB_MANAGED;
    spec.beta = 2;
    exec_queue_ns = exec_watchdog_ns = 100000000;
    for (long n = 1; n < 160; n += 6) {
        struct product p;
        struct tb_plan plan;
        struct tb_undone undone;
        struct tb_exec_stats stats;
        struct tb_rect rect;
        device_up("8", "256", "4000000", false);
        sim_seed((uint64_t)n);
        product_open(&p, &spec);
        cr_assert_eq(plan_build(&p.call, &caps, 1 << 20, &plan), TB_OK);
        sim_hang(n);
        const enum tb_status status = exec_run(&p.call, &plan, &undone, &stats);
        if (undone.unsure) {
            cr_expect_eq(status, TB_TIMEOUT);
            unsure++;
        } else {
            while (undone_next(&undone, &rect))
                product_rect(&p, &rect);
            finished++;
        }
        sim_release();
        usleep(20000); /* what went on would show now */
        cr_expect(undone.unsure || product_right(&p), "hang %ld, %s", n, tb_status_text(status));
        pool_close();
        undone_free(&undone);
        plan_free(&plan);
        product_close(&p);
        tb_dev()->close();
    }
    cr_expect(finished > 0 && unsure > 0, "%d finished, %d unsure", finished, unsure);
    exec_queue_ns = 2000000000;
    exec_watchdog_ns = 60000000000;
}

/* Nothing returns any more, from the n-th operation on: calls wait for a while, then it counts as
 * the end of the device and not as one that is busy for ever. */
Test(faults, standstill, .timeout = 60)
{
    for (long n = 1; n < 12; n += 2) {
        struct product p;
        int64_t rects;
        int calls = 0;
        enum tb_status status = TB_BUSY;
        device_up("8", "256", "4000000", false);
        exec_queue_ns = 20000000;
        exec_watchdog_ns = 20000000;
        exec_standstill_ns = 80000000;
        product_open(&p, &fault_spec);
        sim_hang_all(n);
        for (; status == TB_BUSY && calls < 20; calls++) {
            product_reset(&p);
            status = attempt(&p, 1 << 20, &rects);
            cr_expect(product_right(&p), "standstill at %ld, call %d", n, calls);
        }
        cr_expect_eq(status, TB_TIMEOUT, "standstill at %ld: %s after %d calls", n,
                     tb_status_text(status), calls);
        product_close(&p);
        sim_release();
        usleep(2000);
        pool_close();
        tb_dev()->close();
    }
    exec_queue_ns = 2000000000;
    exec_watchdog_ns = 60000000000;
    exec_standstill_ns = 8000000000;
}

/* Two stalls far apart are not one long one: only time in which somebody waited counts. */
Test(faults, isolated_stalls, .timeout = 60)
{
    struct product p;
    int64_t rects;
    device_up("8", "256", "4000000", false);
    exec_queue_ns = 40000000;
    exec_standstill_ns = 130000000;
    product_open(&p, &fault_spec);
    sim_hang_all(1);
    for (int stall = 0; stall < 3; stall++) {
        product_reset(&p);
        cr_expect_eq(attempt(&p, 1 << 20, &rects), TB_BUSY, "stall %d", stall);
        cr_expect(product_right(&p));
        usleep(200000); /* nobody waits */
    }
    sim_release();
    cr_expect(!exec_broken());
    exec_queue_ns = 10000000000;
    product_reset(&p);
    cr_expect_eq(attempt(&p, 1 << 20, &rects), TB_OK);
    cr_expect(product_right(&p));
    product_close(&p);
    device_down();
}

Test(exec, a_child_leaves_it_alone)
{
    struct product p;
    int64_t rects;
    device_up("8", "256", "4000000", false);
    product_open(&p, &fault_spec);
    cr_expect_eq(attempt(&p, 1 << 20, &rects), TB_OK);
    product_reset(&p);
    const pid_t child = fork();
    if (child == 0) {
        const bool refused = attempt(&p, 1 << 20, &rects) == TB_FORKED && product_right(&p);
        pool_forget();
        _exit(refused && pool_get()->copiers == 0 ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    cr_expect_eq(status, 0);
    product_close(&p);
    device_down();
}

static double ahead_of_all(void)
{
    int calls;
    return exec_ahead_ns(&calls);
}

/* What is ahead of a call is told while others are under way, and is nothing afterwards. */
Test(exec, ahead)
{
    struct product p;
    int64_t rects;
    device_up("8", "256", "4000000", false);
    product_open(&p, &fault_spec);
    cr_expect_eq(ahead_of_all(), 0);
    cr_expect_eq(attempt(&p, 1 << 20, &rects), TB_OK);
    usleep(20000); /* the service thread lets go of it */
    cr_expect_eq(ahead_of_all(), 0);
    product_close(&p);
    for (long n = 20; n < 60; n += 10) { /* also after a failure */
        product_open(&p, &fault_spec);
        sim_fail(SIM_FAIL_ONCE, n);
        attempt(&p, 1 << 20, &rects);
        sim_fail(SIM_FAIL_NONE, 0);
        usleep(20000);
        cr_expect_eq(ahead_of_all(), 0, "%g ns", ahead_of_all());
        product_close(&p);
    }
    device_down();
}

/* A long call holds all the memory that long ones may have, and all service threads and copiers
 * that may wait for it: a brief one passes. */
static void *run_long(void *arg)
{
    int64_t rects;
    return attempt(arg, 1 << 20, &rects) == TB_OK ? arg : NULL;
}

/* Long calls with the n-th operation hanging in the first of them, and a brief one; false: the hang
 * held none of them up. */
static bool pass_long_calls(long n, const struct spec *long_spec, const struct spec *brief_spec)
{
    enum { LONG = TB_SERVERS_MAX + 2 };
    struct product p[LONG], brief;
    pthread_t thread[LONG];
    int64_t rects;
    void *held;
    sim_hang(n);
    for (int i = 0; i < LONG; i++) {
        product_open(&p[i], long_spec);
        cr_assert_eq(pthread_create(&thread[i], NULL, run_long, &p[i]), 0);
    }
    for (int i = 0; i < 2000 && !sim_hanging(); i++)
        usleep(1000);
    usleep(50000); /* all the others wait by now */
    const bool waiting = sim_hanging() && ahead_of_all() > 0;
    product_open(&brief, brief_spec);
    if (waiting) {
        cr_expect_eq(attempt(&brief, 1 << 20, &rects), TB_OK);
        cr_expect(product_right(&brief));
        cr_expect(sim_hanging() && ahead_of_all() > 0, "the long calls were to wait still");
    }
    product_close(&brief);
    sim_release();
    for (int i = 0; i < LONG; i++) {
        pthread_join(thread[i], &held);
        cr_expect_eq(held, &p[i]);
        cr_expect(product_right(&p[i]));
        product_close(&p[i]);
    }
    return waiting;
}

Test(exec, a_brief_call_passes_a_long_one, .timeout = 60)
{
    struct product p;
    struct tb_plan plan;
    struct spec long_spec = fault_spec, brief_spec = fault_spec;
    long_spec.m = long_spec.n = long_spec.k = 40;
    brief_spec.m = brief_spec.n = brief_spec.k = 7;
    device_up("8", "256", "4000000", false);
    product_open(&p, &long_spec);
    cr_assert_eq(plan_build(&p.call, &caps, 1 << 20, &plan), TB_OK);
    pool_limit(plan.bytes / 7 * 8 + 64); /* room for one */
    plan_free(&plan);
    product_close(&p);
    exec_brief_bytes = 3000;
    exec_queue_ns = INT64_C(60000000000);
    int passed = 0;
    for (long n = 200; n < 240 && passed < 3; n++)
        passed += pass_long_calls(n, &long_spec, &brief_spec);
    cr_expect_eq(passed, 3);
    device_down();
}

Test(exec, idle_copiers_sleep)
{
    struct product p;
    int64_t rects;
    device_up("8", "256", "4000000", false);
    product_open(&p, &fault_spec);
    cr_expect_eq(attempt(&p, 1 << 20, &rects), TB_OK);
    usleep(50000);
    const clock_t before = clock();
    usleep(300000);
    cr_expect_lt(clock() - before, CLOCKS_PER_SEC / 50);
    product_close(&p);
    device_down();
}

Test(exec, idle_memory_is_given_back)
{
    struct product p;
    int64_t rects;
    device_up("8", "256", "4000000", false);
    product_open(&p, &fault_spec);
    pool_idle_ns = 200000000;
    cr_expect_eq(attempt(&p, 1 << 20, &rects), TB_OK);
    cr_expect_eq(sim_counts().allocs, 1);
    for (int i = 0; i < 100 && sim_counts().allocs > 0; i++)
        usleep(50000);
    cr_expect_eq(sim_counts().allocs, 0);
    product_reset(&p);
    cr_expect_eq(attempt(&p, 1 << 20, &rects), TB_OK);
    cr_expect(product_right(&p));
    product_close(&p);
    device_down();
}

/* A caller does not wait for ever while another has all the memory. */
static void *hold_memory(void *arg)
{
    int64_t rects;
    return attempt(arg, 6000, &rects) == TB_OK ? arg : NULL;
}

/* The n-th operation hangs in a call that has all the memory; what a second call then comes to. */
static enum tb_status attempt_beside_a_hang(long n)
{
    struct product p, q;
    int64_t rects;
    pthread_t holder;
    void *held;
    product_open(&p, &fault_spec);
    product_open(&q, &fault_spec);
    sim_hang(n);
    cr_assert_eq(pthread_create(&holder, NULL, hold_memory, &p), 0);
    while (!sim_hanging())
        usleep(1000);
    exec_queue_ns = 50000000;
    const enum tb_status status = attempt(&q, 6000, &rects);
    cr_expect(product_right(&q));
    sim_release();
    pthread_join(holder, &held);
    cr_expect_eq(held, &p);
    cr_expect(product_right(&p));
    product_close(&p);
    product_close(&q);
    exec_queue_ns = INT64_C(2000000000);
    return status;
}

Test(exec, busy_when_memory_is_held)
{
    struct product p;
    int64_t rects;
    device_up("8", "256", "4000000", false);
    pool_limit(6000);
    product_open(&p, &fault_spec);
    cr_expect_eq(attempt(&p, 6000, &rects), TB_OK);
    product_close(&p);
    /* A copier that hangs over a transfer long done holds nobody up: such an n says nothing. */
    enum tb_status status = TB_OK;
    for (long n = 40; n < 60 && status == TB_OK; n++)
        status = attempt_beside_a_hang(n);
    cr_expect_eq(status, TB_BUSY, "%s", tb_status_text(status));
    device_down();
}
