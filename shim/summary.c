/* SPDX-License-Identifier: BSD-3-Clause
 * The one destructor: the summary that TILEBLAS_VERBOSE asks for. Zero calls caught is what people
 * most need to see, so it does not wait for a first call. Silent and idle otherwise. */
#include "../src/conf.h"
#include "../src/log.h"
#include "../src/trace.h"
#include <stdlib.h>

__attribute__((destructor)) static void summary(void)
{
    trace_flush();
    if (secure_getenv("TILEBLAS_VERBOSE") == NULL)
        return;
    conf_get();
    log_summary();
}
