/* SPDX-License-Identifier: BSD-3-Clause
 * What an ELF file says about itself, read without running or loading it. Decides nothing about
 * BLAS (scan.c does). Files are hostile until checked: every offset is bounded by the size of the
 * file. */
#ifndef TB_TOOLS_ELF_H
#define TB_TOOLS_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum elf_kind {
    ELF_UNREADABLE, /* cannot be opened or read; errno says why */
    ELF_SCRIPT,     /* starts with #! */
    ELF_OTHER,      /* some other kind of file */
    ELF_FOREIGN,    /* ELF, but not for x86-64 */
    ELF_BROKEN,     /* x86-64 ELF whose tables lead out of the file */
    ELF_OBJECT      /* x86-64 program or shared library */
};

enum elf_use {
    ELF_IMPORTED = 1, /* undefined here: another object serves it */
    ELF_EXPORTED = 2, /* defined here, visible to other objects */
    ELF_BY_NAME = 4,  /* and calls from inside go through the dynamic linker */
    ELF_PRIVATE = 8   /* defined here, visible to nobody */
};

struct elf_file {
    enum elf_kind kind;
    const unsigned char *bytes; /* the mapping, until elf_close() */
    size_t size;
    char script[256];                     /* ELF_SCRIPT: the rest of the #! line */
    bool library_type;                    /* ET_DYN (a PIE program too) */
    bool dynamic;                         /* has a dynamic section */
    bool symbolic;                        /* -Bsymbolic: own definitions win inside the object */
    bool pie;                             /* marked as a program */
    const char *interp;                   /* the dynamic linker, or NULL */
    const char *soname, *rpath, *runpath; /* or NULL */
    const char **needed;                  /* owned */
    size_t needed_count;
    struct elf_private *tables;
};

/* Reads the file. Always sets kind; the strings live until elf_close(). */
void elf_open(struct elf_file *file, const char *path);
void elf_close(struct elf_file *file);

/* Calls back for every function symbol that is imported, exported or private. `use` is a set of
 * enum elf_use. */
typedef void (*elf_visit)(void *context, const char *name, unsigned use);
void elf_symbols(const struct elf_file *file, elf_visit visit, void *context);

/* Does the file export this name? */
bool elf_exports(const struct elf_file *file, const char *name);

#endif
