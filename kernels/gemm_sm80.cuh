// SPDX-License-Identifier: BSD-3-Clause
// The product of 16-bit matrices by the tensor cores of sm_80 and later: C = alpha op(A) op(B) + beta C,
// summed in FP32. Tiles of A and B come by asynchronous copies through a ring of stages in
// shared memory; a warp computes 64 x 64 entries. Takes operands of any pitch and alignment, and lists;
// those that are not aligned to 16 bytes are copied by hand, slower.
//
// Seen by the instruction, rows are columns of C, so that a thread's neighbouring entries are
// neighbours in memory (as in gemm_sm90.cuh).
#pragma once

#include "gemm_simt.cuh"

namespace tb {

__device__ inline void copy_16(uint32_t to, const void *from, int bytes) // the rest of the 16 becomes zero
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ inline void copy_16(uint32_t to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ inline void copies_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int LEFT> __device__ inline void copies_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

// Four 8 x 8 matrices; lane l gives the address of line l % 8 of matrix l / 8.
template <bool TRANSPOSE> __device__ inline void load_matrices(uint32_t (&r)[4], uint32_t at)
{
    if (TRANSPOSE)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(at)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(at)
                     : "memory");
}

#define TB_MMA_16816(NAME)                                                                              \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME ".f32 "                                  \
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                               \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                \
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y0), "r"(y1))
template <class E> __device__ void mma_16816(float (&d)[4], const uint32_t (&x)[4], uint32_t y0, uint32_t y1);
template <>
__device__ inline void mma_16816<F16>(float (&d)[4], const uint32_t (&x)[4], uint32_t y0, uint32_t y1)
{
    TB_MMA_16816("f16");
}
template <>
__device__ inline void mma_16816<BF16>(float (&d)[4], const uint32_t (&x)[4], uint32_t y0, uint32_t y1)
{
    TB_MMA_16816("bf16");
}
#undef TB_MMA_16816

// WIDTH lines of op(X) by 64 steps of k, in shared memory in lines of 128 bytes whose 16-byte units are
// exchanged by the number of the line, so that eight lines never meet in a bank. ACROSS: a line holds 64
// neighbours of the width for one k, blocks of 64 are 8192 bytes apart; else 64 of k.
template <int WIDTH, int THREADS, bool ACROSS> class ring_loader
{
    static constexpr int UNITS = WIDTH * 8; // of 8 elements
    static constexpr int COUNT = UNITS / THREADS;
    // The units of a thread are so many lines apart.
    static constexpr int STEP = ACROSS ? THREADS / (WIDTH / 8) : THREADS / 8;
    static_assert(COUNT * THREADS == UNITS && THREADS % (WIDTH / 8) == 0, "a thread stays in its column of units");

    const unsigned short *src; // this thread's first element in the next step of k
    int64_t ld;
    int width_left; // of the matrix, from there on
    bool aligned;

    static __device__ uint32_t offset(int line, int unit) { return line * 128 + (unit ^ line % 8) * 16; }
    static __device__ int unit() { return ACROSS ? threadIdx.x % (WIDTH / 8) : threadIdx.x % 8; }
    static __device__ int line() { return ACROSS ? threadIdx.x / (WIDTH / 8) : threadIdx.x / 8; }

  public:
    // `origin`: element (0, 0) of op(X); `first`: where the tile begins along `width`.
    __device__ ring_loader(const unsigned short *origin, int64_t ld_, int64_t first, int64_t width) : ld(ld_)
    {
        const int64_t w = first + (ACROSS ? unit() * 8 : line()), left = width - w;
        aligned = (reinterpret_cast<uint64_t>(origin) | ld * 2) % 16 == 0;
        src = origin + (ACROSS ? w + line() * ld : w * ld + unit() * 8);
        width_left = left < WIDTH ? (int)(left < 0 ? 0 : left) : WIDTH;
    }

    __device__ bool by_copies() const { return aligned; }

    // The next step of k, of which `k_left` are inside of the matrix, by asynchronous copies.
    __device__ void copy(uint32_t tile, int64_t k_left)
    {
        const unsigned short *from = src;
        const uint32_t to = tile + (ACROSS ? unit() / 8 * 8192 : 0) + offset(line(), unit() % 8);
        static_assert(STEP % 8 == 0, "the exchange of units is the same for all lines of a thread");
        if (k_left >= 64 && width_left > (ACROSS ? 7 : (COUNT - 1) * STEP)) {
#pragma unroll
            for (int i = 0; i < COUNT; i++, from += STEP * ld)
                copy_16(to + i * STEP * 128, from);
        } else {
#pragma unroll 1
            for (int i = 0; i < COUNT; i++, from += STEP * ld) {
                const int count = inside(i, k_left);
                copy_16(to + i * STEP * 128, count ? from : src, 2 * count);
            }
        }
        src += ACROSS ? 64 * ld : 64;
    }

    // The same by hand, for operands of any alignment.
    __device__ void load(uint32_t tile, int64_t k_left)
    {
        const unsigned short *from = src;
#pragma unroll
        for (int i = 0; i < COUNT; i++, from += STEP * ld) {
            const uint32_t to = tile + (ACROSS ? unit() / 8 * 8192 : 0) + offset(line() + i * STEP, unit() % 8);
            const int count = inside(i, k_left);
            uint32_t v[4] = {0, 0, 0, 0};
#pragma unroll
            for (int e = 0; e < 8; e++)
                if (e < count)
                    v[e / 2] |= (uint32_t)from[e] << e % 2 * 16;
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
                         : "memory");
        }
        src += ACROSS ? 64 * ld : 64;
    }

    // For this lane, four matrices: 16 of the width from `w` on, the first 16 of k. K_FIRST: the second matrix is
    // the next in k, else the next in width.
    template <bool K_FIRST> static __device__ uint32_t place(int w)
    {
        const int lane = threadIdx.x % 32, low = lane / 8 % 2 * 8, high = lane / 16 * 8;
        const int dk = K_FIRST ? low : high, dw = K_FIRST ? high : low;
        if (ACROSS)
            return (w + dw) / 64 * 8192 + offset(dk + lane % 8, (w + dw) % 64 / 8);
        return offset(w + dw + lane % 8, dk / 8);
    }

    // From there, `i` times 16 further in width (within 64) and `k` in k. The tile begins at a multiple of 128.
    static __device__ uint32_t further(uint32_t place, int i, int k)
    {
        return ACROSS ? (place ^ i * 32) + k * 128 : (place ^ k * 2) + i * 2048;
    }

  private:
    // Elements of unit i of this thread that are inside.
    __device__ int inside(int i, int64_t k_left) const
    {
        const int k_in = (k_left < 64 ? (int)k_left : 64) - (ACROSS ? line() : unit() * 8);
        const int along = ACROSS ? width_left : k_in, other = (ACROSS ? k_in : width_left) - i * STEP;
        return other <= 0 || along <= 0 ? 0 : along < 8 ? along : 8;
    }
};

template <class E, class O, bool TA, bool TB, int BM, int BN, int STAGES> struct gemm_sm80 {
    using out_t = typename O::stored;
    static constexpr int BK = TB_SM80_BK, WARPS_M = BM / 64, WARPS_N = BN / 64, THREADS = TB_SM80_THREADS(BM, BN);
    static constexpr int BYTES_A = BM * 128, STAGE = (BM + BN) * 128;
    static constexpr bool ACROSS_A = !TA, ACROSS_B = TB;
    using loader_a = ring_loader<BM, THREADS, ACROSS_A>;
    using loader_b = ring_loader<BN, THREADS, ACROSS_B>;

    static __device__ int warp_row() { return threadIdx.x / 32 % WARPS_M * 64; }
    static __device__ int warp_col() { return threadIdx.x / 32 / WARPS_M * 64; }

    static __device__ void fetch_x(uint32_t (&x)[4][4], uint32_t stage, uint32_t place, int k)
    {
#pragma unroll
        for (int i = 0; i < 4; i++)
            load_matrices<ACROSS_B>(x[i], stage + BYTES_A + loader_b::further(place, i, k));
    }
    static __device__ void fetch_y(uint32_t (&y)[4], uint32_t stage, uint32_t place, int i, int k)
    {
        load_matrices<ACROSS_A>(y, stage + loader_a::further(place, i, k));
    }

    static __device__ void finish(const tb_gemm_params &p, const tile_place &at, const float (&acc)[4][8][4])
    {
        using pair = pack<out_t, 2>;
        out_t *c = item_base<out_t>(p.c, p.clist, p.stride_c, at.item);
        const float alpha = (float)p.alpha[0], beta = (float)p.beta[0];
        const bool aligned = (reinterpret_cast<uint64_t>(c) | p.ldc * sizeof(out_t)) % sizeof(pair) == 0;
        const int64_t i0 = at.i0 + warp_row() + threadIdx.x % 4 * 2, j0 = at.j0 + warp_col() + threadIdx.x % 32 / 4;
#pragma unroll
        for (int x = 0; x < 8; x++) // columns 8 apart
#pragma unroll
            for (int y = 0; y < 8; y++) {
                const int64_t i = i0 + 8 * y, j = j0 + 8 * x;
                const float v0 = alpha * acc[x / 2][y][x % 2 * 2], v1 = alpha * acc[x / 2][y][x % 2 * 2 + 1];
                out_t *to = c + j * p.ldc + i;
                if (j >= p.n || i >= p.m)
                    continue;
                if (aligned && i + 1 < p.m) {
                    pair out;
                    if (!p.beta_zero)
                        out = *reinterpret_cast<const pair *>(to);
                    out.v[0] = O::narrow(p.beta_zero ? v0 : v0 + beta * O::widen(out.v[0]));
                    out.v[1] = O::narrow(p.beta_zero ? v1 : v1 + beta * O::widen(out.v[1]));
                    *reinterpret_cast<pair *>(to) = out;
                } else {
                    to[0] = O::narrow(p.beta_zero ? v0 : v0 + beta * O::widen(to[0]));
                    if (i + 1 < p.m)
                        to[1] = O::narrow(p.beta_zero ? v1 : v1 + beta * O::widen(to[1]));
                }
            }
    }

    // A matrix's part of a step of k on its way, or nothing where k has ended.
    template <bool COPIES, class LOADER> static __device__ void load(uint32_t to, LOADER &x, int64_t k_left)
    {
        if (k_left > 0 && COPIES)
            x.copy(to, k_left);
        else if (k_left > 0)
            x.load(to, k_left);
    }

    // While 16 of k are multiplied, the next 16 come from shared memory, those of the next stage too: those
    // of B into other registers, those of A into their own as soon as they have been used.
    template <bool COPIES>
    static __device__ void loop(const tb_gemm_params &p, uint32_t smem, loader_a &a, loader_b &b, float (&acc)[4][8][4])
    {
        const uint32_t place_a = loader_a::template place<true>(warp_row()), place_b = loader_b::template place<false>(warp_col());
        uint32_t x[2][4][4], y[4][4];
        for (int s = 0; s < STAGES - 1; s++) {
            load<COPIES>(smem + s * STAGE, a, p.k - (int64_t)s * BK);
            load<COPIES>(smem + s * STAGE + BYTES_A, b, p.k - (int64_t)s * BK);
            copies_commit();
        }
        uint32_t now = smem, next = smem + (STAGES - 1) * STAGE;
        copies_wait<STAGES - 2>();
        __syncthreads();
        fetch_x(x[0], now, place_b, 0);
#pragma unroll
        for (int i = 0; i < 4; i++)
            fetch_y(y[i], now, place_a, i, 0);
#pragma unroll 1
        for (int64_t k_left = p.k; k_left > 0; k_left -= BK) {
#pragma unroll
            for (int k = 0; k < BK; k += 16) {
                const int k_next = (k + 16) % BK;
                if (k_next == 0) {
                    copies_wait<STAGES - 2>();
                    __syncthreads(); // also: all have left the stage that is filled next
                    next = now;
                    now = now + STAGE < smem + STAGES * STAGE ? now + STAGE : smem;
                }
                fetch_x(x[(k / 16 + 1) % 2], now, place_b, k_next);
                if (k == 0) {
                    load<COPIES>(next, a, k_left - (STAGES - 1) * BK);
                    load<COPIES>(next + BYTES_A, b, k_left - (STAGES - 1) * BK);
                    copies_commit();
                }
#pragma unroll
                for (int i = 0; i < 4; i++) {
#pragma unroll
                    for (int j = 0; j < 8; j++)
                        mma_16816<E>(acc[j / 2][2 * i + j % 2], x[k / 16 % 2][j / 2], y[i][j % 2 * 2], y[i][j % 2 * 2 + 1]);
                    fetch_y(y[i], now, place_a, i, k_next);
                }
            }
        }
    }

    static __device__ void run(const tb_gemm_params &p)
    {
        extern __shared__ __align__(128) unsigned char dynamic[];
        const uint32_t smem = (uint32_t)__cvta_generic_to_shared(dynamic);
        const int64_t tiles = ((p.m + BM - 1) / BM) * ((p.n + BN - 1) / BN) * p.batch;
        const int64_t t = (int64_t)blockIdx.y * gridDim.x + blockIdx.x;
        if (t >= tiles)
            return;
        const tile_place at = place_tile(t, p, BM, BN);
        loader_a a(item_base<const unsigned short>(p.a, p.alist, p.stride_a, at.item), p.lda, at.i0, p.m);
        loader_b b(item_base<const unsigned short>(p.b, p.blist, p.stride_b, at.item), p.ldb, at.j0, p.n);
        float acc[4][8][4];
#pragma unroll
        for (int e = 0; e < 4 * 8 * 4; e++)
            acc[e / 32][e / 4 % 8][e % 4] = 0;
        if (a.by_copies() && b.by_copies())
            loop<true>(p, smem, a, b, acc);
        else
            loop<false>(p, smem, a, b, acc);
        finish(p, at, acc);
    }
};

} // namespace tb
