/* SPDX-License-Identifier: BSD-3-Clause
 * Where the operands of a call lie, and host copies of those the CPU cannot read. For run.c: the
 * device side works on such operands where they are. */
#ifndef TB_PLACE_H
#define TB_PLACE_H

#include <stdbool.h>
#include "call.h"

/* May any call of this process have operands on a device, so that none must pass unseen? True from
 * the moment it is known; a driver that only we use does not count. Loads nothing. */
bool place_shared(void);

/* Does this thread of the program use a device, though the driver is here through us? A few ns. */
bool place_used(void);

/* Fills call->where of a normalized call; true: the CPU cannot read some operand. */
bool place_find(struct tb_call *call);

/* Waits for what the program has asked of its default stream, where an operand of the call is in
 * managed memory: the CPU may read that, but not before it is written. place_find() was there. */
void place_await(const struct tb_call *call);

/* One product of a call with every operand readable by the CPU. */
struct tb_place {
    struct tb_call call; /* of that product alone */
    const struct tb_call *origin;
    void *copy[3]; /* host copies of A, B, C, NULL where none was needed */
    void *home;    /* where C is */
};

/* Copies what product `item` of the call reads, and with `read_c` what C holds in any case. False:
 * out of memory, or the device does not answer; nothing was written, and nothing is held. */
bool place_open(const struct tb_call *call, int64_t item, bool read_c, struct tb_place *out);
/* Brings C home, all of it that the routine writes, or only `rect` (of a product), and lets go of
 * the copies. False: C could not be written. */
bool place_close(struct tb_place *place, const struct tb_rect *rect);
/* What C holds: m x n of every product, one behind the other, of a triangle only what counts. NULL:
 * no memory, or no answer. */
void *place_save(const struct tb_call *call);
/* Puts the `item`-th of it back. */
bool place_restore(const struct tb_call *call, int64_t item, const void *saved);
/* Lets go without writing. */
void place_drop(struct tb_place *place);

#endif
