// SPDX-License-Identifier: BSD-3-Clause
// For bench_sgemm.c, on the device: random FP32 operands of many kinds, and the error of a product against sums
// in double.
#include <stdint.h>

__device__ inline uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

__device__ inline double uniform(uint64_t x)
{
    return ((double)(mix(x) >> 11) + 0.5) * 0x1p-53;
}

__device__ inline double normal(uint64_t x)
{
    return sqrt(-2 * log(uniform(2 * x))) * cospi(2 * uniform(2 * x + 1));
}

// Kinds, in the order of `kinds` in bench_sgemm.c. Element (r, k) of op(X): r + k ld, or k + r ld where `turned`.
// `second`: this is B, whose grading runs the other way.
extern "C" __global__ void fill(float *x, int64_t rows, int64_t ks, int64_t ld, int turned, int kind, int second, uint64_t seed)
{
    for (int64_t t = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; t < rows * ks; t += (int64_t)gridDim.x * blockDim.x) {
        const int64_t r = turned ? t / ks : t % rows, k = turned ? t % ks : t / rows;
        const uint64_t id = seed * 0x1000003 + (uint64_t)(r * ks + k);
        const double at = ks > 1 ? (double)k / (double)(ks - 1) * 2 - 1 : 0; // -1 to 1
        const double way = second ? -at : at;
        double v = 0;
        switch (kind) {
        case 0: v = 2 * uniform(id) - 1; break;
        case 1: v = uniform(id); break;
        case 2: v = normal(id); break;
        case 3: v = normal(id) * exp2(rint(10 * way)); break;
        case 4: v = normal(id) * exp2(rint(30 * way)); break;
        case 5: v = (uniform(id) - 0.5) * exp(3 * normal(id + (1ull << 40))); break;
        case 6: v = (2 * uniform(id) - 1) * (!second && k == (int64_t)(mix(seed + r) % (uint64_t)ks) ? 0x1p60 : 1); break;
        case 7: v = (2 * uniform(id) - 1) * (second ? 1 : 0x1p-126); break;
        case 8: v = (1 + uniform(id)) * (second ? 0x1p-20 : 0x1p126); break;
        case 9: v = (k < ks / 2 || !second ? normal(seed * 0x1000003 + (uint64_t)(r * ks + k % ((ks + 1) / 2))) * (k < ks / 2 || second ? 1 : -1)
                                          : normal(seed * 0x1000003 + (uint64_t)(r * ks + k % ((ks + 1) / 2))) * (1 + 0x1p-10 * uniform(id)));
                break;
        case 10: v = (2 * uniform(id) - 1) * exp2((double)(mix(seed + 7 * r) % 121) - 60); break;
        case 11: v = fabs(normal(id)); break;
        case 12: v = mix(id) % 3 ? 0 : 2 * uniform(id + (1ull << 40)) - 1; break;
        case 13: v = 2 * uniform(id) - 1;
            if (mix(id + (1ull << 41)) % 5003 == 0)
                v = mix(id) % 3 == 0 ? INFINITY : mix(id) % 3 == 1 ? -INFINITY : NAN;
            break;
        case 14: v = 1; break;
        case 15: v = 1 + 0x1.8p-12; break;
        }
        x[turned ? k + r * ld : r + k * ld] = (float)v;
    }
}

struct verdict {
    double worst, squares;
    unsigned long long count, classes;
};

// A warp for each entry (i, j), every STEP of both.
extern "C" __global__ void judge(const float *a, int64_t a_r, int64_t a_k, const float *b, int64_t b_r, int64_t b_k, const float *c,
                                 int64_t ldc, const float *old, int64_t m, int64_t n, int64_t k, float alpha, float beta, int step,
                                 verdict *out)
{
    const int64_t rows = (m + step - 1) / step, cols = (n + step - 1) / step;
    const int lane = threadIdx.x % 32;
    for (int64_t t = (blockIdx.x * (int64_t)blockDim.x + threadIdx.x) / 32; t < rows * cols; t += (int64_t)gridDim.x * blockDim.x / 32) {
        const int64_t i = t % rows * step, j = t / rows * step;
        double sum = 0, size = 0;
        bool special = false;
        for (int64_t l = lane; l < k; l += 32) {
            const double x = (double)a[i * a_r + l * a_k] * b[j * b_r + l * b_k];
            sum += x;
            size += fabs(x);
            special |= !isfinite(x);
        }
        for (int d = 16; d; d /= 2) {
            sum += __shfl_xor_sync(~0u, sum, d);
            size += __shfl_xor_sync(~0u, size, d);
            special |= __shfl_xor_sync(~0u, (int)special, d);
        }
        if (lane)
            continue;
        double want = alpha * sum;
        size *= fabsf(alpha);
        if (beta != 0)
            want += (double)beta * old[j * ldc + i], size += fabs((double)beta * old[j * ldc + i]);
        const double got = c[j * ldc + i];
        atomicAdd(&out->count, 1ull);
        if (special || !isfinite(want) || !isfinite((float)want)) {
            if (isnan(want) ? !isnan(got) : got != (double)(float)want)
                atomicAdd(&out->classes, 1ull);
            continue;
        }
        if (!isfinite(got)) {
            atomicAdd(&out->classes, 1ull);
            continue;
        }
        // A subnormal result cannot be closer than half of its grid.
        const double off = fmax(0.0, fabs(got - want) - 0x1p-150), e = size > 0 ? off / size * 0x1p24 : off > 0 ? INFINITY : 0;
        atomicMax((unsigned long long *)&out->worst, (unsigned long long)__double_as_longlong(e));
        atomicAdd(&out->squares, e * e);
    }
}
