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

/* How a row computes, and with it what it needs of the operands (kernel_accepts) and how it is
 * launched (kernel_launch, kernel_maps). */
enum tb_family { TB_SIMT, TB_SM80, TB_SM90 };

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
    int pair; /* 2: blocks come in pairs, whose tiles are neighbours in n; else 1 */
};

/* A launch: blocks, how many of them form a cluster (1: no clusters), and what goes into
 * params->way (that of rows of the sm_90 family comes with their maps). */
struct tb_launch {
    unsigned grid[3];
    unsigned cluster;
    int32_t way;
};

/* A matrix as the tensor copy engine sees it: `sizes` in elements from the contiguous one on,
 * `pitches` in bytes, the box that is copied at once. `bytes` of an element; 0: no map. */
struct tb_map {
    uint64_t base, sizes[3], pitches[2];
    uint32_t box[3];
    enum tb_type type;
    int bytes;
};

int kernel_count(void);
const struct tb_kernel *kernel_row(int i);

/* C (m x n) = op(A) op(B) over k; `batch` of them, or as many beside each other. */
struct tb_extent {
    int64_t m, n, k, batch;
};

/* The pairs of element types that products have, and the layouts: op(A) and op(B) transposed. */
enum { TB_PAIRS = 8, TB_LAYOUTS = 4 };
int kernel_pair(enum tb_type ab, enum tb_type c); /* -1: no product has these */
void kernel_pair_types(int pair, enum tb_type *ab, enum tb_type *c);

/* The class of a shape: shapes of one class are served best by the same row, as far as a class can
 * say so. Whoever measures kernels measures classes. -1: none, only the estimate can tell, since k
 * is under 64, more than four products lie beside each other, or tiles of 128 would be filled
 * badly. Else by the sides: both over 256 ("wide", by the area of all products, 8 of them, and k up
 * to 256, 2048, over), m up to 32, 64, 128, 256 and n over 256 ("flat", n up to 2048 or over, k up
 * to 512 or over), the same with m and n exchanged ("tall"), neither over 256 ("small", by the
 * larger one as before, and k up to 1024 or over). */
enum {
    TB_CLASS_WIDE = 0,
    TB_CLASS_FLAT = TB_CLASS_WIDE + 8 * 3,
    TB_CLASS_TALL = TB_CLASS_FLAT + 4 * 2 * 2,
    TB_CLASS_SMALL = TB_CLASS_TALL + 4 * 2 * 2,
    TB_SHAPE_CLASSES = TB_CLASS_SMALL + 4 * 2
};
int kernel_class(const struct tb_extent *x);
enum { TB_CLASS_NAME = 32 };
/* "wide:724:2048": its sides and k go up to these; "max": no limit. */
void kernel_class_name(int class, char out[TB_CLASS_NAME]);

/* The row that should be fastest for C (m x n) = op(A) op(B) over k, `batch` times, on that device:
 * the one that was measured for the class where caps->tuned has one that may serve, else the one of
 * the least estimate; -1 where none fits. Never a row that asks for more shared memory than a block
 * of the device may have, nor one that caps->strict leaves out. */
int kernel_choose(const struct tb_caps *caps, enum tb_type ab, enum tb_type c, bool ta, bool tb,
                  int64_t m, int64_t n, int64_t k, int64_t batch);

/* The measured row of that class on that device, if there is one, it may serve, and the estimate
 * does not put it further behind at this shape than what was measured makes up for; -1: the
 * estimate chooses. */
int kernel_tuned(const struct tb_caps *caps, enum tb_type ab, enum tb_type c, bool ta, bool tb,
                 const struct tb_extent *x);

/* What was measured of that row in the class of the shape, taken or not; NULL: nothing. */
struct tb_tuned_row;
const struct tb_tuned_row *kernel_tuned_row(const struct tb_caps *caps, int row,
                                            const struct tb_extent *x);

/* Rows of tiles of a band of the block order that were measured with that row; 0: its own. */
int32_t kernel_tuned_band(const struct tb_caps *caps, int row, const struct tb_extent *x);

/* Why no product of that device may have the row, in a few words; NULL: it may. */
const char *kernel_why_not(const struct tb_caps *caps, int row);

/* The estimate, in clocks of a multiprocessor for 16-bit types; rows of other types can only be
 * compared with each other. */
double kernel_estimate(const struct tb_caps *caps, int row, const struct tb_extent *x);

/* The share of the speed of a row of rate 100 on full tiles that the row of the least estimate
 * should reach there, 0 to 1; 0: there is none. For the router. A measured row is no slower. */
double kernel_efficiency(const struct tb_caps *caps, enum tb_type ab, enum tb_type c, bool ta,
                         bool tb, int64_t m, int64_t n, int64_t k, int64_t batch);

/* May the row serve these operands, wherever they lie? All but those of sm_90 may always. */
bool kernel_accepts(const struct tb_kernel *kernel, const struct tb_gemm_params *params);

/* `kernel`, or where that row does not accept the operands or `barred[kernel]`, the row of the same
 * types and transposes that should be fastest among those that do and are not barred; -1: none.
 * `barred` is NULL or has an entry for every row. */
int kernel_refit(const struct tb_caps *caps, int kernel, const struct tb_gemm_params *params,
                 const bool *barred);

void kernel_launch(const struct tb_kernel *kernel, const struct tb_caps *caps,
                   const struct tb_gemm_params *params, struct tb_launch *out);

/* The maps of A, B and C that a row of the sm_90 family takes behind the parameters, for operands
 * that it accepts; that of C is left out where C cannot have one. Returns what the launch has to
 * put into params->way; a band that is there already stays. */
int32_t kernel_maps(const struct tb_kernel *kernel, const struct tb_gemm_params *params,
                    struct tb_map maps[3]);

#endif
