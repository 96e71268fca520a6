/* SPDX-License-Identifier: BSD-3-Clause
 * The names of libtileblas.so: the doors and every other public name of OpenBLAS. */
#define TB_ALL_NAMES
#include "trampolines.inc.S"
