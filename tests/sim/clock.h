/* SPDX-License-Identifier: BSD-3-Clause
 * A virtual clock for plans: what the rules of exec.c make of a plan on a machine with given rates,
 * in virtual nanoseconds and the same on every run. Copiers stage pieces and pick them as exec.c
 * does, each way of the link and the device serve one operation at a time. Nothing is computed. */
#ifndef TB_TEST_CLOCK_H
#define TB_TEST_CLOCK_H

#include "../../src/plan.h"

struct clock_machine {
    double link_in, link_out; /* bytes per ns, each way */
    double stage;             /* bytes per ns of one copier between pageable and pinned memory */
    double kernel;            /* flop per ns */
    double operation;         /* ns that a transfer or a launch costs apart from its size */
    int copiers;
};

struct clock_times {
    double total;
    double in, kernel, out; /* busy */
    double in_kernel;       /* the link brings something while the device computes */
    double in_out;          /* both ways of the link at once */
    double ideal;           /* the longest of the three, and what nothing can overlap with */
};

/* Several calls share the machine, each from its own start on; `finish` gets the end of each. */
enum { CLOCK_CALLS_MAX = 32 };
struct clock_call {
    const struct tb_plan *plan;
    double flops, start;
    bool brief; /* of the class TB_BRIEF */
};
struct clock_times clock_run(const struct clock_call calls[], int count,
                             const struct clock_machine *machine, double finish[]);

#endif
