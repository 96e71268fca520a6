/* SPDX-License-Identifier: BSD-3-Clause
 * Rung 5: 128 x 128 a block, 4 warps of 64 x 64, a lane 16 x 8 entries. A lies turned in shared
 * memory, so that both operands are read 16 bytes at a time: 6 wide loads for 128 multiply-adds. */
#include "ladder.cuh"

extern "C" __global__ void __launch_bounds__(128)
    f32_warp(const float *a, const float *b, float *c, int m, int n, int k, int lda, int ldb,
             int ldc)
{
    __shared__ __align__(16) float as[16][132], bs[16][128]; /* as[k][row]: 4 words of padding */
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const int row0 = blockIdx.y * 128, col0 = blockIdx.x * 128;
    const int y = warp / 2 * 64 + lane / 8 * 4, x = warp % 2 * 64 + lane % 8 * 4;
    float sum[16][8] = {};
    for (int k0 = 0; k0 < k; k0 += 16) {
        for (int i = t; i < 128 * 16; i += 128) {
            const int ra = i / 16, ka = i % 16, kb = i / 128, cb = i % 128;
            as[ka][ra] =
                row0 + ra < m && k0 + ka < k ? a[(size_t)(row0 + ra) * lda + k0 + ka] : 0.0f;
            bs[kb][cb] =
                k0 + kb < k && col0 + cb < n ? b[(size_t)(k0 + kb) * ldb + col0 + cb] : 0.0f;
        }
        __syncthreads();
#pragma unroll 4
        for (int i = 0; i < 16; i++) {
            float av[16], bv[8];
            for (int q = 0; q < 4; q++)
                *(float4 *)&av[4 * q] = *(const float4 *)&as[i][y + 16 * q];
            for (int q = 0; q < 2; q++)
                *(float4 *)&bv[4 * q] = *(const float4 *)&bs[i][x + 32 * q];
            for (int r = 0; r < 16; r++)
                for (int s = 0; s < 8; s++)
                    sum[r][s] += av[r] * bv[s];
        }
        __syncthreads();
    }
    for (int r = 0; r < 16; r++)
        for (int s = 0; s < 8; s++) {
            const int row = row0 + y + r / 4 * 16 + r % 4, col = col0 + x + s / 4 * 32 + s % 4;
            if (row < m && col < n)
                c[(size_t)row * ldc + col] = sum[r][s];
        }
}
