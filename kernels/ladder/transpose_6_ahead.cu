/* SPDX-License-Identifier: BSD-3-Clause
 * Transpose, rung 6: padded as rung 3, but a thread asks for all of its 16 entries before it puts
 * the first one away. A store between two loads, or a test that may branch, and the loads wait for
 * each other: then too few bytes are underway to fill the memory. */

extern "C" __global__ void transpose_ahead(const float *in, float *out, int n, int ld)
{
    __shared__ float tile[64][65];
    const int x = threadIdx.x % 64, y = threadIdx.x / 64, x0 = blockIdx.x * 64,
              y0 = blockIdx.y * 64;
    float v[16];
    in += (size_t)(y0 + y) * ld + x0 + x;
    if (x0 + 64 <= n && y0 + 64 <= n) { /* the whole tile: no tests */
#pragma unroll
        for (int i = 0; i < 16; i++)
            v[i] = in[(size_t)4 * i * ld];
    } else {
        for (int i = 0; i < 16; i++)
            v[i] = x0 + x < n && y0 + y + 4 * i < n ? in[(size_t)4 * i * ld] : 0;
    }
#pragma unroll
    for (int i = 0; i < 16; i++)
        tile[y + 4 * i][x] = v[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; i++)
        if (y0 + x < n && x0 + y + 4 * i < n)
            out[(size_t)(x0 + y + 4 * i) * ld + y0 + x] = tile[x][y + 4 * i];
}
