/* SPDX-License-Identifier: BSD-3-Clause
 * The CPU side: which CPU BLAS a name leads to, and the same calls made from a descriptor. */
#ifndef TB_FALLBACK_H
#define TB_FALLBACK_H

#include <stdbool.h>
#include "../src/call.h"

/* What a name leads to. fn NULL: found nowhere. */
struct tb_found {
    tb_fn fn;     /* where valid calls go */
    tb_fn origin; /* what the program would have reached without us (differs from fn only where a
                     reference BLAS was replaced by OpenBLAS) */
    bool wide;    /* an ILP64 library behind this name */
    bool mkl;     /* the owner is oneMKL (bare names are by reference there) */
    const char *path; /* of the library fn lies in, for the log; valid for ever */
};

/* Finds a name for a caller at address `caller` (inside the object that called the door). `door`: a
 * level-3 door of ours, so a reference BLAS may be replaced and OpenBLAS opened for it. Never finds
 * ourselves. */
struct tb_found fallback_find(const char *name, const void *caller, bool door);

/* The whole call on the CPU, for names the CPU BLAS lacks (cpu->fn is NULL): 16-bit types, batches,
 * gemmt, gemm3m, other integer widths. The call is normalized and valid. False: no CPU BLAS at all.
 */
bool fallback_call(const struct tb_call *call);

/* One rectangle of C (after a device fault), through the CPU BLAS; of a triangular C, what of it lies
 * in the triangle. */
bool fallback_rect(const struct tb_call *call, const struct tb_rect *rect);

/* xerbla for names the CPU BLAS lacks: the program's xerbla_, else the CPU BLAS's. */
void fallback_xerbla(const struct tb_call *call, int info);

/* A name the program needs and nobody has: ends as the dynamic linker would, one line on stderr and
 * status 127. Does not return. */
void fallback_missing(const char *name) __attribute__((noreturn));

/* Threads the CPU BLAS would use now for this caller (its own answer, else the CPUs he may use). */
int fallback_threads(void);
/* Sets them, where the library in use has a way; false: it has none. For `tileblas tune`. */
bool fallback_set_threads(int threads);

/* What the library in use calls itself, name and version; else its file name. "" before the first
 * call. */
void fallback_name(char *out, size_t room);

/* Path of the CPU BLAS that serves dgemm_, for the log and `tileblas info`; "" before the first
 * call. */
const char *fallback_path(void);

#endif
