/* SPDX-License-Identifier: BSD-3-Clause
 * Decides tile sizes, slots and the order of the steps, from sizes alone. The orders: a growing
 * square where A and B stay on the device (each byte crosses once), after some parts of k over all
 * of C where the device is the slower side; else tile by tile of C with the panels of A and B
 * streaming through a few slots. Both come from one walk over the tiles with a cache of panels, so
 * a step that finds its panel on the device already costs nothing. Called by offload.c. */
#include "plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "kernel.h"
#include "plan_strips.h"
#include "profile.h"
#include "tuned.h"

enum { STEPS_MAX = 1 << 20, SLOTS_MAX = 4096, RING_MAX = 64, GROUP_MAX = 32768 };
enum { TB_AREA_UNIT = 1024 }; /* where the area of a lane may begin */

static int64_t min64(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

static int64_t max64(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

static double larger(double x, double y)
{
    return x > y ? x : y;
}

static int64_t ceil_div(int64_t x, int64_t y)
{
    return x / y + (x % y != 0);
}

static size_t round_up(size_t x, size_t unit)
{
    return (x + unit - 1) / unit * unit;
}

size_t plan_pitch(int64_t rows, size_t elem)
{
    const size_t bytes = (size_t)rows * elem;
    return round_up(bytes, bytes >= 512 ? 128 : 16);
}

size_t plan_item_bytes(const struct tb_panel *range, size_t elem)
{
    return plan_pitch(range->rows, elem) * (size_t)range->cols;
}

size_t plan_slot_offset(const struct tb_plan *plan, enum tb_operand_id which, int32_t slot)
{
    return plan->slots[which].offset + (size_t)slot * plan->slots[which].bytes;
}

size_t plan_scratch_offset(const struct tb_plan *plan, int32_t lane)
{
    return plan->scratch_offset + (size_t)lane * plan->scratch_bytes;
}

enum tb_operand_id plan_operand(enum tb_step_kind kind)
{
    switch (kind) {
    case TB_UPLOAD_A:
        return TB_A;
    case TB_UPLOAD_B:
        return TB_B;
    case TB_UPLOAD_C:
    case TB_COMPUTE:
    case TB_DOWNLOAD:
        return TB_C;
    }
    return TB_C;
}

size_t plan_room_without_areas(const struct tb_plan *plan)
{
    return plan->scratch_offset + TB_AREA_UNIT -
           1; /* sizes are reckoned with round numbers first */
}

bool plan_step_commits(const struct tb_plan *plan, const struct tb_step *step)
{
    return plan->in_place[TB_C] ? step->commits : step->kind == TB_DOWNLOAD;
}

size_t plan_commit_chunk(const struct tb_plan *plan)
{
    return plan->in_place[TB_C] ? SIZE_MAX / 2 : plan->chunk;
}

const struct tb_step *plan_step(const struct tb_plan *plan, int32_t i)
{
    return (plan->many ? plan->many : plan->few) + i;
}

size_t plan_step_chunk(const struct tb_plan *plan, const struct tb_step *step)
{
    const size_t least = 256 << 10;
    const bool first = step == plan_step(plan, 0) && plan->whole && plan->count > 4 &&
                       (step->kind == TB_UPLOAD_A || step->kind == TB_UPLOAD_B);
    return first && plan->chunk >= 4 * least ? plan->chunk / 4 : plan->chunk;
}

/* Rows of one column that a piece takes, where not even one column fits. */
static int64_t piece_rows(size_t elem, size_t chunk)
{
    return max64((int64_t)(chunk / elem), 1);
}

/* Rows of a piece of whole rows: so many that no room is lost between its columns. At least one. */
static int64_t rows_at_once(const struct tb_panel *range, size_t elem, size_t chunk)
{
    const size_t bytes = chunk / (size_t)range->cols;
    const size_t even = bytes / (bytes >= 512 ? 128 : 16) * (bytes >= 512 ? 128 : 16);
    return max64((int64_t)(even / elem), (int64_t)(16 / elem));
}

int64_t plan_pieces(const struct tb_panel *range, size_t elem, size_t chunk)
{
    const size_t pitch = plan_pitch(range->rows, elem);
    const int64_t cols = range->items * range->cols;
    if (range->by_rows)
        return ceil_div(range->rows, rows_at_once(range, elem, chunk));
    if (pitch <= chunk)
        return ceil_div(cols, (int64_t)(chunk / pitch));
    return cols * ceil_div(range->rows, piece_rows(elem, chunk));
}

void plan_column(const struct tb_panel *range, int64_t col, int64_t *from, int64_t *to)
{
    const int64_t diagonal = range->col + col - range->row;
    const int64_t lower = range->unit ? diagonal + 1 : diagonal;
    const int64_t upper = range->unit ? diagonal : diagonal + 1;
    *from = range->part == 'L' ? min64(max64(lower, 0), range->rows) : 0;
    *to = range->part == 'U' ? max64(min64(upper, range->rows), 0) : range->rows;
}

/* A piece of a triangle without the rows that none of its columns needs. */
static struct tb_piece piece_trim(const struct tb_panel *range, struct tb_piece piece)
{
    int64_t from, to, unused;
    if (!range->part)
        return piece;
    plan_column(range, piece.col, &from, &unused);
    plan_column(range, piece.col + piece.cols - 1, &unused, &to);
    from = max64(from, piece.row);
    to = min64(to, piece.row + piece.rows);
    piece.row = min64(from, range->rows - 1);
    piece.rows = max64(to - from, 0);
    return piece;
}

/* A piece as if all of the panel counted. */
static struct tb_piece piece_cut(const struct tb_panel *range, size_t elem, size_t chunk, int64_t i)
{
    const size_t pitch = plan_pitch(range->rows, elem);
    struct tb_piece piece = {.cols = 1, .rows = range->rows};
    if (range->by_rows) {
        const int64_t step = rows_at_once(range, elem, chunk);
        return (struct tb_piece){
            .cols = range->cols, .row = i * step, .rows = min64(step, range->rows - i * step)};
    }
    if (pitch <= chunk) {
        const int64_t step = (int64_t)(chunk / pitch);
        piece.col = i * step;
        piece.cols = min64(step, range->items * range->cols - piece.col);
        return piece;
    }
    const int64_t step = piece_rows(elem, chunk), parts = ceil_div(range->rows, step);
    piece.col = i / parts;
    piece.row = i % parts * step;
    piece.rows = min64(step, range->rows - piece.row);
    return piece;
}

struct tb_piece plan_piece(const struct tb_panel *range, size_t elem, size_t chunk, int64_t i)
{
    return piece_trim(range, piece_cut(range, elem, chunk, i));
}

size_t plan_piece_pitch(size_t elem, const struct tb_piece *piece)
{
    return plan_pitch(piece->rows, elem);
}

size_t plan_piece_offset(const struct tb_panel *range, size_t elem, const struct tb_piece *piece)
{
    return (size_t)piece->col * plan_pitch(range->rows, elem) + (size_t)piece->row * elem;
}

size_t plan_piece_bytes(size_t elem, const struct tb_piece *piece)
{
    if (piece->rows == 0)
        return 0;
    return (size_t)(piece->cols - 1) * plan_piece_pitch(elem, piece) + (size_t)piece->rows * elem;
}

/* --- Sizes --- */

/* What the sizing settles before any step exists. */
struct sizing {
    int64_t m, n, k, group; /* of a tile */
    int64_t slots[TB_OPERANDS];
};

/* Does tile (i, j) of C lie outside of the triangle that is asked for? Its tiles are square. */
static bool tile_outside(const struct tb_plan *plan, int64_t i, int64_t j)
{
    return plan->uplo == 'L' ? i < j : plan->uplo == 'U' && i > j;
}

/* The matrix that a factor of a product is of. */
static enum tb_operand_id factor_of(const struct tb_plan *plan, enum tb_operand_id which,
                                    bool second)
{
    if (plan->twin)
        return TB_A;
    return second ? (which == TB_A ? TB_B : TB_A) : which;
}

static bool transposed(char trans)
{
    return trans != 'N';
}

/* The panel of an operand for tile (i, j), part p of k, group g. */
static struct tb_panel panel_of(const struct tb_call *call, const struct tb_plan *plan,
                                enum tb_operand_id which, int64_t g, int64_t i, int64_t j,
                                int64_t p)
{
    struct tb_panel out = {.item = g * plan->group};
    out.items = min64(plan->group, call->batch - out.item);
    if ((which == TB_A && plan->a_shared) || (which == TB_B && plan->b_shared)) {
        out.item = 0;
        out.items = 1;
    }
    const int64_t row = i * plan->tile_m, rows = min64(plan->tile_m, call->m - row);
    const int64_t col = j * plan->tile_n, cols = min64(plan->tile_n, call->n - col);
    const int64_t dep = p * plan->tile_k, deps = min64(plan->tile_k, call->k - dep);
    const bool flip = which == TB_A ? transposed(call->ta) : which == TB_B && transposed(call->tb);
    const int64_t at[TB_OPERANDS][4] = {
        {row, rows, dep, deps}, {dep, deps, col, cols}, {row, rows, col, cols}};
    const int64_t *x = at[which];
    out.row = flip ? x[2] : x[0];
    out.rows = flip ? x[3] : x[1];
    out.col = flip ? x[0] : x[2];
    out.cols = flip ? x[1] : x[3];
    if (which == TB_C && i == j)
        out.part = plan->uplo;
    return out;
}

/* Bytes of a slot, as a double because nothing is known to be small yet. */
static double slot_bytes(const struct tb_call *call, const struct tb_plan *plan,
                         const struct sizing *size, enum tb_operand_id which)
{
    if (plan->in_place[which] || (which == TB_B && plan->twin))
        return 0;
    const bool flip = which == TB_A ? transposed(call->ta) : which == TB_B && transposed(call->tb);
    const int64_t rows[] = {size->m, size->k, size->m}, cols[] = {size->k, size->n, size->n};
    const double column = (double)(flip ? cols[which] : rows[which]) * (double)plan->elem[which];
    const double pitch =
        column < 0x1p62 ? (double)plan_pitch(flip ? cols[which] : rows[which], plan->elem[which])
                        : column;
    const bool shared = (which == TB_A && plan->a_shared) || (which == TB_B && plan->b_shared);
    const double items = shared ? 1 : (double)size->group;
    return (double)(flip ? rows[which] : cols[which]) * pitch * items + 255;
}

static double tile_count(const struct tb_call *call, const struct sizing *size)
{
    const double rows = (double)ceil_div(call->m, size->m),
                 cols = (double)ceil_div(call->n, size->n);
    return (call_is_triangular(call) ? rows * (rows + 1) / 2 : rows * cols) *
           (double)ceil_div(call->batch, size->group);
}

/* Lanes that get a tile. */
static int64_t lanes_of(const struct tb_call *call, const struct tb_plan *plan,
                        const struct sizing *size)
{
    const double tiles = tile_count(call, size);
    return tiles < plan->lanes ? (int64_t)tiles : plan->lanes;
}

/* Tiles are computed beside each other: the row is to suit as many as there are lanes. */
static int kernel_for(const struct tb_call *call, const struct tb_caps *caps,
                      const struct tb_plan *plan, const struct sizing *size)
{
    return kernel_choose(caps, call->ab, call->c_type, transposed(call->ta), transposed(call->tb),
                         size->m, size->n, size->k, size->group * lanes_of(call, plan, size));
}

/* Bytes that a kernel needs beside the operands of a tile: an area for each lane. */
static size_t area_of(const struct tb_plan *plan, const struct tb_caps *caps, int kernel,
                      const struct sizing *size)
{
    const struct tb_kernel *row = kernel_row(kernel);
    const struct tb_gemm_params params = {.m = size->m,
                                          .n = size->n,
                                          .k = size->k,
                                          .batch = size->group,
                                          .stride_a = !plan->a_shared,
                                          .stride_b = !plan->b_shared};
    if (!row || row->family != TB_X3)
        return 0;
    return round_up(kernel_scratch(row, caps, &params), TB_AREA_UNIT);
}

static double operand_bytes(const struct tb_call *call, const struct tb_plan *plan,
                            const struct sizing *size)
{
    double bytes = 0;
    for (int which = 0; which < TB_OPERANDS; which++)
        bytes +=
            (double)size->slots[which] * slot_bytes(call, plan, size, (enum tb_operand_id)which);
    return bytes;
}

/* All of the workspace. */
static double sizing_bytes(const struct tb_call *call, const struct tb_caps *caps,
                           const struct tb_plan *plan, const struct sizing *size)
{
    double bytes = operand_bytes(call, plan, size);
    if (call->ab == TB_F32) { /* the only type with rows that need an area */
        const size_t area = area_of(plan, caps, kernel_for(call, caps, plan, size), size);
        bytes += area > 0 ? TB_AREA_UNIT + (double)area * (double)lanes_of(call, plan, size) : 0;
    }
    return bytes;
}

static bool all_in_place(const struct tb_plan *plan)
{
    return plan->in_place[TB_A] && plan->in_place[TB_B] && plan->in_place[TB_C];
}

/* The larger part of alpha, or infinity where it is no number. */
static double alpha_most(const struct tb_call *call)
{
    double alpha[2];
    scalar_widen(call->alpha_type, &call->alpha, alpha);
    const double re = fabs(alpha[0]), im = fabs(alpha[1]), most = re > im ? re : im;
    return isnan(re) || isnan(im) ? HUGE_VAL : most;
}

/* May a tile be the sum of several launches? In 16 bits it would be rounded in between; in the
 * caller's own C a fault in between would leave neither the old nor the new; and of an infinite
 * alpha two parts may be infinities of both signs, whose sum is no number. */
static bool may_split(const struct tb_call *call, const struct tb_plan *plan)
{
    return call->c_type != TB_F16 && call->c_type != TB_BF16 && !plan->in_place[TB_C] &&
           alpha_most(call) < HUGE_VAL;
}

/* A side cut into equal parts, not into full ones and a rest. */
static int64_t even_tile(int64_t side, int64_t tile)
{
    if (side <= tile)
        return side;
    const int64_t unit = tile % 128 == 0 ? 128 : 1;
    return min64(side, ceil_div(ceil_div(side, ceil_div(side, tile)), unit) * unit);
}

/* A thin C gets long tiles. */
static void fill_tile(const struct tb_call *call, int64_t tile, struct sizing *size)
{
    const int64_t for_m = call->n < tile ? min64(8 * tile, tile * tile / call->n) : tile;
    const int64_t for_n = call->m < tile ? min64(8 * tile, tile * tile / call->m) : tile;
    size->m = even_tile(call->m, max64(for_m, tile));
    size->n = even_tile(call->n, max64(for_n, tile));
}

/* A triangle without its smaller half: whole corners. */
static int64_t corner_half(const struct tb_plan *plan, int64_t order)
{
    return ceil_div(ceil_div(order, plan->corner), 2) * plan->corner;
}

/* A triangle that is on the device with all it is made of has nothing to overlap with, but only
 * plain kernels keep to a triangle. So it is cut in halves: the square between them is a product
 * like any other, and what is left for the plain kernels at last are corners on the diagonal, small
 * beside the whole. */
static int64_t corner_of(const struct tb_call *call, const struct tb_caps *caps,
                         const struct tb_plan *plan)
{
    const int64_t corner = caps->tile > 0 ? caps->tile : 512, half = call->n / 2;
    if (!plan->uplo || !all_in_place(plan) || call->n <= corner || call->n / corner > STEPS_MAX / 8)
        return 0;
    const int kernel = kernel_choose(caps, call->ab, call->c_type, transposed(call->ta),
                                     transposed(call->tb), half, half, call->k, 1);
    const bool plain = kernel < 0 || kernel_row(kernel)->family == TB_SIMT;
    return plain && caps->tile <= 0 ? 0 : corner; /* tests: whatever the row */
}

/* The tile a device likes: large enough to fill it, small enough that computing starts early. */
static void natural_tile(const struct tb_call *call, const struct tb_caps *caps,
                         const struct tb_plan *plan, struct sizing *size)
{
    if (plan->corner > 0) {
        size->m = size->n = corner_half(plan, call->n);
        return;
    }
    if (all_in_place(plan) && !call_is_triangular(call)) { /* nothing to overlap with */
        size->m = call->m;
        size->n = call->n;
        return;
    }
    const int64_t longest = max64(call->m, call->n);
    if (caps->tile > 0) {
        size->m = min64(caps->tile, call->m);
        size->n = min64(caps->tile, call->n);
        return;
    }
    const int64_t tile = longest <= 8192 ? 1024 : longest <= 32768 ? 2048 : 4096;
    fill_tile(call, tile, size);
    /* Packing costs each tile the more the smaller it is, and only large ones fill the device. */
    if (longest >= 4096 && area_of(plan, caps, kernel_for(call, caps, plan, size), size) > 0)
        fill_tile(call, longest <= 12288 ? 2048 : 4096, size);
}

/* Small products of a batch share tiles: enough of them to be worth a transfer and a launch, few
 * enough that several groups overlap. */
static int64_t group_of(const struct tb_call *call, const struct tb_caps *caps,
                        const struct tb_plan *plan, const struct sizing *size, double memory)
{
    if (call->batch == 1 || size->m < call->m || size->n < call->n)
        return 1;
    if ((call->alist && plan->in_place[TB_A]) || (call->blist && plan->in_place[TB_B]) ||
        (call->clist && plan->in_place[TB_C]))
        return 1; /* a launch knows matrices at equal distances */
    if (all_in_place(plan))
        return min64(call->batch, GROUP_MAX);
    struct sizing one = {size->m, size->n, size->k, 1, {1, 1, 1}};
    const double item = operand_bytes(call, plan, &one);
    double target = item * (double)call->batch / 8;
    target = target < 1 << 20 ? 1 << 20 : target > 32 << 20 ? 32 << 20 : target;
    if (caps->chunk > 0)
        target = 4 * (double)caps->chunk;
    target = target < memory / 8 ? target : memory / 8;
    return max64(min64(min64(call->batch, (int64_t)(target / item)), GROUP_MAX), 1);
}

static double steps_most(const struct tb_call *call, const struct sizing *size)
{
    const double parts = (double)ceil_div(call->k, size->k);
    return tile_count(call, size) * (2 + (call_is_rank_2k(call) ? 6 : 3) * parts);
}

/* All of A and B (of up to three groups) on the device; C in as many slots as go. */
static bool size_whole(const struct tb_call *call, const struct tb_caps *caps,
                       const struct tb_plan *plan, double memory, struct sizing *size)
{
    const int64_t groups = min64(ceil_div(call->batch, size->group), 3);
    const double tiles = tile_count(call, size);
    const double a = (double)ceil_div(call->m, size->m) * (double)(plan->a_shared ? 1 : groups);
    const double b = (double)ceil_div(call->n, size->n) * (double)(plan->b_shared ? 1 : groups);
    if (a > SLOTS_MAX || b > SLOTS_MAX)
        return false;
    size->slots[TB_A] = (int64_t)a;
    size->slots[TB_B] = plan->twin ? 0 : (int64_t)b;
    for (int64_t c = tiles < RING_MAX ? (int64_t)tiles : RING_MAX; c >= 1;
         c = c > 3 ? c / 2 : c - 1) {
        if (c == 1 && tiles > 1)
            return false; /* the next tile would wait until this one is fetched */
        size->slots[TB_C] = c;
        if (sizing_bytes(call, caps, plan, size) <= memory)
            return true;
    }
    return false;
}

/* Of an H200 host: pageable memory through the copiers, while as much comes back; bytes per ns. */
static const double link_rate = 42;

/* The device's part of a call, by the built-in rates: the same call gets the same order, and so the
 * same bits, in every run. The rows of FP32 differ by a factor; of the other types the best counts.
 */
double plan_device_ns(const struct tb_call *call, const struct tb_caps *caps, int64_t m, int64_t n,
                      int64_t k, int64_t beside)
{
    struct tb_profile rates;
    profile_builtin(caps, 1, &rates);
    const double share = call->ab == TB_F32
                             ? kernel_efficiency(caps, call->ab, call->c_type, transposed(call->ta),
                                                 transposed(call->tb), m, n, k, beside)
                             : 1;
    return call_flops(call) / (rates.gpu_rate[call->ab] * (share > 0 ? share : 1));
}

static double device_ns(const struct tb_call *call, const struct tb_caps *caps,
                        const struct tb_plan *plan, const struct sizing *size)
{
    return plan_device_ns(call, caps, size->m, size->n, size->k,
                          size->group * lanes_of(call, plan, size));
}

/* --- Orders of a whole product, by a clock --- */

/* With each new panel of B the column of tiles above the diagonal, with each new panel of A the
 * row. */
static void walk_square(const struct tb_plan *plan, int64_t x,
                        void (*emit)(void *arg, int64_t x, int64_t i, int64_t j), void *arg)
{
    for (int64_t s = 0; s < max64(plan->tiles_m, plan->tiles_n); s++) {
        for (int64_t i = 0; s < plan->tiles_n && i < min64(s, plan->tiles_m); i++)
            if (!tile_outside(plan, i, s))
                emit(arg, x, i, s);
        for (int64_t j = 0; s < plan->tiles_m && j < min64(s + 1, plan->tiles_n); j++)
            if (!tile_outside(plan, s, j))
                emit(arg, x, s, j);
    }
}

/* Three queues: the way in, the device, the way back. All in ns. */
struct clock {
    const struct tb_plan *grid;
    double in, device, out;
    double up[TB_OPERANDS], product, down; /* of a panel's part, of a tile */
    double *there;                         /* when each part of a panel is; 0: not sent yet */
    bool rank_2k, beta;
};

static double clock_panel(struct clock *clock, enum tb_operand_id which, int64_t x, int64_t p)
{
    const struct tb_plan *grid = clock->grid;
    const bool b = which == TB_B && !grid->twin;
    double *there =
        &clock->there[((b ? max64(grid->tiles_m, grid->tiles_n) : 0) + x) * grid->tiles_k + p];
    if (*there == 0)
        *there = clock->in += clock->up[b ? TB_B : TB_A];
    return *there;
}

static void clock_part(void *arg, int64_t p, int64_t i, int64_t j)
{
    struct clock *clock = arg;
    double ready = clock_panel(clock, TB_A, i, p);
    ready = larger(ready, clock_panel(clock, TB_B, j, p));
    if (clock->rank_2k) {
        ready = larger(ready, clock_panel(clock, TB_B, i, p));
        ready = larger(ready, clock_panel(clock, TB_A, j, p));
    }
    if (p == 0 && clock->beta)
        ready = larger(ready, clock->in += clock->up[TB_C]);
    clock->device = larger(clock->device, ready) + clock->product;
}

static void clock_finish(void *arg, int64_t ahead, int64_t i, int64_t j)
{
    struct clock *clock = arg;
    for (int64_t p = ahead; p < clock->grid->tiles_k; p++)
        clock_part(arg, p, i, j);
    clock->out = larger(clock->out, clock->device) + clock->down;
}

/* The clock of a whole product in parts of k. `grid` and `there` are room for it. */
static struct clock clock_of(const struct tb_call *call, const struct tb_caps *caps,
                             const struct tb_plan *plan, const struct sizing *size,
                             struct tb_plan *grid, double *there)
{
    static const double memory_rate = 3500; /* of an H200: bytes per ns */
    const int kernel = kernel_for(call, caps, plan, size);
    const double launch = area_of(plan, caps, kernel, size) > 0 ? 1e4 : 2e3;
    const double tiles = tile_count(call, size), elem = (double)plan->elem[TB_A];
    const double tile = (double)size->m * (double)size->n * (double)plan->elem[TB_C];
    *grid = *plan;
    grid->tiles_m = ceil_div(call->m, size->m);
    grid->tiles_n = ceil_div(call->n, size->n);
    grid->tiles_k = ceil_div(call->k, size->k);
    return (struct clock){
        .grid = grid,
        .there = there,
        .up = {(double)size->m * (double)size->k * elem / link_rate,
               (double)size->n * (double)size->k * elem / link_rate, tile / link_rate},
        .down = tile / link_rate,
        .rank_2k = call_is_rank_2k(call),
        .beta = !scalar_is_zero(call->beta_type, &call->beta),
        .product = device_ns(call, caps, plan, size) / tiles / (double)grid->tiles_k + launch +
                   (grid->tiles_k > 1 ? 2 * tile / memory_rate : 0)};
}

/* How long it takes if so many parts run ahead over all of C. */
static double order_ns(struct clock clock, int64_t ahead)
{
    const struct tb_plan *grid = clock.grid;
    for (int64_t x = 0; x < 2 * max64(grid->tiles_m, grid->tiles_n) * grid->tiles_k; x++)
        clock.there[x] = 0;
    for (int64_t p = 0; p < ahead; p++)
        walk_square(grid, p, clock_part, &clock);
    walk_square(grid, ahead, clock_finish, &clock);
    return clock.out;
}

/* With C as a whole on the device too, k can come in parts: each is summed into all of C, so that
 * the device has work from the first part on; then tile after tile is finished, and fetched, with
 * the rest. How many parts, and how many of them run ahead, is what takes least by the clock; none,
 * where that gains less than a twentieth, which is not gained on a device. Returns the parts ahead,
 * 0 for none. */
static int64_t size_panels(const struct tb_call *call, const struct tb_caps *caps,
                           const struct tb_plan *plan, double memory, struct sizing *size)
{
    enum { PARTS = 8 };
    const struct sizing one = *size;
    const int64_t least = caps->tile > 0 ? 1 : 256, unit = caps->tile > 0 ? 1 : 128;
    const int64_t rows = ceil_div(call->m, size->m), cols = ceil_div(call->n, size->n);
    const double tiles = tile_count(call, size);
    /* A large alpha may make infinities of parts whose sum is none. */
    if (caps->order == 1 || !may_split(call, plan) || alpha_most(call) > 1 || call->batch > 1 ||
        tiles < 2 || tiles > SLOTS_MAX || plan->in_place[TB_A] || plan->in_place[TB_B])
        return 0;
    double *there = malloc((size_t)(2 * max64(rows, cols) * PARTS) * sizeof *there);
    if (!there)
        return 0;
    struct tb_plan grid;
    double best = 0.95 * order_ns(clock_of(call, caps, plan, &one, &grid, there), 0);
    int64_t best_ahead = 0;
    for (int64_t parts = PARTS; parts >= 2; parts /= 2) {
        struct sizing cut = one;
        cut.k = ceil_div(ceil_div(call->k, parts), unit) * unit;
        const int64_t count = ceil_div(call->k, cut.k);
        cut.slots[TB_A] = rows * count;
        cut.slots[TB_B] = plan->twin ? 0 : cols * count;
        cut.slots[TB_C] = (int64_t)tiles;
        if (call->k < least * parts || count < 2 || cut.slots[TB_A] > SLOTS_MAX ||
            cut.slots[TB_B] > SLOTS_MAX || sizing_bytes(call, caps, plan, &cut) > memory)
            continue;
        if (caps->order == 2) {
            best_ahead = max64(count / 4, 1);
            *size = cut;
            break;
        }
        const struct clock clock = clock_of(call, caps, plan, &cut, &grid, there);
        for (int64_t ahead = 1; ahead < count; ahead++) {
            const double ns = order_ns(clock, ahead);
            if (ns < best) {
                best = ns;
                best_ahead = ahead;
                *size = cut;
            }
        }
    }
    free(there);
    return best_ahead;
}

/* Lets the ring of one operand grow while memory lasts. */
static void grow(const struct tb_call *call, const struct tb_caps *caps, const struct tb_plan *plan,
                 double memory, struct sizing *size, enum tb_operand_id which, double most)
{
    if (slot_bytes(call, plan, size, which) <= 0)
        return;
    const double free = memory - sizing_bytes(call, caps, plan, size);
    const double more = free / slot_bytes(call, plan, size, which);
    const double most_here = most < RING_MAX ? most : RING_MAX;
    const double want = (double)size->slots[which] + (more > 0 ? (double)(int64_t)more : 0);
    size->slots[which] = (int64_t)(want < most_here ? want : most_here);
}

/* Streaming with tiles of one side and rings of `ring` panels: finds a depth that fits. */
static bool size_tile(const struct tb_call *call, const struct tb_caps *caps,
                      const struct tb_plan *plan, double memory, int64_t side, double ring,
                      struct sizing *size)
{
    static const int64_t deeps[] = {INT64_MAX, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16};
    const bool split = may_split(call, plan);
    const int64_t floor = max64(call->m, call->n) > 256 ? 256 : 16;
    size->m = even_tile(call->m, side);
    size->n = even_tile(call->n, side);
    const double tiles = tile_count(call, size);
    for (size_t d = 0; d < (split ? sizeof deeps / sizeof *deeps : 1); d++) {
        size->k = min64(deeps[d], call->k);
        if (d > 0 && (deeps[d] >= call->k || (deeps[d] < 256 && side > floor)))
            continue;
        const double parts = (double)ceil_div(call->k, size->k);
        const double a = parts * (double)ceil_div(call->m, size->m);
        const double b = plan->twin ? 0 : parts * (double)ceil_div(call->n, size->n);
        size->slots[TB_A] = (int64_t)(a < ring ? a : ring);
        size->slots[TB_B] = (int64_t)(b < ring ? b : ring);
        size->slots[TB_C] = tiles < 2 ? 1 : 2;
        if (sizing_bytes(call, caps, plan, size) > memory)
            continue;
        grow(call, caps, plan, memory, size, TB_C, tiles < 3 ? tiles : 3);
        grow(call, caps, plan, memory, size, TB_A, a < ring ? a : ring);
        grow(call, caps, plan, memory, size, TB_B, b);
        grow(call, caps, plan, memory, size, TB_A, a);
        return true;
    }
    return false;
}

/* Tile by tile of C, panels streaming. The largest tile wins: it decides how often A and B cross.
 * Rings of four panels keep the copiers busy while the device computes; two will do where k cannot
 * be cut, or where nothing else fits. */
static bool size_stream(const struct tb_call *call, const struct tb_caps *caps,
                        const struct tb_plan *plan, double memory, struct sizing *size)
{
    static const int64_t sides[] = {8192, 7168, 6144, 5120, 4096, 3584, 3072, 2560, 2304,
                                    2048, 1792, 1536, 1408, 1280, 1152, 1024, 896,  768,
                                    640,  512,  384,  256,  128,  64,   32,   16};
    const bool split = may_split(call, plan);
    size->group = 1;
    for (int ring = split ? 4 : 2; ring >= 2; ring -= 2)
        for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
            const int64_t side = caps->tile > 0 ? min64(sides[i], caps->tile) : sides[i];
            if (caps->tile > 0 && sides[i] > max64(caps->tile, 16))
                continue;
            if (size_tile(call, caps, plan, memory, side, ring, size))
                return true;
        }
    return false;
}

/* --- Steps --- */

/* The state of the walk over the tiles. */
struct slot_state {
    int64_t key;                 /* panel it holds, -1 */
    int32_t upload;              /* step that filled it */
    int32_t user[TB_PLAN_LANES]; /* last compute step of each lane that reads it, -1 */
    int64_t used;                /* when, for the choice of a victim */
};

struct cache {
    struct slot_state *slot;
    int32_t *where; /* slot of a panel, -1 */
    int32_t count, filled;
};

struct walk {
    const struct tb_call *call;
    struct tb_plan *plan;
    struct cache cache[2]; /* of A and B */
    int32_t *fetched;      /* per slot of C: its last download, -1 */
    bool beta;             /* C has to be read */
    int32_t room;
    int64_t tile, uses; /* tiles and compute steps so far */
    int64_t from;       /* end of the sum at which the next tile starts */
};

double plan_panel_bytes(const struct tb_panel *range, size_t elem, size_t chunk)
{
    if (!range->part)
        return (double)range->items * (double)range->rows * (double)range->cols * (double)elem;
    double bytes = 0;
    for (int64_t i = 0; i < plan_pieces(range, elem, chunk); i++) {
        const struct tb_piece piece = plan_piece(range, elem, chunk, i);
        bytes += (double)piece.rows * (double)piece.cols * (double)elem;
    }
    return bytes;
}

static struct tb_step *step_add(struct walk *walk, enum tb_step_kind kind, int32_t slot,
                                const struct tb_panel *range)
{
    struct tb_plan *plan = walk->plan;
    struct tb_step *step = (plan->many ? plan->many : plan->few) + plan->count++;
    *step = (struct tb_step){
        .kind = kind, .lane = -1, .slot = slot, .slot_a = -1, .slot_b = -1, .range = *range};
    for (int w = 0; w < TB_STEP_WAITS; w++)
        step->waits_on[w] = -1;
    if (kind == TB_DOWNLOAD)
        plan->bytes_out += plan_panel_bytes(range, plan->elem[TB_C], plan->chunk);
    else if (kind != TB_COMPUTE)
        plan->bytes_in += plan_panel_bytes(range, plan->elem[plan_operand(kind)], plan->chunk);
    return step;
}

/* A slot for a new panel: an unused one, else the one not used for the longest time. */
static int32_t cache_victim(const struct cache *cache)
{
    if (cache->filled < cache->count)
        return cache->filled;
    int32_t oldest = 0;
    for (int32_t s = 1; s < cache->count; s++)
        if (cache->slot[s].used < cache->slot[oldest].used)
            oldest = s;
    return oldest;
}

/* The slot where a panel lies, after an upload step if it is not there yet. */
static int32_t panel_bring(struct walk *walk, enum tb_operand_id which, int64_t key,
                           const struct tb_panel *range)
{
    struct cache *cache = &walk->cache[which];
    if (walk->plan->in_place[which])
        return -1;
    if (cache->where[key] >= 0)
        return cache->where[key];
    const int32_t s = cache_victim(cache);
    struct slot_state *slot = &cache->slot[s];
    if (s == cache->filled)
        cache->filled++;
    else
        cache->where[slot->key] = -1;
    const int32_t index = walk->plan->count;
    struct tb_step *step = step_add(walk, which == TB_A ? TB_UPLOAD_A : TB_UPLOAD_B, s, range);
    for (int lane = 0, w = 0; lane < TB_PLAN_LANES; lane++)
        if (slot->user[lane] >= 0)
            step->waits_on[w++] = slot->user[lane];
    *slot = (struct slot_state){.key = key, .upload = index, .user = {-1, -1, -1, -1}};
    cache->where[key] = s;
    return s;
}

static void product_emit(struct walk *walk, int64_t g, int64_t i, int64_t j, int64_t p, bool second,
                         bool first, int32_t slot, int32_t before)
{
    struct tb_plan *plan = walk->plan;
    const enum tb_operand_id from_a = factor_of(plan, TB_A, second);
    const enum tb_operand_id from_b = factor_of(plan, TB_B, second);
    const struct tb_panel a = panel_of(walk->call, plan, TB_A, g, i, j, p);
    const struct tb_panel b = panel_of(walk->call, plan, TB_B, g, i, j, p);
    const struct tb_panel c = panel_of(walk->call, plan, TB_C, g, i, j, p);
    const int64_t ga = plan->a_shared ? 0 : g, gb = plan->b_shared ? 0 : g;
    const int32_t sa = panel_bring(walk, from_a, (ga * plan->tiles_m + i) * plan->tiles_k + p, &a);
    struct slot_state none = {.upload = -1};
    struct slot_state *slot_a = sa < 0 ? &none : &walk->cache[from_a].slot[sa];
    slot_a->used = ++walk->uses;
    const int32_t sb = panel_bring(walk, from_b, (gb * plan->tiles_n + j) * plan->tiles_k + p, &b);
    struct slot_state *slot_b = sb < 0 ? &none : &walk->cache[from_b].slot[sb];
    slot_b->used = walk->uses;
    const int32_t index = plan->count;
    struct tb_step *step = step_add(walk, TB_COMPUTE, slot, &c);
    step->lane = (int32_t)(walk->tile % plan->lanes);
    step->slot_a = sa;
    step->slot_b = sb;
    step->from_a = (uint8_t)from_a;
    step->from_b = (uint8_t)from_b;
    step->second = second;
    step->k0 = p * plan->tile_k;
    step->k = min64(plan->tile_k, walk->call->k - step->k0);
    step->first = first;
    step->waits_on[0] = slot_a->upload;
    step->waits_on[1] = slot_b->upload;
    step->waits_on[2] = before;
    step->commits = plan->in_place[TB_C] && second == call_is_rank_2k(walk->call);
    if (step->commits)
        step->piece0 = plan->pieces++;
    slot_a->user[step->lane] = index;
    slot_b->user[step->lane] = index;
}

/* A part of the sum of a tile: one product, or the two of a rank-2k form. */
static void part_emit(struct walk *walk, int64_t g, int64_t i, int64_t j, int64_t p, bool first,
                      int32_t slot, int32_t before)
{
    product_emit(walk, g, i, j, p, false, first, slot, before);
    if (call_is_rank_2k(walk->call))
        product_emit(walk, g, i, j, p, true, false, slot, -1);
}

/* Where a tile lies when all of C has a place. */
static int32_t slot_of_tile(const struct tb_plan *plan, int64_t i, int64_t j)
{
    if (plan->uplo == 'L')
        return (int32_t)(i * (i + 1) / 2 + j);
    return (int32_t)(plan->uplo == 'U' ? j * (j + 1) / 2 + i : i * plan->tiles_n + j);
}

/* One part of k of one tile, in the order of the first phase. */
static void ahead_emit(struct walk *walk, int64_t i, int64_t j, int64_t p)
{
    struct tb_plan *plan = walk->plan;
    const struct tb_panel c = panel_of(walk->call, plan, TB_C, 0, i, j, 0);
    const int32_t slot = slot_of_tile(plan, i, j);
    int32_t before = -1;
    if (p == 0 && walk->beta) {
        before = plan->count;
        step_add(walk, TB_UPLOAD_C, slot, &c);
    }
    walk->tile = slot; /* all parts of a tile on one lane */
    part_emit(walk, 0, i, j, p, p == 0, slot, before);
}

/* The parts of k that are left of a tile, and its way back. */
static void finish_emit(struct walk *walk, int64_t i, int64_t j)
{
    struct tb_plan *plan = walk->plan;
    const struct tb_panel c = panel_of(walk->call, plan, TB_C, 0, i, j, 0);
    const int32_t slot = slot_of_tile(plan, i, j);
    for (int64_t p = plan->ahead; p < plan->tiles_k; p++)
        ahead_emit(walk, i, j, p);
    const int32_t index = plan->count;
    struct tb_step *step = step_add(walk, TB_DOWNLOAD, slot, &c);
    step->waits_on[0] = index - 1;
    step->piece0 = plan->pieces;
    plan->pieces += plan_pieces(&c, plan->elem[TB_C], plan->chunk);
}

/* All steps of one tile of C. Neighbours run through k in opposite directions, so that the panels
 * at the turn are still there. */
static void tile_emit(struct walk *walk, int64_t g, int64_t i, int64_t j)
{
    struct tb_plan *plan = walk->plan;
    const struct tb_panel c = panel_of(walk->call, plan, TB_C, g, i, j, 0);
    const int32_t slot = (int32_t)(walk->tile % plan->slots[TB_C].count);
    int32_t before = walk->fetched[slot];
    if (walk->beta && !plan->in_place[TB_C]) {
        const int32_t index = plan->count;
        struct tb_step *step = step_add(walk, TB_UPLOAD_C, slot, &c);
        step->waits_on[0] = before;
        before = index;
    }
    for (int64_t q = 0; q < plan->tiles_k; q++) {
        const int64_t p = walk->tile % 2 ? plan->tiles_k - 1 - q : q;
        part_emit(walk, g, i, j, p, q == 0, slot, q == 0 ? before : -1);
    }
    walk->tile++;
    if (plan->in_place[TB_C])
        return;
    const int32_t index = plan->count;
    struct tb_step *step = step_add(walk, TB_DOWNLOAD, slot, &c);
    step->waits_on[0] = index - 1;
    step->piece0 = plan->pieces;
    plan->pieces += plan_pieces(&c, plan->elem[TB_C], plan->chunk);
    walk->fetched[slot] = index;
}

/* A rectangle of C in place, by one product or the two of a rank-2k form. */
static void corner_product(struct walk *walk, const struct tb_panel *c)
{
    struct tb_plan *plan = walk->plan;
    const bool pair = call_is_rank_2k(walk->call);
    const int64_t lanes = min64(plan->lanes, plan->tiles_m + 1); /* as many as have an area */
    for (int second = 0; second <= pair; second++) {
        struct tb_step *step = step_add(walk, TB_COMPUTE, 0, c);
        step->lane = (int32_t)(walk->tile % lanes);
        step->from_a = (uint8_t)factor_of(plan, TB_A, second);
        step->from_b = (uint8_t)factor_of(plan, TB_B, second);
        step->second = second;
        step->first = !second;
        step->k = walk->call->k;
        step->commits = second == pair;
        if (step->commits)
            step->piece0 = plan->pieces++;
    }
    walk->tile++;
}

static void corner_emit(struct walk *walk, int64_t from, int64_t order)
{
    const struct tb_plan *plan = walk->plan;
    const struct tb_panel all = {
        .items = 1, .row = from, .rows = order, .col = from, .cols = order, .part = plan->uplo};
    if (order <= plan->corner) {
        corner_product(walk, &all);
        return;
    }
    const int64_t half = corner_half(plan, order), rest = order - half;
    const bool lower = plan->uplo == 'L';
    const struct tb_panel between = {.items = 1,
                                     .row = lower ? from + half : from,
                                     .rows = lower ? rest : half,
                                     .col = lower ? from : from + half,
                                     .cols = lower ? half : rest};
    corner_product(walk, &between);
    corner_emit(walk, from, half);
    corner_emit(walk, from + half, rest);
}

static void emit_ahead(void *walk, int64_t p, int64_t i, int64_t j)
{
    ahead_emit(walk, i, j, p);
}

static void emit_finish(void *walk, int64_t unused, int64_t i, int64_t j)
{
    (void)unused;
    finish_emit(walk, i, j);
}

static void emit_tile(void *walk, int64_t g, int64_t i, int64_t j)
{
    tile_emit(walk, g, i, j);
}

/* First some parts of k over all of C, then tile by tile the rest. */
static void walk_panels(struct walk *walk)
{
    for (int64_t p = 0; p < walk->plan->ahead; p++)
        walk_square(walk->plan, p, emit_ahead, walk);
    walk_square(walk->plan, 0, emit_finish, walk);
}

/* Row by row (or column by column, where that moves less), turning at the ends. */
static void walk_lines(struct walk *walk, int64_t g)
{
    const struct tb_plan *plan = walk->plan;
    const struct tb_call *call = walk->call;
    const bool rows = (double)call->n * (double)plan->tiles_m + (double)call->m <=
                      (double)call->m * (double)plan->tiles_n + (double)call->n;
    const int64_t lines = rows ? plan->tiles_m : plan->tiles_n;
    const int64_t line = rows ? plan->tiles_n : plan->tiles_m;
    for (int64_t x = 0; x < lines; x++)
        for (int64_t y = 0; y < line; y++) {
            const int64_t at = x % 2 ? line - 1 - y : y;
            const int64_t i = rows ? x : at, j = rows ? at : x;
            if (!tile_outside(plan, i, j))
                tile_emit(walk, g, i, j);
        }
}

static bool cache_open(struct cache *cache, int64_t panels, int32_t slots, void **memory)
{
    *memory = malloc((size_t)panels * sizeof *cache->where + (size_t)slots * sizeof *cache->slot);
    if (!*memory)
        return false;
    cache->slot = *memory;
    cache->where = (int32_t *)(cache->slot + slots);
    cache->count = slots;
    memset(cache->where, -1, (size_t)panels * sizeof *cache->where);
    for (int32_t s = 0; s < slots; s++)
        cache->slot[s] = (struct slot_state){.key = -1, .upload = -1, .user = {-1, -1, -1, -1}};
    return true;
}

static enum tb_status steps_build(struct walk *walk)
{
    struct tb_plan *plan = walk->plan;
    void *memory[2] = {NULL, NULL};
    enum tb_status status = TB_NO_MEMORY;
    const int64_t parts = plan->tiles_k * plan->groups;
    walk->fetched = malloc((size_t)plan->slots[TB_C].count * sizeof *walk->fetched);
    if (!walk->fetched ||
        !cache_open(&walk->cache[TB_A], plan->tiles_m * parts, plan->slots[TB_A].count,
                    &memory[0]) ||
        !cache_open(&walk->cache[TB_B], plan->tiles_n * parts, plan->slots[TB_B].count, &memory[1]))
        goto out;
    memset(walk->fetched, -1, (size_t)plan->slots[TB_C].count * sizeof *walk->fetched);
    plan->many = malloc((size_t)walk->room * sizeof *plan->many);
    if (!plan->many)
        goto out;
    for (int64_t g = 0; g < plan->groups; g++)
        if (plan->corner > 0)
            corner_emit(walk, 0, walk->call->n);
        else if (plan->ahead > 0)
            walk_panels(walk);
        else if (plan->whole)
            walk_square(plan, g, emit_tile, walk);
        else
            walk_lines(walk, g);
    struct tb_step *tight = realloc(plan->many, (size_t)plan->count * sizeof *plan->many);
    if (tight)
        plan->many = tight;
    status = TB_OK;
out:
    free(memory[0]);
    free(memory[1]);
    free(walk->fetched);
    return status;
}

/* One tile, everything once: no search, no allocation. */
static void steps_single(struct walk *walk)
{
    struct slot_state slots[2] = {{.key = -1, .user = {-1, -1, -1, -1}},
                                  {.key = -1, .user = {-1, -1, -1, -1}}};
    int32_t where[2] = {-1, -1}, fetched = -1;
    for (int x = 0; x < 2; x++)
        walk->cache[x] = (struct cache){.slot = &slots[x], .where = &where[x], .count = 1};
    walk->fetched = &fetched;
    tile_emit(walk, 0, 0, 0);
}

/* Turns sizes into the grid and the workspace. */
static enum tb_status layout(const struct tb_call *call, const struct sizing *size,
                             struct tb_plan *plan)
{
    plan->tile_m = size->m;
    plan->tile_n = size->n;
    plan->tile_k = size->k;
    plan->group = size->group;
    plan->tiles_m = ceil_div(call->m, size->m);
    plan->tiles_n = ceil_div(call->n, size->n);
    plan->tiles_k = ceil_div(call->k, size->k);
    plan->groups = ceil_div(call->batch, size->group);
    if (steps_most(call, size) > STEPS_MAX)
        return TB_NO_MEMORY;
    for (int which = 0; which < TB_OPERANDS; which++) {
        const struct tb_panel box =
            panel_of(call, plan, (enum tb_operand_id)which, 0, 0, 0, 0); /* the first is full */
        plan->slots[which].offset = plan->bytes;
        plan->slots[which].count = (int32_t)size->slots[which];
        if (!plan->in_place[which] && plan->slots[which].count > 0)
            plan->slots[which].bytes =
                round_up(plan_item_bytes(&box, plan->elem[which]) * (size_t)box.items, 256);
        plan->bytes += (size_t)size->slots[which] * plan->slots[which].bytes;
    }
    plan->scratch_offset = round_up(plan->bytes, TB_AREA_UNIT);
    if (plan->scratch_bytes > 0)
        plan->bytes = plan_scratch_offset(plan, (int32_t)lanes_of(call, plan, size));
    if (plan->bytes == 0)
        plan->bytes = 256; /* a workspace has an address */
    return TB_OK;
}

/* Pieces small enough that many copiers have work at any time, large enough for the link. */
static size_t chunk_of(const struct tb_call *call, const struct tb_plan *plan,
                       const struct tb_caps *caps, const struct sizing *size)
{
    const double least = 512 << 10, middle = 2 << 20, most = (double)TB_CHUNK_BYTES;
    if (caps->chunk > 0)
        return (size_t)caps->chunk < TB_CHUNK_BYTES ? (size_t)caps->chunk : TB_CHUNK_BYTES;
    const double in = ((double)call->m + (double)call->n) * (double)call->k * (double)call->batch *
                      (double)plan->elem[TB_A];
    double piece = in / 48 < middle ? in / 48 : larger(in / 128, middle);
    /* A streaming product has a few panels under way, not all of them. */
    const double panel = slot_bytes(call, plan, size, TB_A) + slot_bytes(call, plan, size, TB_B);
    if (!plan->whole && piece > panel / 12)
        piece = panel / 12;
    piece = piece < least ? least : piece > most ? most : piece;
    return round_up((size_t)piece, 64 << 10);
}

double plan_estimate(const struct tb_plan *plan, double device)
{
    const double in = plan->bytes_in / link_rate, out = plan->bytes_out / link_rate;
    const double link = in > out ? in : out;
    return device > link ? device : link;
}

/* A tile that is the only one has the device for itself: the row may divide it among all of it, in
 * an area that has to fit into `room`. */
static void kernel_settle_alone(const struct tb_call *call, const struct tb_caps *caps,
                                const struct sizing *size, double room, struct tb_plan *plan)
{
    struct tb_gemm_params params = {.m = min64(call->m, size->m),
                                    .n = min64(call->n, size->n),
                                    .k = size->k,
                                    .batch = size->group};
    const int kernel =
        kernel_choose_alone(caps, call->ab, call->c_type, transposed(call->ta),
                            transposed(call->tb), params.m, params.n, params.k, params.batch);
    const struct tb_kernel *row = kernel_row(kernel);
    if (!row || row->family != TB_SM90)
        return;
    const size_t most = kernel_scratch(row, caps, &params);
    params.k = call->k % size->k; /* the last part of k */
    const size_t last = params.k > 0 ? kernel_scratch(row, caps, &params) : 0;
    const size_t bytes = round_up(most > last ? most : last, TB_AREA_UNIT);
    if (bytes == 0 || (double)bytes + TB_AREA_UNIT > room)
        return;
    plan->kernel = kernel;
    plan->scratch_bytes = bytes;
}

/* What the kernel was chosen for, and how it is to go through C. */
static void kernel_settle(const struct tb_call *call, const struct tb_caps *caps,
                          struct tb_plan *plan, const struct sizing *size)
{
    plan->chosen_for =
        (struct tb_extent){size->m, size->n, size->k, size->group * lanes_of(call, plan, size)};
    if (plan->kernel < 0)
        return;
    const struct tb_block_order order = tuned_order(caps, plan->kernel, &plan->chosen_for);
    plan->band = order.band;
    plan->hint = order.hint;
}

/* Settles the tile, the slots and the kernel. A kernel that needs an area gives way to one that
 * does without where there is no memory for any such area. */
static bool sizes_find(const struct tb_call *call, const struct tb_caps *caps, double memory,
                       struct tb_plan *plan, struct sizing *out, int64_t *ahead)
{
    struct tb_caps plain = *caps;
    plain.strict = true;
    for (int i = 0; i < (call->ab == TB_F32 && !caps->strict ? 2 : 1); i++) {
        const struct tb_caps *const with = i == 0 ? caps : &plain;
        struct sizing size = {.k = call->k, .group = 1};
        plan->lanes = TB_PLAN_LANES;
        natural_tile(call, with, plan, &size);
        /* Kernels that pack fill the device in turn; an area counts more than a further lane. */
        if (area_of(plan, with, kernel_for(call, with, plan, &size), &size) > 0)
            plan->lanes = 2;
        size.group = group_of(call, with, plan, &size, memory);
        plan->whole = size_whole(call, with, plan, memory, &size);
        *ahead = plan->whole ? size_panels(call, with, plan, memory, &size) : 0;
        /* A triangle cut in halves has pieces of those sizes, whatever fits. */
        if (!plan->whole && (plan->corner > 0 || !size_stream(call, with, plan, memory, &size)))
            continue;
        plan->kernel = kernel_for(call, with, plan, &size);
        plan->scratch_bytes = area_of(plan, with, plan->kernel, &size);
        if (plan->scratch_bytes == 0)
            plan->lanes = TB_PLAN_LANES;
        if (tile_count(call, &size) == 1)
            kernel_settle_alone(call, with, &size, memory - sizing_bytes(call, with, plan, &size),
                                plan);
        kernel_settle(call, with, plan, &size);
        *out = size;
        return true;
    }
    return false;
}

/* A product, of all of C or of a triangle of it. */
static enum tb_status product_build(const struct tb_call *call, const struct tb_caps *caps,
                                    size_t memory, struct tb_plan *plan)
{
    if (call->k <= 0)
        return TB_NO_KERNEL;
    plan->uplo = call_is_triangular(call) ? call->uplo : 0;
    plan->twin = call->op == TB_SYRK || call->op == TB_HERK;
    plan->elem[TB_A] = plan->elem[TB_B] = call_elem_bytes(call->ab);
    plan->elem[TB_C] = call_elem_bytes(call->c_type);
    plan->a_shared = call->batch > 1 && !call->alist && call->stride_a == 0;
    plan->b_shared = call->batch > 1 && !call->blist && call->stride_b == 0;
    bool resident = false;
    for (int which = 0; which < TB_OPERANDS; which++) {
        plan->in_place[which] = call->where[which] == TB_DEVICE || call->where[which] == TB_MANAGED;
        resident = resident || plan->in_place[which];
    }

    struct sizing size;
    int64_t ahead;
    plan->corner = corner_of(call, caps, plan);
    if (!sizes_find(call, caps, (double)memory, plan, &size, &ahead))
        return TB_NO_MEMORY;
    plan->chunk = chunk_of(call, plan, caps, &size);
    if (plan->kernel < 0)
        return TB_NO_KERNEL;
    enum tb_status status = layout(call, &size, plan);
    if (status != TB_OK)
        return status;
    /* Without the area that the best rows want, it is a plain one. */
    struct tb_caps used = *caps;
    used.strict = caps->strict || (call->ab == TB_F32 && kernel_row(plan->kernel)->family != TB_X3);

    plan->ahead = ahead;
    struct walk walk = {.call = call, .plan = plan};
    walk.beta = !scalar_is_zero(call->beta_type, &call->beta);
    walk.room = (int32_t)steps_most(call, &size);
    if (plan->corner > 0) /* corners, and a square less, by two products at most */
        walk.room = (int32_t)(4 * ceil_div(call->n, plan->corner));
    if (tile_count(call, &size) > 1 || plan->tiles_k > 1) {
        status = steps_build(&walk);
        if (status != TB_OK)
            plan_free(plan);
        plan->est_ns = plan_estimate(plan, device_ns(call, &used, plan, &size));
        return status;
    }
    steps_single(&walk);
    plan->est_ns = plan_estimate(plan, device_ns(call, &used, plan, &size));
    plan->on_caller = !resident && caps->inline_calls && plan->scratch_bytes == 0 &&
                      plan->bytes <= TB_INLINE_BYTES;
    return TB_OK;
}

enum tb_status plan_build(const struct tb_call *call, const struct tb_caps *caps, size_t memory,
                          struct tb_plan *plan)
{
    struct tb_call product = *call;
    /* The steps of `few` need no zeroes; the rest does. */
    memset(plan, 0, offsetof(struct tb_plan, few));
    if (call->m <= 0 || call->n <= 0 || call->batch <= 0)
        return TB_NO_KERNEL;
    switch (call->op) {
    case TB_GEMM:
    case TB_GEMM3M:
    case TB_GEMMT:
    case TB_SYRK:
    case TB_HERK:
    case TB_SYR2K:
    case TB_HER2K:
        call_as_product(&product);
        return product_build(&product, caps, memory, plan);
    case TB_SYMM:
    case TB_HEMM:
    case TB_TRMM:
    case TB_TRSM:
        return plan_strips_build(call, caps, memory, plan);
    case TB_OPS:
        break;
    }
    return TB_NO_KERNEL;
}

void plan_free(struct tb_plan *plan)
{
    free(plan->many);
    plan->many = NULL;
    plan->count = 0;
}

static void panel_print(const char *name, const struct tb_panel *x, FILE *out)
{
    fprintf(out, " %s[%lld+%lld, %lld+%lld]", name, (long long)x->row, (long long)x->rows,
            (long long)x->col, (long long)x->cols);
    if (x->part)
        fprintf(out, " %s", x->part == 'L' ? "lower" : "upper");
    if (x->item != 0 || x->items != 1)
        fprintf(out, " of %lld+%lld", (long long)x->item, (long long)x->items);
}

void plan_print(const struct tb_plan *plan, FILE *out)
{
    static const char *const kinds[] = {"upload", "upload", "upload", "compute", "download"};
    static const char *const names[] = {"A", "B", "C", "C", "C"};
    static const char *const actions[] = {"",      "adds",  "triangle", "mirror",
                                          "bring", "scale", "store"};
    fprintf(out, "tiles %lldx%lld of %lldx%lld, k %lld of %lld, groups %lld of %lld, %s\n",
            (long long)plan->tiles_m, (long long)plan->tiles_n, (long long)plan->tile_m,
            (long long)plan->tile_n, (long long)plan->tiles_k, (long long)plan->tile_k,
            (long long)plan->groups, (long long)plan->group, plan->whole ? "square" : "stream");
    fprintf(out, "slots A %d B %d C %d, %zu bytes, chunk %zu\n", plan->slots[TB_A].count,
            plan->slots[TB_B].count, plan->slots[TB_C].count, plan->bytes, plan->chunk);
    for (int32_t i = 0; i < plan->count; i++) {
        const struct tb_step *step = plan_step(plan, i);
        fprintf(out, "%d: %s", i, kinds[step->kind]);
        panel_print(names[step->kind], &step->range, out);
        fprintf(out, " slot %d", step->slot);
        if (step->kind == TB_COMPUTE && step->action != TB_PRODUCT)
            fprintf(out, " %s %lldx%lldx%lld, lane %d", actions[step->action], (long long)step->m,
                    (long long)step->n, (long long)step->k, step->lane);
        else if (step->kind == TB_COMPUTE)
            fprintf(out, " = %s slot %d * %s slot %d, k %lld+%lld%s, lane %d", names[step->from_a],
                    step->slot_a, names[step->from_b], step->slot_b, (long long)step->k0,
                    (long long)step->k, step->first ? "" : ", adds", step->lane);
        for (int w = 0, any = 0; w < TB_STEP_WAITS; w++)
            if (step->waits_on[w] >= 0)
                fprintf(out, any++ ? ",%d" : " after %d", step->waits_on[w]);
        fputc('\n', out);
    }
}
