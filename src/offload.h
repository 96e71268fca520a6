/* SPDX-License-Identifier: BSD-3-Clause
 * The device side of a call, for run.c: gathers the facts the router needs, and
 * takes a call through device start, plan and execution. Knows nothing of the
 * CPU BLAS. */
#ifndef TB_OFFLOAD_H
#define TB_OFFLOAD_H

#include "exec.h"
#include "route.h"
#include <stdbool.h>

/* Where the call should go. cpu_threads is asked only where the answer matters.
 * Starts the device in the background where the call would have been worth it.
 */
struct tb_choice offload_choose(const struct tb_call *call, int (*cpu_threads)(void));

struct tb_offload {
    bool hung;             /* the device does not answer any more: nothing on it can be had */
    bool started;          /* false: nothing was written to C; the whole call is still to
                              be done */
    enum tb_reason reason; /* why, where not started or not finished */
    double bytes_in, bytes_out;
    struct tb_plan plan;
    struct tb_undone undone;
};
void offload_run(const struct tb_call *asked, struct tb_offload *out);
/* The next rectangle of C the device could not finish; false: no more. */
bool offload_undone(struct tb_offload *offload, struct tb_rect *rect);
/* A result was found wrong: the device is off from now on. */
void offload_distrust(const struct tb_call *call);
void offload_done(struct tb_offload *offload); /* frees what offload_run() allocated */

#endif
