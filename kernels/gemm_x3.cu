// SPDX-License-Identifier: BSD-3-Clause
// Compiles the parts (KERNEL_PART of kernels.def) that a row of FP32 on 16-bit planes is launched as. Code for
// any other architecture has none of them.
#if defined __CUDA_ARCH_FEAT_SM90_ALL
#include "gemm_x3.cuh"

#define KERNEL(...)
#define KERNEL_SM80(...)
#define KERNEL_SM90(...)
#define KERNEL_X3(...)
#define KERNEL_PART(NAME, THREADS, SMEM, BLOCKS_SM, ...)                                           \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_SM)                               \
        NAME(const __grid_constant__ tb_gemm_params p)                                             \
    {                                                                                              \
        tb::__VA_ARGS__(p);                                                                        \
    }
#define KERNEL_TRI(...)
#define KERNEL_DMMA(...)
#include "kernels.def"
#endif
