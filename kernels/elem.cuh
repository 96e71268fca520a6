// SPDX-License-Identifier: BSD-3-Clause
// Element types: how a matrix stores one (`stored`), what the kernel computes with (`computed`), the way
// from one to the other, and the few operations a product needs. IEEE arithmetic, subnormals kept.
#pragma once
#include "smem.h"

namespace tb {

// N elements that are loaded or stored by one instruction.
template <class T, int N> struct alignas(sizeof(T) * N) pack {
    T v[N];
};

template <class T> struct plain {
    using stored = T;
    using computed = T;
    static __device__ T widen(T x) { return x; }
    static __device__ T narrow(T x) { return x; }
};

struct F32 : plain<float> {};
struct F64 : plain<double> {};
struct C32 : plain<float2> {};
struct C64 : plain<double2> {};

struct F16 {
    using stored = unsigned short;
    using computed = float;
    static __device__ float widen(stored x)
    {
        float y;
        asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
        return y;
    }
    static __device__ stored narrow(float x)
    {
        stored y;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
        return y;
    }
};

struct BF16 {
    using stored = unsigned short;
    using computed = float;
    static __device__ float widen(stored x) { return __uint_as_float((unsigned)x << 16); }
    // To nearest even; the instruction exists from sm_80 on.
    static __device__ stored narrow(float x)
    {
#if __CUDA_ARCH__ >= 800
        stored y;
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
        return y;
#else
        const unsigned bits = __float_as_uint(x);
        if ((bits & 0x7fffffffu) > 0x7f800000u)
            return (stored)(bits >> 16 | 0x40u); // NaN stays NaN
        return (stored)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
#endif
    }
};

// Sums in FP32 are kept on two levels.
template <class T> constexpr bool folds = false;
template <> constexpr bool folds<float> = true;
template <> constexpr bool folds<float2> = true;

__device__ inline void clear(float &x) { x = 0; }
__device__ inline void clear(double &x) { x = 0; }
__device__ inline void clear(float2 &x) { x = make_float2(0, 0); }
__device__ inline void clear(double2 &x) { x = make_double2(0, 0); }
__device__ inline void clear(unsigned short &x) { x = 0; }

// acc += a b
__device__ inline void mad(float &acc, float a, float b) { acc = fmaf(a, b, acc); }
__device__ inline void mad(double &acc, double a, double b) { acc = fma(a, b, acc); }
__device__ inline void mad(float2 &acc, float2 a, float2 b)
{
    acc.x = fmaf(a.x, b.x, acc.x);
    acc.y = fmaf(a.x, b.y, acc.y);
    acc.x = fmaf(-a.y, b.y, acc.x);
    acc.y = fmaf(a.y, b.x, acc.y);
}
__device__ inline void mad(double2 &acc, double2 a, double2 b)
{
    acc.x = fma(a.x, b.x, acc.x);
    acc.y = fma(a.x, b.y, acc.y);
    acc.x = fma(-a.y, b.y, acc.x);
    acc.y = fma(a.y, b.x, acc.y);
}

// The scalars alpha and beta in the type of the computation, and s x. A scalar that is real by value
// scales re and im apart: 0 i times an infinite part would add a NaN that the plain product has not.
template <class T> struct scalar;
template <> struct scalar<float> {
    float s;
    __device__ scalar(const double v[2]) : s((float)v[0]) {}
    __device__ float times(float x) const { return s * x; }
};
template <> struct scalar<double> {
    double s;
    __device__ scalar(const double v[2]) : s(v[0]) {}
    __device__ double times(double x) const { return s * x; }
};
template <> struct scalar<float2> {
    float re, im;
    __device__ scalar(const double v[2]) : re((float)v[0]), im((float)v[1]) {}
    __device__ float2 times(float2 x) const
    {
        if (im == 0)
            return make_float2(re * x.x, re * x.y);
        return make_float2(re * x.x - im * x.y, re * x.y + im * x.x);
    }
};
template <> struct scalar<double2> {
    double re, im;
    __device__ scalar(const double v[2]) : re(v[0]), im(v[1]) {}
    __device__ double2 times(double2 x) const
    {
        if (im == 0)
            return make_double2(re * x.x, re * x.y);
        return make_double2(re * x.x - im * x.y, re * x.y + im * x.x);
    }
};

__device__ inline float plus(float x, float y) { return x + y; }
__device__ inline double plus(double x, double y) { return x + y; }
__device__ inline float2 plus(float2 x, float2 y) { return make_float2(x.x + y.x, x.y + y.y); }
__device__ inline double2 plus(double2 x, double2 y) { return make_double2(x.x + y.x, x.y + y.y); }

__device__ inline void conjugate(float2 &x) { x.y = -x.y; }
__device__ inline void conjugate(double2 &x) { x.y = -x.y; }
__device__ inline void conjugate(float &) {}
__device__ inline void conjugate(double &) {}

} // namespace tb
