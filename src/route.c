/* SPDX-License-Identifier: BSD-3-Clause
 * The router: estimates both sides of a call from the profile of the machine and chooses. Pure. The
 * CPU: its rate at the shape, between those that were measured. The device: the longest of link in,
 * compute and link out, and a part of the rest. */
#include "route.h"
#include <math.h> /* HUGE_VAL; nothing that needs libm */

const char *route_reason_text(enum tb_reason reason)
{
    static const char *const text[TB_REASONS] = {
#define TB_REASON_TEXT(NAME, TEXT) [NAME] = TEXT,
        TB_REASON_LIST(TB_REASON_TEXT)
#undef TB_REASON_TEXT
    };
    return text[reason];
}

static double lesser(double x, double y)
{
    return x < y ? x : y;
}

static double greater(double x, double y)
{
    return x > y ? x : y;
}

/* Where the machine was not measured the device wins only by a margin: the CPU is never a surprise.
 */
static double margin_of(const struct tb_profile *profile)
{
    return profile->source == TB_PROFILE_SAVED ? 1 : 1.05;
}

/* --- The CPU ---
 */

/* The dimensions of the product behind the call. */
static struct tb_size size_of(const struct tb_call *c)
{
    switch (c->op) {
    case TB_SYMM:
    case TB_HEMM:
    case TB_TRMM:
    case TB_TRSM:
        return (struct tb_size){c->m, c->n, c->side == 'R' ? c->n : c->m};
    case TB_SYRK:
    case TB_HERK:
    case TB_SYR2K:
    case TB_HER2K:
    case TB_GEMMT:
        return (struct tb_size){c->n, c->n, c->k};
    default:
        return (struct tb_size){c->m, c->n, c->k};
    }
}

/* CPU libraries give a thread at least about this many products. */
static const double products_a_thread = 0x1p18;

/* A short side starves the CPU: the rate is x / (x + half) of the best, 1 at the side of the square
 * that was measured. `half` from the rate at a short side; see fill(). */
static double half_of(double ratio, double side, double full)
{
    if (ratio >= 1)
        return 0;
    const double least = side / full * 1.02;
    const double r = greater(ratio, least);
    return side * full * (1 - r) / (full * r - side);
}

static double fill(double x, double half, double full)
{
    return lesser(1, x * (full + half) / (full * (x + half)));
}

/* Rates between one thread and all, by threads. */
static double rate_of(const struct tb_profile *p, enum tb_type type, double threads,
                      enum tb_shape shape)
{
    const double alone = p->cpu_rate[type][TB_ALONE][shape];
    const double together = p->cpu_rate[type][TB_TOGETHER][shape];
    if (p->cpus <= 1 || threads <= 1)
        return alone;
    const double share = (lesser(threads, p->cpus) - 1) / (p->cpus - 1);
    return alone + (together - alone) * share;
}

static double useful_threads(const struct tb_size *x, double threads)
{
    const double products = (double)x->m * (double)x->n * (double)x->k;
    return lesser(threads, greater(1, (double)(int64_t)lesser(products / products_a_thread, 1e6)));
}

/* The halves of the three sides for a crew. */
struct halves {
    double best, m, n, k;
};

static struct halves halves_of(const struct tb_profile *p, enum tb_type type, double threads)
{
    const double full = (double)profile_shape[TB_SQUARE].m;
    const double best = rate_of(p, type, threads, TB_SQUARE);
    return (struct halves){.best = best,
                           .m = half_of(rate_of(p, type, threads, TB_THIN_M) / best,
                                        (double)profile_shape[TB_THIN_M].m, full),
                           .n = half_of(rate_of(p, type, threads, TB_THIN_N) / best,
                                        (double)profile_shape[TB_THIN_N].n, full),
                           .k = half_of(rate_of(p, type, threads, TB_THIN_K) / best,
                                        (double)profile_shape[TB_THIN_K].k, full)};
}

/* The shortest side binds; the others starve the CPU no further, as memory does. */
static double rate_by_sides(const struct halves *h, const struct tb_size *x)
{
    const double full = (double)profile_shape[TB_SQUARE].m;
    const double m = fill((double)x->m, h->m, full), n = fill((double)x->n, h->n, full);
    const double k = fill((double)x->k, h->k, full);
    return h->best * lesser(m, lesser(n, k));
}

/* 1 up to a side, falling to a half `reach` sides behind it. */
static double near(int64_t x, int64_t side, int reach)
{
    return lesser(1, (reach + 1) * (double)side / ((double)x + reach * (double)side));
}

/* The rate at which one product of that shape is computed. The sides together are not the product
 * of each: the two shapes at which that shows most correct it in their neighbourhood. */
static double shape_rate(const struct tb_profile *p, enum tb_type type, const struct tb_size *x,
                         double all, double *crew_ns)
{
    const double threads = useful_threads(x, all);
    const struct tb_size *const dot = &profile_shape[TB_THIN_MN];
    const struct tb_size *const little = &profile_shape[TB_LITTLE];
    const struct halves h = halves_of(p, type, threads);
    const double deep = rate_of(p, type, threads, TB_THIN_MN) / rate_by_sides(&h, dot);
    const double closeness = near(x->m, dot->m, 6) * near(x->n, dot->n, 6) * (double)x->k /
                             (double)(x->k + (x->m > x->n ? x->m : x->n));
    const struct halves few = halves_of(p, type, useful_threads(little, all));
    const double by_sides = rate_by_sides(&few, little);
    const double seen = rate_of(p, type, all, TB_LITTLE);
    const double flops =
        (call_is_complex(type) ? 8 : 2) * (double)little->m * (double)little->n * (double)little->k;
    double rate = rate_by_sides(&h, x) * (1 + (deep - 1) * closeness);
    /* Slower than by its sides: what threads cost. Faster: short sides cost less together. */
    *crew_ns = seen < by_sides ? flops / seen - flops / by_sides : 0;
    if (seen > by_sides)
        rate *= 1 + (seen / by_sides - 1) * near(x->m, little->m, 1) * near(x->n, little->n, 1) *
                        near(x->k, little->k, 1);
    return rate;
}

/* Threads gain less in the other routines than in a product: how many times longer those need for
 * as many operations with all the threads. Of OpenBLAS; the least that was seen (perf/NOTES.md). */
static double crew_slowness(const struct tb_call *call, const struct tb_profile *p, double threads)
{
    static const double all[TB_OPS] = {[TB_SYRK] = 1.1,   [TB_HERK] = 1.1, [TB_SYR2K] = 1.25,
                                       [TB_HER2K] = 1.25, [TB_TRMM] = 1.2, [TB_TRSM] = 1.3};
    if (all[call->op] < 1 || p->cpus <= 1)
        return 1;
    return 1 + (all[call->op] - 1) * (lesser(threads, p->cpus) - 1) / (p->cpus - 1);
}

double route_cpu_ns(const struct tb_call *call, const struct tb_facts *facts)
{
    const struct tb_profile *const p = facts->profile;
    const struct tb_size x = size_of(call);
    const double threads = greater(facts->cpu_threads, 1);
    double crew_ns;
    const double rate = shape_rate(p, call->ab, &x, threads, &crew_ns);
    return call_flops(call) / rate * crew_slowness(call, p, threads) +
           (100 + crew_ns) * (double)call->batch;
}

/* --- The device ---
 */

/* Bytes of pageable memory, one way, with enough copiers: between the sizes that were measured, and
 * as the last two go beyond. */
static double staged_ns(const double ns[TB_STAGED], double bytes)
{
    const double mb = bytes * 1e-6;
    int i = 0;
    while (i < TB_STAGED - 1 && mb > profile_staged_mb[i])
        i++;
    const double from = i > 0 ? profile_staged_mb[i - 1] : 0, from_ns = i > 0 ? ns[i - 1] : 0;
    const double slope = greater(ns[i] - from_ns, 0) / (profile_staged_mb[i] - from);
    return from_ns + (mb - from) * slope;
}

/* Bytes over one direction of the link. Memory that is not pinned is copied on the way, and few
 * copiers carry little. */
static double link_ns(const struct tb_profile *p, bool in, double bytes, double copiers,
                      bool pinned)
{
    const struct tb_link *const link = in ? &p->in : &p->out;
    if (bytes <= 0)
        return 0;
    const double bare = link->wait_ns + bytes / link->rate;
    if (pinned)
        return bare;
    const double carried = bytes / (greater(copiers, 1) * p->copier);
    return greater(greater(bare, carried), staged_ns(in ? p->staged_in : p->staged_out, bytes));
}

static bool all_pinned(const struct tb_call *call)
{
    return call->where[0] != TB_HOST_PAGEABLE && call->where[1] != TB_HOST_PAGEABLE &&
           call->where[2] != TB_HOST_PAGEABLE;
}

/* The share of the shorter phases that shows beside the longest one. All of it where C is one tile
 * of the plan, which has to be sent, computed and fetched in turn; little where there are many. */
static double shown(const struct tb_call *call, const struct tb_size *x)
{
    const double tile = x->m > 8192 || x->n > 8192 ? 2048 : 1024, least = 0.3;
    const double tiles = (double)x->m * (double)x->n * (double)call->batch / (tile * tile);
    return tiles > 1 ? least + (1 - least) / tiles : 1;
}

/* trmm and trsm go through their triangle block by block, each of which needs those before it: that
 * takes its time however little there is beside the triangle. Measured on an H200 (perf/NOTES.md).
 */
static double chain_ns(const struct tb_call *call)
{
    static const double row_ns[TB_TYPES] = {
        [TB_F32] = 420, [TB_F64] = 550, [TB_C32] = 600, [TB_C64] = 700};
    if (call->op != TB_TRMM && call->op != TB_TRSM)
        return 0;
    return row_ns[call->ab] * (double)(call->side == 'R' ? call->n : call->m);
}

double route_gpu_ns(const struct tb_call *call, const struct tb_facts *facts)
{
    const struct tb_profile *const p = facts->profile;
    const struct tb_size x = size_of(call);
    const double shortest = (double)(x.m < x.n ? (x.m < x.k ? x.m : x.k) : x.n < x.k ? x.n : x.k);
    const double share = facts->efficiency > 0 ? facts->efficiency : shortest / (shortest + 64);
    const double compute = call_flops(call) / (p->gpu_rate[call->ab] * share);
    const bool pinned = all_pinned(call);
    const double in = link_ns(p, true, call_bytes_in(call), facts->copiers, pinned);
    const double out = link_ns(p, false, call_bytes_out(call), facts->copiers, pinned);
    const double longest = greater(compute, greater(in, out));
    return p->offload_ns + chain_ns(call) + longest +
           (compute + in + out - longest) * shown(call, &x);
}

/* Calls share the device evenly: each of those ahead holds this one up by no more than the two of
 * them would take together. */
static double wait_ns(const struct tb_facts *facts, double own_ns)
{
    const double work = greater(own_ns - facts->profile->offload_ns, 0);
    return lesser(facts->queue_ns, work * facts->queued);
}

/* What is left of the start, at least a tenth of it; one that is overdue is taken to need as long
 * again, so that ever fewer calls wait for it. */
static double start_left(const struct tb_facts *facts)
{
    const double all = facts->profile->start_ns;
    return greater(fabs(all - facts->starting_ns), all / 10);
}

/* How many times longer a call takes beside those that have the CPUs already. */
static double crowd(const struct tb_facts *facts)
{
    const double wanted = (facts->on_cpu + 1.0) * facts->cpu_threads;
    return greater(1, wanted / greater(facts->profile->cpus, facts->cpu_threads));
}

static struct tb_choice on_cpu(struct tb_choice choice, enum tb_reason why)
{
    choice.where = TB_ON_CPU;
    choice.reason = why;
    return choice;
}

struct tb_choice route_choose(const struct tb_call *call, const struct tb_facts *facts,
                              const struct tb_conf *conf)
{
    struct tb_choice choice = {TB_ON_CPU, TB_WHY_FORCED, 0, 0};
    if (conf->route == TB_ROUTE_CPU)
        return choice;
    if (!facts->has_kernel)
        return on_cpu(choice, TB_WHY_NO_KERNEL);
    if (facts->far)
        return on_cpu(choice, TB_WHY_OPERANDS);
    switch (facts->device) {
    case TB_DEVICE_ABSENT:
        return on_cpu(choice, TB_WHY_NO_DEVICE);
    case TB_DEVICE_DEAD:
        return on_cpu(choice, TB_WHY_DEVICE_OFF);
    case TB_DEVICE_FORKED:
        return on_cpu(choice, TB_WHY_FORKED);
    case TB_DEVICE_UNTRIED:
    case TB_DEVICE_STARTING:
    case TB_DEVICE_READY:
        break;
    }
    if (conf->route == TB_ROUTE_GPU)
        return (struct tb_choice){TB_ON_GPU, TB_WHY_FORCED, 0, 0};
    if (facts->on_device) /* the CPU would have to copy them, there and back */
        return (struct tb_choice){TB_ON_GPU, TB_WHY_OPERANDS, 0, 0};
    choice.est_cpu_ns = route_cpu_ns(call, facts) * crowd(facts);
    choice.est_gpu_ns = route_gpu_ns(call, facts);
    choice.est_gpu_ns += wait_ns(facts, choice.est_gpu_ns);
    choice.reason = TB_WHY_FASTER;
    if (choice.est_gpu_ns * margin_of(facts->profile) >= choice.est_cpu_ns)
        return choice;
    choice.where = TB_ON_GPU;
    if (facts->device != TB_DEVICE_READY && conf->start != TB_START_WAIT &&
        choice.est_cpu_ns < start_left(facts) + choice.est_gpu_ns)
        return on_cpu(choice, TB_WHY_STARTING);
    return choice;
}

bool route_is_final(enum tb_reason reason)
{
    return reason == TB_WHY_NO_DEVICE || reason == TB_WHY_DEVICE_OFF || reason == TB_WHY_FORKED;
}

double route_small_volume(const struct tb_conf *conf)
{
    const bool traced = conf->trace != NULL && conf->trace[0] != '\0';
    if (conf->verbose > 0 || traced || conf->route == TB_ROUTE_GPU)
        return 0;
    if (conf->route == TB_ROUTE_CPU)
        return HUGE_VAL;
    /* 128^3: under it one CPU core needs less than the fixed cost of any offload, but for complex
     * double precision, and those calls are short. */
    return 128.0 * 128.0 * 128.0;
}
