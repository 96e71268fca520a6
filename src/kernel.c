/* SPDX-License-Identifier: BSD-3-Clause
 * The table of kernels, made from kernels/kernels.def, and the choice among its rows by an estimate
 * of time. Decides nothing about placement or order; plan.c and dev_cuda.c call it. */
#include "kernel.h"

#include <float.h>
#include <stddef.h>
#include <string.h>

#include "../kernels/fold.h"
#include "../kernels/order.h"
#include "../kernels/smem.h"
#include "../kernels/x3.h"
#include "tuned.h"

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
     CC_MAX,                                                                                       \
     TB_SIMT,                                                                                      \
     1},
#define KERNEL_SM90(NAME, AB, C, TA, TB, BM, BN, STAGES, PAIR, BLOCKS_SM, RATE)                    \
    {#NAME,                                                                                        \
     TB_IMAGE_##AB##_SM90,                                                                         \
     TB_##AB,                                                                                      \
     TB_##C,                                                                                       \
     TA,                                                                                           \
     TB,                                                                                           \
     BM,                                                                                           \
     BN,                                                                                           \
     TB_SM90_BK,                                                                                   \
     TB_SM90_THREADS(BN),                                                                          \
     TB_SM90_BYTES(BM, BN, STAGES),                                                                \
     BLOCKS_SM,                                                                                    \
     RATE,                                                                                         \
     90,                                                                                           \
     90,                                                                                           \
     TB_SM90,                                                                                      \
     PAIR},
#define KERNEL_SM80(NAME, AB, C, TA, TB, BM, BN, STAGES, BLOCKS_SM, RATE)                          \
    {#NAME,                                                                                        \
     TB_IMAGE_##AB##_SM80,                                                                         \
     TB_##AB,                                                                                      \
     TB_##C,                                                                                       \
     TA,                                                                                           \
     TB,                                                                                           \
     BM,                                                                                           \
     BN,                                                                                           \
     TB_SM80_BK,                                                                                   \
     TB_SM80_THREADS(BM, BN),                                                                      \
     TB_SM80_BYTES(BM, BN, STAGES),                                                                \
     BLOCKS_SM,                                                                                    \
     RATE,                                                                                         \
     80,                                                                                           \
     999,                                                                                          \
     TB_SM80,                                                                                      \
     1},
#define KERNEL_X3(NAME, TA, TB, RATE)                                                              \
    {#NAME, TB_IMAGE_F32_SM90, TB_F32, TB_F32, TA, TB, TB_X3_TILE, TB_X3_TILE, TB_X3_STEP,         \
     384,   TB_X3_BYTES(2),    1,      RATE,   90, 90, TB_X3,      1},
#define KERNEL_PART(NAME, THREADS, SMEM, BLOCKS_SM, ...)                                           \
    {#NAME,      TB_IMAGE_F32_SM90, TB_TYPES, TB_TYPES, false,     false, TB_X3_TILE,              \
     TB_X3_TILE, TB_X3_STEP,        THREADS,  SMEM,     BLOCKS_SM, 100,   90,                      \
     90,         TB_PART,           1},
#define KERNEL_TRI(NAME, AB, KIND, ORDER, THREADS, CC_MIN, CC_MAX)                                 \
    {#NAME,                                                                                        \
     TB_IMAGE_##AB##_TRI,                                                                          \
     TB_##AB,                                                                                      \
     TB_##AB,                                                                                      \
     0,                                                                                            \
     0,                                                                                            \
     ORDER,                                                                                        \
     (KIND) == 2 ? TB_TRI_VECTORS : (THREADS),                                                     \
     ORDER,                                                                                        \
     THREADS,                                                                                      \
     (KIND) == 1   ? 0                                                                             \
     : (KIND) == 2 ? TB_TRI_WIDE_BYTES(ORDER, TB_TRI_PANEL(THREADS), BYTES_##AB)                   \
                   : TB_TRI_BYTES(ORDER, BYTES_##AB),                                              \
     1,                                                                                            \
     100,                                                                                          \
     CC_MIN,                                                                                       \
     CC_MAX,                                                                                       \
     TB_TRI,                                                                                       \
     KIND},
#define KERNEL_DMMA(NAME, AB, TA, TB, BM, BN, WM, WN, STAGES, GROUPS, BLOCKS_SM, RATE)             \
    {#NAME,                                                                                        \
     TB_IMAGE_##AB##_MMA,                                                                          \
     TB_##AB,                                                                                      \
     TB_##AB,                                                                                      \
     TA,                                                                                           \
     TB,                                                                                           \
     BM,                                                                                           \
     BN,                                                                                           \
     TB_DMMA_BK(BYTES_##AB),                                                                       \
     (GROUPS)*TB_DMMA_THREADS(BM, BN, WM, WN),                                                     \
     (GROUPS)*TB_DMMA_BYTES(BM, BN, STAGES),                                                       \
     BLOCKS_SM,                                                                                    \
     RATE,                                                                                         \
     80,                                                                                           \
     109,                                                                                          \
     TB_DMMA,                                                                                      \
     GROUPS},
static const struct tb_kernel rows[] = {
#include "../kernels/kernels.def"
};
#undef KERNEL
#undef KERNEL_SM80
#undef KERNEL_SM90
#undef KERNEL_X3
#undef KERNEL_PART
#undef KERNEL_TRI
#undef KERNEL_DMMA

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

static int bytes_of(enum tb_type type)
{
    static const int bytes[] = {
        [TB_F16] = 2, [TB_BF16] = 2, [TB_F32] = 4, [TB_F64] = 8, [TB_C32] = 8, [TB_C64] = 16};
    return bytes[type];
}

/* As double: the product of three sizes may pass 2^63. */
static double tile_count(const struct tb_kernel *row, int64_t m, int64_t n, int64_t batch)
{
    return (double)ceil_div(m, row->bm) * (double)ceil_div(n, row->bn) * (double)batch;
}

/* Why that device cannot have the row, or never wants it; NULL: it can. */
static const char *misfit(const struct tb_kernel *row, const struct tb_caps *caps)
{
    if (caps->cc < row->cc_min || caps->cc > row->cc_max)
        return "not for this compute capability";
    /* Parts without FP64 for computing have its tensor cores too, slower than the plain way. */
    if (row->family == TB_DMMA && caps->fp64_ratio > 4)
        return "FP64 is a token here";
    /* A few bytes of static shared memory come on top. */
    return row->smem + 256 > caps->smem_block ? "more shared memory than a block may have" : NULL;
}

static bool fits(const struct tb_kernel *row, const struct tb_caps *caps)
{
    return misfit(row, caps) == NULL;
}

/* --- the estimate of time, in clocks of a multiprocessor ---
 */

/* FP32 on 16-bit planes: the launches, packing an element, a step of a tile, its way out. */
#define CLOCKS_X3_START 38000.0
#define CLOCKS_X3_PACK  0.0053
#define CLOCKS_X3_STEP  1120.0
#define CLOCKS_X3_OUT   6000.0

/* Of the 128 real products a clock that FP64 tensor cores can do. */
#define DMMA_PER_CLOCK  107.0

/* Products per clock and multiprocessor of a row whose rate is 100, as an H200 was seen to reach
 * them: rows of FP64 tensor cores, plain rows, and the best row of the 16-bit types. */
static double mads_of(const struct tb_kernel *row)
{
    static const double plain[TB_TYPES] = {[TB_F16] = 1680, [TB_BF16] = 1680, [TB_F32] = 91,
                                           [TB_F64] = 44,   [TB_C32] = 20.7,  [TB_C64] = 11};
    if (row->family == TB_DMMA)
        return DMMA_PER_CLOCK / (row->ab == TB_C64 ? 4 : 1);
    if (row->family == TB_X3)
        return TB_X3_TILE * TB_X3_TILE * TB_X3_STEP / CLOCKS_X3_STEP;
    return plain[row->ab];
}

/* 8 of k of a plain row take at least so long, however few blocks share the multiprocessor: its
 * loads, its barrier, and what goes through shared memory for a tile whose sums have so many bytes
 * (fitted to 119 times, perf/NOTES.md). */
#define CLOCKS_STEP(SUMS)       (930.0 + 0.01 * (SUMS))
#define CLOCKS_STEP_64(SUMS)    (1100.0 + 0.01 * (SUMS))

/* Costs of the 16-bit tensor-core rows, fitted to what an H200 took for 70 shapes (perf/NOTES.md):
 * a launch, less where it begins early, more where blocks come in pairs; the way out of a tile,
 * less where it is hidden behind the next one (gemm_sm90.cuh, HOLDS) or by a second block; dividing
 * k and adding up. */
#define CLOCKS_START            4800.0
#define CLOCKS_START_SM90       3650.0
#define CLOCKS_PAIR             2280.0
#define CLOCKS_OUT              3600.0
#define CLOCKS_OUT_HELD         2380.0
#define CLOCKS_OUT_OF_2         1580.0
#define CLOCKS_OUT_PAIR         4400.0 /* results of 4 bytes, which do not wait */
#define CLOCKS_OUT_SM80         9000.0
#define CLOCKS_SUM(BM, BN)      (5080.0 + 0.121 * (BM) * (BN))

/* Of each multiprocessor, from and to memory; the share of the tiles that a round leaves idle
 * leaves the memory idle too. */
#define BYTES_PER_CLOCK         16.0

/* Tiles that blocks share: leaving a part of one behind, and for each entry of each such part;
 * steps take longer where blocks that use the same lines of memory are not in step. */
#define CLOCKS_LEAVE            5150.0
#define CLOCKS_TAKE             0.069
#define SHARE_APART             1.112

/* A launch that may begin while the one before it ends saves 3500 clocks. But its blocks come to
 * lie as the places get free, and neighbours no more side by side: of long launches, which live on
 * common lines in the caches, some lost a tenth, those in pairs nothing. */
#define CLOCKS_EARLY            70e3
#define CLOCKS_EARLY_PAIRS      1e6

/* Costs of the rows of FP64 tensor cores, fitted to 420 times of 54 shapes on an H200: a launch,
 * beyond that of others; what one warp on each quarter of a multiprocessor takes more than two;
 * bytes of memory a multiprocessor gets in a clock; the way out of a tile, and what dividing k
 * costs, plus so much for each byte of its sums. */
#define DMMA_START              1200.0
#define DMMA_ALONE              1.54
#define DMMA_MEMORY             22.0
#define DMMA_OUT(SUMS)          (3300.0 + 0.061 * (SUMS))
#define DMMA_SPLIT(SUMS, PARTS) (850.0 + 0.083 * (SUMS) + 17.0 * (PARTS))

/* The tiles that one of `slots` gets at most. */
static double share_of(double tiles, double slots)
{
    const double share = tiles / slots;
    if (share >= 0x1p50) /* beyond, rounding up changes nothing */
        return share;
    return (double)ceil_div((int64_t)tiles, (int64_t)slots);
}

/* The tiles of a multiprocessor, those beyond the ones that share it in rounds, are bound by
 * arithmetic or, where they are few, by how long a step takes. k is padded to whole steps; two more
 * stand for the start and the end of a tile. */
static double estimate_simt(const struct tb_kernel *row, int sms, const struct tb_extent *x)
{
    const double tiles = tile_count(row, x->m, x->n, x->batch), area = row->bm * row->bn;
    const bool fp64 = row->ab == TB_F64 || row->ab == TB_C64;
    const double sums = area * (row->ab == TB_C64                        ? 16
                                : row->ab == TB_C32 || row->ab == TB_F64 ? 8
                                                                         : 4);
    const double least = share_of(tiles, (double)sms * row->blocks_sm) * row->bk / 8 *
                         (fp64 ? CLOCKS_STEP_64(sums) : CLOCKS_STEP(sums));
    const double step = share_of(tiles, sms) * area * row->bk / mads_of(row) * 100 / row->rate;
    return CLOCKS_START + (step > least ? step : least) * ((double)ceil_div(x->k, row->bk) + 2);
}

/* Blocks that share one tile of C and divide k, where tiles alone would leave most of the device
 * idle: a power of two up to 8, each with four steps of k at least. Clusters of four and more do
 * not find room on every multiprocessor. */
static int split_of(const struct tb_kernel *row, int sms, const struct tb_extent *x)
{
    const double tiles = tile_count(row, x->m, x->n, x->batch);
    const double steps = (double)ceil_div(x->k, row->bk);
    int split = 1;
    if (row->family != TB_SM90 || row->pair > 1 || row->bm > 128)
        return 1;
    while (split < 8 && steps / (2 * split) >= 4 &&
           tiles * 2 * split <= (double)sms * row->blocks_sm * (split < 2 ? 1.0 : 0.85))
        split *= 2;
    return split;
}

/* A step of k of a tile that has the multiprocessor for itself. */
static double step_of(const struct tb_kernel *row)
{
    return row->bm * row->bn * row->bk / mads_of(row) * 100 / row->rate;
}

static double start_of(const struct tb_kernel *row)
{
    return row->family == TB_SM90 ? CLOCKS_START_SM90 : CLOCKS_START;
}

static double out_of(const struct tb_kernel *row)
{
    if (row->family == TB_SM80)
        return CLOCKS_OUT_SM80;
    if (row->blocks_sm > 1)
        return CLOCKS_OUT_OF_2;
    if (row->c == TB_F32 && row->pair > 1)
        return CLOCKS_OUT_PAIR;
    return row->c != TB_F32 && (row->pair > 1 || row->bm == 192) ? CLOCKS_OUT_HELD : CLOCKS_OUT;
}

/* Every operand once. */
static double clocks_memory(const struct tb_kernel *row, int sms, const struct tb_extent *x)
{
    const double m = (double)x->m, n = (double)x->n, k = (double)x->k;
    const double bytes = (m + n) * k * bytes_of(row->ab) + m * n * bytes_of(row->c);
    return bytes * (double)x->batch / (BYTES_PER_CLOCK * sms);
}

/* All multiprocessors take tiles in rounds, as many at a time as share one. */
static double estimate_mma(const struct tb_kernel *row, int sms, const struct tb_extent *x)
{
    const int split = split_of(row, sms, x);
    const double pairs = (double)ceil_div(ceil_div(x->n, row->bn), row->pair);
    const double blocks =
        (double)ceil_div(x->m, row->bm) * pairs * row->pair * (double)x->batch * split;
    const double rounds = share_of(blocks, (double)sms * row->blocks_sm);
    const double alone = share_of(blocks, sms);
    const double sharing = alone < row->blocks_sm ? alone : row->blocks_sm;
    const double steps = (double)ceil_div(ceil_div(x->k, row->bk), split) * row->bk;
    const double clocks = row->bm * row->bn * steps / mads_of(row) * 100 / row->rate;
    const double all = rounds * (sharing * clocks + out_of(row));
    const double idle = rounds > 1 ? rounds * sms * row->blocks_sm / blocks : 1;
    const double memory = clocks_memory(row, sms, x) * idle;
    return start_of(row) + (row->pair > 1 ? CLOCKS_PAIR : 0) +
           (split > 1 ? CLOCKS_SUM(row->bm, row->bn) : 0) + (all > memory ? all : memory);
}

/* Tiles whose steps of k all blocks share (gemm_sm90.cuh, make_job): the last round and what is
 * left of it. */
struct share {
    double rounds; /* of whole tiles before */
    double tiles;  /* shared */
    double blocks;
};

/* The square root, of numbers from 1 to about 2^60; the library has no other use for libm. */
static double root(double x)
{
    double r = 1;
    for (int i = 0; i < 50; i++)
        r = (r + x / r) / 2;
    return r;
}

/* More blocks leave each fewer steps, and the last block of a tile more sums to take. */
static bool share_find(const struct tb_kernel *row, int sms, const struct tb_extent *x,
                       struct share *out)
{
    if (row->family != TB_SM90 || row->pair > 1) /* others may have no tiles at all */
        return false;
    const double tiles = tile_count(row, x->m, x->n, x->batch);
    const double steps = (double)ceil_div(x->k, row->bk), slots = (double)sms * row->blocks_sm;
    if (tiles * steps > 0x1p30 || steps < 8)
        return false;
    const double rounds = tiles < 2 * slots ? 0 : (double)((int64_t)(tiles / slots) - 1);
    const double shared = tiles - rounds * slots;
    const double step = step_of(row), sum = CLOCKS_TAKE * row->bm * row->bn;
    double blocks = rounds > 0 ? slots : root(shared * steps * step * shared / sum);
    if (blocks > slots)
        blocks = slots;
    else if (blocks > sms && blocks < slots) /* all multiprocessors alike */
        blocks = blocks > (sms + slots) / 2 ? slots : sms;
    const double each = (double)(int64_t)(blocks / shared);
    if (blocks <= shared)
        blocks = shared < slots ? shared : slots;
    else if (shared * each > 0.92 * blocks)
        blocks = shared * each; /* tiles in step use the same lines of memory */
    *out = (struct share){rounds, shared, (double)(int64_t)blocks};
    return slots * (row->bn / 64) <= TB_WORK_FLAGS && shared * steps / out->blocks >= 3;
}

static double estimate_shared(const struct tb_kernel *row, int sms, const struct tb_extent *x)
{
    struct share share;
    if (!share_find(row, sms, x, &share))
        return DBL_MAX;
    const double steps = (double)ceil_div(x->k, row->bk), step = step_of(row);
    const double together = share.blocks > sms ? row->blocks_sm : 1;
    const double sums = share.blocks / share.tiles;
    const double apart = (double)(int64_t)sums == sums ? 1 : SHARE_APART;
    const double all = share.rounds * (row->blocks_sm * steps * step + out_of(row)) +
                       together * share.tiles * steps / share.blocks * step * apart;
    const double memory = clocks_memory(row, sms, x);
    return start_of(row) + (all > memory ? all : memory) + CLOCKS_LEAVE +
           CLOCKS_TAKE * row->bm * row->bn * together * sums + out_of(row);
}

static double estimate_x3(const struct tb_kernel *row, int sms, const struct tb_extent *x)
{
    const double rounds = share_of(tile_count(row, x->m, x->n, x->batch), sms);
    const double packed = ((double)x->m + (double)x->n) * (double)x->k * (double)x->batch;
    return CLOCKS_X3_START + packed * CLOCKS_X3_PACK * 132 / sms +
           rounds * ((double)ceil_div(x->k, row->bk) * CLOCKS_X3_STEP + CLOCKS_X3_OUT);
}

/* k is divided among `split` blocks and in each among its groups of warps. */
static double dmma_clocks(const struct tb_kernel *row, int sms, const struct tb_extent *x,
                          int split)
{
    const double bytes = bytes_of(row->ab), sums = row->bm * row->bn * bytes;
    const double blocks = tile_count(row, x->m, x->n, x->batch) * split;
    /* Clusters of four and more do not spread evenly. */
    const double share = share_of(blocks, split > 2 ? 0.85 * sms : sms);
    const double warps = (share < row->blocks_sm ? share : row->blocks_sm) * row->threads / 128.0;
    const int parts = split * row->pair;
    const double steps = (double)ceil_div(ceil_div(x->k, row->bk), parts) * row->pair * row->bk;
    const double m = (double)x->m, n = (double)x->n, k = (double)x->k;
    double compute = share * row->bm * row->bn * steps / mads_of(row) * 100 / row->rate;
    if (warps < DMMA_ALONE)
        compute *= DMMA_ALONE / warps;
    const double memory = (double)x->batch * (m * k + k * n + m * n) * bytes / sms / DMMA_MEMORY;
    return CLOCKS_START + DMMA_START + (compute > memory ? compute : memory) +
           share_of(blocks, (double)sms * row->blocks_sm) *
               (DMMA_OUT(sums) + (parts > 1 ? DMMA_SPLIT(sums, parts) : 0));
}

/* Blocks of a cluster that share a tile and divide k: a power of two up to 8, each with four steps
 * at least, if all run at once; the sums need room in shared memory. */
static int dmma_split(const struct tb_kernel *row, const struct tb_caps *caps,
                      const struct tb_extent *x)
{
    const int sms = caps->sms > 0 ? caps->sms : 1;
    const double tiles = tile_count(row, x->m, x->n, x->batch);
    const double room = (double)sms * row->blocks_sm;
    const int64_t steps = ceil_div(x->k, row->bk);
    int best = 1;
    if (caps->cc < 90 || row->bm * row->bn * bytes_of(row->ab) > row->smem / row->pair)
        return 1;
    for (int split = 2; split <= 8 && steps / (split * row->pair) >= 4; split *= 2)
        if (tiles * split <= room * (split > 2 ? 0.85 : 1.0) &&
            dmma_clocks(row, sms, x, split) < dmma_clocks(row, sms, x, best))
            best = split;
    return best;
}

/* `alone`: tiles may be shared. */
static double estimate(const struct tb_kernel *row, const struct tb_caps *caps,
                       const struct tb_extent *x, bool alone)
{
    const int sms = caps->sms > 0 ? caps->sms : 1;
    if (row->family == TB_X3)
        return estimate_x3(row, sms, x);
    if (row->family == TB_DMMA)
        return dmma_clocks(row, sms, x, dmma_split(row, caps, x));
    if (row->family == TB_SIMT)
        return estimate_simt(row, sms, x);
    const double whole = estimate_mma(row, sms, x);
    const double shared = alone ? estimate_shared(row, sms, x) : DBL_MAX;
    return whole <= shared ? whole : shared;
}

static const int64_t side_most = INT32_MAX - 4096; /* coordinates, numbers of tiles */

/* Is a product of that size one for the row, wherever its operands lie? */
static bool suits(const struct tb_kernel *row, const struct tb_caps *caps,
                  const struct tb_extent *x)
{
    if (row->family != TB_X3)
        return row->family != TB_PART && row->family != TB_TRI;
    return !caps->strict && x->k >= TB_X3_LEAST && x->m <= side_most && x->n <= side_most &&
           x->k <= side_most && x->batch <= side_most &&
           /* blocks of the packing grids */
           ((double)x->m + (double)x->n + 256) * ((double)x->k + 64) * (double)x->batch / 8192 <=
               (double)side_most &&
           tile_count(row, x->m, x->n, x->batch) * 2 <= (double)side_most;
}

/* Are its sums IEEE multiply-adds in the type of the call? */
static bool is_plain(const struct tb_kernel *row)
{
    return row->family == TB_SIMT || row->family == TB_DMMA;
}

/* The best of the rows that `params` (NULL: operands as the planner lays them out) and `barred`
 * allow. */
static int choose(const struct tb_caps *caps, const struct tb_kernel *like,
                  const struct tb_extent *x, bool alone, const struct tb_gemm_params *params,
                  const bool *barred)
{
    int best = -1;
    double best_time = 0;
    for (int i = 0; i < kernel_count(); i++) {
        const struct tb_kernel *row = &rows[i];
        if (row->ab != like->ab || row->c != like->c || row->ta != like->ta ||
            row->tb != like->tb || row->family == TB_TRI || !fits(row, caps) ||
            !suits(row, caps, x))
            continue;
        if ((caps->strict && !is_plain(row)) || (barred && barred[i]) ||
            (params && !kernel_accepts(row, params)))
            continue;
        const double time = estimate(row, caps, x, alone);
        if (best < 0 || time < best_time) {
            best = i;
            best_time = time;
        }
    }
    return best;
}

int kernel_estimated(const struct tb_caps *caps, enum tb_type ab, enum tb_type c, bool ta, bool tb,
                     const struct tb_extent *x)
{
    const struct tb_kernel like = {.ab = ab, .c = c, .ta = ta, .tb = tb};
    return choose(caps, &like, x, true, NULL, NULL);
}

int kernel_choose(const struct tb_caps *caps, enum tb_type ab, enum tb_type c, bool ta, bool tb,
                  int64_t m, int64_t n, int64_t k, int64_t batch)
{
    const struct tb_extent x = {m, n, k, batch};
    const int measured = tuned_choice(caps, ab, c, ta, tb, &x);
    if (measured >= 0)
        return measured;
    const struct tb_kernel like = {.ab = ab, .c = c, .ta = ta, .tb = tb};
    return choose(caps, &like, &x, false, NULL, NULL);
}

int kernel_choose_alone(const struct tb_caps *caps, enum tb_type ab, enum tb_type c, bool ta,
                        bool tb, int64_t m, int64_t n, int64_t k, int64_t batch)
{
    const struct tb_extent x = {m, n, k, batch};
    const int measured = tuned_choice(caps, ab, c, ta, tb, &x);
    return measured >= 0 ? measured : kernel_estimated(caps, ab, c, ta, tb, &x);
}

double kernel_estimate(const struct tb_caps *caps, int row, const struct tb_extent *x)
{
    return estimate(&rows[row], caps, x, true);
}

const char *kernel_why_not(const struct tb_caps *caps, int row, const struct tb_extent *x)
{
    const struct tb_kernel *const kernel = &rows[row];
    const char *const why = misfit(kernel, caps);
    if (kernel->family == TB_PART || kernel->family == TB_TRI)
        return "computes no product alone";
    if (why != NULL)
        return why;
    if (caps->strict && !is_plain(kernel))
        return "left out by TILEBLAS_MATH=strict";
    if (x == NULL)
        return NULL;
    return suits(kernel, caps, x) ? NULL : "not for products of this size";
}

/* What the best row of those types does in a clock on that device: strict or not, since the rate of
 * a profile is that of the best row. The 16-bit types' is Hopper's everywhere, and so is the rate.
 */
static double best_mads(const struct tb_caps *caps, enum tb_type ab, enum tb_type c)
{
    double best = 0;
    for (int i = 0; i < kernel_count(); i++)
        if (rows[i].ab == ab && rows[i].c == c && fits(&rows[i], caps) && mads_of(&rows[i]) > best)
            best = mads_of(&rows[i]);
    return best;
}

double kernel_efficiency(const struct tb_caps *caps, enum tb_type ab, enum tb_type c, bool ta,
                         bool tb, int64_t m, int64_t n, int64_t k, int64_t batch)
{
    const struct tb_extent x = {m, n, k, batch};
    const int row = kernel_choose_alone(caps, ab, c, ta, tb, m, n, k, batch);
    const double sms = caps->sms > 0 ? caps->sms : 1;
    if (row < 0)
        return 0;
    const double least =
        (double)m * (double)n * (double)k * (double)batch / sms / best_mads(caps, ab, c);
    /* The launch is a cost of its own. */
    const double clocks = estimate(&rows[row], caps, &x, true) - start_of(&rows[row]);
    const double share = least / (clocks * tuned_correction(caps, row, &x));
    return share < 1 ? share : 1;
}

int kernel_triangle(const struct tb_caps *caps, enum tb_type type, bool mirror)
{
    for (int i = 0; i < kernel_count(); i++)
        if (rows[i].family == TB_TRI && rows[i].ab == type && (rows[i].pair == 1) == mirror &&
            fits(&rows[i], caps))
            return i;
    return -1;
}

int kernel_refit(const struct tb_caps *caps, int kernel, const struct tb_gemm_params *params,
                 const bool *barred)
{
    const struct tb_kernel *like = kernel_row(kernel);
    const struct tb_extent x = {params->m, params->n, params->k, params->batch};
    if (!like)
        return -1;
    if (like->family == TB_TRI) /* nothing takes its place */
        return barred && barred[kernel] ? -1 : kernel;
    if (!(barred && barred[kernel]) && kernel_accepts(like, params))
        return kernel;
    /* Plain arithmetic may have been asked for: it gives way to its like only. */
    struct tb_caps same = *caps;
    same.strict = caps->strict || is_plain(like);
    return choose(&same, like, &x, false, params, barred);
}

/* --- launches ---
 */

/* What the tensor copy engine takes: addresses and pitches of whole 16 bytes, pitches below 2^40.
 */
static bool can_map(uint64_t base, int64_t ld, int64_t stride, int64_t batch, int bytes)
{
    const int64_t unit = 16 / bytes, most = (INT64_C(1) << 40) / bytes;
    if (base % 16 != 0 || ld % unit != 0 || ld <= 0 || ld >= most)
        return false;
    return batch == 1 || (stride % unit == 0 && stride >= 0 && stride < most);
}

bool kernel_accepts(const struct tb_kernel *kernel, const struct tb_gemm_params *p)
{
    const int64_t most = side_most;
    if (kernel->family == TB_PART)
        return false;
    if (p->uplo != TB_KUPLO_ALL && (kernel->family != TB_SIMT || bytes_of(kernel->ab) == 2))
        return false;
    if (kernel->family == TB_X3)
        return !p->alist && !p->blist && !p->clist && p->scratch != 0 && p->scratch % 256 == 0 &&
               p->k >= TB_X3_LEAST;
    if (kernel->family != TB_SM90)
        return true;
    if (p->alist || p->blist || p->clist || p->m > most || p->n > most || p->k > most ||
        p->batch > most)
        return false;
    return tile_count(kernel, p->m, p->n, p->batch) * 8 <= (double)most &&
           can_map(p->a, p->lda, p->stride_a, p->batch, bytes_of(kernel->ab)) &&
           can_map(p->b, p->ldb, p->stride_b, p->batch, bytes_of(kernel->ab));
}

static void simt_grid(const struct tb_kernel *kernel, const struct tb_gemm_params *params,
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

/* Tiles of their own operands lose nothing. */
static bool may_be_early(const struct tb_kernel *kernel, const struct tb_extent *x, double clocks)
{
    return clocks < (kernel->pair > 1 ? CLOCKS_EARLY_PAIRS : CLOCKS_EARLY) ||
           (x->m <= kernel->bm && x->n <= kernel->bn);
}

void kernel_launch_whole(const struct tb_kernel *kernel, const struct tb_caps *caps,
                         const struct tb_gemm_params *params, struct tb_launch *out)
{
    const struct tb_extent x = {params->m, params->n, params->k, params->batch};
    *out = (struct tb_launch){.grid = {1, 1, 1}, .cluster = 1};
    if (kernel->family == TB_TRI) {
        const int64_t vectors = params->way & TB_WAY_RIGHT ? params->m : params->n;
        /* Rows or columns of C; to mirror, a block for each column. */
        out->grid[0] = (unsigned)(kernel->pair == 1 ? params->k : ceil_div(vectors, kernel->bn));
        out->way = params->way;
        return;
    }
    if (kernel->family != TB_SM90) {
        const int products = kernel->ab == TB_C32 ? 2 : 1; /* that a step of k adds to a sum */
        out->way = tb_fold_every(params->k, products) / products - 1;
        simt_grid(kernel, params, out->grid);
        if (kernel->family == TB_DMMA)
            out->cluster = (unsigned)dmma_split(kernel, caps, &x);
        out->grid[0] *= out->cluster; /* few tiles, where k is divided */
        return;
    }
    const int sms = caps->sms > 0 ? caps->sms : 1;
    const int split = split_of(kernel, sms, &x);
    out->cluster = (unsigned)(kernel->pair > 1 ? kernel->pair : split);
    /* Whole clusters: for each tile where k is divided, else as many as run at once. */
    int64_t clusters =
        ceil_div(x.m, kernel->bm) * ceil_div(ceil_div(x.n, kernel->bn), kernel->pair) * x.batch;
    const int64_t room = (int64_t)sms * kernel->blocks_sm / (int64_t)out->cluster;
    if (split == 1 && clusters > room)
        clusters = room > 0 ? room : 1;
    out->grid[0] = (unsigned)clusters * out->cluster;
    out->early = may_be_early(kernel, &x, estimate_mma(kernel, sms, &x));
}

bool kernel_launch_shared(const struct tb_kernel *kernel, const struct tb_caps *caps,
                          const struct tb_gemm_params *params, struct tb_launch *out)
{
    const struct tb_extent x = {params->m, params->n, params->k, params->batch};
    const int sms = caps->sms > 0 ? caps->sms : 1;
    struct share share;
    if (!share_find(kernel, sms, &x, &share))
        return false;
    const size_t blocks = (size_t)share.blocks, tile = (size_t)kernel->bm * (size_t)kernel->bn * 4;
    *out = (struct tb_launch){.grid = {(unsigned)blocks, 1, 1},
                              .cluster = 1,
                              .early = may_be_early(kernel, &x, estimate_shared(kernel, sms, &x)),
                              .scratch = kernel_cleared(kernel, params) + tile * blocks};
    return true;
}

/* Is it worth sharing tiles? */
static bool shares(const struct tb_kernel *kernel, const struct tb_caps *caps,
                   const struct tb_gemm_params *params, struct tb_launch *out)
{
    const struct tb_extent x = {params->m, params->n, params->k, params->batch};
    const int sms = caps->sms > 0 ? caps->sms : 1;
    return kernel->family == TB_SM90 &&
           estimate_shared(kernel, sms, &x) < estimate_mma(kernel, sms, &x) &&
           kernel_launch_shared(kernel, caps, params, out);
}

void kernel_launch(const struct tb_kernel *kernel, const struct tb_caps *caps,
                   const struct tb_gemm_params *params, struct tb_launch *out)
{
    if (!params->scratch || !shares(kernel, caps, params, out))
        kernel_launch_whole(kernel, caps, params, out);
}

size_t kernel_scratch(const struct tb_kernel *kernel, const struct tb_caps *caps,
                      const struct tb_gemm_params *params)
{
    struct tb_launch launch;
    if (kernel->family == TB_X3)
        return tb_x3_lay_out(params, TB_X3_PLANES_MAX).bytes;
    return shares(kernel, caps, params, &launch) ? launch.scratch : 0;
}

size_t kernel_cleared(const struct tb_kernel *kernel, const struct tb_gemm_params *params)
{
    if (kernel->family == TB_X3)
        return tb_x3_lay_out(params, TB_X3_PLANES_MAX).packs[0];
    return kernel->family == TB_SM90 ? TB_WORK_FLAGS * 4 : 0;
}

size_t kernel_shared_most(const struct tb_caps *caps)
{
    int64_t most = 0;
    for (int i = 0; i < kernel_count(); i++) {
        const struct tb_kernel *row = &rows[i];
        const int64_t tiles = (int64_t)row->bm * row->bn * row->blocks_sm;
        if (row->family == TB_SM90 && row->pair == 1 && fits(row, caps) && tiles > most)
            most = tiles;
    }
    return TB_WORK_FLAGS * 4 + 4 * (size_t)most * (size_t)(caps->sms > 0 ? caps->sms : 1);
}

static struct tb_map map_of(enum tb_type type, uint64_t base, int64_t lines, int64_t cols,
                            int64_t ld, int64_t stride, int64_t batch)
{
    const int bytes = bytes_of(type);
    const bool many = batch > 1 && stride != 0;
    return (struct tb_map){.base = base,
                           .sizes = {(uint64_t)lines, (uint64_t)cols, many ? (uint64_t)batch : 1},
                           .pitches = {(uint64_t)ld * (uint64_t)bytes,
                                       (uint64_t)(many ? stride : ld) * (uint64_t)bytes},
                           .box = {(uint32_t)(128 / bytes), 64, 1},
                           .type = type,
                           .bytes = bytes};
}

/* Blocks that run at the same time should cover about as many rows of C as columns. */
int kernel_band(const struct tb_kernel *kernel)
{
    return kernel->family == TB_SM90 ? 2048 / kernel->bm : TB_ORDER_BAND;
}

/* Of a narrow matrix, no more lines than it has, in whole eights (gemm_sm90.cuh, fetched). */
static uint32_t box_lines(const struct tb_kernel *kernel, int tile, int64_t size)
{
    return (uint32_t)(kernel->pair > 1 || size >= tile ? tile : (size + 7) / 8 * 8);
}

int32_t kernel_maps(const struct tb_kernel *kernel, const struct tb_gemm_params *p,
                    struct tb_map maps[3])
{
    const bool ta = kernel->ta, tb = kernel->tb;
    maps[0] =
        map_of(kernel->ab, p->a, ta ? p->k : p->m, ta ? p->m : p->k, p->lda, p->stride_a, p->batch);
    maps[1] =
        map_of(kernel->ab, p->b, tb ? p->n : p->k, tb ? p->k : p->n, p->ldb, p->stride_b, p->batch);
    maps[2] = (struct tb_map){.bytes = 0};
    if (ta) /* lines along k: all lines of the tile, or of a block's half, at once */
        maps[0].box[1] = box_lines(kernel, kernel->bm / kernel->pair, p->m);
    if (!tb)
        maps[1].box[1] = box_lines(kernel, kernel->bn, p->n);
    if ((p->batch == 1 || p->stride_c != 0) &&
        can_map(p->c, p->ldc, p->stride_c, p->batch, bytes_of(kernel->c)))
        maps[2] = map_of(kernel->c, p->c, p->m, p->n, p->ldc, p->stride_c, p->batch);
    maps[0].hint = maps[1].hint = p->hint;
    const int32_t band = p->band > 0 ? p->band : kernel_band(kernel);
    return band << TB_WAY_BAND | (maps[2].bytes != 0 ? TB_WAY_C_MAP : 0);
}

/* --- FP32 on 16-bit planes: several kernels, of which the device picks ---
 */

const char *kernel_told(const void *area)
{
    static const char *const ways[] = {[TB_X3_NONE] = "not decided",
                                       [TB_X3_F16] = "two f16 planes",
                                       [TB_X3_BF16] = "three bf16 planes",
                                       [TB_X3_SIMT] = "the plain kernel"};
    uint32_t path;
    _Static_assert(sizeof path == TB_TOLD_BYTES && offsetof(struct tb_x3_guard, path) == 0, "");
    memcpy(&path, area, sizeof path);
    return path <= TB_X3_SIMT ? ways[path] : "unknown";
}

static int row_by_name(const char *name)
{
    for (int i = 0; i < kernel_count(); i++)
        if (strcmp(rows[i].name, name) == 0)
            return i;
    return -1;
}

/* Blocks that share a tile of A win a little, unless a column of tiles without a partner costs
 * more. */
static bool x3_in_pairs(const struct tb_gemm_params *p)
{
    const int64_t cols = ceil_div(p->n, TB_X3_TILE);
    return cols % 2 == 0 || cols > 16;
}

static struct tb_part x3_product(const char *name, const char *pair, int sms,
                                 const struct tb_gemm_params *p)
{
    const int64_t width = x3_in_pairs(p) ? 2 : 1, room = sms / width;
    int64_t clusters = ceil_div(p->m, TB_X3_TILE) * ceil_div(p->n, TB_X3_TILE * width) * p->batch;
    if (clusters > room)
        clusters = room > 0 ? room : 1;
    return (struct tb_part){
        .row = row_by_name(width == 2 ? pair : name),
        .launch = {.grid = {(unsigned)(clusters * width), 1, 1}, .cluster = (unsigned)width}};
}

/* A grid over blocks of 128 rows by k_step of both operands. */
static struct tb_part x3_packing(const char *name, const struct tb_x3_layout *x, int64_t k,
                                 int64_t k_step)
{
    const int64_t tiles = x->items[0] * x->tiles[0] + x->items[1] * x->tiles[1];
    return (struct tb_part){
        .row = row_by_name(name),
        .launch = {.grid = {(unsigned)(tiles * ceil_div(k, k_step)), 1, 1}, .cluster = 1}};
}

int kernel_parts(int kernel, const struct tb_caps *caps, const struct tb_gemm_params *params,
                 struct tb_part parts[TB_PARTS_MAX])
{
    const struct tb_kernel *row = &rows[kernel];
    const int sms = caps->sms > 0 ? caps->sms : 1;
    if (row->family != TB_X3) {
        parts[0].row = kernel;
        kernel_launch(row, caps, params, &parts[0].launch);
        return 1;
    }
    struct tb_caps plain = *caps; /* in which every type has a row */
    plain.strict = true;
    const struct tb_x3_layout x = tb_x3_lay_out(params, TB_X3_PLANES_MAX);
    const struct tb_extent size = {params->m, params->n, params->k, params->batch};
    parts[0] = x3_packing("x3_most", &x, params->k, 128);
    parts[1] = x3_packing("x3_pack_f16", &x, params->k, TB_X3_SEG);
    parts[2] = x3_product("x3_f16", "x3_f16_pair", sms, params);
    parts[3] = x3_packing("x3_pack_bf16", &x, params->k, TB_X3_SEG);
    parts[4] = x3_product("x3_bf16", "x3_bf16_pair", sms, params);
    parts[5].row = choose(&plain, row, &size, false, params, NULL);
    kernel_launch(&rows[parts[5].row], caps, params, &parts[5].launch);
    return 6;
}
