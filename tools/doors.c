/* SPDX-License-Identifier: BSD-3-Clause
 * The names of the doors, as spelling times routine. It repeats the table of the shim on purpose:
 * the command must work without the library, and the tests compare the two. */
#include "doors.h"

#include <stddef.h>
#include <string.h>

static const struct spelling {
    const char *prefix, *suffix;
    struct door door;
} spellings[] = {
    {"scipy_cblas_", "64_", {.wide = true}},
    {"scipy_cblas_", "", {.wide = false}},
    {"scipy_", "_64_", {.wide = true}},
    {"scipy_", "_", {.wide = false}},
    {"cblas_", "_64", {.wide = true}},
    {"cblas_", "64_", {.wide = true}},
    {"cblas_", "", {.wide = false}},
    {"", "_64_", {.wide = true}},
    {"", "64_", {.wide = true}},
    {"", "_64", {.wide = true, .bare = true}},
    {"", "_", {.wide = false}},
    {"", "", {.bare = true}},
};

/* Types by letter, then the routine. */
static const struct routine {
    const char *types, *name;
} routines[] = {
    {"sdcz", "gemm"},       {"sdcz", "symm"},
    {"sdcz", "syrk"},       {"sdcz", "syr2k"},
    {"sdcz", "trmm"},       {"sdcz", "trsm"},
    {"cz", "hemm"},         {"cz", "herk"},
    {"cz", "her2k"},        {"cz", "gemm3m"},
    {"sdcz", "gemmt"},      {"sdcz", "gemmtr"},
    {"sdcz", "gemm_batch"}, {"sdcz", "gemm_batch_strided"},
};

static const char *const half_names[] = {
    "hgemm",          "shgemm",           "sbgemm",       "bgemm",
    "gemm_f16f16f32", "gemm_bf16bf16f32", "sbgemm_batch", "sbgemm_batch_strided",
};

static bool equal(const char *text, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(text, name, length) == 0;
}

static bool is_routine(const char *text, size_t length)
{
    for (size_t i = 0; i < sizeof half_names / sizeof *half_names; i++)
        if (equal(text, length, half_names[i]))
            return true;
    for (size_t i = 0; length > 1 && i < sizeof routines / sizeof *routines; i++)
        if (strchr(routines[i].types, text[0]) != NULL &&
            equal(text + 1, length - 1, routines[i].name))
            return true;
    return false;
}

bool door_parse(const char *symbol, struct door *out)
{
    size_t length = strlen(symbol);
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        const struct spelling *s = &spellings[i];
        size_t head = strlen(s->prefix), tail = strlen(s->suffix);
        if (length <= head + tail || strncmp(symbol, s->prefix, head) != 0 ||
            strcmp(symbol + length - tail, s->suffix) != 0 ||
            !is_routine(symbol + head, length - head - tail))
            continue;
        if (out != NULL)
            *out = s->door;
        return true;
    }
    return false;
}

bool door_is_closed_lapack(const char *symbol)
{
    static const char *const closed[] = {"getrf_", "getrs_", "gesv_",  "potrf_", "potri_",
                                         "lauum_", "trtri_", "trtrs_", "posv_"};
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++)
        if (symbol[0] != '\0' && strchr("sdcz", symbol[0]) != NULL &&
            strcmp(symbol + 1, closed[i]) == 0)
            return true;
    return false;
}
