// SPDX-License-Identifier: BSD-3-Clause
// Compiles the rows of kernels.def that belong to one image; the build names it by TB_ONLY_<image>.
#include "gemm_simt.cuh"

#define KERNEL(NAME, AB, C, TA, TB, BM, BN, BK, TM, TN, THREADS, BLOCKS_SM, RATE, CC_MIN, CC_MAX)    \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_SM)                               \
        NAME(const __grid_constant__ tb_gemm_params p)                                             \
    {                                                                                              \
        static_assert(sizeof(tb::AB::computed) <= 16, "");                                         \
        tb::gemm_simt<tb::AB, tb::C, TA, TB, BM, BN, BK, TM, TN, THREADS>::run(p);                 \
    }
#define KERNEL_SM80(...)
#define KERNEL_SM90(...)
#include "kernels.def"
