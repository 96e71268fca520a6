/* SPDX-License-Identifier: BSD-3-Clause
 * `tileblas tune`: measures this machine and saves its profile. */
#ifndef TILEBLAS_TUNE_H
#define TILEBLAS_TUNE_H

#include <stdbool.h>

struct tune_options {
    bool system; /* for every user of the machine */
    bool quick;
};

/* The exit status: 0, or 1 with a line on standard error. */
int tune_run(const struct tune_options *options);

#endif
