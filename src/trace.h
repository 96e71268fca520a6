/* SPDX-License-Identifier: BSD-3-Clause
 * The timeline of TILEBLAS_TRACE: spans of host threads and of lanes of the device, in Chrome's
 * trace format. One relaxed load where it is off. The file is a JSON array whose closing bracket is
 * left out, as the format allows: it is complete at any moment, also after _exit. */
#ifndef TB_TRACE_H
#define TB_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

extern atomic_bool trace_wanted;

static inline bool trace_on(void)
{
    return atomic_load_explicit(&trace_wanted, memory_order_relaxed);
}

/* Sets the file; "" is none. %p becomes the process id. */
void trace_open(const char *path);

/* The beginning of a span: the time, or 0 where nothing is traced. */
int64_t trace_start(void);

/* A span of this thread that ends now; nothing where start is 0. `thread` names the thread at its
 * first span. The text, or NULL, is shown with it and must need no escapes in JSON. */
void trace_span(int64_t start, const char *thread, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A span of a lane of the device. */
enum trace_track { TRACE_H2D, TRACE_KERNEL, TRACE_D2H, TRACE_TRACKS };
void trace_lane(enum trace_track track, int lane, const char *name, int64_t bytes, int64_t from_ns,
                int64_t to_ns);

/* Writes what is held. After every call, and at the end of the process. */
void trace_flush(void);

#endif
