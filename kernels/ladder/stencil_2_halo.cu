/* SPDX-License-Identifier: BSD-3-Clause
 * Five-point stencil, rung 2: a tile of 64 x 32 points with its rim of one point in shared memory.
 * The rim costs 10% more reads, which L2 serves; each point is fetched once otherwise. Rim points
 * outside of the grid are zero. */

extern "C" __global__ void __launch_bounds__(256)
    stencil_halo(const float *in, float *out, int n, int ld)
{
    __shared__ float tile[34][66];
    const int x0 = blockIdx.x * 64, y0 = blockIdx.y * 32, t = threadIdx.x;
    const bool inside = x0 > 0 && y0 > 0 && x0 + 64 < n && y0 + 32 < n;
    /* the tile itself first, in aligned lines, all loads under way at once; then the rim */
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int x = t % 64, y = t / 64 + 4 * i;
        tile[y + 1][x + 1] =
            inside || (x0 + x < n && y0 + y < n) ? in[(size_t)(y0 + y) * ld + x0 + x] : 0;
    }
    if (t < 192) {
        const int x = t < 128 ? t % 64 : t < 160 ? -1 : 64, y = t < 64 ? -1 : t < 128 ? 32 : t % 32;
        const int gx = x0 + x, gy = y0 + y;
        tile[y + 1][x + 1] = gx >= 0 && gy >= 0 && gx < n && gy < n ? in[(size_t)gy * ld + gx] : 0;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int x = t % 64, y = t / 64 + 4 * i;
        const float here = tile[y + 1][x + 1];
        const float around =
            tile[y + 1][x] + tile[y + 1][x + 2] + tile[y][x + 1] + tile[y + 2][x + 1];
        if (inside || (x0 + x < n && y0 + y < n))
            out[(size_t)(y0 + y) * ld + x0 + x] = here + 0.125f * (around - 4 * here);
    }
}
