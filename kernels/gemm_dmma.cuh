// SPDX-License-Identifier: BSD-3-Clause
// The product of FP64 matrices, real and complex, by the FP64 tensor cores: C = alpha op(A) op(B) + beta C in
// IEEE arithmetic, each sum one chain of multiply-adds (two products a step where complex). Tiles of A and B come by
// asynchronous copies through a ring of stages in shared memory; any pitch, alignment and list. From sm_90 on the
// blocks of a cluster may divide k (kernel.c says where).
//
// Seen by the instruction, rows are columns of C (n) and columns are rows of C (m), so that a thread's
// neighbouring sums are neighbours in memory. Read from gemm_dmma::run() on.
#pragma once

#include "gemm_simt.cuh"
#include "ptx.cuh"

namespace tb {

// ---- instructions ----

// To shared memory where `on`; 8 bytes or zeros.
__device__ inline void feed_16(uint32_t to, const void *from, bool on)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %2, 0;\n"
                 "@p cp.async.cg.shared.global.L2::128B [%0], [%1], 16;\n"
                 "}" ::"r"(to),
                 "l"(from), "r"((int)on)
                 : "memory");
}
__device__ inline void feed_8(uint32_t to, const void *from, bool on)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %2, 0;\n"
                 "@p cp.async.ca.shared.global [%0], [%1], 8;\n"
                 "}" ::"r"(to),
                 "l"(from), "r"((int)on)
                 : "memory");
}
__device__ inline void feed_8_or_zero(uint32_t to, const void *from, bool read)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(read ? 8 : 0) : "memory");
}
__device__ inline void feeds_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int LEFT> __device__ inline void feeds_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
// Arrives at `bar` when what this thread has asked for so far is there.
__device__ inline void feeds_arrive(uint32_t bar)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(bar) : "memory");
}
__device__ inline void stage_arrive(uint32_t bar)
{
    asm volatile("{\n"
                 ".reg .b64 state;\n"
                 "mbarrier.arrive.shared.b64 state, [%0];\n"
                 "}" ::"r"(bar)
                 : "memory");
}
__device__ inline void stage_init(uint32_t bar, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}
__device__ inline void stage_wait(uint32_t bar, uint32_t parity)
{
#if __CUDA_ARCH__ >= 900
    bar_wait(bar, parity);
#else
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(bar),
                 "r"(parity)
                 : "memory");
#endif
}

__device__ inline void load_pair(double &x, double &y, uint32_t at)
{
    asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(x), "=d"(y) : "r"(at) : "memory");
}

__device__ inline void load_one(double &x, uint32_t at)
{
    asm volatile("ld.shared.f64 %0, [%1];" : "=d"(x) : "r"(at) : "memory");
}

// d += x y over 4 S of k. x: 16 rows, of this thread row g in [..][0] and g + 8 in [..][1] (g: a quarter of its lane);
// the first index moves in k by 4. y: 8 columns, of this thread column g. d: rows g, g + 8; columns 2t, 2t + 1 (t:
// the lane modulo 4). Before sm_90 it is made of products of 8 x 8 x 4.
__device__ inline void dmma_8x8x4(double &d0, double &d1, double x, double y)
{
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(d0), "+d"(d1)
                 : "d"(x), "d"(y));
}
template <int S> __device__ inline void dmma(double (&d)[4], const double (&x)[S][2], const double (&y)[S])
{
    static_assert(S == 2 || S == 4, "8 or 16 of k");
#if __CUDA_ARCH__ >= 900
    constexpr int T = S - 1, H = S / 2; // for S = 2 what S = 4 names is not used
    if (S == 4)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
                     "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
                     : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
                     : "d"(x[0][0]), "d"(x[0][1]), "d"(x[1][0]), "d"(x[1][1]), "d"(x[H][0]), "d"(x[H][1]),
                       "d"(x[T][0]), "d"(x[T][1]), "d"(y[0]), "d"(y[1]), "d"(y[H]), "d"(y[T]));
    else
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};"
                     : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
                     : "d"(x[0][0]), "d"(x[0][1]), "d"(x[1][0]), "d"(x[1][1]), "d"(y[0]), "d"(y[1]));
#else
#pragma unroll
    for (int s = 0; s < S; s++) {
        dmma_8x8x4(d[0], d[1], x[s][0], y[s]);
        dmma_8x8x4(d[2], d[3], x[s][1], y[s]);
    }
#endif
}

// ---- tiles in shared memory ----

// WIDTH lines (rows of op(A), columns of op(B)) by one step of k: 128 bytes of a line. ACROSS: neighbours of the
// width are neighbours in memory, and shared memory has a row for each k; else a row for each line. Units of
// 16 bytes of a row are exchanged by its number, so that eight lanes that load together never meet in a bank.
template <class E, int WIDTH, int THREADS, int GROUPS, bool ACROSS> class dmma_tile
{
    using stored = typename E::stored;
    static constexpr int ELEM = sizeof(stored), PER_UNIT = 16 / ELEM, BK = 128 / ELEM;
    static constexpr int ROW = ACROSS ? WIDTH * ELEM : 128, UNITS = ROW / 16;
    static constexpr int COUNT = WIDTH * 8 / THREADS, STEP = THREADS / UNITS; // of a thread; rows between them
    static_assert(COUNT * THREADS == WIDTH * 8 && STEP * UNITS == THREADS, "a thread stays in its column of units");

    const stored *src; // this thread's first element in the next step of k
    int64_t step;      // from one of its rows to the next, in elements
    uint32_t to;       // where in a tile that goes
    int left;          // how many lines of the matrix the tile has from that element on
    bool wide;         // units are copied whole

    // Linear in the bits of the row: exchanges of row() and of a multiple of STEP add up.
    static __device__ constexpr int exchange(int row) { return row % 2 * 4 + row / 2 % 2 * 2; }
    static __device__ int unit() { return threadIdx.x % UNITS; }
    static __device__ int row() { return (GROUPS > 1 ? threadIdx.x % THREADS : threadIdx.x) / UNITS; }
    __device__ uint32_t place(uint32_t tile, int i) const
    {
        return ((tile + to) ^ exchange(i * STEP) * 16) + i * STEP * ROW;
    }

  public:
    static constexpr int BYTES = WIDTH * 128;
    static constexpr int ROW_BYTES = ROW, NEXT_16 = ACROSS ? 16 * ELEM : 2048; // bytes to the next 16 lines

    // `origin`: element (0, 0) of op(X); from line `first` of `width` and from `k` on.
    __device__ dmma_tile(const stored *origin, int64_t ld, int64_t first, int64_t width, int64_t k)
    {
        const int64_t w = first + (ACROSS ? unit() * PER_UNIT : row()), lines = width - w;
        src = origin + (ACROSS ? w + (k + row()) * ld : w * ld + k + unit() * PER_UNIT);
        step = STEP * ld;
        to = row() * ROW + (unit() ^ exchange(row())) * 16;
        left = lines < WIDTH ? (int)(lines < 0 ? 0 : lines) : WIDTH;
        wide = ELEM == 16 || ((reinterpret_cast<uint64_t>(origin) | ld * 8) % 16 == 0 && !(ACROSS && left == 1));
    }

    // The next step of k, the whole of it inside of the matrix. Lines outside are left as they are: nothing
    // that counts is computed from them.
    __device__ void feed(uint32_t tile)
    {
        const stored *from = src;
        if (wide) {
#pragma unroll
            for (int i = 0; i < COUNT; i++, from += step)
                feed_16(place(tile, i), from, ACROSS ? left > 0 : left > i * STEP);
        } else {
#pragma unroll
            for (int i = 0; i < COUNT; i++, from += step) {
                feed_8(place(tile, i), from, ACROSS ? left > 0 : left > i * STEP);
                feed_8(place(tile, i) + 8, from + 1, ACROSS ? left > 1 : left > i * STEP);
            }
        }
        src = ACROSS ? from : src + BK;
    }

    // The last step, of which `k_left` < BK are inside: the rest becomes zero.
    __device__ void feed_last(uint32_t tile, int k_left)
    {
        const stored *from = src;
#pragma unroll 1
        for (int i = 0; i < COUNT; i++, from += step) {
            const int k = ACROSS ? row() + i * STEP : unit() * PER_UNIT, w = ACROSS ? left : left - i * STEP;
            const uint32_t at = tile + (row() + i * STEP) * ROW + (unit() ^ exchange(row() + i * STEP)) * 16;
#pragma unroll
            for (int e = 0; e < ELEM / 8 * PER_UNIT; e++) { // halves of a unit
                const int other = PER_UNIT == 2 ? e : 0;
                const bool in = ACROSS ? k < k_left && w > other : k + other < k_left && w > 0;
                feed_8_or_zero(at + e * 8, reinterpret_cast<const double *>(in ? from : src) + (in ? e : 0), in);
            }
        }
    }

    // Where this lane finds its part of the 16 lines from `w` (a multiple of 16) on, by dmma_block::load().
    template <bool PAIRS> static __device__ uint32_t place(int w)
    {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        if (ACROSS && (ELEM == 16 || PAIRS))
            return t * ROW + w * ELEM + (g ^ exchange(t)) * 16;
        if (ACROSS)
            return t * ROW + w * ELEM + (g / 2 ^ exchange(t)) * 16 + g % 2 * 8;
        return (w + g) * 128 + (ELEM == 16 ? (t ^ exchange(g)) * 16 : (t / 2 ^ exchange(g)) * 16 + t % 2 * 8);
    }
};

// 16 lines by S quarters of a step of k (halves where complex): what a thread holds of them. `at` is what
// dmma_tile::place() said, `stage` where the tile begins plus the distance of the lines. The order in which lines are
// taken is free as long as C agrees: so loads are 16 bytes wide where the instruction takes both halves side by side.
template <class E, int S> struct dmma_block;

// k = 4 (FROM + s) + t at f[s][e], of line g + 8e, or 2g + e where PAIRS and the tile lies ACROSS.
template <int S> struct dmma_block<F64, S> {
    double f[S][2];

    template <bool ACROSS, bool PAIRS, int ROW, int FROM> __device__ void load(uint32_t at, uint32_t stage, uint32_t)
    {
#pragma unroll
        for (int s = 0; s < S; s++)
            if (ACROSS && PAIRS)
                load_pair(f[s][0], f[s][1], at + stage + (FROM + s) * 4 * ROW);
            else
#pragma unroll
                for (int e = 0; e < 2; e++)
                    load_one(f[s][e], ACROSS ? (at ^ e * 64) + stage + (FROM + s) * 4 * ROW
                                             : (at ^ (FROM + s) * 32) + stage + e * 1024);
    }
};

// k = 4s + t of line g + 8e; the imaginary parts with the sign of op().
template <> struct dmma_block<C64, 2> {
    double re[2][2], im[2][2];

    template <bool ACROSS, bool, int ROW, int> __device__ void load(uint32_t at, uint32_t stage, uint32_t sign)
    {
#pragma unroll
        for (int s = 0; s < 2; s++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                load_pair(re[s][e], im[s][e],
                          ACROSS ? at + stage + s * 4 * ROW + e * 128 : (at ^ s * 64) + stage + e * 1024);
                im[s][e] = flip(im[s][e], sign);
            }
    }
    static __device__ double flip(double x, uint32_t sign) // sign: 0 or 2^31
    {
        return __hiloint2double(__double2hiint(x) ^ sign, __double2loint(x));
    }
};

// The sums of 16 columns of C by 16 rows. A thread ends with PIECES pieces of two neighbouring rows.
template <class E> struct dmma_sums;

template <> struct dmma_sums<F64> {
    static constexpr int DOUBLES = 2; // of a piece
    double d[2][4];

    __device__ void clear() { d[0][0] = d[0][1] = d[0][2] = d[0][3] = d[1][0] = d[1][1] = d[1][2] = d[1][3] = 0; }
    template <int S> __device__ void add(const dmma_block<F64, S> &x, const dmma_block<F64, S> &y)
    {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            double part[S];
#pragma unroll
            for (int s = 0; s < S; s++)
                part[s] = y.f[s][e];
            dmma<S>(d[e], x.f, part);
        }
    }
    __device__ double at(int p, int v) const { return d[p / 2][p % 2 * 2 + v]; }
};

template <> struct dmma_sums<C64> {
    static constexpr int DOUBLES = 4;
    double re[2][4], im[2][4];

    __device__ void clear()
    {
#pragma unroll
        for (int i = 0; i < 8; i++)
            re[i / 4][i % 4] = im[i / 4][i % 4] = 0;
    }
    __device__ void add(const dmma_block<C64, 2> &x, const dmma_block<C64, 2> &y)
    {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const double r[2] = {y.re[0][e], y.re[1][e]}, i[2] = {y.im[0][e], y.im[1][e]};
            const double minus[2] = {-i[0], -i[1]};
            dmma<2>(re[e], x.re, r);
            dmma<2>(im[e], x.re, i);
            dmma<2>(re[e], x.im, minus);
            dmma<2>(im[e], x.im, r);
        }
    }
    // v: the real part of the first row, its imaginary part, those of the second
    __device__ double at(int p, int v) const { return (v % 2 ? im : re)[p / 2][p % 2 * 2 + v / 2]; }
};

// ---- the kernel ----

// GROUPS of so many THREADS divide k, each with a ring of its own. ALONE: the block, of one group, has its
// multiprocessor for itself.
template <class E, bool TA, bool TB, int BM, int BN, int WM, int WN, int STAGES, int GROUPS, bool ALONE>
struct gemm_dmma {
    using stored = typename E::stored;
    static constexpr int ELEM = sizeof(stored), BK = 128 / ELEM, WARPS_M = BM / WM, THREADS = BM / WM * (BN / WN) * 32;
    static constexpr int STAGE = (BM + BN) * 128, RING = STAGES * STAGE, NI = WN / 16, NJ = WM / 16;
    static_assert(NI % 2 == 0 && NJ <= NI, "the two copies of a block of B take turns");
    using tile_a = dmma_tile<E, BM, THREADS, GROUPS, !TA>;
    using tile_b = dmma_tile<E, BN, THREADS, GROUPS, TB>;
    using sums = dmma_sums<E>;

    static __device__ int group() { return GROUPS > 1 ? threadIdx.x / THREADS : 0; }
    static __device__ int thread() { return GROUPS > 1 ? threadIdx.x % THREADS : threadIdx.x; } // of the group
    static __device__ int warp_row() { return thread() / 32 % WARPS_M * WM; }
    static __device__ int warp_col() { return thread() / 32 / WARPS_M * WN; }
    static __device__ void group_sync()
    {
        if (GROUPS == 1)
            __syncthreads();
        else
            asm volatile("bar.sync %0, %1;" ::"r"(group() + 1), "n"(THREADS) : "memory");
    }

    // Pieces of a thread: of each 16 columns and 16 rows four, piece q in column g + 8 (q % 2), or 2g + q % 2 where
    // B is taken in pairs, and in rows 8 (q / 2) + 2t and the next.
    static constexpr int PIECES = NI * NJ * 4, DOUBLES = sums::DOUBLES;
    static __device__ int piece_row(int n)
    {
        return warp_row() + n / 4 % NJ * 16 + n / 2 % 2 * 8 + threadIdx.x % 4 * 2;
    }
    static __device__ int piece_col(int n)
    {
        const int g = threadIdx.x % 32 / 4;
        return warp_col() + n / 4 / NJ * 16 + (ELEM == 8 && TB ? 2 * g + n % 2 : g + n % 2 * 8);
    }

    // C = alpha v + beta C for two neighbouring rows, or the first of them.
    static __device__ void finish_piece(const tb_gemm_params &p, stored *to, bool both, bool wide,
                                        const double (&v)[DOUBLES])
    {
        using two = pack<stored, 2>;
        const scalar<stored> alpha(p.alpha), beta(p.beta);
        const two *const sum = reinterpret_cast<const two *>(v);
        two old, out;
        if (!p.beta_zero) {
            if (ELEM == 8 && wide && both) {
                old = *reinterpret_cast<const two *>(to);
            } else {
                old.v[0] = to[0];
                if (both)
                    old.v[1] = to[1];
            }
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            out.v[h] = alpha.times(sum->v[h]);
            if (!p.beta_zero)
                out.v[h] = plus(out.v[h], beta.times(old.v[h]));
        }
        if (ELEM == 8 && wide && both) {
            *reinterpret_cast<two *>(to) = out;
        } else {
            to[0] = out.v[0];
            if (both)
                to[1] = out.v[1];
        }
    }

    // Adds up what all parts have of a piece, in their order: groups of a block, blocks of a cluster. All have left
    // the stages. `smem`: the ring of the first group.
    static __device__ void gather(uint32_t smem, int n, uint32_t parts, double (&v)[DOUBLES])
    {
#pragma unroll
        for (int h = 0; h < DOUBLES; h += 2) {
            double x = 0, y = 0;
#pragma unroll 4
            for (uint32_t r = 0; r < parts; r++) {
                const uint32_t at = place_of(smem + r % GROUPS * RING, n, h);
#if __CUDA_ARCH__ >= 900
                const float4 raw = cluster_load(at, r / GROUPS);
                x += __hiloint2double(__float_as_int(raw.y), __float_as_int(raw.x));
                y += __hiloint2double(__float_as_int(raw.w), __float_as_int(raw.z));
#else
                double a, b;
                load_pair(a, b, at);
                x += a, y += b;
#endif
            }
            v[h] = x, v[h + 1] = y;
        }
    }
    static __device__ uint32_t place_of(uint32_t smem, int n, int h)
    {
        return smem + ((n * DOUBLES + h) / 2 * THREADS + thread()) * 16;
    }
    static __device__ void publish(uint32_t smem, const sums (&acc)[NI][NJ])
    {
#pragma unroll
        for (int n = 0; n < PIECES; n++)
#pragma unroll
            for (int h = 0; h < DOUBLES; h += 2)
                asm volatile("st.shared.v2.f64 [%0], {%1, %2};" ::"r"(place_of(smem, n, h)),
                             "d"(acc[n / 4 / NJ][n / 4 % NJ].at(n % 4, h)),
                             "d"(acc[n / 4 / NJ][n / 4 % NJ].at(n % 4, h + 1))
                             : "memory");
    }

    static __device__ void finish(const tb_gemm_params &p, const tile_place &at, const sums (&acc)[NI][NJ],
                                  uint32_t smem, uint32_t parts, uint32_t part)
    {
        stored *c = item_base<stored>(p.c, p.clist, p.stride_c, at.item) + at.j0 * p.ldc + at.i0;
        const bool wide = (reinterpret_cast<uint64_t>(c) | p.ldc * ELEM) % 16 == 0;
        const int64_t rows = p.m - at.i0, cols = p.n - at.j0;
#pragma unroll
        for (int n = 0; n < PIECES; n++) {
            double v[DOUBLES];
            if (parts > 1 && n % parts != part)
                continue;
#pragma unroll
            for (int h = 0; h < DOUBLES; h++)
                v[h] = acc[n / 4 / NJ][n / 4 % NJ].at(n % 4, h);
            if (parts > 1)
                gather(smem, n, parts, v);
            if (piece_col(n) < cols && piece_row(n) < rows)
                finish_piece(p, c + piece_col(n) * p.ldc + piece_row(n), piece_row(n) + 1 < rows, wide, v);
        }
    }

    template <int FROM, int S>
    static __device__ void load_x(dmma_block<E, S> &x, uint32_t at, uint32_t stage, uint32_t sign)
    {
        x.template load<TB, true, tile_b::ROW_BYTES, FROM>(at, stage, sign);
    }
    template <int FROM, int S>
    static __device__ void load_y(dmma_block<E, S> &y, uint32_t at, uint32_t stage, uint32_t sign)
    {
        y.template load<!TA, false, tile_a::ROW_BYTES, FROM>(at, stage, sign);
    }

    // The way of a tile's operands.
    struct way {
        tile_a a;
        tile_b b;
        uint32_t smem, from_a, from_b; // the stages; where this lane reads in one
        uint32_t sign_a, sign_b;       // of the imaginary parts
        int steps, last;               // steps of k; how much of it there is in the last one

        __device__ void feed(uint32_t stage, int step)
        {
            if (step < steps - 1 || (step == steps - 1 && last == BK)) {
                a.feed(stage);
                b.feed(stage + tile_a::BYTES);
            } else if (step == steps - 1) {
                a.feed_last(stage, last);
                b.feed_last(stage + tile_a::BYTES, last);
            }
        }
    };

    // For blocks that share a multiprocessor: while one waits at its barrier, others multiply. A step takes the blocks
    // of B one after the other, the next one underway; those of A stay. During the last block of B, the first of the
    // next step and all of A come from the next stage.
    static __device__ void multiply(way &w, sums (&acc)[NI][NJ])
    {
        dmma_block<E, BK / 4> x[2], y[NJ];
        uint32_t now = w.smem;
        for (int s = 0; s < STAGES; s++) {
            w.feed(w.smem + s * STAGE, s);
            feeds_commit();
        }
        feeds_wait<STAGES - 1>();
        group_sync();
        load_x<0>(x[0], w.from_b, now, w.sign_b);
#pragma unroll
        for (int j = 0; j < NJ; j++)
            load_y<0>(y[j], w.from_a, now + j * tile_a::NEXT_16, w.sign_a);
        for (int step = 0; step < w.steps; step++) {
#pragma unroll
            for (int i = 0; i < NI; i++) {
                const uint32_t done = now;
                if (i == NI - 1) {
                    feeds_wait<STAGES - 2>();
                    group_sync(); // the next stage is there, and nobody needs this one any more
                    now = now + STAGE == w.smem + STAGES * STAGE ? w.smem : now + STAGE;
                }
                load_x<0>(x[(i + 1) % 2], w.from_b, now + (i + 1) % NI * tile_b::NEXT_16, w.sign_b);
#pragma unroll
                for (int j = 0; j < NJ; j++) {
                    acc[i][j].add(x[i % 2], y[j]);
                    if (i == NI - 1 && j == 0) {
                        w.feed(done, step + STAGES);
                        feeds_commit();
                    }
                    if (i == NI - 1)
                        load_y<0>(y[j], w.from_a, now + j * tile_a::NEXT_16, w.sign_a);
                }
            }
        }
        feeds_wait<0>();
    }

    // For a block alone: warps do not wait for each other but through the stages. One is `full` when every thread's part
    // is there, and `empty`, to be fed again, when every warp has loaded the last of it. A step goes in halves, with
    // room for A of the next one; the second looks into the next stage and feeds that of the step before.
    static __device__ void multiply_alone(way &w, sums (&acc)[NI][NJ])
    {
        static_assert(!ALONE || (STAGES & (STAGES - 1)) == 0, "the number of a step says its stage");
        __shared__ uint64_t barriers[2 * STAGES];
        const uint32_t full = (uint32_t)__cvta_generic_to_shared(barriers), empty = full + 8 * STAGES;
        if (threadIdx.x == 0)
            for (int s = 0; s < STAGES; s++) {
                stage_init(full + 8 * s, THREADS);
                stage_init(empty + 8 * s, THREADS / 32);
            }
        __syncthreads();
        auto feed = [&](int step) {
            const int s = step % STAGES;
            if (step >= w.steps)
                return;
            if (step >= STAGES)
                stage_wait(empty + 8 * s, (step / STAGES - 1) & 1);
            w.feed(w.smem + s * STAGE, step);
            feeds_arrive(full + 8 * s);
        };
        for (int s = 0; s < STAGES - 1; s++)
            feed(s);
        stage_wait(full, 0);
        dmma_block<E, BK / 8> x[2], y[2][NJ];
        load_x<0>(x[0], w.from_b, w.smem, w.sign_b);
#pragma unroll
        for (int j = 0; j < NJ; j++)
            load_y<0>(y[0][j], w.from_a, w.smem + j * tile_a::NEXT_16, w.sign_a);
        for (int step = 0; step < w.steps; step++) {
            const uint32_t now = w.smem + step % STAGES * STAGE, then = w.smem + (step + 1) % STAGES * STAGE;
#pragma unroll
            for (int i = 0; i < NI; i++) {
                if (i < NI - 1)
                    load_x<0>(x[(i + 1) % 2], w.from_b, now + (i + 1) * tile_b::NEXT_16, w.sign_b);
                else
                    load_x<BK / 8>(x[(i + 1) % 2], w.from_b, now, w.sign_b);
                if (i < NJ)
                    load_y<BK / 8>(y[1][i], w.from_a, now + i * tile_a::NEXT_16, w.sign_a);
#pragma unroll
                for (int j = 0; j < NJ; j++)
                    acc[i][j].add(x[i % 2], y[0][j]);
            }
            if (step + 1 < w.steps)
                stage_wait(full + 8 * ((step + 1) % STAGES), (step + 1) / STAGES & 1);
#pragma unroll
            for (int i = 0; i < NI; i++) {
                if (i < NI - 1)
                    load_x<BK / 8>(x[(i + 1) % 2], w.from_b, now + (i + 1) * tile_b::NEXT_16, w.sign_b);
                else
                    load_x<0>(x[(i + 1) % 2], w.from_b, then, w.sign_b);
                if (i < NJ)
                    load_y<0>(y[0][i], w.from_a, then + i * tile_a::NEXT_16, w.sign_a);
#pragma unroll
                for (int j = 0; j < NJ; j++)
                    acc[i][j].add(x[i % 2], y[1][j]);
                if (i == NI - 2) {
                    __syncwarp();
                    if (threadIdx.x % 32 == 0)
                        stage_arrive(empty + 8 * (step % STAGES));
                    feed(step + STAGES - 1);
                }
            }
        }
    }

    static __device__ void run(const tb_gemm_params &p)
    {
        extern __shared__ __align__(128) unsigned char dynamic[];
        __shared__ tile_place kept; // needed again at the end only; in registers it would cost the loop six
        uint32_t blocks = 1, rank = 0; // that divide k
#if __CUDA_ARCH__ >= 900
        blocks = cluster_blocks(), rank = cluster_rank();
#endif
        const int64_t tiles = ((p.m + BM - 1) / BM) * ((p.n + BN - 1) / BN) * p.batch;
        const int64_t t = ((int64_t)blockIdx.y * gridDim.x + blockIdx.x) / blocks;
        if (t >= tiles)
            return;
        const tile_place at = place_tile(t, p, BM, BN);
        if (threadIdx.x == 0)
            kept = at;
        const uint32_t parts = blocks * GROUPS, part = rank * GROUPS + group();
        const int64_t all = (p.k + BK - 1) / BK, begin = all * part / parts, end = all * (part + 1) / parts;
        const uint32_t smem = (uint32_t)__cvta_generic_to_shared(dynamic);
        way w = {
            {item_base<const stored>(p.a, p.alist, p.stride_a, at.item), p.lda, at.i0, p.m, begin * BK},
            {item_base<const stored>(p.b, p.blist, p.stride_b, at.item), p.ldb, at.j0, p.n, begin * BK},
            smem + group() * RING,
            tile_a::template place<false>(warp_row()),
            tile_b::template place<true>(warp_col()) + tile_a::BYTES,
            (uint32_t)(p.op_a & 2) << 30,
            (uint32_t)(p.op_b & 2) << 30,
            (int)(end - begin),
            end * BK > p.k ? (int)(p.k % BK) : BK,
        };
        sums acc[NI][NJ];
#pragma unroll
        for (int n = 0; n < NI * NJ; n++)
            acc[n / NJ][n % NJ].clear();
        if constexpr (ALONE)
            multiply_alone(w, acc);
        else
            multiply(w, acc);
        if (parts > 1) {
            __syncthreads();
            publish(w.smem, acc);
#if __CUDA_ARCH__ >= 900
            cluster_sync();
#else
            __syncthreads();
#endif
        }
        finish(p, kept, acc, smem, parts, part);
#if __CUDA_ARCH__ >= 900
        if (blocks > 1)
            cluster_sync(); // others still read here
#endif
    }
};

} // namespace tb
