/* SPDX-License-Identifier: BSD-3-Clause
 * Keeps threads of ours off CPUs on which they make no headway: one that serves the interrupts of
 * the device, or that a hypervisor gives to somebody else. The scheduler of the guest takes such a
 * CPU for idle and leaves the thread where it is; one thread of twelve then holds up all. */
#ifndef TB_PACE_H
#define TB_PACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of one thread: its last slow copy, and the CPUs it keeps off already. */
struct tb_pace {
    int cpu;
    bool slow;
    unsigned fair; /* as below, when it was */
    unsigned seen;
};

/* What a copy usually takes, of all threads; in ps a byte, 0: not known. How many were not slow. */
struct tb_pace_usual {
    _Atomic int64_t ps;
    atomic_uint fair;
};

/* A copy of so many bytes took so long on that CPU. Returns whether the thread had better be on
 * another: twice in a row four times as long as usual, while others went on at the usual pace;
 * where all are slow it is the memory, not the CPU. Pure but for its arguments. */
bool pace_judge(struct tb_pace *self, struct tb_pace_usual *usual, size_t bytes, int64_t ns,
                int cpu);

/* The same for the calling thread and all of the process, with the consequence. No lock held. */
void pace_note(struct tb_pace *self, size_t bytes, int64_t ns);
/* Keeps the calling thread off the CPUs that others have found to be slow. An eighth of the CPUs at
 * most, never the only one. */
void pace_follow(struct tb_pace *self);
/* For tests and forks: nothing is known, no CPU is slow. */
void pace_forget(void);

#endif
