/* SPDX-License-Identifier: BSD-3-Clause
 * Rung 2: a block of threads shares a 32 x 32 tile of A and of B in shared memory, so that each is
 * fetched once for 32 uses. What lies outside is zero in BOTH tiles: zero times an Inf of the other
 * matrix would be NaN. */
#include "ladder.cuh"

extern "C" __global__ void f32_block(const float *a, const float *b, float *c, int m, int n, int k,
                                     int lda, int ldb, int ldc)
{
    __shared__ float as[32][32], bs[32][32];
    const int x = threadIdx.x % 32, y = threadIdx.x / 32;
    const int col = blockIdx.x * 32 + x, row = blockIdx.y * 32 + y;
    float sum = 0;
    for (int k0 = 0; k0 < k; k0 += 32) {
        as[y][x] = row < m && k0 + x < k ? a[(size_t)row * lda + k0 + x] : 0.0f;
        bs[y][x] = k0 + y < k && col < n ? b[(size_t)(k0 + y) * ldb + col] : 0.0f;
        __syncthreads();
        for (int i = 0; i < 32; i++)
            sum += as[y][i] * bs[i][x];
        __syncthreads();
    }
    if (row < m && col < n)
        c[(size_t)row * ldc + col] = sum;
}
