/* SPDX-License-Identifier: BSD-3-Clause
 * The table of kernels, made from kernels/kernels.def, and the choice among its rows by an estimate
 * of time. Decides nothing about placement or order; plan.c and dev_cuda.c call it. */
#include "kernel.h"

#include "../kernels/smem.h"

/* Bytes of an element of the computation, and whether its sums have a second level (elem.cuh). */
enum { BYTES_F16 = 4, BYTES_BF16 = 4, BYTES_F32 = 4, BYTES_F64 = 8, BYTES_C32 = 8, BYTES_C64 = 16 };
enum { FOLD_F16 = 1, FOLD_BF16 = 1, FOLD_F32 = 1, FOLD_F64 = 0, FOLD_C32 = 1, FOLD_C64 = 0 };

#define TB_ALL_ROWS
#define KERNEL(NAME, AB, C, TA, TB, BM, BN, BK, TM, TN, THREADS, BLOCKS_SM, RATE, CC_MIN, CC_MAX)  \
    {#NAME,                                                                                        \
     TB_IMAGE_##AB,                                                                                \
     TB_##AB,                                                                                      \
     TB_##C,                                                                                       \
     TA,                                                                                           \
     TB,                                                                                           \
     BM,                                                                                           \
     BN,                                                                                           \
     BK,                                                                                           \
     THREADS,                                                                                      \
     TB_SMEM_BYTES(BM, BN, BK, BYTES_##AB, FOLD_##AB),                                             \
     BLOCKS_SM,                                                                                    \
     RATE,                                                                                         \
     CC_MIN,                                                                                       \
     CC_MAX},
static const struct tb_kernel rows[] = {
#include "../kernels/kernels.def"
};
#undef KERNEL

int kernel_count(void)
{
    return (int)(sizeof rows / sizeof rows[0]);
}

const struct tb_kernel *kernel_row(int i)
{
    return i >= 0 && i < kernel_count() ? &rows[i] : NULL;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* As double: the product of three sizes may pass 2^63. */
static double tile_count(const struct tb_kernel *row, int64_t m, int64_t n, int64_t batch)
{
    return (double)ceil_div(m, row->bm) * (double)ceil_div(n, row->bn) * (double)batch;
}

static bool fits(const struct tb_kernel *row, const struct tb_caps *caps)
{
    /* A few bytes of static shared memory come on top (gemm_simt.cuh). */
    return caps->cc >= row->cc_min && caps->cc <= row->cc_max && row->smem + 64 <= caps->smem_block;
}

/* Time of the busiest multiprocessor, in arbitrary units: the tiles it gets, each at the rate of
 * the row. A multiprocessor with fewer tiles than are meant to share it hides less latency: what is
 * missing of the set counts a third. k is padded to whole steps; 16 more stand for the start and
 * the end of a tile. */
static double estimate(const struct tb_kernel *row, const struct tb_caps *caps, int64_t m,
                       int64_t n, int64_t k, int64_t batch)
{
    const double sms = caps->sms > 0 ? caps->sms : 1;
    const double tiles = tile_count(row, m, n, batch);
    double share = tiles / sms;
    if (share < 0x1p50) /* beyond, rounding up changes nothing */
        share = (double)ceil_div((int64_t)tiles, (int64_t)sms);
    if (share < row->blocks_sm)
        share += (row->blocks_sm - share) / 3;
    const double steps = (double)ceil_div(k, row->bk) * row->bk + 16;
    return share * row->bm * row->bn * steps / row->rate;
}

int kernel_choose(const struct tb_caps *caps, enum tb_type ab, enum tb_type c, bool ta, bool tb,
                  int64_t m, int64_t n, int64_t k, int64_t batch)
{
    int best = -1;
    double best_time = 0;
    for (int i = 0; i < kernel_count(); i++) {
        const struct tb_kernel *row = &rows[i];
        if (row->ab != ab || row->c != c || row->ta != ta || row->tb != tb || !fits(row, caps))
            continue;
        const double time = estimate(row, caps, m, n, k, batch);
        if (best < 0 || time < best_time) {
            best = i;
            best_time = time;
        }
    }
    return best;
}

void kernel_grid(const struct tb_kernel *kernel, const struct tb_gemm_params *params,
                 unsigned grid[3])
{
    const double tiles = tile_count(kernel, params->m, params->n, params->batch);
    const int64_t x_max = INT32_MAX;
    grid[1] = grid[2] = 1;
    if (tiles <= (double)x_max) {
        grid[0] = (unsigned)tiles;
        return;
    }
    const int64_t exact =
        ceil_div(params->m, kernel->bm) * ceil_div(params->n, kernel->bn) * params->batch;
    grid[1] = (unsigned)ceil_div(exact, x_max);
    grid[0] = (unsigned)ceil_div(exact, (int64_t)grid[1]);
}
