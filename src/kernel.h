/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels as the host sees them: the rows of kernels/kernels.def, and which of them serves a
 * product. Pure tables and arithmetic, no driver, the same with and without CUDA: the planner asks
 * which row and which tile, the CUDA device how to launch it. */
#ifndef TB_KERNEL_H
#define TB_KERNEL_H

#include <stdbool.h>
#include <stdint.h>
#include "call.h"
#include "caps.h"
#include "shape.h"
#include "../kernels/kparams.h"

/* The compiled images, in the order of kernels/images.def. */
enum tb_image {
#define IMAGE(NAME) TB_IMAGE_##NAME,
#include "../kernels/images.def"
#undef IMAGE
    TB_IMAGES
};

/* How a row computes, and with it what it needs of the operands (kernel_accepts) and how it is
 * launched (kernel_launch, kernel_maps). */
enum tb_family {
    TB_SIMT,
    TB_SM80,
    TB_SM90,
    TB_DMMA, /* FP64 tensor cores */
    TB_X3,   /* FP32 on 16-bit planes; launched as several parts, has no kernel of its own */
    TB_PART, /* such a part; serves no product alone, its types are TB_TYPES */
    TB_TRI
};

struct tb_kernel {
    const char *name; /* symbol in its image */
    enum tb_image image;
    enum tb_type ab, c; /* element types of A and B, of C */
    bool ta, tb;        /* reads A, B transposed; conjugation is a flag of the launch */
    int bm, bn, bk;     /* tile of C of one block, its step in k */
    int threads;        /* of a block, one dimension */
    int smem;           /* bytes of dynamic shared memory of a block */
    int blocks_sm;      /* blocks meant to share a multiprocessor */
    int rate;           /* speed per flop on full tiles, 100 = the best row of its types */
    int cc_min, cc_max; /* compute capability * 10 it runs on */
    enum tb_family family;
    /* sm_90: 2 where blocks come in pairs, whose tiles are neighbours in n. dmma: the groups of
     * warps in a block that divide k. TB_TRI: 1 where it mirrors; of the others a block takes `bn`
     * rows or columns. Else 1. */
    int pair;
};

/* A launch: blocks, and how many of them form a cluster (1: no clusters). `way`: what goes into
 * params->way (that of rows of the sm_90 family comes with their maps). `early`: it should begin
 * while the launch before it in its lane ends, for which it waits itself. `scratch`: bytes of the
 * area that it divides tiles with, or 0. */
struct tb_launch {
    unsigned grid[3];
    unsigned cluster;
    int32_t way;
    bool early;
    size_t scratch;
};

/* What a launch of a row consists of, in this order: rows with a kernel each. */
enum { TB_PARTS_MAX = 6, TB_PARTS_READING = 2 }; /* of several parts the first ones leave C alone */
struct tb_part {
    int row;
    struct tb_launch launch;
};

/* A matrix as the tensor copy engine sees it: `sizes` in elements from the contiguous one on,
 * `pitches` in bytes, the box that is copied at once. `bytes` of an element; 0: no map. */
struct tb_map {
    uint64_t base, sizes[3], pitches[2];
    uint32_t box[3];
    enum tb_type type;
    int bytes;
    int hint; /* enum tb_khint */
};

int kernel_count(void);
const struct tb_kernel *kernel_row(int i);

/* The row that should be fastest for C (m x n) = op(A) op(B) over k, `batch` times, on that device:
 * the one that was measured for the class where caps->tuned has one that may serve (tuned.h), else
 * the one of the least estimate; -1 where none fits. Never a row that asks for more shared memory
 * than a block of the device may have, nor one that caps->strict leaves out. */
int kernel_choose(const struct tb_caps *caps, enum tb_type ab, enum tb_type c, bool ta, bool tb,
                  int64_t m, int64_t n, int64_t k, int64_t batch);

/* The same for a launch that has the device for itself, and kernel_scratch() bytes of it. */
int kernel_choose_alone(const struct tb_caps *caps, enum tb_type ab, enum tb_type c, bool ta,
                        bool tb, int64_t m, int64_t n, int64_t k, int64_t batch);

/* The row of the least estimate for such a launch, whatever was measured. */
int kernel_estimated(const struct tb_caps *caps, enum tb_type ab, enum tb_type c, bool ta, bool tb,
                     const struct tb_extent *x);

/* That estimate, in clocks of a multiprocessor. */
double kernel_estimate(const struct tb_caps *caps, int row, const struct tb_extent *x);

/* Why the row may not serve that product on that device, in a few words; NULL: it may. x: NULL, or
 * its size. */
const char *kernel_why_not(const struct tb_caps *caps, int row, const struct tb_extent *x);

/* Rows of tiles of a band of the block order that the row takes by itself. */
int kernel_band(const struct tb_kernel *kernel);

/* The share of the speed of a row of rate 100 on full tiles that the row of kernel_choose() should
 * reach there, 0 to 1; 0: there is none. For the router. */
double kernel_efficiency(const struct tb_caps *caps, enum tb_type ab, enum tb_type c, bool ta,
                         bool tb, int64_t m, int64_t n, int64_t k, int64_t batch);

/* The row that works on a triangle of the type, of at most `bm` rows (trmm, trsm), or the one that
 * mirrors a triangle; -1: none on that device. */
int kernel_triangle(const struct tb_caps *caps, enum tb_type type, bool mirror);

/* May the row serve these operands, wherever they lie? Those of sm_90 not always; only the plain
 * ones, other than of 16 bits, keep to a triangle of C; TB_X3 wants an area of kernel_scratch()
 * bytes at params->scratch. */
bool kernel_accepts(const struct tb_kernel *kernel, const struct tb_gemm_params *params);

/* `kernel`, or where that row does not accept the operands or `barred[kernel]`, the row of the same
 * types and transposes that should be fastest among those that do and are not barred; -1: none.
 * `barred` is NULL or has an entry for every row. */
int kernel_refit(const struct tb_caps *caps, int kernel, const struct tb_gemm_params *params,
                 const bool *barred);

/* The launch that should be fastest. One that shares tiles only where params->scratch is such an
 * area. */
void kernel_launch(const struct tb_kernel *kernel, const struct tb_caps *caps,
                   const struct tb_gemm_params *params, struct tb_launch *out);

/* Its two ways: whole tiles for each block or cluster; or the steps of k of the last tiles shared
 * evenly by all blocks (false where the row cannot). */
void kernel_launch_whole(const struct tb_kernel *kernel, const struct tb_caps *caps,
                         const struct tb_gemm_params *params, struct tb_launch *out);
bool kernel_launch_shared(const struct tb_kernel *kernel, const struct tb_caps *caps,
                          const struct tb_gemm_params *params, struct tb_launch *out);

/* The parts of row `kernel`, itself where it is a kernel of its own; how many. Before the first of
 * several, and before one that has scratch, kernel_cleared() bytes of the area at params->scratch
 * have to be zero; for all of several params->guard has to be that address. */
int kernel_parts(int kernel, const struct tb_caps *caps, const struct tb_gemm_params *params,
                 struct tb_part parts[TB_PARTS_MAX]);

/* Bytes on the device beside the operands: those that TB_X3 needs, by sizes and strides, or those
 * that the fastest launch of a row of sm_90 makes use of, by sizes; 0: none. */
size_t kernel_scratch(const struct tb_kernel *kernel, const struct tb_caps *caps,
                      const struct tb_gemm_params *params);
size_t kernel_cleared(const struct tb_kernel *kernel, const struct tb_gemm_params *params);

/* No launch that shares tiles asks for more on that device. Such launches leave what has to be zero
 * as they found it. */
size_t kernel_shared_most(const struct tb_caps *caps);

/* Which way the device took, by the first TB_TOLD_BYTES bytes that it left in the area. */
enum { TB_TOLD_BYTES = 4 };
const char *kernel_told(const void *area);

/* The maps of A, B and C that a row of the sm_90 family takes behind the parameters, for operands
 * that it accepts; that of C is left out where C cannot have one. Returns what the launch has to
 * put into params->way; params->band and params->hint go into it and into the maps. */
int32_t kernel_maps(const struct tb_kernel *kernel, const struct tb_gemm_params *params,
                    struct tb_map maps[3]);

#endif
