/* SPDX-License-Identifier: BSD-3-Clause
 * The mark of an object that is ourselves: fallback/ never takes such an object for a CPU BLAS. */
#include "../src/version.h"

const char *tileblas_marker(void);

__attribute__((visibility("default"))) const char *tileblas_marker(void)
{
    return TB_VERSION;
}
