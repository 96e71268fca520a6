/* SPDX-License-Identifier: BSD-3-Clause
 * The one device of this process: which, whether it is up, and when it is given up. Owns the start
 * on a thread of its own, the fork rules and the count of faults. Nothing happens before
 * device_start(). */
#ifndef TB_DEVICE_H
#define TB_DEVICE_H

#include "caps.h"
#include "route.h"
#include "status.h"

enum { TB_DEVICE_FAULTS_MAX = 3 };

enum tb_device_state device_state(void); /* cheap: one atomic load and getpid() */

/* Starts the device if nobody has, and waits up to wait_ns for the start to end (0: does not wait).
 * Returns the state then. Never waits without a limit: a caller may hold the loader's lock. */
enum tb_device_state device_start(int64_t wait_ns);

int64_t device_starting_ns(void); /* since its start began; 0 where it is not starting */

const struct tb_caps *device_caps(void); /* of the device that is READY, else NULL */
const char *device_why_not(void);        /* one line: why there is no device, or why it is off */

/* A fault was met: counted; after TB_DEVICE_FAULTS_MAX, or at once if final, the device is off. */
void device_fault(enum tb_status status, const char *doing, bool final);

#endif
