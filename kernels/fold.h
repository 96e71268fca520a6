/* SPDX-License-Identifier: BSD-3-Clause
 * How long a sum in FP32 grows before it moves to the second level: one rule for the launch of the
 * kernels and for the tests' bound of the error. */
#ifndef TB_FOLD_H
#define TB_FOLD_H

#include <stdint.h>

enum { TB_FOLD_LEAST = 64 };

/* Products in a chain of the first level, where each of `k` steps adds `products`. On positive data
 * the error of K products in chains of L grows as sqrt(L L / K + K / L), first and second level:
 * each doubling of L comes where it makes that less. Chains of 256 throughout had twice the error
 * of OpenBLAS 0.3.21, which keeps several sums, at K = 256 and 1024; chains of 64 throughout the
 * same at 8192. */
static inline int32_t tb_fold_every(int64_t k, int products)
{
    static const int64_t most[] = {1254, 3547, 10033, 28378};
    int32_t every = TB_FOLD_LEAST;
    for (int i = 0; i < 4 && k > most[i] / products; i++)
        every *= 2;
    return every;
}

#endif
