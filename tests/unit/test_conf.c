/* SPDX-License-Identifier: BSD-3-Clause
 * conf.c: every row's default parses, good values are taken, bad ones cost one line and the
 * default. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include "../../src/conf.h"

static const char *given_name, *given_value;
static int complaints;
static char last[512];

static char *lookup(const char *name)
{
    if (given_name == NULL || strcmp(name, given_name) != 0)
        return NULL;
    static char copy[1024];
    strncpy(copy, given_value, sizeof copy - 1);
    return copy;
}

static void complain(const char *line)
{
    complaints++;
    strncpy(last, line, sizeof last - 1);
}

static struct tb_conf parse(const char *name, const char *value)
{
    struct tb_conf conf;
    memset(&conf, 0xee, sizeof conf);
    given_name = name;
    given_value = value;
    complaints = 0;
    conf_parse(&conf, lookup, complain);
    return conf;
}

Test(conf, defaults)
{
    const struct tb_conf c = parse(NULL, NULL);
    cr_assert_eq(complaints, 0);
    cr_assert_eq(c.route, TB_ROUTE_AUTO);
    cr_assert_eq(c.math, TB_MATH_AUTO);
    cr_assert_eq(c.start, TB_START_AUTO);
    cr_assert_eq(c.residency, TB_RESIDENCY_AUTO);
    cr_assert(c.memory.bytes == 0 && c.memory.percent == 90);
    cr_assert(c.verify == 0 && c.threads == 0 && c.verbose == 0);
    cr_assert_str_eq(c.cpu_blas, "");
    cr_assert_str_eq(c.devices, "all");
    cr_assert_str_eq(c.log, "");
}

/* A default that its own parser refuses would leave the field unset, silently. */
Test(conf, every_default_is_a_value)
{
    static const char *const rows[][2] = {
#define CONF(KIND, FIELD, VARIABLE, DEFAULT, HELP) {VARIABLE, DEFAULT},
#include "../../src/conf.def"
#undef CONF
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        parse(rows[i][0], rows[i][1]);
        cr_assert_eq(complaints, 0, "%s", last);
    }
}

Test(conf, good_values)
{
    cr_assert_eq(parse("TILEBLAS_ROUTE", "gpu").route, TB_ROUTE_GPU);
    cr_assert_eq(parse("TILEBLAS_ROUTE", "CPU").route, TB_ROUTE_CPU);
    cr_assert_eq(parse("TILEBLAS_MATH", "tf32").math, TB_MATH_TF32);
    cr_assert_eq(parse("TILEBLAS_START", "wait").start, TB_START_WAIT);
    cr_assert_eq(parse("TILEBLAS_MEMORY", "64M").memory.bytes, (size_t)64 << 20);
    cr_assert_eq(parse("TILEBLAS_MEMORY", "1.5g").memory.bytes, (size_t)3 << 29);
    cr_assert_eq(parse("TILEBLAS_MEMORY", "4096").memory.bytes, 4096);
    cr_assert_eq(parse("TILEBLAS_MEMORY", "12.5%").memory.percent, 12.5);
    cr_assert_eq(parse("TILEBLAS_THREADS", "12").threads, 12);
    cr_assert_eq(parse("TILEBLAS_VERIFY", "0.25").verify, 0.25);
    cr_assert_eq(parse("TILEBLAS_VERBOSE", "3").verbose, 3);
    cr_assert_str_eq(parse("TILEBLAS_LOG", "/tmp/x.%p").log, "/tmp/x.%p");
    cr_assert_eq(complaints, 0);
    parse("TILEBLAS_ROUTE", "");
    cr_assert_eq(complaints, 0, "empty is unset");
}

static const char *const bad[][2] = {
    {"TILEBLAS_ROUTE", "fpga"},    {"TILEBLAS_ROUTE", "gpu "},
    {"TILEBLAS_MATH", "1"},        {"TILEBLAS_MEMORY", "-1"},
    {"TILEBLAS_MEMORY", "0"},      {"TILEBLAS_MEMORY", "64MB"},
    {"TILEBLAS_MEMORY", "120%"},   {"TILEBLAS_MEMORY", "0%"},
    {"TILEBLAS_MEMORY", "lots"},   {"TILEBLAS_MEMORY", "9999999999999T"},
    {"TILEBLAS_MEMORY", "1.2.3M"}, {"TILEBLAS_THREADS", "-4"},
    {"TILEBLAS_THREADS", "1e3"},   {"TILEBLAS_THREADS", "99999"},
    {"TILEBLAS_VERIFY", "2"},      {"TILEBLAS_VERIFY", "nan"},
    {"TILEBLAS_VERBOSE", "4"},     {"TILEBLAS_VERBOSE", "yes"},
    {"TILEBLAS_START", "never"},   {"TILEBLAS_RESIDENCY", "on"},
};

Test(conf, bad_values)
{
    const struct tb_conf defaults = parse(NULL, NULL);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const struct tb_conf c = parse(bad[i][0], bad[i][1]);
        cr_assert_eq(complaints, 1, "%s=%s", bad[i][0], bad[i][1]);
        cr_assert(strstr(last, bad[i][0]) != NULL && strstr(last, bad[i][1]) != NULL, "%s", last);
        cr_assert(c.route == defaults.route && c.math == defaults.math &&
                  c.start == defaults.start && c.memory.bytes == defaults.memory.bytes &&
                  c.threads == defaults.threads && c.memory.percent == defaults.memory.percent &&
                  c.verify == defaults.verify && c.verbose == defaults.verbose &&
                  c.residency == defaults.residency);
    }
}

/* Infinity over infinity once both halves are long enough. */
Test(conf, hundreds_of_digits_are_no_number)
{
    static const char *const names[] = {"TILEBLAS_VERIFY", "TILEBLAS_MEMORY", "TILEBLAS_THREADS"};
    char digits[801];
    memset(digits, '1', 800);
    digits[400] = '.';
    digits[800] = '\0';
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct tb_conf c = parse(names[i], digits);
        cr_assert_eq(complaints, 1, "%s", names[i]);
        cr_assert(c.verify == 0 && c.memory.bytes == 0 && c.memory.percent == 90 && c.threads == 0);
    }
}
