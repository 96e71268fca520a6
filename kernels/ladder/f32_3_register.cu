/* SPDX-License-Identifier: BSD-3-Clause
 * Rung 3: a thread computes 4 x 4 entries out of a 64 x 64 x 16 tile and keeps them in registers: 8
 * loads from shared memory for 16 multiply-adds. But neighbouring threads take neighbouring ROWS,
 * which lie 64 words apart in the same bank: they wait for each other. */
#include "ladder.cuh"

extern "C" __global__ void __launch_bounds__(256)
    f32_register(const float *a, const float *b, float *c, int m, int n, int k, int lda, int ldb,
                 int ldc)
{
    __shared__ float as[64][16], bs[16][64];
    const int t = threadIdx.x, y = t % 16, x = t / 16;
    const int row0 = blockIdx.y * 64, col0 = blockIdx.x * 64;
    float sum[4][4] = {};
    for (int k0 = 0; k0 < k; k0 += 16) {
        for (int i = t; i < 64 * 16; i += 256) {
            const int ra = i / 16, ka = i % 16, kb = i / 64, cb = i % 64;
            as[ra][ka] =
                row0 + ra < m && k0 + ka < k ? a[(size_t)(row0 + ra) * lda + k0 + ka] : 0.0f;
            bs[kb][cb] =
                k0 + kb < k && col0 + cb < n ? b[(size_t)(k0 + kb) * ldb + col0 + cb] : 0.0f;
        }
        __syncthreads();
        for (int i = 0; i < 16; i++)
            for (int r = 0; r < 4; r++)
                for (int s = 0; s < 4; s++)
                    sum[r][s] += as[4 * y + r][i] * bs[i][4 * x + s];
        __syncthreads();
    }
    for (int r = 0; r < 4; r++)
        for (int s = 0; s < 4; s++)
            if (row0 + 4 * y + r < m && col0 + 4 * x + s < n)
                c[(size_t)(row0 + 4 * y + r) * ldc + col0 + 4 * x + s] = sum[r][s];
}
