/* SPDX-License-Identifier: BSD-3-Clause
 * Where the dynamic linker would look for a library, approximately: DT_RPATH, LD_LIBRARY_PATH,
 * DT_RUNPATH, the ld.so cache, the standard folders. Reads files, runs nothing. */
#ifndef TB_TOOLS_LIBPATH_H
#define TB_TOOLS_LIBPATH_H

#include <stdbool.h>
#include "binary.h"

/* One object on the way from the program to the library that is wanted. */
struct libpath_loader {
    const char *path; /* of the object: $ORIGIN */
    const struct binary *file;
    const struct libpath_loader *loader; /* of that object in turn, or NULL */
};

/* Finds the x86-64 library `name` that `by` asks for and opens it. Returns its path (to be freed),
 * or NULL and a closed file. */
char *libpath_open(const char *name, const struct libpath_loader *by, struct binary *file);

#endif
