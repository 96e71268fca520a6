/* SPDX-License-Identifier: BSD-3-Clause
 * What run.c has the CPU compute itself rather than forward: tiles the device left undone, calls
 * with operands the CPU cannot read, names the CPU BLAS lacks. */
#ifndef TB_ONCPU_H
#define TB_ONCPU_H

#include <stdbool.h>
#include "call.h"

/* What only a working device could still give, the one loss nobody can make good: says so. */
void cpu_lost(const struct tb_call *call);
/* A rectangle of C; `copies`: through host copies of what the CPU cannot read. */
void cpu_rect(const struct tb_call *call, const struct tb_rect *rect, bool copies);
/* The whole call, through such copies; with `old`, from the C that place_save() gave. False: lost,
 * or there is no CPU BLAS (*found). */
bool cpu_copies(const struct tb_call *call, const void *old, bool *found);
/* The whole call, by its descriptor. */
void cpu_own(const struct tb_call *call);

#endif
