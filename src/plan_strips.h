/* SPDX-License-Identifier: BSD-3-Clause
 * The plan of symm, hemm, trmm and trsm: one operand is a triangle. Called by plan.c alone. */
#ifndef TB_PLAN_STRIPS_H
#define TB_PLAN_STRIPS_H

#include "plan.h"

/* As plan_build(), which has cleared the plan. */
enum tb_status plan_strips_build(const struct tb_call *call, const struct tb_caps *caps,
                                 size_t memory, struct tb_plan *plan);

#endif
