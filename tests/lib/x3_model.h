/* SPDX-License-Identifier: BSD-3-Clause
 * The FP32 products on 16-bit planes of kernels/gemm_x3.cuh, bit by bit on the CPU: scaling,
 * planes, the sums of the tensor core as they were seen to be (perf/NOTES.md), promotion, fold,
 * guard. For tests. */
#ifndef TB_TESTS_X3_MODEL_H
#define TB_TESTS_X3_MODEL_H

#include "../../kernels/x3.h"

/* Rows of k floats, one behind the other: m of A, n of B. c: m x n, row by row. */
struct x3_problem {
    int m, n, k;
    const float *a, *b;
};

/* What packing would report, and the way the device would take. */
enum tb_x3_path x3_model_path(const struct x3_problem *p, struct tb_x3_guard *guard);

/* A B^T the given way. */
void x3_model(const struct x3_problem *p, enum tb_x3_path path, float *c);

/* One step of the tensor core: acc + the sum of n <= 16 products. */
float x3_model_step(float acc, const float *x, const float *y, int n);

/* Number k of a row of A (`which` 0) or B, cut into planes; `planes` 2: f16, the low one 2048 times
 * larger; 3: bf16. */
void x3_model_planes(double x, int k, int which, int planes, float out[TB_X3_PLANES_MAX]);

#endif
