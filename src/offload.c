/* SPDX-License-Identifier: BSD-3-Clause
 * The device side of a call: facts for the router, then device start, plan,
 * execution. Every way in which that can fail becomes a reason and leaves the
 * rest of the call to the caller. */
#include "offload.h"
#include "calibrate.h"
#include "conf.h"
#include "device.h"
#include "explain.h"
#include "kernel.h"
#include "log.h"
#include "place.h"
#include "pool.h"
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

/* A caller may hold the loader's lock, which the start needs too: never wait
 * without end. */
static const int64_t forced_wait_ns = INT64_C(60000000000);
static const int64_t start_least_ns = INT64_C(1000000000), start_most_ns = INT64_C(5000000000);

/* Large calls that the CPU computes, of process `on_cpu_of`: a child has none of its parent's. */
static _Atomic int on_cpu;
static _Atomic pid_t on_cpu_of;
/* The device was waited for as long as anybody may, in vain: no call waits so long again. */
static _Atomic bool waited_in_vain;

static void on_cpu_own(void)
{
    const pid_t self = getpid();
    if (atomic_exchange_explicit(&on_cpu_of, self, memory_order_relaxed) != self)
        atomic_store_explicit(&on_cpu, 0, memory_order_relaxed);
}

/* The products that a routine is made of: of what shape they are, and with a triangle on one side
 * whether there is a kernel for the small ones on its diagonal. */
static double efficiency_of(const struct tb_call *call, const struct tb_caps *caps)
{
    struct tb_call product = *call;
    call_as_product(&product);
    int64_t m = call->m, n = call->n, k = call->k, beside = call->batch;
    if (call->op == TB_SYMM || call->op == TB_HEMM || call->op == TB_TRMM || call->op == TB_TRSM) {
        if (kernel_triangle(caps, call->ab, false) < 0 || kernel_triangle(caps, call->ab, true) < 0)
            return 0;
        product.ta = product.tb = 'N';
        plan_strips_piece(call, &m, &n, &k, &beside);
    }
    return kernel_efficiency(caps, call->ab, call->c_type, product.ta != 'N', product.tb != 'N', m,
                             n, k, beside);
}

static void find_kernel(const struct tb_call *call, const struct tb_caps *caps,
                        struct tb_facts *facts)
{
    facts->has_kernel = call->op < TB_OPS;
    if (caps == NULL)
        return;
    facts->efficiency = efficiency_of(call, caps);
    facts->has_kernel = facts->efficiency > 0;
}

static void find_rates(const struct tb_cpu_side *cpu, const struct tb_conf *conf,
                       struct tb_facts *facts)
{
    calibrate_cpu(cpu->name, pool_cpus);
    facts->profile = calibrate_get();
    const int cpus = facts->profile->cpus, threads = cpu->threads();
    facts->cpu_threads = threads < cpus ? threads : cpus;
    facts->copiers = pool_copiers(calibrate_cpus);
    if (facts->device == TB_DEVICE_STARTING)
        facts->starting_ns = (double)device_starting_ns();
    /* What others do at the moment is no part of a choice that is to be the same in every run. */
    if (conf->start != TB_START_WAIT) {
        on_cpu_own();
        facts->queue_ns = exec_ahead_ns(&facts->queued);
        facts->on_cpu = atomic_load_explicit(&on_cpu, memory_order_relaxed);
    }
}

static enum tb_device_state start_patiently(int64_t wait_ns)
{
    const bool long_wait = wait_ns == forced_wait_ns;
    if (long_wait && atomic_load_explicit(&waited_in_vain, memory_order_relaxed))
        wait_ns = 0;
    const enum tb_device_state state = device_start(wait_ns);
    if (long_wait && (state == TB_DEVICE_UNTRIED || state == TB_DEVICE_STARTING))
        atomic_store_explicit(&waited_in_vain, true, memory_order_relaxed);
    return state;
}

/* Everything waits for the device where that is asked for, so that no choice is made without it. */
static bool start_first(const struct tb_cpu_side *cpu, const struct tb_conf *conf)
{
    const enum tb_device_state state = device_state();
    if (conf->route != TB_ROUTE_AUTO || conf->start != TB_START_WAIT ||
        (state != TB_DEVICE_UNTRIED && state != TB_DEVICE_STARTING))
        return false;
    calibrate_cpu(cpu->name, pool_cpus);
    return start_patiently(forced_wait_ns) == TB_DEVICE_READY;
}

static struct tb_choice choose_now(const struct tb_call *call, const struct tb_cpu_side *cpu,
                                   const struct tb_conf *conf, struct tb_facts *facts)
{
    *facts = (struct tb_facts){0};
    find_kernel(call, device_caps(), facts);
    if (facts->has_kernel && start_first(cpu, conf))
        find_kernel(call, device_caps(), facts);
    facts->device = device_state();
    for (int i = 0; i < TB_OPERANDS; i++) {
        facts->far = facts->far || call->where[i] == TB_DEVICE_FAR;
        facts->on_device = facts->on_device || call->where[i] == TB_DEVICE;
    }
    if (conf->route == TB_ROUTE_AUTO && facts->has_kernel)
        find_rates(cpu, conf, facts);
    return route_choose(call, facts, conf);
}

struct tb_choice offload_choose(const struct tb_call *call, const struct tb_cpu_side *cpu)
{
    struct tb_facts facts;
    const struct tb_choice choice = choose_now(call, cpu, conf_get(), &facts);
    /* The start takes most of a CPU for a while: beside a call that has all of them it would take
     * one of them from it, and so make it wait. */
    if (choice.reason == TB_WHY_STARTING && facts.cpu_threads < facts.profile->cpus)
        device_start(0);
    return choice;
}

void offload_cpu_begins(const struct tb_choice *choice)
{
    if (choice->est_cpu_ns <= 0)
        return;
    on_cpu_own();
    atomic_fetch_add_explicit(&on_cpu, 1, memory_order_relaxed);
}

void offload_cpu_ended(const struct tb_choice *choice)
{
    if (choice->est_cpu_ns > 0)
        atomic_fetch_sub_explicit(&on_cpu, 1, memory_order_relaxed);
    if (choice->reason == TB_WHY_STARTING)
        device_start(0);
}

static enum tb_reason reason_of_state(enum tb_device_state state)
{
    switch (state) {
    case TB_DEVICE_UNTRIED:
    case TB_DEVICE_STARTING:
    case TB_DEVICE_READY:
        return TB_WHY_STARTING;
    case TB_DEVICE_ABSENT:
        return TB_WHY_NO_DEVICE;
    case TB_DEVICE_DEAD:
        return TB_WHY_DEVICE_OFF;
    case TB_DEVICE_FORKED:
        return TB_WHY_FORKED;
    }
    return TB_WHY_NO_DEVICE;
}

static enum tb_reason reason_of_status(enum tb_status status)
{
    switch (status) {
    case TB_NO_MEMORY:
        return TB_WHY_NO_MEMORY;
    case TB_NO_KERNEL:
    case TB_NO_IMAGE:
        return TB_WHY_NO_KERNEL;
    case TB_BUSY:
    case TB_NO_THREAD: /* a limit of the process, no fault of the device */
        return TB_WHY_BUSY;
    case TB_FORKED:
        return TB_WHY_FORKED;
    default:
        return TB_WHY_FAULT;
    }
}

/* What is a fault of the device, rather than a lack of room or of a kernel. */
static bool is_fault(enum tb_status status)
{
    return status != TB_OK && reason_of_status(status) == TB_WHY_FAULT;
}

/* No call takes all the memory for itself: short ones pass beside a long one that streams. */
static size_t room_for(const struct tb_caps *caps)
{
    const size_t budget = pool_budget(caps);
    return budget - budget / 8;
}

static bool is_far(const struct tb_call *call)
{
    return call->where[TB_A] == TB_DEVICE_FAR || call->where[TB_B] == TB_DEVICE_FAR ||
           call->where[TB_C] == TB_DEVICE_FAR;
}

/* How long the start is worth waiting for: as long as the CPU would take, but at least a second,
 * and no more than five. */
static int64_t start_patience(const struct tb_choice *choice, const struct tb_conf *conf)
{
    if (conf->route == TB_ROUTE_GPU || conf->start == TB_START_WAIT)
        return forced_wait_ns;
    if (choice->est_cpu_ns > (double)start_most_ns || choice->est_cpu_ns <= 0)
        return start_most_ns;
    const int64_t cpu = (int64_t)choice->est_cpu_ns;
    return cpu > start_least_ns ? cpu : start_least_ns;
}

/* The choice was made before anything was known of the device. False: the CPU wins after all. */
static bool still_wins(const struct tb_call *call, const struct tb_cpu_side *cpu,
                       const struct tb_conf *conf, struct tb_offload *out)
{
    struct tb_facts facts;
    if (conf->route != TB_ROUTE_AUTO)
        return true;
    const struct tb_choice choice = choose_now(call, cpu, conf, &facts);
    out->reason = choice.reason;
    return choice.where == TB_ON_GPU;
}

/* Where others took the memory that a kernel wants beside the operands, one without may do: a plain
 * one, or the same in a smaller workspace. */
static enum tb_status plan_and_run(const struct tb_call *call, const struct tb_caps *caps,
                                   struct tb_offload *out, struct tb_exec_stats *stats,
                                   bool *planned)
{
    enum { TRIES = 4 };
    struct tb_caps plain = *caps;
    plain.strict = true;
    size_t room = room_for(caps);
    for (int tries = 0;; tries++) {
        enum tb_status status = plan_build(call, caps, room, &out->plan);
        *planned = status == TB_OK;
        if (status != TB_OK)
            return status;
        out->kernel = kernel_row(out->plan.kernel)->name;
        explain_kernel(caps, out->plan.kernel, &out->plan.chosen_for);
        status = exec_run(call, &out->plan, &out->undone, stats);
        if (status != TB_NO_MEMORY || out->plan.scratch_bytes == 0 || !out->undone.all ||
            out->undone.unsure || caps == &plain || tries == TRIES)
            return status;
        if (kernel_row(out->plan.kernel)->family == TB_X3)
            caps = &plain;
        else
            room = plan_room_without_areas(&out->plan);
        offload_done(out);
    }
}

void offload_run(const struct tb_call *asked, const struct tb_choice *choice,
                 const struct tb_cpu_side *cpu, struct tb_offload *out)
{
    struct tb_call here = *asked;
    const struct tb_call *const call = &here;
    const struct tb_conf *const conf = conf_get();
    const enum tb_device_state state_before = device_state();
    calibrate_cpu(cpu->name, pool_cpus); /* what a saved profile has to fit, before the start */
    const enum tb_device_state state = start_patiently(start_patience(choice, conf));
    const struct tb_caps *const caps = device_caps();
    *out = (struct tb_offload){.reason = reason_of_state(state)};
    if (state != TB_DEVICE_READY || caps == NULL)
        return;
    if (state_before != TB_DEVICE_READY || conf->start == TB_START_WAIT)
        place_find(&here); /* only now is it known which device is ours */
    if (state_before != TB_DEVICE_READY && !still_wins(call, cpu, conf, out))
        return;
    if (is_far(call)) {
        out->reason = TB_WHY_OPERANDS;
        return;
    }
    struct tb_exec_stats stats = {0};
    bool planned = false;
    const enum tb_status status = plan_and_run(call, caps, out, &stats, &planned);
    if (!planned) {
        out->reason = reason_of_status(status);
        return;
    }
    if (is_fault(status))
        device_fault(status, call->name, exec_broken());
    if (status != TB_OK)
        log_line(3, "%s: %s", call->name, tb_status_text(status));
    out->hung = status == TB_TIMEOUT || status == TB_DEVICE_OFF;
    out->unsure = out->undone.unsure;
    out->reason = reason_of_status(status);
    out->bytes_in = stats.bytes_in;
    out->bytes_out = stats.bytes_out;
    out->started = !out->undone.all;
    if (!out->started)
        offload_done(out);
}

void offload_distrust(const struct tb_call *call)
{
    char text[128];
    snprintf(text, sizeof text, "%s: wrong result, found by TILEBLAS_VERIFY", call->name);
    device_fault(TB_DEVICE_FAULT, text, true);
}

bool offload_undone(struct tb_offload *offload, struct tb_rect *rect)
{
    return undone_next(&offload->undone, rect);
}

void offload_done(struct tb_offload *offload)
{
    undone_free(&offload->undone);
    plan_free(&offload->plan);
}
