// SPDX-License-Identifier: BSD-3-Clause
// Compiles the rows of kernels.def that work on triangles of one type; the build names it by TB_ONLY_<image>.
#include "tri.cuh"

template <class E, int KIND, int ORDER, int THREADS> struct choice {
    static __device__ void run(const tb_gemm_params &p) { tb::triangle<E, ORDER, THREADS>::run(p); }
};
template <class E, int ORDER, int THREADS> struct choice<E, 1, ORDER, THREADS> {
    static __device__ void run(const tb_gemm_params &p) { tb::mirror<E, THREADS>(p); }
};
template <class E, int ORDER, int THREADS> struct choice<E, 2, ORDER, THREADS> {
    using kind = tb::triangle_wide<E, ORDER, TB_TRI_PANEL(THREADS)>;
    static_assert(kind::THREADS == THREADS, "a warp for some rows of a panel");
    static __device__ void run(const tb_gemm_params &p) { kind::run(p); }
};

// Two blocks with 128 registers a thread share a multiprocessor. For these the assembler would have to spill then.
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 1000
#define BOUNDS(THREADS) __launch_bounds__(THREADS, 1)
#else
#define BOUNDS(THREADS) __launch_bounds__(THREADS)
#endif

#define KERNEL(...)
#define KERNEL_SM80(...)
#define KERNEL_SM90(...)
#define KERNEL_TRI(NAME, AB, KIND, ORDER, THREADS, CC_MIN, CC_MAX)                                     \
    extern "C" __global__ void BOUNDS(THREADS) NAME(const __grid_constant__ tb_gemm_params p)            \
    {                                                                                                    \
        choice<tb::AB, KIND, ORDER, THREADS>::run(p);                                                  \
    }
#define KERNEL_X3(...)
#define KERNEL_PART(...)
#define KERNEL_DMMA(...)
#include "kernels.def"
