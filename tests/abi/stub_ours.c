/* SPDX-License-Identifier: BSD-3-Clause
 * A library of ours in small: the marker, doors that do nothing, and the question of find.c
 * exported. With STUB_SECOND only the former two: the copy a program may have linked behind a
 * preloaded one. */
#include "../../fallback/fallback.h"
#include "resolve.h"

#define EXPORT __attribute__((visibility("default")))

const char *tileblas_marker(void);
EXPORT const char *tileblas_marker(void)
{
    return "stub";
}

void dgemm_(void);
EXPORT void dgemm_(void)
{
}
void openblas_get_config(void);
EXPORT void openblas_get_config(void) /* a trampoline: must not pass for a mark of others */
{
}

#ifndef STUB_SECOND
EXPORT void resolve_ask(const char *name, const void *caller, bool door, struct tb_found *out)
{
    *out = fallback_find(name, caller, door);
}
EXPORT bool resolve_found(const char *name, const void *caller, bool door)
{
    return fallback_find(name, caller, door).fn != NULL;
}
/* A trampoline: goes on to whatever the question answers. */
int openblas_get_parallel(void);
EXPORT int openblas_get_parallel(void)
{
    struct tb_found found =
        fallback_find("openblas_get_parallel", __builtin_return_address(0), false);
    return found.fn ? ((int (*)(void))found.fn)() : -1;
}
EXPORT int resolve_threads(void)
{
    return fallback_threads();
}
EXPORT void resolve_missing(const char *name)
{
    fallback_missing(name);
}
#endif
