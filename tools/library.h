/* SPDX-License-Identifier: BSD-3-Clause
 * Where the preload library lies: beside the build, or installed. */
#ifndef TB_TOOLS_LIBRARY_H
#define TB_TOOLS_LIBRARY_H

/* Path of libtileblas-preload.so, to be freed; NULL if it is not installed. */
char *library_preload(void);

#endif
