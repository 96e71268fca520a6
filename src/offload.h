/* SPDX-License-Identifier: BSD-3-Clause
 * The device side of a call, for run.c: gathers the facts the router needs, and
 * takes a call through device start, plan and execution. Knows nothing of the
 * CPU BLAS. */
#ifndef TB_OFFLOAD_H
#define TB_OFFLOAD_H

#include "exec.h"
#include "route.h"
#include <stdbool.h>

/* The CPU BLAS, as far as the choice depends on it. Asked only where the answer matters. */
struct tb_cpu_side {
    int (*threads)(void);                 /* it would use now */
    void (*name)(char *out, size_t room); /* for the machine profile */
};

/* Where the call should go. Starts the device in the background where the call would have been
 * worth it; after the call, where that needs every CPU. */
struct tb_choice offload_choose(const struct tb_call *call, const struct tb_cpu_side *cpu);
/* Around what the CPU computes. */
void offload_cpu_begins(const struct tb_choice *choice);
void offload_cpu_ended(const struct tb_choice *choice);

struct tb_offload {
    bool hung;             /* the device does not answer any more: nothing on it can be had */
    bool unsure;           /* C lies where the device may have written: nobody can finish it */
    bool started;          /* false: nothing was written to C; the whole call is still to
                              be done */
    enum tb_reason reason; /* why, where not started or not finished */
    double bytes_in, bytes_out;
    const char *kernel; /* the row that was planned with, or NULL */
    struct tb_plan plan;
    struct tb_undone undone;
};
/* `choice`: the estimates it was made by, 0 where there were none. */
void offload_run(const struct tb_call *asked, const struct tb_choice *choice,
                 const struct tb_cpu_side *cpu, struct tb_offload *out);
/* The next rectangle of C the device could not finish; false: no more. */
bool offload_undone(struct tb_offload *offload, struct tb_rect *rect);
/* A result was found wrong: the device is off from now on. */
void offload_distrust(const struct tb_call *call);
void offload_done(struct tb_offload *offload); /* frees what offload_run() allocated */

#endif
