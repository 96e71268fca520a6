/* SPDX-License-Identifier: BSD-3-Clause
 * What the stand-in for our library offers the test program. */
#ifndef TB_TEST_RESOLVE_H
#define TB_TEST_RESOLVE_H

#include <stdbool.h>

struct tb_found;
void resolve_ask(const char *name, const void *caller, bool door, struct tb_found *out);
bool resolve_found(const char *name, const void *caller, bool door);
int resolve_threads(void);
void resolve_missing(const char *name);

#endif
