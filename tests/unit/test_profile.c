/* SPDX-License-Identifier: BSD-3-Clause
 * profile.c: what is written is read back, what is not a profile is refused whatever it is, and the
 * built-in figures follow the device. The text comes from a file that anybody may have spoiled. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../../src/profile.h"

static const struct tb_caps h200 = {
    .name = "NVIDIA H200", .sms = 132, .fp64_ratio = 2, .clock_mhz = 1980};

static struct tb_profile sample(void)
{
    struct tb_profile p;
    profile_builtin(&h200, 16, &p);
    profile_name("OpenBLAS 0.3.26 DYNAMIC_ARCH SkylakeX MAX_THREADS=64", p.cpu_blas);
    p.in = (struct tb_link){8123.456, 53.9};
    p.cpu_rate[TB_F64][TB_ALONE][TB_THIN_K] = 0.125;
    return p;
}

/* Reads a text from memory that ends where the text does, so that a reader beyond it is seen. */
static bool parse(const char *text, size_t length, struct tb_profile *out)
{
    char *exact = malloc(length ? length : 1);
    const char *why = NULL;
    memcpy(exact, text, length);
    const bool done = profile_parse(exact, length, out, &why);
    cr_assert(done || (why != NULL && strlen(why) > 0));
    free(exact);
    return done;
}

Test(profile, comes_back_as_it_was_written)
{
    char text[TB_PROFILE_BYTES_MAX], again[TB_PROFILE_BYTES_MAX];
    const struct tb_profile before = sample();
    struct tb_profile after;
    const size_t length = profile_print(&before, text, sizeof text);
    cr_assert(length > 500 && strlen(text) == length);
    cr_assert(parse(text, length, &after), "%s", text);
    cr_assert_eq(after.source, TB_PROFILE_SAVED);
    cr_assert(profile_fits(&after, before.gpu, before.cpu_blas, 16));
    cr_assert(fabs(after.in.wait_ns - 8123.456) < 1e-6 && fabs(after.in.rate - 53.9) < 1e-9);
    cr_assert(fabs(after.cpu_rate[TB_F64][TB_ALONE][TB_THIN_K] - 0.125) < 1e-9);
    for (int t = 0; t < TB_TYPES; t++)
        cr_assert(fabs(after.gpu_rate[t] / before.gpu_rate[t] - 1) < 1e-6);
    profile_print(&after, again, sizeof again);
    cr_assert_str_eq(text, again);
}

Test(profile, says_where_there_is_no_room)
{
    char text[TB_PROFILE_BYTES_MAX];
    const struct tb_profile p = sample();
    const size_t length = profile_print(&p, text, sizeof text);
    cr_assert_eq(profile_print(&p, text, length), 0);
    cr_assert_eq(profile_print(&p, text, length + 1), length);
    cr_assert_eq(profile_print(&p, text, 0), 0);
}

Test(profile, numbers_no_machine_has_are_not_written)
{
    char text[TB_PROFILE_BYTES_MAX];
    struct tb_profile p = sample(), after;
    p.in.rate = NAN;
    p.out.rate = INFINITY;
    p.offload_ns = -5;
    const size_t length = profile_print(&p, text, sizeof text);
    cr_assert(parse(text, length, &after), "%s", text);
    cr_assert(after.in.rate > 0 && after.out.rate < 1e6 && after.offload_ns >= 0);
}

Test(profile, fits_one_machine_only)
{
    const struct tb_profile p = sample();
    cr_assert(profile_fits(&p, "NVIDIA H200", p.cpu_blas, 16));
    cr_assert_not(profile_fits(&p, "NVIDIA H100", p.cpu_blas, 16));
    cr_assert_not(profile_fits(&p, "NVIDIA H200", "OpenBLAS 0.3.21", 16));
    cr_assert_not(profile_fits(&p, "NVIDIA H200", p.cpu_blas, 15));
}

/* Puts `to` in the place of the first `from`. */
static size_t swapped(const char *from, const char *to, char out[TB_PROFILE_BYTES_MAX])
{
    char text[TB_PROFILE_BYTES_MAX];
    const struct tb_profile p = sample();
    profile_print(&p, text, sizeof text);
    char *const at = strstr(text, from);
    cr_assert_not_null(at, "%s", from);
    return (size_t)snprintf(out, TB_PROFILE_BYTES_MAX, "%.*s%s%s", (int)(at - text), text, to,
                            at + strlen(from));
}

Test(profile, refuses_what_is_not_one)
{
    static const struct {
        const char *from, *to;
    } changes[] = {
        {"tileblas-profile 4", "tileblas-profile 5"},
        {"tileblas-profile 4", "tileblas-profile 2"},
        {"tileblas-profile 4", "tileblas-profile 4 1"},
        {"tileblas-profile 4", "tileblas-profile"},
        {"tileblas-profile 4\n", ""},
        {"tileblas-profile", "something-else"},
        {"cpus 16", "cpus 0"},
        {"cpus 16", "cpus 99999999"},
        {"cpus 16", "cpus -16"},
        {"cpus 16", "cpus nan"},
        {"cpus 16", "cpus 1e3"},
        {"cpus 16", "cpus 0x10"},
        {"cpus 16", "cpus 16 16"},
        {"cpus 16", "cpus 16\ncpus 16"},
        {"cpus 16", "cpus 16."
                    "5.5"},
        {"cpus 16", "cpus .5"},
        {"cpus 16", "cpus 99999999999999999999999999999999"},
        {"link-in 8123.456", "link-in"},
        {"link-in 8123.456 53.9", "link-in 8123.456 0"},
        {"link-in 8123.456 53.9", "link-in 8123.456,5 53"},
        {"link-in 8123.456 53.9", "link-in 8123.456 99999999"},
        {"gpu NVIDIA H200", "gpu NVIDIA \x01H200"},
        {"gpu NVIDIA H200", "gpu NVIDIA  H200"},
        {"gpu NVIDIA H200",
         "gpu "
         "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
         "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
        {"gpu-rate f32", "gpu-rate f33"},
        {"staged-in 62000", "staged-in"},
        {"staged-in 62000", "staged-in 0"},
        {"cpu f64 alone", "cpu f64 alon"},
        {"cpu f64 alone", "cpu f64 together"},
        {"\nend\n", "\n"},
        {"\nend\n", "\nend\nend\n"},
        {"\nend\n", "\nend of it\n"},
        {"\nend\n", "\nend\nkernel of it\n"},
    };
    char text[TB_PROFILE_BYTES_MAX];
    struct tb_profile out;
    memset(&out, 0x5a, sizeof out);
    const struct tb_profile untouched = out;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const size_t length = swapped(changes[i].from, changes[i].to, text);
        cr_assert_not(parse(text, length, &out), "accepted: %s", changes[i].to);
        cr_assert_eq(memcmp(&out, &untouched, sizeof out), 0, "touched: %s", changes[i].to);
    }
    cr_assert_not(parse("", 0, &out));
    /* The version is what is wrong with one of another version. */
    const char *why;
    const size_t length = swapped("tileblas-profile 4", "tileblas-profile 7", text);
    cr_assert_not(profile_parse(text, length, &out, &why));
    cr_assert_not_null(strstr(why, "version"));
}

Test(profile, takes_comments_blanks_and_a_last_line_without_its_end)
{
    char text[TB_PROFILE_BYTES_MAX];
    struct tb_profile out;
    size_t length = swapped("cpus 16", "# a word\n  cpus   16  ", text);
    cr_assert(parse(text, length, &out));
    cr_assert_eq(out.cpus, 16);
    length = swapped("\nend\n", "\nend", text);
    cr_assert(parse(text, length, &out));
}

/* Of the version before, which had no measured kernels. */
Test(profile, takes_the_version_before)
{
    char text[TB_PROFILE_BYTES_MAX];
    struct tb_profile out;
    size_t length = swapped("tileblas-profile 4", "tileblas-profile 3", text);
    cr_assert(parse(text, length, &out));
    cr_assert_eq(out.cpus, 16);
    cr_assert_null(profile_kernels(text, length));
    length += (size_t)snprintf(text + length, sizeof text - length, "kernels 1\nend\n");
    cr_assert_not(parse(text, length, &out));
}

/* What follows is not the profile's: whatever is wrong with it, the machine is known. */
Test(profile, kernels_may_follow)
{
    char text[TB_PROFILE_BYTES_MAX];
    struct tb_profile out;
    const struct tb_profile p = sample();
    const size_t length = profile_print(&p, text, sizeof text);
    const size_t all =
        length + (size_t)snprintf(text + length, sizeof text - length, "kernels any\nthing");
    cr_assert(parse(text, all, &out));
    cr_assert_eq(profile_kernels(text, all), text + length);
    cr_assert_null(profile_kernels(text, length));
}

/* Cut off at every byte, and with every byte changed in a few ways: never a crash, never a number
 * out of its range. */
static void check_ranges(const struct tb_profile *p)
{
    cr_assert(p->cpus >= 1 && p->cpus <= 1000000);
    cr_assert(p->in.rate > 0 && p->out.rate > 0 && p->copier > 0 && p->staged_in[0] > 0);
    cr_assert(p->offload_ns >= 0 && p->start_ns >= 0);
    cr_assert(memchr(p->gpu, 0, sizeof p->gpu) && memchr(p->cpu_blas, 0, sizeof p->cpu_blas));
    for (int t = 0; t < TB_TYPES; t++) {
        cr_assert(isfinite(p->gpu_rate[t]) && p->gpu_rate[t] > 0);
        for (int c = 0; c < TB_CREWS; c++)
            for (int s = 0; s < TB_SHAPES; s++)
                cr_assert(isfinite(p->cpu_rate[t][c][s]) && p->cpu_rate[t][c][s] > 0);
    }
}

Test(profile, survives_any_spoiled_file)
{
    char text[TB_PROFILE_BYTES_MAX], bad[TB_PROFILE_BYTES_MAX];
    const struct tb_profile p = sample();
    const size_t length = profile_print(&p, text, sizeof text);
    struct tb_profile out;
    unsigned state = 12345;
    for (size_t cut = 0; cut + 1 < length; cut++)
        cr_assert_not(parse(text, cut, &out), "accepted after %zu bytes", cut);
    for (size_t at = 0; at < length; at++)
        for (int way = 0; way < 4; way++) {
            static const char odd[] = {'\0', '\n', '9', (char)0xff};
            memcpy(bad, text, length);
            bad[at] = odd[way];
            if (parse(bad, length, &out))
                check_ranges(&out);
        }
    for (int round = 0; round < 20000; round++) {
        memcpy(bad, text, length);
        for (int i = 0; i < 1 + round % 8; i++) {
            state = state * 1103515245u + 12345u;
            const size_t at = (state >> 8) % length;
            state = state * 1103515245u + 12345u;
            bad[at] = (char)(state >> 16);
        }
        if (parse(bad, length, &out))
            check_ranges(&out);
    }
    char *long_one = malloc(1 << 20);
    memset(long_one, '#', 1 << 20);
    cr_assert_not(parse(long_one, 1 << 20, &out));
    free(long_one);
}

Test(profile, names)
{
    char out[TB_PROFILE_NAME], longer[400];
    profile_name("  a\tb \x7f c\n", out);
    cr_assert_str_eq(out, "a b c");
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    profile_name(longer, out);
    cr_assert_eq(strlen(out), TB_PROFILE_NAME - 1);
    profile_name("", out);
    cr_assert_str_eq(out, "");
}

Test(profile, built_in_figures_scale_with_the_machine)
{
    struct tb_profile a, b;
    profile_builtin(&h200, 16, &a);
    profile_builtin(&(struct tb_caps){.sms = 66, .fp64_ratio = 64, .clock_mhz = 1980}, 4, &b);
    cr_assert(fabs(b.gpu_rate[TB_F32] / a.gpu_rate[TB_F32] - 0.5) < 1e-9);
    cr_assert(fabs(b.gpu_rate[TB_F64] / a.gpu_rate[TB_F64] - 1.0 / 64) < 1e-9);
    cr_assert(b.cpu_rate[TB_F64][TB_TOGETHER][0] < a.cpu_rate[TB_F64][TB_TOGETHER][0]);
    cr_assert_eq(b.cpu_rate[TB_F64][TB_ALONE][0], a.cpu_rate[TB_F64][TB_ALONE][0]);
    profile_builtin(NULL, 0, &b);
    check_ranges(&b);
    cr_assert_eq(b.source, TB_PROFILE_BUILTIN);
}
