// SPDX-License-Identifier: BSD-3-Clause
// Compiles the rows of kernels.def of the family of FP64 tensor cores that belong to one image; the build names
// it by TB_ONLY_<image>. Code for architectures without them has none.
#include "gemm_dmma.cuh"

#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 800 && __CUDA_ARCH__ < 1100
#define KERNEL(...)
#define KERNEL_SM80(...)
#define KERNEL_SM90(...)
#define KERNEL_DMMA(NAME, AB, TA, TB, BM, BN, WM, WN, STAGES, GROUPS, BLOCKS_SM, RATE)                                \
    extern "C" __global__ void __launch_bounds__((GROUPS) * TB_DMMA_THREADS(BM, BN, WM, WN), BLOCKS_SM)                  \
        NAME(const __grid_constant__ tb_gemm_params p)                                                      \
    {                                                                                                         \
        tb::gemm_dmma<tb::AB, TA, TB, BM, BN, WM, WN, STAGES, GROUPS, BLOCKS_SM == 1 && GROUPS == 1>::run(p);             \
    }
#define KERNEL_X3(...)
#define KERNEL_PART(...)
#define KERNEL_TRI(...)
#include "kernels.def"
#endif
