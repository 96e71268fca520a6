/* SPDX-License-Identifier: BSD-3-Clause
 * Times rows of kernels.def on the open device, by its timers, and finds those that are worth
 * saving (tuned.h). */
#ifndef TILEBLAS_RANK_H
#define TILEBLAS_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include "../src/dev.h"
#include "../src/kernel.h"
#include "../src/tuned.h"

enum { RANK_AREAS = 4 };

struct rank {
    const struct tb_dev_ops *dev;
    struct tb_caps caps; /* without saved choices, and all that may be left out by asking let in */
    struct tb_lane *lane;
    struct tb_event *timer[2];
    char *host; /* pinned */
    bool pinned;
    tb_dptr at[RANK_AREAS]; /* A, B, C, and what a row needs beside them */
    size_t bytes[RANK_AREAS];
    double rounds_ns; /* of one sample, at least */
};

/* False: the device has no room for it or does not work; nothing is left behind. */
bool rank_open(struct rank *rank, const struct tb_dev_ops *dev, const struct tb_caps *caps);
void rank_close(struct rank *rank);

/* Room for operands of these sizes, A and B filled with numbers of that type between -1 and 1;
 * false: there is none. */
bool rank_place(struct rank *rank, enum tb_type ab, enum tb_type c, const struct tb_extent *most);

/* The time of one launch among several, least of `rounds`; 0: the row failed, does not accept the
 * operands, or there is no room. */
double rank_ns(struct rank *rank, int row, struct tb_block_order order, const struct tb_extent *x,
               int rounds);

/* Numbers between -1 and 1 of that type. */
void rank_fill(char *to, size_t bytes, enum tb_type type);

/* --- What is worth saving ---
 */

enum { RANK_ROWS = 48 };

/* Times of candidates at the shapes of a class. */
struct rank_times {
    int count, row[RANK_ROWS];
    struct tb_block_order order[RANK_ROWS];
    double ns[RANK_ROWS][TB_SAMPLES]; /* 0: failed, or given up */
    int estimate[TB_SAMPLES];         /* the candidate that the estimate takes */
};

/* The candidate that is faster than what the estimate takes, over all samples by TB_TUNED_GAIN, and
 * slower at none of them by more than RANK_LOSS; -1: there is none. *gain: its time over the
 * estimate's, geometric mean. */
#define RANK_LOSS 1.01
int rank_judge(const struct rank_times *times, double *gain);

struct rank_limits {
    double seconds;    /* for one pair of types */
    double multiplies; /* m n k of a shape at most; larger classes are left out */
    void (*tell)(int pair, int class, void *arg); /* before each class, or NULL */
    void *arg;
};

struct rank_outcome {
    int classes, measured, kept; /* classes and layouts: all, those looked at, those saved */
    double gain;                 /* geometric mean of the saved ones; 1 where there is none */
    double seconds;
};

/* Fills the entries of a pair of types. What there is no time for stays empty. */
struct rank_outcome rank_pair(struct rank *rank, int pair, const struct rank_limits *limits,
                              struct tb_tuned *out);

#endif
