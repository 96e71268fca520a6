// SPDX-License-Identifier: BSD-3-Clause
// The product of 16-bit matrices on Hopper: C = alpha op(A) op(B) + beta C, summed in FP32 by the tensor
// cores. One warp feeds a ring of tiles in shared memory through the tensor copy engine, one or two
// warpgroups multiply. Addresses, pitches and sizes that the engine cannot take are refused by
// the host (kernel_accepts in src/kernel.c), except those of C, which has a slow way out.
//
// A warpgroup computes 64 columns of C: seen by the instruction, its rows are columns of C, so that
// a thread's neighbouring entries are neighbours in memory.
#pragma once

#include "elem.cuh"
#include "kparams.h"
#include "order.h"
#include "ptx.cuh"
#include "smem.h"

namespace tb {

// The maps a launch passes beside the parameters, as the driver encodes them.
struct alignas(64) tensor_map {
    uint64_t opaque[16];
};

// PAIR = 2: the two blocks of a cluster compute tiles that are neighbours in n; each fetches half of
// the common tile of A for both. PAIR = 1: the blocks of a cluster share one tile of C and
// divide k; their sums are added in the order of their rank.
template <class E, class O, bool TA, bool TB, int BM, int BN, int STAGES, int PAIR> struct gemm_sm90 {
    using out_t = typename O::stored;
    static constexpr int BK = TB_SM90_BK, LINE = 128, PIECE = TB_SM90_PIECE;
    static constexpr int GROUPS = BN / 64; // warpgroups that multiply
    static constexpr int THREADS = TB_SM90_THREADS(BN);
    static constexpr int BYTES_A = BM * LINE, BYTES_B = BN * LINE, STAGE = BYTES_A + BYTES_B;
    static constexpr int OUT_AT = STAGES * STAGE, BARS_AT = OUT_AT + GROUPS * 2 * PIECE;
    static constexpr int ACC = BM / 2;                             // sums of a thread
    static constexpr int PIECE_M = LINE / (int)sizeof(out_t);      // rows of C in a piece of 64 columns
    static constexpr int PIECES = BM / PIECE_M, PER = ACC / PIECES; // sums of a thread in one
    static constexpr bool SPLITS = PAIR == 1 && BM <= 128;
    static constexpr bool MOVES_REGISTERS = BM > 128 || BN == 64;
    static constexpr int REGISTERS = BN == 64 ? 216 : 232; // of a thread that multiplies, 40 left to the others
    static constexpr int UNIT = 16 / (int)sizeof(out_t); // the engine writes whole units, also beyond the last row
    // op(A) is read along m and op(B) along n where they are stored so.
    static constexpr bool ACROSS_A = !TA, ACROSS_B = TB;
    static_assert((BN == 64 || BN == 128) && BARS_AT % 8 == 0 && STAGE % 1024 == 0, "");

    struct place {
        int i0, j0, item;
    };

    struct job {
        uint32_t first, step, count; // tiles of this cluster: first, first + step, ... below count
        uint32_t rank, blocks;       // in the cluster
        int k_first, k_end;          // steps of k of this block
    };

    static __device__ job make_job(const tb_gemm_params &p)
    {
        job x;
        x.rank = PAIR == 2 || SPLITS ? cluster_rank() : 0;
        x.blocks = PAIR == 2 || SPLITS ? cluster_blocks() : 1;
        x.first = blockIdx.x / x.blocks;
        x.step = gridDim.x / x.blocks;
        x.count = (uint32_t)((p.m + BM - 1) / BM) * (uint32_t)((p.n + BN * PAIR - 1) / (BN * PAIR)) * (uint32_t)p.batch;
        const int steps = (int)((p.k + BK - 1) / BK);
        x.k_first = SPLITS ? (int)((int64_t)steps * x.rank / x.blocks) : 0;
        x.k_end = SPLITS ? (int)((int64_t)steps * (x.rank + 1) / x.blocks) : steps;
        return x;
    }

    static __device__ place find(const tb_gemm_params &p, uint32_t t, uint32_t rank)
    {
        const uint32_t rows = (uint32_t)((p.m + BM - 1) / BM), cols = (uint32_t)((p.n + BN * PAIR - 1) / (BN * PAIR));
        const tb_order32_place at = tb_order32(t, rows, cols, (uint32_t)p.way >> TB_WAY_BAND);
        return {(int)(at.row * BM), (int)((PAIR == 2 ? 2 * at.col + rank : at.col) * BN), (int)at.item};
    }

    // One box of ROWS lines, or the blocks of 64 it consists of.
    template <bool ACROSS, int ROWS>
    static __device__ void fetch(uint32_t to, const tensor_map *map, uint32_t bar, int first, int k, int item, bool all)
    {
        constexpr int BOXES = ACROSS ? ROWS / 64 : 1;
#pragma unroll
        for (int i = 0; i < BOXES; i++) {
            const int x = ACROSS ? first + 64 * i : k, y = ACROSS ? k : first;
            if (all)
                copy_in_all(to + 8192 * i, map, bar, x, y, item, 3);
            else
                copy_in(to + 8192 * i, map, bar, x, y, item);
        }
    }

    static __device__ void feed(const tb_gemm_params &p, const job &job, const tensor_map *map_a,
                                const tensor_map *map_b, uint32_t smem)
    {
        const bool many_a = p.stride_a != 0, many_b = p.stride_b != 0;
        int stage = 0;
        uint32_t phase = 0;
        for (uint32_t t = job.first; t < job.count; t += job.step) {
            const place at = find(p, t, job.rank);
            const int item_a = many_a ? at.item : 0, item_b = many_b ? at.item : 0;
            // Where all tiles share one of the operands, each begins with another part of k, lest all ask
            // for the same lines of memory at a time.
            const bool skinny = SPLITS && (p.m <= BM || p.n <= BN) && job.k_end > job.k_first;
            int s = job.k_first + (skinny ? (int)(t % (uint32_t)(job.k_end - job.k_first)) : 0);
            for (int i = job.k_first; i < job.k_end; i++) {
                const uint32_t full = smem + BARS_AT + stage * 16, a = smem + stage * STAGE;
                bar_wait(full + 8, phase ^ 1);
                bar_expect(full, STAGE);
                fetch<ACROSS_B, BN>(a + BYTES_A, map_b, full, at.j0, s * BK, item_b, false);
                const int half = PAIR == 2 ? (int)job.rank : 0;
                fetch<ACROSS_A, BM / PAIR>(a + half * (BYTES_A / 2), map_a, full, at.i0 + half * (BM / 2), s * BK, item_a,
                                           PAIR == 2);
                if (++s == job.k_end)
                    s = job.k_first;
                if (++stage == STAGES) {
                    stage = 0;
                    phase ^= 1;
                }
            }
        }
    }

    // Says that this warp needs a stage no more, to all who fill it.
    static __device__ void release(uint32_t full, const job &job)
    {
        const int lane = threadIdx.x % 32;
        if (PAIR == 2) {
            if (lane < 2)
                bar_arrive_at(full + 8, lane);
        } else if (lane == 0) {
            bar_arrive(full + 8);
        }
    }

    static __device__ void multiply(const job &job, uint32_t smem, int group, int &stage, uint32_t &phase, float (&acc)[ACC])
    {
        uint32_t before = 0;
        for (int s = job.k_first; s < job.k_end; s++) {
            const uint32_t full = smem + BARS_AT + stage * 16, a = smem + stage * STAGE;
            const uint64_t y = mma_tile<ACROSS_A>(a), x = mma_tile<ACROSS_B>(a + BYTES_A + group * 8192);
            bar_wait(full, phase);
            mma_fence();
#pragma unroll
            for (int k = 0; k < BK / 16; k++)
                mma_step<E, BM, ACROSS_B, ACROSS_A>::run(acc, x + k * (ACROSS_B ? 2048 : 32) / 16,
                                                         y + k * (ACROSS_A ? 2048 : 32) / 16, k > 0 || s > job.k_first);
            mma_commit();
            mma_wait<1>();
            if (before)
                release(before, job);
            before = full;
            if (++stage == STAGES) {
                stage = 0;
                phase ^= 1;
            }
        }
        mma_wait<0>();
        if (before)
            release(before, job);
    }

    // This thread's entries of 8 x 8 block `b` of a piece: rows i, i + 1 of columns j and j + 8.
    static __device__ int own_row(int b) { return 8 * b + threadIdx.x % 4 * 2; }
    static __device__ int own_col() { return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4; }

    static __device__ void add_old(const tb_gemm_params &p, const out_t *c, int i0, int j0, bool aligned, float beta,
                                   float (&v)[PER])
    {
#pragma unroll
        for (int b = 0; b < PER / 4; b++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int i = i0 + own_row(b), j = j0 + own_col() + 8 * h;
                const out_t *from = c + (int64_t)j * p.ldc + i;
                pack<out_t, 2> old;
                clear(old.v[0]);
                clear(old.v[1]);
                if (aligned && j < p.n && i + 1 < p.m) {
                    old = *reinterpret_cast<const pack<out_t, 2> *>(from);
                } else {
                    if (j < p.n && i < p.m)
                        old.v[0] = from[0];
                    if (j < p.n && i + 1 < p.m)
                        old.v[1] = from[1];
                }
                v[4 * b + 2 * h] += beta * O::widen(old.v[0]);
                v[4 * b + 2 * h + 1] += beta * O::widen(old.v[1]);
            }
    }

    static __device__ void write_piece(uint32_t to, const float (&v)[PER])
    {
        if constexpr (sizeof(out_t) == 2) {
            const int lane = threadIdx.x % 32;
            const int line = threadIdx.x % 128 / 32 * 16 + lane % 16;
#pragma unroll
            for (int b = 0; b < PER / 4; b += 2)
                store_matrices(to + line * LINE + ((b + lane / 16) ^ line % 8) * 16, narrow_pair<O>(v[4 * b], v[4 * b + 1]),
                               narrow_pair<O>(v[4 * b + 2], v[4 * b + 3]), narrow_pair<O>(v[4 * b + 4], v[4 * b + 5]),
                               narrow_pair<O>(v[4 * b + 6], v[4 * b + 7]));
        } else {
#pragma unroll
            for (int b = 0; b < PER / 4; b++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int line = own_col() + 8 * h, unit = own_row(b) / 4;
                    const uint32_t at = to + line * LINE + (unit ^ line % 8) * 16 + own_row(b) % 4 * 4;
                    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(v[4 * b + 2 * h]),
                                 "f"(v[4 * b + 2 * h + 1])
                                 : "memory");
                }
        }
    }

    static __device__ void write_direct(const tb_gemm_params &p, out_t *c, int i0, int j0, const float (&v)[PER])
    {
        using pair = pack<out_t, 2>;
        const bool pairs = (reinterpret_cast<uint64_t>(c) | p.ldc * sizeof(out_t)) % sizeof(pair) == 0;
#pragma unroll
        for (int b = 0; b < PER / 4; b++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int i = i0 + own_row(b), j = j0 + own_col() + 8 * h;
                const pair out = {{O::narrow(v[4 * b + 2 * h]), O::narrow(v[4 * b + 2 * h + 1])}};
                out_t *to = c + (int64_t)j * p.ldc + i;
                if (j >= p.n || i >= p.m)
                    continue;
                if (pairs && i + 1 < p.m) {
                    *reinterpret_cast<pair *>(to) = out;
                } else {
                    to[0] = out.v[0];
                    if (i + 1 < p.m)
                        to[1] = out.v[1];
                }
            }
    }

    static __device__ void finish(const tb_gemm_params &p, const place &at, const tensor_map *map_c, uint32_t out,
                                  int group, uint32_t &turn, const float (&acc)[ACC])
    {
        out_t *c = reinterpret_cast<out_t *>(p.c) + at.item * p.stride_c;
        __builtin_assume(__isGlobal(c));
        const float alpha = (float)p.alpha[0], beta = (float)p.beta[0];
        const bool aligned = map_c != nullptr;
        const int j0 = at.j0 + 64 * group;
#pragma unroll
        for (int piece = 0; piece < PIECES; piece++) {
            const int i0 = at.i0 + piece * PIECE_M;
            float v[PER];
#pragma unroll
            for (int e = 0; e < PER; e++)
                v[e] = alpha * acc[piece * PER + e];
            if (!p.beta_zero)
                add_old(p, c, i0, j0, aligned, beta, v);
            if (!aligned || (i0 + PIECE_M > p.m && p.m % UNIT != 0)) {
                write_direct(p, c, i0, j0, v);
                continue;
            }
            const uint32_t to = out + turn++ % 2 * PIECE;
            const bool leads = threadIdx.x % 128 == 0;
            if (leads)
                copies_out_read<1>();
            bar_sync(1 + group, 128);
            write_piece(to, v);
            fence_async();
            bar_sync(1 + group, 128);
            if (leads && i0 < p.m && j0 < p.n)
                copy_out(map_c, to, i0, j0, at.item);
            if (leads)
                copies_out_commit(); // also where there was none, so that turns and groups keep step
        }
    }

    // Where k is divided: every block puts its sums into its own shared memory (the ring is idle by
    // then), in lines of BM along m, and adds up its part of the columns over all blocks.
    static __device__ void put_sums(uint32_t smem, int group, const float (&acc)[ACC])
    {
#pragma unroll
        for (int b = 0; b < ACC / 4; b++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const uint32_t at = smem + ((64 * group + own_col() + 8 * h) * BM + own_row(b)) * 4;
                asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(acc[4 * b + 2 * h]),
                             "f"(acc[4 * b + 2 * h + 1])
                             : "memory");
            }
    }

    // The loads of all blocks are underway at once; they are added in the order of the blocks.
    static __device__ float4 sum_up(uint32_t at, uint32_t blocks)
    {
        float4 sum = make_float4(0, 0, 0, 0);
        for (uint32_t r = 0; r < blocks; r += 4) {
            float4 x[4];
#pragma unroll
            for (uint32_t h = 0; h < 4; h++)
                x[h] = r + h < blocks ? cluster_load(at, r + h) : make_float4(0, 0, 0, 0);
#pragma unroll
            for (uint32_t h = 0; h < 4; h++)
                if (r + h < blocks)
                    sum.x += x[h].x, sum.y += x[h].y, sum.z += x[h].z, sum.w += x[h].w;
        }
        return sum;
    }

    static __device__ void add_sums(const tb_gemm_params &p, const place &at, const job &job, uint32_t smem)
    {
        using four = pack<out_t, 4>;
        out_t *c = reinterpret_cast<out_t *>(p.c) + at.item * p.stride_c;
        __builtin_assume(__isGlobal(c));
        const float alpha = (float)p.alpha[0], beta = (float)p.beta[0];
        const bool aligned = (reinterpret_cast<uint64_t>(c) | p.ldc * sizeof(out_t)) % sizeof(four) == 0;
        const int first = (int)(BN * job.rank / job.blocks) * (BM / 4), end = (int)(BN * (job.rank + 1) / job.blocks) * (BM / 4);
#pragma unroll 2
        for (int e = first + threadIdx.x - 128; e < end; e += THREADS - 128) {
            const int i = at.i0 + e % (BM / 4) * 4, j = at.j0 + e / (BM / 4);
            if (i >= p.m || j >= p.n)
                continue;
            const float4 sum = sum_up(smem + e * 16, job.blocks);
            const float v[4] = {sum.x, sum.y, sum.z, sum.w};
            out_t *to = c + (int64_t)j * p.ldc + i;
            const bool whole = aligned && i + 3 < p.m;
            four out;
            if (whole && !p.beta_zero)
                out = *reinterpret_cast<const four *>(to);
#pragma unroll
            for (int h = 0; h < 4; h++) {
                float x = alpha * v[h];
                if (!whole && i + h < p.m && !p.beta_zero)
                    out.v[h] = to[h];
                if (!p.beta_zero)
                    x += beta * O::widen(out.v[h]);
                out.v[h] = O::narrow(x);
                if (!whole && i + h < p.m)
                    to[h] = out.v[h];
            }
            if (whole)
                *reinterpret_cast<four *>(to) = out;
        }
    }

    static __device__ void consume(const tb_gemm_params &p, const job &job, const tensor_map *map_c, uint32_t smem)
    {
        const int group = threadIdx.x / 128 - 1;
        const uint32_t out = smem + OUT_AT + group * 2 * PIECE;
        int stage = 0;
        uint32_t phase = 0, turn = 0;
        float acc[ACC];
        for (uint32_t t = job.first; t < job.count; t += job.step) {
            if (SPLITS && job.k_first == job.k_end) {
#pragma unroll
                for (int i = 0; i < ACC; i++)
                    acc[i] = 0;
            }
            multiply(job, smem, group, stage, phase, acc);
            const place at = find(p, t, job.rank);
            if (SPLITS && job.blocks > 1) { // then there is one tile
                bar_sync(3, GROUPS * 128);  // the other warpgroup may still read the ring
                put_sums(smem, group, acc);
                cluster_sync();
                add_sums(p, at, job, smem);
                return;
            }
            finish(p, at, map_c, out, group, turn, acc);
        }
        if (threadIdx.x % 128 == 0)
            copies_out_done();
    }

    static __device__ void run(const tb_gemm_params &p, const tensor_map *map_a, const tensor_map *map_b,
                               const tensor_map *map_c)
    {
        extern __shared__ __align__(1024) unsigned char dynamic[]; // the swizzle counts from such addresses
        const uint32_t smem = smem_address(dynamic);
        const job job = make_job(p);
        if (threadIdx.x == 0) {
            for (int i = 0; i < STAGES; i++) {
                bar_init(smem + BARS_AT + i * 16, 1);
                bar_init(smem + BARS_AT + i * 16 + 8, GROUPS * 4 * PAIR);
            }
            bar_init_done();
            map_prefetch(map_a);
            map_prefetch(map_b);
        }
        __syncthreads();
        if (PAIR == 2)
            cluster_sync(); // nobody's barriers are used before they are ready
        if (threadIdx.x < 128) {
            if (MOVES_REGISTERS)
                registers_less<40>();
            if (threadIdx.x == 0)
                feed(p, job, map_a, map_b, smem);
            __syncwarp();
            if (SPLITS && job.blocks > 1)
                cluster_sync();
        } else {
            if (MOVES_REGISTERS)
                registers_more<REGISTERS>();
            consume(p, job, p.way & TB_WAY_C_MAP ? map_c : nullptr, smem);
        }
        __syncwarp();
        // A block whose shared memory others still use must not end.
        if (PAIR == 2 || (SPLITS && job.blocks > 1))
            cluster_sync();
    }
};

} // namespace tb
