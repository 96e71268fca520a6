/* SPDX-License-Identifier: BSD-3-Clause
 * What the lanes of a call did when, for the timeline: events around each operation, read when the
 * call is over, so that nothing is asked of the device meanwhile that it would not do anyway.
 * Called by exec.c, on the service thread of the call. */
#ifndef TB_SPANS_H
#define TB_SPANS_H

#include "dev.h"
#include "trace.h"

struct tb_span;

struct tb_spans {
    struct tb_event *base; /* NULL: nothing is traced */
    int64_t base_ns;       /* when it was */
    struct tb_span *last;
};

/* Begins the timeline of a call; `lane` is idle. */
void spans_open(struct tb_spans *spans, struct tb_lane *lane);
/* Before an operation of a lane, and behind it. Nothing depends on it: where it fails the span is
 * lost, and the operation tells. `name` is not copied. */
struct tb_span *spans_begin(struct tb_spans *spans, struct tb_lane *lane, enum trace_track track,
                            int number, const char *name, size_t bytes);
void spans_end(struct tb_span *span, struct tb_lane *lane);
/* The operations are over (those that are not are left out): writes their spans, lets go. */
void spans_close(struct tb_spans *spans);
/* The device does not answer: forgets them, and asks it for nothing. */
void spans_drop(struct tb_spans *spans);

#endif
