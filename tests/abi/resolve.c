/* SPDX-License-Identifier: BSD-3-Clause
 * Which CPU BLAS a name leads to, in programs of every build-up. Each case is a child of this
 * program with its own LD_PRELOAD and environment; the libraries are stand-ins found in the
 * directory given as argument or compiled in. Prints a line per failure; status 1 if there was one.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../../fallback/fallback.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef TB_STUB_DIR
#define TB_STUB_DIR "."
#endif

#define TB_REFERENCE_BLAS "/usr/lib/x86_64-linux-gnu/blas/libblas.so.3" /* Debian's libblas3 */

static const char *directory = TB_STUB_DIR;
static int failures;

/* ---- In the child ---- */

static const char *file(const char *stub)
{
    static char path[4][4096];
    static int turn;
    char *out = path[turn++ % 4];
    snprintf(out, sizeof path[0], "%s/libstub_%s.so", directory, stub);
    return out;
}

static void *load(const char *stub)
{
    void *handle = dlopen(file(stub), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        printf("%s\n", dlerror()), failures++;
    return handle;
}

static struct tb_found ask(const char *name, const void *caller, bool door)
{
    struct tb_found found = {0};
    void (*question)(const char *, const void *, bool, struct tb_found *) =
        (void (*)(const char *, const void *, bool, struct tb_found *))dlsym(RTLD_DEFAULT,
                                                                             "resolve_ask");
    if (question)
        question(name, caller, door, &found);
    else
        printf("our library is not there\n"), failures++;
    return found;
}

static bool lies_in(tb_fn fn, const char *part)
{
    Dl_info info;
    return fn && dladdr((void *)(uintptr_t)fn, &info) && strstr(info.dli_fname, part);
}

/* fn and origin by parts of the paths of their libraries; NULL: found nowhere. */
static void expect(struct tb_found found, const char *fn, const char *origin, bool is_wide)
{
    bool ok = fn ? lies_in(found.fn, fn) && lies_in(found.origin, origin) && found.path &&
                       strstr(found.path, fn) && found.wide == is_wide
                 : !found.fn && !found.origin;
    if (ok)
        return;
    failures++;
    printf("  found %s%s, expected %s for calls, %s for errors%s\n",
           found.fn ? found.path : "nothing", found.wide ? " (wide)" : "", fn ? fn : "nothing",
           origin ? origin : "nothing", is_wide ? " (wide)" : "");
}

static void expect_same(struct tb_found found, const char *library)
{
    expect(found, library, library, false);
}

static void expect_true(bool ok, const char *what)
{
    if (!ok)
        printf("  not so: %s\n", what), failures++;
}

static bool is_loaded(const char *soname)
{
    return dlopen(soname, RTLD_NOLOAD | RTLD_LAZY) != NULL;
}

static void case_next(void)
{
    expect_same(ask("dgemm_", (void *)case_next, true), "stub_plain.");
    expect_same(ask("cblas_dgemm", (void *)case_next, true), "stub_plain.");
    expect_true(!is_loaded("libopenblas.so.0"), "nothing was opened");
}

static void case_nothing_loaded(void)
{
    expect_same(ask("dgemm_", (void *)case_nothing_loaded, true), "openblas");
    expect_same(ask("dgesv_", NULL, false), "openblas");
    expect_same(ask("openblas_set_num_threads", NULL, false), "openblas");
    expect(ask("dgemm_64_", NULL, true), NULL, NULL, false);
    expect(ask("cblas_dgemmt", NULL, true), NULL, NULL, false);
}

/* Another BLAS is loaded first: only the plugin's own scope leads to the right one. */
static void case_plugin(void)
{
    load("other");
    void *plugin = load("plugin");
    if (plugin)
        expect_same(ask("dgemm_", dlsym(plugin, "plugin_here"), true), "stub_plain.");
}

static void case_loaded_local(void)
{
    load("plain");
    expect_same(ask("dgemm_", (void *)case_loaded_local, true), "stub_plain.");
    expect_same(ask("cblas_dgemm", NULL, true), "stub_plain.");
}

static void case_wheel(void)
{
    expect(ask("scipy_cblas_dgemm64_", NULL, true), NULL, NULL, false);
    load("wheel");
    expect_same(ask("scipy_cblas_dgemm64_", NULL, true), "stub_wheel.");
    expect_same(ask("scipy_dgemm_64_", NULL, true), "stub_wheel.");
    expect_same(ask("dgemm_", NULL, true), "openblas");
}

/* Run with several settings of TILEBLAS_CPU_BLAS, all of which are to be refused. */
static void case_configured_refused(void)
{
    for (int i = 0; i < 3; i++)
        expect_same(ask("dgemm_", NULL, true), "stub_plain.");
    expect_same(ask("cblas_dgemm", NULL, true), "stub_plain.");
}

static void case_configured_wide(void)
{
    expect_same(ask("dgemm_", NULL, true), "stub_plain.");
    expect_same(ask("dgemm_64_", NULL, true), "stub_wide.");
    expect_same(ask("dgemm_", NULL, true), "stub_plain.");
}

static void case_configured(void)
{
    expect_same(ask("dgemm_", NULL, true), "stub_other.");
    expect_same(ask("cblas_dgemm", NULL, true), "stub_plain."); /* the other lacks it */
}

static void case_configured_reference(void)
{
    expect_same(ask("dgemm_", NULL, true), "stub_reference.");
}

static void case_reference(void)
{
    expect(ask("dgemm_", NULL, true), "openblas", "stub_reference.", false);
    expect(ask("cblas_dgemm", NULL, true), "openblas", "stub_reference.", false);
    expect_same(ask("dgemm_", NULL, false), "stub_reference.");
}

/* Somebody's CBLAS over OpenBLAS shows the marks of both. */
static void case_not_reference(void)
{
    expect_same(ask("dgemm_", NULL, true), "stub_both.");
}

/* Our own openblas_get_config behind a reference BLAS does not make it an OpenBLAS. */
static void case_reference_over_ours(void)
{
    expect(ask("dgemm_", NULL, true), "openblas", "stub_reference_ours.", false);
}

static void case_reference_next(void)
{
    expect_same(ask("dgemm_", NULL, true), "stub_reference.");
    expect(ask("sgemm_", NULL, true), NULL, NULL, false);
    expect_true(!is_loaded("libopenblas.so.0"), "'next' opens nothing");
}

static void case_real_reference(void)
{
    expect(ask("dgemm_", NULL, true), "openblas", "/blas/libblas", false);
}

static void case_wide(void)
{
    expect(ask("dgemm_", NULL, true), "stub_wide.", "stub_wide.", true);
    expect_same(ask("dgemm_64_", NULL, true), "stub_wide.");
    expect(ask("sgemm_", NULL, true), NULL, NULL, false);
    expect_true(!is_loaded("libopenblas.so.0"),
                "no OpenBLAS beside one whose internals are global");
}

/* Somebody's wide library is no answer to a caller that does not lead to it. */
static void case_wide_local(void)
{
    void *wide = load("wide");
    void *plugin = load("plugin_wide");
    expect_same(ask("dgemm_", NULL, true), "openblas");
    if (wide && plugin)
        expect(ask("dgemm_", dlsym(plugin, "plugin_here"), true), "stub_wide.", "stub_wide.", true);
}

static void case_wide_by_name(void)
{
    expect(ask("dgemm_", NULL, true), "stub_name64.", "stub_name64.", true);
}

static void case_second_copy(void)
{
    expect_same(ask("dgemm_", (void *)case_second_copy, true), "stub_plain.");
}

static void case_second_copy_alone(void)
{
    expect_same(ask("dgemm_", (void *)case_second_copy_alone, true), "openblas");
}

/* Wide behind a second copy: still what the program would have reached. */
static void case_second_copy_wide(void)
{
    expect(ask("dgemm_", NULL, true), "stub_wide.", "stub_wide.", true);
}

/* A wrapper in front of us calls us for "the next": leading back to it would never end. */
static void case_front(void)
{
    void *front = dlsym(RTLD_DEFAULT, "dgemm_");
    expect_true(lies_in((tb_fn)front, "stub_other."), "the wrapper stands in front");
    expect_same(ask("dgemm_", front, true), "openblas");
}

/* Loaded by dlopen, as ctypes does, after the BLAS. */
static void case_dlopened(void)
{
    load("plain");
    void *ours = load("ours");
    void (*question)(const char *, const void *, bool, struct tb_found *) =
        (void (*)(const char *, const void *, bool, struct tb_found *))(
            ours ? dlsym(ours, "resolve_ask") : NULL);
    struct tb_found found = {0};
    if (question)
        question("dgemm_", (void *)case_dlopened, true, &found);
    expect_same(found, "stub_plain.");
}

static void case_shgemm_old(void)
{
    expect_same(ask("dgemm_", NULL, true), "stub_version21.");
    expect(ask("shgemm_", NULL, true), NULL, NULL, false);
    expect(ask("dgemmt_", NULL, true), NULL, NULL, false);
}

static void case_shgemm_new(void)
{
    expect_same(ask("shgemm_", NULL, true), "stub_version31.");
    expect_same(ask("dgemmt_", NULL, true), "stub_version31.");
}

static void case_threads_of_the_library(void)
{
    ask("dgemm_", NULL, true);
    int (*threads)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "resolve_threads");
    expect_true(threads && threads() == 77, "threads as the library counts them");
}

static void case_mkl(void)
{
    struct tb_found found = ask("dgemm", NULL, true);
    expect_same(found, "stub_mkl.");
    expect_true(found.mkl, "the owner is oneMKL");
    expect_true(!ask("dgesv_", NULL, false).mkl, "OpenBLAS is not oneMKL");
}

/* The only libraries under the usual names are links to us (see the parent). */
static void case_only_ourselves(void)
{
    expect(ask("dgemm_", NULL, true), NULL, NULL, false);
}

static void case_openblas_is_ourselves(void)
{
    expect_same(ask("dgemm_", NULL, true), "libblas.so.3");
    expect_same(ask("cblas_dgemm", NULL, true), "libblas.so.3");
}

static void *asking(void *stop)
{
    char name[32];
    for (int i = 0; !__atomic_load_n((bool *)stop, __ATOMIC_ACQUIRE); i++) {
        snprintf(name, sizeof name, "unknown%d_", i % 1000);
        ask(i & 1 ? name : "dgemm_", NULL, true);
    }
    return NULL;
}

/* A constructor asks with the loader's lock held while others ask: under alarm(). */
static void case_constructor(void)
{
    bool stop = false;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, asking, &stop);
    for (int i = 0; i < 20; i++) {
        void *plugin = load("constructor");
        int *asked = plugin ? dlsym(plugin, "plugin_asked") : NULL;
        expect_true(asked && *asked, "the constructor got its answers");
        if (plugin)
            dlclose(plugin);
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static void case_missing(void)
{
    void (*missing)(const char *) = (void (*)(const char *))dlsym(RTLD_DEFAULT, "resolve_missing");
    if (missing)
        missing("dxyzzy_");
}

/* ---- In the parent ---- */

struct test {
    const char *name;
    void (*run)(void);
    const char *preload;   /* stubs, in order */
    const char *cpu_blas;  /* a stub, or a text that starts with '=' */
    const char *complaint; /* part of the one line expected on stderr; NULL: silence */
    int status;
    const char *openblas, *blas; /* stubs installed as libopenblas.so.0 and libblas.so.3 */
};

static const struct test tests[] = {
    {.name = "next", case_next, "ours plain"},
    {.name = "nothing loaded", case_nothing_loaded, "ours"},
    {.name = "plugin", case_plugin, "ours"},
    {.name = "loaded RTLD_LOCAL", case_loaded_local, "ours"},
    {.name = "wheel", case_wheel, "ours"},
    {.name = "configured: missing",
     case_configured_refused,
     "ours plain",
     .cpu_blas = "=/nowhere.so",
     .complaint = "cannot be opened"},
    {.name = "configured: ourselves",
     case_configured_refused,
     "ours plain",
     .cpu_blas = "ours",
     .complaint = "leads back"},
    {.name = "configured: second copy",
     case_configured_refused,
     "ours plain",
     .cpu_blas = "second",
     .complaint = "leads back"},
    {.name = "configured: linked to us",
     case_configured_refused,
     "ours plain",
     .cpu_blas = "plugin_ours",
     .complaint = "leads back"},
    {.name = "configured: wide",
     case_configured_wide,
     "ours plain",
     .cpu_blas = "wide",
     .complaint = "64-bit integers"},
    {.name = "configured", case_configured, "ours plain", .cpu_blas = "other"},
    {.name = "configured: reference",
     case_configured_reference,
     "ours plain",
     .cpu_blas = "reference"},
    {.name = "reference", case_reference, "ours reference"},
    {.name = "not reference", case_not_reference, "ours both"},
    {.name = "reference over ours", case_reference_over_ours, "ours reference_ours"},
    {.name = "reference, next", case_reference_next, "ours reference", .cpu_blas = "=next"},
    {.name = "wide", case_wide, "ours wide"},
    {.name = "wide, local", case_wide_local, "ours"},
    {.name = "wide by name", case_wide_by_name, "ours name64"},
    {.name = "second copy", case_second_copy, "ours second plain"},
    {.name = "second copy alone", case_second_copy_alone, "ours second"},
    {.name = "second copy, wide", case_second_copy_wide, "ours second wide"},
    {.name = "front", case_front, "other ours"},
    {.name = "dlopened", case_dlopened, ""},
    {.name = "shgemm, old", case_shgemm_old, "ours version21"},
    {.name = "shgemm, new", case_shgemm_new, "ours version31"},
    {.name = "threads", case_threads_of_the_library, "ours version21"},
    {.name = "mkl", case_mkl, "ours mkl"},
    {.name = "constructor", case_constructor, "ours"},
    {.name = "missing",
     case_missing,
     "ours",
     .complaint = "undefined symbol: dxyzzy_",
     .status = 127},
    {.name = "real reference", case_real_reference, "ours =" TB_REFERENCE_BLAS},
    {.name = "only ourselves", case_only_ourselves, "ours", .openblas = "second", .blas = "second"},
    {.name = "libopenblas is us",
     case_openblas_is_ourselves,
     "ours",
     .openblas = "second",
     .blas = "plain"},
};
enum { TESTS = sizeof tests / sizeof tests[0] };

static void set_environment(const struct test *test, const char *links)
{
    char preload[8192] = "", stubs[256];
    snprintf(stubs, sizeof stubs, "%s", test->preload);
    for (char *stub = strtok(stubs, " "); stub; stub = strtok(NULL, " "))
        snprintf(preload + strlen(preload), sizeof preload - strlen(preload), "%s ",
                 *stub == '=' ? stub + 1 : file(stub));
    setenv("LD_PRELOAD", preload, 1);
    unsetenv("TILEBLAS_CPU_BLAS");
    unsetenv("TILEBLAS_VERBOSE");
    unsetenv("TILEBLAS_LOG");
    if (test->cpu_blas)
        setenv("TILEBLAS_CPU_BLAS",
               *test->cpu_blas == '=' ? test->cpu_blas + 1 : file(test->cpu_blas), 1);
    if (test->openblas)
        setenv("LD_LIBRARY_PATH", links, 1);
}

/* The child's stderr; its stdout goes to ours. */
static int run_child(char *self, int index, const char *links, char *text, size_t size)
{
    char number[16], *arguments[] = {self, number, (char *)directory, NULL};
    int ends[2], status = -1;
    snprintf(number, sizeof number, "%d", index);
    if (pipe(ends) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]), close(ends[1]);
        set_environment(&tests[index], links);
        execv("/proc/self/exe", arguments);
        _exit(126);
    }
    close(ends[1]);
    size_t used = 0;
    ssize_t got;
    while (used + 1 < size && (got = read(ends[0], text + used, size - used - 1)) > 0)
        used += (size_t)got;
    text[used] = '\0';
    close(ends[0]);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

static bool is_one_line(const char *text)
{
    const char *end = strchr(text, '\n');
    return end && end[1] == '\0';
}

static void install(const char *links, const char *soname, const char *stub)
{
    char link[4200];
    snprintf(link, sizeof link, "%s/%s", links, soname);
    unlink(link);
    if (stub && symlink(file(stub), link) != 0)
        perror(link), failures++;
}

static void run_test(char *self, int index, const char *links)
{
    const struct test *test = &tests[index];
    char text[4096];
    install(links, "libopenblas.so.0", test->openblas);
    install(links, "libblas.so.3", test->blas);
    int status = run_child(self, index, links, text, sizeof text);
    bool quiet = test->complaint ? strstr(text, test->complaint) && is_one_line(text) : !*text;
    if (status == test->status && quiet)
        return;
    failures++;
    printf("FAIL %s: status %d, stderr \"%s\"\n", test->name, status, text);
}

int main(int argc, char **argv)
{
    char links[] = "/tmp/resolve-XXXXXX";
    if (argc > 2)
        directory = argv[2];
    if (argc > 1 && atoi(argv[1]) >= 0) {
        alarm(30);
        tests[atoi(argv[1]) % TESTS].run();
        return failures > 0;
    }
    if (!mkdtemp(links))
        return 1;
    for (int i = 0; i < TESTS; i++) {
        if (tests[i].run == case_real_reference && access(TB_REFERENCE_BLAS, R_OK) != 0)
            printf("left out, not installed: " TB_REFERENCE_BLAS "\n");
        else
            run_test(argv[0], i, links);
    }
    install(links, "libopenblas.so.0", NULL);
    install(links, "libblas.so.3", NULL);
    rmdir(links);
    printf("%d of %d cases failed\n", failures, (int)TESTS);
    return failures > 0;
}
