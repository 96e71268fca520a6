// SPDX-License-Identifier: BSD-3-Clause
// Compiles the rows of kernels.def of the sm_90 family that belong to one image; the build names it by
// TB_ONLY_<image>. Code for any other architecture has none of them.
#include "gemm_sm90.cuh"

#if defined __CUDA_ARCH_FEAT_SM90_ALL
#define KERNEL(...)
#define KERNEL_SM80(...)
#define KERNEL_SM90(NAME, AB, C, TA, TB, BM, BN, STAGES, PAIR, BLOCKS_SM, RATE)                       \
    extern "C" __global__ void __launch_bounds__(TB_SM90_THREADS(BN), BLOCKS_SM)                   \
        NAME(const __grid_constant__ tb_gemm_params p, const __grid_constant__ tb::tensor_map map_a,    \
             const __grid_constant__ tb::tensor_map map_b, const __grid_constant__ tb::tensor_map map_c) \
    {                                                                                              \
        tb::gemm_sm90<tb::AB, tb::C, TA, TB, BM, BN, STAGES, PAIR>::run(p, &map_a, &map_b, &map_c);    \
    }
#define KERNEL_X3(...)
#define KERNEL_PART(...)
#define KERNEL_TRI(...)
#define KERNEL_DMMA(...)
#include "kernels.def"
#endif
