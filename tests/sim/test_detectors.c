/* SPDX-License-Identifier: BSD-3-Clause
 * Each detector of the simulated device is shown to catch its planted fault:
 * the process must end with status 99. A test that gets to its end has found
 * nothing and fails. */
#include "../../src/exec.h"
#include "../../src/kernel.h"
#include "../../src/pool.h"
#include "dev_sim.h"
#include "product.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct tb_caps caps;
static struct tb_lane *one, *two;
static struct tb_event *event;
static char *pinned;
static tb_dptr memory;
enum { BYTES = 4096 };
static const struct tb_copy shape = {
    .width = 1000, .rows = 1, .dst_pitch = 1000, .src_pitch = 1000};

static void device_up(const char *planted)
{
    setenv("TILEBLAS_SIM_PLANT", planted, 1);
    setenv("TILEBLAS_SIM_TILE", "8", 1);
    setenv("TILEBLAS_SIM_CHUNK", "256", 1);
    setenv("TILEBLAS_SIM_INLINE", "0", 1);
    setenv("TILEBLAS_SIM_SEED", "4", 1); /* nothing is done before it has to */
    setenv("TILEBLAS_THREADS", "3", 1);
    cr_assert_eq(tb_dev()->open(0, &caps), TB_OK);
    pool_limit(caps.mem_free);
}

static void two_lanes(void)
{
    const struct tb_dev_ops *dev = tb_dev();
    device_up("");
    pinned = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert(dev->bind() == TB_OK && dev->lane_open(&one, false) == TB_OK &&
              dev->lane_open(&two, false) == TB_OK && dev->event_open(&event) == TB_OK &&
              dev->alloc(BYTES, &memory) == TB_OK && dev->pin(pinned, BYTES) == TB_OK);
}

static void finish(struct tb_lane *lane)
{
    tb_dev()->record(event, lane);
    tb_dev()->sync(event);
}

static void run_products(const char *planted, size_t bytes)
{
    device_up(planted);
    for (unsigned seed = 1; seed < 100; seed++) {
        const struct spec spec = {.ab = TB_F64,
                                  .c = TB_F64,
                                  .ta = 'N',
                                  .tb = 'N',
                                  .m = 30,
                                  .n = 30,
                                  .k = 30,
                                  .alpha = 1,
                                  .beta = 1,
                                  .seed = seed};
        struct product p;
        struct tb_plan plan;
        struct tb_undone undone;
        struct tb_exec_stats stats;
        sim_seed(seed);
        product_open(&p, &spec);
        cr_assert_eq(plan_build(&p.call, &caps, bytes, &plan), TB_OK);
        exec_run(&p.call, &plan, &undone, &stats);
        undone_free(&undone);
        plan_free(&plan);
        product_close(&p);
    }
}

Test(detectors, missing_wait_whole, .exit_code = 99)
{
    run_products("skip-wait", 1 << 20);
}

Test(detectors, missing_wait_stream, .exit_code = 99)
{
    run_products("skip-wait", 9000);
}

Test(detectors, overrun, .exit_code = 99)
{
    run_products("overrun", 1 << 20);
}

Test(detectors, stray_read, .exit_code = 99)
{
    run_products("stray", 1 << 20);
}

Test(detectors, nothing_planted)
{
    run_products("", 1 << 20);
    pool_close();
    tb_dev()->close();
}

Test(detectors, write_after_write, .exit_code = 99)
{
    two_lanes();
    tb_dev()->h2d(one, memory, pinned, shape);
    tb_dev()->h2d(two, memory + 900, pinned, shape);
    finish(two);
    finish(one);
}

Test(detectors, read_after_write, .exit_code = 99)
{
    two_lanes();
    tb_dev()->h2d(one, memory, pinned, shape);
    tb_dev()->d2h(two, pinned + 2000, memory + 999, shape);
    finish(one);
    finish(two);
}

Test(detectors, write_after_read, .exit_code = 99)
{
    two_lanes();
    tb_dev()->d2h(one, pinned, memory, shape);
    tb_dev()->h2d(two, memory, pinned + 2000, shape);
    finish(one);
    finish(two);
}

Test(detectors, events_order)
{
    two_lanes();
    const struct tb_dev_ops *dev = tb_dev();
    dev->h2d(one, memory, pinned, shape);
    dev->record(event, one);
    dev->wait(two, event);
    dev->d2h(two, pinned + 2000, memory, shape);
    finish(two);
    dev->h2d(one, memory, pinned, shape); /* the host has seen the end of it */
    finish(one);
    dev->free(memory);
    dev->unpin(pinned);
    dev->event_close(event);
    dev->lane_close(one);
    dev->lane_close(two);
    dev->close();
}

Test(detectors, staging_reused_too_early, .exit_code = 99)
{
    two_lanes();
    tb_dev()->h2d(one, memory, pinned, shape);
    memset(pinned + 500, 1, 1);
    finish(one);
}

Test(detectors, result_taken_too_early)
{
    two_lanes();
    tb_dev()->h2d(one, memory, pinned, shape);
    tb_dev()->d2h(one, pinned + 2000, memory, shape);
    double early;
    memcpy(&early, pinned + 2000, sizeof early);
    cr_expect(early != early, "no numbers before the copy is over");
    finish(one);
}

Test(detectors, copy_out_of_bounds, .exit_code = 99)
{
    two_lanes();
    tb_dev()->h2d(one, memory + BYTES - 999, pinned, shape);
}

Test(detectors, not_pinned, .exit_code = 99)
{
    char local[1000];
    two_lanes();
    tb_dev()->h2d(one, memory, local, shape);
}

Test(detectors, not_bound, .exit_code = 99)
{
    device_up("");
    tb_dev()->alloc(BYTES, &memory);
}

Test(detectors, freed_in_use, .exit_code = 99)
{
    two_lanes();
    tb_dev()->h2d(one, memory, pinned, shape);
    tb_dev()->free(memory);
}

Test(detectors, unpinned_in_use, .exit_code = 99)
{
    two_lanes();
    tb_dev()->h2d(one, memory, pinned, shape);
    tb_dev()->unpin(pinned);
}

Test(detectors, leak, .exit_code = 99)
{
    two_lanes();
    tb_dev()->close();
}

Test(detectors, fresh_memory_is_no_number)
{
    two_lanes();
    double value;
    tb_dev()->d2h(one, pinned, memory, shape);
    finish(one);
    memcpy(&value, pinned, sizeof value);
    cr_expect(value != value);
}

Test(detectors, wrong_kernel, .exit_code = 99)
{
    two_lanes();
    const int row = kernel_choose(&caps, TB_F32, TB_F32, true, false, 8, 8, 8, 1);
    cr_assert_geq(row, 0);
    const struct tb_gemm_params p = {.a = memory,
                                     .b = memory,
                                     .c = memory + 2048,
                                     .m = 8,
                                     .n = 8,
                                     .k = 8,
                                     .lda = 8,
                                     .ldb = 8,
                                     .ldc = 8,
                                     .batch = 1};
    tb_dev()->launch(one, row, &p);
}
