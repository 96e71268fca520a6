/* SPDX-License-Identifier: BSD-3-Clause
 * What a person sees: lines on stderr or in TILEBLAS_LOG, never on stdout, and the counters behind
 * the summary at exit. Nothing is printed unless TILEBLAS_VERBOSE asks, but for one line about a
 * bad setting. */
#ifndef TB_LOG_H
#define TB_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "call.h"
#include "conf.h"
#include "route.h"

/* Called by conf.c as soon as the settings are known; before that nothing is printed. */
void log_configure(const struct tb_conf *conf);

/* One line, "tileblas: ..." with the newline added. Level 0 is always printed. */
void log_line(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool log_wants(int level);

/* What a call came to; one line at level 2, counted for the summary. */
struct tb_outcome {
    struct tb_choice choice;
    double ns;                  /* wall time of the call */
    double bytes_in, bytes_out; /* over the link */
    int64_t rects_on_cpu;       /* rectangles of C the CPU had to finish after a device fault */
    const char *kernel;         /* the row that computed it, or NULL */
};
void log_call(const struct tb_call *call, const struct tb_outcome *outcome);

/* The summary; called by the one destructor. Silent unless TILEBLAS_VERBOSE is 1 or more. */
void log_summary(void);

/* Copies a file name; %p becomes the process id. */
void log_expand_pid(const char *text, char *out, size_t room);

/* write(2) that never raises the signals of a reader gone or a file too long. */
ssize_t log_write(int fd, const char *text, size_t length);

uint64_t log_now_ns(void); /* monotonic clock */

#endif
