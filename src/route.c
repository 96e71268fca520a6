/* SPDX-License-Identifier: BSD-3-Clause
 * The router: estimates both sides of a call and chooses. Pure. The built-in rates are those of the
 * H200 and of one core of the host they were measured on (perf/), scaled to the device at hand. */
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

/* The device wins only by a clear margin: estimates are rough and the CPU is never a surprise. */
static const double margin = 1.25;

void route_default_rates(const struct tb_caps *caps, struct tb_rates *out)
{
    /* The link and the fixed cost are those of whole calls from 1024 to 4096, staged by 12 copiers.
     * Flop per ns. The CPU figures are one AVX-512 core's; complex types run at their real type's
     * rate. */
    *out = (struct tb_rates){
        .link_in = 25,
        .link_out = 25,
        .fixed_ns = 300e3,
        .gpu = {[TB_F16] = 30e3,
                [TB_BF16] = 30e3,
                [TB_F32] = 40e3,
                [TB_F64] = 44e3,
                [TB_C32] = 40e3,
                [TB_C64] = 44e3},
        .cpu = {[TB_F16] = 60,
                [TB_BF16] = 60,
                [TB_F32] = 85,
                [TB_F64] = 42,
                [TB_C32] = 85,
                [TB_C64] = 42},
        .start_ns = 0.4e9,
    };
    if (caps == NULL || caps->sms <= 0)
        return;
    const double size =
        (double)caps->sms / 132 * (caps->clock_mhz > 0 ? caps->clock_mhz / 1980.0 : 1);
    /* The FP64 tensor cores of Hopper are twice as fast as its plain units; others gain nothing. */
    const double cores = caps->cc == 90 || caps->cc == 0 ? 1 : 0.5;
    const double fp64 = cores * (caps->fp64_ratio > 0 ? 2.0 / caps->fp64_ratio : 1);
    for (int t = 0; t < TB_TYPES; t++)
        out->gpu[t] *= size * (t == TB_F64 || t == TB_C64 ? fp64 : 1);
}

/* Small sides starve either kind of machine; x / (x + half) is the usual shape of that curve. */
static double fill(double side, double half)
{
    return side / (side + half);
}

static double smallest_side(const struct tb_call *c)
{
    const bool no_k = c->op == TB_SYMM || c->op == TB_HEMM || c->op == TB_TRMM || c->op == TB_TRSM;
    const double mn = (double)(c->m < c->n ? c->m : c->n);
    return no_k || mn < (double)c->k ? mn : (double)c->k;
}

static double cpu_ns(const struct tb_call *call, const struct tb_facts *facts)
{
    const double flops = call_flops(call);
    const double side = smallest_side(call);
    /* Threads help only as far as there is work for each. */
    const double useful = lesser(facts->cpu_threads, 1 + flops / 4e6);
    const double rate = facts->rates.cpu[call->ab] * fill(side, 12) * useful * 0.85;
    return flops / rate + 100 * (double)call->batch;
}

static double gpu_ns(const struct tb_call *call, const struct tb_facts *facts)
{
    const struct tb_rates *const r = &facts->rates;
    const double compute = call_flops(call) / (r->gpu[call->ab] * fill(smallest_side(call), 64));
    const double in = call_bytes_in(call) / r->link_in;
    const double out = call_bytes_out(call) / r->link_out;
    /* A first and a last piece overlap with nothing: an eighth of the smaller phases. */
    const double longest = greater(compute, greater(in, out));
    return r->fixed_ns + longest + (compute + in + out - longest) / 8;
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
    choice.est_cpu_ns = cpu_ns(call, facts);
    choice.est_gpu_ns = gpu_ns(call, facts);
    if (choice.est_gpu_ns * margin >= choice.est_cpu_ns)
        return on_cpu(choice, TB_WHY_FASTER);
    choice.reason = TB_WHY_FASTER;
    choice.where = TB_ON_GPU;
    if (facts->device != TB_DEVICE_READY && conf->start != TB_START_WAIT &&
        choice.est_cpu_ns < facts->rates.start_ns + choice.est_gpu_ns)
        return on_cpu(choice, TB_WHY_STARTING);
    return choice;
}

bool route_is_final(enum tb_reason reason)
{
    return reason == TB_WHY_NO_DEVICE || reason == TB_WHY_DEVICE_OFF || reason == TB_WHY_FORKED;
}

double route_small_volume(const struct tb_conf *conf)
{
    if (conf->verbose > 0 || conf->route == TB_ROUTE_GPU)
        return 0;
    if (conf->route == TB_ROUTE_CPU)
        return HUGE_VAL;
    /* 160^3: under it one CPU core needs less than the fixed cost of any offload. */
    return 160.0 * 160.0 * 160.0;
}
