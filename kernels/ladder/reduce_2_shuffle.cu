/* SPDX-License-Identifier: BSD-3-Clause
 * Reduction, rung 2: a thread first adds 32 numbers of its own, fetched 16 bytes at a time with
 * four loads under way; the sums then meet by shuffles inside a warp, and once in shared memory.
 * One barrier. */

__device__ inline float reduce_warp(float x)
{
    for (int d = 16; d > 0; d /= 2)
        x += __shfl_down_sync(0xffffffffu, x, d);
    return x;
}

extern "C" __global__ void __launch_bounds__(256)
    reduce_shuffle(const float *in, float *out, int64_t n)
{
    __shared__ float part[8];
    const int64_t first = ((int64_t)blockIdx.x * 2048 + threadIdx.x) * 4;
    float sum = 0;
    if (((int64_t)blockIdx.x + 1) * 8192 <= n) {
        float4 v[8];
#pragma unroll
        for (int i = 0; i < 8; i++)
            v[i] = __ldcs((const float4 *)(in + first + i * 1024));
#pragma unroll
        for (int i = 0; i < 8; i++)
            sum += v[i].x + v[i].y + (v[i].z + v[i].w);
    } else {
        for (int i = 0; i < 8; i++)
            for (int j = 0; j < 4; j++)
                sum += first + i * 1024 + j < n ? in[first + i * 1024 + j] : 0;
    }
    sum = reduce_warp(sum);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = reduce_warp(threadIdx.x < 8 ? part[threadIdx.x] : 0);
        if (threadIdx.x == 0)
            out[blockIdx.x] = sum;
    }
}
