/* SPDX-License-Identifier: BSD-3-Clause
 * How a product is cut into tiles of C and panels of A and B, where each lies in a workspace on the
 * device, and in which order they are sent, computed and fetched. Pure: a plan is a value that can
 * be printed and compared; it knows sizes only, no addresses. offload.c builds it, exec.c runs it.
 */
#ifndef TB_PLAN_H
#define TB_PLAN_H

#include <stdbool.h>
#include <stdio.h>
#include "call.h"
#include "caps.h"
#include "status.h"

#define TB_CHUNK_BYTES ((size_t)2 << 20) /* of a staging buffer: no piece is larger */
#define TB_INLINE_BYTES                                                                            \
    ((size_t)64 << 10)  /* a product this small may run on the caller's stack                      \
                         */
#define TB_PLAN_LANES 4 /* lanes a plan computes on */
#define TB_STEP_WAITS 4

enum tb_step_kind { TB_UPLOAD_A, TB_UPLOAD_B, TB_UPLOAD_C, TB_COMPUTE, TB_DOWNLOAD };
enum tb_operand_id { TB_A, TB_B, TB_C, TB_OPERANDS };

/* A rectangle of a matrix as it is stored, the same one of `items` products of a batch. On the
 * device its columns lie plan_pitch() bytes apart, item behind item. */
struct tb_panel {
    int64_t item, items, row, rows, col, cols;
};

struct tb_step {
    enum tb_step_kind kind;
    int32_t lane;                    /* of a compute step; -1: that of whichever copier takes it */
    int32_t slot;                    /* of the operand filled, computed or fetched */
    int32_t slot_a, slot_b;          /* compute: where its panels lie */
    int32_t waits_on[TB_STEP_WAITS]; /* earlier steps, -1 where none */
    struct tb_panel range;           /* compute and download: of C */
    int64_t k0, k;                   /* compute: its part of the sum */
    bool first;                      /* compute: of its tile; beta belongs to this one */
    int64_t piece0; /* download, compute of a C in place: its first piece within the plan */
};

/* Slots of one operand: equal boxes in the workspace, each holds one panel at a time. */
struct tb_slots {
    size_t offset, bytes;
    int32_t count;
};

struct tb_plan {
    int64_t tile_m, tile_n, tile_k; /* of C, of k */
    int64_t group;                  /* products of the batch that share a tile */
    int64_t tiles_m, tiles_n, tiles_k, groups;
    int64_t ahead; /* parts of k that are summed over all of C before any tile is finished */
    bool whole;    /* every byte of A and B crosses once, in growing squares */
    struct tb_slots slots[TB_OPERANDS];
    size_t elem[TB_OPERANDS];
    bool in_place[TB_OPERANDS]; /* in device memory already: no slots, no transfers */
    size_t bytes;               /* of the workspace */
    size_t chunk;               /* no piece is larger */
    int kernel;                 /* row of kernels.def */
    int32_t band;               /* of its block order, in rows of tiles; 0: the row's own */
    int64_t beside;             /* products of a tile that the row was chosen for */
    bool a_shared, b_shared;    /* one matrix for the whole batch */
    bool on_caller;             /* small, and the device allows the caller's own thread */
    double bytes_in, bytes_out;
    double est_ns;  /* alone, by the built-in rates: the longest of link in, device, link out */
    int64_t pieces; /* of C, over all downloads; of a C in place, one for each tile */
    int32_t count;
    struct tb_step *many; /* the steps, or NULL where `few` holds them */
    struct tb_step few[6];
};

/* Plans a call on a device with `memory` bytes for it. TB_NO_MEMORY: no way to fit it, or absurdly
 * many steps; TB_NO_KERNEL: not a product, or no kernel for it. On failure there is nothing to
 * free. */
enum tb_status plan_build(const struct tb_call *call, const struct tb_caps *caps, size_t memory,
                          struct tb_plan *plan);
void plan_free(struct tb_plan *plan);
void plan_print(const struct tb_plan *plan, FILE *out);

const struct tb_step *plan_step(const struct tb_plan *plan, int32_t i);

/* The device layout: bytes between columns, between items; where a slot begins. */
size_t plan_pitch(int64_t rows, size_t elem);
size_t plan_item_bytes(const struct tb_panel *range, size_t elem);
size_t plan_slot_offset(const struct tb_plan *plan, enum tb_operand_id which, int32_t slot);
enum tb_operand_id plan_operand(enum tb_step_kind kind);

/* A piece of a panel: what one staging buffer takes, contiguous on the device. Columns are numbered
 * through all items of the panel; a piece is some whole columns, or some rows of one. */
struct tb_piece {
    int64_t col, cols, row, rows;
};
int64_t plan_pieces(const struct tb_panel *range, size_t elem, size_t chunk);
struct tb_piece plan_piece(const struct tb_panel *range, size_t elem, size_t chunk, int64_t i);
/* Its first byte within the panel on the device, and its bytes from there. */
size_t plan_piece_offset(const struct tb_panel *range, size_t elem, const struct tb_piece *piece);
size_t plan_piece_bytes(const struct tb_panel *range, size_t elem, const struct tb_piece *piece);

/* Does the step bring a part of C into being where the caller wants it, and in pieces of what size?
 * A tile of a C in place is one piece, computed by one step: old or new, nothing in between. */
bool plan_step_commits(const struct tb_plan *plan, const struct tb_step *step);
size_t plan_commit_chunk(const struct tb_plan *plan);

#endif
