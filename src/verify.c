/* SPDX-License-Identifier: BSD-3-Clause
 * The check of a product by a random projection. Decides what still counts as right.
 *
 * Per row i of C the residual is sum_j x_j e_ij with the errors e_ij and signs x_j that know
 * nothing of them, so it exceeds t sqrt(sum_j e_ij^2) with a probability of at most 2 exp(-t^2 /
 * 2). An entry may be off by E u (|alpha| |A||B| + |beta| |C0|)_ij, which the norms of the row of A
 * and the column of B bound. Rows and columns that hold an infinity or a NaN on the way in are left
 * out. All matrices are scaled to a largest entry of 1, so that no square overflows or vanishes. */
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
    double scale;    /* a power of two; the entries times it are at most 1 */
    double norm2;    /* of all finite rows (A) or columns (B) of op(), scaled */
    double *line;    /* room for a column */
};

static const void *column_of(const struct matrix *x, int64_t j)
{
    return x->at + (size_t)(j * x->ld) * call_elem_bytes(x->type);
}

static int parts_of(const struct matrix *x)
{
    return call_is_complex(x->type) ? 2 : 1;
}

static int64_t op_index(const struct matrix *x, int64_t i, int64_t j, bool row)
{
    return row == !x->flip ? i : j;
}

/* Finds the scale, and marks the rows or columns of op(X) that hold what is not finite. */
static void matrix_scan(struct matrix *x, bool by_row, unsigned char *bad)
{
    const int parts = parts_of(x);
    double most = 0;
    for (int64_t j = 0; j < x->cols; j++) {
        const int64_t count = parts * x->rows;
        const double *column = numbers_of(x->type, column_of(x, j), count, x->line);
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
            if (!(value <= DBL_MAX))
                bad[op_index(x, i / parts, j, by_row)] = 1;
            else if (value > most)
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

/* The part of one stored column in what follows, for real types: all vectors are real too. */
static void column_times(struct matrix *x, const double *column, int64_t j, const double *v,
                         double *out, double *squares, bool by_row)
{
    double sum = 0, norm2 = 0;
    const bool each =
        by_row == !x->flip; /* a square for each entry of the column, or one for all */
    for (int64_t i = 0; i < x->rows; i++) {
        const double value = column[i] * x->scale, square = value * value;
        const double counted = square <= DBL_MAX ? square : 0;
        norm2 += counted;
        if (each)
            squares[i] += counted;
    }
    if (!each)
        squares[j] += norm2;
    x->norm2 += norm2;
    if (x->flip) {
        for (int64_t i = 0; i < x->rows; i++)
            sum += v[2 * i] != 0 ? column[i] * x->scale * v[2 * i] : 0;
        out[2 * j] += sum;
    } else if (v[2 * j] != 0) {
        const double factor = v[2 * j] * x->scale;
        for (int64_t i = 0; i < x->rows; i++)
            out[2 * i] += column[i] * factor;
    }
}

/* out = op(X) v, and the squares of the norms of op(X)'s rows (or columns); all scaled. Columns of
 * op(X) with v = 0 are left out, whatever they hold. v and out are pairs. */
static void matrix_times(struct matrix *x, const double *v, double *out, double *squares,
                         bool by_row)
{
    const int parts = parts_of(x);
    const int64_t length = x->flip ? x->cols : x->rows;
    memset(out, 0, 2 * (size_t)length * sizeof *out);
    for (int64_t j = 0; j < x->cols; j++) {
        const double *column = numbers_of(x->type, column_of(x, j), parts * x->rows, x->line);
        if (parts == 1) {
            column_times(x, column, j, v, out, squares, by_row);
            continue;
        }
        for (int64_t i = 0; i < x->rows; i++) {
            const int64_t to = x->flip ? j : i, from = x->flip ? i : j;
            const double re = column[2 * i] * x->scale;
            double im = column[2 * i + 1] * x->scale;
            im = x->conj ? -im : im;
            const double square = re * re + im * im;
            if (square <= DBL_MAX) {
                squares[by_row ? to : from] += square;
                x->norm2 += square;
            }
            if (v[2 * from] == 0 && v[2 * from + 1] == 0)
                continue; /* 0 times infinity would show */
            out[2 * to] += re * v[2 * from] - im * v[2 * from + 1];
            out[2 * to + 1] += re * v[2 * from + 1] + im * v[2 * from];
        }
    }
}

/* --- The check --- */

struct check {
    const struct tb_call *call;
    struct matrix a, b, old, c;
    double *x, *bx, *abx, *oldx, *cx;                    /* vectors of pairs */
    double *square_a, *square_b, *square_old, *square_c; /* by row, column, row, row */
    unsigned char *bad_row, *bad_col;
    double alpha[2], beta[2];
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
                           .conj = trans == 'C'};
}

/* May the entries of the row be too large for C's type? */
static bool may_overflow(const struct check *k, int64_t i, long double row_ab)
{
    const double most = precision_of(k->call->c_type).most;
    long double column = 0;
    for (int64_t j = 0; j < k->call->n; j++)
        if (k->square_b[j] > (double)column)
            column = k->square_b[j];
    const long double old = k->old.at ? root(k->square_old[i]) / k->old.scale : 0;
    return row_ab * root(column) / k->b.scale + length_of(k->beta) * old > most / 4;
}

/* The norm of a scaled row of so many entries, of which the squares of the smallest vanished. */
static long double norm(double squares, long double entries)
{
    return root(squares + entries * 0x1p-1022L);
}

/* The most a row may be off, given |alpha| times the norm of its row of A. */
static long double tolerance(const struct check *k, int64_t i, long double row_ab, bool reduced)
{
    const struct tb_call *call = k->call;
    const struct precision in = precision_of(call->ab), out = precision_of(call->c_type);
    const bool half = call->ab == TB_F16 || call->ab == TB_BF16;
    const bool wide = call->ab == TB_F64 || call->ab == TB_C64;
    const long double unit = half ? 0x1p-21L : reduced && !wide ? 0x1p-10L : in.unit;
    const long double t = 12, n = (long double)call->n, depth = (long double)call->k;
    /* Sums of doubles are checked in doubles: the check rounds as the product does. */
    const long double chain = 8 + root(depth) + (wide ? 2 * (root(n) + root(depth)) : 0);
    const long double ab = row_ab * root(k->b.norm2) / k->b.scale;
    const long double old =
        k->old.at ? length_of(k->beta) * norm(k->square_old[i], n) / k->old.scale : 0;
    /* What vanished below the smallest number, on the way or at the end. */
    const long double lost =
        root(n) * (half ? 2 * out.step : (2 + depth) * ((long double)in.step + out.step));
    /* The last rounding is relative to what is stored, which may be far less than what was summed.
     */
    const long double stored = norm(k->square_c[i], n) / k->c.scale;
    return t * (2 * chain * unit * (ab + old) + out.unit * stored + lost);
}

static bool row_right(const struct check *k, int64_t i, bool reduced)
{
    const long double ab = 1 / ((long double)k->a.scale * k->b.scale);
    const long double co = k->old.at ? 1 / (long double)k->old.scale : 0;
    const long double row_ab =
        length_of(k->alpha) * norm(k->square_a[i], (long double)k->call->k) / k->a.scale;
    const long double allowed = tolerance(k, i, row_ab, reduced);
    if (!__builtin_isfinite(allowed))
        return true;
    const double *z = k->abx + 2 * i, *o = k->oldx + 2 * i, *got = k->cx + 2 * i;
    const long double re =
        (k->alpha[0] * (long double)z[0] - k->alpha[1] * (long double)z[1]) * ab +
        (k->beta[0] * (long double)o[0] - k->beta[1] * (long double)o[1]) * co;
    const long double im =
        (k->alpha[0] * (long double)z[1] + k->alpha[1] * (long double)z[0]) * ab +
        (k->beta[0] * (long double)o[1] + k->beta[1] * (long double)o[0]) * co;
    if (!__builtin_isfinite(re) || !__builtin_isfinite(im))
        return true;
    /* A sum that is no number holds an entry that is none; right where that was too large for C. */
    if (!__builtin_isfinite(got[0]) || !__builtin_isfinite(got[1]))
        return may_overflow(k, i, row_ab);
    const long double c = k->c.scale;
    return magnitude(got[0] / c - re) <= allowed && magnitude(got[1] / c - im) <= allowed;
}

/* Random signs, but 0 for the columns that cannot be compared. */
static void signs(struct check *k, uint64_t seed)
{
    for (int64_t j = 0; j < k->call->n; j++) {
        k->x[2 * j] = k->bad_col[j] ? 0 : mix(seed ^ mix((uint64_t)j)) & 1 ? 1 : -1;
        k->x[2 * j + 1] = 0;
    }
}

static bool check_rows(struct check *k, bool reduced, uint64_t seed)
{
    const int64_t m = k->call->m;
    unsigned char *const unused = k->bad_col + k->call->n; /* rows of C are judged one by one */
    matrix_scan(&k->a, true, k->bad_row);
    matrix_scan(&k->b, false, k->bad_col);
    if (k->old.at) {
        matrix_scan(&k->old, true, k->bad_row);
        matrix_scan(&k->old, false, k->bad_col);
    }
    matrix_scan(&k->c, true, unused);
    signs(k, seed);
    matrix_times(&k->b, k->x, k->bx, k->square_b, false);
    matrix_times(&k->a, k->bx, k->abx, k->square_a, true);
    if (k->old.at)
        matrix_times(&k->old, k->x, k->oldx, k->square_old, true);
    matrix_times(&k->c, k->x, k->cx, k->square_c, true);
    for (int64_t i = 0; i < m; i++)
        if (!k->bad_row[i] && !row_right(k, i, reduced))
            return false;
    return true;
}

bool verify_product(const struct tb_call *call, const void *old, bool reduced, uint64_t seed)
{
    const int64_t m = call->m, n = call->n, depth = call->k;
    struct check k = {.call = call};
    scalar_widen(call->alpha_type, &call->alpha, k.alpha);
    scalar_widen(call->beta_type, &call->beta, k.beta);
    const bool reads = k.beta[0] != 0 || k.beta[1] != 0;
    k.a = matrix_of(call->a, call->ab, m, depth, call->lda, call->ta);
    k.b = matrix_of(call->b, call->ab, depth, n, call->ldb, call->tb);
    k.c = matrix_of(call->c, call->c_type, m, n, call->ldc, 'N');
    k.old = matrix_of(reads ? old : NULL, call->c_type, m, n, m, 'N');
    if ((double)m + (double)n + (double)depth > 0x1p40)
        return true;
    const int64_t longest = m > n ? (m > depth ? m : depth) : n > depth ? n : depth;
    const size_t doubles = (size_t)(3 * n + 2 * depth + 9 * m + 2 * longest);
    double *memory = calloc(doubles * sizeof *memory + (size_t)(2 * m + n), 1);
    if (!memory)
        return true;
    k.x = memory;
    k.bx = k.x + 2 * n;
    k.abx = k.bx + 2 * depth;
    k.oldx = k.abx + 2 * m;
    k.cx = k.oldx + 2 * m;
    k.square_a = k.cx + 2 * m;
    k.square_old = k.square_a + m;
    k.square_c = k.square_old + m;
    k.square_b = k.square_c + m;
    k.a.line = k.b.line = k.c.line = k.old.line = k.square_b + n;
    k.bad_row = (unsigned char *)(memory + doubles);
    k.bad_col = k.bad_row + m;
    const bool right = check_rows(&k, reduced, seed);
    free(memory);
    return right;
}
