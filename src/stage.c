/* SPDX-License-Identifier: BSD-3-Clause
 * Where the matrices of a call lie: in the caller's memory, in a staging buffer, in the workspace
 * on the device. Copies between the first two and tells a kernel about the third; waits for
 * nothing, owns nothing. Called by exec.c. */
#include "stage.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Rows of a stored matrix, as bytes: where column `col` of product `item` begins. */
static char *host_column(const struct tb_call *call, enum tb_operand_id which, int64_t item,
                         int64_t row, int64_t col)
{
    const int64_t ld[TB_OPERANDS] = {call->lda, call->ldb, call->ldc};
    const size_t elem = call_elem_bytes(which == TB_C ? call->c_type : call->ab);
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

void stage_gather(const struct tb_call *call, const struct tb_panel *range,
                  enum tb_operand_id which, size_t elem, const struct tb_piece *piece, char *to)
{
    const size_t pitch = plan_pitch(range->rows, elem), bytes = (size_t)piece->rows * elem;
    struct host_walk walk = host_walk(call, range, which, piece);
    for (int64_t c = 0; c < piece->cols; c++, to += pitch)
        memcpy(to, host_walk_next(&walk), bytes);
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
    const size_t pitch = plan_pitch(range->rows, elem), bytes = (size_t)piece->rows * elem;
    struct host_walk walk = host_walk(call, range, TB_C, piece);
    for (int64_t c = 0; c < piece->cols; c++, from += pitch)
        copy_out(host_walk_next(&walk), from, bytes);
#if defined(__SSE2__)
    _mm_sfence(); /* before anybody is told that the piece is there */
#endif
}

bool stage_rectangle(const struct tb_call *call, const struct tb_panel *range,
                     enum tb_operand_id which, size_t elem, const struct tb_piece *piece,
                     const void **at, struct tb_copy *shape)
{
    const struct host_walk walk = host_walk(call, range, which, piece);
    if (piece->cols > walk.left_in_item)
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
    if (plan->in_place[TB_A]) {
        p->a = place_of(call, TB_A, c->item, ta ? step->k0 : c->row, ta ? c->row : step->k0);
        p->lda = call->lda;
        p->stride_a = alone ? 0 : call->stride_a;
    }
    if (plan->in_place[TB_B]) {
        p->b = place_of(call, TB_B, c->item, tb ? c->col : step->k0, tb ? step->k0 : c->col);
        p->ldb = call->ldb;
        p->stride_b = alone ? 0 : call->stride_b;
    }
    if (plan->in_place[TB_C]) {
        p->c = place_of(call, TB_C, c->item, c->row, c->col);
        p->ldc = call->ldc;
        p->stride_c = alone ? 0 : call->stride_c;
    }
}

struct tb_gemm_params stage_params(const struct tb_call *call, const struct tb_plan *plan,
                                   const struct tb_step *step, tb_dptr base)
{
    const struct tb_panel *c = &step->range;
    const bool ta = call->ta != 'N', tb = call->tb != 'N';
    const int64_t rows_a = ta ? step->k : c->rows, cols_a = ta ? c->rows : step->k;
    const int64_t rows_b = tb ? c->cols : step->k, cols_b = tb ? step->k : c->cols;
    struct tb_gemm_params p = {
        .a = plan->in_place[TB_A] ? 0 : base + plan_slot_offset(plan, TB_A, step->slot_a),
        .b = plan->in_place[TB_B] ? 0 : base + plan_slot_offset(plan, TB_B, step->slot_b),
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
        .way = plan->band << TB_WAY_BAND,
    };
    p.stride_a = plan->a_shared ? 0 : p.lda * cols_a;
    p.stride_b = plan->b_shared ? 0 : p.ldb * cols_b;
    p.stride_c = p.ldc * c->cols;
    scalar_widen(call->alpha_type, &call->alpha, p.alpha);
    p.beta[0] = 1;
    if (step->first) {
        scalar_widen(call->beta_type, &call->beta, p.beta);
        p.beta_zero = p.beta[0] == 0 && p.beta[1] == 0;
    }
    params_in_place(call, plan, step, &p);
    return p;
}
