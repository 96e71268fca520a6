/* SPDX-License-Identifier: BSD-3-Clause
 * The bench: reads case files and writes one CSV row for each case and provider, whatever happens
 * to it. Everything it measures is found at run time; perf/README.md has the commands. */
#include "perf.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    struct perf_options options;
    char kernel_why[200];
    bool kernel_ready, host_ready, check_only;
    uint64_t start_ns, limit_ns;
    int done, total;
    const char *self;
} bench = {.options = {.reps = 9, .case_ms = 200}};

static void bench_count(const struct perf_case *item, void *arg)
{
    (void)item;
    (void)arg;
    bench.total++;
}

static void bench_left_out(const struct perf_case *item, const char *status, const char *note)
{
    table_write(&(struct table_row){.level = item->level,
                                    .routine = item->routine,
                                    .trans = item->trans,
                                    .dist = data_dist_names[item->dist],
                                    .memory = item->memory,
                                    .provider = "all",
                                    .status = status,
                                    .note = note,
                                    .m = item->m,
                                    .n = item->n,
                                    .k = item->k,
                                    .alpha = item->alpha,
                                    .beta = item->beta});
}

static void bench_case(const struct perf_case *item, void *arg)
{
    (void)arg;
    const double seconds = (double)(table_now_ns() - bench.start_ns) * 1e-9;
    table_progress("%d/%d  %.0f s  %s %s %s %lldx%lldx%lld %s", ++bench.done, bench.total, seconds,
                   item->level, item->routine, item->trans, (long long)item->m, (long long)item->n,
                   (long long)item->k, data_dist_names[item->dist]);
    if (bench.limit_ns && table_now_ns() - bench.start_ns > bench.limit_ns) {
        bench_left_out(item, "not run", "the time given was over");
    } else if (strcmp(item->level, "host") == 0) {
        if (!bench.host_ready)
            host_open(&bench.options, bench.self);
        bench.host_ready = true;
        host_case(item, &bench.options);
    } else if (bench.kernel_ready) {
        kernel_case(item, &bench.options);
    } else {
        bench_left_out(item, "missing", bench.kernel_why);
    }
}

static int bench_usage(void)
{
    fprintf(stderr,
            "usage: bench [-o FILE] [-r SAMPLES] [-t MS_PER_PROVIDER] [-l SECONDS] [-p PROVIDERS]\n"
            "             [-b LIBTILEBLAS] [-n] CASES...\n"
            "-p takes a comma list: ours, ours-gpu, ours-tf32, ours:NAME or ours:all (kernels),\n"
            "openblas, nvblas, nvblas-autopin, cublasxt, cublas, cublas-tf32, triton, "
            "triton-tf32. -n only\nreads the cases.\n");
    return 2;
}

int main(int argc, char **argv)
{
    const char *out = NULL;
    int option;
    if (argc == 4 && strcmp(argv[1], "--worker") == 0)
        return host_worker(argv[2], argv[3]);
    bench.self = argv[0];
    while ((option = getopt(argc, argv, "o:r:t:l:p:b:n")) != -1) {
        if (option == 'o')
            out = optarg;
        else if (option == 'r')
            bench.options.reps = atoi(optarg);
        else if (option == 't')
            bench.options.case_ms = atof(optarg);
        else if (option == 'l')
            bench.limit_ns = (uint64_t)(atof(optarg) * 1e9);
        else if (option == 'p')
            bench.options.providers = optarg;
        else if (option == 'b')
            bench.options.our_library = optarg;
        else if (option == 'n')
            bench.check_only = true;
        else
            return bench_usage();
    }
    if (optind >= argc || bench.options.reps < 1 || bench.options.case_ms <= 0)
        return bench_usage();
    for (int i = optind; i < argc; i++)
        if (cases_read(argv[i], bench_count, NULL) != 0)
            return 1;
    if (bench.check_only) {
        printf("%d cases\n", bench.total);
        return bench.total > 0 ? 0 : 1;
    }
    FILE *file = out ? fopen(out, "w") : stdout;
    if (!file) {
        fprintf(stderr, "%s: cannot be written\n", out);
        return 1;
    }
    char why[200];
    const bool gpu_there = gpu_open(why, sizeof why);
    table_open(file);
    bench.start_ns = table_now_ns();
    bench.kernel_ready =
        gpu_there && kernel_open(&bench.options, bench.kernel_why, sizeof bench.kernel_why);
    if (!gpu_there)
        snprintf(bench.kernel_why, sizeof bench.kernel_why, "%s", why);
    for (int i = optind; i < argc; i++)
        cases_read(argv[i], bench_case, NULL);
    triton_close();
    host_close();
    table_progress("%d cases in %.0f s\n", bench.done,
                   (double)(table_now_ns() - bench.start_ns) * 1e-9);
    return fclose(file) == 0 ? 0 : 1;
}
