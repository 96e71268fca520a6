/* SPDX-License-Identifier: BSD-3-Clause
 * What of C is left after a failure, as few rectangles as the pieces allow. Allocates nothing, so
 * that it works when nothing else does. Called by offload.c on behalf of run.c. */
#include "exec.h"

#include <stdlib.h>

/* Pieces of one column of a tile that are done, and how many there are. */
static int64_t column_done(const struct tb_undone *undone, const struct tb_step *step, int64_t col,
                           int64_t *parts)
{
    const struct tb_plan *plan = undone->plan;
    const size_t elem = plan->elem[TB_C], pitch = plan_pitch(step->range.rows, elem);
    const int64_t cols = step->range.items * step->range.cols;
    const int64_t pieces = plan_pieces(&step->range, elem, plan_commit_chunk(plan));
    *parts = 1;
    if (!undone->done)
        return 0;
    if (pitch <= plan_commit_chunk(plan))
        return undone->done[step->piece0 + col / (int64_t)(plan_commit_chunk(plan) / pitch)];
    *parts = pieces / cols;
    int64_t done = 0;
    for (int64_t i = 0; i < *parts; i++)
        done += undone->done[step->piece0 + col * *parts + i];
    return done;
}

/* A column of which some parts are done: the next part that is not, from row part `undone->row` on.
 */
static bool column_next(struct tb_undone *undone, const struct tb_step *step, int64_t col,
                        int64_t parts, struct tb_rect *rect)
{
    const struct tb_plan *plan = undone->plan;
    while (undone->row < parts) {
        const int64_t i = col * parts + undone->row++;
        if (undone->done[step->piece0 + i])
            continue;
        const struct tb_piece piece =
            plan_piece(&step->range, plan->elem[TB_C], plan_commit_chunk(plan), i);
        rect->i0 = step->range.row + piece.row;
        rect->m = piece.rows;
        rect->n = 1;
        return true;
    }
    return false;
}

/* The next rectangle of one product within one tile, from column `undone->col` on. */
static bool item_next(struct tb_undone *undone, const struct tb_step *step, struct tb_rect *rect)
{
    const struct tb_panel *range = &step->range;
    int64_t parts, first = -1;
    for (; undone->col < range->cols; undone->col++) {
        const int64_t col = undone->item * range->cols + undone->col;
        const int64_t done = column_done(undone, step, col, &parts);
        if (done == 0 && first < 0)
            first = undone->col;
        if (done == 0)
            continue;
        if (first >= 0)
            break;
        *rect =
            (struct tb_rect){.item = range->item + undone->item, .j0 = range->col + undone->col};
        if (done < parts && column_next(undone, step, col, parts, rect))
            return true; /* the same column again next time */
        undone->row = 0;
    }
    if (first < 0)
        return false;
    *rect = (struct tb_rect){.item = range->item + undone->item,
                             .i0 = range->row,
                             .m = range->rows,
                             .j0 = range->col + first,
                             .n = undone->col - first};
    return true;
}

/* A block that comes back in whole rows: the next of those that are not done, from piece
 * `undone->row` on. */
static bool rows_next(struct tb_undone *undone, const struct tb_step *step, struct tb_rect *rect)
{
    const struct tb_plan *plan = undone->plan;
    const int64_t pieces = plan_pieces(&step->range, plan->elem[TB_C], plan_commit_chunk(plan));
    while (undone->row < pieces) {
        const int64_t i = undone->row++;
        if (undone->done && undone->done[step->piece0 + i])
            continue;
        const struct tb_piece piece =
            plan_piece(&step->range, plan->elem[TB_C], plan_commit_chunk(plan), i);
        *rect = (struct tb_rect){.item = step->range.item,
                                 .i0 = step->range.row + piece.row,
                                 .m = piece.rows,
                                 .j0 = step->range.col,
                                 .n = step->range.cols};
        return true;
    }
    undone->row = 0;
    return false;
}

bool undone_next(struct tb_undone *undone, struct tb_rect *rect)
{
    for (; undone->step < undone->plan->count; undone->step++) {
        const struct tb_step *step = plan_step(undone->plan, undone->step);
        if (step->range.by_rows && plan_step_commits(undone->plan, step)) {
            if (rows_next(undone, step, rect))
                return true;
        } else if (plan_step_commits(undone->plan, step))
            for (; undone->item < step->range.items; undone->item++) {
                if (item_next(undone, step, rect))
                    return true;
                undone->col = 0;
            }
        undone->item = 0;
    }
    return false;
}

void undone_free(struct tb_undone *undone)
{
    free(undone->done);
    undone->done = NULL;
}
