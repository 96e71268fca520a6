/* SPDX-License-Identifier: BSD-3-Clause
 * cuBLAS for the measuring programs, opened at run time. Products on device memory only. */
#include "perf.h"

#include <dlfcn.h>

static void *cublas_handle;
static int (*cublas_gemm_ex)(void *handle, int ta, int tb, int m, int n, int k, const void *alpha,
                             const void *a, int a_type, int lda, const void *b, int b_type, int ldb,
                             const void *beta, void *c, int c_type, int ldc, int compute, int algo);

void *cublas_library(char *why, size_t bytes)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
    void *lib = NULL;
    for (size_t i = 0; !lib && i < sizeof names / sizeof names[0]; i++)
        lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        snprintf(why, bytes, "libcublas not found (set LD_LIBRARY_PATH)");
    return lib;
}

bool cublas_open(void *stream, char *why, size_t bytes)
{
    void *lib = cublas_library(why, bytes);
    if (!lib)
        return false;
    int (*create)(void **) = (int (*)(void **))dlsym(lib, "cublasCreate_v2");
    int (*set_stream)(void *, void *) = (int (*)(void *, void *))dlsym(lib, "cublasSetStream_v2");
    *(void **)(void *)&cublas_gemm_ex = dlsym(lib, "cublasGemmEx");
    if (!create || !set_stream || !cublas_gemm_ex || create(&cublas_handle) != 0 ||
        set_stream(cublas_handle, stream) != 0) {
        snprintf(why, bytes, "cuBLAS does not start");
        return false;
    }
    return true;
}

int cublas_gemm(enum tb_type ab, enum tb_type c_type, bool tf32, char ta, char tb, int64_t m,
                int64_t n, int64_t k, const double *alpha, gpu_ptr a, int64_t lda, gpu_ptr b,
                int64_t ldb, const double *beta, gpu_ptr c, int64_t ldc)
{
    enum { COMPUTE_32F = 68, COMPUTE_32F_TF32 = 77, COMPUTE_64F = 70, ALGO_DEFAULT = -1 };
    static const int types[TB_TYPES] = {
        [TB_F16] = 2, [TB_BF16] = 14, [TB_F32] = 0, [TB_F64] = 1, [TB_C32] = 4, [TB_C64] = 5};
    const bool wide = ab == TB_F64 || ab == TB_C64;
    const float alpha_f[2] = {(float)alpha[0], (float)alpha[1]};
    const float beta_f[2] = {(float)beta[0], (float)beta[1]};
    const int compute = wide ? COMPUTE_64F : tf32 ? COMPUTE_32F_TF32 : COMPUTE_32F;
    return cublas_gemm_ex(cublas_handle,
                          ta == 'n'   ? 0
                          : ta == 't' ? 1
                                      : 2,
                          tb == 'n'   ? 0
                          : tb == 't' ? 1
                                      : 2,
                          (int)m, (int)n, (int)k, wide ? (const void *)alpha : alpha_f,
                          (const void *)a, types[ab], (int)lda, (const void *)b, types[ab],
                          (int)ldb, wide ? (const void *)beta : beta_f, (void *)c, types[c_type],
                          (int)ldc, compute, ALGO_DEFAULT);
}
