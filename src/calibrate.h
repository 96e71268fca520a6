/* SPDX-License-Identifier: BSD-3-Clause
 * The profile of this process: built-in figures at first, then those of a saved profile that fits
 * the machine, else with the link as it was measured while the device started. Files and clocks are
 * on the start thread only (device.c), never in a user's call. Writes nothing. */
#ifndef TB_CALIBRATE_H
#define TB_CALIBRATE_H

#include <stdbool.h>
#include <stddef.h>
#include "caps.h"
#include "dev.h"
#include "profile.h"
#include "tuned.h"

/* Learns the CPU side, which a saved profile has to fit, from the first call that comes; before the
 * device is started. Cheap from the second on. */
void calibrate_cpu(void (*name_blas)(char *out, size_t room), int (*count_cpus)(void));
int calibrate_cpus(void); /* of the process, as it was then; 0 before */

/* The built-in figures for this machine. */
void calibrate_builtin(const struct tb_caps *caps, int cpus, struct tb_profile *out);

/* On the start thread, as the device is open and not yet used: settles the profile. */
void calibrate_device(const struct tb_dev_ops *dev, const struct tb_caps *caps);

/* The profile to route by. Cheap; valid for ever. */
const struct tb_profile *calibrate_get(void);

/* The choices of kernels that were saved with the profile in force, for the device that
 * calibrate_device() was called for; NULL: none. */
const struct tb_tuned *calibrate_tuned(void);

/* The text of the profile that would be taken for that machine, as it was saved; 0: none. For
 * `tileblas tune`, which renews a part of it. */
size_t calibrate_saved(const struct tb_profile *machine, char *text, size_t room,
                       struct tb_profile *out);

/* Measures the link into the profile; false: it could not, and nothing was changed. */
bool calibrate_link(const struct tb_dev_ops *dev, struct tb_profile *profile);

/* Where profiles lie: TILEBLAS_PROFILE alone if set; else number 0 that of the user, 1 that of the
 * machine. False: there is no such place (no home folder). */
bool calibrate_path(int number, const char *gpu, const char *cpu_blas, int cpus, char *out,
                    size_t room);

#endif
