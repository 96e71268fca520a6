/* SPDX-License-Identifier: BSD-3-Clause
 * Which symbol names are doors of the library: a name and its spelling, told apart. Used by
 * `tileblas info` to say which calls of a program would be caught. */
#ifndef TB_TOOLS_DOORS_H
#define TB_TOOLS_DOORS_H

#include <stdbool.h>

struct door {
    bool bare; /* spelled without any suffix: caught under preload only above oneMKL */
    bool wide; /* 64-bit integers */
};

/* Is the symbol one of ours? `out` may be NULL. */
bool door_parse(const char *symbol, struct door *out);

/* Is it a factorization that OpenBLAS computes inside, with no BLAS call anybody could catch? */
bool door_is_closed_lapack(const char *symbol);

#endif
