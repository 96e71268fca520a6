/* SPDX-License-Identifier: BSD-3-Clause
 * Where the matrices of a call lie: in the caller's memory, in a staging buffer, in the workspace
 * on the device. Copies between the first two and tells a kernel about the third; waits for
 * nothing, owns nothing. Called by exec.c. */
#include "stage.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#include "kernel.h"

/* Rows of a stored matrix, as bytes: where column `col` of product `item` begins. */
static char *host_column(const struct tb_call *call, enum tb_operand_id which, int64_t item,
                         int64_t row, int64_t col)
{
    const int64_t ld[TB_OPERANDS] = {call->lda, call->ldb, call->ldc};
    const size_t elem = call_elem_bytes(which == TB_C ? call->c_type : call->ab);
    /* trmm and trsm: what is called B is C here. */
    const void *base = which == TB_A   ? call_a(call, item)
                       : which == TB_B ? call_b(call, item)
                                       : call_c(call, item);
    return (char *)(uintptr_t)base + ((size_t)col * (size_t)ld[which] + (size_t)row) * elem;
}

/* Where the columns of a piece lie in the caller's memory, one after the other. */
struct host_walk {
    const struct tb_call *call;
    const struct tb_panel *range;
    enum tb_operand_id which;
    int64_t row;
    int64_t item, col, left_in_item;
    char *at;
    size_t ld_bytes;
};

static struct host_walk host_walk(const struct tb_call *call, const struct tb_panel *range,
                                  enum tb_operand_id which, const struct tb_piece *piece)
{
    const int64_t ld = which == TB_A ? call->lda : which == TB_B ? call->ldb : call->ldc;
    const size_t elem = call_elem_bytes(which == TB_C ? call->c_type : call->ab);
    struct host_walk walk = {.call = call,
                             .range = range,
                             .which = which,
                             .row = range->row + piece->row,
                             .item = range->item + piece->col / range->cols,
                             .ld_bytes = (size_t)ld * elem};
    const int64_t col = piece->col % range->cols;
    walk.left_in_item = range->cols - col;
    walk.at = host_column(call, which, walk.item, walk.row, range->col + col);
    return walk;
}

static char *host_walk_next(struct host_walk *walk)
{
    if (walk->left_in_item == 0) {
        walk->left_in_item = walk->range->cols;
        walk->at = host_column(walk->call, walk->which, ++walk->item, walk->row, walk->range->col);
    }
    char *at = walk->at;
    walk->left_in_item--;
    /* As a number: behind the last column there may be no object to point into. */
    walk->at = (char *)((uintptr_t)at + walk->ld_bytes);
    return at;
}

/* The part of a column of a piece that counts. */
struct span {
    size_t skip, bytes;
};

static struct span span_of(const struct tb_panel *range, size_t elem, const struct tb_piece *piece,
                           int64_t col)
{
    int64_t from, to;
    plan_column(range, piece->col + col, &from, &to);
    from = from > piece->row ? from - piece->row : 0;
    to = to < piece->row + piece->rows ? to - piece->row : piece->rows;
    return (struct span){(size_t)from * elem, from < to ? (size_t)(to - from) * elem : 0};
}

/* B of trmm is multiplied by alpha before A, as CPU libraries do: where the product of A and B
 * alone would over- or underflow the result is theirs. */
static bool is_scaled(const struct tb_call *call, enum tb_operand_id which)
{
    double alpha[2];
    scalar_widen(call->alpha_type, &call->alpha, alpha);
    return call->op == TB_TRMM && which == TB_C && (alpha[0] != 1 || alpha[1] != 0);
}

static void scale_floats(float *to, const float *from, size_t count, float alpha)
{
    for (size_t i = 0; i < count; i++)
        to[i] = alpha * from[i];
}

static void scale_doubles(double *to, const double *from, size_t count, double alpha)
{
    for (size_t i = 0; i < count; i++)
        to[i] = alpha * from[i];
}

static void scale_pairs_f(float *to, const float *from, size_t count, float re, float im)
{
    for (size_t i = 0; i < 2 * count; i += 2) {
        const float x = from[i], y = from[i + 1];
        to[i] = re * x - im * y;
        to[i + 1] = re * y + im * x;
    }
}

static void scale_pairs(double *to, const double *from, size_t count, double re, double im)
{
    for (size_t i = 0; i < 2 * count; i += 2) {
        const double x = from[i], y = from[i + 1];
        to[i] = re * x - im * y;
        to[i + 1] = re * y + im * x;
    }
}

/* A real alpha scales both parts apart: it makes no NaN out of an infinity. */
static void copy_scaled(const struct tb_call *call, void *to, const void *from, size_t bytes)
{
    const bool single = call->ab == TB_F32 || call->ab == TB_C32;
    const size_t count = bytes / call_elem_bytes(call->ab);
    double alpha[2];
    scalar_widen(call->alpha_type, &call->alpha, alpha);
    if (alpha[1] != 0 && single)
        scale_pairs_f(to, from, count, (float)alpha[0], (float)alpha[1]);
    else if (alpha[1] != 0)
        scale_pairs(to, from, count, alpha[0], alpha[1]);
    else if (single)
        scale_floats(to, from, bytes / sizeof(float), (float)alpha[0]);
    else
        scale_doubles(to, from, bytes / sizeof(double), alpha[0]);
}

void stage_gather(const struct tb_call *call, const struct tb_panel *range,
                  enum tb_operand_id which, size_t elem, const struct tb_piece *piece, char *to)
{
    const size_t pitch = plan_piece_pitch(elem, piece), bytes = (size_t)piece->rows * elem;
    const bool scaled = is_scaled(call, which);
    struct host_walk walk = host_walk(call, range, which, piece);
    for (int64_t c = 0; c < piece->cols; c++, to += pitch) {
        const char *from = host_walk_next(&walk);
        if (scaled) {
            copy_scaled(call, to, from, bytes);
            continue;
        }
        if (!range->part) {
            memcpy(to, from, bytes);
            continue;
        }
        const struct span span = span_of(range, elem, piece, c);
        if (span.bytes > 0)
            memcpy(to + span.skip, from + span.skip, span.bytes);
    }
}

/* Large results go past the caches: nobody has asked for them there, and the lines need not be read
 * first. */
static void copy_out(char *to, const char *from, size_t bytes)
{
#if defined(__SSE2__)
    if (bytes >= 1024) {
        const size_t head = (16 - ((uintptr_t)to & 15)) & 15;
        size_t i = head;
        memcpy(to, from, head);
        for (; i + 16 <= bytes; i += 16)
            _mm_stream_si128((__m128i *)(void *)(to + i),
                             _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
        memcpy(to + i, from + i, bytes - i);
        return;
    }
#endif
    memcpy(to, from, bytes);
}

void stage_scatter(const struct tb_call *call, const struct tb_panel *range, size_t elem,
                   const struct tb_piece *piece, const char *from)
{
    const size_t pitch = plan_piece_pitch(elem, piece), bytes = (size_t)piece->rows * elem;
    struct host_walk walk = host_walk(call, range, TB_C, piece);
    for (int64_t c = 0; c < piece->cols; c++, from += pitch) {
        char *to = host_walk_next(&walk);
        const struct span span =
            range->part ? span_of(range, elem, piece, c) : (struct span){0, bytes};
        if (span.bytes > 0)
            copy_out(to + span.skip, from + span.skip, span.bytes);
    }
#if defined(__SSE2__)
    _mm_sfence(); /* before anybody is told that the piece is there */
#endif
}

bool stage_rectangle(const struct tb_call *call, const struct tb_panel *range,
                     enum tb_operand_id which, size_t elem, const struct tb_piece *piece,
                     const void **at, struct tb_copy *shape)
{
    const struct host_walk walk = host_walk(call, range, which, piece);
    if (range->part || piece->cols > walk.left_in_item || is_scaled(call, which))
        return false;
    *at = walk.at;
    *shape = (struct tb_copy){.width = (size_t)piece->rows * elem,
                              .rows = (size_t)piece->cols,
                              .dst_pitch = plan_pitch(range->rows, elem),
                              .src_pitch = walk.ld_bytes};
    return true;
}

static int op_of(const struct tb_call *call, char trans)
{
    if (trans == 'N')
        return TB_KOP_N;
    return trans == 'C' && call_is_complex(call->ab) ? TB_KOP_C : TB_KOP_T;
}

static int64_t pitch_elems(const struct tb_plan *plan, enum tb_operand_id which, int64_t rows)
{
    return (int64_t)(plan_pitch(rows, plan->elem[which]) / plan->elem[which]);
}

/* The part of a matrix in place that a step works on. */
static tb_dptr place_of(const struct tb_call *call, enum tb_operand_id which, int64_t item,
                        int64_t row, int64_t col)
{
    return (tb_dptr)(uintptr_t)host_column(call, which, item, row, col);
}

/* Operands that are on the device already are worked on where they lie. */
static void params_in_place(const struct tb_call *call, const struct tb_plan *plan,
                            const struct tb_step *step, struct tb_gemm_params *p)
{
    const struct tb_panel *c = &step->range;
    const bool ta = call->ta != 'N', tb = call->tb != 'N', alone = c->items == 1;
    const enum tb_operand_id a = step->from_a, b = step->from_b;
    if (plan->in_place[a]) {
        p->a = place_of(call, a, c->item, ta ? step->k0 : c->row, ta ? c->row : step->k0);
        p->lda = a == TB_A ? call->lda : call->ldb;
        p->stride_a = alone ? 0 : a == TB_A ? call->stride_a : call->stride_b;
    }
    if (plan->in_place[b]) {
        p->b = place_of(call, b, c->item, tb ? c->col : step->k0, tb ? step->k0 : c->col);
        p->ldb = b == TB_A ? call->lda : call->ldb;
        p->stride_b = alone ? 0 : b == TB_A ? call->stride_a : call->stride_b;
    }
    if (plan->in_place[TB_C]) {
        p->c = place_of(call, TB_C, c->item, c->row, c->col);
        p->ldc = call->ldc;
        p->stride_c = alone ? 0 : call->stride_c;
    }
}

/* The triangle of a tile of C that the kernel keeps to. */
static int32_t uplo_of(const struct tb_call *call, const struct tb_panel *c)
{
    if (!c->part)
        return TB_KUPLO_ALL;
    const bool real = call->op == TB_HERK || call->op == TB_HER2K;
    return (c->part == 'L' ? TB_KUPLO_LOWER : TB_KUPLO_UPPER) | (real ? TB_KUPLO_REAL : 0);
}

int stage_kernel(const struct tb_plan *plan, const struct tb_step *step)
{
    return step->action == TB_PRODUCT ? plan->kernel : step->kernel;
}

static void scale_set(const struct tb_call *call, uint8_t scale, double out[2])
{
    out[0] = scale == TB_SCALE_MINUS ? -1 : 1;
    out[1] = 0;
    if (scale == TB_SCALE_ALPHA)
        scalar_widen(call->alpha_type, &call->alpha, out);
    else if (scale == TB_SCALE_BETA)
        scalar_widen(call->beta_type, &call->beta, out);
}

static tb_dptr view_at(const struct tb_plan *plan, const struct tb_view *view, tb_dptr base,
                       int64_t *ld)
{
    const size_t elem = plan->elem[view->which], pitch = plan_pitch(view->rows, elem);
    *ld = (int64_t)(pitch / elem);
    return base + plan_slot_offset(plan, view->which, view->slot) + (size_t)view->col * pitch +
           (size_t)view->row * elem;
}

/* A step that names what it works on. */
static struct tb_gemm_params params_of_views(const struct tb_call *call, const struct tb_plan *plan,
                                             const struct tb_step *step, tb_dptr base)
{
    struct tb_gemm_params p = {.m = step->m,
                               .n = step->n,
                               .k = step->k,
                               .batch = 1,
                               .op_a = op_of(call, step->trans_a),
                               .op_b = op_of(call, step->trans_b)};
    p.c = view_at(plan, &step->view[TB_C], base, &p.ldc);
    scale_set(call, step->scale, p.alpha);
    scale_set(call, step->beta, p.beta);
    p.beta_zero = p.beta[0] == 0 && p.beta[1] == 0;
    if (step->action == TB_SCALE_OF) { /* nothing times nothing, and alpha C */
        p.alpha[0] = p.alpha[1] = 0;
        p.a = p.b = p.scratch = base + plan_scratch_offset(plan, step->lane);
        p.lda = step->m;
        p.ldb = 1;
        return p;
    }
    if (step->action != TB_MIRROR)
        p.a = view_at(plan, &step->view[TB_A], base, &p.lda);
    if (step->action == TB_PRODUCT_OF) {
        p.b = view_at(plan, &step->view[TB_B], base, &p.ldb);
        if (plan->scratch_bytes > 0)
            p.scratch = base + plan_scratch_offset(plan, step->lane);
        return p;
    }
    p.uplo = (call->uplo == 'L' ? TB_KUPLO_LOWER : TB_KUPLO_UPPER) |
             (call->op == TB_HEMM ? TB_KUPLO_REAL : 0);
    p.way = (call->side == 'R' ? TB_WAY_RIGHT : 0) | (call->diag == 'U' ? TB_WAY_UNIT : 0) |
            (call->op == TB_TRSM ? TB_WAY_SOLVE : 0);
    return p;
}

void stage_within(const struct tb_call *call, const struct tb_plan *plan,
                  const struct tb_step *step, tb_dptr base, struct stage_within *out)
{
    const struct tb_panel *x = &step->range;
    const enum tb_operand_id which = (enum tb_operand_id)step->from_a;
    const size_t elem = plan->elem[which], near = plan_pitch(x->rows, elem);
    const size_t far = elem * (size_t)(which == TB_A   ? call->lda
                                       : which == TB_B ? call->ldb
                                                       : call->ldc);
    const tb_dptr slot = base + plan_slot_offset(plan, which, step->slot);
    const tb_dptr home = place_of(call, which, 0, x->row, x->col);
    const bool back = step->action == TB_STORE;
    *out = (struct stage_within){.to = back ? home : slot,
                                 .from = back ? slot : home,
                                 .shape = {.width = (size_t)x->rows * elem,
                                           .rows = (size_t)x->cols,
                                           .dst_pitch = back ? far : near,
                                           .src_pitch = back ? near : far}};
}

struct tb_gemm_params stage_params(const struct tb_call *call, const struct tb_plan *plan,
                                   const struct tb_step *step, tb_dptr base)
{
    if (step->action != TB_PRODUCT)
        return params_of_views(call, plan, step, base);
    const struct tb_panel *c = &step->range;
    const bool ta = call->ta != 'N', tb = call->tb != 'N';
    const int64_t rows_a = ta ? step->k : c->rows, cols_a = ta ? c->rows : step->k;
    const int64_t rows_b = tb ? c->cols : step->k, cols_b = tb ? step->k : c->cols;
    struct tb_gemm_params p = {
        .a = plan->in_place[step->from_a]
                 ? 0
                 : base + plan_slot_offset(plan, step->from_a, step->slot_a),
        .b = plan->in_place[step->from_b]
                 ? 0
                 : base + plan_slot_offset(plan, step->from_b, step->slot_b),
        .c = base + plan_slot_offset(plan, TB_C, step->slot),
        .m = c->rows,
        .n = c->cols,
        .k = step->k,
        .lda = pitch_elems(plan, TB_A, rows_a),
        .ldb = pitch_elems(plan, TB_B, rows_b),
        .ldc = pitch_elems(plan, TB_C, c->rows),
        .batch = c->items,
        .op_a = op_of(call, call->ta),
        .op_b = op_of(call, call->tb),
        .band = plan->band,
        .hint = plan->hint,
    };
    p.stride_a = plan->a_shared ? 0 : p.lda * cols_a;
    p.stride_b = plan->b_shared ? 0 : p.ldb * cols_b;
    p.stride_c = p.ldc * c->cols;
    if (plan->scratch_bytes > 0)
        p.scratch = base + plan_scratch_offset(plan, step->lane);
    scalar_widen(call->alpha_type, &call->alpha, p.alpha);
    if (step->second && call->op == TB_HER2K)
        p.alpha[1] = -p.alpha[1];
    p.uplo = uplo_of(call, c);
    /* In a slot of ours nobody owns what lies beside the triangle, and it does not come back: rows
     * that know no triangles take the whole square. */
    if (!plan->in_place[TB_C] && !(p.uplo & TB_KUPLO_REAL) &&
        kernel_row(plan->kernel)->family != TB_SIMT)
        p.uplo = TB_KUPLO_ALL;
    p.beta[0] = 1;
    if (step->first) {
        scalar_widen(call->beta_type, &call->beta, p.beta);
        p.beta_zero = p.beta[0] == 0 && p.beta[1] == 0;
    }
    params_in_place(call, plan, step, &p);
    return p;
}
