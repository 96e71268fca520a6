/* SPDX-License-Identifier: BSD-3-Clause
 * The shapes that stand for a class, and the text of measured choices: a line that says which
 * kernels and which device they hold for, a line per choice, "end". Rows and classes stand there by
 * name. Read in every process that uses the device, so nothing in it is believed: a row has to
 * exist and to run here, and kernel.c tells whether it may serve. */
#include "tuned.h"

#include <stdio.h>
#include <string.h>
#include "version.h"

/* --- Samples ---
 */

/* Of the wide classes by area: a square at their end, one in the middle with odd sides, and a
 * rectangle. */
static const int wide_mn[8][TB_SAMPLES][2] = {
    {{512, 512}, {381, 381}, {512, 384}},       {{704, 704}, {615, 615}, {768, 440}},
    {{1024, 1024}, {871, 871}, {500, 1100}},    {{1408, 1408}, {1233, 1233}, {1536, 760}},
    {{2048, 2048}, {1745, 1745}, {1000, 2300}}, {{2880, 2880}, {2469, 2469}, {3072, 1500}},
    {{4096, 4096}, {3493, 3493}, {2000, 5000}}, {{6144, 6144}, {4801, 4801}, {8192, 3000}}};
static const int wide_k[3][TB_SAMPLES] = {{256, 100, 192}, {1024, 700, 2048}, {4096, 3001, 4096}};

static const int thin_mn[4][TB_SAMPLES] = {
    {32, 16, 5}, {64, 40, 50}, {128, 100, 72}, {256, 224, 250}};
static const int thin_long[2][TB_SAMPLES] = {{2048, 1000, 600}, {8192, 4096, 11008}};
static const int thin_k[2][TB_SAMPLES] = {{512, 256, 128}, {4096, 1024, 2048}};

static const int small_mn[4][TB_SAMPLES][2] = {{{32, 32}, {16, 24}, {8, 32}},
                                               {{64, 64}, {40, 64}, {64, 16}},
                                               {{128, 128}, {100, 100}, {64, 128}},
                                               {{256, 256}, {250, 128}, {128, 250}}};
static const int small_k[2][TB_SAMPLES] = {{1024, 512, 256}, {8192, 32768, 2000}};

struct tb_extent tuned_sample(int class, int i)
{
    if (class < TB_CLASS_FLAT)
        return (struct tb_extent){wide_mn[class / 3][i][0], wide_mn[class / 3][i][1],
                                  wide_k[class % 3][i], 1};
    if (class >= TB_CLASS_SMALL) {
        class -= TB_CLASS_SMALL;
        return (struct tb_extent){small_mn[class / 2][i][0], small_mn[class / 2][i][1],
                                  small_k[class % 2][i], 1};
    }
    const bool tall = class >= TB_CLASS_TALL;
    class -= tall ? TB_CLASS_TALL : TB_CLASS_FLAT;
    const int narrow = thin_mn[class / 4][i], wide = thin_long[class / 2 % 2][i];
    return (struct tb_extent){tall ? wide : narrow, tall ? narrow : wide, thin_k[class % 2][i], 1};
}

/* Of a number from 1 on; by hand, since the library has no libm. */
static double cube_root(double x)
{
    double root = x;
    for (int i = 0; i < 64; i++)
        root = (2 * root + x / (root * root)) / 3;
    return root;
}

float tuned_lead(const struct tb_caps *caps, int row, int class)
{
    const struct tb_kernel *const kernel = kernel_row(row);
    struct tb_caps any = *caps;
    double product = 1;
    any.strict = false;
    for (int i = 0; i < TB_SAMPLES; i++) {
        const struct tb_extent x = tuned_sample(class, i);
        const int best = kernel_estimated(&any, kernel->ab, kernel->c, kernel->ta, kernel->tb, &x);
        product *= best < 0 ? 1 : kernel_estimate(&any, row, &x) / kernel_estimate(&any, best, &x);
    }
    return (float)cube_root(product);
}

/* --- Choice ---
 */

const struct tb_tuned_row *tuned_entry(const struct tb_caps *caps, enum tb_type ab, enum tb_type c,
                                       bool ta, bool tb, const struct tb_extent *x)
{
    const int pair = caps->tuned != NULL ? shape_pair(ab, c) : -1;
    const int class = pair >= 0 ? shape_class(x) : -1;
    const struct tb_tuned_row *const entry =
        class >= 0 ? &caps->tuned->at[pair][ta + 2 * tb][class] : NULL;
    const struct tb_kernel *const row = kernel_row(entry != NULL ? entry->row - 1 : -1);
    return row != NULL && row->ab == ab && row->c == c && row->ta == ta && row->tb == tb ? entry
                                                                                         : NULL;
}

/* Tiles fit one shape of a class better than another, which the estimate knows: a measured row is
 * taken where the estimate, corrected by what was measured, puts it clearly in front. */
int tuned_choice(const struct tb_caps *caps, enum tb_type ab, enum tb_type c, bool ta, bool tb,
                 const struct tb_extent *x)
{
    const struct tb_tuned_row *const entry = tuned_entry(caps, ab, c, ta, tb, x);
    const int row = entry != NULL ? entry->row - 1 : -1;
    if (row < 0 || kernel_why_not(caps, row, x) != NULL)
        return -1;
    struct tb_caps any = *caps; /* it was measured beside all rows */
    any.strict = false;
    const int best = kernel_estimated(&any, ab, c, ta, tb, x);
    const double ratio = kernel_estimate(caps, row, x) / kernel_estimate(caps, best, x);
    return ratio * (double)entry->gain <= TB_TUNED_GAIN * (double)entry->lead ? row : -1;
}

static const struct tb_tuned_row *entry_of(const struct tb_caps *caps, int row,
                                           const struct tb_extent *x)
{
    const struct tb_kernel *const kernel = kernel_row(row);
    const struct tb_tuned_row *const entry =
        tuned_entry(caps, kernel->ab, kernel->c, kernel->ta, kernel->tb, x);
    return entry != NULL && entry->row - 1 == row ? entry : NULL;
}

double tuned_correction(const struct tb_caps *caps, int row, const struct tb_extent *x)
{
    const struct tb_tuned_row *const entry = entry_of(caps, row, x);
    const double factor =
        entry != NULL && entry->lead > 0 ? (double)entry->gain / (double)entry->lead : 1;
    return factor < 1 ? factor : 1;
}

struct tb_block_order tuned_order(const struct tb_caps *caps, int row, const struct tb_extent *x)
{
    const struct tb_kernel *const kernel = kernel_row(row);
    const struct tb_tuned_row *const entry = entry_of(caps, row, x);
    if (entry == NULL ||
        tuned_choice(caps, kernel->ab, kernel->c, kernel->ta, kernel->tb, x) != row)
        return (struct tb_block_order){0, 0};
    return (struct tb_block_order){entry->band, (int16_t)entry->hint};
}

/* --- What it holds for ---
 */

static uint64_t mix(uint64_t sum, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum = (sum ^ ((const unsigned char *)bytes)[i]) * UINT64_C(1099511628211);
    return sum;
}

uint64_t tuned_table(void)
{
    uint64_t sum = UINT64_C(14695981039346656037);
    for (int i = 0; i < kernel_count(); i++) {
        const struct tb_kernel *const row = kernel_row(i);
        const int facts[] = {row->bm,        row->bn,   row->bk,     row->threads,
                             row->smem,      row->rate, row->cc_min, row->cc_max,
                             row->blocks_sm, row->pair, row->family};
        sum = mix(mix(sum, row->name, strlen(row->name)), facts, sizeof facts);
    }
    return sum;
}

static void head_of(const struct tb_caps *caps, char out[TB_TUNED_LINE])
{
    snprintf(out, TB_TUNED_LINE, "kernels 2 %s %d %d %016llx", TB_VERSION, caps->cc, caps->sms,
             (unsigned long long)tuned_table());
}

int tuned_count(const struct tb_tuned *tuned, int pair)
{
    int count = 0;
    for (int p = pair < 0 ? 0 : pair; p < (pair < 0 ? TB_PAIRS : pair + 1); p++)
        for (int layout = 0; layout < TB_LAYOUTS; layout++)
            for (int class = 0; class < TB_SHAPE_CLASSES; class ++)
                count += tuned->at[p][layout][class].row > 0;
    return count;
}

/* --- Reading ---
 */

struct span {
    const char *at, *end;
};

static bool next_line(struct span *text, struct span *line)
{
    if (text->at >= text->end)
        return false;
    const char *const newline = memchr(text->at, '\n', (size_t)(text->end - text->at));
    *line = (struct span){text->at, newline != NULL ? newline : text->end};
    text->at = newline != NULL ? newline + 1 : text->end;
    return true;
}

static struct span next_word(struct span *line)
{
    while (line->at < line->end && *line->at == ' ')
        line->at++;
    struct span word = *line;
    while (line->at < line->end && *line->at != ' ')
        line->at++;
    word.end = line->at;
    return word;
}

static bool is_text(struct span x, const char *text)
{
    const size_t length = (size_t)(x.end - x.at);
    return strlen(text) == length && memcmp(x.at, text, length) == 0;
}

/* A whole number of at most nine digits. */
static bool take_whole(struct span *line, int least, int most, int *out)
{
    const struct span word = next_word(line);
    int value = 0;
    if (word.at == word.end || word.end - word.at > 9)
        return false;
    for (const char *at = word.at; at < word.end; at++) {
        if (*at < '0' || *at > '9')
            return false;
        value = value * 10 + (*at - '0');
    }
    *out = value;
    return value >= least && value <= most;
}

static int row_of(struct span name)
{
    for (int i = 0; i < kernel_count(); i++)
        if (is_text(name, kernel_row(i)->name))
            return i;
    return -1;
}

int tuned_class_of(const char *name, size_t length)
{
    char own[TB_CLASS_NAME];
    for (int class = 0; class < TB_SHAPE_CLASSES; class ++) {
        shape_class_name(class, own);
        if (strlen(own) == length && memcmp(own, name, length) == 0)
            return class;
    }
    return -1;
}

enum { BAND_MAX = 256, RATE_MAX = 900000000, WHOLE = 1000 };

static bool read_entry(struct span line, const struct tb_caps *caps, struct tb_tuned *out)
{
    struct tb_caps any = *caps; /* what this process asks for is not the entry's fault */
    int band, hint, rate, gain;
    any.strict = false;
    if (!is_text(next_word(&line), "kernel"))
        return false;
    const int row = row_of(next_word(&line));
    const struct span name = next_word(&line);
    const int class = tuned_class_of(name.at, (size_t)(name.end - name.at));
    if (row < 0 || class < 0 || kernel_why_not(&any, row, NULL) != NULL ||
        !take_whole(&line, 0, BAND_MAX, &band) || !take_whole(&line, 0, TB_KHINTS - 1, &hint) ||
        !take_whole(&line, 1, RATE_MAX, &rate) || !take_whole(&line, 1, WHOLE, &gain) ||
        next_word(&line).at != line.end)
        return false;
    const struct tb_kernel *const kernel = kernel_row(row);
    const int pair = shape_pair(kernel->ab, kernel->c);
    struct tb_tuned_row *const at =
        pair < 0 ? NULL : &out->at[pair][kernel->ta + 2 * kernel->tb][class];
    if (at == NULL || at->row != 0 || (hint > 0 && kernel->family != TB_SM90))
        return false;
    *at = (struct tb_tuned_row){
        (int16_t)(row + 1), (int16_t)band,       hint,
        (float)rate,        (float)gain / WHOLE, tuned_lead(caps, row, class)};
    return true;
}

enum tb_tuned_state tuned_parse(const char *text, size_t length, const struct tb_caps *caps,
                                struct tb_tuned *out, int *bad)
{
    struct span rest = {text, text + length}, line;
    char head[TB_TUNED_LINE];
    memset(out, 0, sizeof *out);
    *bad = 0;
    if (length > TB_TUNED_BYTES_MAX || !next_line(&rest, &line))
        return TB_TUNED_SPOILED;
    head_of(caps, head);
    if (!is_text(line, head))
        return is_text(next_word(&line), "kernels") ? TB_TUNED_FOREIGN : TB_TUNED_SPOILED;
    while (next_line(&rest, &line)) {
        if (is_text(line, "end") && rest.at == rest.end)
            return TB_TUNED_FITS;
        if (line.at == line.end || *line.at != '#')
            *bad += !read_entry(line, caps, out);
    }
    memset(out, 0, sizeof *out);
    return TB_TUNED_SPOILED;
}

/* --- Writing ---
 */

static int put_entry(const struct tb_tuned_row *x, int class, char out[TB_TUNED_LINE])
{
    char name[TB_CLASS_NAME];
    const double rate = x->rate > 1 ? (x->rate < (float)RATE_MAX ? x->rate : RATE_MAX) : 1;
    const double gain = x->gain * WHOLE;
    shape_class_name(class, name);
    return snprintf(out, TB_TUNED_LINE, "kernel %s %s %d %d %d %d\n", kernel_row(x->row - 1)->name,
                    name, x->band, (int)x->hint, (int)rate,
                    gain > 1 ? (gain < WHOLE ? (int)(gain + 0.5) : WHOLE) : 1);
}

size_t tuned_print(const struct tb_tuned *tuned, const struct tb_caps *caps, char *text,
                   size_t room)
{
    char line[TB_TUNED_LINE];
    size_t used = 0;
    head_of(caps, line);
    int length =
        snprintf(text, room,
                 "%s\n# kernel, class of shapes, band, L2 hint, GFLOP/s, its time in thousandths "
                 "of the estimate's choice\n",
                 line);
    if (length < 0 || (size_t)length >= room)
        return 0;
    used = (size_t)length;
    for (int i = 0; i < TB_PAIRS * TB_LAYOUTS * TB_SHAPE_CLASSES; i++) {
        const int class = i % TB_SHAPE_CLASSES, layout = i / TB_SHAPE_CLASSES % TB_LAYOUTS;
        const struct tb_tuned_row *const x =
            &tuned->at[i / TB_SHAPE_CLASSES / TB_LAYOUTS][layout][class];
        if (x->row < 1 || kernel_row(x->row - 1) == NULL)
            continue;
        length = put_entry(x, class, line);
        if (used + (size_t)length >= room)
            return 0;
        memcpy(text + used, line, (size_t)length + 1);
        used += (size_t)length;
    }
    if (used + 5 > room)
        return 0;
    memcpy(text + used, "end\n", 5);
    return used + 4;
}
