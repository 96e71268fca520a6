// SPDX-License-Identifier: BSD-3-Clause
// The tiled product for every type on every architecture: C = alpha op(A) op(B) + beta C. A block computes
// a tile BM x BN of C, a thread TM x TN entries of it in registers; tiles of A and B go through two
// stages of shared memory, the next one underway while the current one is multiplied.
#pragma once

#include <stdint.h>
#include "fold.h"
#include "kparams.h"
#include "order.h"
#include "tile.cuh"
#include "x3.h"

namespace tb {

struct tile_place {
    int64_t item, i0, j0;
};

// Tile number `t` of the launch: product of the batch, first row and column. Rows move fastest in a band.
__device__ inline tile_place place_tile(int64_t t, const tb_gemm_params &p, int64_t bm, int64_t bn)
{
    const int64_t rows = (p.m + bm - 1) / bm, cols = (p.n + bn - 1) / bn;
    const tb_order64_place at = tb_order64(t, rows, cols, p.band > 0 ? p.band : TB_ORDER_BAND);
    return {at.item, at.row * bm, at.col * bn};
}

// Has a tile of C no part in the triangle that is asked for?
__device__ inline bool tile_outside(const tb_gemm_params &p, const tile_place &at, int64_t bm, int64_t bn)
{
    const int side = p.uplo & TB_KUPLO_SIDE;
    return side == TB_KUPLO_LOWER ? at.i0 + bm <= at.j0 : side == TB_KUPLO_UPPER && at.j0 + bn <= at.i0;
}

// Where product `item` has a matrix. That it is global memory must be said: the compiler sees a number.
template <class T> __device__ T *item_base(uint64_t base, uint64_t list, int64_t stride, int64_t item)
{
    T *p = list ? reinterpret_cast<T *>(reinterpret_cast<const uint64_t *>(list)[item])
                : reinterpret_cast<T *>(base) + item * stride;
    __builtin_assume(__isGlobal(p));
    return p;
}

template <class E, class O, bool TA, bool TB, int BM, int BN, int BK, int TM, int TN, int THREADS>
struct gemm_simt {
    using T = typename E::computed;
    using out_t = typename O::stored;

    // A thread's entries are groups of G neighbours (16 bytes of shared memory), the groups of one warp side
    // by side: 8 x 4 lanes. Bit 0 of the lane moves in n and bit 1 in m, so that of every 16 bytes read,
    // two neighbouring lanes read the same and half a warp is served at once.
    static constexpr int G = 16 / (int)sizeof(T);
    static constexpr int LANES_M = 8, LANES_N = 4;
    static constexpr int WARPS_M = BM / (LANES_M * TM), WARPS_N = BN / (LANES_N * TN);
    static_assert(WARPS_M * WARPS_N * 32 == THREADS && TM % G == 0 && TN % G == 0, "the tile divides evenly");

    static constexpr int LINE_A = TB_SMEM_LINE(BM, (int)sizeof(T)), LINE_B = TB_SMEM_LINE(BN, (int)sizeof(T));
    static constexpr int STAGE = BK * (LINE_A + LINE_B);
    static constexpr bool FOLD = folds<T>;
    static_assert(TB_FOLD_LEAST / 2 % BK == 0, "a fold falls between two steps");
    // No routine asks for a triangle of 16-bit matrices, and their rows have no register to spare.
    static constexpr bool TRIANGLES = sizeof(typename E::stored) > 2;

    // First entry of group `g` of this thread in the tile.
    static __device__ int row(int g)
    {
        const int warp = threadIdx.x / 32 % WARPS_M, lane = threadIdx.x / 2 % LANES_M;
        return (warp * TM / G + g) * LANES_M * G + lane * G;
    }
    static __device__ int col(int g)
    {
        const int warp = threadIdx.x / 32 / WARPS_M;
        const int lane = threadIdx.x % 2 + threadIdx.x / 16 % 2 * 2;
        return (warp * TN / G + g) * LANES_N * G + lane * G;
    }

    static __device__ void multiply(const T *stage, T (&acc)[TN][TM])
    {
        const T *a = stage + row(0), *b = stage + BK * LINE_A + col(0);
#pragma unroll
        for (int k = 0; k < BK; k++) {
            pack<T, G> fa[TM / G], fb[TN / G];
#pragma unroll
            for (int g = 0; g < TM / G; g++)
                fa[g] = *reinterpret_cast<const pack<T, G> *>(a + k * LINE_A + g * LANES_M * G);
#pragma unroll
            for (int g = 0; g < TN / G; g++)
                fb[g] = *reinterpret_cast<const pack<T, G> *>(b + k * LINE_B + g * LANES_N * G);
#pragma unroll
            for (int j = 0; j < TN; j++)
#pragma unroll
                for (int i = 0; i < TM; i++)
                    mad(acc[j][i], fa[i / G].v[i % G], fb[j / G].v[j % G]);
        }
    }

    // The second level of this thread's sums; only this thread touches it. `again`: it holds something.
    static __device__ void fold(T *level, bool again, T (&acc)[TN][TM])
    {
        pack<T, G> *mine = reinterpret_cast<pack<T, G> *>(level) + threadIdx.x;
#pragma unroll
        for (int j = 0; j < TN; j++)
#pragma unroll
            for (int g = 0; g < TM / G; g++, mine += THREADS) {
                pack<T, G> sum;
                if (again)
                    sum = *mine;
#pragma unroll
                for (int v = 0; v < G; v++)
                    sum.v[v] = again ? plus(sum.v[v], acc[j][g * G + v]) : acc[j][g * G + v];
                *mine = sum;
            }
    }

    static __device__ void unfold(const T *level, T (&acc)[TN][TM])
    {
        const pack<T, G> *mine = reinterpret_cast<const pack<T, G> *>(level) + threadIdx.x;
#pragma unroll
        for (int j = 0; j < TN; j++)
#pragma unroll
            for (int g = 0; g < TM / G; g++, mine += THREADS)
#pragma unroll
                for (int v = 0; v < G; v++)
                    acc[j][g * G + v] = plus(mine->v[v], acc[j][g * G + v]);
    }

    static __device__ void zero(T (&acc)[TN][TM])
    {
#pragma unroll
        for (int j = 0; j < TN; j++)
#pragma unroll
            for (int i = 0; i < TM; i++)
                clear(acc[j][i]);
    }

    // What of a tile is asked for: entry (i, j) of it where first <= i - j <= last. One with i - j = real_at lies
    // on a diagonal that is real. In the tile, so that small numbers will do.
    struct band {
        int first, last, real_at;
        __device__ band(const tb_gemm_params &p, const tile_place &at) : first(-BN), last(BM), real_at(-BN)
        {
            const int64_t apart = at.j0 - at.i0; // i - j in the tile, on the diagonal
            if (!TRIANGLES || !p.uplo || apart <= -BN || apart >= BM)
                return;
            if ((p.uplo & TB_KUPLO_SIDE) == TB_KUPLO_LOWER)
                first = (int)apart;
            else
                last = (int)apart;
            if (p.uplo & TB_KUPLO_REAL)
                real_at = (int)apart;
        }
        __device__ bool all() const { return first == -BN && last == BM; }
        __device__ bool has(int i, int j) const { return !TRIANGLES || (i - j >= first && i - j <= last); }
    };

    // C = alpha acc + beta C, in the type of the computation, rounded once.
    static __device__ void finish(const tb_gemm_params &p, const tile_place &at, const T (&acc)[TN][TM])
    {
        using group = pack<out_t, G>;
        out_t *c = item_base<out_t>(p.c, p.clist, p.stride_c, at.item);
        const scalar<T> alpha(p.alpha), beta(p.beta);
        const int64_t rows = p.m - at.i0, cols = p.n - at.j0;
        const band inside(p, at);
        const bool wide = rows >= BM && cols >= BN && inside.all() &&
                          (reinterpret_cast<uint64_t>(c) | p.ldc * sizeof(out_t)) % sizeof(group) == 0;
#pragma unroll
        for (int j = 0; j < TN; j++) {
            const int64_t dj = col(j / G) + j % G;
#pragma unroll
            for (int g = 0; g < TM / G; g++) {
                out_t *out = c + (at.j0 + dj) * p.ldc + at.i0 + row(g);
                group old;
                if (wide) {
                    if (!p.beta_zero)
                        old = *reinterpret_cast<group *>(out);
#pragma unroll
                    for (int v = 0; v < G; v++)
                        old.v[v] = entry(alpha, beta, p.beta_zero, acc[j][g * G + v], old.v[v]);
                    *reinterpret_cast<group *>(out) = old;
                } else if (dj < cols) {
#pragma unroll
                    for (int v = 0; v < G; v++)
                        if (row(g) + v < rows && inside.has(row(g) + v, (int)dj)) {
                            if (!p.beta_zero)
                                old.v[v] = out[v];
                            out[v] = entry(alpha, beta, p.beta_zero, acc[j][g * G + v], old.v[v]);
                            if (TRIANGLES && row(g) + v - (int)dj == inside.real_at)
                                drop_imaginary(out[v]);
                        }
                }
            }
        }
    }

    static __device__ out_t entry(const scalar<T> &alpha, const scalar<T> &beta, bool beta_zero, T sum, out_t old)
    {
        const T product = alpha.times(sum);
        return O::narrow(beta_zero ? product : plus(product, beta.times(O::widen(old))));
    }

    static __device__ void run_tile(const tb_gemm_params &p, const tile_place &at, T *stages)
    {
        using stored = typename E::stored;
        // Needed again at the end only; in registers it would cost the loop six.
        __shared__ tile_place kept;
        if (threadIdx.x == 0)
            kept = at;
        T *level = stages + 2 * STAGE;
        const bool conj_a = p.op_a & 2, conj_b = p.op_b & 2;
        tile_loader<E, BM, BK, THREADS, !TA> a(item_base<const stored>(p.a, p.alist, p.stride_a, at.item), p.lda,
                                               at.i0, p.m);
        tile_loader<E, BN, BK, THREADS, TB> b(item_base<const stored>(p.b, p.blist, p.stride_b, at.item), p.ldb,
                                              at.j0, p.n);
        T acc[TN][TM];
        zero(acc);
        int now = 0; // offset of the stage to multiply

        a.load(p.k);
        b.load(p.k);
        a.store(stages, conj_a);
        b.store(stages + BK * LINE_A, conj_b);
        __syncthreads();
        for (int64_t done = BK; done < p.k; done += BK) {
            a.load(p.k - done);
            b.load(p.k - done);
            multiply(stages + now, acc);
            if (FOLD && ((int32_t)done & p.way) == 0) {
                fold(level, done - 1 > p.way, acc);
                zero(acc);
            }
            now = STAGE - now;
            a.store(stages + now, conj_a);
            b.store(stages + now + BK * LINE_A, conj_b);
#ifndef TB_PLANT_RACE
            __syncthreads();
#endif
        }
        multiply(stages + now, acc);
        if (FOLD && p.k - 1 > p.way)
            unfold(level, acc);
        finish(p, kept, acc);
    }

    // A launch has one block for each tile, or a few more.
    static __device__ void run(const tb_gemm_params &p)
    {
        extern __shared__ __align__(16) unsigned char smem[];
        if (p.guard && reinterpret_cast<const tb_x3_guard *>(p.guard)->path != TB_X3_SIMT)
            return;
        const int64_t tiles = ((p.m + BM - 1) / BM) * ((p.n + BN - 1) / BN) * p.batch;
        const int64_t t = (int64_t)blockIdx.y * gridDim.x + blockIdx.x;
        if (t >= tiles)
            return;
        const tile_place at = place_tile(t, p, BM, BN);
        if (!TRIANGLES || !tile_outside(p, at, BM, BN))
            run_tile(p, at, reinterpret_cast<T *>(smem));
    }
};

} // namespace tb
