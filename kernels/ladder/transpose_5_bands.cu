/* SPDX-License-Identifier: BSD-3-Clause
 * Transpose, rung 5: padded as rung 3, and blocks take their tiles in bands of 8 tile rows. Those
 * that run at the same time then write lines of 2 KB side by side, where a row of tiles at a time
 * writes 256 bytes here and there. */

extern "C" __global__ void transpose_bands(const float *in, float *out, int n, int ld)
{
    __shared__ float tile[64][65];
    const int x = threadIdx.x % 64, y = threadIdx.x / 64;
    const int id = blockIdx.y * gridDim.x + blockIdx.x, side = gridDim.x;
    const int band = id / (8 * side) * 8, high = side - band < 8 ? side - band : 8;
    const int x0 = id % (8 * side) / high * 64, y0 = (band + id % (8 * side) % high) * 64;
#pragma unroll
    for (int i = y; i < 64; i += 4)
        if (x0 + x < n && y0 + i < n)
            tile[i][x] = in[(size_t)(y0 + i) * ld + x0 + x];
    __syncthreads();
#pragma unroll
    for (int i = y; i < 64; i += 4)
        if (y0 + x < n && x0 + i < n)
            out[(size_t)(x0 + i) * ld + y0 + x] = tile[x][i];
}
