/* SPDX-License-Identifier: BSD-3-Clause
 * The 16-bit formats: IEEE half and bfloat16, as bit patterns, to and from float. */
#ifndef TB_FALLBACK_HALF_H
#define TB_FALLBACK_HALF_H

#include <stdint.h>

/* Exact; a NaN stays a NaN. */
float half_from_f16(uint16_t h);
float half_from_bf16(uint16_t h);

/* To nearest, ties to even; beyond the largest number Inf; a NaN stays a (quiet) NaN. */
uint16_t half_to_f16(float x);
uint16_t half_to_bf16(float x);

#endif
