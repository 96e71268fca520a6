/* SPDX-License-Identifier: BSD-3-Clause
 * A plugin linked with a BLAS of its own, opened RTLD_LOCAL as Python opens its extensions. With
 * STUB_CONSTRUCTOR it asks while the loader's lock is held. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

extern void dgemm_(void);
void plugin_here(void);
void plugin_here(void)
{
    dgemm_();
}

#ifdef STUB_CONSTRUCTOR
int plugin_asked;
__attribute__((constructor)) static void construct(void)
{
    bool (*ask)(const char *, const void *, bool) =
        (bool (*)(const char *, const void *, bool))dlsym(RTLD_DEFAULT, "resolve_found");
    plugin_asked =
        ask && ask("dgemm_", (const void *)plugin_here, true) && !ask("none_", NULL, false);
}
#endif
