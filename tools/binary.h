/* SPDX-License-Identifier: BSD-3-Clause
 * What an ELF file says about itself, read without running or loading it. Decides nothing about
 * BLAS (scan.c does). Files are hostile until checked: every offset is bounded by the size of the
 * file. */
#ifndef TB_TOOLS_BINARY_H
#define TB_TOOLS_BINARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum binary_kind {
    BINARY_UNREADABLE, /* cannot be opened or read; errno says why */
    BINARY_SCRIPT,     /* starts with #! */
    BINARY_OTHER,      /* some other kind of file */
    BINARY_FOREIGN,    /* ELF, but not for x86-64 */
    BINARY_BROKEN,     /* x86-64 ELF whose tables lead out of the file */
    BINARY_OBJECT      /* x86-64 program or shared library */
};

enum binary_use {
    BINARY_IMPORTED = 1, /* undefined here: another object serves it */
    BINARY_EXPORTED = 2, /* defined here, visible to other objects */
    BINARY_BY_NAME = 4,  /* and calls from inside go through the dynamic linker */
    BINARY_PRIVATE = 8   /* defined here, visible to nobody */
};

struct binary {
    enum binary_kind kind;
    const unsigned char *bytes; /* the mapping, until binary_close() */
    size_t size;
    char script[256];                     /* BINARY_SCRIPT: the rest of the #! line */
    bool library_type;                    /* ET_DYN (a PIE program too) */
    bool dynamic;                         /* has a dynamic section */
    bool symbolic;                        /* -Bsymbolic: own definitions win inside the object */
    bool pie;                             /* marked as a program */
    const char *interp;                   /* the dynamic linker, or NULL */
    const char *soname, *rpath, *runpath; /* or NULL */
    const char **needed;                  /* owned */
    size_t needed_count;
    struct binary_private *tables;
};

/* Reads the file. Always sets kind; the strings live until binary_close(). */
void binary_open(struct binary *file, const char *path);
void binary_close(struct binary *file);

/* Calls back for every function symbol that is imported, exported or private. `use` is a set of
 * enum binary_use. */
typedef void (*binary_visit)(void *context, const char *name, unsigned use);
void binary_symbols(const struct binary *file, binary_visit visit, void *context);

/* Does the file export this name? */
bool binary_exports(const struct binary *file, const char *name);

#endif
