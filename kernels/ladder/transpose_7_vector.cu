/* SPDX-License-Identifier: BSD-3-Clause
 * Transpose, rung 7: 16 bytes at a time everywhere. A thread turns a square of 4 x 4 in its
 * registers; in shared memory groups of four change places by an exclusive or, so that no two lanes
 * meet. */

/* Words at and behind `p` that lie inside; the rest is zero. Lines have room for whole groups. */
__device__ inline float4 transpose_load(const float *p, bool inside)
{
    return inside ? *(const float4 *)p : make_float4(0, 0, 0, 0);
}

extern "C" __global__ void transpose_vector(const float *in, float *out, int n, int ld)
{
    __shared__ float4 tile[64][16];
    const int q = threadIdx.x % 16, r = threadIdx.x / 16, x0 = blockIdx.x * 64,
              y0 = blockIdx.y * 64;
    const int x = x0 + 4 * q, y = y0 + 4 * r;
    const float *from = in + (size_t)y * ld + x;
    alignas(16) float v[4][4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        *(float4 *)v[i] = transpose_load(from + (size_t)i * ld, x < n && y + i < n);
#pragma unroll
    for (int e = 0; e < 4; e++)
        tile[4 * q + e][r ^ q] = make_float4(v[0][e], v[1][e], v[2][e], v[3][e]);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int line = r + 16 * i, at = y0 + 4 * q;
        const float4 w = tile[line][q ^ line / 4];
        float *to = out + (size_t)(x0 + line) * ld + at;
        if (x0 + line < n && at + 3 < n)
            *(float4 *)to = w;
        else if (x0 + line < n) { /* the last one, two or three of a line */
            const float part[4] = {w.x, w.y, w.z, w.w};
            for (int e = 0; e < 4 && at + e < n; e++)
                to[e] = part[e];
        }
    }
}
