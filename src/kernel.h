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
#include "../kernels/kparams.h"

/* The compiled images, in the order of kernels/images.def. */
enum tb_image {
#define IMAGE(NAME) TB_IMAGE_##NAME,
#include "../kernels/images.def"
#undef IMAGE
    TB_IMAGES
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
};

int kernel_count(void);
const struct tb_kernel *kernel_row(int i);

/* The row that should be fastest for C (m x n) = op(A) op(B) over k, `batch` times, on that device;
 * -1 where none fits. Never a row that asks for more shared memory than a block of the device may
 * have. */
int kernel_choose(const struct tb_caps *caps, enum tb_type ab, enum tb_type c, bool ta, bool tb,
                  int64_t m, int64_t n, int64_t k, int64_t batch);

/* Blocks to launch: one for each tile of C, or a few more. */
void kernel_grid(const struct tb_kernel *kernel, const struct tb_gemm_params *params,
                 unsigned grid[3]);

#endif
