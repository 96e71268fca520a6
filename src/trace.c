/* SPDX-License-Identifier: BSD-3-Clause
 * Collects spans in a buffer and appends it to the file, which is opened for each writing: the
 * descriptor table is the program's own. Decides nothing about what is traced. A child of a fork
 * begins with an empty buffer, and with a file of its own where the name has %p. */
#include "trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "log.h"

enum { ROOM = 64 << 10, EVENT = 640, LANES_NAMED = 64 };

/* Lanes have no thread: numbers no thread can have. */
static const long first_lane = 5000000, lanes_of_track = 1000;

atomic_bool trace_wanted;
static const char *trace_path = "";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic pid_t owner; /* of all below */
static char buffer[ROOM];
static size_t used;
static int cancel_before;            /* of the thread that holds the lock */
static uint64_t named[TRACE_TRACKS]; /* lanes whose name is written, a bit each */
static _Thread_local pid_t thread_named;

void trace_open(const char *path)
{
    trace_path = path;
    atomic_store(&owner, getpid());
    atomic_store(&trace_wanted, path[0] != '\0');
}

int64_t trace_start(void)
{
    return trace_on() ? (int64_t)log_now_ns() : 0;
}

static void put_all(int fd, const char *text, size_t length)
{
    while (length > 0) {
        const ssize_t put = log_write(fd, text, length);
        if (put <= 0)
            return;
        text += put;
        length -= (size_t)put;
    }
}

/* Whoever makes the file writes its head; everybody appends. Lock held. */
static void flush_locked(void)
{
    char path[4096], head[200];
    /* A FIFO that nobody reads is not waited for. */
    const int flags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, saved = errno;
    if (used == 0)
        return;
    log_expand_pid(trace_path, path, sizeof path);
    int fd = open(path, flags | O_CREAT | O_EXCL, 0666);
    if (fd >= 0) {
        const int length =
            snprintf(head, sizeof head,
                     "[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%ld,\"tid\":0,"
                     "\"args\":{\"name\":\"tileblas\"}}",
                     (long)getpid());
        put_all(fd, head, (size_t)length);
    } else if (errno == EEXIST) {
        fd = open(path, flags);
    }
    if (fd >= 0) {
        put_all(fd, buffer, used);
        close(fd);
    } else {
        atomic_store(&trace_wanted, false);
        log_line(1, "cannot write the timeline %s: %s", path, strerror(errno));
    }
    used = 0;
    errno = saved;
}

/* In a child what the parent held is the parent's to write; the lock may be held by nobody there.
 * A caller that is cancelled while it writes would take the lock along. */
static void lock_take(void)
{
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pid_t expected = atomic_load(&owner);
    const pid_t self = getpid();
    if (expected != self && atomic_compare_exchange_strong(&owner, &expected, self)) {
        pthread_mutex_init(&lock, NULL);
        used = 0;
        memset(named, 0, sizeof named);
    }
    pthread_mutex_lock(&lock);
    cancel_before = cancel;
}

static void lock_give(void)
{
    int cancel = cancel_before;
    pthread_mutex_unlock(&lock);
    pthread_setcancelstate(cancel, &cancel);
}

void trace_flush(void)
{
    if (!trace_on())
        return;
    lock_take();
    flush_locked();
    lock_give();
}

/* Each event begins with the comma behind the one before. Lock held. */
__attribute__((format(printf, 1, 2))) static void add(const char *format, ...)
{
    va_list args;
    if (ROOM - used < EVENT)
        flush_locked();
    va_start(args, format);
    const int length = vsnprintf(buffer + used, EVENT, format, args);
    va_end(args);
    if (length > 0 && length < EVENT) /* else it is left out, not cut */
        used += (size_t)length;
}

static void name_track(long tid, const char *name, int number)
{
    if (number >= 0)
        add(",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%ld,\"tid\":%ld,"
            "\"args\":{\"name\":\"%s %d\"}}",
            (long)getpid(), tid, name, number);
    else
        add(",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%ld,\"tid\":%ld,"
            "\"args\":{\"name\":\"%s\"}}",
            (long)getpid(), tid, name);
}

static void add_span(long tid, const char *category, const char *name, int64_t from, int64_t to,
                     const char *text)
{
    const double duration = to > from ? (double)(to - from) * 1e-3 : 0.001;
    add(",\n{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%ld,\"tid\":%ld,\"ts\":%.3f,"
        "\"dur\":%.3f,\"args\":{\"what\":\"%s\"}}",
        name, category, (long)getpid(), tid, (double)from * 1e-3, duration, text);
}

void trace_span(int64_t start, const char *thread, const char *name, const char *format, ...)
{
    char text[256] = "";
    if (start == 0 || !trace_on())
        return;
    const int64_t now = (int64_t)log_now_ns();
    if (format) {
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
    }
    lock_take();
    if (thread_named != getpid()) {
        thread_named = getpid();
        name_track(gettid(), thread, -1);
    }
    add_span(gettid(), thread, name, start, now, text);
    lock_give();
}

void trace_lane(enum trace_track track, int lane, const char *name, int64_t bytes, int64_t from_ns,
                int64_t to_ns)
{
    static const char *const tracks[TRACE_TRACKS] = {"H2D", "kernel", "D2H"};
    const long tid = first_lane + lanes_of_track * (long)track + lane;
    char text[48];
    snprintf(text, sizeof text, "%lld bytes", (long long)bytes);
    lock_take();
    if (lane < LANES_NAMED && !(named[track] >> lane & 1)) {
        named[track] |= UINT64_C(1) << lane;
        name_track(tid, tracks[track], lane);
    }
    add_span(tid, tracks[track], name, from_ns, to_ns, text);
    lock_give();
}
