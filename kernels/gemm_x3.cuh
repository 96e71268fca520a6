// SPDX-License-Identifier: BSD-3-Clause
// FP32 products on the 16-bit tensor cores of Hopper, with the error of a plain FP32 product. Operands are
// first packed: rows scaled by powers of two and cut into 16-bit planes, in blocks as shared memory wants them.
// The product sums the planes' products: the leading one leaves the tensor core every 32 of k, since
// that cuts off where it should round; the others are small and stay for 512. While packing, the device finds out
// whether the numbers suit (x3.h); each kernel of a launch returns at once where another's turn is.
#pragma once

#include "elem.cuh"
#include "kparams.h"
#include "order.h"
#include "ptx.cuh"
#include "smem.h"
#include "x3.h"

namespace tb {

__device__ inline float two_to(int e) // -126 <= e <= 127
{
    return __int_as_float((e + 127) << 23);
}

// One operand as a launch sees it: rows of op(A), or columns of op(B), times k.
struct x3_side {
    const float *base;
    int64_t ld, stride;
    int rows, k;
    bool along; // neighbouring rows are neighbours in memory; else neighbours in k are
};

__device__ inline x3_side x3_side_of(const tb_gemm_params &p, int which)
{
    x3_side s;
    s.base = reinterpret_cast<const float *>(which ? p.b : p.a);
    s.ld = which ? p.ldb : p.lda;
    s.stride = which ? p.stride_b : p.stride_a;
    s.rows = (int)(which ? p.n : p.m);
    s.k = (int)p.k;
    s.along = which ? p.op_b & 1 : !(p.op_a & 1);
    return s;
}

// Block number t of a grid over both operands in steps of K_STEP: operand, product, tile of rows, step.
struct x3_where {
    int which, item, tile, step;
    int64_t block; // of rows, over all products
};

template <int K_STEP> __device__ inline x3_where x3_find(const tb_gemm_params &p, const tb_x3_layout &x, uint32_t t)
{
    const uint32_t steps = (uint32_t)((p.k + K_STEP - 1) / K_STEP);
    const uint32_t first = (uint32_t)(x.items[0] * x.tiles[0]) * steps;
    x3_where w;
    w.which = t >= first;
    if (w.which)
        t -= first;
    w.step = (int)(t % steps);
    t /= steps;
    w.block = t;
    const uint32_t tiles = (uint32_t)(w.which ? x.tiles[1] : x.tiles[0]);
    w.tile = (int)(t % tiles);
    w.item = (int)(t / tiles);
    return w;
}

// ---- the largest magnitude of each row ----

constexpr int X3_MOST_K = 128; // of k a block looks at

// 32 loads of each thread are underway at a time.
__device__ inline void x3_most(const tb_gemm_params &p)
{
    __shared__ uint32_t found[TB_X3_TILE];
    const tb_x3_layout x = tb_x3_lay_out(&p, 2);
    const x3_where w = x3_find<X3_MOST_K>(p, x, blockIdx.x);
    const x3_side s = x3_side_of(p, w.which);
    const int rows = s.rows - w.tile * TB_X3_TILE, ks = s.k - w.step * X3_MOST_K;
    const float *from = s.base + w.item * s.stride + (s.along ? w.step * X3_MOST_K * s.ld + w.tile * TB_X3_TILE
                                                              : w.tile * TB_X3_TILE * s.ld + w.step * X3_MOST_K);
    __builtin_assume(__isGlobal(from));
    if (threadIdx.x < TB_X3_TILE)
        found[threadIdx.x] = 0;
    __syncthreads();
    if (s.along) {
        const int r = threadIdx.x % 128, k0 = threadIdx.x / 128;
        uint32_t m = 0;
#pragma unroll 1
        for (int half = 0; half < X3_MOST_K; half += 64) {
            float held[32];
#pragma unroll
            for (int i = 0; i < 32; i++)
                held[i] = r < rows && half + k0 + 2 * i < ks ? from[(half + k0 + 2 * i) * s.ld + r] : 0.0f;
#pragma unroll
            for (int i = 0; i < 32; i++)
                m = max(m, __float_as_uint(held[i]) & 0x7fffffffu);
        }
        atomicMax(&found[r], m);
    } else {
        const int lane = threadIdx.x % 32, r0 = threadIdx.x / 32;
#pragma unroll 1
        for (int half = 0; half < TB_X3_TILE; half += 64) {
            float held[8][4];
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int h = 0; h < 4; h++)
                    held[i][h] = half + r0 + 8 * i < rows && lane + 32 * h < ks ? from[(half + r0 + 8 * i) * s.ld + lane + 32 * h] : 0.0f;
#pragma unroll
            for (int i = 0; i < 8; i++) {
                uint32_t m = 0;
#pragma unroll
                for (int h = 0; h < 4; h++)
                    m = max(m, __float_as_uint(held[i][h]) & 0x7fffffffu);
                m = __reduce_max_sync(0xffffffffu, m);
                if (lane == 0)
                    found[half + r0 + 8 * i] = m;
            }
        }
    }
    __syncthreads();
    uint32_t *most = reinterpret_cast<uint32_t *>(p.scratch + (w.which ? x.most[1] : x.most[0])) + w.block * TB_X3_TILE;
    if (threadIdx.x < TB_X3_TILE && found[threadIdx.x] > most[threadIdx.x])
        atomicMax(most + threadIdx.x, found[threadIdx.x]);
}

// ---- packing ----

// Two neighbours of a row, scaled, into a pair in each plane: number k of A or B (`which`) and the one behind. The planes
// of F16 add up to the number but for its last bits, those of BF16 exactly.
template <int PLANES> __device__ inline void x3_cut(float x, float y, int k, int which, uint32_t (&out)[PLANES])
{
#pragma unroll
    for (int i = 0; i < PLANES; i++) {
        if constexpr (PLANES == 2) {
            const float cx = __uint_as_float(tb_x3_cut(__float_as_uint(x), tb_x3_threshold(k, which, i)));
            const float cy = __uint_as_float(tb_x3_cut(__float_as_uint(y), tb_x3_threshold(k + 1, which, i)));
            out[i] = narrow_pair<F16>(cx, cy); // rounds where it is subnormal only
            x = (x - F16::widen((unsigned short)out[i])) * TB_X3_LO;
            y = (y - F16::widen((unsigned short)(out[i] >> 16))) * TB_X3_LO;
        } else {
            out[i] = narrow_pair<BF16>(x, y);
            x -= __uint_as_float(out[i] << 16);
            y -= __uint_as_float(out[i] & 0xffff0000u);
        }
    }
}

// What a thread, then a block, has seen for the guard.
struct x3_seen {
    uint32_t small, tiny, wide, special;
};

template <int PLANES> struct x3_packer {
    static constexpr int K = TB_X3_SEG, LINE = K + 1, TOP = PLANES == 2 ? TB_X3_TOP_F16 : TB_X3_TOP_BF16;
    static constexpr int LOADS = TB_X3_TILE * K / 256;

    static __device__ void load(const x3_side &s, const x3_where &w, float *tile)
    {
        const int rows = s.rows - w.tile * TB_X3_TILE, ks = s.k - w.step * K;
        const float *from = s.base + w.item * s.stride +
                            (s.along ? w.step * K * s.ld + w.tile * TB_X3_TILE : w.tile * TB_X3_TILE * s.ld + w.step * K);
        __builtin_assume(__isGlobal(from));
        float held[LOADS];
        const int r0 = s.along ? threadIdx.x % 128 : threadIdx.x / 64, k0 = s.along ? threadIdx.x / 128 : threadIdx.x % 64;
        const int dr = s.along ? 0 : 4, dk = s.along ? 2 : 0;
        const int64_t step = s.along ? 2 * s.ld : 4 * s.ld;
        const float *at = from + (s.along ? r0 + k0 * s.ld : r0 * s.ld + k0);
#pragma unroll
        for (int i = 0; i < LOADS; i++)
            held[i] = r0 + i * dr < rows && k0 + i * dk < ks ? at[i * step] : 0.0f;
#pragma unroll
        for (int i = 0; i < LOADS; i++)
            tile[(r0 + i * dr) * LINE + k0 + i * dk] = held[i];
    }

    // Eight neighbours in k, the first number k, of row r, scaled by 2^up, as 16 bytes of each plane.
    static __device__ void write(const float *from, int up, unsigned char *block, int r, int u, int k, int which, x3_seen &seen)
    {
        uint32_t out[4][PLANES];
        const float once = two_to(up / 2), twice = two_to(up - up / 2);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float v[2] = {from[2 * i] * once * twice, from[2 * i + 1] * once * twice};
            if (PLANES == 2)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const bool there = from[2 * i + h] != 0, tiny = fabsf(v[h]) < two_to(TOP + 1 - TB_X3_TINY);
                    seen.small += fabsf(v[h]) < two_to(TOP + 1 - TB_X3_SMALL);
                    seen.tiny += there && tiny;
                    seen.wide |= there && fabsf(v[h]) < two_to(TOP + 1 - TB_X3_WIDE);
                }
            x3_cut<PLANES>(v[0], v[1], k + 2 * i, which, out[i]);
        }
        const int at = r * 64 + (u ^ (r >> 1 & 3)) * 16;
#pragma unroll
        for (int i = 0; i < PLANES; i++)
            *reinterpret_cast<uint4 *>(block + i * TB_X3_PLANE + at) = make_uint4(out[0][i], out[1][i], out[2][i], out[3][i]);
    }

    static __device__ void report(const x3_where &w, const x3_seen &seen, int64_t k, tb_x3_guard *guard)
    {
        __shared__ x3_seen all;
        if (threadIdx.x == 0)
            all = {0, 0, 0, 0};
        __syncthreads();
        const uint32_t small = __reduce_max_sync(0xffffffffu, seen.small), tiny = __reduce_max_sync(0xffffffffu, seen.tiny);
        const uint32_t flags = __reduce_or_sync(0xffffffffu, seen.wide | seen.special << 1);
        if (threadIdx.x % 32 == 0) {
            atomicMax(&all.small, small);
            atomicMax(&all.tiny, tiny);
            atomicOr(&all.wide, flags);
        }
        __syncthreads();
        if (threadIdx.x != 0)
            return;
        if (all.small)
            atomicMax(&guard->small[w.which], all.small);
        if (all.tiny)
            atomicMax(&guard->tiny[w.which], all.tiny);
        if (all.wide & 1)
            atomicOr(&guard->wide, 1);
        if (all.wide & 2)
            atomicOr(&guard->special, 1);
        __threadfence();
        if (atomicAdd(&guard->finished, 1) + 1 != gridDim.x)
            return;
        __threadfence();
        tb_x3_guard now;
        now.special = atomicOr(&guard->special, 0);
        now.wide = atomicOr(&guard->wide, 0);
        for (int i = 0; i < 2; i++) {
            now.small[i] = atomicOr(&guard->small[i], 0);
            now.tiny[i] = atomicOr(&guard->tiny[i], 0);
        }
        guard->path = tb_x3_decide(&now, k);
    }

    static __device__ void run(const tb_gemm_params &p)
    {
        __shared__ float tile[TB_X3_TILE * LINE];
        tb_x3_guard *guard = reinterpret_cast<tb_x3_guard *>(p.scratch);
        if (PLANES == 3 && guard->path != TB_X3_BF16)
            return;
        const tb_x3_layout x = tb_x3_lay_out(&p, PLANES);
        const x3_where w = x3_find<K>(p, x, blockIdx.x);
        const x3_side s = x3_side_of(p, w.which);
        const uint32_t *most =
            reinterpret_cast<const uint32_t *>(p.scratch + (w.which ? x.most[1] : x.most[0])) + w.block * TB_X3_TILE;
        unsigned char *packs = reinterpret_cast<unsigned char *>(p.scratch + (w.which ? x.packs[1] : x.packs[0])) +
                               (w.block * x.steps + w.step * (K / TB_X3_STEP)) * (PLANES * TB_X3_PLANE);
        load(s, w, tile);
        __syncthreads();
        const int lane = threadIdx.x % 32, u = lane % 4;
        const bool whole = (w.step + 1) * K <= s.k;
        x3_seen seen = {0, 0, 0, 0};
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int r = half * 64 + threadIdx.x / 32 * 8 + lane / 4;
            const uint32_t top = most[r];
            x3_seen here = {0, 0, 0, top >= 0x7f800000u};
            const int up = here.special ? 0 : TOP - tb_x3_exponent(top, TOP);
#pragma unroll
            for (int kb = 0; kb < K / TB_X3_STEP; kb++)
                if (w.step * (K / TB_X3_STEP) + kb < x.steps)
                    write(tile + r * LINE + kb * TB_X3_STEP + u * 8, up, packs + kb * (PLANES * TB_X3_PLANE), r, u,
                          w.step * K + kb * TB_X3_STEP + u * 8, w.which, here);
            if (top == 0 || !whole)
                here.small = 0; // nothing to lose; no segment to count on
#pragma unroll
            for (int d = 1; d < 4; d *= 2) {
                here.small += __shfl_xor_sync(0xffffffffu, here.small, d);
                here.tiny += __shfl_xor_sync(0xffffffffu, here.tiny, d);
            }
            seen.small = max(seen.small, here.small);
            seen.tiny = max(seen.tiny, here.tiny);
            seen.wide |= here.wide;
            seen.special |= here.special;
        }
        if (PLANES == 2)
            report(w, seen, p.k, guard);
    }
};

// ---- the product ----

template <int PLANES> struct planes;
template <> struct planes<2> {
    using type = F16;
};
template <> struct planes<3> {
    using type = BF16;
};

// PAIR = 2: the blocks of a cluster compute tiles that are neighbours in n; each fetches half of the common
// block of A for both.
template <int PLANES, int PAIR, int LEAVE = TB_X3_LEAVE> struct gemm_x3 {
    static constexpr int BM = TB_X3_TILE, BN = TB_X3_TILE, GROUPS = 2, STAGES = TB_X3_STAGES(PLANES);
    static constexpr int SIDE = PLANES * TB_X3_PLANE, STAGE = 2 * SIDE;
    static constexpr int LEVEL_AT = STAGES * STAGE, BARS_AT = LEVEL_AT + BM * BN * 4;
    static constexpr int ACC = 64; // sums of a thread: 64 columns of C by 128 rows in a warpgroup
    static constexpr int EVERY = TB_X3_FOLD / TB_X3_STEP;
    static constexpr int TOP = PLANES == 2 ? TB_X3_TOP_F16 : TB_X3_TOP_BF16;
    static constexpr uint32_t PATH = PLANES == 2 ? TB_X3_F16 : TB_X3_BF16;
    using E = typename planes<PLANES>::type;
    static_assert(BARS_AT + STAGES * 16 == TB_X3_BYTES(PLANES), "");

    struct place {
        int row, col, item; // of tiles
    };

    static __device__ place find(const tb_gemm_params &p, uint32_t t, uint32_t rank)
    {
        const uint32_t rows = (uint32_t)((p.m + BM - 1) / BM), cols = (uint32_t)((p.n + BN * PAIR - 1) / (BN * PAIR));
        const tb_order32_place at = tb_order32(t, rows, cols, p.band > 0 ? p.band : TB_ORDER_BAND);
        return {(int)at.row, (int)(PAIR * at.col + rank), (int)at.item};
    }

    static __device__ uint32_t count(const tb_gemm_params &p)
    {
        return (uint32_t)((p.m + BM - 1) / BM) * (uint32_t)((p.n + BN * PAIR - 1) / (BN * PAIR)) * (uint32_t)p.batch;
    }

    static __device__ void feed(const tb_gemm_params &p, uint32_t smem, uint32_t rank)
    {
        const tb_x3_layout x = tb_x3_lay_out(&p, PLANES);
        int stage = 0;
        uint32_t phase = 0;
        for (uint32_t t = blockIdx.x / PAIR, n = count(p); t < n; t += gridDim.x / PAIR) {
            const place at = find(p, t, rank);
            // A tile beyond the last column exists in pairs only; it reads what the last one does.
            const int64_t col = at.col < x.tiles[1] ? at.col : x.tiles[1] - 1;
            const int64_t block_a = ((x.items[0] > 1 ? at.item : 0) * x.tiles[0] + at.row) * x.steps;
            const int64_t block_b = ((x.items[1] > 1 ? at.item : 0) * x.tiles[1] + col) * x.steps;
            uint64_t a = p.scratch + x.packs[0] + block_a * SIDE + (PAIR == 2 ? rank * (SIDE / 2) : 0);
            uint64_t b = p.scratch + x.packs[1] + block_b * SIDE;
#pragma unroll 1
            for (int s = 0; s < (int)x.steps; s++, a += SIDE, b += SIDE) {
                const uint32_t full = smem + BARS_AT + stage * 16, to = smem + stage * STAGE;
                bar_wait(full + 8, phase ^ 1);
                bar_expect(full, STAGE);
                copy_block(to + SIDE, b, SIDE, full);
                if (PAIR == 2)
                    copy_block_all(to + rank * (SIDE / 2), a, SIDE / 2, full, 3);
                else
                    copy_block(to, a, SIDE, full);
                if (++stage == STAGES) {
                    stage = 0;
                    phase ^= 1;
                }
            }
        }
    }

    static __device__ void release(uint32_t full)
    {
        const int lane = threadIdx.x % 32;
        if (PAIR == 2) {
            if (lane < 2)
                bar_arrive_at(full + 8, lane);
        } else if (lane == 0) {
            bar_arrive(full + 8);
        }
    }

    // One product of planes i of B and j of A over LEAVE of k; `add` says whether the first step adds.
    static __device__ __forceinline__ void planes_product(float (&d)[ACC], uint64_t x, uint64_t y, int i, int j, int add)
    {
#pragma unroll
        for (int k = 0; k < LEAVE / 16; k++)
            mma_step<E, BM, false, false>::run(d, x + (i * TB_X3_PLANE + k * 32) / 16, y + (j * TB_X3_PLANE + k * 32) / 16,
                                               k > 0 || add);
    }

    // Adds to the second level of this thread's sums, which is private to it.
    static __device__ void fold(uint32_t level, bool first, const float (&sum)[ACC], const float (&cross)[ACC])
    {
        const float scale = PLANES == 2 ? 1 / TB_X3_LO : 1.0f;
#pragma unroll
        for (int i = 0; i < ACC; i += 4) {
            float v[4];
#pragma unroll
            for (int h = 0; h < 4; h++)
                v[h] = fmaf(cross[i + h], scale, sum[i + h]);
            if (!first) {
                const float4 old = level_load(level + i * 512);
                v[0] += old.x, v[1] += old.y, v[2] += old.z, v[3] += old.w;
            }
            asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(level + i * 512), "f"(v[0]), "f"(v[1]), "f"(v[2]),
                         "f"(v[3])
                         : "memory");
        }
    }

    static __device__ float4 level_load(uint32_t at)
    {
        float4 v;
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(at) : "memory");
        return v;
    }

    // LEAVE of k, from number h of the stage on. `add`: the cross sums hold something.
    static __device__ __forceinline__ void half_step(float (&lead)[ACC], float (&cross)[ACC], float (&sum)[ACC], uint32_t at,
                                                     int group, int h, int add)
    {
        const uint64_t x = mma_tile_64(at + SIDE + group * (64 * 64)) + h / 8, y = mma_tile_64(at) + h / 8;
        mma_fence();
        planes_product(lead, x, y, 0, 0, 0);
        mma_commit();
        if (PLANES == 3) {
            planes_product(cross, x, y, 0, 2, add);
            planes_product(cross, x, y, 1, 1, 1);
            planes_product(cross, x, y, 2, 0, 1);
        }
        planes_product(cross, x, y, 0, 1, PLANES == 3 || add);
        planes_product(cross, x, y, 1, 0, 1);
        mma_commit();
        mma_wait_for<1>(lead);
#pragma unroll
        for (int i = 0; i < ACC; i++)
            sum[i] += lead[i];
    }

    static __device__ void multiply(int steps, uint32_t smem, uint32_t level, int group, int &stage, uint32_t &phase)
    {
        float lead[ACC], cross[ACC], sum[ACC];
        uint32_t before = 0;
        for (int s0 = 0; s0 < steps; s0 += EVERY) {
            const int n = steps - s0 < EVERY ? steps - s0 : EVERY;
#pragma unroll
            for (int i = 0; i < ACC; i++)
                sum[i] = 0;
            for (int s = 0; s < n; s++) {
                const uint32_t full = smem + BARS_AT + stage * 16, at = smem + stage * STAGE;
                bar_wait(full, phase);
#pragma unroll
                for (int h = 0; h < TB_X3_STEP; h += LEAVE) {
                    half_step(lead, cross, sum, at, group, h, h > 0 || s > 0);
                    // Whatever read the stage before is done by now.
                    if (h == 0 && before)
                        release(before);
                }
                before = full;
                if (++stage == STAGES) {
                    stage = 0;
                    phase ^= 1;
                }
            }
            mma_wait_for<0>(cross);
            release(before);
            before = 0;
            fold(level, s0 == 0, sum, cross);
        }
    }

    static __device__ int own_row(int b) { return 8 * b + threadIdx.x % 4 * 2; }
    static __device__ int own_col() { return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4; }

    // 2^e as a double, for any e that two scales make.
    static __device__ double wide_two_to(int e) { return __hiloint2double((e + 1023) << 20, 0); }

    // alpha s 2^e + beta c. A usual scale loses nothing; beyond, everything is rounded once, as the result is.
    static __device__ float entry(const tb_gemm_params &p, float s, int e, float old)
    {
        if (e >= -60 && e <= 60) {
            const float product = (float)p.alpha[0] * (s * two_to(e));
            return p.beta_zero ? product : fmaf((float)p.beta[0], old, product);
        }
        const double product = p.alpha[0] * s * wide_two_to(e);
        return (float)(p.beta_zero ? product : fma(p.beta[0], (double)old, product));
    }

    // Rows i, i + 1 and columns j, j + 8 of the tile, for each eighth row.
    static __device__ void finish(const tb_gemm_params &p, const place &at, int group, uint32_t level)
    {
        const tb_x3_layout x = tb_x3_lay_out(&p, PLANES);
        float *c = reinterpret_cast<float *>(p.c) + at.item * p.stride_c + (int64_t)at.col * BN * p.ldc + (int64_t)at.row * BM;
        __builtin_assume(__isGlobal(c));
        const uint32_t *most_a = reinterpret_cast<const uint32_t *>(p.scratch + x.most[0]) +
                                 ((x.items[0] > 1 ? at.item : 0) * x.tiles[0] + at.row) * BM;
        const uint32_t *most_b = reinterpret_cast<const uint32_t *>(p.scratch + x.most[1]) +
                                 ((x.items[1] > 1 ? at.item : 0) * x.tiles[1] + at.col) * BN;
        const int64_t rows = p.m - (int64_t)at.row * BM, cols = p.n - (int64_t)at.col * BN;
        const bool pairs = (reinterpret_cast<uint64_t>(c) | p.ldc * sizeof(float)) % 8 == 0;
        const int j0 = 64 * group + own_col();
        const int eb[2] = {tb_x3_exponent(most_b[j0], TOP) - 2 * TOP, tb_x3_exponent(most_b[j0 + 8], TOP) - 2 * TOP};
#pragma unroll 4
        for (int b = 0; b < ACC / 4; b++) {
            const int i = own_row(b);
            const float4 sums = level_load(level + b * 2048);
            const float s[4] = {sums.x, sums.y, sums.z, sums.w};
            const uint2 top = *reinterpret_cast<const uint2 *>(most_a + i);
            const int ea[2] = {tb_x3_exponent(top.x, TOP), tb_x3_exponent(top.y, TOP)};
            const bool one = i < rows, two = i + 1 < rows;
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int j = j0 + 8 * h;
                float *to = c + j * p.ldc + i;
                pack<float, 2> v = {{0, 0}};
                if (!p.beta_zero && j < cols) {
                    if (pairs && two) {
                        v = *reinterpret_cast<pack<float, 2> *>(to);
                    } else {
                        v.v[0] = one ? to[0] : 0;
                        v.v[1] = two ? to[1] : 0;
                    }
                }
                v.v[0] = entry(p, s[2 * h], ea[0] + eb[h], v.v[0]);
                v.v[1] = entry(p, s[2 * h + 1], ea[1] + eb[h], v.v[1]);
                if (j >= cols)
                    continue;
                if (pairs && two) {
                    *reinterpret_cast<pack<float, 2> *>(to) = v;
                } else {
                    if (one)
                        to[0] = v.v[0];
                    if (two)
                        to[1] = v.v[1];
                }
            }
        }
    }

    static __device__ void consume(const tb_gemm_params &p, uint32_t smem, uint32_t rank)
    {
        // The same in all lanes, which the compiler cannot see: so the addresses of tiles stay in uniform registers.
        const int group = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0) - 1;
        const uint32_t level = smem + LEVEL_AT + (group * ACC * 128 + threadIdx.x % 128 * 4) * 4;
        int stage = 0;
        uint32_t phase = 0;
        for (uint32_t t = blockIdx.x / PAIR, n = count(p); t < n; t += gridDim.x / PAIR) {
            multiply((int)((p.k + TB_X3_STEP - 1) / TB_X3_STEP), smem, level, group, stage, phase);
            const place at = find(p, t, rank);
            if ((int64_t)at.col * BN < p.n)
                finish(p, at, group, level);
        }
    }

    static __device__ void run(const tb_gemm_params &p)
    {
        extern __shared__ __align__(1024) unsigned char dynamic[]; // the swizzle counts from such addresses
        if (reinterpret_cast<const tb_x3_guard *>(p.scratch)->path != PATH)
            return;
        const uint32_t smem = smem_address(dynamic), rank = PAIR == 2 ? cluster_rank() : 0;
        if (threadIdx.x == 0) {
            for (int i = 0; i < STAGES; i++) {
                bar_init(smem + BARS_AT + i * 16, 1);
                bar_init(smem + BARS_AT + i * 16 + 8, GROUPS * 4 * PAIR);
            }
            bar_init_done();
        }
        __syncthreads();
        if (PAIR == 2)
            cluster_sync(); // nobody's barriers are used before they are ready
        if (threadIdx.x < 128) {
            registers_less<40>();
            if (threadIdx.x == 0)
                feed(p, smem, rank);
            __syncwarp();
        } else {
            registers_more<232>();
            consume(p, smem, rank);
        }
        __syncwarp();
        if (PAIR == 2) // a block whose shared memory the other still writes must not end
            cluster_sync();
    }
};

} // namespace tb
