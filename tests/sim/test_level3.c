/* SPDX-License-Identifier: BSD-3-Clause
 * The routines of level 3 beyond the plain product on the simulated device: every flag, type and
 * ragged shape, in tiles and with little memory, and after every fault. What a routine must not
 * read is NaN, what it must not write is compared (product.h). */
#include "../../src/exec.h"
#include "../../src/kernel.h"
#include "../../src/pool.h"
#include "dev_sim.h"
#include "product.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct tb_caps caps;

static void device_up(const char *tile, const char *chunk, bool inline_calls)
{
    setenv("TILEBLAS_SIM_TILE", tile, 1);
    setenv("TILEBLAS_SIM_CHUNK", chunk, 1);
    setenv("TILEBLAS_SIM_MEMORY", "16000000", 1);
    setenv("TILEBLAS_SIM_INLINE", inline_calls ? "1" : "0", 1);
    setenv("TILEBLAS_THREADS", "3", 1);
    cr_assert_eq(tb_dev()->open(0, &caps), TB_OK);
    pool_limit(caps.mem_free);
}

static void device_down(void)
{
    pool_close();
    tb_dev()->close();
}

/* Runs it; finishes what is left as the CPU would. */
static enum tb_status attempt(struct product *p, size_t memory, int64_t *rects)
{
    struct tb_plan plan;
    struct tb_undone undone;
    struct tb_exec_stats stats;
    struct tb_rect rect;
    *rects = 0;
    enum tb_status status = plan_build(&p->call, &caps, memory, &plan);
    if (status != TB_OK)
        return status;
    status = exec_run(&p->call, &plan, &undone, &stats);
    for (; undone_next(&undone, &rect); ++*rects)
        product_rect(p, &rect);
    cr_expect(status != TB_OK || *rects == 0);
    undone_free(&undone);
    plan_free(&plan);
    return status;
}

static const char *words(const struct spec *s)
{
    static char text[160];
    snprintf(text, sizeof text,
             "%s type %d, side %c uplo %c ops %c%c diag %c, %lldx%lldx%lld, beta %g",
             call_op_name(s->op), s->ab, s->side ? s->side : '-', s->uplo, s->ta ? s->ta : '-',
             s->tb ? s->tb : '-', s->diag ? s->diag : '-', (long long)s->m, (long long)s->n,
             (long long)s->k, s->beta);
    return text;
}

static void try_spec(const struct spec *spec, size_t memory)
{
    struct product p;
    int64_t rects;
    product_open(&p, spec);
    const enum tb_status status = attempt(&p, memory, &rects);
    cr_expect_eq(status, TB_OK, "%s: %s", tb_status_text(status), words(spec));
    cr_expect(product_right(&p), "%s", words(spec));
    product_close(&p);
}

static const enum tb_type types[] = {TB_F32, TB_F64, TB_C32, TB_C64};

/* --- Rank-k forms and gemmt --- */

static const int64_t orders[][2] = {{1, 1}, {7, 3}, {16, 16}, {17, 9}, {33, 20}, {50, 41}};

static bool exists(const struct spec *s)
{
    const bool hermitian = s->op == TB_HERK || s->op == TB_HER2K;
    const bool complex = call_is_complex(s->ab);
    if (hermitian)
        return complex && s->ta != 'T';
    return s->op == TB_GEMMT || !complex || s->ta != 'C';
}

static void every_triangle(enum tb_op op, const char *tile, const char *chunk, size_t memory,
                           bool inline_calls)
{
    unsigned seed = 0;
    device_up(tile, chunk, inline_calls);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (const char *ta = "NTC"; *ta; ta++)
            for (const char *tb = op == TB_GEMMT ? "NTC" : "N"; *tb; tb++)
                for (const char *uplo = "LU"; *uplo; uplo++)
                    for (size_t s = 0; s < sizeof orders / sizeof *orders; s++) {
                        sim_seed(++seed);
                        exec_brief_bytes = seed % 2 ? 0 : 1e9; /* both classes of calls */
                        const struct spec spec = {
                            .op = op,
                            .ab = types[t],
                            .c = types[t],
                            .ta = *ta,
                            .tb = *tb,
                            .uplo = *uplo,
                            .m = orders[s][0],
                            .n = orders[s][0],
                            .k = orders[s][1],
                            .gap = seed % 3,
                            .alpha = seed % 2 ? 1 : -2,
                            .alpha_im = op != TB_HERK && call_is_complex(types[t]) ? seed % 4 : 0,
                            .beta = seed % 5 == 0   ? 0
                                    : seed % 5 == 1 ? 1
                                                    : -2,
                            .nan_c = seed % 5 == 0,
                            .seed = seed};
                        if (exists(&spec))
                            try_spec(&spec, memory * (call_elem_bytes(spec.ab) + 2) / 8);
                    }
    device_down();
}

static const enum tb_op triangles[] = {TB_GEMMT, TB_SYRK, TB_HERK, TB_SYR2K, TB_HER2K};

static void all_triangles(const char *tile, const char *chunk, size_t memory, bool inline_calls)
{
    for (size_t i = 0; i < sizeof triangles / sizeof *triangles; i++)
        every_triangle(triangles[i], tile, chunk, memory, inline_calls);
}

Test(triangle, on_the_caller)
{
    all_triangles("0", "512", 4000000, true);
}

Test(triangle, in_tiles)
{
    all_triangles("16", "512", 4000000, false);
}

/* Columns of a diagonal tile that are longer than a piece, and pieces of which nothing is left. */
Test(triangle, in_tiny_pieces)
{
    all_triangles("16", "48", 4000000, false);
}

Test(triangle, with_parts_of_k_ahead)
{
    setenv("TILEBLAS_SIM_ORDER", "2", 1);
    all_triangles("16", "512", 4000000, false);
}

Test(triangle, in_odd_tiles)
{
    all_triangles("5", "512", 4000000, false);
}

Test(triangle, with_little_memory)
{
    all_triangles("16", "512", 14000, false);
}

Test(triangle, operands_in_other_places)
{
    static const enum tb_where places[] = {TB_HOST_PAGEABLE, TB_HOST_PINNED, TB_DEVICE, TB_MANAGED};
    device_up("8", "512", false);
    for (unsigned seed = 0; seed < 64 * 5 * 4; seed++) {
        sim_seed(seed);
        exec_brief_bytes = seed % 2 ? 0 : 1e9;
        struct spec spec = {
            .op = triangles[seed / 64 % 5],
            .ab = types[seed / 320],
            .c = types[seed / 320],
            .ta = "NC"[seed % 2],
            .tb = 'N',
            .uplo = "LU"[seed / 2 % 2],
            .m = 1 + seed % 31,
            .n = 1 + seed % 31,
            .k = 1 + seed % 17,
            .gap = seed % 2,
            .alpha = 1,
            .beta = seed % 5 ? -1 : 0,
            .nan_c = seed % 5 == 0,
            .seed = seed,
            .where = {places[seed % 4], places[seed / 4 % 4], places[seed / 16 % 4]}};
        if (spec.op == TB_SYRK || spec.op == TB_SYR2K)
            spec.ta = spec.ta == 'C' ? 'T' : 'N';
        if (spec.op == TB_SYRK || spec.op == TB_HERK)
            spec.where[1] = TB_HOST_PAGEABLE;
        if (exists(&spec))
            try_spec(&spec, 1 << 20);
    }
    device_down();
}

/* The launches of a rank-2k form into a C in place, refused one by one: where the first product of
 * a tile is there and the second is not, C is lost, and that is said; else all of it is right. */
Test(triangle, rank_2k_in_place_is_whole_or_said_to_be_lost)
{
    const struct spec spec = {.op = TB_SYR2K,
                              .ab = TB_F64,
                              .c = TB_F64,
                              .ta = 'N',
                              .uplo = 'L',
                              .m = 20,
                              .n = 20,
                              .k = 5,
                              .alpha = 1,
                              .beta = 2,
                              .where = {TB_HOST_PAGEABLE, TB_HOST_PAGEABLE, TB_DEVICE}};
    int lost = 0, whole = 0;
    bool more = true;
    for (long n = 1; more; n++) {
        struct product p;
        struct tb_plan plan;
        struct tb_undone undone;
        struct tb_exec_stats stats;
        struct tb_rect rect;
        device_up("8", "512", false);
        sim_seed((uint64_t)n);
        product_open(&p, &spec);
        cr_assert_eq(plan_build(&p.call, &caps, 1 << 20, &plan), TB_OK);
        sim_fail(SIM_FAIL_ONCE, n);
        const enum tb_status status = exec_run(&p.call, &plan, &undone, &stats);
        more = sim_failed();
        cr_expect(status != TB_OK || !undone.unsure);
        lost += undone.unsure;
        for (whole += !undone.unsure && status != TB_OK;
             !undone.unsure && undone_next(&undone, &rect);)
            product_rect(&p, &rect);
        cr_expect(undone.unsure || product_right(&p), "fault %ld", n);
        undone_free(&undone);
        plan_free(&plan);
        product_close(&p);
        device_down();
    }
    cr_expect_geq(lost, 6, "a fault between the products of each tile"); /* 6 tiles */
    cr_expect_gt(whole, lost);
}

/* Half of C comes and goes, and A once; tiles outside of the triangle are not computed. */
Test(triangle, half_of_c_moves)
{
    struct product p;
    int64_t rects;
    const int64_t n = 128, k = 24;
    const struct spec spec = {.op = TB_SYRK,
                              .ab = TB_F64,
                              .c = TB_F64,
                              .ta = 'N',
                              .uplo = 'U',
                              .m = n,
                              .n = n,
                              .k = k,
                              .alpha = 1,
                              .beta = 1,
                              .seed = 3};
    device_up("32", "1024", false);
    product_open(&p, &spec);
    cr_expect_eq(attempt(&p, 1 << 20, &rects), TB_OK);
    cr_expect(product_right(&p));
    const struct sim_counts counts = sim_counts();
    const double half = 8.0 * (double)(n * (n + 1) / 2), slack = 8.0 * 4 * 32 * 4 / 2;
    cr_expect_leq(counts.bytes_out, half + slack, "%g bytes out of %g", counts.bytes_out, half);
    cr_expect_leq(counts.bytes_in, half + slack + 8.0 * (double)(n * k), "%g bytes in",
                  counts.bytes_in);
    cr_expect_eq(counts.launches, 10);
    product_close(&p);
    device_down();
}

/* --- Faults --- */

/* The n-th operation of the seam fails, for every n until none does. */
static void countdown(const struct spec *spec, enum sim_fail mode, size_t memory, bool inline_calls)
{
    long n = 1, fired = 0, salvaged = 0;
    for (bool more = true; more; n++) {
        struct product p;
        int64_t rects;
        device_up("8", "256", inline_calls);
        sim_seed((uint64_t)n);
        exec_brief_bytes = n % 2 ? 0 : 1e9;
        product_open(&p, spec);
        sim_fail(mode, n);
        const enum tb_status status = attempt(&p, memory, &rects);
        more = sim_failed();
        cr_expect(product_right(&p), "%s: fault %ld, status %s, %lld rectangles", words(spec), n,
                  tb_status_text(status), (long long)rects);
        fired += more;
        salvaged += more && status != TB_OK && rects < 12;
        if (mode != SIM_FAIL_ONCE) {
            pool_close(); /* the device is gone; a new one */
            tb_dev()->close();
            device_up("8", "256", inline_calls);
        }
        sim_fail(SIM_FAIL_NONE, 0);
        product_reset(&p);
        cr_expect_eq(attempt(&p, memory, &rects), TB_OK, "the call after fault %ld", n);
        cr_expect(product_right(&p), "%s: the call after fault %ld", words(spec), n);
        product_close(&p);
        device_down();
    }
    cr_expect_gt(fired, 5);
    cr_log_info("%s: %ld faults, %ld of them with part of C done", words(spec), fired, salvaged);
    if (!inline_calls)
        cr_expect_gt(salvaged, 0);
}

static void countdown_all(const struct spec *spec, size_t memory)
{
    countdown(spec, SIM_FAIL_ONCE, memory, false);
    countdown(spec, SIM_FAIL_EVER, memory, false);
    countdown(spec, SIM_FAIL_LATE, memory, false);
}

static void triangle_faults(enum tb_op op, char uplo, enum tb_type type)
{
    const struct spec spec = {.op = op,
                              .ab = type,
                              .c = type,
                              .ta = 'N',
                              .tb = 'T',
                              .uplo = uplo,
                              .m = 21,
                              .n = 21,
                              .k = 6,
                              .gap = 1,
                              .alpha = -1,
                              .beta = 2,
                              .seed = 9};
    countdown_all(&spec, 1 << 20);
}

Test(triangle_faults, syrk)
{
    triangle_faults(TB_SYRK, 'L', TB_F64);
}

Test(triangle_faults, herk)
{
    triangle_faults(TB_HERK, 'U', TB_C64);
}

Test(triangle_faults, syr2k)
{
    triangle_faults(TB_SYR2K, 'U', TB_F64);
}

Test(triangle_faults, gemmt)
{
    triangle_faults(TB_GEMMT, 'L', TB_F32);
}

Test(triangle_faults, her2k_with_little_memory)
{
    const struct spec spec = {.op = TB_HER2K,
                              .ab = TB_C32,
                              .c = TB_C32,
                              .ta = 'C',
                              .uplo = 'L',
                              .m = 19,
                              .n = 19,
                              .k = 6,
                              .gap = 1,
                              .alpha = -1,
                              .alpha_im = 1,
                              .beta = 2,
                              .seed = 9};
    countdown(&spec, SIM_FAIL_ONCE, 6000, false);
}

Test(triangle_faults, in_place)
{
    struct spec spec = {.op = TB_HERK,
                        .ab = TB_C64,
                        .c = TB_C64,
                        .ta = 'N',
                        .uplo = 'L',
                        .m = 21,
                        .n = 21,
                        .k = 6,
                        .gap = 1,
                        .alpha = -1,
                        .beta = 2,
                        .seed = 9,
                        .where = {TB_HOST_PAGEABLE, TB_HOST_PAGEABLE, TB_DEVICE}};
    countdown(&spec, SIM_FAIL_ONCE, 1 << 20, false);
}

/* Nothing crosses the link: a triangle in halves, corners and squares. */
Test(triangle_faults, in_halves)
{
    struct spec spec = {.op = TB_SYRK,
                        .ab = TB_F64,
                        .c = TB_F64,
                        .ta = 'N',
                        .uplo = 'L',
                        .m = 37,
                        .n = 37,
                        .k = 6,
                        .gap = 1,
                        .alpha = -1,
                        .beta = 2,
                        .seed = 9,
                        .where = {TB_DEVICE, TB_HOST_PAGEABLE, TB_DEVICE}};
    for (int i = 0; i < 2; i++) {
        struct tb_plan plan;
        struct product p;
        spec.uplo = "LU"[i];
        device_up("8", "256", false);
        product_open(&p, &spec);
        cr_assert_eq(plan_build(&p.call, &caps, 1 << 20, &plan), TB_OK);
        cr_expect_eq(plan.pieces, 9); /* five corners */
        plan_free(&plan);
        product_close(&p);
        device_down();
        countdown(&spec, SIM_FAIL_ONCE, 1 << 20, false);
    }
}

Test(triangle_faults, on_the_caller)
{
    const struct spec spec = {.op = TB_SYR2K,
                              .ab = TB_F64,
                              .c = TB_F64,
                              .ta = 'N',
                              .uplo = 'L',
                              .m = 7,
                              .n = 7,
                              .k = 6,
                              .gap = 1,
                              .alpha = -1,
                              .beta = 2,
                              .seed = 9};
    countdown(&spec, SIM_FAIL_ONCE, 1 << 20, true);
}

/* --- Routines with a triangle on one side --- */

static bool has_diag(enum tb_op op)
{
    return op == TB_TRMM || op == TB_TRSM;
}

static void every_side(enum tb_op op, const char *tile, const char *chunk, size_t memory)
{
    static const int64_t shapes[][2] = {{1, 1}, {7, 3}, {16, 16}, {17, 40}, {50, 33}, {3, 66}};
    unsigned seed = 0;
    device_up(tile, chunk, true);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int flags = 0; flags < 24; flags++)
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
                sim_seed(++seed);
                exec_brief_bytes = seed % 2 ? 0 : 1e9;
                const bool complex = call_is_complex(types[t]);
                const struct spec spec = {.op = op,
                                          .ab = types[t],
                                          .c = types[t],
                                          .side = "LR"[flags % 2],
                                          .uplo = "LU"[flags / 2 % 2],
                                          .diag = has_diag(op) ? "NU"[flags / 4 % 2] : 0,
                                          .ta = has_diag(op) ? "NTC"[flags / 8] : 0,
                                          .m = shapes[s][0],
                                          .n = shapes[s][1],
                                          .gap = seed % 3,
                                          .alpha = seed % 2 ? 1 : -2,
                                          .alpha_im = complex && op != TB_TRSM ? seed % 4 : 0,
                                          .beta = has_diag(op) || seed % 5 == 0 ? 0
                                                  : seed % 5 == 1               ? 1
                                                                                : -2,
                                          .nan_c = !has_diag(op) && seed % 5 == 0,
                                          .seed = seed};
                if ((has_diag(op) || flags < 4) && (op != TB_HEMM || complex))
                    try_spec(&spec, memory * (call_elem_bytes(spec.ab) + 2) / 8);
            }
    device_down();
}

static void all_sides(const char *tile, const char *chunk, size_t memory)
{
    every_side(TB_SYMM, tile, chunk, memory);
    every_side(TB_HEMM, tile, chunk, memory);
    every_side(TB_TRMM, tile, chunk, memory);
    every_side(TB_TRSM, tile, chunk, memory);
}

Test(side, as_a_whole)
{
    all_sides("0", "0", 6000000);
}

Test(side, in_strips)
{
    all_sides("16", "512", 4000000);
}

Test(side, in_odd_strips)
{
    all_sides("5", "512", 4000000);
}

Test(side, in_tiny_pieces)
{
    all_sides("16", "48", 4000000);
}

Test(side, with_little_memory)
{
    all_sides("8", "512", 12000);
}

/* In strips and with slots that are used again; copies within the device take the place of those
 * over the link. */
Test(side, operands_in_other_places)
{
    static const enum tb_where places[] = {TB_HOST_PAGEABLE, TB_HOST_PINNED, TB_DEVICE, TB_MANAGED};
    static const enum tb_op ops[] = {TB_SYMM, TB_HEMM, TB_TRMM, TB_TRSM};
    device_up("8", "512", false);
    for (unsigned seed = 0; seed < 64 * 4 * 4 * 2; seed++) {
        const enum tb_op op = ops[seed / 64 % 4];
        const enum tb_type type = types[op == TB_HEMM ? 2 + seed / 256 % 2 : seed / 256 % 4];
        struct sim_counts before = sim_counts();
        struct product p;
        int64_t rects;
        sim_seed(seed);
        exec_brief_bytes = seed % 2 ? 0 : 1e9;
        const struct spec spec = {.op = op,
                                  .ab = type,
                                  .c = type,
                                  .side = "LR"[seed % 2],
                                  .uplo = "LU"[seed / 2 % 2],
                                  .diag = has_diag(op) ? "NU"[seed / 3 % 2] : 0,
                                  .ta = has_diag(op) ? "NTC"[seed % 3] : 0,
                                  .m = 1 + seed % 31,
                                  .n = 1 + seed * 7 % 37,
                                  .gap = seed % 2,
                                  .alpha = seed % 7 ? -2 : 1,
                                  .alpha_im = call_is_complex(type) && op != TB_TRSM ? seed % 4 : 0,
                                  .beta = has_diag(op) || seed % 5 == 0 ? 0 : -1,
                                  .nan_c = !has_diag(op) && seed % 5 == 0,
                                  .seed = seed,
                                  .where = {places[seed % 4],
                                            has_diag(op) ? TB_HOST_PAGEABLE : places[seed / 4 % 4],
                                            places[seed / 16 % 4]}};
        product_open(&p, &spec);
        cr_expect_eq(attempt(&p, seed < 1024 ? 1 << 20 : 16000, &rects), TB_OK, "%s", words(&spec));
        cr_expect(product_right(&p), "%s, seed %u", words(&spec), seed);
        product_close(&p);
        struct sim_counts after = sim_counts();
        if (spec.where[TB_C] >= TB_DEVICE)
            cr_expect_eq(after.copies_out, before.copies_out);
        if (spec.where[TB_A] >= TB_DEVICE && spec.where[TB_C] >= TB_DEVICE && has_diag(op))
            cr_expect_eq(after.copies_in, before.copies_in);
    }
    device_down();
}

static void side_faults(enum tb_op op, char side, char uplo, enum tb_type type, size_t memory)
{
    const struct spec spec = {.op = op,
                              .ab = type,
                              .c = type,
                              .side = side,
                              .uplo = uplo,
                              .diag = has_diag(op) ? 'N' : 0,
                              .ta = has_diag(op) ? 'T' : 0,
                              .m = 19,
                              .n = 23,
                              .gap = 1,
                              .alpha = -2,
                              .beta = has_diag(op) ? 0 : 2,
                              .seed = 9};
    countdown(&spec, SIM_FAIL_ONCE, memory, false);
    countdown(&spec, SIM_FAIL_EVER, memory, false);
    countdown(&spec, SIM_FAIL_LATE, memory, false);
}

Test(side_faults, symm)
{
    side_faults(TB_SYMM, 'L', 'L', TB_F64, 1 << 20);
}

Test(side_faults, hemm_right)
{
    side_faults(TB_HEMM, 'R', 'U', TB_C32, 1 << 20);
}

Test(side_faults, trmm)
{
    side_faults(TB_TRMM, 'L', 'U', TB_F64, 1 << 20);
}

Test(side_faults, trmm_right)
{
    side_faults(TB_TRMM, 'R', 'L', TB_F64, 1 << 20);
}

Test(side_faults, trsm)
{
    side_faults(TB_TRSM, 'L', 'L', TB_F64, 1 << 20);
}

Test(side_faults, trsm_right)
{
    side_faults(TB_TRSM, 'R', 'U', TB_F64, 1 << 20);
}

/* On the device: what was stored is new, the rest as it was. */
static void near_faults(enum tb_op op, char side, enum tb_where a, enum tb_where b)
{
    const struct spec spec = {.op = op,
                              .ab = TB_C64,
                              .c = TB_C64,
                              .side = side,
                              .uplo = 'L',
                              .diag = has_diag(op) ? 'N' : 0,
                              .ta = has_diag(op) ? 'C' : 0,
                              .m = 19,
                              .n = 23,
                              .gap = 1,
                              .alpha = -2,
                              .beta = has_diag(op) ? 0 : 2,
                              .seed = 9,
                              .where = {a, b, TB_DEVICE}};
    countdown(&spec, SIM_FAIL_ONCE, 1 << 20, false);
}

Test(side_faults, symm_on_the_device)
{
    near_faults(TB_SYMM, 'R', TB_DEVICE, TB_DEVICE);
}

Test(side_faults, trmm_on_the_device)
{
    near_faults(TB_TRMM, 'L', TB_HOST_PAGEABLE, TB_HOST_PAGEABLE);
}

Test(side_faults, trsm_on_the_device)
{
    near_faults(TB_TRSM, 'R', TB_DEVICE, TB_HOST_PAGEABLE);
}

Test(side_faults, trsm_with_little_memory)
{
    side_faults(TB_TRSM, 'L', 'U', TB_F64, 8000);
}

/* Of the triangle only its half crosses, and the other matrix once each way. */
Test(side, half_of_a_moves)
{
    static const enum tb_op ops[] = {TB_SYMM, TB_TRMM, TB_TRSM};
    const int64_t n = 128, others = 40;
    for (size_t i = 0; i < 3; i++) {
        struct product p;
        int64_t rects;
        const struct spec spec = {.op = ops[i],
                                  .ab = TB_F64,
                                  .c = TB_F64,
                                  .side = 'L',
                                  .uplo = 'L',
                                  .ta = 'N',
                                  .diag = 'N',
                                  .m = n,
                                  .n = others,
                                  .alpha = 1,
                                  .beta = 0,
                                  .seed = 3};
        device_up("16", "1024", false);
        product_open(&p, &spec);
        cr_expect_eq(attempt(&p, 1 << 20, &rects), TB_OK);
        cr_expect(product_right(&p));
        const struct sim_counts counts = sim_counts();
        const double half = 8.0 * (double)(n * (n + 1) / 2), b = 8.0 * (double)(n * others);
        cr_expect_leq(counts.bytes_out, b);
        cr_expect_leq(counts.bytes_in, half * 1.15 + b, "%g bytes in, %g", counts.bytes_in,
                      half + b);
        product_close(&p);
        device_down();
    }
}

/* The sizes that a device gets: around diagonal blocks of up to 256, and halves of several. */
Test(side, in_strips_of_a_device, .timeout = 200)
{
    static const int64_t sizes[] = {130, 300, 513};
    static const enum tb_op ops[] = {TB_SYMM, TB_TRMM, TB_TRSM};
    device_up("0", "0", false);
    for (int i = 0; i < 36; i++) {
        const int64_t order = sizes[i % 3], other = 9 + i % 4;
        const char side = "LR"[i / 3 % 2];
        const struct spec spec = {.op = ops[i / 12],
                                  .ab = types[i % 4],
                                  .c = types[i % 4],
                                  .side = side,
                                  .uplo = "LU"[i / 6 % 2],
                                  .ta = has_diag(ops[i / 12]) ? "NTC"[i % 5 % 3] : 0,
                                  .diag = has_diag(ops[i / 12]) ? "NU"[i % 7 % 2] : 0,
                                  .m = side == 'L' ? order : other,
                                  .n = side == 'L' ? other : order,
                                  .alpha = -2,
                                  .beta = 0,
                                  .seed = (unsigned)i};
        try_spec(&spec, 7 << 20);
    }
    device_down();
}

static int steps_in_planes(const struct tb_call *call, size_t memory)
{
    struct tb_plan plan;
    int steps = 0;
    cr_assert_eq(plan_build(call, &caps, memory, &plan), TB_OK);
    for (int32_t i = 0; i < plan.count; i++) {
        const struct tb_step *step = plan_step(&plan, i);
        steps += step->kind == TB_COMPUTE && step->action == TB_PRODUCT_OF &&
                 kernel_row(step->kernel)->family == TB_X3;
    }
    plan_free(&plan);
    return steps;
}

/* Products between strips of single precision on 16-bit planes, in an area of each lane; and a
 * launch of which the last kernel is refused: B is at home, so what is left is finished. */
Test(side, single_precision_in_planes, .timeout = 200)
{
    static const enum tb_op ops[] = {TB_SYMM, TB_TRMM, TB_TRSM};
    for (int i = 0; i < 6; i++) { /* the last three with a fault */
        const char side = "LR"[i % 2];
        const enum tb_op op = ops[i % 3];
        const struct spec spec = {.op = op,
                                  .ab = TB_F32,
                                  .c = TB_F32,
                                  .side = side,
                                  .uplo = "LU"[i / 2 % 2],
                                  .ta = has_diag(op) ? "NT"[i / 3] : 0,
                                  .diag = has_diag(op) ? "NU"[i / 3] : 0,
                                  .m = side == 'L' ? 1100 : 70,
                                  .n = side == 'L' ? 70 : 1100,
                                  .gap = 1,
                                  .alpha = -2,
                                  .beta = has_diag(op) || i == 0 ? 0 : 2,
                                  .seed = (unsigned)i};
        struct product p;
        int64_t rects;
        device_up("0", "0", false);
        caps.sms = 132; /* of a device on which planes pay at that size */
        product_open(&p, &spec);
        cr_expect_gt(steps_in_planes(&p.call, 12 << 20), 0, "%s", words(&spec));
        if (i >= 3)
            sim_fail(SIM_FAIL_PART, 1);
        const enum tb_status status = attempt(&p, 12 << 20, &rects);
        cr_expect_eq(status, i >= 3 ? TB_TORN : TB_OK, "%s", words(&spec));
        cr_expect(product_right(&p), "%s", words(&spec));
        product_close(&p);
        device_down();
    }
}

static struct tb_call side_call(enum tb_op op, char uplo, int64_t n, int64_t others)
{
    struct tb_call call = {.name = "test",
                           .op = op,
                           .ab = TB_F64,
                           .c_type = TB_F64,
                           .alpha_type = TB_F64,
                           .beta_type = TB_F64,
                           .side = 'L',
                           .uplo = uplo,
                           .ta = 'N',
                           .tb = 'N',
                           .diag = 'N',
                           .m = n,
                           .n = others,
                           .lda = n,
                           .ldb = n,
                           .ldc = n,
                           .batch = 1};
    call.alpha.d[0] = 1;
    return call;
}

static void must_run(const struct tb_call *call)
{
    struct tb_plan plan;
    struct tb_undone undone;
    struct tb_exec_stats stats;
    cr_assert_eq(plan_build(call, &caps, 7 << 20, &plan), TB_OK);
    cr_assert_eq(exec_run(call, &plan, &undone, &stats), TB_OK);
    undone_free(&undone);
    plan_free(&plan);
}

/* A square of 1024 doubles a column, two pages, of which those that hold nothing of the triangle
 * cannot be touched. */
static double *triangle_on_pages(char uplo, bool open)
{
    enum { ORDER = 1024, HALF = 512 };
    static double *x;
    const size_t bytes = (size_t)ORDER * ORDER * sizeof *x, page = HALF * sizeof *x;
    if (!x)
        x = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(x, MAP_FAILED);
    cr_assert_eq(mprotect(x, bytes, PROT_READ | PROT_WRITE), 0);
    for (int j = 0; j < ORDER && !open; j++)
        for (int half = 0; half < 2; half++)
            if (uplo == 'L' ? half == 0 && j >= HALF : half == 1 && j < HALF)
                cr_assert_eq(mprotect((char *)x + (size_t)(2 * j + half) * page, page, PROT_NONE),
                             0);
    return x;
}

Test(side, pages_of_the_other_triangle)
{
    enum { ORDER = 1024, OTHERS = 3 };
    static const enum tb_op ops[] = {TB_SYMM, TB_TRMM, TB_TRSM, TB_SYRK};
    static double b[ORDER * OTHERS], c[ORDER * OTHERS];
    device_up("0", "0", false);
    for (int i = 0; i < 8; i++) {
        struct tb_call call = side_call(ops[i / 2], "LU"[i % 2], ORDER, OTHERS);
        double *x = triangle_on_pages(call.uplo, true);
        memset(x, 0, sizeof(double) * ORDER * ORDER);
        for (int e = 0; e < ORDER; e++)
            x[e + e * ORDER] = 2;
        for (int e = 0; e < ORDER * OTHERS; e++)
            b[e] = c[e] = e % 7;
        triangle_on_pages(call.uplo, false);
        call.a = x;
        call.b = b;
        call.c = c;
        if (call.op == TB_SYRK) {
            call.side = 0;
            call.n = ORDER;
            call.k = OTHERS;
            call.a = b;
            call.c = x;
        }
        must_run(&call);
        for (int e = 0; e < ORDER * OTHERS && call.op != TB_SYRK; e++)
            cr_assert_eq(c[e], call.op == TB_TRSM ? b[e] / 2 : 2 * b[e], "%d of %d", e, i);
        for (int e = 0; e < ORDER && call.op == TB_SYRK; e++)
            cr_assert_eq(x[e + e * ORDER], b[e] * b[e] + b[e + ORDER] * b[e + ORDER] +
                                               b[e + 2 * ORDER] * b[e + 2 * ORDER]);
    }
    device_down();
}

static void number_set(enum tb_type type, void *at, int64_t i, double re, double im)
{
    const bool pair = call_is_complex(type), single = type == TB_F32 || type == TB_C32;
    for (int part = 0; part < (pair ? 2 : 1); part++) {
        const double x = part ? im : re;
        if (single)
            ((float *)at)[pair ? 2 * i + part : i] = (float)x;
        else
            ((double *)at)[pair ? 2 * i + part : i] = x;
    }
}

static double number_of(enum tb_type type, const void *at, int64_t i)
{
    return type == TB_F32 || type == TB_C32 ? (double)((const float *)at)[i]
                                            : ((const double *)at)[i];
}

/* alpha comes before A: a product of A and B that is no number without it does not show, nor one
 * that vanishes. The other way round alpha B may be infinite where the CPU's is. */
Test(side, alpha_before_the_triangle)
{
    enum { ORDER = 300, OTHERS = 2 };
    static char a[16 * ORDER * ORDER], c[16 * ORDER * OTHERS];
    device_up("0", "0", false);
    for (int i = 0; i < 4 * 3 * 2 * 3; i++) {
        const enum tb_type type = types[i % 4];
        const bool wide = type == TB_F64 || type == TB_C64, pair = call_is_complex(type);
        const double tiny = wide ? 1e-200 : 1e-25, huge = wide ? 1e200 : 1e25;
        const double scale[] = {wide ? 1e300 : 1e35, wide ? 1e-300 : 1e-35, wide ? 1e300 : 1e35};
        const double of_a[] = {tiny, huge, tiny}, of_b[] = {tiny, huge, huge};
        const int way = i / 4 % 3;
        struct tb_call call = side_call(TB_TRMM, 'L', ORDER, OTHERS);
        char *b = c;
        call.ab = call.c_type = call.alpha_type = call.beta_type = type;
        if (i / 12 % 2) {
            call.side = 'R';
            call.m = OTHERS;
            call.n = ORDER;
            call.ldc = OTHERS;
        }
        if (i / 24) { /* managed: on the device, for this purpose */
            call.where[TB_C] = i / 24 == 1 ? TB_HOST_PINNED : TB_MANAGED;
            b = sim_user_alloc((enum tb_where)call.where[TB_C], sizeof c);
        }
        number_set(type, &call.alpha, 0, pair ? 0 : scale[way], scale[way]);
        for (int e = 0; e < ORDER * ORDER; e++)
            number_set(type, a, e, of_a[way], 0);
        for (int e = 0; e < ORDER * OTHERS; e++)
            number_set(type, b, e, of_b[way], 0);
        call.a = a;
        call.c = b;
        must_run(&call);
        for (int e = 0; e < ORDER * OTHERS; e++) {
            const int at = call.side == 'L' ? e % ORDER : ORDER - 1 - e / OTHERS;
            const double want = scale[way] * of_b[way] * of_a[way] * (at + 1);
            const double got = number_of(type, b, pair ? 2 * e + 1 : e);
            if (way == 2)
                cr_assert_not(isfinite(got), "%d of %d: %g", e, i, got);
            else
                cr_assert_float_eq(got / want, 1, 1e-4, "%d of %d: %g, not %g", e, i, got, want);
        }
        if (i / 24)
            sim_user_free(b);
    }
    device_down();
}

/* What a triangle does not have meets no infinity; a zero that it has makes NaN of one. */
Test(side, infinities_and_structural_zeros)
{
    enum { ORDER = 200, AT = 70 };
    static double a[ORDER * ORDER], c[ORDER];
    device_up("0", "0", false);
    for (int upper = 0; upper < 2; upper++) {
        struct tb_call call = side_call(TB_TRMM, "LU"[upper], ORDER, 1);
        for (int e = 0; e < ORDER * ORDER; e++)
            a[e] = 1;
        a[AT + (upper ? -3 : 3) + AT * ORDER] = 0;
        for (int e = 0; e < ORDER; e++)
            c[e] = e == AT ? (double)INFINITY : 1;
        call.a = a;
        call.c = c;
        must_run(&call);
        for (int e = 0; e < ORDER; e++) {
            const bool has = upper ? e <= AT : e >= AT;
            if (e == AT + (upper ? -3 : 3))
                cr_expect(isnan(c[e]));
            else
                cr_expect_eq(isinf(c[e]) != 0, has, "row %d is %g", e, c[e]);
        }
    }
    device_down();
}

/* An ill-conditioned triangle: the solution grows beyond all measure, and still solves a system
 * next to the one that was asked for, entry by entry, as substitution does. Inverses of blocks
 * would not. */
Test(side, backward_error)
{
    static const int64_t sizes[] = {130, 300, 513};
    device_up("0", "0", false);
    for (int o = 0; o < 3; o++) {
        const int64_t n = sizes[o], others = 4;
        double *a = malloc((size_t)(n * n) * sizeof *a),
               *b = malloc((size_t)(n * others) * sizeof *b);
        double *x = malloc((size_t)(n * others) * sizeof *x), worst = 0, most = 0;
        struct tb_call call = side_call(TB_TRSM, 'L', n, others);
        srand(7);
        for (int64_t e = 0; e < n * n; e++)
            a[e] = 2.0 * rand() / RAND_MAX - 1;
        for (int64_t e = 0; e < n; e++)
            a[e + e * n] = 0.25 + fabs(a[e + e * n]);
        for (int64_t e = 0; e < n * others; e++)
            b[e] = x[e] = 2.0 * rand() / RAND_MAX - 1;
        call.a = a;
        call.c = x;
        must_run(&call);
        for (int64_t j = 0; j < others; j++)
            for (int64_t i = 0; i < n; i++) {
                long double sum = b[i + j * n], size = fabsl(sum);
                for (int64_t l = 0; l <= i; l++) {
                    sum -= (long double)a[i + l * n] * x[l + j * n];
                    size += fabsl((long double)a[i + l * n] * x[l + j * n]);
                }
                worst = fmax(worst, (double)(fabsl(sum) / size));
                most = fmax(most, fabs(x[i + j * n]));
            }
        cr_expect_gt(most, 1e14);
        cr_expect_lt(worst, 12 * 0x1p-53, "n %ld: %g u", (long)n, worst * 0x1p53);
        cr_log_info("n %ld: backward error %.2f u, largest of X %.1e", (long)n, worst * 0x1p53,
                    most);
        free(a);
        free(b);
        free(x);
    }
    device_down();
}
