/* SPDX-License-Identifier: BSD-3-Clause
 * The CPU side of calls that cannot simply be forwarded. Decides nothing about where a call goes;
 * called by run.c with the guard against re-entry set. */
#include "oncpu.h"

#include "../fallback/fallback.h"
#include "log.h"
#include "place.h"

void cpu_lost(const struct tb_call *call)
{
    log_line(1,
             "%s: C is not computed: its operands are on a device that does not answer or broke "
             "off, or there is no memory to copy them to",
             call->name);
}

void cpu_rect(const struct tb_call *call, const struct tb_rect *rect, bool copies)
{
    struct tb_place place;
    struct tb_rect alone = *rect;
    if (copies) {
        alone.item = 0;
        if (!place_open(call, rect->item, false, &place)) {
            cpu_lost(call);
            return;
        }
    }
    if (!fallback_rect(copies ? &place.call : call, &alone))
        fallback_missing(call->name); /* no CPU BLAS to finish with; does not return */
    if (copies && !place_close(&place, &alone))
        cpu_lost(call);
}

static bool item_on_cpu(const struct tb_call *call, int64_t item, bool *found)
{
    struct tb_place place;
    if (!place_open(call, item, false, &place))
        return false;
    *found = fallback_call(&place.call);
    if (*found)
        return place_close(&place, NULL);
    place_drop(&place);
    return false;
}

bool cpu_copies(const struct tb_call *call, const void *old, bool *found)
{
    bool done = true;
    *found = true;
    for (int64_t i = 0; done && i < call->batch; i++)
        done = (!old || place_restore(call, i, old)) && item_on_cpu(call, i, found);
    return done;
}

void cpu_own(const struct tb_call *call)
{
    if (!fallback_call(call))
        fallback_missing(call->name); /* does not return */
}
