/* SPDX-License-Identifier: BSD-3-Clause
 * Direct convolution, rung 2: a tile of 32 x 32 points and its rim of 4 in shared memory, zero
 * outside of the image; a thread computes 4 points below each other and reuses each value it reads
 * for up to 4 of them. */

extern "C" __global__ void __launch_bounds__(256)
    conv_halo(const float *in, float *out, int n, int ld)
{
    __shared__ float tile[40][40];
    const int x0 = blockIdx.x * 32 - 4, y0 = blockIdx.y * 32 - 4;
    for (int i = threadIdx.x; i < 40 * 40; i += 256) {
        const int x = x0 + i % 40, y = y0 + i / 40;
        tile[i / 40][i % 40] = x >= 0 && y >= 0 && x < n && y < n ? in[(size_t)y * ld + x] : 0;
    }
    __syncthreads();
    const int x = threadIdx.x % 32, y = threadIdx.x / 32 * 4;
    float sum[4] = {};
#pragma unroll
    for (int dx = -4; dx <= 4; dx++)
#pragma unroll
        for (int line = 0; line < 12; line++) {
            const float v = tile[y + line][x + 4 + dx];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int dy = line - 4 - i;
                if (dy >= -4 && dy <= 4)
                    sum[i] += v * (1.0f / (1 + (dx < 0 ? -dx : dx) + (dy < 0 ? -dy : dy)));
            }
        }
    for (int i = 0; i < 4; i++)
        if (x0 + 4 + x < n && y0 + 4 + y + i < n)
            out[(size_t)(y0 + 4 + y + i) * ld + x0 + 4 + x] = sum[i];
}
