/* SPDX-License-Identifier: BSD-3-Clause
 * The texts of enum tb_status. */
#include "status.h"

const char *tb_status_text(enum tb_status status)
{
    static const char *const text[] = {
#define TB_STATUS_TEXT(NAME, TEXT) [NAME] = TEXT,
        TB_STATUS_LIST(TB_STATUS_TEXT)
#undef TB_STATUS_TEXT
    };
    return text[status];
}
