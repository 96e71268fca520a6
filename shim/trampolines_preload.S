/* SPDX-License-Identifier: BSD-3-Clause
 * The names of libtileblas-preload.so: the doors. */
#include "trampolines.inc.S"
