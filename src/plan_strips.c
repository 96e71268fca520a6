/* SPDX-License-Identifier: BSD-3-Clause
 * The plan of the routines with a triangle on one side: symm, hemm, trmm, trsm. Decides the cut:
 * the triangle into strips that end at a diagonal block, of which only the referenced part is sent,
 * and the other matrix into blocks of columns (side L) or rows (side R), which do not depend on
 * each other: as many as there are lanes go through the strips side by side. A block is on the
 * device as a whole and comes back in whole columns or rows, so that each of them is old or new.
 * Called by plan_build(). */
#include "plan_strips.h"

#include <stdlib.h>
#include <string.h>
#include "kernel.h"

enum { STRIPS_MAX = 4096, STEPS_MAX = 1 << 20 };
enum { AREA_UNIT = 1024 }; /* where the area of a lane may begin */

static int64_t min64(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

static int64_t ceil_div(int64_t x, int64_t y)
{
    return x / y + (x % y != 0);
}

/* Where a strip lies in its slot, and until when. */
struct strip_slot {
    int64_t strip; /* -1: none */
    int32_t ready; /* the step behind which it may be read */
    int32_t user[TB_PLAN_LANES];
    int64_t used;
};

/* The steps of the block in a slot; -1: none. */
struct block_slot {
    int32_t fetched; /* its last download */
    int32_t before;  /* what its next product has to wait for */
    int32_t sent;    /* what brings its block of B */
    int32_t last;    /* its last product */
};

struct strips {
    const struct tb_call *call;
    const struct tb_caps *caps;
    struct tb_plan *plan;
    bool left, mirrored, solves;
    bool lower;            /* W, the triangle as it works from the left, is lower */
    bool flip;             /* a strip of W is a strip of columns of A, else of rows */
    int64_t order, others; /* of the triangle; of the other direction */
    int64_t strip, strips, sub, block, blocks;
    int64_t together;     /* blocks that go through the strips side by side */
    int triangle, mirror; /* kernels */
    size_t area, used;    /* bytes for the kernel: what a lane may have, and what it needs */
    bool scales;          /* B comes from the device, and is to be scaled there */
    struct strip_slot *slot;
    struct block_slot *at; /* of C, and of B where there is one: as many */
    int64_t uses;
    int64_t j;    /* the block at hand */
    int32_t home; /* its slots */
};

/* Indices of the triangle's order. */
struct reach {
    int64_t from, count;
};

static struct reach strip_rows(const struct strips *s, int64_t i)
{
    const int64_t from = i * s->strip;
    return (struct reach){from, min64(s->strip, s->order - from)};
}

/* The columns of W that strip i has: up to its diagonal block, that included. */
static struct reach strip_cols(const struct strips *s, int64_t i)
{
    const struct reach rows = strip_rows(s, i);
    if (s->mirrored || s->lower)
        return (struct reach){0, rows.from + rows.count};
    return (struct reach){rows.from, s->order - rows.from};
}

static struct tb_panel strip_panel(const struct strips *s, int64_t i)
{
    const struct reach rows = strip_rows(s, i), cols = strip_cols(s, i);
    return (struct tb_panel){.items = 1,
                             .row = s->flip ? cols.from : rows.from,
                             .rows = s->flip ? cols.count : rows.count,
                             .col = s->flip ? rows.from : cols.from,
                             .cols = s->flip ? rows.count : cols.count,
                             .part = s->call->uplo,
                             .unit = s->call->diag == 'U'};
}

static struct tb_panel block_panel(const struct strips *s, int64_t j)
{
    const int64_t from = j * s->block, count = min64(s->block, s->others - from);
    struct tb_panel panel = {.items = 1, .rows = s->order, .col = from, .cols = count};
    if (!s->left)
        panel = (struct tb_panel){.items = 1, .row = from, .rows = count, .cols = s->order};
    return panel;
}

/* --- Steps --- */

static struct tb_step *add(struct strips *s, enum tb_step_kind kind, int32_t slot,
                           const struct tb_panel *range)
{
    struct tb_plan *plan = s->plan;
    struct tb_step *step = plan->many + plan->count++;
    *step = (struct tb_step){.kind = kind, .lane = -1, .slot = slot, .range = *range};
    for (int w = 0; w < TB_STEP_WAITS; w++)
        step->waits_on[w] = -1;
    if (kind == TB_DOWNLOAD)
        plan->bytes_out += plan_panel_bytes(range, plan->elem[TB_C], plan->chunk);
    else if (kind != TB_COMPUTE)
        plan->bytes_in += plan_panel_bytes(range, plan->elem[plan_operand(kind)], plan->chunk);
    return step;
}

static int32_t lane_of(const struct strips *s)
{
    return (int32_t)(s->j % TB_PLAN_LANES);
}

/* Rows `rows` and columns `cols` of W, in the slot of strip i. */
static struct tb_view view_w(const struct strips *s, int64_t i, int32_t slot, int64_t row,
                             int64_t col)
{
    const struct reach rows = strip_rows(s, i), cols = strip_cols(s, i);
    const int64_t r = row - rows.from, c = col - cols.from;
    return (struct tb_view){.which = TB_A,
                            .slot = slot,
                            .rows = s->flip ? cols.count : rows.count,
                            .row = s->flip ? c : r,
                            .col = s->flip ? r : c};
}

/* Part `at` of the block at hand along the triangle's order, of B or C. */
static struct tb_view view_x(const struct strips *s, enum tb_operand_id which, int64_t at)
{
    return (struct tb_view){.which = (uint8_t)which,
                            .slot = s->home,
                            .rows = block_panel(s, s->j).rows,
                            .row = s->left ? at : 0,
                            .col = s->left ? 0 : at};
}

/* A step of the block at hand that reads the strip in `slot`. */
static struct tb_step *compute(struct strips *s, int32_t slot, enum tb_action action)
{
    struct strip_slot *strip = &s->slot[slot];
    struct block_slot *block = &s->at[s->home];
    const int32_t index = s->plan->count;
    const struct tb_panel range = block_panel(s, s->j);
    struct tb_step *step = add(s, TB_COMPUTE, s->home, &range);
    step->action = action;
    step->lane = lane_of(s);
    step->waits_on[0] = strip->ready;
    step->waits_on[1] = block->sent;
    step->waits_on[2] = block->before;
    block->before = -1; /* the rest of the block follows on the same lane */
    block->last = index;
    strip->user[step->lane] = index;
    strip->used = ++s->uses;
    return step;
}

/* Bytes that a kernel needs beside the operands of a product. */
static size_t area_of(const struct tb_caps *caps, int kernel, int64_t m, int64_t n, int64_t k)
{
    const struct tb_gemm_params params = {.m = m, .n = n, .k = k, .batch = 1};
    if (kernel < 0)
        return 0;
    const size_t bytes = kernel_scratch(kernel_row(kernel), caps, &params);
    return (bytes + AREA_UNIT - 1) / AREA_UNIT * AREA_UNIT;
}

/* C(to) = scale W x(from) + beta C(to), or with the factors the other way round: `w` is the part of
 * the strip, `as_stored` or not. `from`: `deep` of them, `to`: `wide`. */
static void product(struct strips *s, int32_t slot, struct tb_view w, bool as_stored,
                    enum tb_operand_id source, struct reach from, struct reach to, uint8_t scale,
                    uint8_t beta)
{
    const struct tb_call *call = s->call;
    struct tb_step *step = compute(s, slot, TB_PRODUCT_OF);
    const int64_t count = s->left ? step->range.cols : step->range.rows;
    const char trans = as_stored             ? 'N'
                       : call->op == TB_SYMM ? 'T'
                       : call->op == TB_HEMM ? 'C'
                                             : call->ta;
    step->view[TB_A] = s->left ? w : view_x(s, source, from.from);
    step->view[TB_B] = s->left ? view_x(s, source, from.from) : w;
    step->view[TB_C] = view_x(s, TB_C, to.from);
    step->trans_a = s->left ? trans : 'N';
    step->trans_b = s->left ? 'N' : trans;
    step->m = s->left ? to.count : count;
    step->n = s->left ? count : to.count;
    step->k = from.count;
    step->scale = scale;
    step->beta = beta;
    step->kernel = kernel_choose(s->caps, call->ab, call->c_type, step->trans_a != 'N',
                                 step->trans_b != 'N', step->m, step->n, step->k, s->together);
    const size_t area = area_of(s->caps, step->kernel, step->m, step->n, step->k);
    if (area > s->area) { /* none of the sizes that it was reserved for */
        struct tb_caps plain = *s->caps;
        plain.strict = true;
        step->kernel = kernel_choose(&plain, call->ab, call->c_type, step->trans_a != 'N',
                                     step->trans_b != 'N', step->m, step->n, step->k, s->together);
    } else if (area > s->used) {
        s->used = area;
    }
}

/* The diagonal block `at` of strip i: C(at) = scale op(A) C(at), or the solution of that. */
static void diagonal(struct strips *s, int64_t i, int32_t slot, struct reach at, uint8_t scale)
{
    struct tb_step *step = compute(s, slot, TB_TRIANGLE_OF);
    const int64_t count = s->left ? step->range.cols : step->range.rows;
    step->view[TB_A] = view_w(s, i, slot, at.from, at.from);
    step->view[TB_C] = view_x(s, TB_C, at.from);
    step->trans_a = s->call->ta;
    step->trans_b = 'N';
    step->m = s->left ? at.count : count;
    step->n = s->left ? count : at.count;
    step->k = at.count;
    step->scale = scale;
    step->kernel = s->triangle;
}

/* Brings a panel of a matrix into its slot: from the caller's memory, or within the device. */
static struct tb_step *bring_panel(struct strips *s, enum tb_step_kind kind, int32_t slot,
                                   const struct tb_panel *panel)
{
    const enum tb_operand_id which = plan_operand(kind);
    if (!s->plan->in_place[which])
        return add(s, kind, slot, panel);
    struct tb_step *step = add(s, TB_COMPUTE, slot, panel);
    step->action = TB_BRING;
    step->lane = lane_of(s);
    step->from_a = (uint8_t)which;
    return step;
}

/* Multiplies the block of C that was brought last by alpha, on the same lane. */
static void scale_block(struct strips *s, int32_t slot, const struct tb_panel *panel)
{
    struct tb_step *step = add(s, TB_COMPUTE, slot, panel);
    step->action = TB_SCALE_OF;
    step->lane = lane_of(s);
    step->view[TB_C] = (struct tb_view){.which = TB_C, .slot = slot, .rows = panel->rows};
    step->m = panel->rows;
    step->n = panel->cols;
    step->k = 1;
    step->scale = TB_SCALE_ONE;
    step->beta = TB_SCALE_ALPHA;
    step->trans_a = step->trans_b = 'N';
    struct tb_caps plain = *s->caps;
    plain.strict = true;
    step->kernel =
        kernel_choose(&plain, s->call->ab, s->call->c_type, false, false, step->m, step->n, 1, 1);
}

/* Completes the diagonal block of a strip by its other half. */
static void mirror(struct strips *s, int64_t i, int32_t slot, int32_t upload)
{
    const struct reach rows = strip_rows(s, i);
    const struct tb_panel range = strip_panel(s, i);
    s->slot[slot].ready = s->plan->count;
    struct tb_step *step = add(s, TB_COMPUTE, slot, &range);
    step->action = TB_MIRROR;
    step->lane = lane_of(s);
    step->waits_on[0] = upload;
    step->view[TB_C] = view_w(s, i, slot, rows.from, rows.from);
    step->m = step->n = step->k = rows.count;
    step->trans_a = step->trans_b = 'N';
    step->kernel = s->mirror;
    s->slot[slot].user[step->lane] = s->slot[slot].ready;
}

/* The slot where strip i lies, after it was sent if it is not there yet. */
static int32_t bring(struct strips *s, int64_t i)
{
    const int32_t count = s->plan->slots[TB_A].count;
    int32_t at = 0;
    for (int32_t x = 0; x < count; x++) {
        if (s->slot[x].strip == i)
            return x;
        if (s->slot[x].used < s->slot[at].used)
            at = x;
    }
    struct strip_slot *slot = &s->slot[at];
    const struct tb_panel panel = strip_panel(s, i);
    const int32_t index = s->plan->count;
    struct tb_step *step = bring_panel(s, TB_UPLOAD_A, at, &panel);
    for (int lane = 0; lane < TB_PLAN_LANES; lane++)
        step->waits_on[lane] = slot->user[lane];
    *slot = (struct strip_slot){
        .strip = i, .ready = index, .user = {-1, -1, -1, -1}, .used = ++s->uses};
    if (s->mirrored)
        mirror(s, i, at, index);
    return at;
}

/* --- The routines --- */

/* Strip i of a mirrored triangle works twice: as rows of it, and but for the diagonal block as
 * columns. */
static void strip_mirrored(struct strips *s, int64_t i)
{
    const int32_t slot = bring(s, i);
    const struct reach rows = strip_rows(s, i), all = strip_cols(s, i);
    const struct reach others = {0, rows.from};
    const struct tb_view w = view_w(s, i, slot, rows.from, 0);
    product(s, slot, w, s->flip != s->left, TB_B, all, rows, TB_SCALE_ALPHA, TB_SCALE_BETA);
    if (others.count > 0)
        product(s, slot, w, s->flip == s->left, TB_B, rows, others, TB_SCALE_ALPHA, TB_SCALE_ONE);
}

/* The part of strip i left of (below) its diagonal block. */
static struct reach strip_rest(const struct strips *s, int64_t i)
{
    const struct reach rows = strip_rows(s, i);
    if (s->lower)
        return (struct reach){0, rows.from};
    return (struct reach){rows.from + rows.count, s->order - rows.from - rows.count};
}

static void rest_of_strip(struct strips *s, int64_t i, int32_t slot)
{
    const struct reach rows = strip_rows(s, i), rest = strip_rest(s, i);
    if (rest.count > 0)
        product(s, slot, view_w(s, i, slot, rows.from, rest.from), s->call->ta == 'N', TB_C, rest,
                rows, s->solves ? TB_SCALE_MINUS : TB_SCALE_ONE,
                s->solves ? TB_SCALE_ALPHA : TB_SCALE_ONE);
}

/* A triangle on the diagonal of strip i: half by half, with the product of what lies beside the two
 * between them. `fresh`: of the rows that are solved for alpha has not been applied to any yet.
 * Those that are multiplied came with it (stage.c). */
static void triangle_of_strip(struct strips *s, int64_t i, int32_t slot, struct reach at,
                              bool fresh)
{
    const uint8_t scale = s->solves && fresh ? TB_SCALE_ALPHA : TB_SCALE_ONE;
    if (at.count <= s->sub) {
        diagonal(s, i, slot, at, scale);
        return;
    }
    const int64_t half = ceil_div(ceil_div(at.count, s->sub), 2) * s->sub;
    const struct reach top = {at.from, half}, bottom = {at.from + half, at.count - half};
    /* Rows that need others, and those; solved for after them, multiplied before them. */
    const struct reach to = s->lower ? bottom : top, from = s->lower ? top : bottom;
    if (s->solves)
        triangle_of_strip(s, i, slot, from, fresh);
    else
        triangle_of_strip(s, i, slot, to, fresh);
    product(s, slot, view_w(s, i, slot, to.from, from.from), s->call->ta == 'N', TB_C, from, to,
            s->solves ? TB_SCALE_MINUS : TB_SCALE_ONE,
            s->solves && fresh ? TB_SCALE_ALPHA : TB_SCALE_ONE);
    if (s->solves)
        triangle_of_strip(s, i, slot, to, false);
    else
        triangle_of_strip(s, i, slot, from, fresh);
}

/* In place: rows that are solved for need those done before; rows that are multiplied, those not
 * done yet. */
static void strip_triangular(struct strips *s, int64_t x)
{
    const bool up = s->lower == s->solves;
    const int64_t i = up ? x : s->strips - 1 - x;
    const int32_t slot = bring(s, i);
    if (s->solves)
        rest_of_strip(s, i, slot);
    triangle_of_strip(s, i, slot, strip_rows(s, i), strip_rest(s, i).count == 0);
    if (!s->solves)
        rest_of_strip(s, i, slot);
}

static void block_open(struct strips *s, int64_t j)
{
    struct tb_plan *plan = s->plan;
    const struct tb_panel panel = block_panel(s, j);
    struct block_slot *block = &s->at[j % plan->slots[TB_C].count];
    const int32_t slot = (int32_t)(j % plan->slots[TB_C].count), last = block->last;
    block->before = block->fetched;
    block->sent = -1;
    if (!s->mirrored || !scalar_is_zero(s->call->beta_type, &s->call->beta)) {
        const int32_t index = plan->count;
        bring_panel(s, TB_UPLOAD_C, slot, &panel)->waits_on[0] = block->before;
        block->before = index;
        if (s->scales) {
            block->before = plan->count;
            scale_block(s, slot, &panel);
        }
    }
    if (s->mirrored) {
        block->sent = plan->count;
        bring_panel(s, TB_UPLOAD_B, slot, &panel)->waits_on[0] = last;
    }
}

static void block_close(struct strips *s, int64_t j)
{
    struct tb_plan *plan = s->plan;
    struct tb_panel panel = block_panel(s, j);
    struct block_slot *block = &s->at[j % plan->slots[TB_C].count];
    const bool near = plan->in_place[TB_C];
    panel.by_rows = !s->left;
    block->fetched = plan->count;
    struct tb_step *step =
        add(s, near ? TB_COMPUTE : TB_DOWNLOAD, (int32_t)(j % plan->slots[TB_C].count), &panel);
    step->waits_on[0] = block->last;
    step->piece0 = plan->pieces;
    plan->pieces += plan_pieces(&panel, plan->elem[TB_C], plan_commit_chunk(plan));
    if (near) {
        step->action = TB_STORE;
        step->lane = lane_of(s);
        step->from_a = TB_C;
        step->commits = true;
    }
}

/* Some blocks side by side, each on a lane of its own: a strip has work for all of them as soon as
 * it is there. A block is sent when the first strip wants it. */
static void blocks_emit(struct strips *s, int64_t first, int64_t end)
{
    for (int64_t i = 0; i < s->strips; i++)
        for (int64_t j = first; j < end; j++) {
            s->j = j;
            s->home = (int32_t)(j % s->plan->slots[TB_C].count);
            if (i == 0)
                block_open(s, j);
            if (s->mirrored)
                strip_mirrored(s, i);
            else
                strip_triangular(s, i);
        }
    for (s->j = first; s->j < end; s->j++)
        block_close(s, s->j);
}

/* --- Sizes --- */

static size_t box_bytes(int64_t rows, int64_t cols, size_t elem)
{
    return (plan_pitch(rows, elem) * (size_t)cols + 255) / 256 * 256;
}

/* An area for each lane behind the slots, and with that the size of all. */
static void areas_set(struct strips *s, size_t slots, size_t area)
{
    struct tb_plan *plan = s->plan;
    plan->scratch_bytes = area;
    plan->scratch_offset = (slots + AREA_UNIT - 1) / AREA_UNIT * AREA_UNIT;
    plan->bytes =
        area > 0 ? plan_scratch_offset(plan, (int32_t)min64(s->blocks, TB_PLAN_LANES)) : slots;
}

/* What a lane needs: what a kernel wants, and zeros for a row and a column of a block. */
static size_t lane_bytes(const struct strips *s, size_t area)
{
    const size_t elem = s->plan->elem[TB_C];
    const int64_t block = min64(s->block, s->others);
    const size_t zeros = s->scales ? (size_t)(s->order > block ? s->order : block) * elem : 0;
    return area > zeros ? area : (zeros + AREA_UNIT - 1) / AREA_UNIT * AREA_UNIT;
}

/* What the largest products want: a strip beside all the rest of the triangle, or where it is
 * mirrored all of that beside a strip. */
static size_t area_most(const struct strips *s, int64_t strip, int64_t block)
{
    const struct tb_call *call = s->call;
    const int64_t sides[][2] = {{strip, s->order}, {s->order, strip}};
    size_t most = 0;
    for (int i = 0; i < (s->mirrored ? 2 : 1) && call->ab == TB_F32; i++) {
        const int64_t m = s->left ? sides[i][0] : block, n = s->left ? block : sides[i][0];
        const int kernel = kernel_choose(s->caps, call->ab, call->c_type, false, false, m, n,
                                         sides[i][1], TB_PLAN_LANES);
        const size_t area = area_of(s->caps, kernel, m, n, sides[i][1]);
        most = area > most ? area : most;
    }
    return most;
}

/* Takes the cut if it fits, with room for `some` blocks of C at least, or all of them. */
static bool cut_fits(struct strips *s, int64_t strip, int64_t block, int64_t room, int64_t some,
                     double memory)
{
    struct tb_plan *plan = s->plan;
    const size_t elem = plan->elem[TB_A];
    const int64_t tall = min64(strip, s->order), wide = min64(block, s->others);
    const int64_t strips = ceil_div(s->order, tall), blocks = ceil_div(s->others, wide);
    if (strips > STRIPS_MAX || (double)s->order * (double)s->others > 0x1p50 ||
        (double)s->order * (double)s->order > 0x1p50)
        return false;
    plan->slots[TB_A].bytes =
        s->flip ? box_bytes(s->order, tall, elem) : box_bytes(tall, s->order, elem);
    plan->slots[TB_C].bytes =
        s->left ? box_bytes(s->order, wide, elem) : box_bytes(wide, s->order, elem);
    plan->slots[TB_B].bytes = s->mirrored ? plan->slots[TB_C].bytes : 0;
    s->strip = strip;
    s->strips = strips;
    s->block = block;
    s->blocks = blocks;
    s->area = area_most(s, tall, wide);
    plan->slots[TB_A].count = (int32_t)min64(room, strips);
    plan->slots[TB_C].count = (int32_t)min64(2 * TB_PLAN_LANES, blocks);
    for (; plan->slots[TB_C].count >= 1; plan->slots[TB_C].count--) {
        plan->slots[TB_B].count = s->mirrored ? plan->slots[TB_C].count : 0;
        size_t at = 0;
        for (int which = 0; which < TB_OPERANDS; which++) {
            plan->slots[which].offset = at;
            at += (size_t)plan->slots[which].count * plan->slots[which].bytes;
        }
        areas_set(s, at, lane_bytes(s, s->area));
        if ((double)plan->bytes <= memory)
            break;
    }
    /* While some are computed, others come and go. */
    s->together = blocks > plan->slots[TB_C].count ? plan->slots[TB_C].count / 2 : blocks;
    s->together = s->together > TB_PLAN_LANES ? TB_PLAN_LANES : s->together < 1 ? 1 : s->together;
    return plan->slots[TB_C].count >= min64(some, blocks);
}

/* Blocks of an eighth, so that every lane has two, but wide enough to be worth a launch. */
static int64_t block_widest(int64_t others)
{
    const int64_t eighth = ceil_div(others, 2 * TB_PLAN_LANES);
    return eighth > 512 ? eighth : 512;
}

static int64_t strip_tallest(int64_t order)
{
    return order >= 4096 ? 1024 : 512;
}

/* Blocks wide enough for products to be fast, and so many that every lane has two; then the whole
 * triangle on the device: it crosses more than once else. No side below `least`. */
static bool cut(struct strips *s, double memory, int64_t least)
{
    static const int64_t blocks[] = {2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4, 1};
    static const int64_t strips[] = {1024, 512, 256, 128, 64, 32, 16};
    static const int64_t rooms[] = {STRIPS_MAX, 4, 2, 1};
    const int64_t tile = s->caps->tile;
    const int64_t widest = block_widest(s->others), tallest = strip_tallest(s->order);
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
        for (size_t r = 0; r < sizeof rooms / sizeof *rooms; r++)
            for (size_t t = 0; t < (tile > 0 ? 1 : sizeof strips / sizeof *strips); t++) {
                if (tile > 0 && blocks[b] > tile && b + 1 < sizeof blocks / sizeof *blocks)
                    continue;
                if (tile <= 0 && (blocks[b] < least || blocks[b] > widest || strips[t] < least ||
                                  strips[t] > tallest))
                    continue;
                if (cut_fits(s, tile > 0 ? tile : strips[t], blocks[b], rooms[r],
                             least > 1 && tile <= 0 ? 2 : 1, memory))
                    return true;
            }
    return false;
}

/* Pieces hold whole columns, or rows, of C. */
static bool chunk_set(struct strips *s)
{
    struct tb_plan *plan = s->plan;
    const double in = call_bytes_in(s->call) / 24;
    const size_t most = TB_CHUNK_BYTES, least = s->caps->chunk > 0 ? 0 : (size_t)512 << 10;
    size_t chunk = s->caps->chunk > 0  ? (size_t)s->caps->chunk
                   : in < (double)most ? (size_t)in
                                       : most;
    const size_t line = s->left ? plan_pitch(s->order, plan->elem[TB_C]) : 16 * (size_t)s->order;
    chunk = chunk < least ? least : chunk;
    chunk = chunk < line ? line : chunk;
    plan->chunk = (chunk + 255) / 256 * 256;
    return (double)s->order * 16 <= (double)most && plan->chunk <= most;
}

static double steps_most(const struct strips *s)
{
    const double subs = (double)ceil_div(min64(s->strip, s->order), s->sub);
    return (double)s->blocks * (4 + (double)s->strips * (3 + 2 * subs));
}

static enum tb_status steps_build(struct strips *s)
{
    struct tb_plan *plan = s->plan;
    const size_t slots = (size_t)plan->slots[TB_A].count, rings = (size_t)plan->slots[TB_C].count;
    plan->many = malloc((size_t)steps_most(s) * sizeof *plan->many);
    s->slot = malloc(slots * sizeof *s->slot + rings * sizeof *s->at);
    if (!plan->many || !s->slot) {
        free(s->slot);
        plan_free(plan);
        return TB_NO_MEMORY;
    }
    s->at = (struct block_slot *)(s->slot + slots);
    for (size_t i = 0; i < slots; i++)
        s->slot[i] = (struct strip_slot){.strip = -1, .ready = -1, .user = {-1, -1, -1, -1}};
    memset(s->at, -1, rings * sizeof *s->at);
    for (int64_t j = 0; j < s->blocks; j += s->together)
        blocks_emit(s, j, min64(j + s->together, s->blocks));
    free(s->slot);
    const struct tb_slots *last = &plan->slots[TB_C];
    areas_set(s, last->offset + (size_t)last->count * last->bytes, lane_bytes(s, s->used));
    struct tb_step *tight = realloc(plan->many, (size_t)plan->count * sizeof *plan->many);
    if (tight)
        plan->many = tight;
    return TB_OK;
}

void plan_strips_piece(const struct tb_call *call, int64_t *m, int64_t *n, int64_t *k,
                       int64_t *beside)
{
    const bool left = call->side == 'L';
    const int64_t order = left ? call->m : call->n;
    const int64_t others = left ? call->n : call->m;
    const int64_t strip = min64(strip_tallest(order), order);
    const int64_t block = min64(block_widest(others), others);
    *m = left ? strip : block;
    *n = left ? block : strip;
    *k = order;
    *beside = min64(ceil_div(others, block), TB_PLAN_LANES);
}

enum tb_status plan_strips_build(const struct tb_call *call, const struct tb_caps *caps,
                                 size_t memory, struct tb_plan *plan)
{
    struct tb_caps plain = *caps;
    struct strips s = {.call = call, .caps = caps, .plan = plan};
    plain.strict = true;
    s.left = call->side == 'L';
    s.mirrored = call->op == TB_SYMM || call->op == TB_HEMM;
    s.solves = call->op == TB_TRSM;
    s.order = s.left ? call->m : call->n;
    s.others = s.left ? call->n : call->m;
    s.lower = s.mirrored || ((call->uplo == 'L') == (call->ta == 'N')) == s.left;
    s.flip = s.mirrored ? call->uplo == 'U' : s.left != (call->ta == 'N');
    for (int which = 0; which < TB_OPERANDS; which++)
        plan->in_place[which] = (which != TB_B || s.mirrored) && (call->where[which] == TB_DEVICE ||
                                                                  call->where[which] == TB_MANAGED);
    double alpha[2];
    scalar_widen(call->alpha_type, &call->alpha, alpha);
    s.scales = call->op == TB_TRMM && plan->in_place[TB_C] && (alpha[0] != 1 || alpha[1] != 0);
    plan->elem[TB_A] = plan->elem[TB_B] = plan->elem[TB_C] = call_elem_bytes(call->ab);
    s.triangle = kernel_triangle(caps, call->ab, false);
    s.mirror = kernel_triangle(caps, call->ab, true);
    plan->lanes = TB_PLAN_LANES;
    plan->chosen_for = (struct tb_extent){call->m, call->n, s.order, 1};
    plan->kernel =
        kernel_choose(&plain, call->ab, call->c_type, false, false, call->m, call->n, s.order, 1);
    if (s.triangle < 0 || s.mirror < 0 || plan->kernel < 0)
        return TB_NO_KERNEL;
    s.sub = kernel_row(s.triangle)->bm;
    if (caps->tile > 0) /* tests: several diagonal blocks in each strip */
        s.sub = min64(s.sub, (caps->tile + 2) / 3);
    if (!chunk_set(&s))
        return TB_NO_MEMORY;
    /* Where memory is short for areas of kernels that pack, others take their place. */
    if (!cut(&s, (double)memory, 128)) {
        s.caps = &plain;
        if (!cut(&s, (double)memory, 128) && !cut(&s, (double)memory, 1))
            return TB_NO_MEMORY;
    }
    if (steps_most(&s) > STEPS_MAX)
        return TB_NO_MEMORY;
    const enum tb_status status = steps_build(&s);
    if (status != TB_OK)
        return status;
    if (s.used == 0)
        s.caps = &plain;
    int64_t m, n, k, beside;
    plan_strips_piece(call, &m, &n, &k, &beside);
    plan->kernel = kernel_choose(s.caps, call->ab, call->c_type, false, false, m, n, k, beside);
    plan->est_ns = plan_estimate(plan, plan_device_ns(call, s.caps, m, n, k, beside));
    return TB_OK;
}
