/* SPDX-License-Identifier: BSD-3-Clause
 * The seam between the library and a device. Two devices stand behind it: CUDA (dev_cuda.c) and the
 * simulated one of the tests (tests/sim/dev_sim.c). Only exec, pool and device.c call it.
 *
 * Every function returns a status, never ends the process, and may be called from any thread of
 * ours that has called bind(). A lane is an in-order queue (a stream); lanes run against each other
 * unless ordered by events. h2d, d2h, launch, record and wait are asynchronous and return at once;
 * a fault of the device may be reported by any later call. Memory of the host given to h2d and d2h
 * must be pinned by pin() and stay valid until an event recorded behind the copy has been synced.
 */
#ifndef TB_DEV_H
#define TB_DEV_H

#include "caps.h"
#include "status.h"
#include "../kernels/kparams.h"

typedef uint64_t tb_dptr; /* device address */
struct tb_lane;           /* opaque, owned by the device */
struct tb_event;

/* A rectangle copy: `rows` runs of `width` bytes, `pitch` bytes apart (column-major: a run is a
 * column). */
struct tb_copy {
    size_t width, rows, dst_pitch, src_pitch;
};

struct tb_dev_ops {
    const char *name;
    /* Opens device `ordinal` (of those the driver lists) and tells its facts. One device is open at
     * a time in a process. May take 0.4 s. On failure nothing is left behind. */
    enum tb_status (*open)(int ordinal, struct tb_caps *caps);
    void (*close)(void);
    /* Number of devices; cheap, but loads the driver. `uuid` of one as 32 hex digits. */
    enum tb_status (*count)(int *n);
    enum tb_status (*uuid)(int ordinal, char text[33]);
    enum tb_status (*bind)(void); /* makes the device usable on this thread */

    enum tb_status (*alloc)(size_t bytes, tb_dptr *out);
    enum tb_status (*free)(tb_dptr ptr);
    enum tb_status (*mem_free)(size_t *bytes);       /* free device memory now */
    enum tb_status (*pin)(void *host, size_t bytes); /* our own mappings only, never the user's */
    enum tb_status (*unpin)(void *host);

    enum tb_status (*lane_open)(struct tb_lane **out, bool high_priority);
    void (*lane_close)(struct tb_lane *lane);
    enum tb_status (*event_open)(struct tb_event **out);
    /* An event that keeps when it was. */
    enum tb_status (*timer_open)(struct tb_event **out);
    void (*event_close)(struct tb_event *event);

    enum tb_status (*h2d)(struct tb_lane *lane, tb_dptr dst, const void *src, struct tb_copy shape);
    enum tb_status (*d2h)(struct tb_lane *lane, void *dst, tb_dptr src, struct tb_copy shape);
    /* Within device memory, the program's own too. TB_TORN: a part of it is under way. */
    enum tb_status (*d2d)(struct tb_lane *lane, tb_dptr dst, tb_dptr src, struct tb_copy shape);
    enum tb_status (*fill0)(struct tb_lane *lane, tb_dptr dst, size_t bytes);
    /* Runs row `kernel` of kernels.def. */
    enum tb_status (*launch)(struct tb_lane *lane, int kernel, const struct tb_gemm_params *params);
    enum tb_status (*record)(struct tb_event *event, struct tb_lane *lane);
    enum tb_status (*wait)(struct tb_lane *lane, struct tb_event *event);
    enum tb_status (*over)(struct tb_event *event, bool *over); /* does not block */
    enum tb_status (*sync)(struct tb_event *event); /* blocks this thread, without burning CPU */

    /* The time between two timers, both over. */
    enum tb_status (*elapsed)(struct tb_event *from, struct tb_event *to, double *ns);

    /* About the program's own memory: usable on any thread, whether or not a device is open, and
     * without bind(). Cheap, and nothing is loaded, where the program has no driver. */
    enum tb_status (*where)(const void *ptr, enum tb_where *out);
    bool (*shared)(void); /* may the program use a device of its own accord? */
    /* Does this thread of the program use one? Next to nothing to ask; for a program that came to
     * the driver only after we had loaded it. */
    bool (*used)(void);
    /* Copies between pageable host memory and the program's device memory; complete on return,
     * behind what the program had asked of its default stream. */
    enum tb_status (*fetch)(void *host, const void *device, struct tb_copy shape);
    enum tb_status (*put)(void *device, const void *host, struct tb_copy shape);
    /* What follows on the lane waits for what the program has asked of its default stream. */
    enum tb_status (*follow)(struct tb_lane *lane);

    enum tb_status (*check)(void); /* is the context still alive (the program may have reset it)? */
    const char *(*last_error)(void); /* text of the last failure on this thread, for the log */
};

/* The device of this build: CUDA, simulated, or NULL where built without one. */
const struct tb_dev_ops *tb_dev(void);

#endif
