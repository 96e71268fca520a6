/* SPDX-License-Identifier: BSD-3-Clause
 * The story of a call, as the doors see it. */
#ifndef TB_RUN_H
#define TB_RUN_H

#include <stdbool.h>
#include "call.h"

/* The doors' pre-test: could a call of this volume ever be worth a descriptor? Infinite once it is known
 * that no call can leave the CPU; 0 where every call is wanted (forced, verbose). */
extern double run_small_volume;

static inline bool run_is_small(int64_t m, int64_t n, int64_t k)
{
    return (double)m * (double)n * (double)k < run_small_volume;
}

/* What the door still has to do after run_enter(). */
struct tb_pass {
    tb_fn fn;         /* forward the call there, arguments unchanged; NULL: all done */
    bool k_is_zero;   /* but with k = 0 (alpha = 0, where OpenBLAS may still read A and B) */
    bool counted;     /* run_leave() has something to close */
    struct tb_choice_log { int reason; unsigned long long start_ns; double est_cpu_ns, est_gpu_ns; } log;
};

/* Takes a call from a door: computes it on the device, or says where to forward it. */
struct tb_pass run_enter(struct tb_call *call);
/* Closes a forwarded call (re-entry guard, log). */
void run_leave(const struct tb_call *call, const struct tb_pass *pass);

#endif
