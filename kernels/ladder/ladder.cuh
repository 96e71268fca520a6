/* SPDX-License-Identifier: BSD-3-Clause
 * What several rungs use: the spelling of the instructions, nothing that decides anything. Matrices
 * are row-major, C (m x n) = A (m x k) B (k x n); leading dimensions are multiples of 4 elements (8
 * in FP16), nothing else is. */
#pragma once
#include <cuda_fp16.h>
#include <cstdint>

__device__ inline uint32_t smem_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* 16 bytes from global to shared memory, of which the first `valid` count; the rest becomes zero.
 */
__device__ inline void copy_async(void *to, const void *from, int valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem_address(to)), "l"(from),
                 "r"(valid));
}

__device__ inline void copy_commit()
{
    asm volatile("cp.async.commit_group;");
}

template <int LEFT> __device__ inline void copy_wait() /* until at most LEFT groups are under way */
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT));
}

/* Bytes of a 16-byte piece that lie inside: elements `at` ... of a line of `size`, in line `line`
 * of `lines`. */
template <int BYTES> __device__ inline int valid_bytes(int at, int size, int line, int lines)
{
    const int left = line < lines ? (size - at) * BYTES : 0;
    return left < 0 ? 0 : left > 16 ? 16 : left;
}

__device__ inline void load_matrices(uint32_t r[4], const void *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem_address(p)));
}

__device__ inline void load_matrices_turned(uint32_t r[4], const void *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem_address(p)));
}

__device__ inline void mma(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                 "{%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
