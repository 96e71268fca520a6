/* SPDX-License-Identifier: BSD-3-Clause
 * tuned.c and the classes of kernel.c: every shape has one class or none, samples lie in their
 * class, the text comes back, what is spoiled or foreign is left out entry by entry, and a choice
 * is taken only where the row may serve. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../../src/tuned.h"

static const struct tb_caps h200 = {.cc = 90, .sms = 132, .smem_block = 232448, .fp64_ratio = 2};
static const struct tb_caps ada = {.cc = 89, .sms = 128, .smem_block = 101376, .fp64_ratio = 64};

static int class_at(int64_t m, int64_t n, int64_t k, int64_t batch)
{
    return shape_class(&(struct tb_extent){m, n, k, batch});
}

Test(tuned, samples_lie_in_their_class)
{
    for (int class = 0; class < TB_SHAPE_CLASSES; class ++)
        for (int s = 0; s < TB_SAMPLES; s++) {
            const struct tb_extent x = tuned_sample(class, s);
            char name[TB_CLASS_NAME];
            shape_class_name(class, name);
            cr_expect_eq(shape_class(&x), class, "%s, sample %d: %d", name, s, shape_class(&x));
            cr_expect_eq(tuned_class_of(name, strlen(name)), class, "%s", name);
        }
    cr_expect_eq(tuned_class_of("wide:1", 6), -1);
    cr_expect_eq(tuned_class_of("", 0), -1);
}

static void check_name(int class, const char *name)
{
    char own[TB_CLASS_NAME] = "none";
    if (class >= 0)
        shape_class_name(class, own);
    cr_expect_str_eq(own, name);
}

Test(tuned, classes_by_example)
{
    check_name(class_at(512, 512, 256, 1), "wide:512:256");
    check_name(class_at(512, 520, 256, 1), "wide:724:256");
    check_name(class_at(640, 640, 257, 1), "wide:724:2048");
    check_name(class_at(1024, 1024, 2048, 1), "wide:1024:2048");
    check_name(class_at(1024, 1024, 2049, 4), "wide:2048:max");
    check_name(class_at(8192, 8192, 64, 1), "wide:max:256");
    check_name(class_at(4096, 4096, 4096, 1), "wide:4096:max");
    check_name(class_at(16, 4096, 1024, 1), "flat:32:max:max");
    check_name(class_at(4096, 16, 512, 1), "tall:32:max:512");
    check_name(class_at(100, 300, 512, 1), "none"); /* 300 is badly filled */
    check_name(class_at(100, 384, 512, 1), "flat:128:2048:512");
    check_name(class_at(256, 256, 1024, 1), "small:256:1024");
    check_name(class_at(1, 1, 100000, 1), "small:32:max");
    check_name(class_at(64, 64, 64, 5), "none"); /* a batch */
    check_name(class_at(4096, 4096, 63, 1), "none");
    check_name(class_at(0, 4096, 64, 1), "none");
    const int64_t huge = INT64_C(1) << 62;
    check_name(class_at(huge, huge, huge, 4), "wide:max:max");
}

static struct tb_tuned *sample(void)
{
    struct tb_tuned *const tuned = calloc(1, sizeof *tuned);
    for (int i = 0; i < kernel_count(); i++) {
        const struct tb_kernel *row = kernel_row(i);
        const int pair = shape_pair(row->ab, row->c), layout = row->ta + 2 * row->tb;
        if (pair < 0)
            continue;
        struct tb_tuned_row *const at = &tuned->at[pair][layout][(i * 7) % TB_SHAPE_CLASSES];
        if (kernel_why_not(&h200, i, NULL) == NULL)
            *at = (struct tb_tuned_row){(int16_t)(i + 1),
                                        (int16_t)(i % 9),
                                        row->family == TB_SM90 ? i % TB_KHINTS : 0,
                                        (float)(1000 + i),
                                        0.9f,
                                        tuned_lead(&h200, i, (i * 7) % TB_SHAPE_CLASSES)};
    }
    return tuned;
}

/* From memory that ends where the text does. */
static enum tb_tuned_state parse(const char *text, size_t length, const struct tb_caps *caps,
                                 struct tb_tuned *out, int *bad)
{
    char *const exact = malloc(length ? length : 1);
    memcpy(exact, text, length);
    const enum tb_tuned_state state = tuned_parse(exact, length, caps, out, bad);
    free(exact);
    return state;
}

static char text[TB_TUNED_BYTES_MAX], changed[TB_TUNED_BYTES_MAX + 1000];
static struct tb_tuned back;

Test(tuned, comes_back_as_it_was_written)
{
    struct tb_tuned *const before = sample();
    const size_t length = tuned_print(before, &h200, text, sizeof text);
    int bad = -1;
    cr_assert(length > 0 && strlen(text) == length);
    cr_assert_eq(parse(text, length, &h200, &back, &bad), TB_TUNED_FITS);
    cr_assert_eq(bad, 0);
    cr_assert_eq(tuned_count(&back, -1), tuned_count(before, -1));
    cr_assert_gt(tuned_count(&back, 0), 3);
    cr_assert_eq(memcmp(&back, before, sizeof back), 0);
    cr_assert_eq(tuned_print(before, &h200, changed, length), 0, "no room");
    cr_assert_eq(tuned_print(before, &h200, changed, length + 1), length);
    cr_assert_eq(tuned_print(before, &h200, changed, 10), 0);
    free(before);
}

/* Every class of every layout and pair, with the longest name of a row. */
Test(tuned, a_full_table_has_room)
{
    struct tb_tuned *const full = calloc(1, sizeof *full);
    for (int i = 0; i < kernel_count(); i++) {
        const struct tb_kernel *row = kernel_row(i);
        for (int class = 0; shape_pair(row->ab, row->c) >= 0 && class < TB_SHAPE_CLASSES;
             class ++) {
            struct tb_tuned_row *const at =
                &full->at[shape_pair(row->ab, row->c)][row->ta + 2 * row->tb][class];
            if (at->row == 0 || strlen(kernel_row(at->row - 1)->name) < strlen(row->name))
                *at = (struct tb_tuned_row){(int16_t)(i + 1), 0, 0, 9e8f, 0.999f, 1};
        }
    }
    cr_assert_gt(tuned_print(full, &h200, text, sizeof text), 0);
    free(full);
}

Test(tuned, holds_for_one_device_and_one_table)
{
    struct tb_tuned *const tuned = sample();
    const size_t length = tuned_print(tuned, &h200, text, sizeof text);
    struct tb_caps other = h200;
    int bad;
    cr_assert_eq(parse(text, length, &ada, &back, &bad), TB_TUNED_FOREIGN);
    other.sms = 66; /* a part of the device */
    cr_assert_eq(parse(text, length, &other, &back, &bad), TB_TUNED_FOREIGN);
    cr_assert_eq(tuned_count(&back, -1), 0);
    char *const sum = strchr(text, '\n') - 1;
    *sum = *sum == '0' ? '1' : '0'; /* another table of kernels */
    cr_assert_eq(parse(text, length, &h200, &back, &bad), TB_TUNED_FOREIGN);
    free(tuned);
}

/* Puts `line` before the last one. */
static size_t with_line(const char *line)
{
    struct tb_tuned *const tuned = calloc(1, sizeof *tuned);
    const size_t length = tuned_print(tuned, &h200, text, sizeof text);
    free(tuned);
    return (size_t)snprintf(changed, sizeof changed, "%.*s%s\nend\n", (int)length - 4, text, line);
}

Test(tuned, an_entry_that_is_wrong_is_left_out)
{
    static const char *const wrong[] = {
        "",
        "kernel",
        "kernel f32_64x64_nn",
        "kernel f32_64x64_nn wide:1024:2048",
        "kernel f32_64x64_nn wide:1024:2048 0 0 100",
        "kernel f32_64x64_nn wide:1024:2048 0 0 100 900 1",
        "kernel f32_64x64_nn wide:1024:2048 0 0 100 1001",
        "kernel f32_64x64_nn wide:1024:2048 0 0 100 0",
        "kernel f32_64x64_nn wide:1024:2048 0 0 0 900",
        "kernel f32_64x64_nn wide:1024:2048 0 0 9999999999 900",
        "kernel f32_64x64_nn wide:1024:2048 0 0 1e3 900",
        "kernel f32_64x64_nn wide:1024:2048 -1 0 100 900",
        "kernel f32_64x64_nn wide:1024:2048 0 1 100 900", /* it fetches by no maps */
        "kernel f16_sm90_64x64_nn wide:1024:2048 0 5 100 900",
        "kernel f32_64x64_nn wide:1000:2048 0 0 100 900",
        "kernel f32_64x64_nn everything 0 0 100 900",
        "kernel f32_65x64_nn wide:1024:2048 0 0 100 900",
        "kernel f32_64x64_n wide:1024:2048 0 0 100 900",
        "tile f32_64x64_nn wide:1024:2048 0 0 100 900",
        "kernel f16_sm90_64x64_nn wide:1024:2048 99999 0 100 900",
    };
    int bad;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const size_t length = with_line(wrong[i]);
        cr_expect_eq(parse(changed, length, &h200, &back, &bad), TB_TUNED_FITS, "%s", wrong[i]);
        cr_expect(tuned_count(&back, -1) == 0 && bad == 1, "%s", wrong[i]);
    }
    const size_t length = with_line("kernel f32_64x64_nn wide:1024:2048 0 0 100 900\n# a word\n"
                                    "kernel nonsense\n"
                                    "kernel f32_32x32_nn wide:1024:2048 0 0 100 900\n"
                                    "kernel f32_32x32_tn  wide:1024:2048 0 0 100 900 ");
    cr_assert_eq(parse(changed, length, &h200, &back, &bad), TB_TUNED_FITS);
    cr_assert(tuned_count(&back, -1) == 2 && bad == 2, "the second of a class, and the nonsense");
}

/* A row that this device cannot have. */
Test(tuned, a_row_that_cannot_run_is_left_out)
{
    struct tb_tuned *const empty = calloc(1, sizeof *empty);
    const size_t length = tuned_print(empty, &ada, text, sizeof text);
    int bad;
    const size_t more = (size_t)snprintf(
        changed, sizeof changed, "%.*skernel f16_sm90_64x64_nn wide:1024:2048 0 0 100 900\nend\n",
        (int)length - 4, text);
    cr_assert_eq(parse(changed, more, &ada, &back, &bad), TB_TUNED_FITS);
    cr_assert(tuned_count(&back, -1) == 0 && bad == 1);
    free(empty);
}

static void check_rows(const struct tb_tuned *tuned)
{
    for (int i = 0; i < TB_PAIRS * TB_LAYOUTS * TB_SHAPE_CLASSES; i++) {
        const struct tb_tuned_row *const x =
            &tuned->at[i / TB_SHAPE_CLASSES / TB_LAYOUTS][i / TB_SHAPE_CLASSES % TB_LAYOUTS]
                      [i % TB_SHAPE_CLASSES];
        cr_assert(x->row >= 0 && x->row <= kernel_count() && x->band >= 0 && x->band <= 4096);
        cr_assert(x->row == 0 || (x->rate >= 1 && x->gain > 0 && x->gain <= 1));
    }
}

Test(tuned, survives_any_spoiled_text)
{
    struct tb_tuned *const tuned = sample();
    const size_t length = tuned_print(tuned, &h200, text, sizeof text);
    unsigned state = 4711;
    int bad;
    for (size_t cut = 0; cut + 1 < length; cut += 7) {
        cr_assert_neq(parse(text, cut, &h200, &back, &bad), TB_TUNED_FITS, "%zu bytes", cut);
        cr_assert_eq(tuned_count(&back, -1), 0);
    }
    for (int round = 0; round < 1000; round++) {
        memcpy(changed, text, length);
        for (int i = 0; i < 1 + round % 8; i++) {
            state = state * 1103515245u + 12345u;
            const size_t at = (state >> 8) % length;
            state = state * 1103515245u + 12345u;
            changed[at] = (char)(state >> 16);
        }
        (void)parse(changed, length, &h200, &back, &bad);
        check_rows(&back);
    }
    free(tuned);
}

static int row_named(const char *name)
{
    for (int i = 0; i < kernel_count(); i++)
        if (strcmp(kernel_row(i)->name, name) == 0)
            return i;
    cr_assert_fail("%s", name);
    return -1;
}

static struct tb_caps with(const struct tb_caps *caps, const char *name, int class, int band)
{
    struct tb_caps out = *caps;
    const int row = row_named(name);
    const struct tb_kernel *const kernel = kernel_row(row);
    memset(&back, 0, sizeof back);
    back.at[shape_pair(kernel->ab, kernel->c)][kernel->ta + 2 * kernel->tb][class] =
        (struct tb_tuned_row){(int16_t)(row + 1), (int16_t)band, 0, 1000, 0.9f, 100};
    out.tuned = &back;
    return out;
}

Test(tuned, the_choice_is_taken_in_its_class_only)
{
    const struct tb_extent x = {4096, 4096, 4096, 1};
    const struct tb_caps caps = with(&h200, "f32_32x32_tn", shape_class(&x), 0);
    const int row = row_named("f32_32x32_tn");
    cr_assert_eq(kernel_choose(&caps, TB_F32, TB_F32, true, false, 4096, 4096, 4096, 1), row);
    cr_assert_neq(kernel_choose(&h200, TB_F32, TB_F32, true, false, 4096, 4096, 4096, 1), row);
    /* Another class, layout, type, no class. */
    cr_assert_neq(kernel_choose(&caps, TB_F32, TB_F32, true, false, 4096, 4096, 2048, 1), row);
    cr_assert_neq(kernel_choose(&caps, TB_F32, TB_F32, false, false, 4096, 4096, 4096, 1), row);
    cr_assert_eq(tuned_choice(&caps, TB_F64, TB_F64, true, false, &x), -1);
    cr_assert_neq(kernel_choose(&caps, TB_F32, TB_F32, true, false, 4096, 4096, 4096, 1000), row);
}

/* A row that was a little better where it was measured is not taken where its tiles fit badly. */
Test(tuned, what_was_measured_corrects_the_estimate)
{
    const int row = row_named("f64_128x64_nn"), class = class_at(240, 3000, 1000, 1);
    struct tb_caps caps = with(&h200, "f64_128x64_nn", class, 0);
    struct tb_tuned_row *const entry = &back.at[shape_pair(TB_F64, TB_F64)][0][class];
    entry->gain = 0.93f;
    entry->lead = tuned_lead(&h200, row, class);
    int taken = 0, left = 0;
    for (int64_t n = 2100; n < 12000; n += 100) {
        const struct tb_extent x = {240, n, 1000, 1};
        const int best = kernel_choose(&h200, TB_F64, TB_F64, false, false, 240, n, 1000, 1);
        const double ratio = kernel_estimate(&h200, row, &x) / kernel_estimate(&h200, best, &x);
        const bool takes = tuned_choice(&caps, TB_F64, TB_F64, false, false, &x) == row;
        if (class_at(240, n, 1000, 1) != class)
            continue;
        cr_expect_eq(takes, ratio * 0.93f <= TB_TUNED_GAIN * (double)entry->lead);
        taken += takes;
        left += !takes;
    }
    cr_expect(taken > 0 && left > 0, "%d taken, %d left", taken, left);
    entry->lead = 0; /* not known */
    cr_expect_eq(
        tuned_choice(&caps, TB_F64, TB_F64, false, false, &(struct tb_extent){240, 4096, 1000, 1}),
        -1);
}

Test(tuned, strict_takes_no_measured_row_that_it_leaves_out)
{
    const struct tb_extent x = {4096, 4096, 4096, 1};
    struct tb_caps caps = with(&h200, "bf16_sm90_64x64_nn", shape_class(&x), 16);
    const int row = row_named("bf16_sm90_64x64_nn");
    cr_assert_eq(kernel_choose(&caps, TB_BF16, TB_BF16, false, false, 4096, 4096, 4096, 1), row);
    cr_assert_eq(tuned_order(&caps, row, &x).band, 16);
    cr_assert_eq(tuned_order(&caps, row - 4, &x).band, 0, "another row's");
    caps.strict = true;
    const int strict = kernel_choose(&caps, TB_BF16, TB_BF16, false, false, 4096, 4096, 4096, 1);
    cr_assert(strict >= 0 && kernel_row(strict)->family == TB_SIMT);
    cr_assert_eq(tuned_choice(&caps, TB_BF16, TB_BF16, false, false, &x), -1);
    /* Nor does a device that cannot have it, whatever a table says. */
    caps = with(&ada, "bf16_sm90_64x64_nn", shape_class(&x), 16);
    const int old = kernel_choose(&caps, TB_BF16, TB_BF16, false, false, 4096, 4096, 4096, 1);
    cr_assert(old >= 0 && kernel_row(old)->family != TB_SM90);
}

/* No table, however odd, makes the choice one of another product. */
Test(tuned, a_wrong_table_chooses_nothing_wrong)
{
    struct tb_caps caps = h200;
    caps.tuned = &back;
    unsigned state = 99;
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < TB_PAIRS * TB_LAYOUTS * TB_SHAPE_CLASSES; i++) {
            state = state * 1103515245u + 12345u;
            back.at[i / TB_SHAPE_CLASSES / TB_LAYOUTS][i / TB_SHAPE_CLASSES % TB_LAYOUTS]
                   [i % TB_SHAPE_CLASSES]
                       .row = (int16_t)((int)(state >> 16) % 1000 - 300);
        }
        const struct tb_extent x = tuned_sample(round % TB_SHAPE_CLASSES, 0);
        const int row = kernel_choose(&caps, TB_F32, TB_F32, false, true, x.m, x.n, x.k, 1);
        const struct tb_kernel *const kernel = kernel_row(row);
        cr_assert(kernel != NULL && kernel->ab == TB_F32 && kernel->c == TB_F32 && !kernel->ta &&
                  kernel->tb);
    }
}

/* The router counts on what was measured. */
Test(tuned, the_share_of_the_router_follows)
{
    const struct tb_extent x = {4096, 4096, 512, 1};
    struct tb_caps caps = with(&h200, "f64_dmma_64x64_nn", shape_class(&x), 0);
    struct tb_tuned_row *const entry = &back.at[shape_pair(TB_F64, TB_F64)][0][shape_class(&x)];
    entry->lead = tuned_lead(&h200, entry->row - 1, shape_class(&x));
    entry->gain = 0.5f;
    cr_assert_eq(kernel_choose(&caps, TB_F64, TB_F64, false, false, x.m, x.n, x.k, 1),
                 entry->row - 1);
    const double measured =
                     kernel_efficiency(&caps, TB_F64, TB_F64, false, false, x.m, x.n, x.k, 1),
                 estimated =
                     kernel_efficiency(&h200, TB_F64, TB_F64, false, false, x.m, x.n, x.k, 1);
    cr_assert(measured > 1.2 * estimated || (measured == 1 && estimated > 0.5), "%f %f", measured,
              estimated);
    /* Elsewhere nothing was. */
    cr_assert(kernel_efficiency(&caps, TB_F64, TB_F64, false, true, x.m, x.n, x.k, 1) ==
              kernel_efficiency(&h200, TB_F64, TB_F64, false, true, x.m, x.n, x.k, 1));
}

/* FP32 on 16-bit planes: a choice as any other, never for strict nor where sums are too short. */
Test(tuned, rows_of_several_parts_are_chosen_where_they_may)
{
    const struct tb_extent x = {4096, 4096, 512, 1};
    struct tb_caps caps = with(&h200, "f32_x3_nn", shape_class(&x), 4);
    const int row = row_named("f32_x3_nn");
    cr_assert_eq(tuned_choice(&caps, TB_F32, TB_F32, false, false, &x), row);
    cr_assert_eq(tuned_order(&caps, row, &x).band, 4);
    caps.strict = true;
    cr_assert_eq(tuned_choice(&caps, TB_F32, TB_F32, false, false, &x), -1);
    const struct tb_extent little = {4096, 4096, 200, 1};
    caps = with(&h200, "f32_x3_nn", shape_class(&little), 4);
    cr_assert_eq(tuned_choice(&caps, TB_F32, TB_F32, false, false, &little), -1);
    /* A part, or a row for triangles, is no choice at all. */
    for (int i = 0; i < kernel_count(); i++)
        if (kernel_row(i)->family == TB_PART || kernel_row(i)->family == TB_TRI)
            cr_assert_not_null(kernel_why_not(&h200, i, NULL));
}

/* What a row does that nobody has measured is for tune to find out. */
Test(tuned, the_estimate_leaves_a_row_of_unknown_rate_alone)
{
    struct tb_caps strict = h200;
    strict.strict = true;
    const int row = row_named("f32_32x32x32_nn");
    for (int64_t n = 1; n < 5000; n += n / 3 + 1)
        for (int64_t k = 1; k < 5000; k += k / 3 + 1) {
            const struct tb_extent x = {n, n, k, 1};
            cr_expect_neq(kernel_estimated(&strict, TB_F32, TB_F32, false, false, &x), row);
            cr_expect_neq(kernel_estimated(&ada, TB_F32, TB_F32, false, false, &x), row);
        }
    const struct tb_extent x = {500, 500, 700, 1};
    const struct tb_caps caps = with(&h200, "f32_32x32x32_nn", shape_class(&x), 0);
    cr_expect_eq(kernel_choose(&caps, TB_F32, TB_F32, false, false, x.m, x.n, x.k, 1), row);
}

Test(tuned, the_order_goes_with_the_launch)
{
    const struct tb_kernel *const row = kernel_row(row_named("bf16_sm90_128x128_nn"));
    struct tb_gemm_params p = {.a = 4096,
                               .b = 1 << 20,
                               .c = 2 << 20,
                               .m = 4096,
                               .n = 4096,
                               .k = 64,
                               .lda = 4096,
                               .ldb = 64,
                               .ldc = 4096,
                               .batch = 1};
    struct tb_map maps[3];
    cr_assert_eq(kernel_maps(row, &p, maps) >> TB_WAY_BAND, kernel_band(row));
    cr_assert(maps[0].hint == TB_KHINT_OWN && maps[1].hint == TB_KHINT_OWN);
    p.band = 5;
    p.hint = TB_KHINT_128;
    cr_assert_eq(kernel_maps(row, &p, maps) >> TB_WAY_BAND, 5);
    cr_assert(maps[0].hint == TB_KHINT_128 && maps[1].hint == TB_KHINT_128);
    cr_assert_gt(kernel_band(row), 5);
}
