/* SPDX-License-Identifier: BSD-3-Clause
 * Reads the environment into struct tb_conf, once. conf.def is the table; this file holds one
 * parser per kind of value. Knows nothing about what the values are used for. */
#include "conf.h"
#include "log.h"
#include <ctype.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Every parser: false if the text is not a value of the kind; *out is then untouched. */
static bool parse_choice(const char *text, const char *const *words, int *out)
{
    for (int i = 0; words[i] != NULL; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

#define TB_CHOICE_PARSER(KIND, TYPE, ...)                                                          \
    static bool parse_##KIND(const char *text, TYPE *out)                                          \
    {                                                                                              \
        static const char *const words[] = {__VA_ARGS__, NULL};                                    \
        int i = 0;                                                                                 \
        if (!parse_choice(text, words, &i))                                                        \
            return false;                                                                          \
        *out = (TYPE)i;                                                                            \
        return true;                                                                               \
    }

TB_CHOICE_PARSER(CHOICE_ROUTE, enum tb_conf_route, "auto", "cpu", "gpu")
TB_CHOICE_PARSER(CHOICE_MATH, enum tb_conf_math, "auto", "strict", "tf32")
TB_CHOICE_PARSER(CHOICE_START, enum tb_conf_start, "auto", "wait")
TB_CHOICE_PARSER(CHOICE_RESIDENCY, enum tb_conf_residency, "auto", "off", "verify")

static bool parse_TEXT(const char *text, const char **out)
{
    *out = text;
    return true;
}

/* A number from 0 up, in plain decimal, locale apart: "1e3", "nan" and "-1" are not. */
static bool parse_number(const char *text, double *out, const char **rest)
{
    if (!isdigit((unsigned char)text[0]))
        return false;
    double value = 0, unit = 1;
    bool fraction = false;
    for (; isdigit((unsigned char)*text) || (*text == '.' && !fraction); text++) {
        if (*text == '.') {
            fraction = true;
            continue;
        }
        value = value * 10 + (*text - '0');
        if (fraction)
            unit *= 10;
    }
    *out = value / unit;
    *rest = text;
    return *out < 0x1p64; /* nor is what hundreds of digits come to: infinity, or no number */
}

static bool parse_whole(const char *text, int max, int *out)
{
    double value;
    const char *rest;
    if (strchr(text, '.') != NULL || !parse_number(text, &value, &rest) || *rest != '\0' ||
        value > max)
        return false;
    *out = (int)value;
    return true;
}

static bool parse_COUNT(const char *text, int *out)
{
    return parse_whole(text, 1024, out);
}

static bool parse_LEVEL(const char *text, int *out)
{
    return parse_whole(text, 3, out);
}

static bool parse_SHARE(const char *text, double *out)
{
    double value;
    const char *rest;
    if (!parse_number(text, &value, &rest) || *rest != '\0' || value > 1)
        return false;
    *out = value;
    return true;
}

static bool parse_MEMORY(const char *text, struct tb_conf_memory *out)
{
    double value;
    const char *rest;
    if (!parse_number(text, &value, &rest))
        return false;
    if (strcmp(rest, "%") == 0) {
        if (value > 100 || value <= 0)
            return false;
        *out = (struct tb_conf_memory){.bytes = 0, .percent = value};
        return true;
    }
    double unit = 1;
    switch (toupper((unsigned char)*rest)) {
    case 'T':
        unit *= 1024;
        /* fall through */
    case 'G':
        unit *= 1024;
        /* fall through */
    case 'M':
        unit *= 1024;
        /* fall through */
    case 'K':
        unit *= 1024;
        rest++;
    }
    if (*rest != '\0' || value * unit < 1 || value * unit >= 0x1p62)
        return false;
    *out = (struct tb_conf_memory){.bytes = (size_t)(value * unit), .percent = 0};
    return true;
}

void conf_parse(struct tb_conf *out, char *(*lookup)(const char *name),
                void (*complain)(const char *line))
{
    /* A parser's answer about a default of the table is not looked at: a test checks each of them.
     */
#define CONF(KIND, FIELD, VARIABLE, DEFAULT, HELP)                                                 \
    (void)parse_##KIND(DEFAULT, &out->FIELD);                                                      \
    {                                                                                              \
        const char *const text = lookup(VARIABLE);                                                 \
        if (text != NULL && text[0] != '\0' && !parse_##KIND(text, &out->FIELD)) {                 \
            char line[512];                                                                        \
            snprintf(line, sizeof line, "%s='%.100s' is not understood (%s); using '%s'",          \
                     VARIABLE, text, HELP, DEFAULT);                                               \
            complain(line);                                                                        \
        }                                                                                          \
    }
#include "conf.def"
#undef CONF
}

static struct tb_conf the_conf;
static pthread_once_t once = PTHREAD_ONCE_INIT;
enum {
#define CONF(KIND, FIELD, VARIABLE, DEFAULT, HELP) ROW_##FIELD,
#include "conf.def"
#undef CONF
    ROWS
};
static char pending[ROWS][512]; /* complaints, kept until the log's own settings are known */
static int pendings;
static char *copies[ROWS + 1] __attribute__((used)); /* so that none of them is lost */
static int copied;

static void keep(const char *line)
{
    if (pendings < ROWS)
        snprintf(pending[pendings++], sizeof pending[0], "%s", line);
}

/* The program may change its environment later: texts are copied, for ever. */
static char *lookup_copy(const char *name)
{
    const char *const text = secure_getenv(name);
    if (text == NULL || copied == ROWS)
        return NULL;
    copies[copied] = strdup(text);
    return copies[copied++];
}

/* The file is opened later, on another thread: by then the program may be in another folder. */
static const char *whole_path(const char *path)
{
    char *const folder = path[0] != '\0' && path[0] != '/' ? getcwd(NULL, 0) : NULL;
    char *whole = NULL;
    if (folder == NULL)
        return path;
    if (asprintf(&whole, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, path) < 0)
        whole = NULL;
    free(folder);
    copies[ROWS] = whole;
    return whole != NULL ? whole : path;
}

/* May begin anew: in the child of a process that forked in the middle of it. */
static void read_once(void)
{
    pendings = copied = 0;
    conf_parse(&the_conf, lookup_copy, keep);
    the_conf.profile = whole_path(the_conf.profile);
    log_configure(&the_conf);
    for (int i = 0; i < pendings; i++)
        log_line(0, "%s", pending[i]);
}

const struct tb_conf *conf_get(void)
{
    pthread_once(&once, read_once);
    return &the_conf;
}
