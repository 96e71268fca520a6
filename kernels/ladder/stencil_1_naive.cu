/* SPDX-License-Identifier: BSD-3-Clause
 * Five-point stencil, rung 1: out = in + (left + right + up + down - 4 in) / 8, a thread for each
 * point; neighbours come through the caches. Points outside of the grid are zero. */

extern "C" __global__ void __launch_bounds__(256)
    stencil_naive(const float *in, float *out, int n, int ld)
{
    const int x = blockIdx.x * 64 + threadIdx.x % 64;
    for (int i = 0; i < 8; i++) {
        const int y = blockIdx.y * 32 + threadIdx.x / 64 + 4 * i;
        if (x >= n || y >= n)
            continue;
        const float *p = in + (size_t)y * ld + x;
        const float around = (x > 0 ? p[-1] : 0) + (x + 1 < n ? p[1] : 0) + (y > 0 ? p[-ld] : 0) +
                             (y + 1 < n ? p[ld] : 0);
        out[(size_t)y * ld + x] = *p + 0.125f * (around - 4 * *p);
    }
}
