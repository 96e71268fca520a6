/* SPDX-License-Identifier: BSD-3-Clause
 * Lines on stderr or in the log file, and the counters behind the summary. A line is one write(2),
 * so that lines of several threads and processes do not mix. */
#include "log.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Atomic int level_wanted;
static const char *log_pattern = "";
static char log_path[4096]; /* the pattern with %p replaced; "" is stderr */

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

/* What the calls came to, by side and reason; only touched when a summary is wanted. Without a
 * lock: a process may fork while another of its threads counts, and the child would wait for that
 * thread. */
static struct tally {
    _Atomic uint64_t calls;
    _Atomic double flops, ns;
} tallies[2][TB_REASONS];
static _Atomic double total_in, total_out;
static _Atomic int64_t total_rects;

/* A child tells of its own calls, in a file of its own. */
static void log_in_child(void)
{
    for (int side = 0; side < 2; side++)
        for (int r = 0; r < TB_REASONS; r++) {
            struct tally *const t = &tallies[side][r];
            atomic_store(&t->calls, 0);
            atomic_store(&t->flops, 0);
            atomic_store(&t->ns, 0);
        }
    atomic_store(&total_in, 0);
    atomic_store(&total_out, 0);
    atomic_store(&total_rects, 0);
    log_expand_pid(log_pattern, log_path, sizeof log_path);
}

void log_configure(const struct tb_conf *conf)
{
    static bool heard;
    log_pattern = conf->log;
    log_expand_pid(log_pattern, log_path, sizeof log_path);
    if (!heard && (conf->verbose > 0 || log_pattern[0] != '\0'))
        heard = pthread_atfork(NULL, NULL, log_in_child) == 0;
    atomic_store(&level_wanted, conf->verbose);
}

/* The signals by which a write would end the program: its reader is gone, its file may not grow. */
static void write_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGPIPE);
    sigaddset(set, SIGXFSZ);
}

/* write(2) without them. Both come to the thread that writes, so those that were not pending before
 * are ours to take away. */
ssize_t log_write(int fd, const char *text, size_t length)
{
    const struct timespec at_once = {0, 0};
    sigset_t ours, before, pending;
    write_signals(&ours);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &ours, &before);
    const ssize_t written = write(fd, text, length);
    if (written < 0 && (errno == EPIPE || errno == EFBIG)) {
        const int number = errno == EPIPE ? SIGPIPE : SIGXFSZ;
        sigemptyset(&ours);
        sigaddset(&ours, number);
        if (!sigismember(&pending, number))
            sigtimedwait(&ours, NULL, &at_once);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return written;
}

/* The file is opened for each line: lines are rare, the descriptor table is the program's own (it
 * may close every descriptor it does not know), and a file that cannot be opened falls back to
 * stderr; so does a FIFO nobody reads, which would keep the program waiting. No thread is cancelled
 * in here: it would leave the descriptor open, or the configuration half read. */
static void put(const char *text, size_t length)
{
    const int saved = errno;
    int fd = -1, cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    if (log_path[0] != '\0')
        fd =
            open(log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    log_write(fd >= 0 ? fd : STDERR_FILENO, text, length);
    if (fd >= 0)
        close(fd);
    pthread_setcancelstate(cancel, &cancel);
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

static void add(_Atomic double *sum, double x)
{
    double old = atomic_load(sum);
    while (!atomic_compare_exchange_weak(sum, &old, old + x))
        ;
}

static void count(const struct tb_call *call, const struct tb_outcome *o)
{
    struct tally *const t = &tallies[o->choice.where][o->choice.reason];
    atomic_fetch_add(&t->calls, 1);
    add(&t->flops, call_flops(call));
    add(&t->ns, o->ns);
    add(&total_in, o->bytes_in);
    add(&total_out, o->bytes_out);
    atomic_fetch_add(&total_rects, o->rects_on_cpu);
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
    if (o->kernel)
        used += snprintf(where + used, sizeof where - (size_t)used, ", by %s", o->kernel);
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
        struct tally *const t = &tallies[side][r];
        if (atomic_load(&t->calls) == 0)
            continue;
        log_line(1, "  %s %-16s %10llu calls %12.3f GFLOP %12.3f ms", name,
                 route_reason_text((enum tb_reason)r), (unsigned long long)atomic_load(&t->calls),
                 atomic_load(&t->flops) * 1e-9, atomic_load(&t->ns) * 1e-6);
    }
}

void log_summary(void)
{
    if (!log_wants(1))
        return;
    uint64_t calls[2] = {0, 0};
    for (int side = 0; side < 2; side++)
        for (int r = 0; r < TB_REASONS; r++)
            calls[side] += atomic_load(&tallies[side][r].calls);
    log_line(1, "%llu level-3 calls caught: %llu on the GPU, %llu on the CPU",
             (unsigned long long)(calls[0] + calls[1]), (unsigned long long)calls[TB_ON_GPU],
             (unsigned long long)calls[TB_ON_CPU]);
    summary_side(TB_ON_GPU, "GPU");
    summary_side(TB_ON_CPU, "CPU");
    if (calls[TB_ON_GPU] > 0)
        log_line(
            1, "  moved %.1f MB to the GPU, %.1f MB back; %lld rectangles of C finished on the CPU",
            atomic_load(&total_in) * 1e-6, atomic_load(&total_out) * 1e-6,
            (long long)atomic_load(&total_rects));
}
