// SPDX-License-Identifier: BSD-3-Clause
// Compiles the rows of kernels.def that work on triangles of one type; the build names it by TB_ONLY_<image>.
#include "tri.cuh"

template <class E, int MIRROR, int ORDER, int THREADS> struct choice {
    static __device__ void run(const tb_gemm_params &p) { tb::triangle<E, ORDER, THREADS>::run(p); }
};
template <class E, int ORDER, int THREADS> struct choice<E, 1, ORDER, THREADS> {
    static __device__ void run(const tb_gemm_params &p) { tb::mirror<E, THREADS>(p); }
};

#define KERNEL(...)
#define KERNEL_SM80(...)
#define KERNEL_SM90(...)
#define KERNEL_TRI(NAME, AB, MIRROR, ORDER, THREADS, CC_MIN, CC_MAX)                                     \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME(const __grid_constant__ tb_gemm_params p) \
    {                                                                                                    \
        choice<tb::AB, MIRROR, ORDER, THREADS>::run(p);                                                  \
    }
#include "kernels.def"
