/* SPDX-License-Identifier: BSD-3-Clause
 * Checks results of the device against a random projection: C x = alpha op(A) (op(B) x) + beta C0 x
 * for a vector x of random signs, in O(m n + m k + k n), and the like for every routine. Pure:
 * operands on the host, no clocks, no locks. Called by watch.c. */
#ifndef TB_VERIFY_H
#define TB_VERIFY_H

#include <stdbool.h>
#include "call.h"

/* Is the call with that number among the share that is to be checked? The same calls in every run.
 */
bool verify_wanted(double share, uint64_t number);

/* Is C what the call can have left there within the error contract? One call (no batch) whose
 * operands the CPU can read; `old` holds C before the call, columns m apart, and is not read where
 * that was not read either; of a triangle only what counts. `reduced`: single precision may have
 * been computed with fewer bits. A right result fails with a probability below 1e-25 a row; a wrong
 * one passes where the error is as small as what rounding can add up to over a row of C. True also
 * where there is no memory to tell. */
bool verify_result(const struct tb_call *call, const void *old, bool reduced, uint64_t seed);

#endif
