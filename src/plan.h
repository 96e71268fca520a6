/* SPDX-License-Identifier: BSD-3-Clause
 * How a call is cut into tiles and in which order they are sent, computed and fetched. Pure: a plan
 * is a value that can be printed and compared. PLACEHOLDER for the interface; owned by plan.c. */
#ifndef TB_PLAN_H
#define TB_PLAN_H

#include <stdio.h>
#include "call.h"
#include "caps.h"
#include "status.h"

struct tb_plan;

#endif
