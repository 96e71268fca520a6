/* SPDX-License-Identifier: BSD-3-Clause
 * The version, from configure. */
#ifndef TB_VERSION_H
#define TB_VERSION_H

#include "config.h"
#define TB_VERSION PACKAGE_VERSION

#endif
