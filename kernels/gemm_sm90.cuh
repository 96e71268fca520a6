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
// divide k, their sums are added in the order of their rank; or, without clusters and with a workspace, all
// blocks share the steps of k of the last tiles evenly, wherever in a tile that ends (`leave`, `collect`).
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
    static constexpr bool SPLITS = PAIR == 1 && BM <= 128, SHARES = PAIR == 1;
    // Results of 16 bits wait in half of the registers while the next tile begins.
    // Where that was seen to help.
    static constexpr bool HOLDS = sizeof(out_t) == 2 && (PAIR == 2 || BM == 192 || BN == 64);
    static constexpr int HELD = HOLDS ? ACC / 2 : 1;
    static constexpr bool MOVES_REGISTERS = true;
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
        // Then the tiles from `count` on, whose steps of k, counted through, all blocks share: this one's, taken
        // from the end. So what a block does for the end of another's tile is done first.
        uint32_t steps, at, end;
    };

    // What a block does at a time: steps k_first up to k_end of a tile.
    struct part {
        uint32_t tile;
        int k_first, k_end;
    };

    // Where the share of block `b` begins.
    static __device__ uint32_t share_at(uint32_t shared_steps, uint32_t b)
    {
        return (uint32_t)((uint64_t)shared_steps * b / gridDim.x);
    }

    static __device__ bool next(job &x, part &y)
    {
        if (x.first < x.count) {
            y = {x.first, x.k_first, x.k_end};
            x.first += x.step;
            return true;
        }
        if (!SHARES || x.at >= x.end)
            return false;
        const uint32_t tile = (x.end - 1) / x.steps, begin = tile * x.steps;
        const uint32_t from = x.at > begin ? x.at : begin;
        y = {x.count + tile, (int)(from - begin), (int)(x.end - begin)};
        x.end = from;
        return true;
    }

    // Tiles, or pairs of them.
    static __device__ uint32_t tile_total(const tb_gemm_params &p)
    {
        return (uint32_t)((p.m + BM - 1) / BM) * (uint32_t)((p.n + BN * PAIR - 1) / (BN * PAIR)) * (uint32_t)p.batch;
    }

    static __device__ job make_job(const tb_gemm_params &p)
    {
        job x;
        x.rank = PAIR == 2 || SPLITS ? cluster_rank() : 0;
        x.blocks = PAIR == 2 || SPLITS ? cluster_blocks() : 1;
        x.first = blockIdx.x / x.blocks;
        x.step = gridDim.x / x.blocks;
        x.count = tile_total(p);
        const int steps = (int)((p.k + BK - 1) / BK);
        x.k_first = SPLITS ? (int)((int64_t)steps * x.rank / x.blocks) : 0;
        x.k_end = SPLITS ? (int)((int64_t)steps * (x.rank + 1) / x.blocks) : steps;
        x.steps = (uint32_t)steps;
        x.at = x.end = 0;
        if (SHARES && p.work) {
            const uint32_t rounds = x.count / gridDim.x, whole = rounds > 1 ? (rounds - 1) * gridDim.x : 0;
            const uint32_t shared_steps = (x.count - whole) * x.steps;
            x.at = share_at(shared_steps, blockIdx.x);
            x.end = share_at(shared_steps, blockIdx.x + 1);
            x.count = whole;
        }
        return x;
    }

    static __device__ place find(const tb_gemm_params &p, uint32_t t, uint32_t rank)
    {
        const uint32_t rows = (uint32_t)((p.m + BM - 1) / BM), cols = (uint32_t)((p.n + BN * PAIR - 1) / (BN * PAIR));
        const tb_order32_place at = tb_order32(t, rows, cols, (uint32_t)p.way >> TB_WAY_BAND);
        return {(int)(at.row * BM), (int)((PAIR == 2 ? 2 * at.col + rank : at.col) * BN), (int)at.item};
    }

    // One box of ROWS lines, or the blocks of 64 it consists of. Alone on the device (!ALL), what lies outside
    // of the `size` of the matrix is left out where it is a box: entries of C that come of it are not stored.
    template <bool ACROSS, int ROWS, bool ALL>
    static __device__ void fetch(uint32_t to, const tensor_map *map, uint32_t bar, int first, int size, int k, int item)
    {
        constexpr int BOXES = ACROSS ? ROWS / 64 : 1;
#pragma unroll
        for (int i = 0; i < BOXES; i++) {
            const int x = ACROSS ? first + 64 * i : k, y = ACROSS ? k : first;
            if (ALL)
                copy_in_all(to + 8192 * i, map, bar, x, y, item, 3);
            else if (i == 0 || x < size)
                copy_in(to + 8192 * i, map, bar, x, y, item);
        }
    }

    // The bytes of that. A box along k has no more lines than the matrix (kernel_maps).
    template <bool ACROSS, int ROWS> static __device__ int fetched(int first, int size)
    {
        if (!ACROSS)
            return (size < ROWS ? (size + 7) / 8 * 8 : ROWS) * LINE;
        int boxes = 1;
#pragma unroll
        for (int i = 1; i < ROWS / 64; i++)
            boxes += first + 64 * i < size;
        return boxes * 8192;
    }

    static __device__ void feed(const tb_gemm_params &p, job job, const tensor_map *map_a, const tensor_map *map_b,
                                uint32_t smem)
    {
        const bool many_a = p.stride_a != 0, many_b = p.stride_b != 0;
        const int m = (int)p.m, n = (int)p.n;
        int stage = 0;
        uint32_t phase = 0;
        for (part part; next(job, part);) {
            const place at = find(p, part.tile, job.rank);
            const int item_a = many_a ? at.item : 0, item_b = many_b ? at.item : 0;
            const int bytes = PAIR == 2 ? STAGE : fetched<ACROSS_A, BM>(at.i0, m) + fetched<ACROSS_B, BN>(at.j0, n);
            // Where all tiles share one of the operands, each begins with another part of k, lest all ask
            // for the same lines of memory at a time.
            const bool skinny = SPLITS && (m <= BM || n <= BN) && part.k_end > part.k_first;
            int s = part.k_first + (skinny ? (int)(part.tile % (uint32_t)(part.k_end - part.k_first)) : 0);
            for (int i = part.k_first; i < part.k_end; i++) {
                const uint32_t full = smem + BARS_AT + stage * 16, a = smem + stage * STAGE;
                bar_wait(full + 8, phase ^ 1);
                bar_expect(full, bytes);
                fetch<ACROSS_B, BN, false>(a + BYTES_A, map_b, full, at.j0, PAIR == 2 ? INT32_MAX : n, s * BK, item_b);
                const int half = PAIR == 2 ? (int)job.rank : 0;
                fetch<ACROSS_A, BM / PAIR, PAIR == 2>(a + half * (BYTES_A / 2), map_a, full, at.i0 + half * (BM / 2), m,
                                                      s * BK, item_a);
                if (++s == part.k_end)
                    s = part.k_first;
                if (++stage == STAGES) {
                    stage = 0;
                    phase ^= 1;
                }
            }
        }
        next_launch_may_begin();
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

    // Where a warpgroup is in the ring, and the stage whose products may still be underway (0: none).
    struct ring {
        int stage;
        uint32_t phase, before;
    };

    // Issues one step; returns when the step before it is done.
    static __device__ void step(const job &job, uint32_t smem, int group, ring &at, bool add, float (&acc)[ACC])
    {
        const uint32_t full = smem + BARS_AT + at.stage * 16, a = smem + at.stage * STAGE;
        const uint64_t y = mma_tile<ACROSS_A>(a), x = mma_tile<ACROSS_B>(a + BYTES_A + group * 8192);
        bar_wait(full, at.phase);
        mma_fence();
#pragma unroll
        for (int k = 0; k < BK / 16; k++)
            mma_step<E, BM, ACROSS_B, ACROSS_A>::run(acc, x + k * (ACROSS_B ? 2048 : 32) / 16,
                                                     y + k * (ACROSS_A ? 2048 : 32) / 16, k > 0 || add);
        mma_commit();
        mma_wait<1>();
        if (at.before)
            release(at.before, job);
        at.before = full;
        if (++at.stage == STAGES) {
            at.stage = 0;
            at.phase ^= 1;
        }
    }

    static __device__ void drain(const job &job, ring &at)
    {
        mma_wait<0>();
        if (at.before)
            release(at.before, job);
        at.before = 0;
    }

    static __device__ void multiply(const job &job, const part &part, uint32_t smem, int group, ring &at, float (&acc)[ACC])
    {
        for (int s = part.k_first; s < part.k_end; s++)
            step(job, smem, group, at, s > part.k_first, acc);
        drain(job, at);
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

    // Pairs of 16-bit results of piece `piece`.
    template <int N> static __device__ void write_pairs(uint32_t to, const uint32_t (&v)[N], int piece)
    {
        const int lane = threadIdx.x % 32;
        const int line = threadIdx.x % 128 / 32 * 16 + lane % 16;
#pragma unroll
        for (int b = 0; b < PER / 4; b += 2) {
            const int e = piece * (PER / 2) + 2 * b;
            store_matrices(to + line * LINE + ((b + lane / 16) ^ line % 8) * 16, v[e], v[e + 1], v[e + 2], v[e + 3]);
        }
    }

    static __device__ void write_piece(uint32_t to, const float (&v)[PER])
    {
        if constexpr (sizeof(out_t) == 2) {
            uint32_t pairs[PER / 2];
#pragma unroll
            for (int e = 0; e < PER / 2; e++)
                pairs[e] = narrow_pair<O>(v[2 * e], v[2 * e + 1]);
            write_pairs(to, pairs, 0);
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
            const uint32_t to = room(out, group, turn);
            write_piece(to, v);
            send(p, map_c, to, i0, j0, at.item, group);
        }
    }

    // A place for a piece on its way out that the engine has left.
    static __device__ uint32_t room(uint32_t out, int group, uint32_t &turn)
    {
        if (threadIdx.x % 128 == 0)
            copies_out_read<1>();
        bar_sync(1 + group, 128);
        return out + turn++ % 2 * PIECE;
    }

    static __device__ void send(const tb_gemm_params &p, const tensor_map *map_c, uint32_t from, int i0, int j0, int item,
                                int group)
    {
        fence_async();
        bar_sync(1 + group, 128);
        if (threadIdx.x % 128 != 0)
            return;
        if (i0 < p.m && j0 < p.n)
            copy_out(map_c, from, i0, j0, item);
        copies_out_commit(); // also where there was none, so that turns and groups keep step
    }

    // ---- results that wait while the next tile begins ----

    static __device__ void hold(const tb_gemm_params &p, const float (&acc)[ACC], uint32_t (&held)[HELD])
    {
        const float alpha = (float)p.alpha[0];
#pragma unroll
        for (int e = 0; e < HELD; e++)
            if constexpr (HOLDS)
                held[e] = narrow_pair<O>(alpha * acc[2 * e], alpha * acc[2 * e + 1]);
    }

    static __device__ void send_held(const tb_gemm_params &p, const place &at, const tensor_map *map_c, uint32_t out,
                                     int group, uint32_t &turn, const uint32_t (&held)[HELD], int piece)
    {
        const uint32_t to = room(out, group, turn);
        write_pairs(to, held, piece);
        send(p, map_c, to, at.i0 + piece * PIECE_M, at.j0 + 64 * group, at.item, group);
    }

    // As multiply, and between the first steps the pieces of the tile before go out. At least PIECES steps.
    static __device__ void multiply_sending(const tb_gemm_params &p, const job &job, const part &part, uint32_t smem,
                                            int group, ring &at, float (&acc)[ACC], const place &old,
                                            const tensor_map *map_c, uint32_t out, uint32_t &turn,
                                            const uint32_t (&held)[HELD])
    {
        int s = part.k_first;
#pragma unroll
        for (int piece = 0; piece < PIECES; piece++, s++) {
            step(job, smem, group, at, piece > 0, acc);
            send_held(p, old, map_c, out, group, turn, held, piece);
        }
        for (; s < part.k_end; s++)
            step(job, smem, group, at, true, acc);
        drain(job, at);
    }

    // ---- tiles that several blocks share ----

    // The workspace: a flag for each block and warpgroup, zero between launches; then a place for sums of a tile
    // for each block, in the order of the registers.
    static __device__ uint32_t *flag_of(const tb_gemm_params &p, uint32_t block, int group)
    {
        return reinterpret_cast<uint32_t *>(p.work) + block * GROUPS + group;
    }
    static __device__ float4 *sums_of(const tb_gemm_params &p, uint32_t block, int group)
    {
        return reinterpret_cast<float4 *>(p.work + TB_WORK_FLAGS * 4) + (int64_t)(block * GROUPS + group) * (ACC / 4 * 128) +
               threadIdx.x % 128;
    }

    // The sums of a part that does not reach the end of k, left to the block that has the end. A block has at
    // most one such part, and it is the first of those it shares.
    static __device__ void leave(const tb_gemm_params &p, int group, const float (&acc)[ACC])
    {
        float4 *to = sums_of(p, blockIdx.x, group);
#pragma unroll
        for (int e = 0; e < ACC / 4; e++)
            to[e * 128] = make_float4(acc[4 * e], acc[4 * e + 1], acc[4 * e + 2], acc[4 * e + 3]);
        bar_sync(1 + group, 128);
        if (threadIdx.x % 128 == 0)
            flag_raise(flag_of(p, blockIdx.x, group));
    }

    // The end of k of a tile: adds what the blocks before this one have left, the nearest first. They have
    // begun before this one (blocks begin in their order) and wait for nobody until they have left it.
    static __device__ void collect(const tb_gemm_params &p, const job &job, const part &part, int group, float (&acc)[ACC])
    {
        constexpr int DEEP = ACC <= 64 ? 128 / ACC : 1, LOADS = ACC == 128 ? 16 : ACC / 4; // underway at once
        const uint32_t shared_steps = (tile_total(p) - job.count) * job.steps;
        const uint32_t begin = (part.tile - job.count) * job.steps;
        // The last block that begins at or before that step.
        const int first = (int)(((uint64_t)(begin + 1) * gridDim.x - 1) / shared_steps);
        for (int b = (int)blockIdx.x - 1 - (int)(threadIdx.x % 128); b >= first; b -= 128)
            flag_lower(flag_of(p, b, group));
        bar_sync(1 + group, 128);
        for (int b = (int)blockIdx.x - 1; b >= first; b -= DEEP) {
#pragma unroll
            for (int e = 0; e < ACC / 4; e += LOADS) {
                float4 x[DEEP][LOADS];
#pragma unroll
                for (int h = 0; h < DEEP; h++)
#pragma unroll
                    for (int i = 0; i < LOADS; i++)
                        x[h][i] = b - h >= first ? load_shared_by_all(sums_of(p, b - h, group) + (e + i) * 128)
                                                 : make_float4(0, 0, 0, 0);
#pragma unroll
                for (int h = 0; h < DEEP; h++)
#pragma unroll
                    for (int i = 0; i < LOADS; i++) {
                        const int at = 4 * (e + i);
                        acc[at] += x[h][i].x, acc[at + 1] += x[h][i].y;
                        acc[at + 2] += x[h][i].z, acc[at + 3] += x[h][i].w;
                    }
            }
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

    static __device__ void consume(const tb_gemm_params &p, job job, const tensor_map *map_c, uint32_t smem)
    {
        const int group = threadIdx.x / 128 - 1;
        const uint32_t out = smem + OUT_AT + group * 2 * PIECE;
        const bool holds = HOLDS && map_c && p.beta_zero && p.m % UNIT == 0;
        ring ring = {0, 0, 0};
        uint32_t turn = 0;
        uint32_t held[HELD];
        place old;
        bool waiting = false; // of `held`, the tile at `old`
        for (part part; next(job, part);) {
            float acc[ACC];
            if (SPLITS ? part.k_first == part.k_end : SHARES) {
#pragma unroll
                for (int i = 0; i < ACC; i++)
                    acc[i] = 0;
            }
            if (HOLDS && waiting && part.k_end - part.k_first >= PIECES) {
                multiply_sending(p, job, part, smem, group, ring, acc, old, map_c, out, turn, held);
                waiting = false;
            } else {
                multiply(job, part, smem, group, ring, acc);
            }
            if (SPLITS && job.blocks > 1) { // then there is one tile
                bar_sync(3, GROUPS * 128);  // the other warpgroup may still read the ring
                put_sums(smem, group, acc);
                cluster_sync();
                add_sums(p, find(p, part.tile, job.rank), job, smem);
                return;
            }
            if (HOLDS && waiting)
                flush(p, old, map_c, out, group, turn, held);
            waiting = false;
#pragma unroll
            for (int e = 0; e < HELD; e++)
                held[e] = 0; // frees the registers for what follows
            if (SHARES && part.k_end < (int)job.steps) {
                leave(p, group, acc);
                continue;
            }
            if (SHARES && part.k_first > 0)
                collect(p, job, part, group, acc);
            const place at = find(p, part.tile, job.rank);
            if (holds) {
                hold(p, acc, held);
                old = at;
                waiting = true;
            } else {
                finish(p, at, map_c, out, group, turn, acc);
            }
        }
        if (HOLDS && waiting)
            flush(p, old, map_c, out, group, turn, held);
        if (threadIdx.x % 128 == 0)
            copies_out_done();
    }

    static __device__ void flush(const tb_gemm_params &p, const place &at, const tensor_map *map_c, uint32_t out, int group,
                                 uint32_t &turn, const uint32_t (&held)[HELD])
    {
#pragma unroll
        for (int piece = 0; piece < PIECES; piece++)
            send_held(p, at, map_c, out, group, turn, held, piece);
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
        last_launch_is_over();
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
