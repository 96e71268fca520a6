/* SPDX-License-Identifier: BSD-3-Clause
 * Lines about the choice of a kernel. What was said already is kept in a table of bytes, one for
 * each pair of types, layout and class, so that a program cannot make the log longer than the
 * table. */
#include "explain.h"

#include <stdatomic.h>
#include <stdio.h>
#include "call.h"
#include "fit.h"
#include "log.h"
#include "tuned.h"

/* One more than there are classes: shapes of none. */
static _Atomic unsigned char said[TB_PAIRS][TB_LAYOUTS][TB_SHAPE_CLASSES + 1];

static bool like(const struct tb_kernel *row, const struct tb_kernel *other)
{
    return row->family != TB_TRI && row->ab == other->ab && row->c == other->c &&
           row->ta == other->ta && row->tb == other->tb;
}

/* What keeps more blocks of the row off a multiprocessor, with all the registers that its launch
 * leaves to a thread. */
static void tell_fit(const struct tb_caps *caps, const struct tb_kernel *row, char *out,
                     size_t room)
{
    const struct tb_sm *const sm = fit_sm(caps->cc);
    out[0] = '\0';
    if (sm == NULL)
        return;
    const int all = sm->registers / (row->blocks_sm * row->threads) / 8 * 8;
    const struct tb_need need = {row->threads, all < 255 ? all : 255, 64, row->smem};
    const struct tb_fit fit = fit_block(sm, &need);
    snprintf(out, room, "; %d of its blocks fit, by %s", fit.blocks, fit_bound_text(fit.bound));
}

/* The order that was measured with it, where it is not the row's own. */
static void tell_order(const struct tb_kernel *row, const struct tb_tuned_row *entry, char *out,
                       size_t room)
{
    static const char *const hints[TB_KHINTS] = {[TB_KHINT_NONE] = ", nothing beside from L2",
                                                 [TB_KHINT_64] = ", 64 bytes from L2",
                                                 [TB_KHINT_128] = ", 128 bytes from L2",
                                                 [TB_KHINT_256] = ", 256 bytes from L2"};
    int used = 0;
    out[0] = '\0';
    if (entry->band > 0)
        used = snprintf(out, room, " in bands of %d rows of tiles (%d by itself)", entry->band,
                        kernel_band(row));
    if (entry->hint > TB_KHINT_OWN && entry->hint < TB_KHINTS)
        snprintf(out + used, room - (size_t)used, "%s", hints[entry->hint]);
}

static void tell_row(const struct tb_caps *caps, int i, int chosen, const struct tb_extent *x,
                     double least)
{
    const struct tb_kernel *const row = kernel_row(i);
    const char *const why = kernel_why_not(caps, i, x);
    char fit[80];
    if (why != NULL) {
        log_line(3, "  %s: infeasible: %s", row->name, why);
        return;
    }
    tell_fit(caps, row, fit, sizeof fit);
    const double share = kernel_estimate(caps, i, x) / least;
    const struct tb_tuned_row *entry = tuned_entry(caps, row->ab, row->c, row->ta, row->tb, x);
    if (entry != NULL && entry->row - 1 != i)
        entry = NULL;
    if (i != chosen && entry != NULL) {
        log_line(3,
                 "  %s: measured in this class at %.2f of the time of the estimate's choice, but "
                 "estimated at %.2f of the least here, %.2f where it was measured%s",
                 row->name, (double)entry->gain, share, (double)entry->lead, fit);
        return;
    }
    if (i != chosen) {
        log_line(3, "  %s: estimated at %.2f of the least%s", row->name, share, fit);
        return;
    }
    if (entry == NULL || tuned_choice(caps, row->ab, row->c, row->ta, row->tb, x) != i) {
        log_line(3, "  %s: estimated at %.2f of the least, taken for it%s", row->name, share, fit);
        return;
    }
    const double flops = (call_is_complex(row->ab) ? 8.0 : 2.0) * (double)x->m * (double)x->n *
                         (double)x->k * (double)x->batch;
    char order[80];
    tell_order(row, entry, order, sizeof order);
    log_line(3,
             "  %s: measured in this class, taken for it%s: %.3g ms here, %.2f of the time of the "
             "estimate's choice (estimated at %.2f of the least)%s",
             row->name, order, flops / (double)entry->rate * 1e-6, (double)entry->gain, share, fit);
}

void explain_kernel(const struct tb_caps *caps, int chosen, const struct tb_extent *x)
{
    const struct tb_kernel *const row = kernel_row(chosen);
    const int pair = row != NULL && log_wants(3) ? shape_pair(row->ab, row->c) : -1;
    if (pair < 0)
        return;
    const int class = shape_class(x), layout = row->ta + 2 * row->tb;
    if (atomic_exchange(&said[pair][layout][class < 0 ? TB_SHAPE_CLASSES : class], 1) != 0)
        return;
    char name[TB_CLASS_NAME] = "none";
    if (class >= 0)
        shape_class_name(class, name);
    log_line(3,
             "kernels for products such as %lld x %lld x %lld, %lld beside each other, class %s:",
             (long long)x->m, (long long)x->n, (long long)x->k, (long long)x->batch, name);
    const int best = kernel_estimated(caps, row->ab, row->c, row->ta, row->tb, x);
    const double least = best >= 0 ? kernel_estimate(caps, best, x) : 1;
    for (int i = 0; i < kernel_count(); i++)
        if (like(kernel_row(i), row))
            tell_row(caps, i, chosen, x, least);
}
