/* SPDX-License-Identifier: BSD-3-Clause
 * Rung 1: a thread for each entry of C. Every operand comes from global memory each time it is
 * used: 2 loads for 2 operations. The caches save it from the worst. */
#include "ladder.cuh"

extern "C" __global__ void f16_naive(const half *a, const half *b, float *c, int m, int n, int k,
                                     int lda, int ldb, int ldc)
{
    const int col = blockIdx.x * 32 + threadIdx.x % 32, row = blockIdx.y * 32 + threadIdx.x / 32;
    if (row >= m || col >= n)
        return;
    float sum = 0;
    for (int i = 0; i < k; i++)
        sum += __half2float(a[(size_t)row * lda + i]) * __half2float(b[(size_t)i * ldb + col]);
    c[(size_t)row * ldc + col] = sum;
}
