/* SPDX-License-Identifier: BSD-3-Clause
 * What find.c knows about a loaded library: whether it is us, what it is, and how it counts. */
#ifndef TB_FALLBACK_OBJECT_H
#define TB_FALLBACK_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

/* Both our libraries export it; an object that has it is never a CPU BLAS. */
#define TB_MARKER "tileblas_marker"

struct tb_object {
    struct tb_object *next;
    uintptr_t base;
    const char *path;
    void *handle; /* kept open, so the object stays loaded */
    bool program; /* the main program: its handle means the global scope */
    bool ours;
    _Atomic(const struct tb_kind *) kind; /* see object_kind() */
};

/* What kind of library it is. */
struct tb_kind {
    bool reference; /* netlib's, or GSL's copy */
    bool wide;      /* 64-bit integers behind plain names */
    bool mkl;
    int openblas_version; /* 331 for 0.3.31, 10203 for 1.2.3, 0 unless it is OpenBLAS */
    int (*threads)(void); /* how many it would use now, or NULL */
    void (*set_threads)(long);
    int (*serial)(void); /* non-zero: the caller is in a parallel region, where it uses one */
    const char *config;  /* what OpenBLAS says of itself, or NULL */
};

/* Found out at the first question, partly by asking the library. It may then call names of its own
 * that lead through our trampolines and back here: inside such a question the answer is "nothing
 * special". */
const struct tb_kind *object_kind(const struct tb_object *object);

/* The object an address lies in, pinned, or NULL. Takes no lock of ours: a caller may hold the
 * loader's. */
const struct tb_object *object_at(const void *address);

/* A symbol the object itself defines, or NULL. */
void *object_own_symbol(const struct tb_object *object, const char *name);

/* Does the address lie in one of our libraries? */
bool object_is_ours(const void *address);

#endif
