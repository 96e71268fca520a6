/* SPDX-License-Identifier: BSD-3-Clause
 * Rung 5: tensor cores. 128 x 128 a block, 4 warps of 64 x 64; a warp multiplies 16 x 8 x 16 at a
 * time from fragments that one instruction gathers out of shared memory. Lines are padded by 16
 * bytes, so that the 8 lines of a fragment lie in different banks. Loads still go element by
 * element through registers, and nothing overlaps. */
#include "ladder.cuh"

extern "C" __global__ void __launch_bounds__(128)
    f16_mma(const half *a, const half *b, float *c, int m, int n, int k, int lda, int ldb, int ldc)
{
    __shared__ __align__(16) half as[128][40], bs[32][136];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const int row0 = blockIdx.y * 128, col0 = blockIdx.x * 128;
    const int y = warp / 2 * 64, x = warp % 2 * 64;
    const half zero = __float2half(0.0f);
    float sum[4][8][4] = {};
    for (int k0 = 0; k0 < k; k0 += 32) {
        for (int i = t; i < 128 * 32; i += 128) {
            const int ra = i / 32, ka = i % 32, kb = i / 128, cb = i % 128;
            as[ra][ka] =
                row0 + ra < m && k0 + ka < k ? a[(size_t)(row0 + ra) * lda + k0 + ka] : zero;
            bs[kb][cb] =
                k0 + kb < k && col0 + cb < n ? b[(size_t)(k0 + kb) * ldb + col0 + cb] : zero;
        }
        __syncthreads();
        for (int i = 0; i < 32; i += 16) {
            uint32_t av[4][4], bv[4][4];
#pragma unroll
            for (int r = 0; r < 4; r++)
                load_matrices(av[r], &as[y + 16 * r + lane % 16][i + lane / 16 * 8]);
#pragma unroll
            for (int s = 0; s < 4; s++)
                load_matrices_turned(bv[s], &bs[i + lane % 16][x + 16 * s + lane / 16 * 8]);
#pragma unroll
            for (int r = 0; r < 4; r++)
#pragma unroll
                for (int s = 0; s < 8; s++)
                    mma(sum[r][s], av[r], &bv[s / 2][s % 2 * 2]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int s = 0; s < 8; s++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int row = row0 + y + 16 * r + lane / 4 + e / 2 * 8;
                const int col = col0 + x + 8 * s + lane % 4 * 2 + e % 2;
                if (row < m && col < n)
                    c[(size_t)row * ldc + col] = sum[r][s][e];
            }
}
