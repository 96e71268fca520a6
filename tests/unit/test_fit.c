/* SPDX-License-Identifier: BSD-3-Clause
 * fit.c by worked examples and against the table of kernels; and the order of tiles: every tile of
 * every launch is taken exactly once. */
#include <criterion/criterion.h>
#include <string.h>
#include "../../kernels/order.h"
#include "../../src/fit.h"
#include "../../src/kernel.h"

static struct tb_fit on(int cc, int threads, int registers, int fixed, long long dynamic)
{
    const struct tb_need need = {threads, registers, fixed, (int)dynamic};
    return fit_block(fit_sm(cc), &need);
}

Test(fit, worked_examples)
{
    static const struct {
        int cc, threads, registers, fixed, bm, bn, bk, stages, bytes, blocks;
        enum tb_fit_bound bound;
    } x[] = {
        /* 32 KB, and 1 KB that each block costs: 4 of 33 in 164, 6 of 33 in 228 */
        {80, 128, 32, 0, 128, 128, 32, 2, 2, 4, TB_FIT_SMEM},
        {90, 128, 32, 0, 128, 128, 32, 2, 2, 6, TB_FIT_SMEM},
        /* 192 KB: one block on 9.0, none on 8.0, none where a block may have 99 KB */
        {90, 384, 80, 0, 256, 256, 64, 3, 2, 1, TB_FIT_SMEM},
        {80, 384, 168, 0, 256, 256, 64, 3, 2, 0, TB_FIT_SMEM},
        {120, 384, 168, 0, 256, 256, 64, 3, 2, 0, TB_FIT_SMEM},
        /* 227 KB is the most a block may have, with its reserve all there is; 228 is too much */
        {90, 128, 32, 227 * 1024 - 192 * 1024, 256, 256, 64, 3, 2, 1, TB_FIT_SMEM},
        {90, 128, 32, 228 * 1024 - 192 * 1024, 256, 256, 64, 3, 2, 0, TB_FIT_SMEM},
        /* 64x64x16 in FP32, two stages: 16 KB; 256 threads of 64 registers: 4 by registers */
        {90, 256, 64, 0, 64, 64, 16, 2, 4, 4, TB_FIT_REGISTERS},
        /* 65 registers cost 72: a warp gets them by 256 */
        {90, 256, 65, 0, 64, 64, 16, 2, 4, 3, TB_FIT_REGISTERS},
        /* 32x32x32 in FP32: 16 KB with two stages; one warp of 40 registers: 13 by shared memory */
        {90, 32, 40, 0, 32, 32, 32, 2, 4, 13, TB_FIT_SMEM},
        {86, 32, 40, 0, 32, 32, 32, 2, 4, 5, TB_FIT_SMEM},
        /* no shared memory to speak of: threads, or the number of blocks */
        {90, 1024, 32, 0, 1, 1, 1, 1, 4, 2, TB_FIT_THREADS},
        {89, 1024, 32, 0, 1, 1, 1, 1, 4, 1, TB_FIT_THREADS},
        {90, 32, 32, 0, 1, 1, 1, 1, 4, 32, TB_FIT_BLOCKS},
        /* what cannot be launched at all */
        {90, 1056, 32, 0, 1, 1, 1, 1, 4, 0, TB_FIT_THREADS},
        {90, 256, 256, 0, 1, 1, 1, 1, 4, 0, TB_FIT_REGISTERS},
        {90, 1024, 72, 0, 1, 1, 1, 1, 4, 0, TB_FIT_REGISTERS},
        {90, 128, 32, 48 * 1024 + 4, 1, 1, 1, 1, 4, 0, TB_FIT_STATIC},
        {90, 128, 32, 48 * 1024, 1, 1, 1, 1, 4, 4, TB_FIT_SMEM},
    };
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++) {
        const long long ring = fit_ring_bytes(x[i].bm, x[i].bn, x[i].bk, x[i].stages, x[i].bytes);
        const struct tb_fit fit = on(x[i].cc, x[i].threads, x[i].registers, x[i].fixed, ring);
        cr_expect(fit.blocks == x[i].blocks && fit.bound == x[i].bound,
                  "example %zu: %d blocks by %s, not %d by %s", i, fit.blocks,
                  fit_bound_text(fit.bound), x[i].blocks, fit_bound_text(x[i].bound));
    }
    cr_expect(fit_ring_bytes(128, 128, 32, 2, 2) == 32 * 1024);
    cr_expect(fit_ring_bytes(256, 256, 64, 3, 2) == 192 * 1024);
    cr_expect(on(90, 384, 168, 0, 192 * 1024).occupancy == 384 / 2048.0);
    cr_expect(fit_sm(91) == NULL && fit_sm(90)->cc == 90);
}

/* The blocks a row is meant to share a multiprocessor with find room there, with all the registers
 * that they leave to a thread. */
Test(fit, rows_keep_what_they_promise)
{
    static const int known[] = {75, 80, 86, 89, 90, 100, 120};
    int checked = 0;
    for (int i = 0; i < kernel_count(); i++)
        for (size_t j = 0; j < sizeof known / sizeof known[0]; j++) {
            const struct tb_kernel *row = kernel_row(i);
            const struct tb_sm *sm = fit_sm(known[j]);
            if (sm->cc < row->cc_min || sm->cc > row->cc_max || row->smem + 64 > sm->smem_block)
                continue;
            const int all = sm->registers / (row->blocks_sm * row->threads) / 8 * 8;
            const struct tb_need need = {row->threads, all < 255 ? all : 255, 64, row->smem};
            const struct tb_fit fit = fit_block(sm, &need);
            cr_expect(fit.blocks >= 1, "%s on %d: %s", row->name, sm->cc,
                      fit_bound_text(fit.bound));
            if (sm->cc == 90)
                cr_expect(fit.blocks >= row->blocks_sm, "%s on 90: %d blocks by %s", row->name,
                          fit.blocks, fit_bound_text(fit.bound));
            checked++;
        }
    cr_expect(checked > kernel_count());
}

/* What may be chosen on a device is what fits there by its figures. */
Test(fit, rows_that_may_be_chosen_fit)
{
    static const int known[] = {75, 80, 86, 87, 89, 90, 100, 120};
    int feasible = 0, too_large = 0;
    for (int i = 0; i < kernel_count(); i++)
        for (size_t j = 0; j < sizeof known / sizeof known[0]; j++) {
            const struct tb_kernel *row = kernel_row(i);
            const struct tb_sm *sm = fit_sm(known[j]);
            const struct tb_caps caps = {
                .cc = sm->cc, .sms = 100, .smem_block = sm->smem_block, .fp64_ratio = 2};
            const struct tb_need need = {row->threads, 32, 256, row->smem};
            const struct tb_fit fit = fit_block(sm, &need);
            if (row->family == TB_PART || row->family == TB_TRI || sm->cc < row->cc_min ||
                sm->cc > row->cc_max) {
                cr_expect_not_null(kernel_why_not(&caps, i, NULL));
                continue;
            }
            cr_expect_eq(kernel_why_not(&caps, i, NULL) == NULL, fit.blocks > 0, "%s on %d: %s",
                         row->name, sm->cc, fit_bound_text(fit.bound));
            feasible += fit.blocks > 0;
            too_large += fit.blocks == 0;
        }
    cr_expect(feasible > kernel_count() && too_large > 0, "%d, %d", feasible, too_large);
}

#define CHECK_ORDER(NAME, INT)                                                                     \
    do {                                                                                           \
        unsigned char seen[2][24][24];                                                             \
        for (INT rows = 1; rows <= 24; rows++)                                                     \
            for (INT cols = 1; cols <= 24; cols++)                                                 \
                for (INT band = 1; band <= 25; band++) {                                           \
                    INT before = 0;                                                                \
                    memset(seen, 0, sizeof seen);                                                  \
                    for (INT t = 0; t < 2 * rows * cols; t++) {                                    \
                        const struct NAME##_place at = NAME(t, rows, cols, band);                  \
                        cr_assert(at.item < 2 && at.row < rows && at.col < cols &&                 \
                                  seen[at.item][at.row][at.col]++ == 0);                           \
                        const INT now = at.item * 25 + at.row / band;                              \
                        cr_assert(now >= before); /* a band is left when it is done */             \
                        before = now;                                                              \
                    }                                                                              \
                }                                                                                  \
    } while (0)

Test(order, every_tile_once)
{
    CHECK_ORDER(tb_order64, int64_t);
    CHECK_ORDER(tb_order32, uint32_t);
}

Test(order, large_launches)
{
    const int64_t rows = INT64_C(3000000001), cols = 7;
    const struct tb_order64_place last = tb_order64(rows * cols - 1, rows, cols, 16);
    cr_expect(last.item == 0 && last.row == rows - 1 && last.col == cols - 1);
    const struct tb_order64_place next = tb_order64(rows * cols, rows, cols, 16);
    cr_expect(next.item == 1 && next.row == 0 && next.col == 0);
}
