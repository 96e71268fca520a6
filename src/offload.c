/* SPDX-License-Identifier: BSD-3-Clause
 * The device side of a call. No device path is built in yet: every call stays on the CPU. */
#include "offload.h"
#include "conf.h"

struct tb_choice offload_choose(const struct tb_call *call, int (*cpu_threads)(void))
{
    struct tb_facts facts = {.device = TB_DEVICE_ABSENT,
                             .has_kernel = call->op == TB_GEMM || call->op == TB_GEMM3M,
                             .cpu_threads = cpu_threads()};
    route_default_rates(NULL, &facts.rates);
    return route_choose(call, &facts, conf_get());
}

void offload_run(const struct tb_call *call, struct tb_offload *out)
{
    (void)call;
    *out = (struct tb_offload){.started = false, .reason = TB_WHY_NO_DEVICE};
}

void offload_done(struct tb_offload *out)
{
    (void)out;
}
