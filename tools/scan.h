/* SPDX-License-Identifier: BSD-3-Clause
 * `tileblas info PROG`: which BLAS a program or library would reach, which of our names it calls,
 * and whether those calls would be caught. Reads files only; nothing is executed or loaded. */
#ifndef TB_TOOLS_SCAN_H
#define TB_TOOLS_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include "binary.h"

/* Why the dynamic linker would not preload into this program; NULL if it would. */
const char *scan_no_preload(const char *path, const struct binary *file);

/* The program an argument means: a path if it has a slash, else looked up in PATH as the shell
 * does. To be freed; NULL if there is none. */
char *scan_find_program(const char *name);

/* Prints the report on a program, library, script or folder. Returns the exit status of the
 * command. */
int scan_report(const char *argument);

#endif
