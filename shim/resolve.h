/* SPDX-License-Identifier: BSD-3-Clause
 * The seam between the assembly of trampolines.inc.S and resolve.c. Two builds of the assembly
 * exist: the doors only (libtileblas-preload.so), and every public OpenBLAS name (libtileblas.so).
 */
#ifndef TB_RESOLVE_H
#define TB_RESOLVE_H

#include <stddef.h>

/* One slot per exported name: where its trampoline jumps. Starts at the resolver. */
extern void *tb_slots[];
/* The names in the order of the slots, each ended by a NUL; an empty name ends the list. */
extern const char tb_names[];
extern const unsigned char tb_doors_only; /* this is the preload library */

/* Called by the trampoline of a name that was never called before: decides where the name leads,
 * fills its slot and says where to go on. `caller` is the return address of the call. */
void *tb_resolve(size_t index, const void *caller);

#endif
