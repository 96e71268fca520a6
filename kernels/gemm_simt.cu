// SPDX-License-Identifier: BSD-3-Clause
// Compiles the rows of kernels.def that belong to one image; the build names it by TB_ONLY_<image>.
#include "gemm_simt.cuh"

namespace tb {

template <class E> constexpr bool is_bfloat = false;
template <> constexpr bool is_bfloat<BF16> = true;

// Blocks that bound the registers of a thread. Two blocks of 256 threads leave 128 registers, with which
// ptxas spills in 16-bit rows for sm_100, and in bfloat16 ones for sm_90a: there one block has them all.
template <class E> constexpr int resident(int blocks)
{
#if defined __CUDA_ARCH__
    constexpr bool half = sizeof(typename E::stored) == 2, bfloat = is_bfloat<E>;
    if (blocks == 2 && (__CUDA_ARCH__ / 10 == 100 ? half : __CUDA_ARCH__ / 10 == 90 ? bfloat : false))
        return 1;
#endif
    return blocks;
}

} // namespace tb

#define KERNEL(NAME, AB, C, TA, TB, BM, BN, BK, TM, TN, THREADS, BLOCKS_SM, RATE, CC_MIN, CC_MAX)   \
    extern "C" __global__ void __launch_bounds__(THREADS, tb::resident<tb::AB>(BLOCKS_SM))         \
        NAME(const __grid_constant__ tb_gemm_params p)                                             \
    {                                                                                              \
        tb::gemm_simt<tb::AB, tb::C, TA, TB, BM, BN, BK, TM, TN, THREADS>::run(p);                 \
    }
#define KERNEL_SM80(...)
#define KERNEL_SM90(...)
#define KERNEL_X3(...)
#define KERNEL_PART(...)
#define KERNEL_TRI(...)
#define KERNEL_DMMA(...)
#include "kernels.def"
