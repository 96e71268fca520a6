/* SPDX-License-Identifier: BSD-3-Clause
 * The tileblas command: `run` starts one program with the preload library, `info` tells what the
 * library finds on this machine or in a program, `report` makes a page of a log or a timeline,
 * `tune` measures the machine. This file decides the command line and the exit status; scan.c,
 * machine.c, report.c and tune.c do the rest. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../src/version.h"
#include "library.h"
#include "machine.h"
#include "report.h"
#include "scan.h"
#include "tune.h"

/* As env(1), nohup(1) and the shells have it; 2 is a usage error. */
enum { EXIT_USAGE = 2, EXIT_OURS = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

static const struct option {
    const char *name, *variable, *fallback; /* fallback: the value of a bare option, or NULL */
    const char *help;
} options[] = {
    {"--route", "TILEBLAS_ROUTE", NULL, "auto, cpu, or gpu"},
    {"--math", "TILEBLAS_MATH", NULL, "auto, strict, or tf32"},
    {"--verbose", "TILEBLAS_VERBOSE", "1",
     "1 (also without =): summary at exit; 2: each call; 3: more"},
    {"--log", "TILEBLAS_LOG", NULL, "file for that output instead of stderr; %p: process id"},
    {"--memory", "TILEBLAS_MEMORY", NULL, "cap on device memory: bytes with K, M, G, or percent"},
    {"--devices", "TILEBLAS_DEVICES", NULL, "all, none, or a list of ordinals or UUIDs"},
    {"--threads", "TILEBLAS_THREADS", NULL, "copier threads"},
    {"--cpu-blas", "TILEBLAS_CPU_BLAS", NULL, "path or soname of the CPU BLAS, or next"},
};

static void print_usage(FILE *out)
{
    fputs("usage: tileblas run [option ...] [--] program [argument ...]\n"
          "       tileblas info\n"
          "       tileblas info program | library | folder\n"
          "       tileblas report [-o page.html] log | timeline ...\n"
          "       tileblas tune [--system] [--quick] [--kernels[=SECONDS]]\n"
          "       tileblas --help | --version\n",
          out);
}

static void print_help(void)
{
    print_usage(stdout);
    fputs(
        "\nrun   starts the program with large level-3 BLAS calls sent to the GPU\n"
        "info  tells what there is on this machine, or which calls of a program would be caught\n"
        "report  writes a page about one run: what TILEBLAS_LOG or TILEBLAS_TRACE holds\n"
        "tune  measures this machine (a minute at most) and saves what decides where calls run:\n"
        "      for you, or with --system for everybody; --quick: a few seconds, less exact;\n"
        "      --kernels: which kernel is the best for which shapes (SECONDS for each type, 6)\n\n"
        "options of run:\n",
        stdout);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        printf("  %s%-*s%s\n", options[i].name, 18 - (int)strlen(options[i].name),
               options[i].fallback != NULL ? "[=N]" : "=VALUE", options[i].help);
    fputs("\nSee tileblas(1), and libtileblas(7) for the environment.\n", stdout);
}

static bool given[sizeof options / sizeof *options]; /* on the command line */
static bool bad_value;

/* The environment as far as options set it: what a user's shell holds is not ours to refuse. */
static char *lookup_given(const char *name)
{
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (given[i] && strcmp(options[i].variable, name) == 0)
            return getenv(name);
    return NULL;
}

static void complain_option(const char *line)
{
    size_t length = strlen(line);
    bad_value = true;
    while (length > 0 && line[length - 1] == '\n')
        length--;
    fprintf(stderr, "%s%.*s\n", strncmp(line, "tileblas", 8) == 0 ? "" : "tileblas: ", (int)length,
            line);
}

/* Sets the variable of one option. False: no such option, or its value is missing. */
static bool take_option(const char *text)
{
    size_t length = strcspn(text, "=");
    const char *value = text[length] == '=' ? text + length + 1 : NULL;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const struct option *option = &options[i];
        if (strlen(option->name) != length || memcmp(option->name, text, length) != 0)
            continue;
        if (value == NULL)
            value = option->fallback;
        given[i] = value != NULL && setenv(option->variable, value, 1) == 0;
        return given[i];
    }
    return false;
}

/* Puts the library in front of what is preloaded already. */
static bool set_preload(void)
{
    const char *before = getenv("LD_PRELOAD");
    char *library = library_preload(), *list = NULL;
    bool done = false;
    if (library == NULL)
        fputs("tileblas: libtileblas-preload.so was not found; is libtileblas installed?\n",
              stderr);
    else if (strpbrk(library, " :") != NULL)
        fprintf(stderr, "tileblas: %s: LD_PRELOAD cannot hold a path with a space or a colon\n",
                library);
    else if (before == NULL || before[0] == '\0')
        done = setenv("LD_PRELOAD", library, 1) == 0;
    else if (asprintf(&list, "%s:%s", library, before) >= 0)
        done = setenv("LD_PRELOAD", list, 1) == 0;
    free(list);
    free(library);
    return done;
}

/* A program that cannot be preloaded still runs, but not without a word. */
static void warn_out_of_reach(const char *path)
{
    struct binary file;
    binary_open(&file, path);
    const char *why = scan_no_preload(path, &file);
    if (why != NULL)
        fprintf(stderr, "tileblas: calls of %s will not be caught: %s\n", path, why);
    binary_close(&file);
}

static int run(int count, char **words)
{
    int at = 0;
    for (; at < count && words[at][0] == '-'; at++) {
        if (strcmp(words[at], "--") == 0) {
            at++;
            break;
        }
        if (!take_option(words[at])) {
            fprintf(stderr, "tileblas: bad option %s\n", words[at]);
            print_usage(stderr);
            return EXIT_USAGE;
        }
    }
    if (at >= count) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    machine_check(lookup_given, complain_option);
    if (bad_value) {
        fprintf(stderr, "tileblas: %s was not started\n", words[at]);
        return EXIT_USAGE;
    }
    if (!set_preload())
        return EXIT_OURS;
    char *path = scan_find_program(words[at]);
    if (path != NULL)
        warn_out_of_reach(path);
    free(path);
    execvp(words[at], words + at);
    int error = errno;
    fprintf(stderr, "tileblas: %s: %s\n", words[at], strerror(error));
    return error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

static bool take_seconds(const char *text)
{
    const size_t length = strlen(text);
    return length > 0 && length <= 2 && strspn(text, "0123456789") == length && atoi(text) > 0 &&
           atoi(text) <= TUNE_KERNELS_MOST;
}

static int tune(int count, char **words)
{
    struct tune_options wanted = {.kernels = 0};
    for (int i = 0; i < count; i++) {
        if (strcmp(words[i], "--system") == 0)
            wanted.system = true;
        else if (strcmp(words[i], "--quick") == 0)
            wanted.quick = true;
        else if (strcmp(words[i], "--kernels") == 0)
            wanted.kernels = TUNE_KERNELS_SECONDS;
        else if (strncmp(words[i], "--kernels=", 10) == 0 && take_seconds(words[i] + 10))
            wanted.kernels = atoi(words[i] + 10);
        else {
            fprintf(stderr, "tileblas: bad option %s\n", words[i]);
            print_usage(stderr);
            return EXIT_USAGE;
        }
    }
    return tune_run(&wanted);
}

static bool is_command(const char *word)
{
    static const char *const known[] = {"run", "report", "info", "tune", "--help", "--version"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(word, known[i]) == 0)
            return true;
    return false;
}

int main(int count, char **words)
{
    int status = 0;
    if (count >= 2 && strcmp(words[1], "run") == 0)
        return run(count - 2, words + 2);
    if (count >= 3 && strcmp(words[1], "report") == 0)
        return report_run(count - 2, words + 2);
    if (count == 2 && strcmp(words[1], "info") == 0)
        status = machine_report();
    else if (count == 3 && strcmp(words[1], "info") == 0)
        status = scan_report(words[2]);
    else if (count >= 2 && strcmp(words[1], "tune") == 0) {
        status = tune(count - 2, words + 2);
        if (status == EXIT_USAGE)
            return status;
    } else if (count == 2 && strcmp(words[1], "--help") == 0)
        print_help();
    else if (count == 2 && strcmp(words[1], "--version") == 0)
        printf("tileblas %s\n", TB_VERSION);
    else {
        if (count >= 2)
            fprintf(stderr,
                    is_command(words[1]) ? "tileblas: %s: wrong number of words\n"
                                         : "tileblas: unknown command %s\n",
                    words[1]);
        print_usage(stderr);
        return EXIT_USAGE;
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "tileblas: cannot write the report: %s\n", strerror(errno));
        return 1;
    }
    return status;
}
