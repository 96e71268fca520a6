/* SPDX-License-Identifier: BSD-3-Clause
 * The story of a call, as the doors see it. */
#ifndef TB_RUN_H
#define TB_RUN_H

#include <stdatomic.h>
#include <stdbool.h>
#include "call.h"
#include "route.h"

/* The doors' pre-test: could a call of this volume ever be worth a descriptor? Infinite once it is
 * known that no call can leave the CPU; 0 where every call is wanted (forced, verbose). */
extern _Atomic double run_small_volume;

/* Its second half: may a small call pass unseen? No more, once the program uses a device. */
bool run_passes(void);

static inline bool run_is_small(int64_t m, int64_t n, int64_t k)
{
    const double volume = (double)m * (double)n * (double)k;
    return volume < atomic_load_explicit(&run_small_volume, memory_order_relaxed) && run_passes();
}

/* Called by the resolver before the first door opens. */
void run_setup(void);
/* Called at each new name: has the program come to use a device of its own accord? Then no call may
 * pass unseen any more. */
void run_look(void);

/* What is decided about a call, without doing anything: normalizes the descriptor, checks, routes.
 */
struct tb_judgement {
    enum tb_side where;
    enum tb_reason reason;
    double est_cpu_ns, est_gpu_ns;
    bool k_is_zero; /* alpha = 0 in a valid sgemm or dgemm: to be computed with k = 0 */
    bool copies;    /* the CPU cannot read some operand: never to be forwarded as it is */
};
struct tb_judgement run_judge(struct tb_call *call);

/* What the door still has to do after run_enter(). */
struct tb_pass {
    tb_fn fn;       /* forward the call there, arguments unchanged; NULL: all done */
    bool k_is_zero; /* but with k = 0 */
    bool lost;      /* operands on a device that does not answer */
    bool hung;      /* the device stopped answering during this call */
    bool counted;   /* run_leave() has something to close */
    struct tb_judgement judgement;
    uint64_t start_ns;
};

/* Takes a call from a door: computes it on the device, or says where to forward it. Always
 * completes a call whose cpu->fn is NULL. */
struct tb_pass run_enter(struct tb_call *call);
/* Closes a forwarded call (re-entry guard, log). */
void run_leave(const struct tb_call *call, const struct tb_pass *pass);

/* xerbla for an illegal call of a name the CPU BLAS lacks; the descriptor is normalized. */
void run_report(const struct tb_call *call);
/* The same for an argument no descriptor has: its number as Fortran counts them. */
void run_report_argument(const struct tb_call *call, int number);

#endif
