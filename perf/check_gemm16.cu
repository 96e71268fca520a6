// SPDX-License-Identifier: BSD-3-Clause
// Helpers of bench_gemm16.c on the device: fresh data, and a product judged against sums in double.
// Types: 0 f16, 1 bf16, 2 f32 (enum tb_type).
#include <stdint.h>
#include "../kernels/elem.cuh"
#include "../kernels/kparams.h"

__device__ static uint32_t mix(uint64_t x)
{
    x ^= x >> 33, x *= 0xff51afd7ed558ccdull, x ^= x >> 33, x *= 0xc4ceb9fe1a85ec53ull, x ^= x >> 33;
    return (uint32_t)x;
}

// spread 0: U(-1, 1); 1: U(0, 1); 2: NaN; 3: U(-1, 1) times 2^(-12 .. 12)
extern "C" __global__ void fill(void *to, uint64_t count, uint64_t seed, int type, int spread)
{
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const uint32_t r = mix(i + seed * 0x9e3779b97f4a7c15ull);
        float x = (float)(r >> 8) * 0x1p-24f;
        if (spread != 1)
            x = 2 * x - 1;
        if (spread == 2)
            x = __uint_as_float(0x7fffffffu);
        if (spread == 3)
            x = ldexpf(x, (int)(r & 255) % 25 - 12);
        if (type == 0)
            ((uint16_t *)to)[i] = tb::F16::narrow(x);
        else if (type == 1)
            ((uint16_t *)to)[i] = tb::BF16::narrow(x);
        else
            ((float *)to)[i] = x;
    }
}

__device__ static double get(const void *p, int64_t i, int type)
{
    if (type == 0)
        return tb::F16::widen(((const uint16_t *)p)[i]);
    if (type == 1)
        return tb::BF16::widen(((const uint16_t *)p)[i]);
    return ((const float *)p)[i];
}

struct verdict {
    unsigned long long worst;  // bits of the largest error, in units of `unit`
    double squares;
    unsigned long long count, outside, classes; // entries; written beside C; NaN or Inf differ
    int i, j, item;            // a place with classes or outside
};

// Every step-th row and column of C (with what lies between m and ldc where step is 1) against `old`.
extern "C" __global__ void judge(tb_gemm_params p, const void *old, int ab, int c, int step, double unit, verdict *v)
{
    const int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * step, j = (int64_t)blockIdx.y * step;
    const int64_t item = blockIdx.z;
    if (i >= p.ldc)
        return;
    const int64_t at = item * p.stride_c + j * p.ldc + i;
    const void *out = (const void *)p.c;
    if (i >= p.m) {
        const bool same = c == 2 ? ((const uint32_t *)out)[at] == ((const uint32_t *)old)[at]
                                 : ((const uint16_t *)out)[at] == ((const uint16_t *)old)[at];
        if (!same) {
            atomicAdd(&v->outside, 1ull);
            v->i = (int)i, v->j = (int)j, v->item = (int)item;
        }
        return;
    }
    double sum = 0, size = 0;
    for (int64_t l = 0; l < p.k; l++) {
        const double a = get((const void *)p.a, item * p.stride_a + (p.op_a & 1 ? l + i * p.lda : i + l * p.lda), ab);
        const double b = get((const void *)p.b, item * p.stride_b + (p.op_b & 1 ? j + l * p.ldb : l + j * p.ldb), ab);
        sum += a * b;
        size += fabs(a * b);
    }
    double want = p.alpha[0] * sum, scale = fabs(p.alpha[0]) * size;
    if (!p.beta_zero) {
        const double x = get(old, at, c);
        want += p.beta[0] * x;
        scale += fabs(p.beta[0] * x);
    }
    const double got = get(out, at, c);
    // Half the distance of the smallest halves is no error of the product.
    const double off = fmax(fabs(got - want) - (c == 0 && fabs(want) < 0x1p-13 ? 0x1p-25 : 0), 0.0);
    const double error = isfinite(got) ? scale > 0 ? off / scale / unit : off : INFINITY;
    if (!(error < 1e30)) {
        atomicAdd(&v->classes, 1ull);
        v->i = (int)i, v->j = (int)j, v->item = (int)item;
        return;
    }
    atomicMax(&v->worst, (unsigned long long)__double_as_longlong(error));
    atomicAdd(&v->squares, error * error);
    atomicAdd(&v->count, 1ull);
}

// How many entries differ in any bit.
extern "C" __global__ void differ(const uint32_t *x, const uint32_t *y, uint64_t words, unsigned long long *count)
{
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step)
        if (x[i] != y[i])
            atomicAdd(count, 1ull);
}
