/* SPDX-License-Identifier: BSD-3-Clause
 * Does a block fit on a multiprocessor, and how many of them? Pure arithmetic over published
 * figures of each compute capability, for whoever chooses tiles: the tests of kernels.def and
 * perf/tune.c. Decides nothing about speed. */
#ifndef TB_FIT_H
#define TB_FIT_H

#include <stdbool.h>
#include <stddef.h>

/* One multiprocessor. Shared memory in bytes; `smem_reserve` is taken from `smem_sm` for each
 * block. */
struct tb_sm {
    int cc;
    int smem_sm, smem_block, smem_reserve, smem_static;
    int registers, registers_thread, register_unit; /* the unit is given out to whole warps */
    int threads, threads_block, blocks;
};

/* What a block asks for. */
struct tb_need {
    int threads, registers; /* of a thread */
    int smem_static, smem_dynamic;
};

enum tb_fit_bound {
    TB_FIT_SMEM,
    TB_FIT_REGISTERS,
    TB_FIT_THREADS,
    TB_FIT_BLOCKS,
    TB_FIT_STATIC /* more static shared memory than a launch without opting in may have */
};

struct tb_fit {
    int blocks;              /* at once on a multiprocessor; 0: the block cannot be launched */
    enum tb_fit_bound bound; /* what allows no more of them */
    double occupancy;        /* threads at once, of those a multiprocessor may have */
};

/* Facts of a compute capability (times 10); NULL for one that is not known. */
const struct tb_sm *fit_sm(int cc);

struct tb_fit fit_block(const struct tb_sm *sm, const struct tb_need *need);
const char *fit_bound_text(enum tb_fit_bound bound);

/* Bytes of a ring of `stages` tiles of A (bm x bk) and B (bk x bn) without padding. */
long long fit_ring_bytes(int bm, int bn, int bk, int stages, int element_bytes);

#endif
