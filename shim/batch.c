/* SPDX-License-Identifier: BSD-3-Clause
 * Grouped batches: one descriptor per group. Every group is checked before the first one writes.
 * Where no group leaves the CPU and the CPU BLAS knows the name, the batch is forwarded as it came.
 */
#include "fill.h"

/* Its number as Fortran counts. */
#define TB_GROUP_COUNT_ARGUMENT 14

static int64_t integer(const struct tb_groups *g, const void *array, int64_t i)
{
    return g->head.wide ? ((const int64_t *)array)[i] : ((const int32_t *)array)[i];
}

static char trans(const struct tb_groups *g, const void *array, int64_t i)
{
    if (g->head.cblas)
        return CBLAS_TRANS_LETTER(((const int *)array)[i]);
    return flag_letter((const char *)array + i);
}

/* The descriptor of group i, whose matrices begin at entry `first` of the lists. */
static struct tb_call group_call(const struct tb_groups *g, int64_t i, int64_t first)
{
    struct tb_call call = g->head;
    const size_t scalar = call_elem_bytes(call.alpha_type);
    fill_gemm(&call, trans(g, g->ta, i), trans(g, g->tb, i), integer(g, g->m, i),
              integer(g, g->n, i), integer(g, g->k, i), (const char *)g->alpha + (size_t)i * scalar,
              NULL, integer(g, g->lda, i), NULL, integer(g, g->ldb, i),
              (const char *)g->beta + (size_t)i * scalar, NULL, integer(g, g->ldc, i));
    call.form = TB_BATCH;
    call.batch = integer(g, g->sizes, i);
    call.alist = g->a + first;
    call.blist = g->b + first;
    call.clist = g->c + first;
    return call;
}

tb_fn batch_enter(const struct tb_groups *g)
{
    const struct tb_cpu *const cpu = g->head.cpu;
    bool forward = cpu->fn != NULL;
    int64_t first = 0;
    for (int64_t i = 0; i < g->count; i++) {
        struct tb_call call = group_call(g, i, first);
        struct tb_judgement judgement = run_judge(&call);
        if (judgement.reason == TB_WHY_ILLEGAL || judgement.reason == TB_WHY_NESTED) {
            if (cpu->origin == NULL)
                run_report(&call);
            return cpu->origin;
        }
        /* alpha = 0: OpenBLAS would still read A and B, see run.c; it cannot read a device's
         * memory. */
        if (judgement.where == TB_ON_GPU || judgement.k_is_zero || judgement.copies)
            forward = false;
        first += call.batch;
    }
    if (g->count < 0 && cpu->origin == NULL) {
        run_report_argument(&g->head, g->head.bad_order ? 0 : TB_GROUP_COUNT_ARGUMENT);
        return NULL;
    }
    if (forward || g->count < 0)
        return cpu->fn;
    static const struct tb_cpu none;
    first = 0;
    for (int64_t i = 0; i < g->count; i++) {
        struct tb_call call = group_call(g, i, first);
        first += call.batch;
        call.cpu = &none; /* group by group there is no entry of the CPU BLAS */
        const struct tb_pass pass = run_enter(&call);
        (void)pass; /* with no entry to forward to, run_enter() always completes */
    }
    return NULL;
}
