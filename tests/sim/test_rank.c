/* SPDX-License-Identifier: BSD-3-Clause
 * Measuring kernels, on the simulated device: what wins is what was made fast there, what does not
 * win clearly is not saved, a device that fails or is short of memory gives nothing, and nothing is
 * left behind. And the other end: a process that starts with saved choices measures nothing. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../../src/calibrate.h"
#include "../../src/conf.h"
#include "../../src/device.h"
#include "../../src/plan.h"
#include "../../src/run.h"
#include "../../src/stage.h"
#include "../../tools/rank.h"
#include "dev_sim.h"

static struct tb_caps caps;
static struct tb_tuned tuned;

static void device_up(const char *pace, const char *memory)
{
    setenv("TILEBLAS_SIM_PACE", pace, 1);
    setenv("TILEBLAS_SIM_MEMORY", memory, 1);
    setenv("TILEBLAS_SIM_SEED", "4", 1); /* work is done where it is waited for */
    cr_assert_eq(tb_dev()->open(0, &caps), TB_OK);
}

/* Classes of products up to that many multiplications, so that it ends soon. */
static struct rank_outcome rank_some(int pair, double multiplies)
{
    const struct rank_limits limits = {.seconds = HUGE_VAL, .multiplies = multiplies};
    struct rank rank;
    cr_assert(rank_open(&rank, tb_dev(), &caps));
    rank.rounds_ns = 1e5;
    const struct rank_outcome outcome = rank_pair(&rank, pair, &limits, &tuned);
    rank_close(&rank);
    return outcome;
}

static struct rank_outcome rank_few(int pair)
{
    return rank_some(pair, 3e7);
}

Test(rank, what_is_faster_is_saved_and_then_taken)
{
    device_up("f64_dmma_64x64", "400000000");
    const int pair = shape_pair(TB_F64, TB_F64);
    const struct rank_outcome outcome = rank_some(pair, 3e8);
    cr_assert(outcome.classes == TB_LAYOUTS * TB_SHAPE_CLASSES && outcome.kept > 0);
    cr_assert_eq(outcome.kept, tuned_count(&tuned, pair));
    cr_assert_eq(outcome.kept, tuned_count(&tuned, -1));
    struct tb_caps with = caps;
    int choices = 0;
    with.tuned = &tuned;
    for (int layout = 0; layout < TB_LAYOUTS; layout++)
        for (int class = 0; class < TB_SHAPE_CLASSES; class ++) {
            const struct tb_tuned_row *const x = &tuned.at[pair][layout][class];
            if (x->row == 0)
                continue;
            const struct tb_extent s = tuned_sample(class, 1);
            const bool taken =
                tuned_choice(&with, TB_F64, TB_F64, layout & 1, layout >> 1, &s) == x->row - 1;
            choices += taken;
            cr_expect(strncmp(kernel_row(x->row - 1)->name, "f64_dmma_64x64", 14) == 0);
            cr_expect(x->gain < TB_TUNED_GAIN + 0.001 && x->rate > 0);
            cr_expect(!taken || kernel_choose(&with, TB_F64, TB_F64, layout & 1, layout >> 1, s.m,
                                              s.n, s.k, 1) == x->row - 1);
        }
    cr_assert_gt(choices, 0);
    const struct sim_counts counts = sim_counts();
    cr_assert(counts.launches > 0 && counts.allocs == 0 && counts.pins == 0 && counts.lanes == 0);
    tb_dev()->close();
}

/* Who wants it hears of every candidate, and of why it is saved or not. */
Test(rank, the_log_tells_of_every_candidate)
{
    char path[] = "/tmp/test_rank.XXXXXX";
    static char text[1 << 20];
    close(mkstemp(path));
    setenv("TILEBLAS_VERBOSE", "3", 1);
    setenv("TILEBLAS_LOG", path, 1);
    (void)conf_get();
    device_up("f64_dmma_64x64", "400000000");
    rank_some(shape_pair(TB_F64, TB_F64), 3e7);
    caps.smem_block = 48 << 10; /* a device with less */
    rank_some(shape_pair(TB_F64, TB_F64), 3e7);
    tb_dev()->close();
    FILE *const file = fopen(path, "r");
    cr_assert_not_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    unlink(path);
    cr_expect_not_null(strstr(text, "class small:64:1024, NN, time over that of the estimate's"));
    cr_expect_not_null(strstr(text, ": saved\n"));
    cr_expect_not_null(strstr(text, ": the estimate takes it\n"));
    cr_expect_not_null(strstr(text, ": not clearly faster\n"));
    cr_expect_not_null(
        strstr(text, "f64_dmma_128x128_nn: infeasible: more shared memory than a block may have"));
}

Test(rank, a_large_tile_wins_where_the_estimate_took_a_small_one)
{
    device_up("f64_dmma_128x128", "100000000");
    const struct rank_outcome outcome = rank_few(shape_pair(TB_F64, TB_F64));
    cr_assert_gt(outcome.kept, 0);
    cr_assert(outcome.gain > 0.2 && outcome.gain < TB_TUNED_GAIN);
    tb_dev()->close();
}

/* Every family is among the candidates: plain rows of FP32, and the one on 16-bit planes. */
Test(rank, families_of_a_type_meet)
{
    static const char *const paces[] = {"f32_x3", "f32_128x128", "f32_32x32x32"};
    for (size_t i = 0; i < sizeof paces / sizeof *paces; i++) {
        device_up(paces[i], "400000000");
        const struct rank_outcome outcome = rank_some(shape_pair(TB_F32, TB_F32), 3e8);
        cr_assert_gt(outcome.kept, 0, "%s", paces[i]);
        for (int class = 0; class < TB_SHAPE_CLASSES; class ++) {
            const int row = tuned.at[shape_pair(TB_F32, TB_F32)][0][class].row - 1;
            cr_assert(row < 0 || strncmp(kernel_row(row)->name, paces[i], strlen(paces[i])) == 0);
        }
        cr_assert_eq(sim_counts().allocs, 0);
        tb_dev()->close();
    }
}

/* The height of a band, and what is fetched beside: measured with the row of the estimate, saved,
 * read again, and on their way to the launch. */
static void order_wins(const char *pace, bool band, bool hint)
{
    static char text[TB_TUNED_BYTES_MAX];
    device_up(pace, "900000000");
    const int pair = shape_pair(TB_BF16, TB_BF16);
    rank_some(pair, 2.2e9);
    const struct tb_extent x = {2880, 2880, 256, 1};
    const struct tb_tuned_row *const entry = &tuned.at[pair][0][shape_class(&x)];
    cr_assert(entry->row > 0 && (entry->band > 0) == band && (entry->hint > 0) == hint, "%s", pace);
    static struct tb_tuned back;
    int bad;
    const size_t length = tuned_print(&tuned, &caps, text, sizeof text);
    cr_assert_eq(tuned_parse(text, length, &caps, &back, &bad), TB_TUNED_FITS);
    cr_assert_eq(bad, 0);
    struct tb_caps with = caps;
    with.tuned = &back;
    const struct tb_call call = {.op = TB_GEMM,
                                 .ab = TB_BF16,
                                 .c_type = TB_BF16,
                                 .alpha_type = TB_F32,
                                 .beta_type = TB_F32,
                                 .ta = 'N',
                                 .tb = 'N',
                                 .m = 2880,
                                 .n = 2880,
                                 .k = 256,
                                 .alpha.f = {1},
                                 .where = {TB_DEVICE, TB_DEVICE, TB_DEVICE},
                                 .lda = 2880,
                                 .ldb = 256,
                                 .ldc = 2880,
                                 .batch = 1};
    struct tb_plan plan;
    cr_assert_eq(plan_build(&call, &with, (size_t)800 << 20, &plan), TB_OK);
    const struct tb_gemm_params p = stage_params(&call, &plan, plan_step(&plan, 0), 0);
    cr_assert_eq(plan.kernel, entry->row - 1);
    cr_assert(p.band == entry->band && p.hint == entry->hint);
    plan_free(&plan);
    tb_dev()->close();
}

Test(rank, a_band_wins)
{
    order_wins("bf16_sm90:band", true, false);
}

Test(rank, a_hint_wins)
{
    order_wins("bf16_sm90:hint", false, true);
}

Test(rank, a_device_short_of_memory_gives_less)
{
    device_up("f32_128x128", "400000");
    rank_few(shape_pair(TB_F32, TB_F32));
    cr_assert_eq(sim_counts().allocs, 0);
    tb_dev()->close();
}

/* The n-th call of the seam fails: no crash, nothing left behind. */
Test(rank, faults)
{
    for (long n = 1; n < 400; n += 1 + n / 4) {
        const struct rank_limits limits = {.seconds = HUGE_VAL, .multiplies = 2e6};
        struct rank rank;
        device_up("f32_64x64", "100000000");
        sim_fail(n % 2 ? SIM_FAIL_ONCE : SIM_FAIL_EVER, n);
        if (rank_open(&rank, tb_dev(), &caps)) {
            rank.rounds_ns = 1e4;
            rank_pair(&rank, shape_pair(TB_F32, TB_F32), &limits, &tuned);
            sim_fail(SIM_FAIL_NONE, 0);
            rank_close(&rank);
        }
        sim_fail(SIM_FAIL_NONE, 0);
        const struct sim_counts counts = sim_counts();
        cr_assert(counts.allocs == 0 && counts.lanes == 0 && counts.events == 0, "after %ld", n);
        cr_assert(counts.pins == 0 || n < 6, "after %ld: %ld pinned", n, counts.pins);
        if (counts.pins > 0)
            return; /* that could not be let go of: it stays, and close() would complain */
        tb_dev()->close();
    }
}

/* --- Judgement --- */

static struct rank_times two(double a, double b, double c)
{
    struct rank_times t = {.count = 2};
    const double other[] = {a, b, c};
    for (int s = 0; s < TB_SAMPLES; s++) {
        t.ns[0][s] = 100 * (s + 1);
        t.ns[1][s] = other[s] * t.ns[0][s];
    }
    return t;
}

Test(rank, judgement)
{
    static const struct {
        double a, b, c;
        int best;
    } x[] = {{0.9, 0.9, 0.9, 1},    {1, 1, 1, -1},        {0.98, 0.98, 0.98, -1},
             {0.5, 0.5, 1.02, -1},  {0.9, 1.005, 0.9, 1}, {0, 0.5, 0.5, -1},
             {0.96, 0.96, 0.96, 1}, {0.5, 0.5, 0, -1},    {1.1, 1.1, 1.1, -1}};
    double gain;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        const struct rank_times t = two(x[i].a, x[i].b, x[i].c);
        cr_expect_eq(rank_judge(&t, &gain), x[i].best, "case %zu", i);
    }
    /* The estimate takes another row at each shape: one that is a little behind each is not better.
     */
    struct rank_times t = two(0.9, 1.1, 1.0);
    t.estimate[0] = 1;
    cr_expect_eq(rank_judge(&t, &gain), -1);
    /* The best of three. */
    t = two(0.9, 0.9, 0.9);
    t.count = 3;
    for (int s = 0; s < TB_SAMPLES; s++)
        t.ns[2][s] = 0.8 * t.ns[0][s];
    cr_expect_eq(rank_judge(&t, &gain), 2);
    cr_expect(gain > 0.799 && gain < 0.801);
}

/* --- A process that starts with saved choices --- */

static void name_blas(char *out, size_t room)
{
    snprintf(out, room, "a library");
}

static int two_cpus(void)
{
    return 2;
}

/* The profile of this machine, with `choices` behind it or without. */
static void write_profile(const char *path, bool with_choices)
{
    static char text[TB_PROFILE_BYTES_MAX + TB_TUNED_BYTES_MAX];
    struct tb_profile p;
    profile_builtin(&caps, 2, &p);
    calibrate_cpu(name_blas, two_cpus);
    memcpy(p.cpu_blas, calibrate_get()->cpu_blas, sizeof p.cpu_blas);
    size_t length = profile_print(&p, text, sizeof text);
    if (with_choices)
        length += tuned_print(&tuned, &caps, text + length, sizeof text - length);
    FILE *const file = fopen(path, "w");
    cr_assert_eq(fwrite(text, 1, length, file), length);
    fclose(file);
}

static const struct tb_cpu nowhere;

static void call_once(int64_t n)
{
    double *const a = calloc((size_t)(n * n), 3 * sizeof *a);
    struct tb_call call = {.name = "test",
                           .cpu = &nowhere,
                           .op = TB_GEMM,
                           .form = TB_ONE,
                           .ab = TB_F64,
                           .c_type = TB_F64,
                           .alpha_type = TB_F64,
                           .beta_type = TB_F64,
                           .ta = 'N',
                           .tb = 'N',
                           .m = n,
                           .n = n,
                           .k = n,
                           .alpha.d = {1},
                           .a = a,
                           .b = a + n * n,
                           .c = a + 2 * n * n,
                           .lda = n,
                           .ldb = n,
                           .ldc = n,
                           .batch = 1};
    cr_assert_eq(run_enter(&call).judgement.where, TB_ON_GPU);
    free(a);
}

static void start_with(const char *path, bool with_choices)
{
    device_up("f64", "100000000");
    struct tb_tuned_row *const entry =
        &tuned
             .at[shape_pair(TB_F64, TB_F64)][0][shape_class(&(struct tb_extent){128, 128, 128, 1})];
    tb_dev()->close();
    for (int i = 0; i < kernel_count(); i++)
        if (strcmp(kernel_row(i)->name, "f64_128x64_nn") == 0)
            *entry = (struct tb_tuned_row){(int16_t)(i + 1), 0, 0, 1000, 0.5f, 1};
    setenv("TILEBLAS_PROFILE", path, 1);
    setenv("TILEBLAS_ROUTE", "gpu", 1);
    setenv("TILEBLAS_THREADS", "3", 1);
    write_profile(path, with_choices);
    cr_assert_eq(device_start(INT64_C(20000000000)), TB_DEVICE_READY);
    unlink(path);
}

Test(rank, a_start_with_saved_choices_launches_nothing)
{
    char path[] = "/tmp/test_rank.XXXXXX";
    close(mkstemp(path));
    start_with(path, true);
    cr_assert_eq(sim_counts().launches, 0);
    cr_assert_eq(calibrate_get()->source, TB_PROFILE_SAVED);
    cr_assert_not_null(device_caps()->tuned);
    const int row = kernel_choose(device_caps(), TB_F64, TB_F64, false, false, 128, 128, 128, 1);
    cr_assert_str_eq(kernel_row(row)->name, "f64_128x64_nn");
    call_once(128);
    cr_assert_eq(sim_counts().launches, 1, "the product of the call and nothing else");
}

Test(rank, a_start_without_choices_launches_nothing_either)
{
    char path[] = "/tmp/test_rank.XXXXXX";
    close(mkstemp(path));
    start_with(path, false);
    cr_assert_eq(sim_counts().launches, 0);
    cr_assert_null(device_caps()->tuned);
    call_once(128);
    cr_assert_eq(sim_counts().launches, 1);
}
