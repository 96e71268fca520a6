/* SPDX-License-Identifier: BSD-3-Clause
 * `tileblas info` without an argument. It asks the library's own parts (configuration, device, CPU
 * BLAS), so that it shows what a program would get here, not a second opinion. */
#include "machine.h"

#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../fallback/fallback.h"
#include "../src/calibrate.h"
#include "../src/conf.h"
#include "../src/device.h"
#include "../src/pool.h"
#include "../src/route.h"
#include "../src/version.h"
#include "library.h"

extern char **environ;

enum { START_SECONDS = 20 };

static const struct variable {
    const char *name, *fallback, *help;
} variables[] = {
#define CONF(KIND, FIELD, NAME, DEFAULT, HELP) {NAME, DEFAULT, HELP},
#include "../src/conf.def"
#undef CONF
};

static void print_library(void)
{
    char *path = library_preload();
    printf("tileblas %s\n", TB_VERSION);
    printf("library:   %s\n", path != NULL ? path : "libtileblas-preload.so not found");
    free(path);
}

static void print_driver(void)
{
    char text[64] = "";
    FILE *file = fopen("/sys/module/nvidia/version", "re");
    if (file == NULL)
        return;
    if (fgets(text, sizeof text, file) != NULL)
        printf("driver:    %.*s\n", (int)strcspn(text, "\n"), text);
    fclose(file);
}

static void print_gpu(void)
{
    enum tb_device_state state = device_start((int64_t)START_SECONDS * 1000000000);
    const struct tb_caps *caps = state == TB_DEVICE_READY ? device_caps() : NULL;
    if (caps == NULL) {
        printf("GPU:       none: %s\n",
               state == TB_DEVICE_STARTING ? "it did not start in time" : device_why_not());
        print_driver();
        return;
    }
    const double gib = 1024.0 * 1024.0 * 1024.0;
    printf("GPU:       %s, %.1f GiB (%.1f free), %d SMs, compute capability %d.%d\n", caps->name,
           (double)caps->mem_total / gib, (double)caps->mem_free / gib, caps->sms, caps->cc / 10,
           caps->cc % 10);
    print_driver();
    printf("CUDA:      %d.%d (of the driver)\n", caps->driver / 1000, caps->driver % 1000 / 10);
}

/* The object the call comes from decides which BLAS is in reach; the command itself has none. */
static void print_cpu(void)
{
    struct tb_found found = fallback_find("dgemm_", (const void *)(uintptr_t)machine_report, true);
    if (found.fn == NULL) {
        printf("CPU BLAS:  none found: install OpenBLAS (libopenblas.so.0) or set "
               "TILEBLAS_CPU_BLAS\n");
        return;
    }
    printf("CPU BLAS:  %s%s\n", found.path,
           found.wide ? " (64-bit integers behind plain names: only forwarded to)" : "");
    void *library = dlopen(found.path, RTLD_LAZY | RTLD_NOLOAD);
    void *symbol = library != NULL ? dlsym(library, "openblas_get_config") : NULL;
    if (symbol != NULL) {
        char *(*config)(void) = (char *(*)(void))(uintptr_t)symbol;
        printf("           %s\n", config());
    }
    if (library != NULL)
        dlclose(library);
    printf("           %d thread%s; a program that has its own BLAS keeps that one\n",
           fallback_threads(), fallback_threads() == 1 ? "" : "s");
}

static void flag(const char *line)
{
    size_t length = strlen(line);
    while (length > 0 && line[length - 1] == '\n')
        length--;
    printf("  bad:     %.*s\n", (int)length, line);
}

static bool is_variable(const char *entry, size_t length)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (strlen(variables[i].name) == length && memcmp(variables[i].name, entry, length) == 0)
            return true;
    return false;
}

static void print_configuration(void)
{
    bool any = false;
    printf("configuration:\n");
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i].name);
        if (value == NULL)
            continue;
        any = true;
        printf("  %s=%s%s\n", variables[i].name, value,
               strstr(variables[i].help, "no effect yet") != NULL ? "  (no effect yet)" : "");
    }
    for (char **at = environ; *at != NULL; at++)
        if (strncmp(*at, "TILEBLAS_", 9) == 0 && !is_variable(*at, strcspn(*at, "="))) {
            any = true;
            printf("  unknown: %.*s\n", (int)strcspn(*at, "="), *at);
        }
    if (!any)
        printf("  no TILEBLAS_ variable is set\n");
    machine_check(getenv, flag);
}

static void print_threshold(void)
{
    double volume = route_small_volume(conf_get());
    if (isinf(volume))
        printf("threshold: every call stays on the CPU\n");
    else if (volume <= 0)
        printf("threshold: none, calls of every size are considered\n");
    else
        printf("threshold: calls with m n k below %.3g (a square of %.0f) go straight to the CPU\n",
               volume, ceil(cbrt(volume)));
}

/* What the estimates come from. */
static void print_profile(void)
{
    const struct tb_profile *const p = calibrate_get();
    char path[8192];
    if (p->source != TB_PROFILE_SAVED) {
        printf("profile:   built in%s; `tileblas tune` measures this machine\n",
               p->source == TB_PROFILE_MEASURED ? ", the link measured at the start" : "");
    } else {
        int i = 0;
        while (i < 1 && (!calibrate_path(i, p->gpu, p->cpu_blas, p->cpus, path, sizeof path) ||
                         access(path, R_OK) != 0))
            i++;
        if (calibrate_path(i, p->gpu, p->cpu_blas, p->cpus, path, sizeof path))
            printf("profile:   %s\n", path);
        printf("           %d measured choices of kernels%s\n",
               calibrate_tuned() != NULL ? tuned_count(calibrate_tuned(), -1) : 0,
               calibrate_tuned() != NULL ? "" : "; `tileblas tune --kernels` measures them");
    }
    printf("           GFLOP/s of the CPU, 1 thread / %d: s %.0f / %.0f, d %.0f / %.0f\n", p->cpus,
           p->cpu_rate[TB_F32][TB_ALONE][TB_SQUARE], p->cpu_rate[TB_F32][TB_TOGETHER][TB_SQUARE],
           p->cpu_rate[TB_F64][TB_ALONE][TB_SQUARE], p->cpu_rate[TB_F64][TB_TOGETHER][TB_SQUARE]);
    if (device_caps() != NULL)
        printf("           link %.1f GB/s in, %.1f out (pinned); %.0f us a call; TFLOP/s s %.1f, "
               "d %.1f\n",
               p->in.rate, p->out.rate, p->offload_ns * 1e-3, p->gpu_rate[TB_F32] * 1e-3,
               p->gpu_rate[TB_F64] * 1e-3);
}

void machine_check(char *(*lookup)(const char *name), void (*complain)(const char *line))
{
    struct tb_conf conf;
    conf_parse(&conf, lookup, complain);
}

int machine_report(void)
{
    print_library();
    fallback_find("dgemm_", (const void *)(uintptr_t)machine_report, true);
    calibrate_cpu(fallback_name, pool_cpus);
    print_gpu();
    print_cpu();
    print_profile();
    print_configuration();
    print_threshold();
    return 0;
}
