// SPDX-License-Identifier: BSD-3-Clause
// How a warpgroup product of sm_90a adds: one step m64n64k16 (f16 in, FP32 sums) on 64 chosen sums, one a row
// of the tile. Each is c + a0 x 1 + n products of +-2^-e; printed is what is left of the small
// terms, in units of 2^-23, beside the exact value. Needs a Hopper GPU.
#include <cuda_fp16.h>
#include <math.h>
#include <stdio.h>
#include "../kernels/elem.cuh"
#include "../kernels/ptx.cuh"

struct trial {
    float in_sum, in_product; // where the 1 is
    int first, count;         // products of the small term: number `first` to first + count - 1 of the sixteen
    int exponent, sign;
};

// Terms are x y with y = 2^-13 (1 for product 0), so that 2^-26 is within reach of an f16.
__global__ void probe(const trial *trials, float *out)
{
    __shared__ __align__(1024) unsigned char tile[2 * 8192];
    __half *x = (__half *)tile, *y = (__half *)(tile + 8192);
    for (int i = threadIdx.x; i < 8192; i += 128)
        ((uint16_t *)tile)[i] = 0;
    __syncthreads();
    if (threadIdx.x < 64) {
        const int r = threadIdx.x;
        const trial t = trials[r];
        for (int k = 0; k < 16; k++) {
            const int at = r * 64 + ((k / 8) ^ (r % 8)) * 8 + k % 8; // 128-byte swizzle
            float v = 0;
            if (k == 0)
                v = t.in_product;
            if (k >= t.first && k < t.first + t.count)
                v = t.sign * exp2f((float)(13 - t.exponent));
            x[at] = __float2half(v);
            y[at] = __float2half(k == 0 ? 1.0f : 0x1p-13f);
        }
    }
    tb::fence_async();
    __syncthreads();
    float d[32];
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    for (int i = 0; i < 32; i++)
        d[i] = trials[row + (i / 2 % 2) * 8].in_sum;
    tb::mma_fence();
    tb::mma_step<tb::F16, 64, false, false>::run(d, tb::mma_tile<false>(tb::smem_address(x)),
                                                 tb::mma_tile<false>(tb::smem_address(y)), 1);
    tb::mma_commit();
    tb::mma_wait<0>();
    if (threadIdx.x % 4 == 0) {
        out[row] = d[0];
        out[row + 8] = d[2];
    }
}

int main()
{
    trial t[64] = {}, *td;
    float got[64], *od;
    int n = 0;
    for (int where = 0; where < 2; where++)
        for (int sign = 1; sign >= -1; sign -= 2) {
            const float s = where == 0, p = where == 1;
            for (int e = 22; e <= 27; e++)
                t[n++] = {s, p, 1, 1, e, sign};
            for (int e = 24; e <= 27; e++)
                t[n++] = {s, p, 1, 15, e, sign};
            for (int e = 24; e <= 25; e++) // one step of sixteen, or two of eight?
                t[n++] = {s, p, 1, 14, e, sign};
            t[n++] = {s, p, 1, 1, 30, sign};
        }
    if (cudaMalloc(&td, sizeof t) || cudaMalloc(&od, sizeof got) || cudaMemcpy(td, t, sizeof t, cudaMemcpyDefault))
        return 77;
    probe<<<1, 128>>>(td, od);
    if (cudaMemcpy(got, od, sizeof got, cudaMemcpyDefault)) {
        printf("failed: %s\n", cudaGetErrorString(cudaGetLastError()));
        return 1;
    }
    for (int i = 0; i < n; i++)
        printf("1 as %-7s %+d x %2d of 2^-%d: %+.2f of %+.4f units of 2^-23\n", t[i].in_sum ? "sum," : "product,", t[i].sign,
               t[i].count, t[i].exponent, (got[i] - 1.0) * 0x1p23, t[i].sign * t[i].count * exp2(23.0 - t[i].exponent));
    return 0;
}
