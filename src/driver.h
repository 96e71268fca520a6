/* SPDX-License-Identifier: BSD-3-Clause
 * The CUDA driver, found at run time: a table of its functions, or the reason why there is none.
 * Only dev_cuda.c uses the table; nothing is loaded before driver_open(). */
#ifndef TB_DRIVER_H
#define TB_DRIVER_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include "status.h"

enum { TB_DRIVER_MIN = 13000 }; /* as cuDriverGetVersion counts: driver 580 */

struct tb_driver {
#define DRIVER(FN) __typeof__(&FN) FN;
#include "driver.def"
#undef DRIVER
};

/* Loads the driver if nobody has and hands out its functions. TB_NO_DRIVER: there is none;
 * TB_OLD_DRIVER. `why` gets one line then. Takes no lock of ours: a caller that holds the loader's
 * lock cannot hang. */
enum tb_status driver_open(const struct tb_driver **out, char *why, size_t why_bytes);

/* Is libcuda in this process already, whoever loaded it? Loads nothing, never waits for the loader.
 */
bool driver_is_mapped(void);

/* May the program use CUDA of its own accord? The driver was here before we loaded it, or CUDA's
 * run-time library is. Cheap as the above. */
bool driver_is_shared(void);

#endif
