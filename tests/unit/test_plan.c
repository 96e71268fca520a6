/* SPDX-License-Identifier: BSD-3-Clause
 * Plans, checked by walking them as the device would: what lies in each slot, and what orders each
 * access. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "../../src/kernel.h"
#include "../../src/plan.h"

static struct tb_caps caps_of(int64_t tile, int64_t chunk)
{
    return (struct tb_caps){.cc = 90,
                            .sms = 132,
                            .smem_block = 227 << 10,
                            .fp64_ratio = 2,
                            .tile = tile,
                            .chunk = chunk};
}

static struct tb_call call_of(enum tb_type ab, enum tb_type c, char ta, char tb, int64_t m,
                              int64_t n, int64_t k)
{
    return (struct tb_call){.op = TB_GEMM,
                            .ab = ab,
                            .c_type = c,
                            .alpha_type = TB_F64,
                            .beta_type = TB_F64,
                            .ta = ta,
                            .tb = tb,
                            .m = m,
                            .n = n,
                            .k = k,
                            .alpha.d = {1},
                            .beta.d = {1},
                            .lda = ta == 'N' ? m : k,
                            .ldb = tb == 'N' ? k : n,
                            .ldc = m,
                            .batch = 1};
}

/* What happened before each step: a bit per step. */
struct order {
    unsigned char *before;
    int32_t count;
};

static void follows(struct order *order, int32_t step, int32_t earlier)
{
    unsigned char *row = order->before + (size_t)step * (size_t)order->count;
    const unsigned char *from = order->before + (size_t)earlier * (size_t)order->count;
    row[earlier] = 1;
    for (int32_t i = 0; i < earlier; i++)
        row[i] |= from[i];
}

static bool ordered(const struct order *order, int32_t earlier, int32_t step)
{
    return order->before[(size_t)step * (size_t)order->count + (size_t)earlier];
}

static struct order order_of(const struct tb_plan *plan)
{
    struct order order = {calloc((size_t)plan->count, (size_t)plan->count), plan->count};
    int32_t last[TB_PLAN_LANES] = {-1, -1, -1, -1};
    for (int32_t i = 0; i < plan->count; i++) {
        const struct tb_step *step = plan_step(plan, i);
        for (int w = 0; w < TB_STEP_WAITS; w++)
            if (step->waits_on[w] >= 0) {
                cr_assert_lt(step->waits_on[w], i, "step %d waits for a later one", i);
                follows(&order, i, step->waits_on[w]);
            }
        if (step->kind != TB_COMPUTE)
            continue;
        cr_assert(step->lane >= 0 && step->lane < TB_PLAN_LANES);
        if (last[step->lane] >= 0)
            follows(&order, i, last[step->lane]);
        last[step->lane] = i;
    }
    return order;
}

static bool touches(const struct tb_step *step, enum tb_operand_id which, int32_t slot)
{
    if (step->kind == TB_COMPUTE)
        return (which == TB_A ? step->slot_a : which == TB_B ? step->slot_b : step->slot) == slot;
    return plan_operand(step->kind) == which && step->slot == slot;
}

static bool writes(const struct tb_step *step, enum tb_operand_id which)
{
    return step->kind == TB_COMPUTE ? which == TB_C : step->kind != TB_DOWNLOAD;
}

/* Any two steps that touch one slot, one of them writing, are ordered. */
static void check_order(const struct tb_plan *plan)
{
    struct order order = order_of(plan);
    for (int32_t i = 0; i < plan->count; i++)
        for (int32_t j = 0; j < i; j++)
            for (int x = 0; x < TB_OPERANDS; x++) {
                const enum tb_operand_id which = (enum tb_operand_id)x;
                const struct tb_step *a = plan_step(plan, j), *b = plan_step(plan, i);
                const int32_t slot = b->kind != TB_COMPUTE ? b->slot
                                     : which == TB_A       ? b->slot_a
                                     : which == TB_B       ? b->slot_b
                                                           : b->slot;
                if (touches(b, which, slot) && touches(a, which, slot) &&
                    (writes(a, which) || writes(b, which)))
                    cr_assert(ordered(&order, j, i), "nothing orders step %d before step %d", j, i);
            }
    free(order.before);
}

static int32_t holder(const struct tb_plan *plan, int32_t before, enum tb_operand_id which,
                      int32_t slot)
{
    int32_t found = -1;
    for (int32_t i = 0; i < before; i++) {
        const struct tb_step *step = plan_step(plan, i);
        if (step->kind != TB_COMPUTE && step->kind != TB_DOWNLOAD &&
            plan_operand(step->kind) == which && step->slot == slot)
            found = i;
    }
    return found;
}

/* A product finds in its slots the panels it needs. */
static void check_panels(const struct tb_call *call, const struct tb_plan *plan, int32_t i)
{
    const struct tb_step *step = plan_step(plan, i);
    const struct tb_panel *c = &step->range;
    const int32_t ia = holder(plan, i, TB_A, step->slot_a),
                  ib = holder(plan, i, TB_B, step->slot_b);
    cr_assert(ia >= 0 && ib >= 0);
    struct tb_panel a = plan_step(plan, ia)->range, b = plan_step(plan, ib)->range;
    const bool ta = call->ta != 'N', tb = call->tb != 'N';
    cr_assert_eq(ta ? a.col : a.row, c->row);
    cr_assert_eq(ta ? a.cols : a.rows, c->rows);
    cr_assert_eq(ta ? a.row : a.col, step->k0);
    cr_assert_eq(ta ? a.rows : a.cols, step->k);
    cr_assert_eq(tb ? b.row : b.col, c->col);
    cr_assert_eq(tb ? b.rows : b.cols, c->cols);
    cr_assert_eq(tb ? b.col : b.row, step->k0);
    cr_assert_eq(tb ? b.cols : b.rows, step->k);
    cr_assert(plan->a_shared || (a.item == c->item && a.items == c->items));
    cr_assert(plan->b_shared || (b.item == c->item && b.items == c->items));
}

/* Every element of C gets each part of the sum once, is fetched once, and sent once if beta asks.
 */
static void check_cover(const struct tb_call *call, const struct tb_plan *plan, bool beta)
{
    const size_t elems = (size_t)(call->m * call->n * call->batch);
    int64_t *sums = calloc(elems, sizeof *sums), *firsts = calloc(elems, sizeof *firsts);
    int64_t *sent = calloc(elems, sizeof *sent), *fetched = calloc(elems, sizeof *fetched);
    for (int32_t i = 0; i < plan->count; i++) {
        const struct tb_step *s = plan_step(plan, i);
        const struct tb_panel *c = &s->range;
        if (s->kind == TB_UPLOAD_A || s->kind == TB_UPLOAD_B)
            continue;
        if (s->kind == TB_COMPUTE)
            check_panels(call, plan, i);
        for (int64_t item = c->item; item < c->item + c->items; item++)
            for (int64_t col = c->col; col < c->col + c->cols; col++)
                for (int64_t row = c->row; row < c->row + c->rows; row++) {
                    const size_t at = (size_t)((item * call->n + col) * call->m + row);
                    cr_assert_lt(at, elems);
                    sent[at] += s->kind == TB_UPLOAD_C;
                    fetched[at] += s->kind == TB_DOWNLOAD;
                    if (s->kind != TB_COMPUTE)
                        continue;
                    cr_assert_eq(s->first, sums[at] == 0);
                    cr_assert(!s->first || sent[at] == beta);
                    cr_assert_eq(fetched[at], 0);
                    sums[at] += s->k;
                    firsts[at] += s->first;
                }
    }
    for (size_t at = 0; at < elems; at++)
        cr_assert(sums[at] == call->k && firsts[at] == 1 && fetched[at] == 1 && sent[at] == beta);
    free(sums);
    free(firsts);
    free(sent);
    free(fetched);
}

/* The slots do not overlap, hold what is put into them, and fit. */
static void check_room(const struct tb_plan *plan, size_t memory)
{
    cr_assert_leq(plan->bytes, memory);
    for (int32_t i = 0; i < plan->count; i++) {
        const struct tb_step *step = plan_step(plan, i);
        const enum tb_operand_id which = plan_operand(step->kind);
        cr_assert_lt(step->slot, plan->slots[which].count);
        cr_assert_leq(plan_item_bytes(&step->range, plan->elem[which]) * (size_t)step->range.items,
                      plan->slots[which].bytes);
    }
    size_t end = 0;
    for (int which = 0; which < TB_OPERANDS; which++) {
        cr_assert_geq(plan->slots[which].offset, end);
        end =
            plan->slots[which].offset + plan->slots[which].bytes * (size_t)plan->slots[which].count;
    }
    if (plan->scratch_bytes > 0) {
        cr_assert_geq(plan->scratch_offset, end);
        const int64_t tiles = plan->tiles_m * plan->tiles_n * plan->groups;
        end = plan_scratch_offset(plan, (int32_t)(tiles < plan->lanes ? tiles : plan->lanes));
    }
    cr_assert_leq(end, plan->bytes);
}

/* The pieces of a panel cover it once, and none is larger than a chunk. */
static void check_pieces(const struct tb_plan *plan)
{
    int64_t next = 0;
    for (int32_t i = 0; i < plan->count; i++) {
        const struct tb_step *step = plan_step(plan, i);
        const size_t elem = plan->elem[plan_operand(step->kind)];
        const struct tb_panel *r = &step->range;
        if (step->kind == TB_COMPUTE)
            continue;
        const size_t chunk = plan_step_chunk(plan, step);
        const int64_t pieces = plan_pieces(r, elem, chunk), cols = r->items * r->cols;
        unsigned char *seen = calloc((size_t)(cols * r->rows), 1);
        for (int64_t p = 0; p < pieces; p++) {
            const struct tb_piece piece = plan_piece(r, elem, chunk, p);
            cr_assert_leq(plan_piece_bytes(elem, &piece), chunk);
            for (int64_t col = piece.col; col < piece.col + piece.cols; col++)
                for (int64_t row = piece.row; row < piece.row + piece.rows; row++)
                    cr_assert_eq(seen[col * r->rows + row]++, 0);
        }
        cr_assert_null(memchr(seen, 0, (size_t)(cols * r->rows)));
        free(seen);
        if (step->kind == TB_DOWNLOAD) {
            cr_assert_eq(step->piece0, next);
            next += pieces;
        }
    }
    cr_assert_eq(next, plan->pieces);
}

static void check_plan(const struct tb_call *call, const struct tb_plan *plan, size_t memory,
                       bool beta)
{
    check_room(plan, memory);
    check_order(plan);
    check_cover(call, plan, beta);
    check_pieces(plan);
    if (!plan->whole)
        return;
    const double a = (double)(call->m * call->k) * (double)(plan->a_shared ? 1 : call->batch);
    const double b = (double)(call->n * call->k) * (double)(plan->b_shared ? 1 : call->batch);
    const double c = (double)(call->m * call->n) * (double)call->batch * (double)plan->elem[TB_C];
    cr_assert_eq(plan->bytes_in, (a + b) * (double)plan->elem[TB_A] + (beta ? c : 0));
    cr_assert_eq(plan->bytes_out, c);
}

static const struct {
    enum tb_type ab, c;
} pairs[] = {{TB_F32, TB_F32}, {TB_F64, TB_F64}, {TB_C32, TB_C32},   {TB_C64, TB_C64},
             {TB_F16, TB_F16}, {TB_F16, TB_F32}, {TB_BF16, TB_BF16}, {TB_BF16, TB_F32}};

Test(plan, is_right_for_all_shapes, .timeout = 120)
{
    unsigned r = 7;
    int planned = 0, whole = 0, split = 0;
    for (int round = 0; round < 1500; round++) {
        int64_t size[6];
        for (int i = 0; i < 6; i++) {
            r = r * 1664525 + 1013904223;
            size[i] = 1 + (r >> 16) % (i < 2 ? 40 : i == 2 ? 100 : 16);
        }
        const int pair = round % 8;
        struct tb_call call = call_of(pairs[pair].ab, pairs[pair].c, "NTC"[round % 3],
                                      "NTC"[round / 3 % 3], size[0], size[1], size[2]);
        const bool beta = round % 2;
        call.beta.d[0] = beta;
        if (round % 5 == 0) {
            call.batch = size[5];
            call.stride_a = round % 10 ? 0 : 2000;
            call.stride_b = call.stride_c = 2000;
        }
        const struct tb_caps caps = caps_of(7 + size[3], 64 * size[4]);
        const size_t memory = round % 3 ? (size_t)1 << 22 : 2500 + (size_t)(r >> 16) % 12000;
        struct tb_plan plan;
        const enum tb_status status = plan_build(&call, &caps, memory, &plan);
        cr_assert(status == TB_OK || (status == TB_NO_MEMORY && memory < 30000));
        if (status != TB_OK)
            continue;
        check_plan(&call, &plan, memory, beta);
        planned++;
        whole += plan.whole;
        split += plan.tiles_k > 1;
        cr_assert(plan.tiles_k == 1 || (pairs[pair].c != TB_F16 && pairs[pair].c != TB_BF16));
        plan_free(&plan);
    }
    cr_expect(planned > 1100 && whole > 700 && whole < planned - 100 && split > 50,
              "%d plans, %d whole, %d split", planned, whole, split);
}

static char *text_of(const struct tb_plan *plan)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    plan_print(plan, out);
    fclose(out);
    return text;
}

static void expect_text(const struct tb_call *call, const struct tb_caps *caps, size_t memory,
                        const char *want)
{
    struct tb_plan plan;
    cr_assert_eq(plan_build(call, caps, memory, &plan), TB_OK);
    char *text = text_of(&plan);
    cr_expect_str_eq(text, want);
    free(text);
    plan_free(&plan);
}

Test(plan, grows_in_squares)
{
    struct tb_call call = call_of(TB_F64, TB_F64, 'N', 'N', 32, 32, 10);
    const struct tb_caps caps = caps_of(16, 1024);
    call.beta.d[0] = 0;
    expect_text(
        &call, &caps, 1 << 20,
        "tiles 2x2 of 16x16, k 1 of 10, groups 1 of 1, square\n"
        "slots A 2 B 2 C 4, 13312 bytes, chunk 1024\n"
        "0: upload A[0+16, 0+10] slot 0\n"
        "1: upload B[0+10, 0+16] slot 0\n"
        "2: compute C[0+16, 0+16] slot 0 = A slot 0 * B slot 0, k 0+10, lane 0 after 0,1\n"
        "3: download C[0+16, 0+16] slot 0 after 2\n"
        "4: upload B[0+10, 16+16] slot 1\n"
        "5: compute C[0+16, 16+16] slot 1 = A slot 0 * B slot 1, k 0+10, lane 1 after 0,4\n"
        "6: download C[0+16, 16+16] slot 1 after 5\n"
        "7: upload A[16+16, 0+10] slot 1\n"
        "8: compute C[16+16, 0+16] slot 2 = A slot 1 * B slot 0, k 0+10, lane 2 after 7,1\n"
        "9: download C[16+16, 0+16] slot 2 after 8\n"
        "10: compute C[16+16, 16+16] slot 3 = A slot 1 * B slot 1, k 0+10, lane 3 after 7,4\n"
        "11: download C[16+16, 16+16] slot 3 after 10\n");
}

Test(plan, streams_when_memory_is_short)
{
    struct tb_call call = call_of(TB_F64, TB_F64, 'N', 'T', 16, 32, 32);
    const struct tb_caps caps = caps_of(16, 4096);
    expect_text(
        &call, &caps, 14000,
        "tiles 1x2 of 16x16, k 2 of 16, groups 1 of 1, stream\n"
        "slots A 2 B 2 C 2, 12288 bytes, chunk 4096\n"
        "0: upload C[0+16, 0+16] slot 0\n"
        "1: upload A[0+16, 0+16] slot 0\n"
        "2: upload B[0+16, 0+16] slot 0\n"
        "3: compute C[0+16, 0+16] slot 0 = A slot 0 * B slot 0, k 0+16, lane 0 after 1,2,0\n"
        "4: upload A[0+16, 16+16] slot 1\n"
        "5: upload B[0+16, 16+16] slot 1\n"
        "6: compute C[0+16, 0+16] slot 0 = A slot 1 * B slot 1, k 16+16, adds, lane 0 after 4,5\n"
        "7: download C[0+16, 0+16] slot 0 after 6\n"
        "8: upload C[0+16, 16+16] slot 1\n"
        "9: upload B[16+16, 16+16] slot 0 after 3\n"
        "10: compute C[0+16, 16+16] slot 1 = A slot 1 * B slot 0, k 16+16, lane 1 after 4,9,8\n"
        "11: upload B[16+16, 0+16] slot 1 after 6\n"
        "12: compute C[0+16, 16+16] slot 1 = A slot 0 * B slot 1, k 0+16, adds, lane 1 after 1,11\n"
        "13: download C[0+16, 16+16] slot 1 after 12\n");
}

/* A kernel that packs its operands has an area for each lane, out of the same memory; where that is
 * short, or sums are to be strict, one without takes its place. */
Test(plan, a_kernel_that_packs_gets_its_area)
{
    const struct tb_call call = call_of(TB_F32, TB_F32, 'N', 'N', 8192, 8192, 8192);
    struct tb_caps caps = caps_of(0, 0);
    struct tb_plan plan;
    for (int gb = 1; gb <= 64; gb *= 2) {
        const size_t memory = (size_t)gb << 30;
        cr_assert_eq(plan_build(&call, &caps, memory, &plan), TB_OK);
        check_room(&plan, memory);
        const struct tb_gemm_params tile = {
            .m = plan.tile_m, .n = plan.tile_n, .k = plan.tile_k, .batch = 1};
        cr_assert_eq(kernel_row(plan.kernel)->family, TB_X3, "%d GB", gb);
        cr_assert_geq(plan.scratch_bytes, kernel_scratch(kernel_row(plan.kernel), &caps, &tile));
        plan_free(&plan);
    }
    for (size_t memory = (size_t)512 << 20; memory >= 8 << 20; memory /= 2) {
        cr_assert_eq(plan_build(&call, &caps, memory, &plan), TB_OK);
        check_room(&plan, memory);
        const struct tb_gemm_params tile = {
            .m = plan.tile_m, .n = plan.tile_n, .k = plan.tile_k, .batch = 1};
        cr_assert_geq(plan.scratch_bytes, kernel_scratch(kernel_row(plan.kernel), &caps, &tile));
        plan_free(&plan);
    }
    caps.strict = true;
    cr_assert_eq(plan_build(&call, &caps, (size_t)64 << 30, &plan), TB_OK);
    cr_assert_eq(kernel_row(plan.kernel)->family, TB_SIMT);
    cr_assert_eq(plan.scratch_bytes, 0);
    plan_free(&plan);
}

Test(plan, same_call_same_plan)
{
    const struct tb_call call = call_of(TB_C32, TB_C32, 'C', 'N', 5000, 3000, 7000);
    const struct tb_caps caps = caps_of(0, 0);
    struct tb_plan one, two;
    cr_assert_eq(plan_build(&call, &caps, (size_t)64 << 20, &one), TB_OK);
    cr_assert_eq(plan_build(&call, &caps, (size_t)64 << 20, &two), TB_OK);
    char *first = text_of(&one), *second = text_of(&two);
    cr_expect_str_eq(first, second);
    free(first);
    free(second);
    plan_free(&one);
    plan_free(&two);
}

/* Gigabytes through 64 MiB, for every type; the traffic stays in bounds. */
Test(plan, large_products_in_little_memory)
{
    const struct tb_caps caps = caps_of(0, 0);
    const size_t memory = (size_t)64 << 20;
    for (size_t i = 0; i < 8; i++)
        for (int shape = 0; shape < 4; shape++) {
            static const int64_t s[][3] = {{16384, 16384, 16384},
                                           {40000, 300, 40000},
                                           {300, 40000, 40000},
                                           {1000, 1000, 400000}};
            struct tb_call call =
                call_of(pairs[i].ab, pairs[i].c, 'N', 'T', s[shape][0], s[shape][1], s[shape][2]);
            struct tb_plan plan;
            cr_assert_eq(plan_build(&call, &caps, memory, &plan), TB_OK, "%zu %d", i, shape);
            cr_expect_leq(plan.bytes, memory);
            const double once =
                ((double)(call.m + call.n) * (double)call.k) * (double)plan.elem[TB_A] +
                (double)call.m * (double)call.n * (double)plan.elem[TB_C];
            const double times = plan.bytes_in / once;
            cr_log_info("types %d %d, shape %d: %lldx%lldx%lld, in %.1f times, %d steps",
                        pairs[i].ab, pairs[i].c, shape, (long long)plan.tile_m,
                        (long long)plan.tile_n, (long long)plan.tile_k, times, plan.count);
            cr_expect_lt(times, pairs[i].c == TB_F16 || pairs[i].c == TB_BF16 ? 80 : 16);
            plan_free(&plan);
        }
}

/* What crosses the link, beside the least that is possible: a tile of C that fills all the memory,
 * with nothing left for panels and nothing at once. Two such tiles would be 1.4 times that. */
Test(plan, little_memory_is_used_well)
{
    static const enum tb_type types[] = {TB_F32, TB_F64, TB_C32, TB_C64};
    const struct tb_caps caps = caps_of(0, 0);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int64_t side = 8192; side <= 32768; side *= 2)
            for (size_t memory = (size_t)56 << 20; memory <= (size_t)1 << 30; memory *= 2) {
                const struct tb_call call =
                    call_of(types[t], types[t], side % 3 ? 'N' : 'T', 'N', side, side, side);
                const double elem = (double)call_elem_bytes(types[t]), n = (double)side;
                const double held = (double)memory / elem; /* numbers */
                struct tb_plan plan;
                cr_assert_eq(plan_build(&call, &caps, memory, &plan), TB_OK);
                const double in = plan.bytes_in - n * n * elem; /* without C */
                double ratio = in / (2 * n * n * elem);
                if (held < n * n)
                    ratio *= sqrt(held) / n;
                /* FP32 has areas beside the tiles. */
                cr_expect_leq(ratio, types[t] == TB_F32 ? 2.3 : 2.2, "type %d, %lld, %zu MB: %.2f",
                              types[t], (long long)side, memory >> 20, ratio);
                cr_expect_leq(plan.bytes, memory);
                plan_free(&plan);
            }
}

Test(plan, whole_when_it_fits)
{
    static const int64_t sizes[] = {100, 1000, 2048, 4096, 8192, 16384, 30000};
    const struct tb_caps caps = caps_of(0, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const struct tb_call call = call_of(TB_F64, TB_F64, 'N', 'N', sizes[i], sizes[i], sizes[i]);
        struct tb_plan plan;
        cr_assert_eq(plan_build(&call, &caps, (size_t)120 << 30, &plan), TB_OK);
        cr_expect(plan.whole);
        cr_expect_lt(plan.count, 3000);
        cr_expect_eq(plan.bytes_in, 3 * 8.0 * (double)(sizes[i] * sizes[i]));
        plan_free(&plan);
    }
}

Test(plan, sizes_beyond_reason)
{
    static const int64_t big = (int64_t)1 << 40;
    static const int64_t shapes[][3] = {{big, 1, 1},       {1, big, 1},
                                        {1, 1, big},       {big, big, 1},
                                        {big, big, big},   {INT64_MAX, INT64_MAX, INT64_MAX},
                                        {INT64_MAX, 1, 1}, {1, 1, INT64_MAX}};
    const struct tb_caps caps = caps_of(0, 0);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t i = 0; i < 8; i++)
            for (int memory = 0; memory < 2; memory++) {
                struct tb_call call = call_of(pairs[i].ab, pairs[i].c, "NT"[s % 2], 'N',
                                              shapes[s][0], shapes[s][1], shapes[s][2]);
                struct tb_plan plan;
                call.batch = memory ? 1 : big;
                const enum tb_status status =
                    plan_build(&call, &caps, memory ? (size_t)64 << 20 : (size_t)1 << 37, &plan);
                if (status == TB_OK)
                    plan_free(&plan);
                else
                    cr_expect_eq(status, TB_NO_MEMORY);
            }
}

Test(plan, small_products_of_a_batch_share_tiles)
{
    struct tb_call call = call_of(TB_F64, TB_F64, 'N', 'N', 64, 64, 64);
    const struct tb_caps caps = caps_of(0, 0);
    struct tb_plan plan;
    call.batch = 10000;
    call.stride_a = call.stride_b = call.stride_c = 4096;
    cr_assert_eq(plan_build(&call, &caps, (size_t)1 << 34, &plan), TB_OK);
    cr_expect_lt(plan.groups, 100);
    cr_expect_gt(plan.groups, 3);
    plan_free(&plan);
    cr_assert_eq(plan_build(&call, &caps, (size_t)8 << 20, &plan), TB_OK);
    cr_expect_leq(plan.bytes, (size_t)8 << 20);
    cr_expect_lt(plan.groups, 1500);
    plan_free(&plan);
}

/* trsm and its relatives: a strip of the triangle has work for every lane as soon as it is there;
 * of the triangle half is sent, of the other matrix each block once each way; nothing waits for
 * what comes after it. */
Test(plan, blocks_beside_a_triangle_go_side_by_side)
{
    static const enum tb_op ops[] = {TB_SYMM, TB_TRMM, TB_TRSM};
    static const char *const sides[] = {"LU", "RL"};
    const struct tb_caps caps = caps_of(0, 0);
    for (int round = 0; round < 6; round++) {
        struct tb_plan plan;
        struct tb_call call = call_of(TB_F64, TB_F64, 'N', 'N', 4096, 4096, 0);
        call.op = ops[round / 2];
        call.side = sides[round % 2][0];
        call.uplo = sides[round % 2][1];
        call.diag = 'N';
        cr_assert_eq(plan_build(&call, &caps, (size_t)1 << 34, &plan), TB_OK);
        cr_expect_gt(plan.est_ns, 0);
        int strips = 0, lanes = 0, blocks = 0;
        for (int32_t i = 0; i < plan.count; i++) {
            const struct tb_step *step = plan_step(&plan, i);
            for (int w = 0; w < TB_STEP_WAITS; w++)
                cr_assert_lt(step->waits_on[w], i);
            strips += step->kind == TB_UPLOAD_A;
            blocks += step->kind == TB_DOWNLOAD;
            if (step->kind == TB_COMPUTE && strips == 1)
                lanes |= 1 << step->lane;
            if (step->kind == TB_COMPUTE && step->action == TB_TRIANGLE_OF)
                cr_expect_leq(step->k, 256);
        }
        const double half = 8.0 * 4096 * 4097 / 2, other = 8.0 * 4096 * 4096;
        cr_expect_eq(lanes, (1 << TB_PLAN_LANES) - 1, "round %d: lanes %x", round, lanes);
        cr_expect_geq(blocks, 2 * TB_PLAN_LANES);
        cr_expect_leq(plan.bytes_in, half * 1.15 + (call.op == TB_SYMM ? 2 : 1) * other);
        cr_expect_float_eq(plan.bytes_out, other, 1);
        plan_free(&plan);
    }
}

/* A tile that is the only one may be divided among the whole device, in an area of the workspace.
 */
Test(plan, the_only_tile_has_scratch_where_there_is_room)
{
    const struct tb_caps caps = caps_of(0, 0);
    struct tb_plan plan;
    const struct tb_call deep = call_of(TB_BF16, TB_F32, 'N', 'N', 64, 64, 65536);
    cr_assert_eq(plan_build(&deep, &caps, SIZE_MAX, &plan), TB_OK);
    cr_assert_gt(plan.scratch_bytes, 100 << 10);
    cr_assert_eq(plan.scratch_offset + plan.scratch_bytes, plan.bytes);
    for (int which = 0; which < TB_OPERANDS; which++)
        cr_assert_geq(plan.scratch_offset,
                      plan.slots[which].offset +
                          plan.slots[which].bytes * (size_t)plan.slots[which].count);
    const size_t bytes = plan.bytes, without = plan.scratch_offset;
    plan_free(&plan);
    cr_assert_eq(plan_build(&deep, &caps, bytes, &plan), TB_OK);
    cr_assert_leq(plan.bytes, bytes);
    plan_free(&plan);
    cr_assert_eq(plan_build(&deep, &caps, without, &plan), TB_OK);
    cr_assert_eq(plan.scratch_bytes, 0);
    cr_assert_leq(plan.bytes, without);
    plan_free(&plan);
    /* Tiles beside each other, and types whose rows do not share, have none. */
    const struct tb_call large = call_of(TB_BF16, TB_F32, 'N', 'N', 5000, 5000, 5000);
    const struct tb_call fp64 = call_of(TB_F64, TB_F64, 'N', 'N', 64, 64, 65536);
    const struct tb_call *others[] = {&large, &fp64};
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(plan_build(others[i], &caps, SIZE_MAX, &plan), TB_OK);
        cr_assert_eq(plan.scratch_bytes, 0);
        plan_free(&plan);
    }
}

/* Single precision beside a triangle: nearly all of the work goes to kernels that pack, each lane
 * with an area that is large enough for every one of its launches, out of the same memory; where
 * that is short, or sums are to be strict, others take their place. */
Test(plan, strips_get_areas_too)
{
    static const enum tb_op ops[] = {TB_SYMM, TB_TRMM, TB_TRSM};
    for (int round = 0; round < 3 * 2 * 12; round++) {
        struct tb_caps caps = caps_of(0, 0);
        struct tb_plan plan;
        const size_t memory = (size_t)1 << (24 + round % 12);
        struct tb_call call = call_of(TB_F32, TB_F32, 'N', 'N', 8192, 8192, 0);
        double packed = 0, all = 0;
        call.op = ops[round / 24];
        call.side = "LR"[round / 12 % 2];
        call.uplo = 'L';
        call.diag = 'N';
        caps.strict = round % 12 == 11;
        const enum tb_status status = plan_build(&call, &caps, memory, &plan);
        if (status != TB_OK) {
            cr_expect_lt(memory, (size_t)1 << 25, "%zu", memory);
            continue;
        }
        cr_expect_leq(plan.bytes, memory);
        const struct tb_slots *last = &plan.slots[TB_C];
        cr_expect_geq(plan.scratch_bytes > 0 ? plan.scratch_offset : plan.bytes,
                      last->offset + (size_t)last->count * last->bytes);
        for (int32_t i = 0; i < plan.count; i++) {
            const struct tb_step *step = plan_step(&plan, i);
            if (step->kind != TB_COMPUTE || step->action == TB_MIRROR)
                continue;
            const struct tb_kernel *row = kernel_row(step->kernel);
            const struct tb_gemm_params params = {
                .m = step->m, .n = step->n, .k = step->k, .batch = 1};
            const double work = (double)step->m * (double)step->n * (double)step->k;
            const size_t area = kernel_scratch(row, &caps, &params);
            cr_assert_leq(area, plan.scratch_bytes);
            cr_assert(area == 0 || plan_scratch_offset(&plan, step->lane) + area <= plan.bytes);
            all += work;
            packed += row->family == TB_X3 ? work : 0;
        }
        if (caps.strict)
            cr_expect_eq(packed, 0);
        else if (memory >= (size_t)1 << 31)
            cr_expect_gt(packed, 0.9 * all, "%s: %g of %g", call_op_name(call.op), packed, all);
        cr_expect_eq(kernel_row(plan.kernel)->family, packed > 0 ? TB_X3 : TB_SIMT);
        plan_free(&plan);
    }
}

/* A triangle that is on the device already: every entry of it once, and nearly all by kernels that
 * know no triangles. */
Test(plan, triangles_in_place_are_cut_in_halves)
{
    static const enum tb_type types[] = {TB_F32, TB_F64, TB_C64};
    const struct tb_caps caps = caps_of(0, 0);
    for (int round = 0; round < 12; round++) {
        const int64_t n = round < 6 ? 8192 : 5001;
        struct tb_plan plan;
        struct tb_call call = call_of(types[round % 3], types[round % 3], 'N', 'T', n, n, 3000);
        call.op = round % 2 ? TB_SYR2K : TB_SYRK;
        call.uplo = "LU"[round / 3 % 2];
        call.b = call.a;
        call.where[0] = call.where[1] = call.where[2] = TB_DEVICE;
        cr_assert_eq(plan_build(&call, &caps, (size_t)1 << 32, &plan), TB_OK);
        const int products = call.op == TB_SYR2K ? 2 : 1;
        double square = 0, corner = 0;
        int64_t commits = 0;
        for (int32_t i = 0; i < plan.count; i++) {
            const struct tb_step *step = plan_step(&plan, i);
            const struct tb_panel *c = &step->range;
            const double rows = (double)c->rows, cols = (double)c->cols;
            cr_assert_eq(step->kind, TB_COMPUTE);
            cr_assert_eq(step->k, 3000);
            cr_assert_eq(step->first, i % products == 0);
            cr_assert_eq(step->commits, i % products == products - 1);
            cr_assert(!step->commits || step->piece0 == commits++);
            cr_assert(c->part ? c->row == c->col && c->rows == c->cols
                              : (call.uplo == 'L' ? c->row >= c->col + c->cols
                                                  : c->col >= c->row + c->rows));
            *(c->part ? &corner : &square) += c->part ? rows * (rows + 1) / 2 : rows * cols;
            if (plan.scratch_bytes > 0)
                cr_assert_leq(plan_scratch_offset(&plan, step->lane) + plan.scratch_bytes,
                              plan.bytes);
        }
        cr_expect_eq(commits, plan.pieces);
        cr_expect_eq(square + corner, products * (double)n * (double)(n + 1) / 2);
        cr_expect_lt(corner, 0.12 * square);
        cr_expect_eq(kernel_row(plan.kernel)->family, types[round % 3] == TB_F32 ? TB_X3 : TB_DMMA);
        plan_free(&plan);
    }
}

/* However little memory there is, every rectangle beside a triangle in place has its area. */
Test(plan, halves_of_a_triangle_have_areas_large_enough)
{
    const struct tb_caps caps = caps_of(0, 0);
    struct tb_call call = call_of(TB_F32, TB_F32, 'N', 'T', 8192, 8192, 8192);
    int packed = 0, plain = 0;
    call.op = TB_SYRK;
    call.uplo = 'L';
    call.b = call.a;
    call.where[0] = call.where[1] = call.where[2] = TB_DEVICE;
    for (size_t memory = (size_t)16 << 20; memory <= (size_t)8 << 30; memory += memory / 2) {
        struct tb_plan plan;
        cr_assert_eq(plan_build(&call, &caps, memory, &plan), TB_OK, "%zu", memory);
        const struct tb_kernel *row = kernel_row(plan.kernel);
        *(row->family == TB_X3 ? &packed : &plain) += 1;
        for (int32_t i = 0; i < plan.count; i++) {
            const struct tb_step *step = plan_step(&plan, i);
            const struct tb_gemm_params params = {
                .m = step->range.rows, .n = step->range.cols, .k = step->k, .batch = 1};
            if (row->family == TB_X3 && !step->range.part)
                cr_assert_leq(kernel_scratch(row, &caps, &params), plan.scratch_bytes);
        }
        plan_free(&plan);
    }
    cr_expect(packed > 0 && plain > 0, "%d packed, %d plain", packed, plain);
}

/* A diagonal that is all ones by definition is not read, nor what lies behind it. */
Test(plan, unit_diagonals_stay_where_they_are)
{
    for (int round = 0; round < 8; round++) {
        const struct tb_caps caps = caps_of(round % 2 ? 128 : 0, 0);
        struct tb_plan plan;
        struct tb_call call = call_of(TB_F64, TB_F64, 'N', 'N', 600, 300, 0);
        call.op = round / 4 ? TB_TRSM : TB_TRMM;
        call.side = 'L';
        call.uplo = "LU"[round / 2 % 2];
        call.diag = 'U';
        cr_assert_eq(plan_build(&call, &caps, SIZE_MAX, &plan), TB_OK);
        double entries = 0;
        for (int32_t i = 0; i < plan.count; i++) {
            const struct tb_panel *c = &plan_step(&plan, i)->range;
            if (plan_step(&plan, i)->kind != TB_UPLOAD_A)
                continue;
            for (int64_t col = 0; col < c->cols; col++) {
                int64_t from, to;
                plan_column(c, col, &from, &to);
                const int64_t diagonal = c->col + col - c->row;
                cr_assert(from >= to || diagonal < from || diagonal >= to);
                entries += to > from ? (double)(to - from) : 0;
            }
        }
        cr_expect_eq(entries, 600.0 * 599 / 2);
        plan_free(&plan);
    }
}

Test(plan, refusals)
{
    const struct tb_caps caps = caps_of(0, 0);
    struct tb_plan plan;
    struct tb_call call = call_of(TB_F64, TB_F64, 'N', 'N', 100, 100, 100);
    cr_expect_eq(plan_build(&call, &caps, 1000, &plan), TB_NO_MEMORY);
    call.k = 0;
    cr_expect_eq(plan_build(&call, &caps, 1 << 30, &plan), TB_NO_KERNEL);
}

Test(plan, small_calls_may_run_on_the_caller)
{
    struct tb_caps caps = caps_of(0, 0);
    struct tb_call call = call_of(TB_F64, TB_F64, 'N', 'N', 30, 30, 30);
    struct tb_plan plan;
    cr_assert_eq(plan_build(&call, &caps, 1 << 30, &plan), TB_OK);
    cr_expect_not(plan.on_caller);
    caps.inline_calls = true;
    cr_assert_eq(plan_build(&call, &caps, 1 << 30, &plan), TB_OK);
    cr_expect(plan.on_caller);
    cr_expect_null(plan.many);
    call.m = call.n = 300;
    cr_assert_eq(plan_build(&call, &caps, 1 << 30, &plan), TB_OK);
    cr_expect_not(plan.on_caller);
    plan_free(&plan);
}

/* The order that runs parts of k ahead, and the memory that needs them. */
Test(plan, sums_are_cut_only_where_alpha_allows_it)
{
    static const struct {
        double alpha;
        bool ahead, little;
    } cases[] = {{1, true, true},          {-0.5, true, true},        {3, false, true},
                 {HUGE_VAL, false, false}, {-HUGE_VAL, false, false}, {NAN, false, false}};
    struct tb_caps caps = caps_of(64, 4096);
    caps.order = 2;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tb_call call = call_of(TB_F64, TB_F64, 'N', 'N', 256, 256, 4096);
        struct tb_plan plan;
        call.alpha.d[0] = cases[i].alpha;
        cr_assert_eq(plan_build(&call, &caps, (size_t)1 << 30, &plan), TB_OK);
        cr_expect_eq(plan.tiles_k > 1, cases[i].ahead, "alpha %g", cases[i].alpha);
        plan_free(&plan);
        const enum tb_status status = plan_build(&call, &caps, (size_t)1 << 20, &plan);
        cr_expect_eq(status == TB_OK, cases[i].little, "alpha %g", cases[i].alpha);
        if (status == TB_OK)
            plan_free(&plan);
    }
}
