/* SPDX-License-Identifier: BSD-3-Clause
 * Plans against the virtual clock: how much of the transfers hides behind the products, and how
 * near the whole comes to the longest of link in, device, link out. Bounds are what the plans reach
 * today, rounded up a little: a plan that overlaps less fails. Prints the table with an argument.
 */
#include "clock.h"
#include "../../src/call.h"
#include <stdio.h>
#include <stdlib.h>

enum { RATIOS = 5 };
static const double ratios[RATIOS] = {0.25, 0.5, 1, 2, 4}; /* device over link */

/* A host with twelve copiers, of which a quarter is enough for one way of the link. */
static const struct clock_machine host = {
    .link_in = 49, .link_out = 47, .stage = 9, .operation = 4000, .copiers = 12};

static const struct tb_caps device = {
    .cc = 90, .sms = 132, .smem_block = 227 << 10, .fp64_ratio = 2, .clock_mhz = 1980};

struct row {
    int64_t m, n, k;
    int beta, order;     /* order of struct tb_caps */
    double memory;       /* as a share of the operands; 0: plenty */
    double most[RATIOS]; /* total over the ideal */
    double hidden;       /* of the shorter of link in and device, with the two equal: at least */
};

static const struct row rows[] = {
    /* the growing square alone */
    {8192, 8192, 8192, 0, 1, 0, {1.14, 1.16, 1.33, 1.13, 1.06}, 0.55},
    {8192, 8192, 8192, 1, 1, 0, {1.06, 1.07, 1.23, 1.10, 1.04}, 0.69},
    {16384, 16384, 16384, 0, 1, 0, {1.11, 1.12, 1.31, 1.12, 1.05}, 0.52},
    /* a quarter of k ahead of it */
    {4096, 4096, 4096, 0, 2, 0, {1.26, 1.26, 1.35, 1.08, 1.05}, 0.72},
    {8192, 8192, 8192, 0, 2, 0, {1.22, 1.20, 1.24, 1.04, 1.03}, 0.74},
    {8192, 8192, 8192, 1, 2, 0, {1.15, 1.15, 1.38, 1.13, 1.03}, 0.62},
    {16384, 16384, 16384, 0, 2, 0, {1.16, 1.15, 1.22, 1.03, 1.02}, 0.74},
    {2048, 2048, 65536, 0, 2, 0, {1.05, 1.06, 1.24, 1.06, 1.03}, 0.74},
    {12345, 777, 9999, 1, 2, 0, {1.09, 1.11, 1.17, 1.08, 1.04}, 0.85},
    /* larger than the memory */
    {4096, 4096, 4096, 0, 0, 0.25, {1.04, 1.04, 1.04, 1.04, 1.02}, 0.95},
    {8192, 8192, 8192, 0, 0, 0.25, {1.04, 1.05, 1.06, 1.03, 1.02}, 0.95},
    {8192, 8192, 8192, 1, 0, 0.25, {1.08, 1.08, 1.13, 1.08, 1.04}, 0.88},
    {16384, 16384, 16384, 0, 0, 0.1, {1.03, 1.03, 1.03, 1.02, 1.01}, 0.90},
    {12345, 777, 9999, 0, 0, 0.25, {1.09, 1.09, 1.10, 1.07, 1.04}, 0.93},
};

static struct tb_call call_of(const struct row *row)
{
    return (struct tb_call){.op = TB_GEMM,
                            .ab = TB_F64,
                            .c_type = TB_F64,
                            .alpha_type = TB_F64,
                            .beta_type = TB_F64,
                            .ta = 'N',
                            .tb = 'N',
                            .m = row->m,
                            .n = row->n,
                            .k = row->k,
                            .alpha.d = {1},
                            .beta.d = {row->beta},
                            .lda = row->m,
                            .ldb = row->k,
                            .ldc = row->m,
                            .batch = 1};
}

static bool plan_of(const struct row *row, struct tb_plan *plan)
{
    const struct tb_call call = call_of(row);
    struct tb_caps caps = device;
    caps.order = row->order;
    const double bytes = call_bytes_in(&call);
    return plan_build(&call, &caps,
                      row->memory > 0 ? (size_t)(bytes * row->memory) : (size_t)100 << 30,
                      plan) == TB_OK;
}

/* With a device that needs `ratio` times as long as the link. */
static struct clock_times times_of(const struct row *row, const struct tb_plan *plan, double ratio)
{
    const struct tb_call call = call_of(row);
    struct clock_machine machine = host;
    const double in = plan->bytes_in / host.link_in, out = plan->bytes_out / host.link_out;
    const double flops = call_flops(&call);
    machine.kernel = flops / (ratio * (in > out ? in : out));
    const struct clock_call one = {.plan = plan, .flops = flops};
    return clock_run(&one, 1, &machine, NULL);
}

static int check(const struct row *row, double ratio, double most, const struct clock_times *t)
{
    const double over = t->total / t->ideal;
    const double hidden = t->in_kernel / (t->in < t->kernel ? t->in : t->kernel);
    int bad = 0;
    if (over < 1 || over > most) {
        fprintf(stderr,
                "%lld %lld %lld beta %d order %d ratio %g: %.3f of the ideal, at most %.3f\n",
                (long long)row->m, (long long)row->n, (long long)row->k, row->beta, row->order,
                ratio, over, most);
        bad = 1;
    }
    if (ratio == 1 && hidden < row->hidden) {
        fprintf(stderr, "%lld %lld %lld beta %d order %d: %.3f hidden, at least %.3f\n",
                (long long)row->m, (long long)row->n, (long long)row->k, row->beta, row->order,
                hidden, row->hidden);
        bad = 1;
    }
    /* Results come back while operands go in, where there is more than one tile. */
    if (row->m > 2048 && ratio <= 1 && t->in_out < 0.19 * (t->in < t->out ? t->in : t->out)) {
        fprintf(stderr, "%lld %lld %lld ratio %g: both ways at once only %.3f ms\n",
                (long long)row->m, (long long)row->n, (long long)row->k, ratio, t->in_out * 1e-6);
        bad = 1;
    }
    return bad;
}

static int rows_check(bool print)
{
    int bad = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tb_plan plan;
        if (!plan_of(&rows[i], &plan))
            return 1;
        if (print)
            printf("%6lld %6lld %6lld beta %d order %d memory %4.2f:", (long long)rows[i].m,
                   (long long)rows[i].n, (long long)rows[i].k, rows[i].beta, rows[i].order,
                   rows[i].memory);
        for (int r = 0; r < RATIOS; r++) {
            const struct clock_times t = times_of(&rows[i], &plan, ratios[r]);
            bad += check(&rows[i], ratios[r], rows[i].most[r], &t);
            if (print)
                printf("  %.2f", t.total / t.ideal);
        }
        if (print)
            putchar('\n');
        plan_free(&plan);
    }
    return bad;
}

/* One copy after the other, nothing at once: the clock itself must add up. */
static int serial(void)
{
    const struct row row = {.m = 512, .n = 512, .k = 512};
    const struct tb_call call = call_of(&row);
    struct tb_plan plan;
    const struct clock_machine slow = {
        .link_in = 1, .link_out = 1, .stage = 1e9, .copiers = 1, .kernel = 1};
    if (!plan_of(&row, &plan))
        return 1;
    const double flops = call_flops(&call);
    const struct clock_call one = {.plan = &plan, .flops = flops};
    const struct clock_times t = clock_run(&one, 1, &slow, NULL);
    const double sum = plan.bytes_in + plan.bytes_out + flops;
    plan_free(&plan);
    if (t.total > 0.999 * sum && t.total < 1.001 * sum)
        return 0;
    fprintf(stderr, "a product without overlap takes %g, not %g\n", t.total, sum);
    return 1;
}

/* The order that is chosen for a device is the better one where that matters: less than a twentieth
 * is not gained on a real one. */
static int choice(void)
{
    int bad = 0;
    for (int64_t side = 4096; side <= 16384; side *= 2) {
        struct row row = {.m = side, .n = side, .k = side};
        double total[3];
        for (row.order = 0; row.order < 3; row.order++) {
            struct tb_plan plan;
            const struct tb_call call = call_of(&row);
            const double flops = call_flops(&call);
            struct clock_machine machine = host;
            machine.kernel = 52e3; /* the built-in rate */
            if (!plan_of(&row, &plan))
                return 1;
            const struct clock_call one = {.plan = &plan, .flops = flops};
            total[row.order] = clock_run(&one, 1, &machine, NULL).total;
            plan_free(&plan);
        }
        const double best = total[1] < total[2] ? total[1] : total[2];
        if (total[0] > 1.05 * best) {
            fprintf(stderr, "side %lld: the order chosen takes %.2f ms, another %.2f\n",
                    (long long)side, total[0] * 1e-6, best * 1e-6);
            bad++;
        }
    }
    return bad;
}

/* The longest that one product of a plan takes. */
static double longest_step(const struct tb_plan *plan, const struct clock_machine *machine)
{
    double longest = 0;
    for (int32_t i = 0; i < plan->count; i++) {
        const struct tb_step *step = plan_step(plan, i);
        const double flops =
            2 * (double)step->range.rows * (double)step->range.cols * (double)step->k;
        if (step->kind == TB_COMPUTE && flops / machine->kernel > longest)
            longest = flops / machine->kernel;
    }
    return longest;
}

/* A short call that comes at any time while a long one is under way waits at most for one product
 * of a tile, and for what is on its way over the link as each of its own pieces is sent. */
static int beside_a_long_one(const struct row *row, double ratio, bool print)
{
    enum { MOMENTS = 30 };
    const struct row shorter = {.m = 512, .n = 512, .k = 512};
    const struct tb_call long_call = call_of(row), short_call = call_of(&shorter);
    struct clock_machine machine = host;
    struct tb_plan plan[2];
    double finish[2], worst = 0;
    if (!plan_of(row, &plan[0]) || !plan_of(&shorter, &plan[1]))
        return 1;
    machine.kernel = call_flops(&long_call) / (ratio * plan[0].bytes_in / host.link_in);
    struct clock_call calls[2] = {
        {.plan = &plan[1], .flops = call_flops(&short_call), .brief = true}};
    const double alone = clock_run(calls, 1, &machine, NULL).total;
    calls[1] = calls[0];
    calls[0] = (struct clock_call){.plan = &plan[0], .flops = call_flops(&long_call)};
    const double total = clock_run(calls, 1, &machine, NULL).total;
    for (int i = 0; i < MOMENTS; i++) {
        calls[1].start = total * i / MOMENTS;
        clock_run(calls, 2, &machine, finish);
        const double took = finish[1] - calls[1].start;
        worst = took > worst ? took : worst;
    }
    const double step = longest_step(&plan[0], &machine);
    if (print)
        printf("512 beside %lld, memory %g, ratio %g: %.2f ms, %.2f alone; a product of a tile "
               "%.2f, the long one %.0f\n",
               (long long)row->m, row->memory, ratio, worst * 1e-6, alone * 1e-6, step * 1e-6,
               total * 1e-6);
    plan_free(&plan[0]);
    plan_free(&plan[1]);
    if (worst <= step + 10 * alone)
        return 0;
    fprintf(stderr, "512 beside %lld, memory %g, ratio %g: %.2f ms, alone %.2f, a tile %.2f\n",
            (long long)row->m, row->memory, ratio, worst * 1e-6, alone * 1e-6, step * 1e-6);
    return 1;
}

static int short_calls(bool print)
{
    static const struct row longs[] = {
        {.m = 16384, .n = 16384, .k = 16384, .order = 1},
        {.m = 16384, .n = 16384, .k = 16384, .order = 2},
        {.m = 16384, .n = 16384, .k = 16384, .memory = 0.1},
        {.m = 8192, .n = 8192, .k = 8192, .beta = 1, .memory = 0.25},
        {.m = 8192, .n = 8192, .k = 8192},
    };
    int bad = 0;
    for (size_t i = 0; i < sizeof longs / sizeof *longs; i++)
        for (int r = 0; r < RATIOS; r += 2)
            bad += beside_a_long_one(&longs[i], ratios[r], print);
    return bad;
}

/* Calls of one size that start together end together: nobody has more than its share. */
static int equals(void)
{
    enum { CALLS = 8 };
    const struct row row = {.m = 2048, .n = 2048, .k = 2048};
    const struct tb_call call = call_of(&row);
    struct clock_machine machine = host;
    struct clock_call calls[CALLS];
    struct tb_plan plan;
    double finish[CALLS], first = 1e300, last = 0;
    machine.kernel = 22e3;
    if (!plan_of(&row, &plan))
        return 1;
    for (int i = 0; i < CALLS; i++)
        calls[i] = (struct clock_call){.plan = &plan, .flops = call_flops(&call)};
    clock_run(calls, CALLS, &machine, finish);
    for (int i = 0; i < CALLS; i++) {
        first = finish[i] < first ? finish[i] : first;
        last = finish[i] > last ? finish[i] : last;
    }
    plan_free(&plan);
    if (first >= 0.7 * last)
        return 0;
    fprintf(stderr, "of %d equal calls the first ends after %.2f ms, the last after %.2f\n", CALLS,
            first * 1e-6, last * 1e-6);
    return 1;
}

int main(int argc, char **argv)
{
    (void)argv;
    return rows_check(argc > 1) + serial() + choice() + short_calls(argc > 1) + equals() != 0;
}
