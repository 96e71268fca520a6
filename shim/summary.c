/* SPDX-License-Identifier: BSD-3-Clause
 * The one destructor: the summary that TILEBLAS_VERBOSE asks for. Zero calls caught is what people
 * most need to see, so it does not wait for a first call. Silent and idle otherwise. */
#include "../src/conf.h"
#include "../src/log.h"
#include "../src/trace.h"
#include <stdlib.h>
#include <string.h>

__attribute__((destructor)) static void summary(void)
{
    trace_flush();
    const char *const wanted = secure_getenv("TILEBLAS_VERBOSE");
    if (wanted == NULL || strcmp(wanted, "") == 0 || strcmp(wanted, "0") == 0)
        return; /* a program without a call reads no configuration and complains of none */
    conf_get();
    log_summary();
}
