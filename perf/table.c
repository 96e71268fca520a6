/* SPDX-License-Identifier: BSD-3-Clause
 * Rows of CSV with the facts of the machine in each, medians, and progress for a person at a
 * terminal. */
#include "perf.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sched.h>

static FILE *table_file;

uint64_t table_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int table_cpus(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static void table_cpu_name(char *out, size_t bytes)
{
    char line[256];
    snprintf(out, bytes, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(out, bytes, "%s", colon + 2);
        break;
    }
    if (file)
        fclose(file);
    for (char *c = out; *c; c++) /* one CSV field */
        if (*c == ',' || *c == '"')
            *c = ' ';
}

const char *table_facts_head(void)
{
    return "date,cpu,cpus,gpu,sms,driver";
}

const char *table_facts(void)
{
    static char text[300];
    char cpu[100], date[32];
    const time_t now = time(NULL);
    struct tm parts;
    if (!text[0]) {
        table_cpu_name(cpu, sizeof cpu);
        strftime(date, sizeof date, "%Y-%m-%dT%H:%MZ", gmtime_r(&now, &parts));
        snprintf(text, sizeof text, "%s,%s,%d,%s,%d,%d", date, cpu, table_cpus(), gpu_facts.name,
                 gpu_facts.sms, gpu_facts.driver);
    }
    return text;
}

void table_open(FILE *file)
{
    table_file = file;
    fprintf(file,
            "%s,level,routine,trans,m,n,k,alpha,beta,dist,memory,provider,status,reps,ms,ms_min,"
            "ms_max,rate,unit,vs_ours,limit,limit_share,err_max_u,err_rms_u,entries,note\n",
            table_facts_head());
    fflush(file);
}

static const char *table_text(const char *text)
{
    return text ? text : "";
}

static void table_number(double x, const char *format)
{
    fputc(',', table_file);
    if (x == x && x >= 0)
        fprintf(table_file, format, x);
}

void table_write(const struct table_row *row)
{
    fprintf(table_file, "%s,%s,%s,%s,%lld,%lld,%lld,%g,%g,%s,%s,%s,%s,%d", table_facts(),
            row->level, row->routine, table_text(row->trans), (long long)row->m, (long long)row->n,
            (long long)row->k, row->alpha, row->beta, table_text(row->dist),
            table_text(row->memory), row->provider, row->status, row->reps);
    const bool timed = row->reps > 0;
    table_number(timed ? row->ms : -1, "%.6g");
    table_number(timed ? row->ms_min : -1, "%.6g");
    table_number(timed ? row->ms_max : -1, "%.6g");
    table_number(row->rate > 0 ? row->rate : -1, "%.6g");
    fprintf(table_file, ",%s", table_text(row->unit));
    table_number(row->vs_ours > 0 ? row->vs_ours : -1, "%.4g");
    fprintf(table_file, ",%s", table_text(row->limit));
    table_number(row->limit_share > 0 ? row->limit_share : -1, "%.3f");
    table_number(row->entries > 0 ? row->err_max : -1, "%.4g");
    table_number(row->entries > 0 ? row->err_rms : -1, "%.4g");
    fprintf(table_file, ",%lld,\"%s\"\n", (long long)row->entries, table_text(row->note));
    fflush(table_file);
}

static int table_order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double table_median(double *values, int n, double *min, double *max)
{
    qsort(values, (size_t)n, sizeof *values, table_order);
    *min = values[0];
    *max = values[n - 1];
    return n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

void table_progress(const char *format, ...)
{
    va_list args;
    const bool terminal = isatty(STDERR_FILENO);
    va_start(args, format);
    if (terminal)
        fputs("\r\033[K", stderr);
    vfprintf(stderr, format, args);
    if (!terminal)
        fputc('\n', stderr);
    va_end(args);
}
