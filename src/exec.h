/* SPDX-License-Identifier: BSD-3-Clause
 * Runs a plan on the device. C is written to host memory in whole pieces, and only when the device
 * work behind a piece and its way back are known good; what is left after a fault is told to the
 * caller, who has the CPU compute it. Called by offload.c, from any number of threads. */
#ifndef TB_EXEC_H
#define TB_EXEC_H

#include <stdbool.h>
#include "plan.h"

/* What of C was not written. Belongs to the caller; valid as long as the plan. */
struct tb_undone {
    bool all;    /* nothing was written: the whole call is left */
    bool unsure; /* what is left of a C in place may be old or new: nobody can finish it */
    const struct tb_plan *plan;
    unsigned char *done; /* per piece of C */
    int32_t step;        /* the cursor of undone_next() */
    int64_t item, col, row;
};

struct tb_exec_stats {
    double bytes_in, bytes_out; /* over the link, as planned */
    int64_t ns;
};

/* Computes the call. TB_OK: C is complete, `undone` is empty. TB_BUSY: others had the device or its
 * memory for too long. TB_TIMEOUT: no answer in time; nothing of ours touches the operands any
 * more, and nothing can be started from now on (TB_DEVICE_OFF). After any failure `undone` tells
 * what is left. undone_free() in every case. */
enum tb_status exec_run(const struct tb_call *call, const struct tb_plan *plan,
                        struct tb_undone *undone, struct tb_exec_stats *stats);

/* What is left of the calls that are under way or wait here, ns by the built-in rates, and how many
 * they are. Takes no lock. */
double exec_ahead_ns(int *calls);

/* Nothing can be run any more, whatever the call. */
bool exec_broken(void);

/* The next rectangle of C that was not written; false: no more. Allocates nothing. */
bool undone_next(struct tb_undone *undone, struct tb_rect *rect);
void undone_free(struct tb_undone *undone);

/* Limits, for tests: to get device and memory; beyond ten times the estimate; and how long calls
 * may wait without any having begun until the device counts as standing still. */
extern int64_t exec_queue_ns, exec_watchdog_ns, exec_standstill_ns;
/* Calls that move no more bytes than this are brief; for tests. */
extern double exec_brief_bytes;

#endif
