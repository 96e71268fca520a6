/* SPDX-License-Identifier: BSD-3-Clause
 * Transpose, rung 1: a thread for each entry. Reading goes along lines, writing jumps from line to
 * line: 32 memory sectors for one warp, an eighth of each used. */

extern "C" __global__ void transpose_naive(const float *in, float *out, int n, int ld)
{
    const int x = blockIdx.x * 64 + threadIdx.x % 64;
    for (int i = 0; i < 16; i++) {
        const int y = blockIdx.y * 64 + threadIdx.x / 64 + 4 * i;
        if (x < n && y < n)
            out[(size_t)x * ld + y] = in[(size_t)y * ld + x];
    }
}
