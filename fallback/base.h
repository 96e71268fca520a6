/* SPDX-License-Identifier: BSD-3-Clause
 * Inside the fallback: one product with the plain Fortran routines of whatever CPU BLAS there is.
 */
#ifndef TB_FALLBACK_BASE_H
#define TB_FALLBACK_BASE_H

#include "../src/call.h"

/* Runs a call of a real or complex type of 32 or 64 bits, no batch. False: no CPU BLAS has the
 * routine, or its integers are too narrow (never so for GEMM, which is cut up then). */
bool base_call(const struct tb_call *call);

/* The same for GEMM of 16-bit types, on top of base_call(). */
bool half_gemm(const struct tb_call *call);

#endif
