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

/* Only a triangle of C, its diagonal included: nothing beside it is read or written. REAL: the diagonal is
 * real, what is stored of its imaginary part is ignored, and zero is written. */
enum tb_kuplo { TB_KUPLO_ALL = 0, TB_KUPLO_LOWER = 1, TB_KUPLO_UPPER = 2, TB_KUPLO_SIDE = 3, TB_KUPLO_REAL = 4 };

/* The rows that work on a triangle (tri.cuh) read these in `way`. C = alpha op(A) C, or the solution X of
 * op(A) X = alpha C in its place; RIGHT: C op(A), X op(A). A is k x k, of which only the triangle `uplo` is
 * read, and with UNIT not its diagonal. The row that mirrors completes the k x k matrix C, of which `uplo`
 * is there, by its transpose; TB_KUPLO_REAL: by its conjugate transpose, and makes its diagonal real. */
enum { TB_WAY_RIGHT = 1, TB_WAY_UNIT = 2, TB_WAY_SOLVE = 4 };
/* Flags (32 bits each) at the beginning of a workspace: blocks of a launch times warpgroups. */
#define TB_WORK_FLAGS 4096

/* What a row that fetches by the tensor copy engine asks the L2 cache for, beside the bytes it wants: the rest
 * of so many bytes. OWN: what the row asks for by itself. */
enum tb_khint { TB_KHINT_OWN = 0, TB_KHINT_NONE = 1, TB_KHINT_64 = 2, TB_KHINT_128 = 3, TB_KHINT_256 = 4, TB_KHINTS };

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
    int32_t way; /* of the launch. Rows of the sm_90 family: TB_WAY_C_MAP, and the band above; plain rows: steps
                    of k between two folds of the sums (fold.h), a power of two, less one */
    uint64_t scratch; /* 0, or an area of kernel_scratch() bytes, for rows that need one or make use of one */
    uint64_t guard;   /* of the launch: 0, or where a struct tb_x3_guard must say SIMT, else nothing is done */
    uint64_t work;    /* of the launch: 0, or that area, whose flags are zero: tiles are divided (sm_90) */
    int32_t uplo; /* enum tb_kuplo; m = n where it is not 0 */
    int16_t band; /* rows of tiles of a band of the block order (order.h); 0: what the row takes by itself */
    int16_t hint; /* enum tb_khint */
};

#endif
