/* SPDX-License-Identifier: BSD-3-Clause
 * The built-in figures, and the text of a profile: a line per item, words and plain decimal numbers
 * apart from any locale, every item exactly once, "end" last. A file is read in every process that
 * uses the device, so nothing in it is believed: names are cut, numbers have to lie in a range that
 * some machine could have. */
#include "profile.h"

#include <string.h>

const struct tb_size profile_shape[TB_SHAPES] = {
    [TB_SQUARE] = {2048, 2048, 2048}, [TB_THIN_M] = {16, 4096, 1024},
    [TB_THIN_N] = {4096, 16, 1024},   [TB_THIN_K] = {2048, 2048, 16},
    [TB_THIN_MN] = {32, 32, 32768},   [TB_LITTLE] = {128, 128, 128}};

const double profile_staged_mb[TB_STAGED] = {1, 4, 16, 64, 128};

/* --- Built in ---
 */

/* One core with AVX-512, and 16 of them, of the host of an H200 (perf/NOTES.md), OpenBLAS. */
enum { BUILTIN_CPUS = 16 };
static const double builtin_cpu[TB_TYPES][TB_CREWS][TB_SHAPES] = {
    [TB_F16] = {{94, 18, 17, 10, 20, 35}, {189, 18, 17, 10, 20, 23}},
    [TB_BF16] = {{65, 23, 22, 8.5, 29, 33}, {246, 32, 30, 9, 28, 40}},
    [TB_F32] = {{150, 73, 57, 49, 64, 104}, {1124, 436, 395, 175, 52, 100}},
    [TB_F64] = {{63, 33, 31, 30, 32, 50}, {618, 200, 230, 123, 38, 78}},
    [TB_C32] = {{152, 66, 67, 67, 90, 124}, {1147, 600, 550, 400, 90, 300}},
    [TB_C64] = {{76, 30, 38, 27, 35, 60}, {619, 300, 350, 230, 55, 200}},
};

/* 132 multiprocessors at 1980 MHz, FP64 by Hopper's tensor cores; there FP32 runs on the 16-bit
 * ones. */
static const double builtin_gpu[TB_TYPES] = {[TB_F16] = 650e3, [TB_BF16] = 750e3, [TB_F32] = 45e3,
                                             [TB_F64] = 52e3,  [TB_C32] = 43e3,   [TB_C64] = 50e3};
static const double builtin_f32_of_90 = 215e3;

void profile_builtin(const struct tb_caps *caps, int cpus, struct tb_profile *out)
{
    *out = (struct tb_profile){
        .cpus = cpus < 1 ? 1 : cpus,
        .in = {9e3, 53},
        .out = {9e3, 53},
        .copier = 7.3,
        .staged_in = {62e3, 211e3, 870e3, 2310e3, 3900e3},
        .staged_out = {81e3, 146e3, 820e3, 4600e3, 7000e3},
        .offload_ns = 220e3,
        .start_ns = 0.4e9,
    };
    const double grown = (double)out->cpus / BUILTIN_CPUS;
    for (int t = 0; t < TB_TYPES; t++)
        for (int s = 0; s < TB_SHAPES; s++) {
            const double alone = builtin_cpu[t][TB_ALONE][s];
            const double together = builtin_cpu[t][TB_TOGETHER][s] * grown;
            out->cpu_rate[t][TB_ALONE][s] = alone;
            out->cpu_rate[t][TB_TOGETHER][s] =
                together < alone || out->cpus == 1 ? alone : together;
        }
    double size = 1, fp64 = 1;
    if (caps != NULL && caps->sms > 0) {
        size = (double)caps->sms / 132 * (caps->clock_mhz > 0 ? caps->clock_mhz / 1980.0 : 1);
        fp64 = caps->fp64_ratio > 0 ? 2.0 / caps->fp64_ratio : 1;
        if (caps->cc != 90)
            fp64 /= 2; /* not measured: the rate of plain units there */
    }
    for (int t = 0; t < TB_TYPES; t++)
        out->gpu_rate[t] = builtin_gpu[t] * size * (t == TB_F64 || t == TB_C64 ? fp64 : 1);
    if (caps != NULL && caps->cc == 90)
        out->gpu_rate[TB_F32] = builtin_f32_of_90 * size;
    if (caps != NULL)
        profile_name(caps->name, out->gpu);
}

void profile_scale_cpu(struct tb_profile *profile, double factor)
{
    for (int t = 0; t < TB_TYPES; t++)
        for (int c = 0; c < TB_CREWS; c++)
            for (int s = 0; s < TB_SHAPES; s++)
                profile->cpu_rate[t][c][s] *= factor;
}

bool profile_fits(const struct tb_profile *profile, const char *gpu, const char *cpu_blas, int cpus)
{
    return strcmp(profile->gpu, gpu) == 0 && strcmp(profile->cpu_blas, cpu_blas) == 0 &&
           profile->cpus == cpus;
}

void profile_name(const char *text, char out[TB_PROFILE_NAME])
{
    size_t used = 0;
    for (; *text != '\0' && used < TB_PROFILE_NAME - 1; text++) {
        const bool visible = *text > ' ' && *text <= '~';
        if (!visible && (used == 0 || out[used - 1] == ' '))
            continue;
        out[used++] = ' ';
        if (visible)
            out[used - 1] = *text;
    }
    while (used > 0 && out[used - 1] == ' ')
        used--;
    memset(out + used, 0, TB_PROFILE_NAME - used);
}

/* --- The text ---
 */

/* A number of the profile: where it lies, and what it may be. */
struct number {
    double *at;
    double least, most;
};

enum { NUMBERS_MAX = 6 };
_Static_assert((int)NUMBERS_MAX >= (int)TB_SHAPES && (int)NUMBERS_MAX >= (int)TB_STAGED,
               "room for a line");

/* One line: its words, and the numbers behind them; or a name. */
struct item {
    const char *word[3]; /* NULL where there are fewer */
    char *name;          /* not NULL: the rest of the line is one */
    int count;
    struct number number[NUMBERS_MAX];
};

#define ITEM_HEADER  0
#define ITEM_GPU     1
#define ITEM_BLAS    2
#define ITEM_CPUS    3
#define ITEM_IN      4
#define ITEM_OUT     5
#define ITEM_COPIER  6
#define ITEM_STAGED  7 /* in, and out */
#define ITEM_OFFLOAD 9
#define ITEM_START   10
#define ITEM_RATES   11
#define ITEM_CPU     (ITEM_RATES + TB_TYPES)
#define ITEM_END     (ITEM_CPU + TB_TYPES * TB_CREWS)
#define ITEMS        (ITEM_END + 1)

static const char *const type_words[TB_TYPES] = {
    [TB_F16] = "f16", [TB_BF16] = "bf16", [TB_F32] = "f32",
    [TB_F64] = "f64", [TB_C32] = "c32",   [TB_C64] = "c64"};

/* Whole numbers are doubles here, so that there is one kind. */
struct whole {
    double version, cpus;
};

static void item_number(struct item *item, double *at, double least, double most)
{
    item->number[item->count++] = (struct number){at, least, most};
}

static void item_link(struct item *item, struct tb_link *link)
{
    item_number(item, &link->wait_ns, 0, 1e9);
    item_number(item, &link->rate, 1e-3, 1e5);
}

/* The line of number i, for `profile`. Reader and writer walk the same ones. */
static struct item item_of(int i, struct tb_profile *profile, struct whole *whole)
{
    struct item item = {.word = {NULL}};
    if (i >= ITEM_CPU && i < ITEM_END) {
        const int type = (i - ITEM_CPU) / TB_CREWS, crew = (i - ITEM_CPU) % TB_CREWS;
        item.word[0] = "cpu";
        item.word[1] = type_words[type];
        item.word[2] = crew == TB_ALONE ? "alone" : "together";
        for (int s = 0; s < TB_SHAPES; s++)
            item_number(&item, &profile->cpu_rate[type][crew][s], 1e-3, 1e6);
        return item;
    }
    if (i >= ITEM_RATES && i < ITEM_CPU) {
        item.word[0] = "gpu-rate";
        item.word[1] = type_words[i - ITEM_RATES];
        item_number(&item, &profile->gpu_rate[i - ITEM_RATES], 1, 1e8);
        return item;
    }
    switch (i) {
    case ITEM_HEADER:
        item.word[0] = "tileblas-profile";
        item_number(&item, &whole->version, 1, 1e6);
        break;
    case ITEM_GPU:
        item.word[0] = "gpu";
        item.name = profile->gpu;
        break;
    case ITEM_BLAS:
        item.word[0] = "cpu-blas";
        item.name = profile->cpu_blas;
        break;
    case ITEM_CPUS:
        item.word[0] = "cpus";
        item_number(&item, &whole->cpus, 1, 1e6);
        break;
    case ITEM_IN:
        item.word[0] = "link-in";
        item_link(&item, &profile->in);
        break;
    case ITEM_OUT:
        item.word[0] = "link-out";
        item_link(&item, &profile->out);
        break;
    case ITEM_COPIER:
        item.word[0] = "copier";
        item_number(&item, &profile->copier, 1e-3, 1e5);
        break;
    case ITEM_STAGED:
    case ITEM_STAGED + 1:
        item.word[0] = i == ITEM_STAGED ? "staged-in" : "staged-out";
        for (int n = 0; n < TB_STAGED; n++)
            item_number(&item, i == ITEM_STAGED ? &profile->staged_in[n] : &profile->staged_out[n],
                        1, 1e12);
        break;
    case ITEM_OFFLOAD:
        item.word[0] = "offload";
        item_number(&item, &profile->offload_ns, 0, 1e10);
        break;
    case ITEM_START:
        item.word[0] = "start";
        item_number(&item, &profile->start_ns, 0, 1e12);
        break;
    case ITEM_END:
        item.word[0] = "end";
        break;
    }
    return item;
}

/* What is left of a line. */
struct cursor {
    const char *at, *end;
};

static void skip_blanks(struct cursor *line)
{
    while (line->at < line->end && *line->at == ' ')
        line->at++;
}

static bool take_word(struct cursor *line, const char *word)
{
    const size_t length = strlen(word);
    skip_blanks(line);
    if ((size_t)(line->end - line->at) < length || memcmp(line->at, word, length) != 0)
        return false;
    if (line->at + length < line->end && line->at[length] != ' ')
        return false;
    line->at += length;
    return true;
}

/* Digits, perhaps a point and digits: at most 15 in all, so that a double holds them. */
static bool take_number(struct cursor *line, double *out)
{
    double value = 0, unit = 1;
    int digits = 0;
    bool fraction = false;
    skip_blanks(line);
    for (; line->at < line->end && *line->at != ' '; line->at++) {
        if (*line->at == '.' && digits > 0 && !fraction) {
            fraction = true;
            continue;
        }
        if (*line->at < '0' || *line->at > '9' || ++digits > 15)
            return false;
        value = value * 10 + (*line->at - '0');
        unit *= fraction ? 10 : 1;
    }
    *out = value / unit;
    return digits > 0;
}

static bool take_name(struct cursor *line, char out[TB_PROFILE_NAME])
{
    char raw[TB_PROFILE_NAME];
    skip_blanks(line);
    const size_t length = (size_t)(line->end - line->at);
    if (length >= sizeof raw || memchr(line->at, '\0', length) != NULL)
        return false;
    memcpy(raw, line->at, length);
    raw[length] = '\0';
    profile_name(raw, out);
    line->at = line->end;
    return strcmp(raw, out) == 0; /* nothing unprintable in it */
}

static bool item_words(const struct item *item, struct cursor *line)
{
    for (size_t i = 0; i < sizeof item->word / sizeof *item->word && item->word[i] != NULL; i++)
        if (!take_word(line, item->word[i]))
            return false;
    return true;
}

/* The whole line, or nothing. */
static bool item_read(const struct item *item, struct cursor line)
{
    if (!item_words(item, &line))
        return false;
    if (item->name != NULL && !take_name(&line, item->name))
        return false;
    for (int i = 0; i < item->count; i++) {
        const struct number *const n = &item->number[i];
        if (!take_number(&line, n->at) || !(*n->at >= n->least && *n->at <= n->most))
            return false;
    }
    skip_blanks(&line);
    return line.at == line.end;
}

static bool next_line(struct cursor *text, struct cursor *line)
{
    if (text->at >= text->end)
        return false;
    const char *newline = memchr(text->at, '\n', (size_t)(text->end - text->at));
    *line = (struct cursor){text->at, newline != NULL ? newline : text->end};
    text->at = newline != NULL ? newline + 1 : text->end;
    return true;
}

const char *profile_kernels(const char *text, size_t length)
{
    static const char sign[] = "\nend\nkernels ";
    const char *const found = memmem(text, length, sign, sizeof sign - 1);
    return found != NULL ? found + sizeof "\nend\n" - 1 : NULL;
}

bool profile_parse(const char *text, size_t length, struct tb_profile *out, const char **why)
{
    struct tb_profile profile = {.source = TB_PROFILE_SAVED};
    struct whole whole = {0};
    struct cursor rest = {text, text + length}, line;
    const char *const kernels = profile_kernels(text, length);
    *why = "it is no profile";
    if (kernels != NULL)
        rest.end = kernels;
    if (rest.end - rest.at > TB_PROFILE_BYTES_MAX)
        return false;
    for (int i = 0; i < ITEMS;) {
        if (!next_line(&rest, &line)) {
            *why = i == 0 ? "it is empty" : "its end is missing";
            return false;
        }
        if (i > 0 && line.at < line.end && *line.at == '#')
            continue;
        const struct item item = item_of(i, &profile, &whole);
        if (!item_read(&item, line))
            return false;
        if (i == ITEM_HEADER && whole.version != TB_PROFILE_PLAIN &&
            whole.version != TB_PROFILE_VERSION) {
            *why = "it is of another version";
            return false;
        }
        *why = "a line of it is not understood";
        i++;
    }
    if (rest.at != rest.end || (kernels != NULL && whole.version < TB_PROFILE_VERSION)) {
        *why = "something follows its end";
        return false;
    }
    profile.cpus = (int)whole.cpus;
    *out = profile;
    return true;
}

/* --- Writing ---
 */

struct paper {
    char *text;
    size_t room, used;
    bool full;
};

static void put(struct paper *paper, const char *text)
{
    const size_t length = strlen(text);
    if (paper->full || length >= paper->room - paper->used) {
        paper->full = true;
        return;
    }
    memcpy(paper->text + paper->used, text, length + 1);
    paper->used += length;
}

/* With three decimals, none of them at the end a zero; in no locale. */
static void put_number(struct paper *paper, const struct number *number)
{
    char digits[32];
    size_t at = sizeof digits;
    double value = *number->at;
    value = value >= number->least ? value : number->least; /* also what is no number */
    value = value <= number->most ? value : number->most;
    uint64_t rest = (uint64_t)(value * 1000 + 0.5);
    digits[--at] = '\0';
    for (int i = 0; i < 4 || rest > 0; i++) {
        if (i == 3)
            digits[--at] = '.';
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    }
    size_t end = sizeof digits - 1;
    while (digits[end - 1] == '0')
        end--;
    digits[digits[end - 1] == '.' ? end - 1 : end] = '\0';
    put(paper, " ");
    put(paper, digits + at);
}

size_t profile_print(const struct tb_profile *profile, char *text, size_t room)
{
    struct tb_profile copy = *profile;
    struct whole whole = {TB_PROFILE_VERSION, profile->cpus};
    struct paper paper = {text, room, 0, room == 0};
    for (int i = 0; i < ITEMS; i++) {
        const struct item item = item_of(i, &copy, &whole);
        for (size_t w = 0; w < sizeof item.word / sizeof *item.word && item.word[w] != NULL; w++) {
            put(&paper, w > 0 ? " " : "");
            put(&paper, item.word[w]);
        }
        if (item.name != NULL) {
            put(&paper, " ");
            put(&paper, item.name);
        }
        for (int n = 0; n < item.count; n++)
            put_number(&paper, &item.number[n]);
        put(&paper, "\n");
        if (i == ITEM_HEADER)
            put(&paper, "# times in ns, rates in flop or bytes per ns\n");
    }
    return paper.full ? 0 : paper.used;
}
