// SPDX-License-Identifier: BSD-3-Clause
// The way of one operand from device memory into shared memory. In shared memory both operands look the
// same: BK lines, one per k, of WIDTH elements of the computation (rows of op(A), columns of op(B)). An
// operand that lies the other way in memory is transposed on this way, one that is to be conjugated
// is conjugated; whatever lies outside of the matrix becomes zero and is not read.
#pragma once

#include "elem.cuh"
#include "smem.h"

namespace tb {

// ALONG: neighbours along a line of the tile are neighbours in memory (element (w, k) at w + k ld);
// else neighbours in k are (k + w ld). Every thread of the block moves COUNT groups of V elements that are
// neighbours in memory. load() fetches into registers, store() puts them down one step later.
template <class E, int WIDTH, int BK, int THREADS, bool ALONG> class tile_loader
{
    using stored = typename E::stored;
    using computed = typename E::computed;
    static constexpr int SHARE = WIDTH * BK / THREADS; // elements of one thread
    static constexpr int V = SHARE < 16 / (int)sizeof(stored) ? SHARE : 16 / (int)sizeof(stored);
    static constexpr int COUNT = SHARE / V;
    static constexpr int LINE = TB_SMEM_LINE(WIDTH, (int)sizeof(computed));
    // What the next group of a thread lies further on, in w or in k.
    static constexpr int STEP = ALONG ? THREADS * V / WIDTH : THREADS * V / BK;
    static_assert(SHARE * THREADS == WIDTH * BK && V * COUNT == SHARE, "the tile divides evenly");
    static_assert(!ALONG || (WIDTH % V == 0 && THREADS * V % WIDTH == 0), "groups step in k");
    static_assert(ALONG || (BK % V == 0 && THREADS * V % BK == 0), "groups step in w");

    const stored *src; // this thread's first element in the current step of k
    int64_t ld;
    int width_left;     // of the tile inside of the matrix, from this thread's first element on
    int w, k;           // of that element, in the tile
    bool wide;          // whole groups may be read at once
    stored held[COUNT][V];

  public:
    // `origin`: element (0, 0) of op(X); `first`: where the tile begins along `width`.
    __device__ tile_loader(const stored *origin, int64_t ld_, int64_t first, int64_t width) : ld(ld_)
    {
        const int t = threadIdx.x;
        w = ALONG ? t % (WIDTH / V) * V : t / (BK / V);
        k = ALONG ? t / (WIDTH / V) : t % (BK / V) * V;
        src = origin + (ALONG ? first + w + k * ld : (first + w) * ld + k);
        width_left = (width - first < WIDTH ? (int)(width - first) : WIDTH) - w;
        const bool aligned = (reinterpret_cast<uint64_t>(origin) | ld * sizeof(stored)) % (V * sizeof(stored)) == 0;
        wide = aligned && width - first >= WIDTH;
    }

    // Fetches the next BK steps of k, of which `k_left` are inside of the matrix.
    __device__ void load(int64_t k_left)
    {
        const int64_t step = STEP * ld;
        __builtin_assume(__isGlobal(src));
        if (wide && k_left >= BK) {
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                *reinterpret_cast<pack<stored, V> *>(held[i]) =
                    *reinterpret_cast<const pack<stored, V> *>(src + i * step);
        } else {
            const int k_in = (k_left < BK ? (int)k_left : BK) - k;
#pragma unroll
            for (int i = 0; i < COUNT; i++)
#pragma unroll
                for (int v = 0; v < V; v++) {
                    const int dw = ALONG ? v : i * STEP, dk = ALONG ? i * STEP : v;
                    if (dw < width_left && dk < k_in)
                        held[i][v] = src[i * step + v];
                    else
                        clear(held[i][v]);
                }
        }
        src += ALONG ? BK * ld : BK;
    }

    __device__ void store(computed *tile, bool conj) const
    {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            pack<computed, V> out;
#pragma unroll
            for (int v = 0; v < V; v++) {
                out.v[v] = E::widen(held[i][v]);
                if (conj)
                    conjugate(out.v[v]);
            }
            if (ALONG) {
                *reinterpret_cast<pack<computed, V> *>(tile + (k + i * STEP) * LINE + w) = out;
            } else {
#pragma unroll
                for (int v = 0; v < V; v++)
                    tile[(k + v) * LINE + w + i * STEP] = out.v[v];
            }
        }
    }
};

} // namespace tb
