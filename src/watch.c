/* SPDX-License-Identifier: BSD-3-Clause
 * Which calls are checked, and what has to be kept for that. What counts as right is decided in
 * verify.c; what follows from a wrong result in run.c, which calls this. */
#include "watch.h"

#include <stdatomic.h>
#include <stdlib.h>
#include "conf.h"
#include "place.h"
#include "trace.h"
#include "verify.h"

/* Is C read? trmm and trsm overwrite what they start from: without it their result could neither be
 * checked nor, were it wrong, be computed again. */
static bool reads_c(const struct tb_call *call)
{
    return call->op == TB_TRMM || call->op == TB_TRSM ||
           !scalar_is_zero(call->beta_type, &call->beta);
}

struct tb_watch watch_open(const struct tb_call *call)
{
    static _Atomic uint64_t calls;
    struct tb_watch watch = {.on = conf_get()->verify > 0};
    if (!watch.on)
        return watch;
    watch.number = atomic_fetch_add(&calls, 1);
    watch.on = verify_wanted(conf_get()->verify, watch.number);
    if (watch.on && reads_c(call)) {
        place_await(call); /* the processor reads managed memory, as the program's work left it */
        watch.old = place_save(call);
        watch.on = watch.old != NULL;
    }
    return watch;
}

static const void *old_of(const struct tb_watch *watch, const struct tb_call *call, int64_t item)
{
    const size_t bytes = (size_t)call->m * (size_t)call->n * call_elem_bytes(call->c_type);
    return watch->old ? (const char *)watch->old + (size_t)item * bytes : NULL;
}

bool watch_right(const struct tb_call *call, const struct tb_watch *watch)
{
    const bool reduced = conf_get()->math == TB_MATH_TF32;
    const int64_t start = watch->on ? trace_start() : 0;
    bool right = true;
    for (int64_t i = 0; watch->on && right && i < call->batch; i++) {
        struct tb_place place;
        if (!place_open(call, i, true, &place))
            break; /* nothing known against it */
        right = verify_result(&place.call, old_of(watch, call, i), reduced,
                              watch->number + (uint64_t)i);
        place_drop(&place);
    }
    trace_span(start, "caller", "check", NULL);
    return right;
}

void watch_close(struct tb_watch *watch)
{
    free(watch->old);
    watch->old = NULL;
}
