/* SPDX-License-Identifier: BSD-3-Clause
 * Direct convolution with a 9 x 9 filter, rung 1: a thread for each point, 81 reads through the
 * caches. The filter is symmetric and computed in place: 1 / (1 + |dx| + |dy|). Points outside are
 * zero. */

extern "C" __global__ void __launch_bounds__(256)
    conv_naive(const float *in, float *out, int n, int ld)
{
    const int x = blockIdx.x * 32 + threadIdx.x % 32, y = blockIdx.y * 32 + threadIdx.x / 32;
    for (int i = 0; i < 32; i += 8) {
        float sum = 0;
#pragma unroll
        for (int dy = -4; dy <= 4; dy++)
#pragma unroll
            for (int dx = -4; dx <= 4; dx++) {
                const float weight = 1.0f / (1 + (dx < 0 ? -dx : dx) + (dy < 0 ? -dy : dy));
                const int sx = x + dx, sy = y + i + dy;
                sum +=
                    sx >= 0 && sy >= 0 && sx < n && sy < n ? weight * in[(size_t)sy * ld + sx] : 0;
            }
        if (x < n && y + i < n)
            out[(size_t)(y + i) * ld + x] = sum;
    }
}
