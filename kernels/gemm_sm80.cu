// SPDX-License-Identifier: BSD-3-Clause
// Compiles the rows of kernels.def of the sm_80 family that belong to one image; the build names it by
// TB_ONLY_<image>. Code for older architectures has none of them.
#include "gemm_sm80.cuh"

#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 800
#define KERNEL(...)
#define KERNEL_SM90(...)
#define KERNEL_SM80(NAME, AB, C, TA, TB, BM, BN, STAGES, BLOCKS_SM, RATE)                             \
    extern "C" __global__ void __launch_bounds__(TB_SM80_THREADS(BM, BN), BLOCKS_SM)               \
        NAME(const __grid_constant__ tb_gemm_params p)                                             \
    {                                                                                              \
        tb::gemm_sm80<tb::AB, tb::C, TA, TB, BM, BN, STAGES>::run(p);                              \
    }
#define KERNEL_X3(...)
#define KERNEL_PART(...)
#define KERNEL_TRI(...)
#define KERNEL_DMMA(...)
#include "kernels.def"
#endif
