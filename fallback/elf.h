/* SPDX-License-Identifier: BSD-3-Clause
 * Which symbols a loaded object defines itself, without its dependencies: dlsym() on a handle
 * cannot say that, and would need the object to be opened. Called by find.c only. */
#ifndef TB_FALLBACK_ELF_H
#define TB_FALLBACK_ELF_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* Does the object at load address `base` with dynamic section `dyn` define `name`? The object must
 * stay loaded meanwhile. */
bool elf_defines(uintptr_t base, const ElfW(Dyn) * dyn, const char *name);

#endif
