/* SPDX-License-Identifier: BSD-3-Clause
 * `tileblas tune`: measures this machine, or its kernels, and saves the profile. */
#ifndef TILEBLAS_TUNE_H
#define TILEBLAS_TUNE_H

#include <stdbool.h>

enum { TUNE_KERNELS_SECONDS = 6, TUNE_KERNELS_MOST = 60 };

struct tune_options {
    bool system; /* for every user of the machine */
    bool quick;
    int kernels; /* seconds for each pair of types, to measure their kernels; 0: those stay as they
                    are */
};

/* The exit status: 0, or 1 with a line on standard error. */
int tune_run(const struct tune_options *options);

#endif
