/* SPDX-License-Identifier: BSD-3-Clause
 * The check of a result by a random projection. Decides what still counts as right.
 *
 * A result is C = f op(A) op(B) + ... + g C0; a system of equations is 0 = g B - op(A) X. Per row i
 * the residual is sum_j x_j e_ij with the errors e_ij and signs x_j that know nothing of them, so
 * it exceeds t sqrt(sum_j e_ij^2) with a probability of at most 2 exp(-t^2 / 2). An entry may be
 * off by E u (|f| |A||B| + |g| |C0|)_ij, over a row at most |f| times the sum of |a_il| times the
 * norm of row l of op(B), and the like for C0. A triangle of C that stands for a symmetric matrix
 * is checked as that. Rows and columns that hold an infinity or a NaN on the way in are left out.
 * All matrices are scaled to a largest entry of 1, so that no square overflows or vanishes. */
#include "verify.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of the C library only what needs no libm. */
static long double root(long double x)
{
    __asm__("fsqrt" : "+t"(x));
    return x;
}

static long double length_of(const double pair[2])
{
    return root((long double)pair[0] * pair[0] + (long double)pair[1] * pair[1]);
}

static long double magnitude(long double x)
{
    return x < 0 ? -x : x;
}

static uint64_t mix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

bool verify_wanted(double share, uint64_t number)
{
    return share > 0 && (double)(mix(number) >> 11) * 0x1p-53 < share;
}

/* --- Numbers --- */

/* `count` numbers as doubles: in `line`, or where they are. */
static const double *numbers_of(enum tb_type type, const void *column, int64_t count, double *line)
{
    switch (type) {
    case TB_F16:
    case TB_BF16:
        for (int64_t i = 0; i < count; i++)
            line[i] = half_widen(type, ((const uint16_t *)column)[i]);
        break;
    case TB_F32:
    case TB_C32:
        for (int64_t i = 0; i < count; i++)
            line[i] = (double)((const float *)column)[i];
        break;
    case TB_F64:
    case TB_C64:
        return column;
    case TB_TYPES:
        break;
    }
    return line;
}

/* Unit roundoff of a stored number, its smallest step, its largest value. */
struct precision {
    double unit, step, most;
};

static struct precision precision_of(enum tb_type type)
{
    switch (type) {
    case TB_F16:
        return (struct precision){0x1p-11, 0x1p-24, 65504};
    case TB_BF16:
        return (struct precision){0x1p-8, 0x1p-133, 0x1.FEp127};
    case TB_F32:
    case TB_C32:
        return (struct precision){0x1p-24, 0x1p-149, (double)FLT_MAX};
    default:
        return (struct precision){0x1p-53, 0x1p-1074, DBL_MAX};
    }
}

/* --- Matrices, as stored --- */

struct matrix {
    const char *at;
    enum tb_type type;
    int64_t rows, cols, ld;
    bool flip, conj; /* how op() reads it */
    char part;       /* 'L', 'U': only that triangle is stored; else 0 */
    bool mirror;     /* and the other one is its transpose; else it is 0 */
    bool hermitian;  /* its conjugate transpose */
    bool real, unit; /* the diagonal is real, is one, whatever is stored */
    double scale;    /* a power of two; the entries times it are at most 1 */
    double *line;    /* room for a column */
};

static const void *number_at(const struct matrix *x, int64_t i, int64_t j)
{
    return x->at + (size_t)(j * x->ld + i) * call_elem_bytes(x->type);
}

static int parts_of(const struct matrix *x)
{
    return call_is_complex(x->type) ? 2 : 1;
}

/* The rows of a stored column that count: [*from, *to). */
static void column_range(const struct matrix *x, int64_t j, int64_t *from, int64_t *to)
{
    *from = x->part == 'L' ? j + x->unit : 0;
    *to = x->part == 'U' ? j + !x->unit : x->rows;
}

/* That part of it, as doubles. */
static const double *column_of(const struct matrix *x, int64_t j, int64_t from, int64_t to)
{
    return numbers_of(x->type, number_at(x, from, j), parts_of(x) * (to - from), x->line);
}

/* Entry (i, j) of op(X) as a pair, not scaled. */
static void entry_of(const struct matrix *x, int64_t i, int64_t j, double out[2])
{
    const int64_t r = x->flip ? j : i, c = x->flip ? i : j;
    double line[2];
    int64_t from, to;
    column_range(x, c, &from, &to);
    out[0] = x->unit && r == c;
    out[1] = 0;
    if (r < from || r >= to)
        return;
    const double *number = numbers_of(x->type, number_at(x, r, c), parts_of(x), line);
    out[0] = number[0];
    if (parts_of(x) == 2)
        out[1] = x->conj ? -number[1] : number[1];
}

/* A number of entry (r, c) as stored is not finite. */
static void mark_bad(const struct matrix *x, int64_t r, int64_t c, bool by_row, unsigned char *bad)
{
    if (x->mirror)
        bad[r] = bad[c] = 1;
    else
        bad[by_row == !x->flip ? r : c] = 1;
}

/* Finds the scale, and marks the rows or columns of op(X) that hold what is not finite. */
static void matrix_scan(struct matrix *x, bool by_row, unsigned char *bad)
{
    const int parts = parts_of(x);
    double most = x->unit;
    for (int64_t j = 0; j < x->cols; j++) {
        int64_t from, to;
        column_range(x, j, &from, &to);
        const int64_t count = parts * (to - from);
        const double *column = column_of(x, j, from, to);
        double high = 0;
        bool finite = true;
        for (int64_t i = 0; i < count; i++) {
            const double value = fabs(column[i]);
            finite &= value <= DBL_MAX;
            high = value > high ? value : high;
        }
        if (finite) {
            most = high > most ? high : most;
            continue;
        }
        for (int64_t i = 0; i < count; i++) {
            const double value = fabs(column[i]);
            const bool ignored = x->real && i % 2 && from + i / 2 == j;
            if (!(value <= DBL_MAX) && !ignored)
                mark_bad(x, from + i / parts, j, by_row, bad);
            else if (!ignored && value > most)
                most = value;
        }
    }
    int exponent = 0;
    if (most > 0)
        (void)frexp(most, &exponent);
    if (exponent < -1000)
        exponent = -1000; /* 2^-exponent is a number */
    x->scale = ldexp(1, -exponent);
}

/* A vector that a matrix is multiplied by, the result, and how large the rows of op(X) are: the
 * sum of squares of each, or with the norms of the rows of another factor its weighted sum of
 * magnitudes. Vectors of pairs, all scaled. */
struct times {
    const double *v, *weight; /* weight: NULL for squares */
    double *out, *size;
};

static double size_of(double magnitude, const struct times *t, int64_t from)
{
    const double size = t->weight ? magnitude * t->weight[from] : magnitude * magnitude;
    return size <= DBL_MAX ? size : 0;
}

/* Stored real numbers, each as the entry of op(X) in its row (`across`) or as that of row j. All
 * vectors are real too. */
static void column_across(const struct matrix *x, const double *column, int64_t from, int64_t to,
                          int64_t j, const struct times *t)
{
    const double scale = x->scale, factor = t->v[2 * j];
    for (int64_t i = from; i < to; i++)
        t->size[i] += size_of(fabs(column[i - from] * scale), t, j);
    for (int64_t i = from; i < to && factor != 0; i++) /* 0 times infinity would show */
        t->out[2 * i] += column[i - from] * scale * factor;
}

static void column_along(const struct matrix *x, const double *column, int64_t from, int64_t to,
                         int64_t j, const struct times *t)
{
    double sum = 0, size = 0;
    for (int64_t i = from; i < to; i++) {
        const double value = column[i - from] * x->scale;
        size += size_of(fabs(value), t, i);
        sum += t->v[2 * i] != 0 ? value * t->v[2 * i] : 0;
    }
    t->size[j] += size;
    t->out[2 * j] += sum;
}

/* An entry of op(X), scaled, of a complex type or on a diagonal of ones. */
static inline void entry_add(double re, double im, int64_t row, int64_t col, const struct times *t)
{
    const double *v = t->v + 2 * col;
    t->size[row] += size_of(fabs(re) + fabs(im), t, col);
    if (v[0] == 0 && v[1] == 0)
        return;
    t->out[2 * row] += re * v[0] - im * v[1];
    t->out[2 * row + 1] += re * v[1] + im * v[0];
}

/* The same of complex numbers: conjugated where `sign` is -1. */
static void pairs_across(const struct matrix *x, const double *column, int64_t count, double sign,
                         const double v[2], double weight, double *out, double *size)
{
    const bool counts = v[0] != 0 || v[1] != 0;
    for (int64_t i = 0; i < count; i++) {
        const double re = column[2 * i] * x->scale, im = sign * column[2 * i + 1] * x->scale;
        const double magnitude = fabs(re) + fabs(im);
        const double part = magnitude * (weight >= 0 ? weight : magnitude);
        size[i] += part <= DBL_MAX ? part : 0;
        if (counts) {
            out[2 * i] += re * v[0] - im * v[1];
            out[2 * i + 1] += re * v[1] + im * v[0];
        }
    }
}

static void pairs_along(const struct matrix *x, const double *column, int64_t count, double sign,
                        const double *v, const double *weight, double *out, double *size)
{
    double sum[2] = {0, 0}, all = 0;
    for (int64_t i = 0; i < count; i++) {
        const double re = column[2 * i] * x->scale, im = sign * column[2 * i + 1] * x->scale;
        const double magnitude = fabs(re) + fabs(im);
        const double part = magnitude * (weight ? weight[i] : magnitude);
        all += part <= DBL_MAX ? part : 0;
        if (v[2 * i] != 0 || v[2 * i + 1] != 0) {
            sum[0] += re * v[2 * i] - im * v[2 * i + 1];
            sum[1] += re * v[2 * i + 1] + im * v[2 * i];
        }
    }
    out[0] += sum[0];
    out[1] += sum[1];
    *size += all;
}

static void pairs_times(const struct matrix *x, const double *column, int64_t from, int64_t to,
                        int64_t j, const struct times *t)
{
    const double sign = x->conj ? -1 : 1;
    const double *const v = t->v + 2 * (x->flip ? from : j);
    if (!x->mirror && !x->flip) {
        pairs_across(x, column, to - from, sign, v, t->weight ? t->weight[j] : -1,
                     t->out + 2 * from, t->size + from);
        return;
    }
    if (!x->mirror) {
        pairs_along(x, column, to - from, sign, v, t->weight ? t->weight + from : NULL,
                    t->out + 2 * j, t->size + j);
        return;
    }
    for (int64_t i = from; i < to; i++) {
        const double re = column[2 * (i - from)] * x->scale;
        double im = column[2 * (i - from) + 1] * x->scale;
        if (x->real && i == j)
            im = 0;
        entry_add(re, im, i, j, t);
        if (i != j)
            entry_add(re, x->hermitian ? -im : im, j, i, t);
    }
}

/* out = op(X) v, and the sizes. Columns of op(X) with v = 0 are left out, whatever they hold. */
static void matrix_times(const struct matrix *x, const struct times *t)
{
    const int64_t length = x->flip ? x->cols : x->rows;
    memset(t->out, 0, 2 * (size_t)length * sizeof *t->out);
    memset(t->size, 0, (size_t)length * sizeof *t->size);
    for (int64_t j = 0; j < x->cols; j++) {
        int64_t from, to;
        column_range(x, j, &from, &to);
        const double *column = column_of(x, j, from, to);
        if (x->unit)
            entry_add(x->scale, 0, j, j, t);
        if (parts_of(x) == 2) {
            pairs_times(x, column, from, to, j, t);
            continue;
        }
        if (x->mirror || !x->flip)
            column_across(x, column, from, to, j, t);
        if (x->mirror && from == j) /* the diagonal counts once */
            column_along(x, column + 1, from + 1, to, j, t);
        else if (x->mirror)
            column_along(x, column, from, to - 1, j, t);
        else if (x->flip)
            column_along(x, column, from, to, j, t);
    }
}

/* --- The check --- */

/* factor op(A) op(B) x: one term of what a row of C has to be. */
struct term {
    struct matrix a, b;
    double factor[2];
    double *bx, *abx;      /* vectors of pairs */
    double *norm_b, *size; /* of the rows of op(B); of those of the product at most */
};

struct check {
    const struct tb_call *call;
    struct term term[2];
    int terms;
    struct matrix old, c; /* without `at` where there is none */
    double old_factor[2];
    int64_t depth;                 /* products in a sum */
    double *x, *oldx, *cx;         /* vectors of pairs */
    double *square_old, *square_c; /* of rows */
    unsigned char *bad_row, *bad_col;
};

static struct matrix matrix_of(const void *at, enum tb_type type, int64_t rows, int64_t cols,
                               int64_t ld, char trans)
{
    const bool flip = trans != 'N';
    return (struct matrix){.at = at,
                           .type = type,
                           .rows = flip ? cols : rows,
                           .cols = flip ? rows : cols,
                           .ld = ld,
                           .flip = flip,
                           .conj = trans == 'C',
                           .scale = 1};
}

/* The norm of a scaled row of so many entries, of which the squares of the smallest vanished. */
static long double norm(double squares, long double entries)
{
    return root(squares + entries * 0x1p-1022L);
}

static bool is_half(const struct tb_call *call)
{
    return call->ab == TB_F16 || call->ab == TB_BF16;
}

/* Sides L and R: the triangle or square, wherever it stands in the product. */
static const struct matrix *square_of(const struct check *k)
{
    return k->call->side == 'L' ? &k->term[0].a : &k->term[0].b;
}

/* B is multiplied by alpha before anything else, or solved for so. */
static bool scales_first(const struct tb_call *call)
{
    return call->op == TB_TRMM || call->op == TB_TRSM;
}

/* The products of row i at most, and the old C there. */
static long double size_of_sums(const struct check *k, int64_t i, bool unscaled)
{
    long double sum = 0;
    for (int t = 0; t < k->terms; t++) {
        const long double factor = length_of(k->term[t].factor);
        sum += (unscaled && factor < 1 ? 1 : factor) *
               (k->term[t].size[i] + (long double)k->depth * 0x1p-1022L) /
               ((long double)k->term[t].a.scale * k->term[t].b.scale);
    }
    return sum;
}

static long double size_of_old(const struct check *k, int64_t i)
{
    if (!k->old.at)
        return 0;
    return length_of(k->old_factor) * norm(k->square_old[i], (long double)k->call->n) /
           k->old.scale;
}

/* May the entries of the row be too large for C's type, now or on the way? */
static bool may_overflow(const struct check *k, int64_t i)
{
    const double most = precision_of(k->call->c_type).most;
    const struct matrix *b = k->call->side == 'L' ? &k->term[0].b : &k->term[0].a;
    const bool scaled =
        scales_first(k->call) && length_of(k->term[0].factor) / b->scale > (long double)most / 4;
    return scaled || size_of_sums(k, i, true) + size_of_old(k, i) > most / 4;
}

/* The most a row may be off. */
static long double tolerance(const struct check *k, int64_t i, bool reduced)
{
    const struct tb_call *call = k->call;
    const struct precision in = precision_of(call->ab), out = precision_of(call->c_type);
    const bool half = is_half(call), wide = call->ab == TB_F64 || call->ab == TB_C64;
    const long double unit = half ? 0x1p-21L : reduced && !wide ? 0x1p-10L : in.unit;
    const long double t = 12, n = (long double)call->n, depth = (long double)k->depth;
    /* Sums of doubles are checked in doubles: the check rounds as the product does. */
    const long double chain = 8 + root(depth) + (wide ? 2 * (root(n) + root(depth)) : 0);
    const long double sums = size_of_sums(k, i, false) + size_of_old(k, i);
    /* What vanished below the smallest number, on the way or at the end, and was multiplied. */
    long double lost = half ? 2 * out.step : (2 + depth) * ((long double)in.step + out.step);
    const long double factor = length_of(k->term[0].factor);
    const long double grown = scales_first(call) ? 1 / (long double)square_of(k)->scale : factor;
    lost *= root(n) * (grown > 1 ? grown : 1);
    /* The last rounding is relative to what is stored, which may be far less than what was summed.
     */
    const long double stored = k->c.at ? norm(k->square_c[i], n) / k->c.scale : 0;
    return t * (2 * chain * unit * sums + out.unit * stored + lost);
}

/* factor (re, im) / scale, as a pair. */
static void pair_add(long double sum[2], const double factor[2], const double *x, long double scale)
{
    sum[0] += (factor[0] * (long double)x[0] - factor[1] * (long double)x[1]) / scale;
    sum[1] += (factor[0] * (long double)x[1] + factor[1] * (long double)x[0]) / scale;
}

static bool row_right(const struct check *k, int64_t i, bool reduced)
{
    long double want[2] = {0, 0}, got[2] = {0, 0};
    const long double allowed = tolerance(k, i, reduced);
    for (int t = 0; t < k->terms; t++)
        pair_add(want, k->term[t].factor, k->term[t].abx + 2 * i,
                 (long double)k->term[t].a.scale * k->term[t].b.scale);
    if (k->old.at)
        pair_add(want, k->old_factor, k->oldx + 2 * i, k->old.scale);
    if (!__builtin_isfinite(allowed) || !__builtin_isfinite(want[0]) ||
        !__builtin_isfinite(want[1]))
        return true;
    if (k->c.at)
        pair_add(got, (double[]){1, 0}, k->cx + 2 * i, k->c.scale);
    /* A sum that is no number holds an entry that is none; right where that was too large for C. */
    if (!__builtin_isfinite(got[0]) || !__builtin_isfinite(got[1]))
        return may_overflow(k, i);
    return magnitude(got[0] - want[0]) <= allowed && magnitude(got[1] - want[1]) <= allowed;
}

/* Random signs, but 0 for the columns that cannot be compared. */
static void signs(struct check *k, uint64_t seed)
{
    for (int64_t j = 0; j < k->call->n; j++) {
        k->x[2 * j] = k->bad_col[j] ? 0 : mix(seed ^ mix((uint64_t)j)) & 1 ? 1 : -1;
        k->x[2 * j + 1] = 0;
    }
}

/* gemmt: of the product only a triangle counts, so in row i the columns up to i, or from i on. The
 * sum over those columns of B grows (`y`) while i runs; k in parts, so that it stays in the caches.
 */
static void triangle_times(const struct check *k, const struct term *term)
{
    enum { PART = 128 };
    const struct tb_call *call = k->call;
    const bool lower = call->uplo == 'L';
    memset(term->abx, 0, 2 * (size_t)call->m * sizeof *term->abx);
    for (int64_t l0 = 0; l0 < call->k; l0 += PART) {
        const int64_t count = call->k - l0 < PART ? call->k - l0 : PART;
        double y[2 * PART] = {0};
        for (int64_t q = 0; q < call->m; q++) {
            const int64_t i = lower ? q : call->m - 1 - q;
            double *out = term->abx + 2 * i;
            for (int64_t l = 0; l < count && k->x[2 * i] != 0; l++) {
                double b[2];
                entry_of(&term->b, l0 + l, i, b);
                y[2 * l] += b[0] * k->x[2 * i] * term->b.scale;
                y[2 * l + 1] += b[1] * k->x[2 * i] * term->b.scale;
            }
            for (int64_t l = 0; l < count && !k->bad_row[i]; l++) {
                double a[2];
                entry_of(&term->a, i, l0 + l, a);
                a[0] *= term->a.scale;
                a[1] *= term->a.scale;
                out[0] += a[0] * y[2 * l] - a[1] * y[2 * l + 1];
                out[1] += a[0] * y[2 * l + 1] + a[1] * y[2 * l];
            }
        }
    }
}

static void term_times(const struct check *k, struct term *term)
{
    const int64_t depth = term->b.flip ? term->b.cols : term->b.rows;
    matrix_times(&term->b, &(struct times){.v = k->x, .out = term->bx, .size = term->norm_b});
    for (int64_t l = 0; l < depth; l++)
        term->norm_b[l] = (double)norm(term->norm_b[l], (long double)k->call->n);
    matrix_times(&term->a,
                 &(struct times){
                     .v = term->bx, .weight = term->norm_b, .out = term->abx, .size = term->size});
    if (k->call->op == TB_GEMMT)
        triangle_times(k, term);
}

/* May solution s hold what is not finite? Solved once more, it must come to a number too large, or
 * to a division by next to nothing, somewhere: CPU libraries multiply with zeros beside a triangle,
 * so that one infinity shows in all of a solution. */
static bool solution_overflows(const struct check *k, int64_t s)
{
    const struct matrix *square = square_of(k);
    const bool left = k->call->side == 'L', lower = (k->call->uplo == 'L') == !square->flip;
    const long double most = precision_of(k->call->c_type).most / 8;
    double *const x = k->old.line;
    for (int64_t q = 0; q < k->depth; q++) {
        const int64_t i = lower == left ? q : k->depth - 1 - q;
        double b[2], t[2];
        entry_of(&k->old, left ? i : s, left ? s : i, b);
        long double re =
                        k->old_factor[0] * (long double)b[0] - k->old_factor[1] * (long double)b[1],
                    im =
                        k->old_factor[0] * (long double)b[1] + k->old_factor[1] * (long double)b[0];
        long double size = length_of(k->old_factor) * length_of(b);
        for (int64_t r = 0; r < q; r++) {
            const int64_t l = lower == left ? r : k->depth - 1 - r;
            const double *y = x + 2 * l;
            entry_of(square, left ? i : l, left ? l : i, t);
            re -= t[0] * (long double)y[0] - t[1] * (long double)y[1];
            im -= t[0] * (long double)y[1] + t[1] * (long double)y[0];
            size += length_of(t) * length_of(y);
        }
        entry_of(square, i, i, t);
        const long double by = length_of(t);
        if (!(size <= most) || !(by * most >= 1) || !(size / by <= most))
            return true;
        x[2 * i] = (double)((re * t[0] + im * t[1]) / by / by);
        x[2 * i + 1] = (double)((im * t[0] - re * t[1]) / by / by);
    }
    return false;
}

/* Solutions that are not finite are not compared. The first that was not so on the way in is looked
 * at, which takes as long as a column of it took. */
static bool solutions_right(const struct check *k, const unsigned char *known)
{
    const bool left = k->call->side == 'L';
    const unsigned char *bad = left ? k->bad_col : k->bad_row;
    for (int64_t s = 0; s < (left ? k->call->n : k->call->m); s++)
        if (bad[s] && !known[s])
            return solution_overflows(k, s);
    return true;
}

/* --- What a call stands for --- */

static void factor_set(double out[2], double re, double im)
{
    out[0] = re;
    out[1] = im;
}

/* The triangle, or what is mirrored to a square, on one side; `other` on the other. */
static void square_set(struct check *k, const struct matrix *other)
{
    const struct tb_call *call = k->call;
    const bool mirror = call->op == TB_SYMM || call->op == TB_HEMM;
    struct matrix square =
        matrix_of(call->a, call->ab, k->depth, k->depth, call->lda, mirror ? 'N' : call->ta);
    square.part = call->uplo;
    square.mirror = mirror;
    square.hermitian = square.real = call->op == TB_HEMM;
    square.unit = !mirror && call->diag == 'U';
    k->term[0].a = call->side == 'L' ? square : *other;
    k->term[0].b = call->side == 'L' ? *other : square;
}

/* The terms of a rank-k form, or of a plain product. */
static void product_set(struct check *k, const double alpha[2])
{
    struct tb_call p = *k->call;
    call_as_product(&p);
    k->term[0].a = matrix_of(p.a, p.ab, p.m, p.k, p.lda, p.ta);
    k->term[0].b = matrix_of(p.b, p.ab, p.k, p.n, p.ldb, p.tb);
    if (!call_is_rank_2k(&p))
        return;
    k->terms = 2;
    k->term[1].a = matrix_of(p.b, p.ab, p.m, p.k, p.ldb, p.ta);
    k->term[1].b = matrix_of(p.a, p.ab, p.k, p.n, p.lda, p.tb);
    factor_set(k->term[1].factor, alpha[0], p.op == TB_HER2K ? -alpha[1] : alpha[1]);
}

static void check_set(struct check *k, const void *old)
{
    const struct tb_call *call = k->call;
    const int64_t m = call->m, n = call->n;
    double alpha[2], beta[2];
    scalar_widen(call->alpha_type, &call->alpha, alpha);
    scalar_widen(call->beta_type, &call->beta, beta);
    struct matrix before = matrix_of(old, call->c_type, m, n, m, 'N');
    struct matrix c = matrix_of(call->c, call->c_type, m, n, call->ldc, 'N');
    k->terms = 1;
    k->depth = call->k;
    factor_set(k->term[0].factor, alpha[0], alpha[1]);
    factor_set(k->old_factor, beta[0], beta[1]);
    if (call->side)
        k->depth = call->side == 'L' ? m : n;
    if (call_is_triangular(call)) {
        c.part = before.part = call->uplo;
        c.mirror = before.mirror = call->op != TB_GEMMT;
        c.hermitian = before.hermitian = call->op == TB_HERK || call->op == TB_HER2K;
        before.real = c.hermitian; /* of C zero is stored */
    }
    switch (call->op) {
    case TB_TRMM:
        square_set(k, &before);
        k->c = c;
        return;
    case TB_TRSM: /* alpha B - op(A) X */
        square_set(k, &c);
        factor_set(k->term[0].factor, -1, 0);
        factor_set(k->old_factor, alpha[0], alpha[1]);
        k->old = before;
        return;
    case TB_SYMM:
    case TB_HEMM: {
        const struct matrix b = matrix_of(call->b, call->ab, m, n, call->ldb, 'N');
        square_set(k, &b);
        break;
    }
    default:
        product_set(k, alpha);
    }
    k->c = c;
    if (beta[0] != 0 || beta[1] != 0)
        k->old = before;
}

/* Room for all vectors, out of one piece; NULL: none. */
static double *vectors_open(struct check *k)
{
    const size_t m = (size_t)k->call->m, n = (size_t)k->call->n, depth = (size_t)k->depth;
    const size_t longest = m > n ? (m > depth ? m : depth) : n > depth ? n : depth;
    const size_t doubles = 2 * n + (size_t)k->terms * (3 * depth + 3 * m) + 6 * m + 2 * longest;
    if ((double)k->call->m + (double)k->call->n + (double)k->depth > 0x1p40)
        return NULL;
    double *memory = calloc(doubles * sizeof *memory + 3 * (m + n), 1), *at = memory;
    if (!memory)
        return NULL;
    k->x = at;
    at += 2 * n;
    for (int t = 0; t < k->terms; t++) {
        k->term[t].bx = at;
        k->term[t].norm_b = at + 2 * depth;
        k->term[t].abx = at + 3 * depth;
        k->term[t].size = at + 3 * depth + 2 * m;
        at += 3 * depth + 3 * m;
    }
    k->oldx = at;
    k->cx = at + 2 * m;
    k->square_old = at + 4 * m;
    k->square_c = at + 5 * m;
    at += 6 * m;
    k->old.line = k->c.line = at;
    for (int t = 0; t < k->terms; t++)
        k->term[t].a.line = k->term[t].b.line = at;
    k->bad_row = (unsigned char *)(memory + doubles);
    k->bad_col = k->bad_row + m + n;
    return memory;
}

static bool check_rows(struct check *k, bool reduced, uint64_t seed)
{
    const int64_t m = k->call->m, n = k->call->n;
    unsigned char *const known = k->bad_col + m + n;
    for (int t = 0; t < k->terms; t++) {
        matrix_scan(&k->term[t].a, true, k->bad_row);
        matrix_scan(&k->term[t].b, false, k->bad_col);
    }
    if (k->old.at) {
        matrix_scan(&k->old, true, k->bad_row);
        matrix_scan(&k->old, false, k->bad_col);
    }
    if (k->call->op == TB_TRSM) {
        matrix_scan(&k->old, k->call->side == 'R', known);
        if (!solutions_right(k, known))
            return false;
        memset(known, 0, (size_t)(m + n));
    }
    if (k->c.at) /* its rows are judged one by one */
        matrix_scan(&k->c, true, known);
    signs(k, seed);
    for (int t = 0; t < k->terms; t++)
        term_times(k, &k->term[t]);
    if (k->old.at)
        matrix_times(&k->old, &(struct times){.v = k->x, .out = k->oldx, .size = k->square_old});
    if (k->c.at)
        matrix_times(&k->c, &(struct times){.v = k->x, .out = k->cx, .size = k->square_c});
    for (int64_t i = 0; i < m; i++)
        if (!k->bad_row[i] && !row_right(k, i, reduced))
            return false;
    return true;
}

bool verify_result(const struct tb_call *call, const void *old, bool reduced, uint64_t seed)
{
    struct check k = {.call = call};
    check_set(&k, old);
    double *const memory = vectors_open(&k);
    const bool right = !memory || check_rows(&k, reduced, seed);
    free(memory);
    return right;
}
