// SPDX-License-Identifier: BSD-3-Clause
// Triangles: C = alpha op(A) C in place, or the solution of op(A) X = alpha C, from the left or the right;
// and the missing half of a square. The triangle is seen as W: from the left, lower, in the order in which
// it is gone through. Small ones: a thread has a row or column of C in registers, W is in shared memory.
// Large ones go panel by panel through rows or columns of C in shared memory. Nothing is inverted, and
// entries that do not count are not multiplied: no zero of a triangle meets an infinity.
#pragma once

#include <stdint.h>
#include "elem.cuh"
#include "kparams.h"
#include "smem.h"

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

// That it is global memory must be said: the compiler sees a number.
template <class T> __device__ T *global_at(uint64_t at)
{
    T *p = reinterpret_cast<T *>(at);
    __builtin_assume(__isGlobal(p));
    return p;
}

template <class E, int ORDER, int THREADS> struct triangle {
    using T = typename E::computed;

    // Index of A and C at place q of the way through the triangle.
    static __device__ int index(bool lower, int order, int q) { return lower ? q : order - 1 - q; }

    // `count` rows of W from its place `from` on the diagonal on, without the diagonal where that is one; what is
    // beyond them is 0.
    static __device__ void load(const tb_gemm_params &p, bool lower, int from, int count, T *w, T *divisors)
    {
        const T *a = global_at<const T>(p.a);
        const bool right = p.way & TB_WAY_RIGHT, turned = (p.op_a & TB_KOP_T) != 0;
        const int order = (int)p.k;
        for (int t = threadIdx.x; t < ORDER * ORDER; t += THREADS) {
            const int q = t / ORDER, r = t % ORDER;
            T x;
            clear(x);
            if (r <= q && q < count && !(q == r && p.way & TB_WAY_UNIT)) {
                const int64_t i = index(lower, order, from + q), j = index(lower, order, from + r);
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

    static __device__ void solve(bool unit, int count, const T *w, const T *divisors, T (&x)[ORDER])
    {
#pragma unroll
        for (int q = 0; q < ORDER; q++)
            if (q < count) {
                if (!unit)
                    x[q] = over(x[q], divisors + 2 * q);
                const T known = minus(x[q]);
#pragma unroll
                for (int r = q + 1; r < ORDER; r++)
                    mad(x[r], w[r * ORDER + q], known);
            }
    }

    // From the last place on: those before are needed as they were.
    static __device__ void multiply(bool unit, int count, const T *w, T (&x)[ORDER])
    {
#pragma unroll
        for (int q = ORDER - 1; q >= 0; q--)
            if (q < count) {
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
        load(p, lower, 0, order, w, divisors);
        __syncthreads();
        if (v >= vectors)
            return;
        T *c = global_at<T>(p.c) + (right ? v : v * p.ldc);
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
            solve(p.way & TB_WAY_UNIT, order, w, divisors, x);
        else
            multiply(p.way & TB_WAY_UNIT, order, w, x);
#pragma unroll
        for (int q = 0; q < ORDER; q++)
            if (q < order)
                c[index(lower, order, q) * step] = solves ? x[q] : alpha.times(x[q]);
    }
};

// A larger triangle. A block has some rows or columns of C in shared memory and goes through W by panels: what
// the panels before add to one, by all threads, then the panel's own triangle, a thread for each row or
// column of C. Sums are moved to a second level after each panel.
template <class E, int ORDER, int PANEL> struct triangle_wide {
    using T = typename E::computed;
    static constexpr int VECTORS = TB_TRI_VECTORS, PITCH = VECTORS + 1, ROWS = 4, W_PITCH = PANEL + 2;
    static constexpr int THREADS = PANEL / ROWS * VECTORS, SHARE = PANEL * PANEL / THREADS;
    static_assert(VECTORS == 32, "a warp has a lane for each");
    using small = triangle<E, PANEL, THREADS>;

    struct place {
        bool lower, right, turned, solves;
        int order;
        T *x, *w, *own, *divisors; // shared: of C, two blocks of W left of the panel, its own triangle
    };

    static __device__ int slot(const place &at, int s, int &q, int &r)
    {
        const int t = threadIdx.x + s * THREADS;
        const bool along = at.right != at.turned; // lines of memory along the columns of W
        q = along ? t / PANEL : t % PANEL;
        r = along ? t % PANEL : t / PANEL;
        return r * W_PITCH + q;
    }

    // `count` rows of W from q0 on, PANEL columns from r0 on.
    static __device__ void fetch(const tb_gemm_params &p, const place &at, int q0, int count, int r0, T (&next)[SHARE])
    {
        const T *a = global_at<const T>(p.a);
#pragma unroll
        for (int s = 0; s < SHARE; s++) {
            int q, r;
            slot(at, s, q, r);
            clear(next[s]);
            if (q < count) {
                const int64_t i = small::index(at.lower, at.order, q0 + q), j = small::index(at.lower, at.order, r0 + r);
                next[s] = at.right != at.turned ? a[j + i * p.lda] : a[i + j * p.lda];
                if (p.op_a & TB_KOP_R)
                    conjugate(next[s]);
            }
        }
    }

    static __device__ void put(const place &at, T *w, const T (&next)[SHARE])
    {
#pragma unroll
        for (int s = 0; s < SHARE; s++) {
            int q, r;
            const int where = slot(at, s, q, r);
            w[where] = next[s];
        }
    }

    // What columns 0 to q0 of W add to ROWS rows of the panel.
    static __device__ void before(const tb_gemm_params &p, const place &at, int q0, int count, T (&sum)[ROWS])
    {
        const int lane = threadIdx.x % VECTORS, row = threadIdx.x / VECTORS * ROWS;
        T next[SHARE];
        for (int r0 = 0; r0 < q0; r0 += PANEL) {
            const T *here = at.w + r0 / PANEL % 2 * PANEL * W_PITCH;
            T part[ROWS];
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                clear(part[i]);
            if (r0 + PANEL < q0)
                fetch(p, at, q0, count, r0 + PANEL, next);
#pragma unroll 8
            for (int k = 0; k < PANEL; k++) {
                const T x = at.x[(r0 + k) * PITCH + lane];
#pragma unroll
                for (int i = 0; i < ROWS; i++)
                    mad(part[i], here[k * W_PITCH + row + i], x);
            }
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                sum[i] = plus(sum[i], part[i]);
            if (r0 + PANEL < q0)
                put(at, at.w + (r0 / PANEL + 1) % 2 * PANEL * W_PITCH, next);
            __syncthreads();
        }
    }

    static __device__ void own_triangle(bool unit, const place &at, int q0, int count)
    {
        T x[PANEL], *column = at.x + q0 * PITCH + threadIdx.x;
#pragma unroll
        for (int q = 0; q < PANEL; q++)
            x[q] = column[q * PITCH];
        if (at.solves)
            small::solve(unit, count, at.own, at.divisors, x);
        else
            small::multiply(unit, count, at.own, x);
#pragma unroll
        for (int q = 0; q < PANEL; q++)
            column[q * PITCH] = x[q];
    }

    static __device__ void panel(const tb_gemm_params &p, const place &at, int q0)
    {
        const int count = at.order - q0 < PANEL ? at.order - q0 : PANEL;
        T sum[ROWS], *mine = at.x + (q0 + threadIdx.x / VECTORS * ROWS) * PITCH + threadIdx.x % VECTORS;
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            clear(sum[i]);
        if (q0 > 0) {
            T next[SHARE];
            fetch(p, at, q0, count, 0, next);
            put(at, at.w, next);
        }
        small::load(p, at.lower, q0, count, at.own, at.divisors);
        __syncthreads();
        before(p, at, q0, count, sum);
        if (at.solves) {
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                mine[i * PITCH] = plus(mine[i * PITCH], minus(sum[i]));
            __syncthreads();
        }
        if (threadIdx.x < VECTORS)
            own_triangle(p.way & TB_WAY_UNIT, at, q0, count);
        __syncthreads();
        if (!at.solves) // the rows before are still as they were
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                mine[i * PITCH] = plus(mine[i * PITCH], sum[i]);
    }

    // Between C and shared memory; lanes go along the lines of C.
    static __device__ void move(const tb_gemm_params &p, const place &at, bool in)
    {
        const int64_t first = (int64_t)blockIdx.x * VECTORS, left = (at.right ? p.m : p.n) - first;
        const int there = left < VECTORS ? (int)left : VECTORS;
        T *c = global_at<T>(p.c) + (at.right ? first : first * p.ldc);
        const scalar<T> alpha(p.alpha);
#pragma unroll 4
        for (int t = threadIdx.x; t < ORDER * VECTORS; t += THREADS) {
            const int v = at.right ? t % VECTORS : t / ORDER, q = at.right ? t / VECTORS : t % ORDER;
            const int64_t i = small::index(at.lower, at.order, q);
            const bool is = v < there && q < at.order;
            T *far = c + (at.right ? v + i * p.ldc : i + v * p.ldc), value;
            clear(value);
            if (in && is)
                value = at.solves ? alpha.times(*far) : *far;
            if (in)
                at.x[q * PITCH + v] = value;
            else if (is)
                *far = at.solves ? at.x[q * PITCH + v] : alpha.times(at.x[q * PITCH + v]);
        }
    }

    static __device__ void run(const tb_gemm_params &p)
    {
        extern __shared__ __align__(16) unsigned char smem[];
        const bool stored = (p.uplo & TB_KUPLO_SIDE) == TB_KUPLO_LOWER;
        place at;
        at.right = p.way & TB_WAY_RIGHT;
        at.solves = p.way & TB_WAY_SOLVE;
        at.turned = (p.op_a & TB_KOP_T) != 0;
        at.lower = (stored == !at.turned) != at.right;
        at.order = (int)p.k;
        at.x = reinterpret_cast<T *>(smem);
        at.w = at.x + ORDER * PITCH;
        at.own = at.w + 2 * PANEL * W_PITCH;
        at.divisors = at.own + PANEL * PANEL;
        const int panels = (at.order + PANEL - 1) / PANEL;
        move(p, at, true);
        __syncthreads();
        for (int y = 0; y < panels; y++)
            panel(p, at, (at.solves ? y : panels - 1 - y) * PANEL);
        __syncthreads();
        move(p, at, false);
    }
};

// The half of C that is not there, and a real diagonal. A block writes a column, or a row.
template <class E, int THREADS> __device__ void mirror(const tb_gemm_params &p)
{
    using T = typename E::computed;
    T *c = global_at<T>(p.c);
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
