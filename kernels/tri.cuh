// SPDX-License-Identifier: BSD-3-Clause
// Triangles of small order: C = alpha op(A) C in place, or the solution of op(A) X = alpha C, from the left
// or the right; and the missing half of a square. A thread has a row or column of C in registers, the
// triangle is in shared memory, seen as W: from the left, lower, in the order in which it is gone
// through. Entries that do not count are not multiplied: no zero of a triangle meets an infinity.
#pragma once

#include <stdint.h>
#include "elem.cuh"
#include "kparams.h"

namespace tb {

__device__ inline float minus(float x) { return -x; }
__device__ inline double minus(double x) { return -x; }
__device__ inline float2 minus(float2 x) { return make_float2(-x.x, -x.y); }
__device__ inline double2 minus(double2 x) { return make_double2(-x.x, -x.y); }

// What is kept of a divisor. Real: itself. Complex: which part is larger, the other one over it, and what is
// to be divided by; no square of a part is formed, so that none overflows.
__device__ inline void divisor(float d, float (&out)[2]) { out[0] = d; }
__device__ inline void divisor(double d, double (&out)[2]) { out[0] = d; }
template <class T, class R> __device__ void divisor_complex(T d, T (&out)[2])
{
    const bool wide = fabs(d.x) >= fabs(d.y);
    const R ratio = wide ? d.y / d.x : d.x / d.y;
    out[0].x = ratio;
    out[0].y = wide ? fma(d.y, ratio, d.x) : fma(d.x, ratio, d.y);
    out[1].x = wide ? 1 : 0;
    out[1].y = 0;
}
__device__ inline void divisor(float2 d, float2 (&out)[2]) { divisor_complex<float2, float>(d, out); }
__device__ inline void divisor(double2 d, double2 (&out)[2]) { divisor_complex<double2, double>(d, out); }

__device__ inline float over(float x, const float *d) { return x / d[0]; }
__device__ inline double over(double x, const double *d) { return x / d[0]; }
template <class T> __device__ T over_complex(T x, const T *d)
{
    T y;
    if (d[1].x != 0) {
        y.x = fma(x.y, d[0].x, x.x) / d[0].y;
        y.y = fma(-x.x, d[0].x, x.y) / d[0].y;
    } else {
        y.x = fma(x.x, d[0].x, x.y) / d[0].y;
        y.y = fma(x.y, d[0].x, -x.x) / d[0].y;
    }
    return y;
}
__device__ inline float2 over(float2 x, const float2 *d) { return over_complex(x, d); }
__device__ inline double2 over(double2 x, const double2 *d) { return over_complex(x, d); }

template <class E, int ORDER, int THREADS> struct triangle {
    using T = typename E::computed;

    // Index of A and C at place q of the way through the triangle.
    static __device__ int index(bool lower, int order, int q) { return lower ? q : order - 1 - q; }

    // W, without its diagonal where that is one; places beyond the order are 0 on the way and 1 on the diagonal.
    static __device__ void load(const tb_gemm_params &p, bool lower, T *w, T *divisors)
    {
        const T *a = reinterpret_cast<const T *>(p.a);
        const bool right = p.way & TB_WAY_RIGHT, turned = (p.op_a & TB_KOP_T) != 0;
        const int order = (int)p.k;
        for (int t = threadIdx.x; t < ORDER * ORDER; t += THREADS) {
            const int q = t / ORDER, r = t % ORDER;
            T x;
            clear(x);
            if (r <= q && q < order && !(q == r && p.way & TB_WAY_UNIT)) {
                const int i = index(lower, order, q), j = index(lower, order, r);
                x = right != turned ? a[j + i * p.lda] : a[i + j * p.lda];
                if (p.op_a & TB_KOP_R)
                    conjugate(x);
            }
            w[t] = x;
            if (q == r && p.way & TB_WAY_SOLVE) {
                T pair[2];
                clear(pair[1]);
                divisor(x, pair);
                divisors[2 * q] = pair[0];
                divisors[2 * q + 1] = pair[1];
            }
        }
    }

    static __device__ void solve(const tb_gemm_params &p, const T *w, const T *divisors, T (&x)[ORDER])
    {
        const bool unit = p.way & TB_WAY_UNIT;
        const int order = (int)p.k;
#pragma unroll
        for (int q = 0; q < ORDER; q++)
            if (q < order) {
                if (!unit)
                    x[q] = over(x[q], divisors + 2 * q);
                const T known = minus(x[q]);
#pragma unroll
                for (int r = q + 1; r < ORDER; r++)
                    mad(x[r], w[r * ORDER + q], known);
            }
    }

    // From the last place on: those before are needed as they were.
    static __device__ void multiply(const tb_gemm_params &p, const T *w, T (&x)[ORDER])
    {
        const bool unit = p.way & TB_WAY_UNIT;
        const int order = (int)p.k;
#pragma unroll
        for (int q = ORDER - 1; q >= 0; q--)
            if (q < order) {
                T sum;
                clear(sum);
                if (unit)
                    sum = x[q];
                else
                    mad(sum, w[q * ORDER + q], x[q]);
#pragma unroll
                for (int r = 0; r < q; r++)
                    mad(sum, w[q * ORDER + r], x[r]);
                x[q] = sum;
            }
    }

    static __device__ void run(const tb_gemm_params &p)
    {
        extern __shared__ __align__(16) unsigned char smem[];
        T *w = reinterpret_cast<T *>(smem), *divisors = w + ORDER * ORDER;
        const bool right = p.way & TB_WAY_RIGHT, solves = p.way & TB_WAY_SOLVE;
        const bool stored = (p.uplo & TB_KUPLO_SIDE) == TB_KUPLO_LOWER;
        const bool lower = (stored == !(p.op_a & TB_KOP_T)) != right;
        const int order = (int)p.k;
        const int64_t v = (int64_t)blockIdx.x * THREADS + threadIdx.x, vectors = right ? p.m : p.n;
        load(p, lower, w, divisors);
        __syncthreads();
        if (v >= vectors)
            return;
        T *c = reinterpret_cast<T *>(p.c) + (right ? v : v * p.ldc);
        const int64_t step = right ? p.ldc : 1;
        const scalar<T> alpha(p.alpha);
        T x[ORDER];
#pragma unroll
        for (int q = 0; q < ORDER; q++) {
            clear(x[q]);
            if (q < order)
                x[q] = c[index(lower, order, q) * step];
            if (solves)
                x[q] = alpha.times(x[q]);
        }
        if (solves)
            solve(p, w, divisors, x);
        else
            multiply(p, w, x);
#pragma unroll
        for (int q = 0; q < ORDER; q++)
            if (q < order)
                c[index(lower, order, q) * step] = solves ? x[q] : alpha.times(x[q]);
    }
};

// The half of C that is not there, and a real diagonal. A block writes a column, or a row.
template <class E, int THREADS> __device__ void mirror(const tb_gemm_params &p)
{
    using T = typename E::computed;
    T *c = reinterpret_cast<T *>(p.c);
    const bool lower = (p.uplo & TB_KUPLO_SIDE) == TB_KUPLO_LOWER, real = p.uplo & TB_KUPLO_REAL;
    const int64_t j = blockIdx.x;
    for (int64_t i = j + threadIdx.x; i < p.k; i += THREADS) {
        const int64_t low = i + j * p.ldc, high = j + i * p.ldc;
        T x = c[lower ? low : high];
        if (i == j) {
            if (real) {
                drop_imaginary(x);
                c[low] = x;
            }
            continue;
        }
        if (real)
            conjugate(x);
        c[lower ? high : low] = x;
    }
}

} // namespace tb
