/* SPDX-License-Identifier: BSD-3-Clause
 * The numbering of exported names, shared by the doors, the trampolines and the resolver: doors
 * first, then (in libtileblas.so only) every other public OpenBLAS name. */
#ifndef TB_DOORS_H
#define TB_DOORS_H

#include "../src/call.h"

enum tb_door {
#define DOOR(SHAPE, OP, NAME, TYPES, SPELLED, I, STYLE) TB_DOOR_##SPELLED,
#include "doors.def"
#undef DOOR
    TB_DOORS
};

/* The CPU BLAS behind each door, filled by the resolver before the door's slot opens. */
extern struct tb_cpu tb_cpu[TB_DOORS];

#endif
