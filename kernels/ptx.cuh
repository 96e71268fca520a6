// SPDX-License-Identifier: BSD-3-Clause
// Instructions of sm_90a that CUDA C has no words for, one function each: barriers in shared memory,
// the tensor copy engine, clusters, warpgroup products. No policy here; gemm_sm90.cuh calls them.
#pragma once

#include <stdint.h>

namespace tb {

__device__ inline uint32_t smem_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

// ---- barriers in shared memory; `bar` is a shared address ----

__device__ inline void bar_init(uint32_t bar, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}

__device__ inline void bar_init_done()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void bar_expect(uint32_t bar, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

__device__ inline void bar_arrive(uint32_t bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

// The same barrier in block `rank` of the cluster. Says nothing of ordinary stores (release at the scope
// of the cluster would wait for all of this thread's, in the middle of the loop): it is for products that are done.
__device__ inline void bar_arrive_at(uint32_t bar, uint32_t rank)
{
    asm volatile("{\n"
                 ".reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
                 "}" ::"r"(bar),
                 "r"(rank)
                 : "memory");
}

__device__ inline void bar_wait(uint32_t bar, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra over;\n"
                 "bra again;\n"
                 "over:\n"
                 "}" ::"r"(bar),
                 "r"(parity)
                 : "memory");
}

// A barrier among `threads` threads of the block, by number.
__device__ inline void bar_sync(int id, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- other blocks, through device memory ----

// What the block stored before a barrier that this thread has passed is visible to whoever sees the flag.
__device__ inline void flag_raise(uint32_t *flag)
{
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(1) : "memory");
}

// Waits until it is raised, and takes it down.
__device__ inline void flag_lower(uint32_t *flag)
{
    uint32_t up;
    do
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(up) : "l"(flag) : "memory");
    while (!up);
    *flag = 0;
}

// Past the first level of caches, which does not see the stores of others.
__device__ inline float4 load_shared_by_all(const float4 *from)
{
    float4 v;
    asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(from) : "memory");
    return v;
}

// ---- other launches of the same lane ----

// Until then nothing of the device's memory may be touched: a launch may begin while the one before it ends.
__device__ inline void last_launch_is_over()
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

// From now on, if all blocks say so, the next launch may take the places that blocks leave.
__device__ inline void next_launch_may_begin()
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// ---- clusters ----

__device__ inline uint32_t cluster_rank()
{
    uint32_t r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}

__device__ inline uint32_t cluster_blocks()
{
    uint32_t n;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
    return n;
}

__device__ inline void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Four floats at shared address `at` of block `rank`.
__device__ inline float4 cluster_load(uint32_t at, uint32_t rank)
{
    float4 v;
    asm volatile("{\n"
                 ".reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %4, %5;\n"
                 "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n"
                 "}"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(at), "r"(rank));
    return v;
}

// ---- the tensor copy engine ----

__device__ inline void copy_in(uint32_t to, const void *map, uint32_t bar, int x, int y, int z)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
                 "l"(map), "r"(bar), "r"(x), "r"(y), "r"(z)
                 : "memory");
}

// To the same place, and its bytes counted at the same barrier, in every block of `mask`.
__device__ inline void copy_in_all(uint32_t to, const void *map, uint32_t bar, int x, int y, int z, uint16_t mask)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
                 "l"(map), "r"(bar), "r"(x), "r"(y), "r"(z), "h"(mask)
                 : "memory");
}

// BYTES that lie together, multiples of 16 as both addresses are.
__device__ inline void copy_block(uint32_t to, uint64_t from, uint32_t bytes, uint32_t bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(bar)
                 : "memory");
}

__device__ inline void copy_block_all(uint32_t to, uint64_t from, uint32_t bytes, uint32_t bar, uint16_t mask)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1], %2, [%3], %4;" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(bar), "h"(mask)
                 : "memory");
}

__device__ inline void copy_out(const void *map, uint32_t from, int x, int y, int z)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
                 "r"(from), "r"(x), "r"(y), "r"(z)
                 : "memory");
}

__device__ inline void copies_out_commit()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Until at most LEFT groups of copies out still read shared memory; until all have written.
template <int LEFT> __device__ inline void copies_out_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory");
}
__device__ inline void copies_out_done()
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// Ordinary stores to shared memory become visible to the copy engine.
__device__ inline void fence_async()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ inline void map_prefetch(const void *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// ---- warpgroup products ----

template <int N> __device__ inline void registers_less()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> __device__ inline void registers_more()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

__device__ inline void mma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void mma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int LEFT> __device__ inline void mma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

// A tile in shared memory in lines of 128 bytes under the 128-byte swizzle. ACROSS: lines lie along k
// (each holds 64 neighbours of m or n; blocks of 64 are 8192 bytes apart); else a line holds 64 of k.
template <bool ACROSS> __device__ inline uint64_t mma_tile(uint32_t address)
{
    constexpr uint64_t leading = ACROSS ? 8192 : 16, stride = 1024;
    return (uint64_t)1 << 62 | stride >> 4 << 32 | leading >> 4 << 16 | (address & 0x3ffff) >> 4;
}

// The same in lines of 64 bytes, 32 of k, under the 64-byte swizzle.
__device__ inline uint64_t mma_tile_64(uint32_t address)
{
    constexpr uint64_t leading = 16, stride = 512;
    return (uint64_t)2 << 62 | stride >> 4 << 32 | leading >> 4 << 16 | (address & 0x3ffff) >> 4;
}

#define TB_REGS_32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TB_REGS_64 TB_REGS_32 ", " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TB_REGS_96 TB_REGS_64 ", " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define TB_REGS_128 TB_REGS_64 ", " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define TB_ACC_8(D, I)                                                                                        \
    "+f"(D[I]), "+f"(D[I + 1]), "+f"(D[I + 2]), "+f"(D[I + 3]), "+f"(D[I + 4]), "+f"(D[I + 5]), "+f"(D[I + 6]), \
        "+f"(D[I + 7])
#define TB_ACC_32(D, I)  TB_ACC_8(D, I), TB_ACC_8(D, I + 8), TB_ACC_8(D, I + 16), TB_ACC_8(D, I + 24)
#define TB_ACC_64(D, I)  TB_ACC_32(D, I), TB_ACC_32(D, I + 32)
#define TB_ACC_96(D, I)  TB_ACC_64(D, I), TB_ACC_32(D, I + 64)
#define TB_ACC_128(D, I) TB_ACC_64(D, I), TB_ACC_64(D, I + 64)

// The wait, which also says that the sums d are final from here on: nothing that reads them may move before it.
template <int LEFT> __device__ __forceinline__ void mma_wait_for(float (&d)[64])
{
    asm volatile("wgmma.wait_group.sync.aligned %64;" : TB_ACC_64(d, 0) : "n"(LEFT) : "memory");
}

// d (+)= x y for the 64 x WIDTH x 16 product of a warpgroup; d is overwritten where !add.
template <class E, int WIDTH, bool ACROSS_X, bool ACROSS_Y> struct mma_step;

#define TB_MMA_STEP(TYPE, NAME, WIDTH, HALF, X, Y, ADD, AX, AY)                                                     \
    template <bool ACROSS_X, bool ACROSS_Y> struct mma_step<TYPE, WIDTH, ACROSS_X, ACROSS_Y> {                \
        static __device__ __forceinline__ void run(float (&d)[HALF], uint64_t x, uint64_t y, int add)         \
        {                                                                                                     \
            asm volatile("{\n"                                                                                \
                         ".reg .pred p;\n"                                                                    \
                         "setp.ne.b32 p, " ADD ", 0;\n"                                                       \
                         "wgmma.mma_async.sync.aligned.m64n" #WIDTH "k16.f32." NAME "." NAME                  \
                         " {" TB_REGS_##HALF "}, " X ", " Y ", p, 1, 1, " AX ", " AY ";\n"                    \
                         "}"                                                                                  \
                         : TB_ACC_##HALF(d, 0)                                                                \
                         : "l"(x), "l"(y), "r"(add), "n"((int)ACROSS_X), "n"((int)ACROSS_Y));       \
        }                                                                                                     \
    };
#define TB_MMA_STEPS(TYPE, NAME)                              \
    TB_MMA_STEP(TYPE, NAME, 64, 32, "%32", "%33", "%34", "%35", "%36")      \
    TB_MMA_STEP(TYPE, NAME, 128, 64, "%64", "%65", "%66", "%67", "%68")     \
    TB_MMA_STEP(TYPE, NAME, 192, 96, "%96", "%97", "%98", "%99", "%100")    \
    TB_MMA_STEP(TYPE, NAME, 256, 128, "%128", "%129", "%130", "%131", "%132")
TB_MMA_STEPS(F16, "f16")
TB_MMA_STEPS(BF16, "bf16")
#undef TB_MMA_STEPS
#undef TB_MMA_STEP

// Four 8 x 8 matrices of 16-bit elements; lane l gives the address of line l % 8 of matrix l / 8.
__device__ inline void store_matrices(uint32_t at, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a), "r"(b),
                 "r"(c), "r"(d)
                 : "memory");
}

// Two floats to a pair of 16-bit elements, x in the low half.
template <class O> __device__ uint32_t narrow_pair(float x, float y);
template <> __device__ inline uint32_t narrow_pair<F16>(float x, float y)
{
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(y), "f"(x));
    return r;
}
template <> __device__ inline uint32_t narrow_pair<BF16>(float x, float y)
{
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(y), "f"(x));
    return r;
}

} // namespace tb
