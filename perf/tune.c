/* SPDX-License-Identifier: BSD-3-Clause
 * Which kernel row is the fastest, by type, layout and class of shape, on this device: every row of
 * a type is listed, those that cannot run with the reason, the others measured in turns and
 * checked, and the best of each class saved as CSV beside the one that the library chooses by
 * itself. tune [-o FILE] [-t TYPES] [-l SECONDS] [-v] TYPES: letters of s d c z h b H B (H, B: FP32
 * result); -l: at most so long per type (60); -v: every candidate with its figures on stderr. Reads
 * and writes nothing of the library's own. */
#include "perf.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include "../src/fit.h"
#include "../src/kernel.h"

enum { TUNE_ROWS = 32 };

static const struct tune_class {
    const char *name;
    int64_t m, n, k;
} tune_classes[] = {{"large", 4096, 4096, 4096}, {"middle", 1024, 1024, 1024},
                    {"small", 256, 256, 256},    {"odd", 1000, 1100, 900},
                    {"wide", 64, 8192, 4096},    {"tall", 8192, 64, 4096},
                    {"deep", 128, 128, 32768},   {"flat", 8192, 8192, 64}};
enum { TUNE_CLASSES = sizeof tune_classes / sizeof tune_classes[0] };

static struct {
    FILE *out;
    bool talk, failed;
    double seconds;
    const struct tb_sm *sm;
} tune = {.seconds = 60};

/* Why a row cannot run here, or NULL. The registers of a thread are what its launch bounds leave.
 */
static const char *tune_barred(const struct tb_kernel *row, char *text, size_t bytes)
{
    if (row->cc_min > gpu_facts.cc || row->cc_max < gpu_facts.cc) {
        snprintf(text, bytes, "compiled for sm_%d to sm_%d", row->cc_min, row->cc_max);
        return text;
    }
    if (!tune.sm)
        return NULL;
    const int left = tune.sm->registers / (row->blocks_sm * row->threads) / 8 * 8;
    const struct tb_need need = {row->threads, left < 255 ? left : 255, 64, row->smem};
    const struct tb_fit fit = fit_block(tune.sm, &need);
    if (fit.blocks > 0)
        return NULL;
    snprintf(text, bytes, "infeasible by %s", fit_bound_text(fit.bound));
    return text;
}

static void tune_head(void)
{
    fprintf(tune.out,
            "%s,routine,trans,class,m,n,k,kernel,status,ms,ms_min,ms_max,best,chosen,note\n",
            table_facts_head());
}

static void tune_line(const struct perf_case *item, const struct tune_class *class,
                      const struct kernel_ranked *x, bool best)
{
    fprintf(tune.out, "%s,%s,%s,%s,%lld,%lld,%lld,%s,%s,%.6g,%.6g,%.6g,%d,%d,\"%s\"\n",
            table_facts(), item->routine, item->trans, class->name, (long long)item->m,
            (long long)item->n, (long long)item->k, x->name, x->status, x->ms, x->min, x->max, best,
            x->chosen, x->note);
    if (tune.talk)
        fprintf(stderr, "  %s %s %s: %s %s %.4g ms%s%s %s\n", item->routine, item->trans,
                class->name, x->name, x->status, x->ms, best ? ", the best" : "",
                x->chosen ? ", the library's choice" : "", x->note);
    if (strcmp(x->status, "wrong") == 0 || strcmp(x->status, "failed") == 0)
        tune.failed = true;
}

static void tune_case(const char *routine, const char *trans, const struct tune_class *class,
                      const struct perf_options *options)
{
    struct perf_case item = {.level = "kernel",
                             .memory = "device",
                             .dist = DATA_SIGNED,
                             .m = class->m,
                             .n = class->n,
                             .k = class->k,
                             .alpha = 1};
    struct kernel_ranked list[TUNE_ROWS];
    int best = -1;
    snprintf(item.routine, sizeof item.routine, "%s", routine);
    snprintf(item.trans, sizeof item.trans, "%s", trans);
    const int n = kernel_rank(&item, options, list, TUNE_ROWS);
    for (int i = 0; i < n; i++)
        if (strcmp(list[i].status, "ok") == 0 && (best < 0 || list[i].ms < list[best].ms))
            best = i;
    for (int i = 0; i < n; i++)
        tune_line(&item, class, &list[i], i == best);
    fflush(tune.out);
}

/* Rows that cannot run are named once, for the layout nn. */
static void tune_name_barred(const char *routine, enum tb_type ab, enum tb_type c)
{
    static const struct tune_class all = {"all", 0, 0, 0};
    char why[80];
    struct perf_case item = {.trans = "nn"};
    snprintf(item.routine, sizeof item.routine, "%s", routine);
    for (int i = 0; i < kernel_count(); i++) {
        const struct tb_kernel *row = kernel_row(i);
        const char *barred = row->ab == ab && row->c == c && !row->ta && !row->tb
                                 ? tune_barred(row, why, sizeof why)
                                 : NULL;
        struct kernel_ranked x = {.status = "infeasible"};
        if (!barred)
            continue;
        snprintf(x.name, sizeof x.name, "%.40s", row->name);
        snprintf(x.note, sizeof x.note, "%s", barred);
        tune_line(&item, &all, &x, false);
    }
}

static void tune_type(const char *routine, const struct perf_options *options)
{
    static const char *const layouts[] = {"nn", "nt", "tn", "tt"};
    const uint64_t start = table_now_ns();
    enum tb_type ab, c;
    enum tb_op op;
    if (!cases_type(routine, &ab, &c, &op))
        return;
    tune_name_barred(routine, ab, c);
    for (int i = 0; i < TUNE_CLASSES; i++)
        for (int t = 0; t < 4; t++) {
            const double seconds = (double)(table_now_ns() - start) * 1e-9;
            table_progress("%s %s %s, %.0f s", routine, layouts[t], tune_classes[i].name, seconds);
            if (seconds < tune.seconds) {
                tune_case(routine, layouts[t], &tune_classes[i], options);
                continue;
            }
            struct perf_case item = {
                .m = tune_classes[i].m, .n = tune_classes[i].n, .k = tune_classes[i].k};
            const struct kernel_ranked x = {
                .name = "all", .status = "not run", .note = "the time given was over"};
            snprintf(item.routine, sizeof item.routine, "%s", routine);
            snprintf(item.trans, sizeof item.trans, "%s", layouts[t]);
            tune_line(&item, &tune_classes[i], &x, false);
        }
}

int main(int argc, char **argv)
{
    static const struct {
        char letter;
        const char *routine;
    } types[] = {{'s', "sgemm"}, {'d', "dgemm"}, {'c', "cgemm"},  {'z', "zgemm"},
                 {'h', "hgemm"}, {'b', "bgemm"}, {'H', "shgemm"}, {'B', "sbgemm"}};
    struct perf_options options = {.reps = 5, .case_ms = 15, .providers = "ours,ours:all"};
    const char *path = NULL, *letters = "sdczhbHB";
    char why[200];
    int option;
    while ((option = getopt(argc, argv, "o:t:l:v")) != -1) {
        if (option == 'o')
            path = optarg;
        else if (option == 't')
            letters = optarg;
        else if (option == 'l')
            tune.seconds = atof(optarg);
        else if (option == 'v')
            tune.talk = true;
        else
            return 2;
    }
    tune.out = path ? fopen(path, "w") : stdout;
    FILE *limits = fopen("/dev/null", "w");
    if (!tune.out || !limits) {
        fprintf(stderr, "%s: cannot be written\n", path ? path : "/dev/null");
        return 2;
    }
    table_open(limits); /* the rows of the limits are for the bench */
    if (!kernel_open(&options, why, sizeof why)) {
        fprintf(stderr, "tune: %s\n", why);
        return 77;
    }
    tune.sm = fit_sm(gpu_facts.cc);
    tune_head();
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strchr(letters, types[i].letter))
            tune_type(types[i].routine, &options);
    table_progress(tune.failed ? "a row failed or was wrong\n" : "done\n");
    return tune.failed || fclose(tune.out) != 0;
}
