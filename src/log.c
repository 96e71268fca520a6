/* SPDX-License-Identifier: BSD-3-Clause
 * Lines on stderr or in the log file, and the counters behind the summary. A line is one write(2),
 * so that lines of several threads and processes do not mix. */
#include "log.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Atomic int level_wanted;
static char log_path[4096]; /* "" is stderr; %p already replaced */

uint64_t log_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void log_expand_pid(const char *text, char *out, size_t room)
{
    size_t used = 0;
    for (; *text != '\0' && used + 24 < room; text++) {
        if (text[0] == '%' && text[1] == 'p') {
            used += (size_t)snprintf(out + used, room - used, "%ld", (long)getpid());
            text++;
        } else {
            out[used++] = *text;
        }
    }
    out[used] = '\0';
}

void log_configure(const struct tb_conf *conf)
{
    log_expand_pid(conf->log, log_path, sizeof log_path);
    atomic_store(&level_wanted, conf->verbose);
}

/* The file is opened for each line: lines are rare, the descriptor table is the program's own (it
 * may close every descriptor it does not know), and an unwritable file falls back to stderr. */
static void put(const char *text, size_t length)
{
    const int saved = errno;
    int fd = -1;
    if (log_path[0] != '\0')
        fd = open(log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
    const ssize_t ignored = write(fd >= 0 ? fd : STDERR_FILENO, text, length);
    (void)ignored;
    if (fd >= 0)
        close(fd);
    errno = saved;
}

bool log_wants(int level)
{
    return level <= atomic_load_explicit(&level_wanted, memory_order_relaxed);
}

void log_line(int level, const char *format, ...)
{
    if (!log_wants(level))
        return;
    char text[1024] = "tileblas: ";
    const size_t head = strlen(text);
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(text + head, sizeof text - head - 1, format, args);
    va_end(args);
    if (length < 0)
        return;
    size_t end = head + (size_t)length;
    if (end > sizeof text - 2)
        end = sizeof text - 2;
    text[end++] = '\n';
    put(text, end);
}

/* Counters by side and reason; only touched when a summary is wanted. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tally {
    uint64_t calls;
    double flops, ns;
} tallies[2][TB_REASONS];
static double total_in, total_out;
static int64_t total_rects;

static void count(const struct tb_call *call, const struct tb_outcome *o)
{
    pthread_mutex_lock(&lock);
    struct tally *const t = &tallies[o->choice.where][o->choice.reason];
    t->calls++;
    t->flops += call_flops(call);
    t->ns += o->ns;
    total_in += o->bytes_in;
    total_out += o->bytes_out;
    total_rects += o->rects_on_cpu;
    pthread_mutex_unlock(&lock);
}

static void describe(const struct tb_call *call, char *text, size_t room)
{
    int used = snprintf(text, room, "%s", call->name);
    if (call->side != 0)
        used += snprintf(text + used, room - (size_t)used, " side=%c", call->side);
    if (call->uplo != 0)
        used += snprintf(text + used, room - (size_t)used, " uplo=%c", call->uplo);
    if (call->ta != 0)
        used += snprintf(text + used, room - (size_t)used, " %c", call->ta);
    if (call->tb != 0)
        used += snprintf(text + used, room - (size_t)used, "%c", call->tb);
    used += snprintf(text + used, room - (size_t)used, " m=%lld n=%lld", (long long)call->m,
                     (long long)call->n);
    if (call->op != TB_SYMM && call->op != TB_HEMM && call->op != TB_TRMM && call->op != TB_TRSM)
        used += snprintf(text + used, room - (size_t)used, " k=%lld", (long long)call->k);
    if (call->batch != 1)
        snprintf(text + used, room - (size_t)used, " batch=%lld", (long long)call->batch);
}

void log_call(const struct tb_call *call, const struct tb_outcome *o)
{
    if (!log_wants(1))
        return;
    count(call, o);
    if (!log_wants(2))
        return;
    char what[256], where[512];
    describe(call, what, sizeof what);
    const char *const side = o->choice.where == TB_ON_GPU ? "GPU" : "CPU";
    int used = snprintf(where, sizeof where, "%s (%s) %.3f ms", side,
                        route_reason_text(o->choice.reason), o->ns * 1e-6);
    const double flops = call_flops(call);
    if (o->ns > 0 && flops > 0)
        used +=
            snprintf(where + used, sizeof where - (size_t)used, ", %.1f GFLOP/s", flops / o->ns);
    if (o->choice.where == TB_ON_GPU)
        used += snprintf(where + used, sizeof where - (size_t)used, ", %.1f MB in, %.1f MB out",
                         o->bytes_in * 1e-6, o->bytes_out * 1e-6);
    if (o->rects_on_cpu > 0)
        used += snprintf(where + used, sizeof where - (size_t)used,
                         ", %lld rectangles finished on the CPU", (long long)o->rects_on_cpu);
    if (o->choice.est_cpu_ns > 0)
        snprintf(where + used, sizeof where - (size_t)used, ", estimated CPU %.3f ms GPU %.3f ms",
                 o->choice.est_cpu_ns * 1e-6, o->choice.est_gpu_ns * 1e-6);
    log_line(2, "%s: %s", what, where);
}

static void summary_side(enum tb_side side, const char *name)
{
    for (int r = 0; r < TB_REASONS; r++) {
        const struct tally *const t = &tallies[side][r];
        if (t->calls == 0)
            continue;
        log_line(1, "  %s %-16s %10llu calls %12.3f GFLOP %12.3f ms", name,
                 route_reason_text((enum tb_reason)r), (unsigned long long)t->calls,
                 t->flops * 1e-9, t->ns * 1e-6);
    }
}

void log_summary(void)
{
    if (!log_wants(1))
        return;
    uint64_t calls[2] = {0, 0};
    for (int side = 0; side < 2; side++)
        for (int r = 0; r < TB_REASONS; r++)
            calls[side] += tallies[side][r].calls;
    log_line(1, "%llu level-3 calls caught: %llu on the GPU, %llu on the CPU",
             (unsigned long long)(calls[0] + calls[1]), (unsigned long long)calls[TB_ON_GPU],
             (unsigned long long)calls[TB_ON_CPU]);
    summary_side(TB_ON_GPU, "GPU");
    summary_side(TB_ON_CPU, "CPU");
    if (calls[TB_ON_GPU] > 0)
        log_line(
            1, "  moved %.1f MB to the GPU, %.1f MB back; %lld rectangles of C finished on the CPU",
            total_in * 1e-6, total_out * 1e-6, (long long)total_rects);
}
