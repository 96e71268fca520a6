/* SPDX-License-Identifier: BSD-3-Clause
 * FP32 products on the 16-bit tensor cores, as host, device and the model in the tests must agree on them:
 * the scale of a row, which of three ways a product takes, and where the scratch area holds what.
 * Included by C11 and by CUDA C; why the numbers are what they are is in README.md. */
#ifndef TB_X3_H
#define TB_X3_H

#include <stdint.h>
#include "kparams.h"

#if defined __CUDACC__
#define TB_X3_FN __host__ __device__ static inline
#else
#define TB_X3_FN static inline
#endif

/* The ways. F16: two planes, three products. BF16: three planes, six products, for a wide range of
 * exponents. SIMT: the plain kernel, for Inf, NaN and what is wider still. */
enum tb_x3_path { TB_X3_NONE, TB_X3_F16, TB_X3_BF16, TB_X3_SIMT };

#define TB_X3_TILE   128 /* rows of a packed block, and the side of a tile of C */
#define TB_X3_STEP   32  /* of k in a packed block */
#ifndef TB_X3_LEAVE
#define TB_X3_LEAVE  16  /* of k after which the leading sum leaves the tensor core */
#endif
#define TB_X3_FOLD   512 /* of k between two folds into the second level */
#define TB_X3_SEG    64  /* of k that the guard looks at together */
#define TB_X3_LEAST  256 /* shorter sums are not for these kernels */
#define TB_X3_LO     2048.0f /* the low plane of F16 is that much larger than it counts */
#define TB_X3_PLANES_MAX 3

/* Bytes of one plane of a packed block. */
#define TB_X3_PLANE (TB_X3_TILE * TB_X3_STEP * 2)

/* The largest element of a row is scaled to an exponent of: */
#define TB_X3_TOP_F16  14
#define TB_X3_TOP_BF16 40

/* Exponents below that of the largest element of the row: from there on an element of the F16 way has lost
 * bits; it counts as small in the guard; the BF16 way no longer holds all of its bits. */
#define TB_X3_TINY  28
#define TB_X3_SMALL 12
#define TB_X3_WIDE  100

#define TB_X3_MANY 128 /* products that count, for the F16 way */

/* The exponent e of x, 2^e <= |x| < 2^(e+1), from its bits without the sign; finite. `zero` for 0. */
TB_X3_FN int tb_x3_exponent(uint32_t bits, int zero)
{
    int e = (int)(bits >> 23) - 127;
    if (bits < 0x800000u) { /* subnormal */
        if (bits == 0)
            return zero;
#if defined __CUDA_ARCH__
        e = 31 - __clz((int)bits) - 149;
#else
        e = 31 - __builtin_clz(bits) - 149;
#endif
    }
    return e;
}

/* The 11 bits that an F16 holds of x (as bits of an FP32 number) are cut out with a threshold that goes up and
 * down with k, and for A and B and for both planes out of step. Rounded to nearest, a matrix of equal numbers
 * would have the same error in every product, and A A^T lows that are equal; so errors cancel along k. What F16
 * holds stays as it is. */
TB_X3_FN uint32_t tb_x3_threshold(int64_t k, int which, int plane)
{
    /* golden ratio, square roots of 2, 3 and 5, as fractions of 2^32 */
    const uint32_t turn = which ? (plane ? 0x3c6ef372u : 0xbb67ae85u) : (plane ? 0x6a09e667u : 0x9e3779b9u);
    return (uint32_t)k * turn >> 19;
}

TB_X3_FN uint32_t tb_x3_cut(uint32_t bits, uint32_t threshold)
{
    return (bits + threshold) & ~(uint32_t)0x1fff;
}

/* What packing found, over both operands of all products of the batch. */
struct tb_x3_guard {
    uint32_t path;     /* the decision, enum tb_x3_path */
    uint32_t finished; /* blocks that have packed */
    uint32_t special;  /* a row holds Inf or NaN */
    uint32_t wide;     /* an element other than 0 lies TB_X3_WIDE or more below the largest of its row */
    uint32_t small[2]; /* of A, B: most elements TB_X3_SMALL or more below, 0 included, in a segment */
    uint32_t tiny[2];  /* of A, B: most elements other than 0 TB_X3_TINY or more below, in a segment */
    uint32_t unused[8];
};

/* Elements that have lost bits are off by at most 2^-50 of the largest of their row, which does no harm
 * where the sum of magnitudes is large for another reason; and two planes of F16 are as good as FP32 on the
 * average of many products only, while a few may be off by 8 u. So that many products must have both factors
 * large: at least `even` in every segment, since so many elements of a row of A and of a column of B are. */
TB_X3_FN uint32_t tb_x3_decide(const struct tb_x3_guard *g, int64_t k)
{
    const int64_t even = (int64_t)TB_X3_SEG - g->small[0] - g->small[1] - 4 * ((int64_t)g->tiny[0] + g->tiny[1]);
    if (g->special || g->wide)
        return TB_X3_SIMT;
    return even > 0 && even * (k / TB_X3_SEG) >= TB_X3_MANY ? TB_X3_F16 : TB_X3_BF16;
}

/* The scratch area: the guard; the largest magnitude (its bits) of every row of op(A) and every column of
 * op(B), tiles filled up; then the packed blocks of A and of B. A block is its planes one behind the other, a
 * plane 128 lines of 64 bytes under the 64-byte swizzle; blocks follow each other along k, then in rows. */
struct tb_x3_layout {
    uint64_t most[2];  /* offsets */
    uint64_t packs[2]; /* for PLANES planes */
    uint64_t bytes;
    int64_t tiles[2], steps, items[2]; /* tiles of rows of one product, steps of k, products */
};

TB_X3_FN uint64_t tb_x3_up(uint64_t x, uint64_t unit)
{
    return (x + unit - 1) / unit * unit;
}

TB_X3_FN struct tb_x3_layout tb_x3_lay_out(const struct tb_gemm_params *p, int planes)
{
    struct tb_x3_layout x;
    uint64_t at = 256;
    x.steps = (p->k + TB_X3_STEP - 1) / TB_X3_STEP;
    x.tiles[0] = (p->m + TB_X3_TILE - 1) / TB_X3_TILE;
    x.tiles[1] = (p->n + TB_X3_TILE - 1) / TB_X3_TILE;
    x.items[0] = p->batch > 1 && p->stride_a != 0 ? p->batch : 1;
    x.items[1] = p->batch > 1 && p->stride_b != 0 ? p->batch : 1;
    for (int i = 0; i < 2; i++) {
        x.most[i] = at;
        at += (uint64_t)(x.items[i] * x.tiles[i]) * TB_X3_TILE * 4;
    }
    at = tb_x3_up(at, 1024);
    for (int i = 0; i < 2; i++) {
        x.packs[i] = at;
        at += (uint64_t)(x.items[i] * x.tiles[i] * x.steps) * (uint64_t)(planes * TB_X3_PLANE);
    }
    x.bytes = at;
    return x;
}

#endif
