/* SPDX-License-Identifier: BSD-3-Clause
 * Loops that do one thing only, to learn what this GPU can do of it: multiply-add, matrix multiply,
 * read L2, read shared memory, wait for one load. perf/limits.c launches them; no kernel of the
 * library is here. */
#include <cstdint>

extern "C" {

/* Copies `count` elements that lie `stride` bytes apart; the checks fetch rows and columns with it.
 */
__global__ void gather(const char *from, int64_t stride, char *to, int64_t count, int bytes)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        for (int b = 0; b < bytes; b += 2)
            *(uint16_t *)(to + i * bytes + b) = *(const uint16_t *)(from + i * stride + b);
}

/* 16 chains a thread: the pipe is full, nothing else is issued but the loop. 32 operations an
 * iteration. */
__global__ void fma32(float *out, int iterations)
{
    float x[16];
    for (int i = 0; i < 16; i++)
        x[i] = (float)(threadIdx.x + i) * 1e-3f;
    const float a = 1.0f - 1e-6f * (float)threadIdx.x, b = 1e-7f * (float)blockIdx.x;
    for (int n = 0; n < iterations; n++)
#pragma unroll
        for (int i = 0; i < 16; i++)
            x[i] = fmaf(x[i], a, b);
    float sum = 0;
    for (int i = 0; i < 16; i++)
        sum += x[i];
    if (sum == 12345.0f)
        *out = sum;
}

__global__ void fma64(double *out, int iterations)
{
    double x[16];
    for (int i = 0; i < 16; i++)
        x[i] = (double)(threadIdx.x + i) * 1e-3;
    const double a = 1.0 - 1e-6 * threadIdx.x, b = 1e-7 * blockIdx.x;
    for (int n = 0; n < iterations; n++)
#pragma unroll
        for (int i = 0; i < 16; i++)
            x[i] = fma(x[i], a, b);
    double sum = 0;
    for (int i = 0; i < 16; i++)
        sum += x[i];
    if (sum == 12345.0)
        *out = sum;
}

#define FOUR(X, I)    X(I), X(I + 1), X(I + 2), X(I + 3)
#define SIXTEEN(X, I) FOUR(X, I), FOUR(X, I + 4), FOUR(X, I + 8), FOUR(X, I + 12)
#define ACC(I)        "+f"(d[I])
#define D64                                                                                        \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,"  \
    "%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
    "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}"

/* Matrix multiplication out of registers and one tile of shared memory filled with random numbers
 * (zeros would draw less power and run faster). A block of 128 threads does 4 * 64*128*K * 2
 * operations an iteration (K = 16; 8 for TF32), also where mma.sync has to stand in for wgmma. */
#if defined __CUDA_ARCH_FEAT_SM90_ALL
#define MMA_LOOP(NAME, INSTRUCTION, TAIL, A_BITS)                                                  \
    __global__ void __launch_bounds__(128) NAME(float *out, int iterations)                        \
    {                                                                                              \
        __shared__ __align__(1024) uint32_t tile[4096];                                            \
        uint32_t hash = threadIdx.x * 2654435761u + 12345u, a[4];                                  \
        for (int i = threadIdx.x; i < 4096; i += 128)                                              \
            tile[i] =                                                                              \
                ((hash = hash * 1664525u + 1013904223u) & A_BITS) | (A_BITS >> 2 & 0x30003000u);   \
        for (int i = 0; i < 4; i++)                                                                \
            a[i] =                                                                                 \
                ((hash = hash * 1664525u + 1013904223u) & A_BITS) | (A_BITS >> 2 & 0x30003000u);   \
        float d[64] = {};                                                                          \
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");                               \
        __syncthreads();                                                                           \
        const uint64_t base = (uint64_t)((uint32_t)__cvta_generic_to_shared(tile) >> 4 & 0x3fff) | \
                              (uint64_t)1 << 16 | (uint64_t)64 << 32 | (uint64_t)1 << 62;          \
        for (int n = 0; n < iterations; n++) {                                                     \
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");                                \
            _Pragma("unroll") for (int s = 0; s < 4; s++) asm volatile(                            \
                "{.reg .pred p; setp.ne.b32 p, %69, 0;\n" INSTRUCTION " " D64                      \
                ",{%64,%65,%66,%67},%68,p,1,1" TAIL ";}" : SIXTEEN(ACC, 0),                        \
                SIXTEEN(ACC, 16), SIXTEEN(ACC, 32), SIXTEEN(ACC, 48) : "r"(a[0]), "r"(a[1]),       \
                "r"(a[2]), "r"(a[3]), "l"(base + 2 * s), "r"(1));                                  \
            asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::   \
                             : "memory");                                                          \
        }                                                                                          \
        float sum = 0;                                                                             \
        for (int i = 0; i < 64; i++)                                                               \
            sum += d[i];                                                                           \
        if (sum == 12345.0f)                                                                       \
            *out = sum;                                                                            \
    }
MMA_LOOP(mma16, "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16", ",0", 0x8fff8fffu)
MMA_LOOP(mma32, "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32", "", 0x8fffe000u)
#else
#define MMA_LOOP(NAME, INSTRUCTION)                                                                \
    __global__ void __launch_bounds__(128) NAME(float *out, int iterations)                        \
    {                                                                                              \
        float d[16][4] = {};                                                                       \
        const uint32_t a = 0x34563211u + threadIdx.x, b = 0x31233456u + threadIdx.x;               \
        for (int n = 0; n < iterations; n++)                                                       \
            _Pragma("unroll") for (int i = 0; i < 64; i++) asm volatile(                           \
                INSTRUCTION " {%0,%1,%2,%3},{%4,%5,%4,%5},{%5,%4},{%0,%1,%2,%3};" :                \
                "+f"(d[i % 16][0]), "+f"(d[i % 16][1]), "+f"(d[i % 16][2]),                        \
                "+f"(d[i % 16][3]) : "r"(a), "r"(b));                                              \
        float sum = 0;                                                                             \
        for (int i = 0; i < 16; i++)                                                               \
            sum += d[i][0] + d[i][1] + d[i][2] + d[i][3];                                          \
        if (sum == 12345.0f)                                                                       \
            *out = sum;                                                                            \
    }
MMA_LOOP(mma16, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
MMA_LOOP(mma32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
#endif

/* 8 * 16*8*16 * 2 operations a warp and iteration. */
__global__ void __launch_bounds__(256) mma64(double *out, int iterations)
{
    double d[8][4] = {}, a = 1e-3 * threadIdx.x, b = 1.0 / (1 + threadIdx.x);
    for (int n = 0; n < iterations; n++)
#pragma unroll
        for (int i = 0; i < 8; i++) {
#if __CUDA_ARCH__ >= 900
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3},"
                         "{%4,%5,%4,%5,%4,%5,%4,%5},{%5,%4,%5,%4},{%0,%1,%2,%3};"
                         : "+d"(d[i][0]), "+d"(d[i][1]), "+d"(d[i][2]), "+d"(d[i][3])
                         : "d"(a), "d"(b));
#else
            for (int part = 0; part < 8; part++)
                asm volatile(
                    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1},{%2},{%3},{%0,%1};"
                    : "+d"(d[i][part % 2 * 2]), "+d"(d[i][part % 2 * 2 + 1])
                    : "d"(a), "d"(b));
#endif
        }
    double sum = 0;
    for (int i = 0; i < 8; i++)
        sum += d[i][0] + d[i][1] + d[i][2] + d[i][3];
    if (sum == 12345.0)
        *out = sum;
}

/* Every block reads the same `vectors` * 16 bytes, each from a place of its own on. */
__global__ void l2_read(const uint4 *from, int vectors, int iterations, uint32_t *out)
{
    uint32_t sum = 0;
    for (int n = 0; n < iterations; n++)
#pragma unroll 8
        for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
            int at = i + (int)(blockIdx.x * 4099u % (unsigned)vectors);
            at -= at >= vectors ? vectors : 0;
            const uint4 v = __ldcg(from + at);
            sum += v.x ^ v.y ^ v.z ^ v.w;
        }
    if (sum == 12345u)
        *out = sum;
}

/* 16 bytes a lane, 16 loads an iteration. */
__global__ void __launch_bounds__(1024) smem_read(uint32_t *out, int iterations)
{
    __shared__ uint4 tile[2048];
    tile[threadIdx.x] = tile[threadIdx.x + 1024] = make_uint4(threadIdx.x, 1, 2, 3);
    __syncthreads();
    const uint32_t address = (uint32_t)__cvta_generic_to_shared(tile) + threadIdx.x * 16;
    uint32_t sum = 0;
    for (int n = 0; n < iterations; n++)
#pragma unroll
        for (int i = 0; i < 16; i++) {
            uint32_t x, y, z, w;
            asm volatile("ld.volatile.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                         : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
                         : "r"(address + i % 2 * 16384));
            sum += x ^ y ^ z ^ w;
        }
    if (sum == 12345u)
        *out = sum;
}

/* A ring of places `step` apart, so that each load has to wait for the one before. */
__global__ void chase_make(uint32_t *ring, uint32_t places, uint32_t step)
{
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < places;
         i += gridDim.x * blockDim.x)
        ring[(size_t)i * step] = (i + 1) % places * step;
}

__global__ void chase(const uint32_t *ring, int loads, uint32_t *out)
{
    uint32_t at = 0;
    for (int i = 0; i < loads; i++)
        at = __ldcg(ring + at);
    *out = at;
}

__global__ void chase_smem(int loads, uint32_t *out)
{
    __shared__ volatile uint32_t ring[256];
    for (int i = threadIdx.x; i < 256; i += 32)
        ring[i] = (i + 33) % 256;
    __syncthreads();
    uint32_t at = threadIdx.x;
    for (int i = 0; i < loads; i++)
        at = ring[at];
    out[threadIdx.x] = at;
}
}
