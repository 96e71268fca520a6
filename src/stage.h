/* SPDX-License-Identifier: BSD-3-Clause
 * Between the caller's matrices and the layout of a plan. Called by exec.c, which sees to it that
 * the caller still waits. */
#ifndef TB_STAGE_H
#define TB_STAGE_H

#include "dev.h"
#include "plan.h"

/* Copies a piece of a panel from the caller's memory into the device layout, and back (of C). B of
 * trmm, which is C here, comes multiplied by alpha. */
void stage_gather(const struct tb_call *call, const struct tb_panel *range,
                  enum tb_operand_id which, size_t elem, const struct tb_piece *piece, char *to);
void stage_scatter(const struct tb_call *call, const struct tb_panel *range, size_t elem,
                   const struct tb_piece *piece, const char *from);

/* A piece as it lies in the caller's memory, for a copy without staging. False: not one rectangle,
 * or not as it is to be sent. */
bool stage_rectangle(const struct tb_call *call, const struct tb_panel *range,
                     enum tb_operand_id which, size_t elem, const struct tb_piece *piece,
                     const void **at, struct tb_copy *shape);

/* What the kernel of a compute step is told, with the workspace at `base`. */
struct tb_gemm_params stage_params(const struct tb_call *call, const struct tb_plan *plan,
                                   const struct tb_step *step, tb_dptr base);
/* And which row of kernels.def that is. */
int stage_kernel(const struct tb_plan *plan, const struct tb_step *step);

/* A step that copies within the device. Of a triangle all of the rectangle around it is read. */
struct stage_within {
    tb_dptr to, from;
    struct tb_copy shape;
};
void stage_within(const struct tb_call *call, const struct tb_plan *plan,
                  const struct tb_step *step, tb_dptr base, struct stage_within *out);

#endif
