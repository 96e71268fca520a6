/* SPDX-License-Identifier: BSD-3-Clause
 * A call on the device whose result is to be checked (TILEBLAS_VERIFY), from before it to after it.
 * For run.c, which computes a wrong one again. */
#ifndef TB_WATCH_H
#define TB_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include "call.h"

struct tb_watch {
    bool on;
    void *old; /* C before the call, where it is read; m x n of each product */
    uint64_t number;
};

/* Decides whether this call is checked, and keeps what that takes. Before C is written. */
struct tb_watch watch_open(const struct tb_call *call);
/* False: C is not what the call can have left there. True also where it is not checked. */
bool watch_right(const struct tb_call *call, const struct tb_watch *watch);
void watch_close(struct tb_watch *watch);

#endif
