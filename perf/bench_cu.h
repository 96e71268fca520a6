/* SPDX-License-Identifier: BSD-3-Clause
 * What the programs that call the driver themselves have in common: an error of it ends them. */
#ifndef TB_BENCH_CU_H
#define TB_BENCH_CU_H

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

static inline void check(CUresult r, const char *what)
{
    const char *name = "?";
    if (r == CUDA_SUCCESS)
        return;
    cuGetErrorName(r, &name);
    printf("  driver: %s: %s\n", what, name);
    exit(3);
}
#define CU(FN, ...) check(FN(__VA_ARGS__), #FN)

#endif
