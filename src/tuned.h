/* SPDX-License-Identifier: BSD-3-Clause
 * Measured choices among the kernels: for a pair of element types, a layout and a class of shapes
 * (shape.h) the row that was seen to be faster than the one the estimate takes. Pure: the
 * table, the shapes that stand for a class, and the text behind a saved profile. kernel.c looks the
 * table up, calibrate.c reads it, `tileblas tune --kernels` makes one. */
#ifndef TB_TUNED_H
#define TB_TUNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "caps.h"
#include "kernel.h"

/* What is known of one class; all zero: nothing, the estimate chooses. */
struct tb_tuned_row {
    int16_t row;  /* its number in kernels.def, from 1 */
    int16_t band; /* rows of tiles of a band of the block order; 0: the row's own */
    int32_t hint; /* enum tb_khint */
    float rate;   /* flop per ns at the shapes that were measured, geometric mean */
    float gain;   /* its time over that of the rows the estimate takes there, the same mean */
    float lead;   /* its estimate over theirs, the same mean: not measured, not saved */
};

/* A row is saved, and taken, for a time that is this much of the other's at most. */
#define TB_TUNED_GAIN 0.97

struct tb_tuned {
    struct tb_tuned_row at[TB_PAIRS][TB_LAYOUTS][TB_SHAPE_CLASSES];
};

enum { TB_SAMPLES = 3, TB_TUNED_LINE = 160, TB_TUNED_BYTES_MAX = 384 << 10 };

/* The order of blocks and the hint of a launch: params->band, params->hint. */
struct tb_block_order {
    int16_t band, hint;
};

/* What was measured for products of that kind in the class of the shape, taken or not; NULL:
 * nothing. */
const struct tb_tuned_row *tuned_entry(const struct tb_caps *caps, enum tb_type ab, enum tb_type c,
                                       bool ta, bool tb, const struct tb_extent *x);

/* The measured row, if there is one, it may serve, and the estimate does not put it further behind
 * at this shape than what was measured makes up for; -1: the estimate chooses. */
int tuned_choice(const struct tb_caps *caps, enum tb_type ab, enum tb_type c, bool ta, bool tb,
                 const struct tb_extent *x);

/* The time that a row was seen to take over its estimate, up to 1; 1 where nothing was measured. */
double tuned_correction(const struct tb_caps *caps, int row, const struct tb_extent *x);

/* What was measured with a row that is chosen; 0, 0: what the row takes by itself. */
struct tb_block_order tuned_order(const struct tb_caps *caps, int row, const struct tb_extent *x);

/* Shape i < TB_SAMPLES of those that stand for a class; all of them lie in it. */
struct tb_extent tuned_sample(int class, int i);

/* The estimate of a row over the least one, geometric mean over the shapes of the class. */
float tuned_lead(const struct tb_caps *caps, int row, int class);

/* The class by its name (shape_class_name()); -1: there is none. */
int tuned_class_of(const char *name, size_t length);

/* Does the section hold for this library and this device? Its kernels are named by a sum over their
 * table, the device by its compute capability and multiprocessors. */
enum tb_tuned_state {
    TB_TUNED_FITS,
    TB_TUNED_FOREIGN, /* another version of the kernels, or another device */
    TB_TUNED_SPOILED  /* no such section: nothing of it is taken */
};

/* Reads the section. *bad: entries that are not understood, or of a row that cannot be: each is
 * left out, the others hold. A section whose end is missing is spoiled. */
enum tb_tuned_state tuned_parse(const char *text, size_t length, const struct tb_caps *caps,
                                struct tb_tuned *out, int *bad);

/* Writes it. The bytes, without the end of string; 0: no room. */
size_t tuned_print(const struct tb_tuned *tuned, const struct tb_caps *caps, char *text,
                   size_t room);

/* The entries that are not empty; of one pair of types, or of all where pair < 0. */
int tuned_count(const struct tb_tuned *tuned, int pair);

/* A sum over the rows of kernels.def: another one, another table. */
uint64_t tuned_table(void);

#endif
