/* SPDX-License-Identifier: BSD-3-Clause
 * The table of kernels, made from kernels/kernels.def, and the choice among its rows by an estimate
 * of time. Decides nothing about placement or order; plan.c and dev_cuda.c call it. */
#include "kernel.h"

#include "tuned.h"
#include "../kernels/fold.h"
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
static const struct tb_kernel rows[] = {
#include "../kernels/kernels.def"
};
#undef KERNEL
#undef KERNEL_SM80
#undef KERNEL_SM90

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

static const char *why_not(const struct tb_kernel *row, const struct tb_caps *caps)
{
    if (caps->cc < row->cc_min || caps->cc > row->cc_max)
        return "not for this compute capability";
    /* A few bytes of static shared memory come on top (gemm_simt.cuh). */
    if (row->smem + 64 > caps->smem_block)
        return "more shared memory than a block may have";
    if (caps->strict && row->family != TB_SIMT)
        return "left out by strict";
    return NULL;
}

const char *kernel_why_not(const struct tb_caps *caps, int row)
{
    return kernel_row(row) != NULL ? why_not(&rows[row], caps) : "no such row";
}

static bool same_product(const struct tb_kernel *row, const struct tb_kernel *like)
{
    return row->ab == like->ab && row->c == like->c && row->ta == like->ta && row->tb == like->tb;
}

/* --- the estimate of time, in clocks of a multiprocessor ---
 */

/* Products per clock of a row whose rate is 100: what the best row of 16-bit types was seen to
 * reach. Rows of other types are compared with each other only. */
#define MADS_PER_CLOCK     1680.0

/* Costs of the tensor-core rows, fitted to what an H200 took for 80 shapes (perf/NOTES.md): a
 * launch, more where blocks come in pairs; the way out of a tile, alone on its multiprocessor or
 * not; dividing k and adding up. */
#define CLOCKS_START       4800.0
#define CLOCKS_PAIR        1760.0
#define CLOCKS_OUT         2690.0
#define CLOCKS_OUT_OF_2    1480.0
#define CLOCKS_OUT_SM80    9000.0
#define CLOCKS_SUM(BM, BN) (4400.0 + 0.425 * (BM) * (BN))

/* The tiles that one of `slots` gets at most. */
static double share_of(double tiles, double slots)
{
    const double share = tiles / slots;
    if (share >= 0x1p50) /* beyond, rounding up changes nothing */
        return share;
    return (double)ceil_div((int64_t)tiles, (int64_t)slots);
}

/* A multiprocessor with fewer tiles than are meant to share it hides less latency: what is
 * missing of the set counts a third. k is padded to whole steps; 16 more stand for the start and
 * the end of a tile. */
static double estimate_simt(const struct tb_kernel *row, int sms, const struct tb_extent *x)
{
    double share = share_of(tile_count(row, x->m, x->n, x->batch), sms);
    if (share < row->blocks_sm)
        share += (row->blocks_sm - share) / 3;
    const double steps = (double)ceil_div(x->k, row->bk) * row->bk + 16;
    return CLOCKS_START + share * row->bm * row->bn * steps / MADS_PER_CLOCK * 100 / row->rate;
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
    const double clocks = row->bm * row->bn * steps / MADS_PER_CLOCK * 100 / row->rate;
    const double out = row->family == TB_SM80 ? CLOCKS_OUT_SM80
                       : row->blocks_sm > 1   ? CLOCKS_OUT_OF_2
                                              : CLOCKS_OUT;
    return CLOCKS_START + (row->pair > 1 ? CLOCKS_PAIR : 0) +
           (split > 1 ? CLOCKS_SUM(row->bm, row->bn) : 0) + rounds * (sharing * clocks + out);
}

static double estimate(const struct tb_kernel *row, const struct tb_caps *caps,
                       const struct tb_extent *x)
{
    const int sms = caps->sms > 0 ? caps->sms : 1;
    return row->family == TB_SIMT ? estimate_simt(row, sms, x) : estimate_mma(row, sms, x);
}

/* The best of the rows that `params` (NULL: operands as the planner lays them out) and `barred`
 * allow. */
static int choose(const struct tb_caps *caps, const struct tb_kernel *like,
                  const struct tb_extent *x, const struct tb_gemm_params *params,
                  const bool *barred)
{
    int best = -1;
    double best_time = 0;
    for (int i = 0; i < kernel_count(); i++) {
        const struct tb_kernel *row = &rows[i];
        if (!same_product(row, like) || why_not(row, caps) != NULL)
            continue;
        if ((barred && barred[i]) || (params && !kernel_accepts(row, params)))
            continue;
        const double time = estimate(row, caps, x);
        if (best < 0 || time < best_time) {
            best = i;
            best_time = time;
        }
    }
    return best;
}

/* --- classes of shapes, and what was measured for them ---
 */

static const struct {
    enum tb_type ab, c;
} pairs[TB_PAIRS] = {{TB_F32, TB_F32}, {TB_F64, TB_F64}, {TB_C32, TB_C32},   {TB_C64, TB_C64},
                     {TB_F16, TB_F16}, {TB_F16, TB_F32}, {TB_BF16, TB_BF16}, {TB_BF16, TB_F32}};

int kernel_pair(enum tb_type ab, enum tb_type c)
{
    for (int i = 0; i < TB_PAIRS; i++)
        if (pairs[i].ab == ab && pairs[i].c == c)
            return i;
    return -1;
}

void kernel_pair_types(int pair, enum tb_type *ab, enum tb_type *c)
{
    *ab = pairs[pair].ab;
    *c = pairs[pair].c;
}

/* Where classes end; 0: nowhere. */
static const int wide_side[8] = {512, 724, 1024, 1448, 2048, 2896, 4096, 0},
                 wide_k[3] = {256, 2048}, narrow_side[4] = {32, 64, 128, 256},
                 long_side[2] = {2048}, long_k[2] = {512}, small_k[2] = {1024};

static int bucket(double x, const int *ends, int count)
{
    int i = 0;
    while (i < count - 1 && x > ends[i])
        i++;
    return i;
}

/* What tiles of 128 lose at the edge of a side, for the sides that have more than one. */
static double waste(int64_t side)
{
    return side <= 128 ? 1 : (double)ceil_div(side, 128) * 128 / (double)side;
}

static int class_of_thin(int base, int64_t narrow, int64_t other, int64_t k)
{
    return base +
           (bucket((double)narrow, narrow_side, 4) * 2 + bucket((double)other, long_side, 2)) * 2 +
           bucket((double)k, long_k, 2);
}

int kernel_class(const struct tb_extent *x)
{
    const double area = (double)x->m * (double)x->n * (double)x->batch;
    const bool flat = x->m <= 256, tall = x->n <= 256;
    if (x->m < 1 || x->n < 1 || x->batch < 1 || x->batch > 4 || x->k < 64 ||
        waste(x->m) * waste(x->n) > 1.25)
        return -1;
    if (flat && tall)
        return TB_CLASS_SMALL + bucket((double)(x->m > x->n ? x->m : x->n), narrow_side, 4) * 2 +
               bucket((double)x->k, small_k, 2);
    if (flat)
        return class_of_thin(TB_CLASS_FLAT, x->m, x->n, x->k);
    if (tall)
        return class_of_thin(TB_CLASS_TALL, x->n, x->m, x->k);
    int size = 0;
    while (size < 7 && area > (double)wide_side[size] * wide_side[size])
        size++;
    return TB_CLASS_WIDE + size * 3 + bucket((double)x->k, wide_k, 3);
}

static void put_text(char *out, int *used, const char *text)
{
    while (*text != '\0' && *used < TB_CLASS_NAME - 1)
        out[(*used)++] = *text++;
    out[*used] = '\0';
}

/* ":" and where the class ends. */
static void put_end(char *out, int *used, int end)
{
    char digits[12];
    int at = (int)sizeof digits - 1;
    digits[at] = '\0';
    for (; end > 0; end /= 10)
        digits[--at] = (char)('0' + end % 10);
    put_text(out, used, ":");
    put_text(out, used, digits[at] != '\0' ? digits + at : "max");
}

void kernel_class_name(int class, char out[TB_CLASS_NAME])
{
    const bool wide = class < TB_CLASS_FLAT, small = class >= TB_CLASS_SMALL;
    const bool tall = class >= TB_CLASS_TALL;
    int used = 0;
    put_text(out, &used, wide ? "wide" : small ? "small" : tall ? "tall" : "flat");
    if (wide) {
        put_end(out, &used, wide_side[class / 3]);
        put_end(out, &used, wide_k[class % 3]);
    } else if (small) {
        put_end(out, &used, narrow_side[(class - TB_CLASS_SMALL) / 2]);
        put_end(out, &used, small_k[class % 2]);
    } else {
        const int i = class - (tall ? TB_CLASS_TALL : TB_CLASS_FLAT);
        put_end(out, &used, narrow_side[i / 4]);
        put_end(out, &used, long_side[i / 2 % 2]);
        put_end(out, &used, long_k[i % 2]);
    }
}

/* The entry for that product; NULL: nothing was measured. */
static const struct tb_tuned_row *
tuned_entry(const struct tb_caps *caps, const struct tb_kernel *like, const struct tb_extent *x)
{
    const int pair = caps->tuned != NULL ? kernel_pair(like->ab, like->c) : -1;
    const int class = pair >= 0 ? kernel_class(x) : -1;
    return class >= 0 ? &caps->tuned->at[pair][like->ta + 2 * like->tb][class] : NULL;
}

/* Tiles fit one shape of a class better than another, which the estimate knows: a measured row is
 * taken where the estimate, corrected by what was measured, puts it clearly in front. */
int kernel_tuned(const struct tb_caps *caps, enum tb_type ab, enum tb_type c, bool ta, bool tb,
                 const struct tb_extent *x)
{
    const struct tb_kernel like = {.ab = ab, .c = c, .ta = ta, .tb = tb};
    const struct tb_tuned_row *const entry = tuned_entry(caps, &like, x);
    const struct tb_kernel *const kernel = kernel_row(entry != NULL ? entry->row - 1 : -1);
    if (kernel == NULL || !same_product(kernel, &like) || why_not(kernel, caps) != NULL)
        return -1;
    struct tb_caps any = *caps; /* it was measured beside all rows */
    any.strict = false;
    const struct tb_kernel *const best = &rows[choose(&any, &like, x, NULL, NULL)];
    const double ratio = estimate(kernel, caps, x) / estimate(best, caps, x);
    return ratio * (double)entry->gain <= TB_TUNED_GAIN * (double)entry->lead ? entry->row - 1 : -1;
}

const struct tb_tuned_row *kernel_tuned_row(const struct tb_caps *caps, int row,
                                            const struct tb_extent *x)
{
    const struct tb_kernel *const kernel = kernel_row(row);
    const struct tb_tuned_row *const entry = kernel != NULL ? tuned_entry(caps, kernel, x) : NULL;
    return entry != NULL && entry->row - 1 == row ? entry : NULL;
}

int32_t kernel_tuned_band(const struct tb_caps *caps, int row, const struct tb_extent *x)
{
    const struct tb_tuned_row *const entry = kernel_tuned_row(caps, row, x);
    const struct tb_kernel *const kernel = kernel_row(row);
    const bool takes = entry != NULL && kernel->family == TB_SM90 &&
                       kernel_tuned(caps, kernel->ab, kernel->c, kernel->ta, kernel->tb, x) == row;
    return takes ? entry->band : 0;
}

int kernel_choose(const struct tb_caps *caps, enum tb_type ab, enum tb_type c, bool ta, bool tb,
                  int64_t m, int64_t n, int64_t k, int64_t batch)
{
    const struct tb_kernel like = {.ab = ab, .c = c, .ta = ta, .tb = tb};
    const struct tb_extent x = {m, n, k, batch};
    const int measured = kernel_tuned(caps, ab, c, ta, tb, &x);
    return measured >= 0 ? measured : choose(caps, &like, &x, NULL, NULL);
}

double kernel_estimate(const struct tb_caps *caps, int row, const struct tb_extent *x)
{
    return kernel_row(row) != NULL ? estimate(&rows[row], caps, x) : 0;
}

double kernel_efficiency(const struct tb_caps *caps, enum tb_type ab, enum tb_type c, bool ta,
                         bool tb, int64_t m, int64_t n, int64_t k, int64_t batch)
{
    const struct tb_kernel like = {.ab = ab, .c = c, .ta = ta, .tb = tb};
    const struct tb_extent x = {m, n, k, batch};
    const int row = choose(caps, &like, &x, NULL, NULL);
    const double sms = caps->sms > 0 ? caps->sms : 1;
    if (row < 0)
        return 0;
    const double least = (double)m * (double)n * (double)k * (double)batch / sms / MADS_PER_CLOCK;
    /* The launch is a cost of its own, and clocks are true for the 16-bit rows only. */
    const double share = least / (estimate(&rows[row], caps, &x) - CLOCKS_START);
    return share < 1 ? share : 1;
}

int kernel_refit(const struct tb_caps *caps, int kernel, const struct tb_gemm_params *params,
                 const bool *barred)
{
    const struct tb_kernel *like = kernel_row(kernel);
    const struct tb_extent x = {params->m, params->n, params->k, params->batch};
    if (!like)
        return -1;
    if (!(barred && barred[kernel]) && kernel_accepts(like, params))
        return kernel;
    /* Plain arithmetic may have been asked for: it gives way to its like only. */
    struct tb_caps same = *caps;
    same.strict = caps->strict || like->family == TB_SIMT;
    return choose(&same, like, &x, params, barred);
}

/* --- launches ---
 */

static int bytes_of(enum tb_type type)
{
    static const int bytes[] = {
        [TB_F16] = 2, [TB_BF16] = 2, [TB_F32] = 4, [TB_F64] = 8, [TB_C32] = 8, [TB_C64] = 16};
    return bytes[type];
}

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
    const int64_t most = INT32_MAX - 4096; /* coordinates of the engine, numbers of tiles */
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

void kernel_launch(const struct tb_kernel *kernel, const struct tb_caps *caps,
                   const struct tb_gemm_params *params, struct tb_launch *out)
{
    *out = (struct tb_launch){.grid = {1, 1, 1}, .cluster = 1};
    if (kernel->family != TB_SM90) {
        const int products = kernel->ab == TB_C32 ? 2 : 1; /* that a step of k adds to a sum */
        out->way = tb_fold_every(params->k, products) / products - 1;
        simt_grid(kernel, params, out->grid);
        return;
    }
    const struct tb_extent x = {params->m, params->n, params->k, params->batch};
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
static int32_t band_of(const struct tb_kernel *kernel)
{
    return 2048 / kernel->bm;
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
        maps[0].box[1] = (uint32_t)(kernel->bm / kernel->pair);
    if (!tb)
        maps[1].box[1] = (uint32_t)kernel->bn;
    if ((p->batch == 1 || p->stride_c != 0) &&
        can_map(p->c, p->ldc, p->stride_c, p->batch, bytes_of(kernel->c)))
        maps[2] = map_of(kernel->c, p->c, p->m, p->n, p->ldc, p->stride_c, p->batch);
    const int32_t band = p->way >> TB_WAY_BAND;
    return (band > 0 ? band : band_of(kernel)) << TB_WAY_BAND |
           (maps[2].bytes != 0 ? TB_WAY_C_MAP : 0);
}
