/* SPDX-License-Identifier: BSD-3-Clause
 * A build without any device: everything is computed by the CPU BLAS. */
#include "dev.h"

const struct tb_dev_ops *tb_dev(void)
{
    return NULL;
}
