/* SPDX-License-Identifier: BSD-3-Clause
 * Why a product got the kernel it got, for TILEBLAS_VERBOSE=3: every row of its types and layout,
 * once for each class of shapes. Decides nothing; offload.c calls it when a plan stands. */
#ifndef TB_EXPLAIN_H
#define TB_EXPLAIN_H

#include "caps.h"
#include "kernel.h"

/* Tells of the choice for that product, unless its class was told of before, or nobody listens. */
void explain_kernel(const struct tb_caps *caps, int chosen, const struct tb_extent *x);

#endif
