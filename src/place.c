/* SPDX-License-Identifier: BSD-3-Clause
 * Asks the device where operands lie and copies them to the host and back. Decides what the CPU can
 * read; not where a call goes. Called by run.c, oncpu.c and watch.c, on the caller's thread. */
#include "place.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "dev.h"

enum { PLACE_A, PLACE_B, PLACE_C, PLACES };

static _Atomic bool seen; /* some operand was not plain host memory */

bool place_shared(void)
{
    if (atomic_load_explicit(&seen, memory_order_relaxed))
        return true;
    return tb_dev() && tb_dev()->shared();
}

bool place_used(void)
{
    const bool used = tb_dev() && tb_dev()->used();
    if (used)
        atomic_store(&seen, true);
    return used;
}

static enum tb_where where_is(const void *at)
{
    enum tb_where where = TB_HOST_PAGEABLE;
    if (!at || tb_dev()->where(at, &where) != TB_OK)
        return TB_HOST_PAGEABLE;
    return where;
}

static bool cpu_reads(enum tb_where where)
{
    return where != TB_DEVICE && where != TB_DEVICE_FAR;
}

/* What holds for both of two matrices. */
static enum tb_where common(enum tb_where x, enum tb_where y)
{
    if (x == y)
        return x;
    if (cpu_reads(x) && cpu_reads(y))
        return TB_HOST_PAGEABLE;
    if ((x == TB_DEVICE || x == TB_MANAGED) && (y == TB_DEVICE || y == TB_MANAGED))
        return TB_DEVICE;
    return TB_DEVICE_FAR; /* no kernel takes both */
}

struct matrix {
    int64_t rows, cols, ld;
    size_t elem;
};

static struct matrix matrix_of(const struct tb_call *call, int which)
{
    struct matrix x = {.elem = call_elem_bytes(which == PLACE_C ? call->c_type : call->ab)};
    x.ld = which == PLACE_A ? call->lda : which == PLACE_B ? call->ldb : call->ldc;
    if (which == PLACE_A)
        call_stored_a(call, &x.rows, &x.cols);
    else if (which == PLACE_B)
        call_stored_b(call, &x.rows, &x.cols);
    x.rows = which == PLACE_C ? call->m : x.rows;
    x.cols = which == PLACE_C ? call->n : x.cols;
    return x;
}

static const void *base_of(const struct tb_call *call, int which, int64_t item)
{
    return which == PLACE_A   ? call_a(call, item)
           : which == PLACE_B ? call_b(call, item)
                              : call_c(call, item);
}

/* Pinned is only what is so to its last byte: a program may have registered a part. */
static enum tb_where where_matrix(const struct tb_call *call, int which, int64_t first,
                                  int64_t last)
{
    const enum tb_where where = where_is(base_of(call, which, first));
    const struct matrix x = matrix_of(call, which);
    /* Kernels load whole elements, and a load that is not aligned ends the program's context. */
    if ((where == TB_DEVICE || where == TB_MANAGED) &&
        (uintptr_t)base_of(call, which, first) % x.elem != 0)
        return TB_DEVICE_FAR;
    if (where != TB_HOST_PINNED)
        return where;
    const uintptr_t end = (uintptr_t)base_of(call, which, last) +
                          (uintptr_t)(((x.cols - 1) * x.ld + x.rows) * (int64_t)x.elem) - 1;
    return common(where, where_is((const void *)end));
}

static bool is_list(const struct tb_call *call, int which)
{
    return which == PLACE_A   ? call->alist != NULL
           : which == PLACE_B ? call->blist != NULL
                              : call->clist != NULL;
}

static enum tb_where where_operand(const struct tb_call *call, int which)
{
    if (!is_list(call, which))
        return where_matrix(call, which, 0, call->batch - 1);
    enum tb_where where = where_matrix(call, which, 0, 0);
    /* The question costs 0.1 us: a program that has no CUDA of its own is asked once. */
    for (int64_t i = 1; i < call->batch && place_shared() && where != TB_DEVICE_FAR; i++)
        where = common(where, where_matrix(call, which, i, i));
    return where;
}

bool place_find(struct tb_call *call)
{
    bool afar = false;
    if (!tb_dev() || call->m <= 0 || call->n <= 0 || call->batch <= 0)
        return false;
    for (int which = PLACE_A; which < PLACES; which++) {
        const enum tb_where where =
            which == PLACE_B && !call_has_b(call) ? TB_HOST_PAGEABLE : where_operand(call, which);
        call->where[which] = (uint8_t)where;
        afar = afar || !cpu_reads(where);
        if (where != TB_HOST_PAGEABLE && !atomic_load_explicit(&seen, memory_order_relaxed))
            atomic_store(&seen, true);
    }
    return afar;
}

/* A mixed list has managed memory that call->where does not tell of. */
static const void *managed_of(const struct tb_call *call, int which)
{
    if (!is_list(call, which))
        return call->where[which] == TB_MANAGED ? base_of(call, which, 0) : NULL;
    for (int64_t i = 0; i < call->batch; i++)
        if (where_is(base_of(call, which, i)) == TB_MANAGED)
            return base_of(call, which, i);
    return NULL;
}

void place_await(const struct tb_call *call)
{
    const void *managed = NULL;
    char byte;
    if (!atomic_load_explicit(&seen, memory_order_relaxed))
        return;
    for (int which = PLACE_A; which < PLACES && !managed; which++)
        if (which != PLACE_B || call_has_b(call))
            managed = managed_of(call, which);
    if (managed) /* the copy comes behind the default stream, and is waited for */
        (void)tb_dev()->fetch(&byte, managed, (struct tb_copy){1, 1, 1, 1});
}

/* --- Copies for the CPU --- */

/* Is the operand read at all? */
static bool is_read(const struct tb_call *call, int which)
{
    const bool solves = call->op == TB_TRMM || call->op == TB_TRSM;
    const bool rank = call->side == 0;
    const bool zero = scalar_is_zero(call->alpha_type, &call->alpha);
    if (which == PLACE_C)
        return solves ? !zero : !scalar_is_zero(call->beta_type, &call->beta);
    return !zero && (!rank || call->k > 0) && (which == PLACE_A || call_has_b(call));
}

static struct tb_copy copy_of(const struct matrix *x, size_t to_pitch, size_t from_pitch)
{
    return (struct tb_copy){.width = (size_t)x->rows * x->elem,
                            .rows = (size_t)x->cols,
                            .dst_pitch = to_pitch,
                            .src_pitch = from_pitch};
}

/* Replaces one operand by a compact copy. */
static bool operand_open(struct tb_place *place, int which, bool read_c)
{
    struct tb_call *call = &place->call;
    const void *from = base_of(call, which, 0);
    const struct matrix x = matrix_of(call, which);
    const bool written = which == PLACE_C, read = is_read(call, which) || (written && read_c);
    if (!(read || written) || x.rows <= 0 || x.cols <= 0 || cpu_reads(where_is(from)))
        return true;
    if ((double)x.rows * (double)x.cols * (double)x.elem > 0x1p62)
        return false;
    void *to = malloc((size_t)x.rows * (size_t)x.cols * x.elem);
    if (!to)
        return false;
    place->copy[which] = to;
    const size_t pitch = (size_t)x.rows * x.elem;
    if (read && tb_dev()->fetch(to, from, copy_of(&x, pitch, (size_t)x.ld * x.elem)) != TB_OK)
        return false;
    if (which == PLACE_A) {
        call->a = to;
        call->lda = x.rows;
    } else if (which == PLACE_B) {
        call->b = to;
        call->ldb = x.rows;
    } else {
        call->c = to;
        call->ldc = x.rows;
    }
    return true;
}

bool place_open(const struct tb_call *call, int64_t item, bool read_c, struct tb_place *out)
{
    *out = (struct tb_place){.call = *call, .origin = call, .home = call_c(call, item)};
    struct tb_call *one = &out->call;
    one->a = call_a(call, item);
    one->b = call_has_b(call) ? call_b(call, item) : NULL;
    one->c = out->home;
    one->alist = one->blist = NULL;
    one->clist = NULL;
    one->stride_a = one->stride_b = one->stride_c = 0;
    one->batch = 1;
    one->form = TB_ONE;
    for (int which = PLACE_A; which < PLACES; which++)
        if (!operand_open(out, which, read_c)) {
            place_drop(out);
            return false;
        }
    return true;
}

/* Rows `i` to `i + m` of columns `j` to `j + n` of the copy of C, to where C is. */
static bool write_back(const struct tb_place *place, int64_t i, int64_t j, int64_t m, int64_t n)
{
    const size_t elem = call_elem_bytes(place->call.c_type);
    const int64_t ld = place->origin->ldc, near = place->call.ldc;
    const struct matrix x = {.rows = m, .cols = n, .elem = elem};
    if (m <= 0 || n <= 0)
        return true;
    char *to = (char *)place->home + (size_t)(i + j * ld) * elem;
    const char *from = (const char *)place->copy[PLACE_C] + (size_t)(i + j * near) * elem;
    return tb_dev()->put(to, from, copy_of(&x, (size_t)ld * elem, (size_t)near * elem)) == TB_OK;
}

/* What of a rectangle lies in the triangle. */
static bool write_triangle_back(const struct tb_place *place, const struct tb_rect *rect)
{
    const bool lower = place->origin->uplo == 'L';
    bool ok = true;
    for (int64_t j = rect->j0; ok && j < rect->j0 + rect->n; j++) {
        const int64_t bottom = rect->i0 + rect->m;
        const int64_t from = lower && j > rect->i0 ? j : rect->i0;
        const int64_t to = !lower && j + 1 < bottom ? j + 1 : bottom;
        ok = write_back(place, from, j, to - from, 1);
    }
    return ok;
}

bool place_close(struct tb_place *place, const struct tb_rect *rect)
{
    const struct tb_call *call = place->origin;
    const struct tb_rect all = {.m = call->m, .n = call->n};
    const struct tb_rect *what = rect ? rect : &all;
    bool ok = true;
    if (!place->copy[PLACE_C])
        ok = true;
    else if (call_is_triangular(call))
        ok = write_triangle_back(place, what);
    else
        ok = write_back(place, what->i0, what->j0, what->m, what->n);
    place_drop(place);
    return ok;
}

/* The rows of a column of C that count. */
static size_t rows_of(const struct tb_call *call, size_t j, size_t *from)
{
    const size_t rows = (size_t)call->m;
    const bool triangle = call_is_triangular(call);
    *from = triangle && call->uplo == 'L' ? j : 0;
    return triangle && call->uplo == 'U' ? j + 1 : rows - *from;
}

/* Between C of one product and memory with columns m apart; of a triangle what counts, but all of a
 * copy from the device. */
static bool move_c(const struct tb_call *call, int64_t item, char *compact, bool save)
{
    const struct matrix x = matrix_of(call, PLACE_C);
    const size_t width = (size_t)x.rows * x.elem, pitch = (size_t)x.ld * x.elem;
    char *home = call_c(call, item);
    const bool near = cpu_reads(where_is(home));
    bool moved = true;
    if (!near && save)
        return tb_dev()->fetch(compact, home, copy_of(&x, width, pitch)) == TB_OK;
    if (!near && !call_is_triangular(call))
        return tb_dev()->put(home, compact, copy_of(&x, pitch, width)) == TB_OK;
    for (size_t j = 0; moved && j < (size_t)x.cols; j++) {
        size_t from;
        const size_t bytes = rows_of(call, j, &from) * x.elem;
        char *const kept = compact + j * width + from * x.elem;
        char *const at = home + j * pitch + from * x.elem;
        if (near)
            memcpy(save ? kept : at, save ? at : kept, bytes);
        else
            moved = tb_dev()->put(at, kept, (struct tb_copy){bytes, 1, bytes, bytes}) == TB_OK;
    }
    return moved;
}

static size_t c_bytes(const struct tb_call *call)
{
    return (size_t)call->m * (size_t)call->n * call_elem_bytes(call->c_type);
}

void *place_save(const struct tb_call *call)
{
    char *saved =
        call_bytes_out(call) < 0x1p62 ? malloc((size_t)call->batch * c_bytes(call)) : NULL;
    for (int64_t i = 0; saved && i < call->batch; i++)
        if (!move_c(call, i, saved + (size_t)i * c_bytes(call), true)) {
            free(saved);
            return NULL;
        }
    return saved;
}

bool place_restore(const struct tb_call *call, int64_t item, const void *saved)
{
    char *from = (char *)(uintptr_t)saved + (size_t)item * c_bytes(call);
    return move_c(call, item, from, false);
}

void place_drop(struct tb_place *place)
{
    for (int which = PLACE_A; which < PLACES; which++) {
        free(place->copy[which]);
        place->copy[which] = NULL;
    }
}
