/* SPDX-License-Identifier: BSD-3-Clause
 * What a kernel is told: one plain struct, passed by value, the same on the host and in CUDA C.
 * Included by C11, by CUDA C, and by the simulated device. */
#ifndef TB_KPARAMS_H
#define TB_KPARAMS_H

#include <stdint.h>

/* op(X): bit 0 transposes, bit 1 conjugates. */
enum tb_kop { TB_KOP_N = 0, TB_KOP_T = 1, TB_KOP_R = 2, TB_KOP_C = 3 };

/* C has a map of the tensor copy engine. Above the bits of the flag: rows of tiles that a band has, in
 * which tiles are taken one column after the other. */
enum { TB_WAY_C_MAP = 1, TB_WAY_BAND = 8 };

/* C[i] = alpha op(A[i]) op(B[i]) + beta C[i], i < batch, column-major; leading dimensions and strides in
 * elements, addresses on the device with the alignment of one element at least. beta is never read
 * from C where beta_zero. alpha and beta: (re, im), in double for FP64 types and exactly representable in
 * float for the others. m, n, k, batch > 0. */
struct tb_gemm_params {
    uint64_t a, b, c;
    uint64_t alist, blist, clist; /* 0, or device arrays of `batch` device addresses */
    int64_t stride_a, stride_b, stride_c;
    int64_t m, n, k, lda, ldb, ldc;
    int64_t batch;
    double alpha[2], beta[2];
    int32_t op_a, op_b; /* enum tb_kop */
    int32_t beta_zero;
    int32_t way; /* of the launch. Rows of the sm_90 family: TB_WAY_C_MAP, and the band above (as the host asks
                    for a launch: the band to take, or 0); plain rows: steps of k between two folds of the sums
                    (fold.h), a power of two, less one */
};

#endif
