/* SPDX-License-Identifier: BSD-3-Clause
 * `tileblas report`: a page about one run of a program, out of its log or its timeline. */
#ifndef TB_TOOLS_REPORT_H
#define TB_TOOLS_REPORT_H

/* Becomes python3 with report-run.py and these words; returns a status only where that fails. */
int report_run(int count, char **words);

#endif
