/* SPDX-License-Identifier: BSD-3-Clause
 * Which tile of C a block takes: the same arithmetic for the kernels and for the test that no tile
 * is taken twice or left out. Tiles are taken in bands of some tile rows; in a band the rows vary
 * fastest, so that blocks that run at the same time share lines of A and of B in the L2 cache. */
#ifndef TB_ORDER_H
#define TB_ORDER_H

#include <stdint.h>

enum { TB_ORDER_BAND = 16 }; /* tile rows of a band, where nothing else is asked for */

#ifdef __CUDACC__
#define TB_ORDER_FN __host__ __device__ inline
#else
#define TB_ORDER_FN static inline
#endif

/* Tile number `t` < items * rows * cols: product of the batch, row and column of tiles. In 64 bits
 * for any launch, in 32 where the host keeps the number of tiles below 2^31; rows, cols, band > 0.
 */
#define TB_ORDER(NAME, INT)                                                                        \
    struct NAME##_place {                                                                          \
        INT item, row, col;                                                                        \
    };                                                                                             \
    TB_ORDER_FN struct NAME##_place NAME(INT t, INT rows, INT cols, INT band) {                    \
        struct NAME##_place at;                                                                    \
        at.item = t / (rows * cols);                                                               \
        t -= at.item * (rows * cols);                                                              \
        const INT number = t / (band * cols);                                                      \
        t -= number * (band * cols);                                                               \
        const INT left = rows - number * band, height = left < band ? left : band;                 \
        at.col = t / height;                                                                       \
        at.row = number * band + t - at.col * height;                                              \
        return at;                                                                                 \
    }
TB_ORDER(tb_order64, int64_t)
TB_ORDER(tb_order32, uint32_t)

#endif
