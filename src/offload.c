/* SPDX-License-Identifier: BSD-3-Clause
 * The device side of a call: facts for the router, then device start, plan,
 * execution. Every way in which that can fail becomes a reason and leaves the
 * rest of the call to the caller. */
#include "offload.h"
#include "conf.h"
#include "device.h"
#include "kernel.h"
#include "log.h"
#include "place.h"
#include <stdio.h>
#include "pool.h"

/* A caller may hold the loader's lock, which the start needs too: never wait
 * without end. */
static const int64_t start_wait_ns = INT64_C(5000000000), forced_wait_ns = INT64_C(60000000000);

static bool has_kernel(const struct tb_call *call, const struct tb_caps *caps)
{
    struct tb_call product = *call;
    call_as_product(&product);
    switch (call->op) {
    case TB_GEMM:
    case TB_GEMM3M:
    case TB_GEMMT:
    case TB_SYRK:
    case TB_HERK:
    case TB_SYR2K:
    case TB_HER2K:
        return caps == NULL ||
               kernel_choose(caps, call->ab, call->c_type, product.ta != 'N', product.tb != 'N',
                             call->m, call->n, call->k, call->batch) >= 0;
    case TB_SYMM:
    case TB_HEMM:
    case TB_TRMM:
    case TB_TRSM:
        return caps == NULL || kernel_triangle(caps, call->ab, false) >= 0;
    case TB_OPS:
        break;
    }
    return false;
}

struct tb_choice offload_choose(const struct tb_call *call, int (*cpu_threads)(void))
{
    const struct tb_conf *const conf = conf_get();
    const struct tb_caps *const caps = device_caps();
    struct tb_facts facts = {.device = device_state(), .has_kernel = has_kernel(call, caps)};
    for (int i = 0; i < TB_OPERANDS; i++) {
        facts.far = facts.far || call->where[i] == TB_DEVICE_FAR;
        facts.on_device = facts.on_device || call->where[i] == TB_DEVICE;
    }
    if (conf->route == TB_ROUTE_AUTO && facts.has_kernel) {
        facts.cpu_threads = cpu_threads();
        route_default_rates(caps, &facts.rates);
    }
    const struct tb_choice choice = route_choose(call, &facts, conf);
    if (choice.reason == TB_WHY_STARTING)
        device_start(0);
    return choice;
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

void offload_run(const struct tb_call *asked, struct tb_offload *out)
{
    struct tb_call here = *asked;
    const struct tb_call *const call = &here;
    const struct tb_conf *const conf = conf_get();
    const bool patient = conf->route == TB_ROUTE_GPU || conf->start == TB_START_WAIT;
    const enum tb_device_state state_before = device_state();
    const enum tb_device_state state = device_start(patient ? forced_wait_ns : start_wait_ns);
    const struct tb_caps *const caps = device_caps();
    *out = (struct tb_offload){.reason = reason_of_state(state)};
    if (state != TB_DEVICE_READY || caps == NULL)
        return;
    if (state_before != TB_DEVICE_READY)
        place_find(&here); /* only now is it known which device is ours */
    if (is_far(call)) {
        out->reason = TB_WHY_OPERANDS;
        return;
    }
    enum tb_status status = plan_build(call, caps, room_for(caps), &out->plan);
    if (status != TB_OK) {
        out->reason = reason_of_status(status);
        return;
    }
    struct tb_exec_stats stats = {0};
    status = exec_run(call, &out->plan, &out->undone, &stats);
    if (is_fault(status))
        device_fault(status, call->name, exec_broken());
    if (status != TB_OK)
        log_line(3, "%s: %s", call->name, tb_status_text(status));
    out->hung = status == TB_TIMEOUT || status == TB_DEVICE_OFF;
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
