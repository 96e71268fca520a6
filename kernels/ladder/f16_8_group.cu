/* SPDX-License-Identifier: BSD-3-Clause
 * Rung 8: blocks take tiles in bands of 8 tile rows: those that run at the same time share both
 * rows of A and columns of B, and L2 serves what would have come from DRAM. */
#include "ladder.cuh"

extern "C" __global__ void __launch_bounds__(128, 3)
    f16_group(const half *a, const half *b, float *c, int m, int n, int k, int lda, int ldb,
              int ldc)
{
    constexpr int STAGES = 3, A_PITCH = 32, B_PITCH = 128, A_SIZE = 128 * A_PITCH,
                  B_SIZE = 32 * B_PITCH;
    extern __shared__ __align__(128) half smem16[]; /* STAGES times A, then STAGES times B */
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    constexpr int GROUP = 8; /* tile rows of a band; inside it the rows vary fastest */
    const int tile_rows = (m + 127) / 128, tile_cols = (n + 127) / 128;
    const int band = blockIdx.x / (GROUP * tile_cols) * GROUP,
              in_band = blockIdx.x % (GROUP * tile_cols);
    const int high = tile_rows - band < GROUP ? tile_rows - band : GROUP;
    const int row0 = (band + in_band % high) * 128, col0 = in_band / high * 128;
    const int y = warp / 2 * 64, x = warp % 2 * 64, steps = (k + 31) / 32;
    const auto fetch = [&](int step) {
        half *as = smem16 + step % STAGES * A_SIZE,
             *bs = smem16 + STAGES * A_SIZE + step % STAGES * B_SIZE;
        /* away from the edges nothing has to be counted */
        const bool whole = row0 + 128 <= m && col0 + 128 <= n && (step + 1) * 32 <= k;
#pragma unroll 1
        for (int j = 0; j < 4 && step < steps; j++) {
            const int i = t + 128 * j;
            const int ra = i / 4, qa = i % 4, kb = i / 16, qb = i % 16;
            const int ka = step * 32 + qa * 8, row = row0 + ra, line = step * 32 + kb,
                      col = col0 + qb * 8;
            const int va = whole ? 16 : valid_bytes<2>(ka, k, row, m);
            const int vb = whole ? 16 : valid_bytes<2>(col, n, line, k);
            copy_async(as + ra * A_PITCH + 8 * (qa ^ (ra / 2 % 4)),
                       va ? a + (size_t)row * lda + ka : a, va);
            copy_async(bs + kb * B_PITCH + 8 * (qb ^ (kb % 8)),
                       vb ? b + (size_t)line * ldb + col : b, vb);
        }
        copy_commit();
    };
    float sum[4][8][4] = {};
    for (int s = 0; s < STAGES - 1; s++)
        fetch(s);
    for (int step = 0; step < steps; step++) {
        copy_wait<STAGES - 2>();
        __syncthreads();
        fetch(step + STAGES - 1);
        const half *as = smem16 + step % STAGES * A_SIZE,
                   *bs = smem16 + STAGES * A_SIZE + step % STAGES * B_SIZE;
#pragma unroll 1
        for (int i = 0; i < 2; i++) { /* 16 of k */
            uint32_t av[4], bv[4][4];
#pragma unroll
            for (int s = 0; s < 4; s++) {
                const int line = 16 * i + lane % 16, q = (x + 16 * s) / 8 + lane / 16;
                load_matrices_turned(bv[s], bs + line * B_PITCH + 8 * (q ^ (line % 8)));
            }
#pragma unroll
            for (int r = 0; r < 4; r++) {
                const int line = y + 16 * r + lane % 16, q = 2 * i + lane / 16;
                load_matrices(av, as + line * A_PITCH + 8 * (q ^ (line / 2 % 4)));
#pragma unroll
                for (int s = 0; s < 8; s++)
                    mma(sum[r][s], av, &bv[s / 2][s % 2 * 2]);
            }
        }
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
