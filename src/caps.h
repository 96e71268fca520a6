/* SPDX-License-Identifier: BSD-3-Clause
 * Facts about the device and the machine, as plain data: what route.c and plan.c decide from. */
#ifndef TB_CAPS_H
#define TB_CAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "call.h"

struct tb_tuned; /* tuned.h */

struct tb_caps {
    char name[64];  /* of the device, for people */
    int cc;         /* compute capability * 10: 90 for sm_90 */
    int sms;        /* multiprocessors */
    int smem_block; /* bytes of shared memory one block may use */
    int fp64_ratio; /* FP32 rate / FP64 rate: 2 on data-center parts, 64 on others */
    int clock_mhz;  /* boost clock of the SMs */
    size_t mem_total, mem_free;
    int driver;        /* version as the driver counts, 13000 = CUDA 13.0 */
    bool inline_calls; /* no service thread needed: calls may run on the caller's stack */
    bool strict;       /* asked for: sums by multiply-adds in the type they are kept in only */
    int64_t tile;      /* 0, or the side of a tile of C to force (tests on small shapes) */
    int64_t chunk;     /* 0, or bytes of a staging chunk to force (tests) */
    const struct tb_tuned *tuned; /* choices of kernels that were measured here, or NULL */
    int order; /* 0, or the order of a plan to force (tests): 1 squares, 2 parts of k first */
};

#endif
