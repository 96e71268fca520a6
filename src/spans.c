/* SPDX-License-Identifier: BSD-3-Clause
 * Events that tell the time around what lanes do; see spans.h. */
#include "spans.h"

#include <stdlib.h>
#include "log.h"

struct tb_span {
    struct tb_span *before;
    struct tb_event *event[2];
    enum trace_track track;
    int number;
    const char *name;
    int64_t bytes;
};

/* An event behind what the lane has to do. */
static struct tb_event *timer(struct tb_lane *lane)
{
    struct tb_event *event = NULL;
    if (tb_dev()->timer_open(&event) != TB_OK)
        return NULL;
    if (tb_dev()->record(event, lane) == TB_OK)
        return event;
    tb_dev()->event_close(event);
    return NULL;
}

void spans_open(struct tb_spans *spans, struct tb_lane *lane)
{
    const int64_t before = trace_start();
    *spans = (struct tb_spans){.base = before ? timer(lane) : NULL};
    if (!spans->base)
        return;
    if (tb_dev()->sync(spans->base) == TB_OK) {
        spans->base_ns = before + ((int64_t)log_now_ns() - before) / 2;
    } else {
        tb_dev()->event_close(spans->base);
        spans->base = NULL;
    }
}

struct tb_span *spans_begin(struct tb_spans *spans, struct tb_lane *lane, enum trace_track track,
                            int number, const char *name, size_t bytes)
{
    struct tb_span *span = spans->base ? malloc(sizeof *span) : NULL;
    if (!span)
        return NULL;
    *span = (struct tb_span){.before = spans->last,
                             .event = {timer(lane), NULL},
                             .track = track,
                             .number = number,
                             .name = name,
                             .bytes = (int64_t)bytes};
    spans->last = span;
    return span;
}

void spans_end(struct tb_span *span, struct tb_lane *lane)
{
    if (span && span->event[0])
        span->event[1] = timer(lane);
}

static void span_write(const struct tb_spans *spans, const struct tb_span *span)
{
    double from, to;
    if (span->event[0] && span->event[1] &&
        tb_dev()->elapsed(spans->base, span->event[0], &from) == TB_OK &&
        tb_dev()->elapsed(spans->base, span->event[1], &to) == TB_OK)
        trace_lane(span->track, span->number, span->name, span->bytes,
                   spans->base_ns + (int64_t)from, spans->base_ns + (int64_t)to);
}

void spans_close(struct tb_spans *spans)
{
    struct tb_span *span = spans->last;
    if (!spans->base)
        return;
    while (span) {
        struct tb_span *const before = span->before;
        span_write(spans, span);
        for (int i = 0; i < 2; i++)
            if (span->event[i])
                tb_dev()->event_close(span->event[i]);
        free(span);
        span = before;
    }
    tb_dev()->event_close(spans->base);
    *spans = (struct tb_spans){.base = NULL};
}

void spans_drop(struct tb_spans *spans)
{
    for (struct tb_span *span = spans->last; span;) {
        struct tb_span *const before = span->before;
        free(span);
        span = before;
    }
    *spans = (struct tb_spans){.base = NULL};
}
