/* SPDX-License-Identifier: BSD-3-Clause
 * Reduction, rung 1: a block of 1024 adds up 1024 numbers in shared memory, half as many threads at
 * each of ten steps, with a barrier after each. out[block] gets the sum. */

extern "C" __global__ void __launch_bounds__(1024)
    reduce_tree(const float *in, float *out, int64_t n)
{
    __shared__ float part[1024];
    const int64_t i = (int64_t)blockIdx.x * 1024 + threadIdx.x;
    part[threadIdx.x] = i < n ? in[i] : 0;
    __syncthreads();
    for (int half = 512; half > 0; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = part[0];
}
