/* SPDX-License-Identifier: BSD-3-Clause
 * `tileblas info`: what the library would find on this machine, and the configuration in force. */
#ifndef TB_TOOLS_MACHINE_H
#define TB_TOOLS_MACHINE_H

/* Prints the report; returns the exit status of the command. */
int machine_report(void);

/* One line per bad value that `lookup` hands out, through `complain`, as the library would say it.
 */
void machine_check(char *(*lookup)(const char *name), void (*complain)(const char *line));

#endif
