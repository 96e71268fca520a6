/* SPDX-License-Identifier: BSD-3-Clause
 * How much shared memory a block takes: one formula for the kernel that carves it up and for the host
 * that asks for it. Two stages of both tiles, each line padded, then the second level of the sums. */
#ifndef TB_SMEM_H
#define TB_SMEM_H

/* Elements of ELEM bytes between the lines (one per k) of a tile. With 16 bytes more than the tile is wide,
 * what a warp stores while it transposes falls into different banks, for every element size. */
#define TB_SMEM_LINE(WIDTH, ELEM) ((WIDTH) + 16 / (ELEM))

/* FOLD: 1 where a second level is kept. */
#define TB_SMEM_BYTES(BM, BN, BK, ELEM, FOLD)                                                      \
    ((ELEM) * (2 * (BK) * (TB_SMEM_LINE(BM, ELEM) + TB_SMEM_LINE(BN, ELEM)) + (FOLD) * (BM) * (BN)))

/* The sm_90 family: a ring of STAGES tiles of A and B, 64 of k each in lines of 128 bytes; for each 64
 * columns of the tile two pieces of C on their way out; two barriers a stage. */
#define TB_SM90_BK    64
#define TB_SM90_PIECE 8192
#define TB_SM90_BYTES(BM, BN, STAGES)                                                              \
    ((STAGES) * ((BM) + (BN)) * 128 + (BN) / 64 * 2 * TB_SM90_PIECE + (STAGES) * 16)
#define TB_SM90_THREADS(BN) (((BN) / 64 + 1) * 128)

/* The sm_80 family: a ring like it; a warp for each 64 x 64 of the tile. */
#define TB_SM80_BK                    64
#define TB_SM80_BYTES(BM, BN, STAGES) ((STAGES) * ((BM) + (BN)) * 128)
#define TB_SM80_THREADS(BM, BN)       ((BM) / 64 * ((BN) / 64) * 32)

#endif
