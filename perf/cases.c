/* SPDX-License-Identifier: BSD-3-Clause
 * Reads what to measure. A line of a case file is key=value words; a value may be a list by commas,
 * and a line stands for every combination. A bare "level routine" line is an error, not a default.
 */
#include "perf.h"

#include <stdlib.h>
#include <string.h>

bool cases_type(const char *routine, enum tb_type *ab, enum tb_type *c, enum tb_op *op)
{
    static const struct {
        const char *name;
        enum tb_type ab, c;
    } halves[] = {{"hgemm", TB_F16, TB_F16},
                  {"bgemm", TB_BF16, TB_BF16},
                  {"shgemm", TB_F16, TB_F32},
                  {"sbgemm", TB_BF16, TB_F32}};
    static const char *const ops[TB_OPS] = {
        [TB_GEMM] = "gemm",   [TB_SYMM] = "symm", [TB_SYRK] = "syrk",
        [TB_SYR2K] = "syr2k", [TB_TRMM] = "trmm", [TB_TRSM] = "trsm"};
    for (size_t i = 0; i < sizeof halves / sizeof halves[0]; i++)
        if (strcmp(routine, halves[i].name) == 0) {
            *ab = halves[i].ab;
            *c = halves[i].c;
            *op = TB_GEMM;
            return true;
        }
    static const char letters[] = "sdcz";
    static const enum tb_type types[] = {TB_F32, TB_F64, TB_C32, TB_C64};
    const char *letter = routine[0] ? strchr(letters, routine[0]) : NULL;
    if (!letter)
        return false;
    *ab = *c = types[letter - letters];
    for (int i = 0; i < TB_OPS; i++)
        if (ops[i] && strcmp(routine + 1, ops[i]) == 0) {
            *op = (enum tb_op)i;
            return true;
        }
    return false;
}

bool perf_wants(const struct perf_options *options, const char *provider)
{
    const char *list = options->providers;
    const size_t n = strlen(provider);
    while (list) {
        if (strncmp(list, provider, n) == 0 && (list[n] == 0 || list[n] == ','))
            return true;
        list = strchr(list, ',');
        list = list ? list + 1 : NULL;
    }
    return !options->providers;
}

enum { CASES_KEYS = 8, CASES_TEXT = 256 };
static const char *const cases_keys[CASES_KEYS] = {"level", "routine", "size", "trans",
                                                   "alpha", "beta",    "dist", "memory"};
static const char *const cases_defaults[CASES_KEYS] = {"",  "",  "",       "nn",
                                                       "1", "0", "signed", "malloc"};

static bool cases_number(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && *end == 0;
}

/* NULL, or which key is wrong. */
static const char *cases_make(char word[CASES_KEYS][CASES_TEXT], struct perf_case *out)
{
    enum tb_type ab, c;
    enum tb_op op;
    char *end;
    memset(out, 0, sizeof *out);
    if (strcmp(word[0], "host") != 0 && strcmp(word[0], "kernel") != 0)
        return "level";
    snprintf(out->level, sizeof out->level, "%.7s", word[0]);
    if (!cases_type(word[1], &ab, &c, &op) || (op != TB_GEMM && word[0][0] == 'k'))
        return "routine";
    snprintf(out->routine, sizeof out->routine, "%.15s", word[1]);
    out->m = out->n = out->k = strtoll(word[2], &end, 10);
    if (*end == 'x')
        out->n = strtoll(end + 1, &end, 10);
    if (*end == 'x')
        out->k = strtoll(end + 1, &end, 10);
    if (*end || out->m < 1 || out->n < 1 || out->k < 1)
        return "size";
    if (strlen(word[3]) != 2 || !strchr("ntc", word[3][0]) || !strchr("ntc", word[3][1]))
        return "trans";
    snprintf(out->trans, sizeof out->trans, "%.2s", op == TB_GEMM ? word[3] : "ln");
    if (!cases_number(word[4], &out->alpha))
        return "alpha";
    if (!cases_number(word[5], &out->beta))
        return "beta";
    const int dist = data_dist_find(word[6]);
    if (dist < 0)
        return "dist";
    out->dist = (enum data_dist)dist;
    if (strcmp(word[7], "malloc") != 0 && strcmp(word[7], "pinned") != 0)
        return "memory";
    snprintf(out->memory, sizeof out->memory, "%.11s", out->level[0] == 'k' ? "device" : word[7]);
    return NULL;
}

struct cases_visit {
    void (*each)(const struct perf_case *, void *);
    void *arg;
    const char *lists[CASES_KEYS];
};

/* Goes through the values of key `at` and of those behind it, so that the last key varies fastest.
 */
static const char *cases_expand(const struct cases_visit *visit, char word[CASES_KEYS][CASES_TEXT],
                                int at)
{
    struct perf_case item;
    if (at == CASES_KEYS) {
        const char *wrong = cases_make(word, &item);
        if (!wrong && visit->each)
            visit->each(&item, visit->arg);
        return wrong;
    }
    for (const char *from = visit->lists[at];;) {
        const size_t n = strcspn(from, ",");
        snprintf(word[at], CASES_TEXT, "%.*s", (int)n, from);
        const char *wrong = cases_expand(visit, word, at + 1);
        if (wrong || !from[n])
            return wrong;
        from += n + 1;
    }
}

static const char *cases_line(char *line, struct cases_visit *visit)
{
    char word[CASES_KEYS][CASES_TEXT];
    char *state = NULL;
    memcpy(visit->lists, cases_defaults, sizeof cases_defaults);
    line[strcspn(line, "#\n")] = 0;
    char *text = strtok_r(line, " \t", &state);
    if (!text)
        return NULL;
    for (; text; text = strtok_r(NULL, " \t", &state)) {
        char *value = strchr(text, '=');
        int key = 0;
        if (!value)
            return text;
        *value++ = 0;
        while (key < CASES_KEYS && strcmp(cases_keys[key], text) != 0)
            key++;
        if (key == CASES_KEYS)
            return text;
        visit->lists[key] = value;
    }
    return cases_expand(visit, word, 0);
}

int cases_read(const char *path, void (*each)(const struct perf_case *, void *), void *arg)
{
    char line[1024];
    int number = 0;
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "%s: cannot be opened\n", path);
        return -1;
    }
    struct cases_visit visit = {.each = each, .arg = arg};
    while (fgets(line, sizeof line, file)) {
        number++;
        const char *wrong = cases_line(line, &visit);
        if (wrong) {
            fprintf(stderr, "%s:%d: wrong %s\n", path, number, wrong);
            fclose(file);
            return -1;
        }
    }
    fclose(file);
    return 0;
}
