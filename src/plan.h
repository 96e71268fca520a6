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
#include "shape.h"
#include "status.h"

#define TB_CHUNK_BYTES ((size_t)4 << 20) /* of a staging buffer: no piece is larger */
#define TB_INLINE_BYTES                                                                            \
    ((size_t)64 << 10)  /* a product this small may run on the caller's stack                      \
                         */
#define TB_PLAN_LANES 4 /* lanes a plan computes on */
#define TB_STEP_WAITS 4

enum tb_step_kind { TB_UPLOAD_A, TB_UPLOAD_B, TB_UPLOAD_C, TB_COMPUTE, TB_DOWNLOAD };
enum tb_operand_id { TB_A, TB_B, TB_C, TB_OPERANDS };

/* What a compute step does: the product of its panels as the call asks for it; a product of the
 * views it names; a triangle times, or solved for, a view; the missing half of a square. And where
 * a matrix is on the device already: copies `range` of it into its slot; scales the slot by alpha;
 * copies the slot to where C is. */
enum tb_action {
    TB_PRODUCT,
    TB_PRODUCT_OF,
    TB_TRIANGLE_OF,
    TB_MIRROR,
    TB_BRING,
    TB_SCALE_OF,
    TB_STORE
};

/* Factors of such steps. */
enum { TB_SCALE_ONE, TB_SCALE_MINUS, TB_SCALE_ALPHA, TB_SCALE_BETA };

/* A part of a panel: `rows` of the panel, so that its pitch is known; where the part begins. */
struct tb_view {
    uint8_t which; /* enum tb_operand_id */
    int32_t slot;
    int64_t rows, row, col;
};

/* A rectangle of a matrix as it is stored, the same one of `items` products of a batch. On the
 * device its columns lie plan_pitch() bytes apart, item behind item. */
struct tb_panel {
    int64_t item, items, row, rows, col, cols;
    char part;    /* 'L', 'U': only what lies in that triangle of the matrix counts; else 0 */
    bool unit;    /* of that triangle: without the diagonal */
    bool by_rows; /* its pieces are whole rows, not whole columns */
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
    bool second;                     /* compute: op(B) op(A), the other product of a rank-2k form */
    uint8_t from_a, from_b;          /* compute: the matrix each factor is of, as slot_a and slot_b
                                      * count: TB_A or TB_B */
    enum tb_action action;
    struct tb_view view[TB_OPERANDS]; /* other than TB_PRODUCT, with k, and these: */
    int64_t m, n;
    int32_t kernel;
    char trans_a, trans_b;
    uint8_t scale, beta;
    bool commits;   /* compute: the last one of its part of a C in place */
    int64_t piece0; /* download, and those: the first piece within the plan */
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
    bool in_place[TB_OPERANDS]; /* in device memory already: no transfers, and no slots but beside a
                                 * triangle, where copies go to and fro */
    size_t scratch_offset;      /* behind the slots: an area for the kernel, of each lane that */
    size_t scratch_bytes;       /* gets a tile; bytes of one, or 0. Only TB_X3 cannot do without */
    size_t bytes;               /* of the workspace */
    size_t chunk;               /* no piece is larger */
    int32_t lanes;              /* that the tiles take in turn */
    int kernel;                 /* row of kernels.def */
    int16_t band, hint;         /* of its launches (kparams.h) */
    bool a_shared, b_shared;    /* one matrix for the whole batch */
    bool twin;                  /* both factors are of A: B has no slots of its own */
    char uplo;                  /* 'L', 'U': only the tiles of that triangle; else 0 */
    int64_t corner; /* of a triangle in place: cut in halves down to this order; else 0 */
    bool on_caller; /* small, and the device allows the caller's own thread */
    /* The kernel was chosen for a product of that size, and so many beside each other. */
    struct tb_extent chosen_for;
    double bytes_in, bytes_out;
    double est_ns;  /* alone, by the built-in rates: the longest of link in, device, link out */
    int64_t pieces; /* of C, over all downloads; of a C in place, one for each tile */
    int32_t count;
    struct tb_step *many;  /* the steps, or NULL where `few` holds them */
    struct tb_step few[6]; /* A, B and C up, two products, C down */
};

/* Plans a call on a device with `memory` bytes for it. TB_NO_MEMORY: no way to fit it, or absurdly
 * many steps; TB_NO_KERNEL: not a product, or no kernel for it. On failure there is nothing to
 * free. */
enum tb_status plan_build(const struct tb_call *call, const struct tb_caps *caps, size_t memory,
                          struct tb_plan *plan);
void plan_free(struct tb_plan *plan);
void plan_print(const struct tb_plan *plan, FILE *out);

const struct tb_step *plan_step(const struct tb_plan *plan, int32_t i);
/* No piece of this step is larger. Those of the first panel of many are small: while they are
 * gathered the link stands still. */
size_t plan_step_chunk(const struct tb_plan *plan, const struct tb_step *step);

/* The device layout: bytes between columns, between items; where a slot begins. */
size_t plan_pitch(int64_t rows, size_t elem);
size_t plan_item_bytes(const struct tb_panel *range, size_t elem);
size_t plan_slot_offset(const struct tb_plan *plan, enum tb_operand_id which, int32_t slot);
enum tb_operand_id plan_operand(enum tb_step_kind kind);
/* Where the area of a lane begins; only where scratch_bytes > 0. */
size_t plan_scratch_offset(const struct tb_plan *plan, int32_t lane);
/* Memory for the same plan without such areas. */
size_t plan_room_without_areas(const struct tb_plan *plan);

/* A piece of a panel: what one staging buffer takes. Columns are numbered through all items of the
 * panel; a piece is some whole columns, or some rows of one; of a panel by rows, some whole rows.
 * Of a triangle it has no more rows than its columns need, and none where they need none. */
struct tb_piece {
    int64_t col, cols, row, rows;
};
int64_t plan_pieces(const struct tb_panel *range, size_t elem, size_t chunk);
struct tb_piece plan_piece(const struct tb_panel *range, size_t elem, size_t chunk, int64_t i);
/* Its first byte within the panel on the device; bytes between its columns in a staging buffer, and
 * its bytes there from the first to the last. */
size_t plan_piece_offset(const struct tb_panel *range, size_t elem, const struct tb_piece *piece);
size_t plan_piece_pitch(size_t elem, const struct tb_piece *piece);
size_t plan_piece_bytes(size_t elem, const struct tb_piece *piece);

/* By the built-in rates: the products of a call, in tiles of m x n x k, so many beside each other;
 * and with that, once the bytes are known, est_ns. */
double plan_device_ns(const struct tb_call *call, const struct tb_caps *caps, int64_t m, int64_t n,
                      int64_t k, int64_t beside);
double plan_estimate(const struct tb_plan *plan, double device);

/* The largest products that symm, hemm, trmm and trsm are made of, and how many run side by side.
 */
void plan_strips_piece(const struct tb_call *call, int64_t *m, int64_t *n, int64_t *k,
                       int64_t *beside);

/* Bytes of a panel that cross the link. */
double plan_panel_bytes(const struct tb_panel *range, size_t elem, size_t chunk);

/* The rows of a column of a panel that count: [*from, *to), of the panel. */
void plan_column(const struct tb_panel *range, int64_t col, int64_t *from, int64_t *to);

/* Does the step bring a part of C into being where the caller wants it, and in pieces of what size?
 * A tile of a C in place is one piece, computed by one step: old or new, nothing in between; of a
 * rank-2k form by two, between which it is neither. */
bool plan_step_commits(const struct tb_plan *plan, const struct tb_step *step);
size_t plan_commit_chunk(const struct tb_plan *plan);

#endif
