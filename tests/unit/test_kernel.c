/* SPDX-License-Identifier: BSD-3-Clause
 * kernel.c: every row is launchable as described, and the chooser takes the row that fits the shape
 * and the device. */
#include <criterion/criterion.h>
#include <stdlib.h>
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
        cr_assert(row->smem >= 0 && row->smem <= 227 * 1024, "%s", row->name);
        for (int j = 0; j < i; j++)
            cr_assert(strcmp(kernel_row(j)->name, row->name) != 0, "%s twice", row->name);
        if (row->family == TB_PART) {
            cr_assert(row->ab == TB_TYPES && row->c == TB_TYPES, "%s serves nothing alone",
                      row->name);
            continue;
        }
        if (row->family == TB_TRI)
            continue;
        cr_assert(row->smem > 0, "%s", row->name);
        cr_assert(row->bm > 0 && row->bn > 0 && row->bk > 0 && row->blocks_sm > 0, "%s", row->name);
        cr_assert(row->rate > 0 && row->rate <= 100 && row->cc_min <= row->cc_max, "%s", row->name);
        const char *ops = strrchr(row->name, '_');
        cr_assert(ops && (ops[1] == 't') == row->ta && (ops[2] == 't') == row->tb, "%s", row->name);
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

/* Without the rows of FP32 that know one tile only. */
static const struct tb_caps strict_h200 = {
    .cc = 90, .sms = 132, .smem_block = 232448, .fp64_ratio = 2, .strict = true};

static int area(enum tb_type type, int64_t m, int64_t n, int64_t k, int64_t batch)
{
    const struct tb_kernel *row =
        kernel_row(kernel_choose(&strict_h200, type, type, false, false, m, n, k, batch));
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
        cr_assert_geq(area(types[t].ab, 256, 256, 256, 5000), large / 4,
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
        struct tb_launch launch;
        kernel_launch(row, &h200, &p, &launch);
        const unsigned *const grid = launch.grid;
        const int64_t blocks = (int64_t)grid[0] * grid[1] * grid[2];
        cr_assert_eq(launch.cluster, 1);
        cr_assert(grid[0] <= INT32_MAX && grid[1] <= 65535 && grid[2] == 1);
        cr_assert(blocks >= tiles && blocks < tiles + grid[1], "%lld blocks for %lld tiles",
                  (long long)blocks, (long long)tiles);
    }
}

/* Sums move on after a power of two of products, the more the longer they get; kernels step by 8.
 */
Test(kernel, folds)
{
    static const struct {
        int64_t k;
        int32_t f32, c32;
    } cases[] = {{1, 64, 64},        {627, 64, 64},       {628, 64, 128},
                 {1254, 64, 128},    {1255, 128, 128},    {4096, 256, 256},
                 {16384, 512, 1024}, {28379, 1024, 1024}, {1 << 20, 1024, 1024}};
    const int f32 = kernel_choose(&h200, TB_F32, TB_F32, false, false, 4096, 4096, 4096, 1);
    const int c32 = kernel_choose(&h200, TB_C32, TB_C32, false, false, 4096, 4096, 4096, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tb_gemm_params p = {.m = 1, .n = 1, .k = cases[i].k, .batch = 1};
        struct tb_launch launch;
        kernel_launch(kernel_row(f32), &h200, &p, &launch);
        cr_assert_eq(launch.way + 1, cases[i].f32);
        kernel_launch(kernel_row(c32), &h200, &p, &launch);
        cr_assert_eq(launch.way + 1, cases[i].c32 / 2);
    }
}

/* Operands as the planner lays them out. */
static struct tb_gemm_params product(const struct tb_kernel *row, int64_t m, int64_t n, int64_t k,
                                     int64_t batch)
{
    const int64_t lda = ((row->ta ? k : m) + 7) / 8 * 8, ldb = ((row->tb ? n : k) + 7) / 8 * 8;
    return (struct tb_gemm_params){.a = 4096,
                                   .b = 1 << 20,
                                   .c = 2 << 20,
                                   .m = m,
                                   .n = n,
                                   .k = k,
                                   .batch = batch,
                                   .lda = lda,
                                   .ldb = ldb,
                                   .ldc = (m + 7) / 8 * 8,
                                   .stride_a = lda * (row->ta ? m : k),
                                   .stride_b = ldb * (row->tb ? k : n),
                                   .stride_c = (m + 7) / 8 * 8 * n};
}

static const struct tb_kernel *first_sm90(void)
{
    for (int i = 0; i < kernel_count(); i++)
        if (kernel_row(i)->family == TB_SM90)
            return kernel_row(i);
    return NULL;
}

/* A product never gets a row for triangles, nor a triangle another row; only rows that can keep to
 * a triangle of C are asked to. */
Test(kernel, triangles)
{
    bool *const barred = calloc((size_t)kernel_count(), sizeof *barred);
    for (int t = 0; t < TYPES; t++) {
        const int plain =
            kernel_choose(&h200, types[t].ab, types[t].c, false, false, 64, 64, 64, 1);
        struct tb_gemm_params p = {.m = 64, .n = 64, .k = 64, .batch = 1, .uplo = TB_KUPLO_LOWER};
        cr_assert_neq(kernel_row(plain)->family, TB_TRI);
        const struct tb_kernel *fit = kernel_row(kernel_refit(&h200, plain, &p, NULL));
        if (types[t].ab == TB_F16 || types[t].ab == TB_BF16)
            cr_assert_null(fit); /* no routine asks for that */
        else
            cr_assert_eq(fit->family, TB_SIMT);
        for (int mirror = 0; mirror < 2; mirror++) {
            const int row = kernel_triangle(&turing, types[t].ab, mirror);
            cr_assert_eq(row >= 0, types[t].ab != TB_F16 && types[t].ab != TB_BF16);
            if (row < 0)
                continue;
            struct tb_launch launch;
            p.m = 1000;
            p.way = TB_WAY_RIGHT;
            kernel_launch(kernel_row(row), &turing, &p, &launch);
            cr_assert_eq(launch.grid[0],
                         mirror ? 64 : (1000 + kernel_row(row)->bn - 1) / kernel_row(row)->bn);
            cr_assert_eq(launch.way, p.way); /* what is asked for, not how */
            cr_assert_eq(kernel_refit(&turing, row, &p, barred), row);
            barred[row] = true;
            cr_assert_eq(kernel_refit(&turing, row, &p, barred), -1);
        }
    }
    free(barred);
}

/* Where a block may have the shared memory for it a triangle is a large one, and of every order up
 * to that; never more than a block may have. */
Test(kernel, triangles_are_large_where_they_fit)
{
    static const enum tb_type with[] = {TB_F32, TB_F64, TB_C32, TB_C64};
    for (int t = 0; t < 4; t++) {
        const struct tb_kernel *const large = kernel_row(kernel_triangle(&ada, with[t], false));
        const struct tb_kernel *const small = kernel_row(kernel_triangle(&turing, with[t], false));
        cr_assert_geq(large->bm, 128);
        cr_assert_leq(large->smem + 64, ada.smem_block);
        cr_assert_leq(small->smem + 64, turing.smem_block);
        cr_assert_leq(small->bm, large->bm);
        cr_assert_geq(small->bm, 16);
        cr_assert_eq(large, kernel_row(kernel_triangle(&h200, with[t], false)));
    }
    struct tb_caps none = turing;
    none.smem_block = 4096;
    cr_assert_eq(kernel_triangle(&none, TB_F64, false), -1);
}

Test(kernel, tensor_cores_are_used_where_they_are)
{
    for (int t = 0; t < TYPES; t++)
        for (int op = 0; op < 4; op++) {
            const bool half = types[t].ab == TB_F16 || types[t].ab == TB_BF16;
            const bool wide = types[t].ab == TB_F64 || types[t].ab == TB_C64;
            const int64_t sizes[][4] = {
                {8192, 8192, 8192, 1}, {100, 100, 100, 1}, {1, 4096, 4096, 1}, {64, 64, 64, 10000}};
            for (int s = 0; s < 4; s++) {
                const int64_t *x = sizes[s];
                const int on = kernel_choose(&h200, types[t].ab, types[t].c, op & 1, op >> 1, x[0],
                                             x[1], x[2], x[3]);
                const int off = kernel_choose(&ada, types[t].ab, types[t].c, op & 1, op >> 1, x[0],
                                              x[1], x[2], x[3]);
                const int old = kernel_choose(&turing, types[t].ab, types[t].c, op & 1, op >> 1,
                                              x[0], x[1], x[2], x[3]);
                const bool x3 = types[t].ab == TB_F32 && x[2] >= 4096;
                cr_assert_eq(kernel_row(on)->family, half   ? TB_SM90
                                                     : x3   ? TB_X3
                                                     : wide ? TB_DMMA
                                                            : TB_SIMT);
                cr_assert_neq(kernel_row(off)->family, TB_SM90);
                cr_assert(s > 0 || kernel_row(off)->family == (half ? TB_SM80 : TB_SIMT));
                cr_assert_eq(kernel_row(old)->family, TB_SIMT);
            }
        }
}

/* Where FP64 is a token the plain rows win; without clusters nothing divides k. */
Test(kernel, fp64_tensor_cores_are_for_parts_that_have_fp64)
{
    const struct tb_caps a100 = {.cc = 80, .sms = 108, .smem_block = 166912, .fp64_ratio = 2};
    const enum tb_type fp64[2] = {TB_F64, TB_C64};
    for (int t = 0; t < 2; t++) {
        const int on = kernel_choose(&a100, fp64[t], fp64[t], true, false, 4096, 4096, 4096, 1);
        const int off = kernel_choose(&ada, fp64[t], fp64[t], true, false, 4096, 4096, 4096, 1);
        cr_assert_eq(kernel_row(on)->family, TB_DMMA);
        cr_assert_eq(kernel_row(off)->family, TB_SIMT);
    }
    for (int i = 0; i < kernel_count(); i++) {
        const struct tb_kernel *row = kernel_row(i);
        if (row->family != TB_DMMA)
            continue;
        const struct tb_gemm_params deep = product(row, 64, 64, 65536, 1);
        const struct tb_gemm_params many = product(row, 8192, 8192, 65536, 1);
        struct tb_launch launch;
        kernel_launch(row, &a100, &deep, &launch);
        cr_assert_eq(launch.cluster, 1, "%s", row->name);
        kernel_launch(row, &h200, &many, &launch);
        cr_assert_eq(launch.cluster, 1, "%s", row->name);
        kernel_launch(row, &h200, &deep, &launch);
        cr_assert(launch.cluster >= 1 && launch.cluster <= 8, "%s", row->name);
        cr_assert_eq(launch.grid[0] % launch.cluster, 0, "%s", row->name);
        const int64_t tiles = (63 + row->bm) / row->bm * ((63 + row->bn) / row->bn);
        cr_assert_eq(launch.grid[0] / launch.cluster, tiles, "%s", row->name);
        const int sums = row->bm * row->bn * (row->ab == TB_C64 ? 16 : 8);
        const int room = row->smem / row->pair;
        cr_assert(launch.cluster > 1 ? sums <= room : sums > room,
                  "%s divides a deep k where the sums find room", row->name);
        cr_assert(kernel_accepts(row, &deep));
    }
}

Test(kernel, a_row_gets_only_operands_that_it_can_read)
{
    const struct tb_kernel *const row = first_sm90();
    const struct tb_gemm_params good = product(row, 300, 200, 100, 3);
    struct tb_gemm_params bad[12];
    cr_assert(kernel_accepts(row, &good));
    for (int i = 0; i < 12; i++)
        bad[i] = good;
    bad[0].a += 2;
    bad[1].b += 8;
    bad[2].lda += 1;
    bad[3].ldb += 4;
    bad[4].stride_a += 2;
    bad[5].stride_b = -bad[5].stride_b;
    bad[6].alist = 4096;
    bad[7].clist = 4096;
    bad[8].m = INT64_C(1) << 31;
    bad[9].k = INT64_C(1) << 40;
    bad[10].batch = INT64_C(1) << 33;
    bad[11].lda = INT64_C(1) << 39;
    const int like = kernel_choose(&h200, row->ab, row->c, row->ta, row->tb, 300, 200, 100, 3);
    for (int i = 0; i < 12; i++) {
        cr_assert(!kernel_accepts(row, &bad[i]), "case %d", i);
        const int other = kernel_refit(&h200, like, &bad[i], NULL);
        cr_assert(other >= 0 && kernel_row(other)->family != TB_SM90, "case %d", i);
        cr_assert(kernel_row(other)->ab == row->ab && kernel_row(other)->c == row->c &&
                  kernel_row(other)->ta == row->ta && kernel_row(other)->tb == row->tb);
    }
    struct tb_gemm_params odd_c = good; /* C has a way out without the engine */
    odd_c.c += 2, odd_c.ldc += 1, odd_c.stride_c += 3;
    cr_assert(kernel_accepts(row, &odd_c));
    cr_assert_eq(kernel_refit(&h200, like, &good, NULL), like);
}

Test(kernel, what_is_barred_is_not_taken)
{
    bool *const barred = calloc((size_t)kernel_count(), sizeof *barred);
    const struct tb_kernel *const row = first_sm90();
    const struct tb_gemm_params p = product(row, 512, 512, 512, 1);
    int like = kernel_choose(&h200, row->ab, row->c, row->ta, row->tb, 512, 512, 512, 1), seen = 0;
    for (int i = like; (i = kernel_refit(&h200, like, &p, barred)) >= 0; seen++) {
        cr_assert(!barred[i]);
        barred[i] = true;
    }
    cr_assert_gt(seen, 3, "several rows serve a type");
    cr_assert_eq(kernel_refit(&h200, -1, &p, NULL), -1);
    cr_assert_eq(kernel_refit(&h200, kernel_count(), &p, NULL), -1);
    free(barred);
}

Test(kernel, launches_of_tensor_core_rows_cover_the_product)
{
    const int64_t shapes[][4] = {{1, 1, 1, 1},         {257, 129, 64, 1},   {8192, 8192, 512, 1},
                                 {100, 100, 65536, 1}, {64, 64, 64, 10000}, {300, 200, 8192, 3},
                                 {16, 8192, 8192, 1},  {8192, 16, 8192, 1}, {8192, 129, 64, 1}};
    for (int i = 0; i < kernel_count(); i++) {
        const struct tb_kernel *row = kernel_row(i);
        if (row->family != TB_SM90)
            continue;
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
            const int64_t *x = shapes[s];
            const struct tb_gemm_params p = product(row, x[0], x[1], x[2], x[3]);
            struct tb_launch launch;
            kernel_launch_whole(row, &h200, &p, &launch);
            cr_assert_eq(launch.scratch, 0);
            const int64_t tiles = (x[0] + row->bm - 1) / row->bm *
                                  ((x[1] + row->bn * row->pair - 1) / (row->bn * row->pair)) * x[3];
            const int64_t clusters = launch.grid[0] / launch.cluster;
            cr_assert(launch.cluster >= 1 && launch.cluster <= 8);
            cr_assert_eq(launch.grid[0] % launch.cluster, 0);
            cr_assert(launch.grid[1] == 1 && launch.grid[2] == 1);
            cr_assert(clusters >= 1 && clusters <= tiles);
            cr_assert(row->pair == 1 || launch.cluster == 2);
            if (row->pair == 1 && launch.cluster > 1) { /* k is divided: a cluster does one tile */
                cr_assert_eq(clusters, tiles);
                cr_assert_eq(row->bn % (int)launch.cluster, 0);
                cr_assert(row->bm * row->bn * 4 < row->smem, "the sums find room");
            }
            cr_assert(launch.grid[0] <= 132u * (unsigned)row->blocks_sm || launch.cluster == 1 ||
                      row->pair == 2);
        }
    }
}

/* The steps of k of the last tiles, dealt out evenly: every block gets some, none waits for room.
 */
Test(kernel, shared_tiles_find_their_scratch)
{
    const int64_t shapes[][4] = {{1, 1, 1, 1},           {4000, 129, 4000, 1},  {64, 64, 65536, 1},
                                 {512, 512, 65536, 1},   {4096, 4096, 4096, 1}, {300, 200, 8192, 3},
                                 {8192, 16, 8192, 1},    {3000, 257, 5000, 1},  {64, 64, 64, 10000},
                                 {16384, 16384, 512, 1}, {INT32_MAX, 7, 9, 1}};
    int seen = 0;
    for (int i = 0; i < kernel_count(); i++) {
        const struct tb_kernel *row = kernel_row(i);
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
            const int64_t *x = shapes[s];
            const struct tb_gemm_params p = product(row, x[0], x[1], x[2], x[3]);
            struct tb_launch launch;
            if (!kernel_launch_shared(row, &h200, &p, &launch))
                continue;
            seen++;
            const int64_t tiles =
                (x[0] + row->bm - 1) / row->bm * ((x[1] + row->bn - 1) / row->bn) * x[3];
            const int64_t steps = (x[2] + row->bk - 1) / row->bk, grid = launch.grid[0];
            cr_assert(row->family == TB_SM90 && row->pair == 1, "%s", row->name);
            cr_assert(launch.cluster == 1 && launch.grid[1] == 1 && launch.grid[2] == 1);
            cr_assert(grid >= 1 && grid <= 132 * row->blocks_sm, "all run at once");
            cr_assert(tiles * steps >= 3 * grid, "no block without work");
            cr_assert_geq(kernel_cleared(row, &p), (size_t)(grid * row->bn / 64 * 4));
            cr_assert_geq(launch.scratch,
                          kernel_cleared(row, &p) + (size_t)(grid * row->bm * row->bn * 4));
            cr_assert_leq(launch.scratch, kernel_shared_most(&h200));
        }
    }
    cr_assert_gt(seen, 100);
    cr_assert_lt(kernel_shared_most(&h200), 64 << 20);
    cr_assert_lt(kernel_shared_most(&turing), 1 << 20);
}

static bool shares(int64_t m, int64_t n, int64_t k)
{
    const struct tb_kernel *row =
        kernel_row(kernel_choose_alone(&h200, TB_BF16, TB_BF16, false, false, m, n, k, 1));
    struct tb_gemm_params p = product(row, m, n, k, 1);
    struct tb_launch launch;
    kernel_launch(row, &h200, &p, &launch);
    cr_assert_eq(launch.scratch, 0, "nothing to do it in");
    p.scratch = 1 << 20;
    kernel_launch(row, &h200, &p, &launch);
    cr_assert_eq(launch.scratch, kernel_scratch(row, &h200, &p));
    return launch.scratch > 0;
}

Test(kernel, tiles_are_shared_where_blocks_would_stand_idle)
{
    cr_assert(shares(64, 64, 65536), "one tile, and the whole device for its k");
    cr_assert(shares(4000, 129, 4000));
    cr_assert(shares(3000, 257, 5000));
    cr_assert(!shares(4096, 4096, 256), "k too short to be worth it");
    cr_assert(!shares(256, 256, 256));
    cr_assert(!shares(16384, 16384, 16384), "the last round is a small part");
}

static bool early(enum tb_type c, int64_t m, int64_t n, int64_t k, int64_t batch)
{
    const struct tb_kernel *row =
        kernel_row(kernel_choose(&h200, TB_BF16, c, false, false, m, n, k, batch));
    const struct tb_gemm_params p = product(row, m, n, k, batch);
    struct tb_launch launch;
    kernel_launch(row, &h200, &p, &launch);
    cr_assert(!launch.early || row->family == TB_SM90, "%s does not wait itself", row->name);
    return launch.early;
}

/* Long launches lose more by lying anywhere than they gain. */
Test(kernel, only_short_launches_begin_early)
{
    cr_assert(early(TB_BF16, 64, 64, 64, 1));
    cr_assert(early(TB_BF16, 1024, 1024, 1024, 1));
    cr_assert(early(TB_F32, 4096, 4096, 4096, 1), "pairs");
    cr_assert(early(TB_BF16, 64, 64, 64, 10000), "tiles of their own operands");
    cr_assert(!early(TB_BF16, 16384, 16384, 16384, 1));
    cr_assert(!early(TB_BF16, 256, 256, 256, 1000));
    for (int i = 0; i < kernel_count(); i++) {
        const struct tb_kernel *row = kernel_row(i);
        const struct tb_gemm_params p = product(row, 64, 64, 64, 1);
        struct tb_launch launch;
        kernel_launch(row, &h200, &p, &launch);
        cr_assert_eq(launch.early, row->family == TB_SM90, "%s", row->name);
    }
}

Test(kernel, batches_go_to_rows_that_suit_the_memory)
{
    const int sides[] = {256, 64}, batches[] = {1000, 10000};
    for (int i = 0; i < 2; i++) {
        const int n = sides[i];
        const struct tb_kernel *row =
            kernel_row(kernel_choose(&h200, TB_BF16, TB_BF16, false, false, n, n, n, batches[i]));
        cr_assert_eq(row->family, TB_SM90);
        cr_assert_eq(row->bm * row->bn, 128 * 64);
    }
}

Test(kernel, a_narrow_matrix_is_fetched_alone)
{
    for (int i = 0; i < kernel_count(); i++) {
        const struct tb_kernel *row = kernel_row(i);
        struct tb_map maps[3];
        if (row->family != TB_SM90)
            continue;
        const struct tb_gemm_params p = product(row, 9, 17, 4096, 1);
        kernel_maps(row, &p, maps);
        if (row->ta)
            cr_assert_eq(maps[0].box[1], row->pair > 1 ? (unsigned)row->bm / 2 : 16u);
        if (!row->tb)
            cr_assert_eq(maps[1].box[1], row->pair > 1 ? (unsigned)row->bn : 24u);
    }
}

Test(kernel, maps_say_where_the_operands_lie)
{
    for (int i = 0; i < kernel_count(); i++) {
        const struct tb_kernel *row = kernel_row(i);
        struct tb_map maps[3];
        if (row->family != TB_SM90)
            continue;
        struct tb_gemm_params p = product(row, 300, 200, 100, 3);
        const int32_t way = kernel_maps(row, &p, maps);
        cr_assert(way >> TB_WAY_BAND > 0 && (way & TB_WAY_C_MAP));
        const uint64_t want[3][2] = {{row->ta ? 100 : 300, row->ta ? 300 : 100},
                                     {row->tb ? 200 : 100, row->tb ? 100 : 200},
                                     {300, 200}};
        for (int x = 0; x < 3; x++) {
            cr_assert(maps[x].sizes[0] == want[x][0] && maps[x].sizes[1] == want[x][1] &&
                      maps[x].sizes[2] == 3);
            cr_assert_eq(maps[x].box[0] * (unsigned)maps[x].bytes, 128, "a line of the swizzle");
            cr_assert(maps[x].box[1] <= 256 && maps[x].box[2] == 1);
            cr_assert(maps[x].pitches[0] % 16 == 0 && maps[x].pitches[1] % 16 == 0);
        }
        p.stride_a = 0; /* one matrix for all */
        p.c += 2;
        cr_assert(!(kernel_maps(row, &p, maps) & TB_WAY_C_MAP));
        cr_assert(maps[0].sizes[2] == 1 && maps[2].bytes == 0);
    }
}

static const char *plain_name(const struct tb_caps *caps, enum tb_type t, int64_t n)
{
    return kernel_row(kernel_choose(caps, t, t, false, false, n, n, n, 1))->name;
}

/* One or two blocks on a multiprocessor are bound by how long a step takes, and small tiles need
 * more of them: f32_32x32 was 12% slower at 1024, f64_64x32 as much. */
Test(kernel, few_tiles_take_the_larger_of_two_that_leave_time)
{
    struct tb_caps few = ada;
    few.sms = 132;
    cr_assert_str_eq(plain_name(&few, TB_F32, 1024), "f32_64x64_nn");
    cr_assert_str_eq(plain_name(&few, TB_F64, 1024), "f64_128x64_nn");
    cr_assert_str_eq(plain_name(&few, TB_F32, 512), "f32_32x32_nn");
    cr_assert_str_eq(plain_name(&few, TB_F64, 512), "f64_64x32_nn");
    cr_assert_str_eq(plain_name(&few, TB_F32, 4096), "f32_128x128_nn");
}

/* The router divides by it: a share of the best rate, small where the device stays idle. */
Test(kernel, efficiency_is_a_share)
{
    static const int64_t sides[] = {1, 16, 100, 1024, 8192, 100000};
    enum { SIDES = sizeof sides / sizeof *sides };
    for (int type = 0; type < TB_TYPES; type++) {
        const enum tb_type t = (enum tb_type)type;
        for (int i = 0; i < SIDES * SIDES * SIDES; i++) {
            const double share =
                kernel_efficiency(&h200, t, t, false, true, sides[i % SIDES],
                                  sides[i / SIDES % SIDES], sides[i / SIDES / SIDES], 1);
            cr_assert(share > 0 && share <= 1);
        }
        const double large = kernel_efficiency(&h200, t, t, false, false, 8192, 8192, 8192, 1);
        const double deep = kernel_efficiency(&h200, t, t, false, false, 32, 32, 100000, 1);
        cr_assert(large > 0.8 && deep < 0.2, "%s: %g, %g", call_type_name(t), large, deep);
    }
    cr_assert(kernel_efficiency(&h200, TB_F32, TB_F64, false, false, 64, 64, 64, 1) == 0);
}

/* FP64 tensor cores add like plain units. */
static bool is_plain(const struct tb_kernel *row)
{
    return row->family == TB_SIMT ||
           (row->family == TB_DMMA && (row->ab == TB_F64 || row->ab == TB_C64));
}

Test(kernel, strict_means_plain_arithmetic)
{
    struct tb_caps strict = h200;
    strict.strict = true;
    for (int t = 0; t < TYPES; t++)
        for (int64_t n = 16; n <= 8192; n *= 4) {
            const int row =
                kernel_choose(&strict, types[t].ab, types[t].c, true, false, n, n, n, 1);
            cr_assert(row >= 0 && is_plain(kernel_row(row)));
            bool barred[512] = {false};
            const struct tb_gemm_params p = {
                .m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n, .batch = 1};
            barred[row] = true;
            const int other = kernel_refit(&h200, row, &p, barred);
            cr_assert(other < 0 || is_plain(kernel_row(other)));
        }
}
static const struct tb_kernel *x3_row(bool ta, bool tb)
{
    for (int i = 0; i < kernel_count(); i++)
        if (kernel_row(i)->family == TB_X3 && kernel_row(i)->ta == ta && kernel_row(i)->tb == tb)
            return kernel_row(i);
    return NULL;
}

static int index_of(const struct tb_kernel *row)
{
    return (int)(row - kernel_row(0));
}

Test(kernel, strict_sums_take_no_16_bit_planes)
{
    for (int op = 0; op < 4; op++) {
        const int64_t n = 8192;
        const int on = kernel_choose(&h200, TB_F32, TB_F32, op & 1, op >> 1, n, n, n, 1);
        const int off = kernel_choose(&strict_h200, TB_F32, TB_F32, op & 1, op >> 1, n, n, n, 1);
        cr_assert_eq(kernel_row(on)->family, TB_X3);
        cr_assert_eq(kernel_row(off)->family, TB_SIMT);
        /* Short sums are not for them, whatever the size. */
        const int thin = kernel_choose(&h200, TB_F32, TB_F32, op & 1, op >> 1, n, n, 255, 1);
        cr_assert_eq(kernel_row(thin)->family, TB_SIMT);
    }
}

Test(kernel, parts_cover_the_product)
{
    const int64_t shapes[][4] = {{1, 1, 256, 1},       {257, 129, 300, 1}, {8192, 8192, 8192, 1},
                                 {100, 100, 65536, 1}, {300, 200, 512, 3}, {5000, 2049, 999, 1}};
    for (int op = 0; op < 4; op++)
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
            const int64_t *x = shapes[s];
            const struct tb_kernel *row = x3_row(op & 1, op >> 1);
            struct tb_gemm_params p = product(row, x[0], x[1], x[2], x[3]);
            struct tb_part parts[TB_PARTS_MAX];
            const size_t area = kernel_scratch(row, &h200, &p);
            cr_assert(!kernel_accepts(row, &p), "without its area");
            const int other = kernel_refit(&h200, index_of(row), &p, NULL);
            cr_assert_eq(kernel_row(other)->family, TB_SIMT);
            p.scratch = 1 << 20;
            cr_assert(kernel_accepts(row, &p));
            const double elems = (double)(x[0] + x[1]) * (double)x[2] * (double)x[3];
            cr_assert((double)area >= 6 * elems && kernel_cleared(row, &p) < area);
            const int count = kernel_parts(index_of(row), &h200, &p, parts);
            cr_assert(count > 1 && count <= TB_PARTS_MAX);
            for (int i = 0; i < count; i++) {
                const struct tb_kernel *part = kernel_row(parts[i].row);
                const struct tb_launch *launch = &parts[i].launch;
                cr_assert_not_null(part);
                cr_assert(part->family == (i == count - 1 ? TB_SIMT : TB_PART));
                cr_assert(launch->grid[0] > 0 && launch->grid[0] % launch->cluster == 0);
                cr_assert(part->smem + 64 <= h200.smem_block);
                if (launch->cluster == 2)
                    cr_assert(launch->grid[0] <= 132);
            }
            const struct tb_kernel *plain = kernel_row(parts[count - 1].row);
            cr_assert(plain->ta == row->ta && plain->tb == row->tb && plain->ab == TB_F32);
        }
}

Test(kernel, one_matrix_for_a_batch_is_packed_once)
{
    const struct tb_kernel *row = x3_row(false, false);
    struct tb_gemm_params p = product(row, 512, 512, 512, 8);
    const size_t many = kernel_scratch(row, &h200, &p);
    p.stride_b = 0;
    const size_t shared = kernel_scratch(row, &h200, &p);
    cr_assert_lt(shared, many * 10 / 16 + 8192);
    cr_assert_eq(kernel_scratch(kernel_row(0), &h200, &p), 0);
}
