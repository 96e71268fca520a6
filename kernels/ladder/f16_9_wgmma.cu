/* SPDX-License-Identifier: BSD-3-Clause
 * Rung 9 (sm_90a): the copy engine fills the ring, the tensor cores read shared memory themselves.
 * One thread asks for tiles, two warpgroups multiply 64 x 256 each; barriers in memory count bytes
 * that came and stages that are free, so that no thread of the loop computes an address, loads a
 * fragment or waits for another warp. Lines of 128 bytes lie under the engine's own swizzle. */
#include "../elem.cuh"
#include "../ptx.cuh"

struct alignas(64) wgmma_map {
    uint64_t opaque[16]; /* as the driver encodes a matrix: address, sizes, pitch, box, swizzle */
};

extern "C" __global__ void __launch_bounds__(384, 1)
    f16_wgmma(const __grid_constant__ wgmma_map a, const __grid_constant__ wgmma_map b, float *c,
              int m, int n, int k, int ldc)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    constexpr int STAGES = 4, A_BYTES = 128 * 128, STAGE = A_BYTES + 256 * 128, GROUP = 8;
    extern __shared__ __align__(1024) unsigned char ring[];
    const uint32_t smem = tb::smem_address(ring), bars = smem + STAGES * STAGE;
    const int rows = (m + 127) / 128, cols = (n + 255) / 256, steps = (k + 63) / 64;
    const int band = blockIdx.x / (GROUP * cols) * GROUP, in_band = blockIdx.x % (GROUP * cols);
    const int high = rows - band < GROUP ? rows - band : GROUP;
    const int row0 = (band + in_band % high) * 128, col0 = in_band / high * 256;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            tb::bar_init(bars + 16 * i, 1);     /* filled */
            tb::bar_init(bars + 16 * i + 8, 2); /* free: said by both groups */
        }
        tb::bar_init_done();
    }
    __syncthreads();
    const int group = threadIdx.x / 128 - 1;
    if (group < 0) {
        tb::registers_less<40>();
        for (int s = 0; threadIdx.x == 0 && s < steps; s++) {
            const uint32_t to = smem + s % STAGES * STAGE, full = bars + s % STAGES * 16;
            tb::bar_wait(full + 8, s / STAGES % 2 ^ 1);
            tb::bar_expect(full, STAGE); /* also what lies outside: it comes as zeros */
            tb::copy_in(to, &a, full, 64 * s, row0, 0);
            for (int i = 0; i < 4; i++)
                tb::copy_in(to + A_BYTES + 8192 * i, &b, full, col0 + 64 * i, 64 * s, 0);
        }
        return;
    }
    tb::registers_more<232>();
    float sum[128];
    for (int s = 0; s < steps; s++) {
        const uint32_t at = smem + s % STAGES * STAGE, full = bars + s % STAGES * 16;
        const uint64_t x = tb::mma_tile<false>(at + 8192 * group);
        const uint64_t y = tb::mma_tile<true>(at + A_BYTES);
        tb::bar_wait(full, s / STAGES % 2);
        tb::mma_fence();
#pragma unroll
        for (int i = 0; i < 4; i++) /* 16 of k: 32 bytes along a line of A, 16 lines of B */
            tb::mma_step<tb::F16, 256, false, true>::run(sum, x + 2 * i, y + 128 * i, s + i > 0);
        tb::mma_commit();
        tb::mma_wait<1>(); /* this step runs on while the one before is given back */
        if (s > 0 && threadIdx.x % 128 == 0)
            tb::bar_arrive(bars + (s - 1) % STAGES * 16 + 8);
    }
    tb::mma_wait<0>();
    const int row = row0 + 64 * group + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < 64; i++) { /* pairs of neighbours in rows `row` and `row` + 8 */
        const int y = row + i % 2 * 8, x = col0 + i / 2 * 8 + threadIdx.x % 4 * 2;
        float *to = c + (size_t)y * ldc + x;
        if (y < m && x + 1 < n)
            *(float2 *)to = make_float2(sum[2 * i], sum[2 * i + 1]);
        else if (y < m && x < n)
            *to = sum[2 * i];
    }
#endif
}
