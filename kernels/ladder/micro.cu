/* SPDX-License-Identifier: BSD-3-Clause
 * Two small measurements: what a load costs when neighbouring threads read words `stride` apart, in
 * global memory (sectors fetched and not used) and in shared memory (threads that meet in a bank
 * wait for each other). */

extern "C" __global__ void __launch_bounds__(256)
    load_stride(const float *in, float *out, int64_t n, int stride)
{
    const int64_t first = (int64_t)blockIdx.x * 1024 + threadIdx.x;
    float v[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        v[i] = first + i * 256 < n ? in[(first + i * 256) * stride] : 0;
    const float sum = v[0] + v[1] + v[2] + v[3];
    if (sum == 12345.0f) /* never: the loads must stay, a store would be measured too */
        *out = sum;
}

extern "C" __global__ void __launch_bounds__(256) smem_stride(float *out, int rounds, int stride)
{
    __shared__ float tile[2048];
    for (int i = threadIdx.x; i < 2048; i += 256)
        tile[i] = (float)i;
    __syncthreads();
    const uint32_t at = smem_address(tile) + (threadIdx.x * stride % 1024) * 4;
    float sum = 0;
    for (int n = 0; n < rounds; n++)
#pragma unroll
        for (int i = 0; i < 16; i++) {
            float v;
            asm volatile("ld.volatile.shared.f32 %0, [%1];" : "=f"(v) : "r"(at + i * 128));
            sum += v;
        }
    if (sum == 12345.0f)
        *out = sum;
}
