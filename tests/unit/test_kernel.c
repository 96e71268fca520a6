/* SPDX-License-Identifier: BSD-3-Clause
 * kernel.c: every row is launchable as described, and the chooser takes the row that fits the shape
 * and the device. */
#include <criterion/criterion.h>
#include <string.h>
#include "../../src/kernel.h"

static const struct tb_caps h200 = {.cc = 90, .sms = 132, .smem_block = 232448, .fp64_ratio = 2};
static const struct tb_caps ada = {.cc = 89, .sms = 128, .smem_block = 101376, .fp64_ratio = 64};
static const struct tb_caps turing = {.cc = 75, .sms = 40, .smem_block = 65536, .fp64_ratio = 32};

static const struct {
    enum tb_type ab, c;
} types[] = {{TB_F32, TB_F32}, {TB_F64, TB_F64}, {TB_C32, TB_C32},   {TB_C64, TB_C64},
             {TB_F16, TB_F16}, {TB_F16, TB_F32}, {TB_BF16, TB_BF16}, {TB_BF16, TB_F32}};
enum { TYPES = sizeof types / sizeof types[0] };

Test(kernel, rows_are_consistent)
{
    for (int i = 0; i < kernel_count(); i++) {
        const struct tb_kernel *row = kernel_row(i);
        cr_assert(row->threads % 32 == 0 && row->threads <= 1024, "%s", row->name);
        cr_assert(row->smem > 0 && row->smem <= 227 * 1024, "%s", row->name);
        cr_assert(row->bm > 0 && row->bn > 0 && row->bk > 0 && row->blocks_sm > 0, "%s", row->name);
        cr_assert(row->rate > 0 && row->rate <= 100 && row->cc_min <= row->cc_max, "%s", row->name);
        const char *ops = strrchr(row->name, '_');
        cr_assert(ops && (ops[1] == 't') == row->ta && (ops[2] == 't') == row->tb, "%s", row->name);
        for (int j = 0; j < i; j++)
            cr_assert(strcmp(kernel_row(j)->name, row->name) != 0, "%s twice", row->name);
    }
    cr_assert_null(kernel_row(-1));
    cr_assert_null(kernel_row(kernel_count()));
}

Test(kernel, every_type_has_a_row_on_every_device)
{
    const struct tb_caps *const all[] = {&h200, &ada, &turing};
    for (int d = 0; d < 3; d++)
        for (int t = 0; t < TYPES; t++)
            for (int op = 0; op < 4; op++) {
                const int i = kernel_choose(all[d], types[t].ab, types[t].c, op & 1, op >> 1, 3000,
                                            3000, 3000, 1);
                cr_assert(i >= 0);
                const struct tb_kernel *row = kernel_row(i);
                cr_assert(row->ab == types[t].ab && row->c == types[t].c);
                cr_assert(row->ta == (op & 1) && row->tb == op >> 1);
                cr_assert(row->smem < all[d]->smem_block, "%s", row->name);
            }
    cr_assert_eq(kernel_choose(&h200, TB_F64, TB_F32, false, false, 64, 64, 64, 1), -1);
    const struct tb_caps old = {.cc = 61, .sms = 20, .smem_block = 49152};
    cr_assert_eq(kernel_choose(&old, TB_F32, TB_F32, false, false, 64, 64, 64, 1), -1);
}

static int area(enum tb_type type, int64_t m, int64_t n, int64_t k, int64_t batch)
{
    const struct tb_kernel *row =
        kernel_row(kernel_choose(&h200, type, type, false, false, m, n, k, batch));
    return row->bm * row->bn;
}

Test(kernel, the_tile_follows_the_shape)
{
    for (int t = 0; t < TYPES; t++) {
        if (types[t].ab != types[t].c)
            continue;
        const int large = area(types[t].ab, 8192, 8192, 8192, 1),
                  small = area(types[t].ab, 30, 12, 500, 1);
        cr_assert_gt(large, small, "type %d", types[t].ab);
        cr_assert_eq(area(types[t].ab, 30, 12, 500, 5000), small,
                     "small products stay small in a batch");
        cr_assert_eq(area(types[t].ab, 256, 256, 256, 5000), large,
                     "many products fill the device");
    }
    cr_assert_lt(area(TB_F32, 1000, 1000, 1000, 1), area(TB_F32, 6000, 6000, 1000, 1),
                 "64 tiles leave half idle");
    cr_assert_lt(area(TB_F32, 100000, 8, 1000, 1), area(TB_F32, 100000, 128, 1000, 1),
                 "no tile mostly empty");
}

Test(kernel, sizes_do_not_overflow)
{
    const int64_t huge = INT64_C(1) << 40;
    cr_assert_geq(kernel_choose(&h200, TB_F32, TB_F32, false, false, huge, huge, huge, huge), 0);
}

Test(kernel, grid_covers_every_tile)
{
    const struct tb_kernel *row =
        kernel_row(kernel_choose(&h200, TB_F32, TB_F32, false, false, 4096, 4096, 8, 1));
    const struct {
        int64_t m, n, batch;
    } cases[] = {{1, 1, 1},
                 {row->bm + 1, row->bn, 1},
                 {300, 300, 70000},
                 {1, 1, (INT64_C(1) << 31) + 5},
                 {1, 200, INT64_C(1) << 33}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct tb_gemm_params p = {
            .m = cases[i].m, .n = cases[i].n, .k = 1, .batch = cases[i].batch};
        const int64_t tiles =
            ((p.m + row->bm - 1) / row->bm) * ((p.n + row->bn - 1) / row->bn) * p.batch;
        unsigned grid[3];
        kernel_grid(row, &p, grid);
        const int64_t blocks = (int64_t)grid[0] * grid[1] * grid[2];
        cr_assert(grid[0] <= INT32_MAX && grid[1] <= 65535 && grid[2] == 1);
        cr_assert(blocks >= tiles && blocks < tiles + grid[1], "%lld blocks for %lld tiles",
                  (long long)blocks, (long long)tiles);
    }
}
