/* SPDX-License-Identifier: BSD-3-Clause
 * Transpose, rung 4: no padding; columns change places by an exclusive or with the line number. */

extern "C" __global__ void transpose_swizzled(const float *in, float *out, int n, int ld)
{
    __shared__ float tile[64][64];
    const int x = threadIdx.x % 64, y = threadIdx.x / 64, x0 = blockIdx.x * 64,
              y0 = blockIdx.y * 64;
#pragma unroll
    for (int i = y; i < 64; i += 4)
        if (x0 + x < n && y0 + i < n)
            tile[i][x ^ (i % 32)] = in[(size_t)(y0 + i) * ld + x0 + x];
    __syncthreads();
#pragma unroll
    for (int i = y; i < 64; i += 4)
        if (y0 + x < n && x0 + i < n)
            out[(size_t)(x0 + i) * ld + y0 + x] = tile[x][i ^ (x % 32)];
}
