/* SPDX-License-Identifier: BSD-3-Clause
 * The edge rules of every kind of GEMM: special scalars, NaN and Inf in the operands, empty
 * products, guard bands, read-only operands, aliasing, strides of either sign. Operands lie against
 * a page that may not be touched and are read-only during the call; C has its padding compared bit
 * by bit. Results are held against long double by |C - Cref| <= c k eps (|alpha| |A| |B| + |beta|
 * |C0|). Names are looked up, so that the same program runs without us (where only some exist) and
 * under a preload. Argument: "big" adds sizes beyond the doors' pre-test. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "ref.h"
#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

enum form { ONE, TRIANGLE, STRIDED, BATCH };

static const struct entry {
    const char *name;
    enum form form;
    enum elem ab, c, scalar;
} entries[] = {
    {"cblas_sgemm", ONE, E_S, E_S, E_S},
    {"cblas_dgemm", ONE, E_D, E_D, E_D},
    {"cblas_cgemm", ONE, E_C, E_C, E_C},
    {"cblas_zgemm", ONE, E_Z, E_Z, E_Z},
    {"cblas_hgemm", ONE, E_H, E_H, E_H},
    {"cblas_bgemm", ONE, E_B, E_B, E_B},
    {"cblas_shgemm", ONE, E_H, E_S, E_S},
    {"cblas_sbgemm", ONE, E_B, E_S, E_S},
    {"cblas_gemm_f16f16f32", ONE, E_H, E_S, E_S},
    {"cblas_gemm_bf16bf16f32", ONE, E_B, E_S, E_S},
    {"cblas_sgemmt", TRIANGLE, E_S, E_S, E_S},
    {"cblas_dgemmt", TRIANGLE, E_D, E_D, E_D},
    {"cblas_cgemmt", TRIANGLE, E_C, E_C, E_C},
    {"cblas_zgemmt", TRIANGLE, E_Z, E_Z, E_Z},
    {"cblas_dgemmtr", TRIANGLE, E_D, E_D, E_D},
    {"cblas_sgemm_batch_strided", STRIDED, E_S, E_S, E_S},
    {"cblas_dgemm_batch_strided", STRIDED, E_D, E_D, E_D},
    {"cblas_cgemm_batch_strided", STRIDED, E_C, E_C, E_C},
    {"cblas_zgemm_batch_strided", STRIDED, E_Z, E_Z, E_Z},
    {"cblas_sbgemm_batch_strided", STRIDED, E_B, E_S, E_S},
    {"cblas_sgemm_batch", BATCH, E_S, E_S, E_S},
    {"cblas_dgemm_batch", BATCH, E_D, E_D, E_D},
    {"cblas_cgemm_batch", BATCH, E_C, E_C, E_C},
    {"cblas_zgemm_batch", BATCH, E_Z, E_Z, E_Z},
    {"cblas_sbgemm_batch", BATCH, E_B, E_S, E_S},
};

/* What is put into the operands. */
enum {
    C_NAN = 1,   /* C full of NaN */
    A_INF = 2,   /* an Inf in the last row and column of op(A) */
    B_NAN = 4,   /* a NaN in the last row and column of op(B) */
    AB_NAN = 8,  /* A and B full of NaN */
    SAME_AB = 16 /* A and B are the same memory */
};

struct one {
    bool row;
    char uplo, ta, tb;
    int64_t m, n, k, pad_a, pad_b, pad_c;
    struct value alpha, beta;
    int special;
    int sign; /* of the strides */
};

enum { ITEMS = 3 };
static bool ours; /* a copy of the library is in the process */
static int cases, failures;

/* --- memory that ends where the matrix ends
 * --------------------------------------------------------- */

struct arena {
    char *base;
    size_t size;
};

static struct arena arena_make(size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *const base =
        mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        perror("mmap");
        exit(99);
    }
    mprotect(base + size, page, PROT_NONE);
    return (struct arena){base, size};
}

static void *arena_end(const struct arena *a, size_t bytes)
{
    if (bytes > a->size) {
        printf("arena too small: %zu\n", bytes);
        exit(99);
    }
    return a->base + (a->size - bytes);
}

static void arena_protect(const struct arena *a, int how)
{
    mprotect(a->base, a->size, how);
}

static struct arena arena_a, arena_b, arena_c;

/* Which case a crash belongs to. */
static char current[512];
static void crashed(int number)
{
    static const char text[] = "crashed in: ";
    ssize_t ignored = write(1, text, sizeof text - 1);
    ignored += write(1, current, strlen(current));
    ignored += write(1, "\n", 1);
    (void)ignored;
    signal(number, SIG_DFL);
    raise(number);
}

/* --- calls
 * ---------------------------------------------------------------------------------------- */

struct operands {
    const void *a[ITEMS], *b[ITEMS];
    void *c[ITEMS];
    int64_t lda, ldb, ldc, sa, sb, sc;
    int count;
};

typedef const void *P;
static int trans_of(char t)
{
    return t == 'N' ? 111 : t == 'T' ? 112 : 113;
}

#define CALLS(SUFFIX, S, AV, BV)                                                                   \
    static void call_##SUFFIX(const struct entry *e, const struct one *x,                          \
                              const struct operands *o, void *fn)                                  \
    {                                                                                              \
        char alpha[16], beta[16];                                                                  \
        elem_put(e->scalar, alpha, 0, x->alpha);                                                   \
        elem_put(e->scalar, beta, 0, x->beta);                                                     \
        const int order = x->row ? 101 : 102, ta = trans_of(x->ta), tb = trans_of(x->tb),          \
                  uplo = x->uplo == 'U' ? 121 : 122, m = (int)x->m, n = (int)x->n, k = (int)x->k,  \
                  lda = (int)o->lda, ldb = (int)o->ldb, ldc = (int)o->ldc;                         \
        switch (e->form) {                                                                         \
        case ONE:                                                                                  \
            ((void (*)(int, int, int, int, int, int, S, P, int, P, int, S, void *, int))fn)(       \
                order, ta, tb, m, n, k, AV, o->a[0], lda, o->b[0], ldb, BV, o->c[0], ldc);         \
            break;                                                                                 \
        case TRIANGLE:                                                                             \
            ((void (*)(int, int, int, int, int, int, S, P, int, P, int, S, void *, int))fn)(       \
                order, uplo, ta, tb, n, k, AV, o->a[0], lda, o->b[0], ldb, BV, o->c[0], ldc);      \
            break;                                                                                 \
        case STRIDED:                                                                              \
            ((void (*)(int, int, int, int, int, int, S, P, int, int, P, int, int, S, void *, int,  \
                       int, int))fn)(order, ta, tb, m, n, k, AV, o->a[0], lda, (int)o->sa,         \
                                     o->b[0], ldb, (int)o->sb, BV, o->c[0], ldc, (int)o->sc,       \
                                     o->count);                                                    \
            break;                                                                                 \
        case BATCH:                                                                                \
            ((void (*)(int, P, P, P, P, P, P, P, P, P, P, P, P, P, int, P))fn)(                    \
                order, &ta, &tb, &m, &n, &k, alpha, o->a, &lda, o->b, &ldb, beta, o->c, &ldc, 1,   \
                &o->count);                                                                        \
            break;                                                                                 \
        }                                                                                          \
    }
CALLS(s, float, *(const float *)alpha, *(const float *)beta)
CALLS(d, double, *(const double *)alpha, *(const double *)beta)
CALLS(h, uint16_t, *(const uint16_t *)alpha, *(const uint16_t *)beta)
CALLS(p, P, (P)alpha, (P)beta)

static void call(const struct entry *e, const struct one *x, const struct operands *o, void *fn)
{
    switch (e->scalar) {
    case E_S:
        call_s(e, x, o, fn);
        break;
    case E_D:
        call_d(e, x, o, fn);
        break;
    case E_H:
    case E_B:
        call_h(e, x, o, fn);
        break;
    default:
        call_p(e, x, o, fn);
        break;
    }
}

/* --- judging -------------------------------------------------------------------------------------
 */

static long double eps_of(enum elem t)
{
    return t == E_D || t == E_Z ? 0x1p-53L : 0x1p-24L;
}

static long double bound(const struct entry *e, const struct one *x, long double product,
                         struct value old, struct value want)
{
    const long double terms = (long double)x->k + 4, wide = elem_complex(e->ab) ? 4 : 2;
    long double b = 0;
    if (x->alpha.re != 0 || x->alpha.im != 0)
        b += wide * terms * eps_of(e->ab) * value_abs(x->alpha) * product;
    if (x->beta.re != 0 || x->beta.im != 0)
        b += wide * 4 * eps_of(e->ab) * value_abs(x->beta) * value_abs(old);
    if (e->c == E_H)
        b += 0x1p-10L * value_abs(want) + 0x1p-23L;
    if (e->c == E_B)
        b += 0x1p-7L * value_abs(want);
    return b;
}

/* Finite where it has to be, near enough there; else NaN for NaN, Inf for the same Inf. A complex
 * entry counts as a whole: libraries differ in which component shows. */
static bool agrees(const struct entry *e, struct value got, struct value want, long double limit)
{
    if (elem_complex(e->c)) {
        if (!value_finite(want) || !value_finite(got))
            return value_finite(want) == value_finite(got);
    } else if (isnan(want.re) || isnan(got.re)) {
        return isnan(want.re) && isnan(got.re);
    } else if (isinf(want.re) || isinf(got.re)) {
        return want.re == got.re;
    }
    return fabsl(got.re - want.re) <= limit && fabsl(got.im - want.im) <= limit;
}

static void print_corner(const struct entry *e, const char *title, const void *p,
                         const struct one *x, int64_t ld, int64_t i0, int64_t j0)
{
    const struct view v = {.t = e->c, .p = p, .ld = ld, .row = x->row, .trans = 'N'};
    printf("  %s from (%d,%d):\n", title, (int)i0, (int)j0);
    for (int64_t i = i0; i < i0 + 4 && i < x->m; i++) {
        printf("   ");
        for (int64_t j = j0; j < j0 + 4 && j < x->n; j++) {
            const struct value w = view_stored(&v, i, j);
            if (elem_complex(e->c))
                printf(" (%10.4g,%10.4g)", (double)w.re, (double)w.im);
            else
                printf(" %12.6g", (double)w.re);
        }
        printf("\n");
    }
}

static bool outside_triangle(const struct entry *e, const struct one *x, int64_t i, int64_t j)
{
    return e->form == TRIANGLE && i != j && (i < j) != (x->uplo == 'U');
}

static bool item_wrong(const struct entry *e, const struct one *x, const struct operands *o,
                       int item, const void *before)
{
    const struct view a = {
        .t = e->ab, .p = o->a[item], .ld = o->lda, .row = x->row, .trans = x->ta};
    const struct view b = {
        .t = e->ab, .p = o->b[item], .ld = o->ldb, .row = x->row, .trans = x->tb};
    const struct view c = {.t = e->c, .p = o->c[item], .ld = o->ldc, .row = x->row, .trans = 'N'};
    struct view old = c;
    old.p = before;
    const size_t bytes = elem_bytes(e->c);
    const int64_t outer = x->row ? x->m : x->n, inner = x->row ? x->n : x->m;
    for (int64_t q = 0; q < outer; q++)
        for (int64_t r = 0; r < (q + 1 < outer ? o->ldc : inner); r++) {
            const int64_t i = x->row ? q : r, j = x->row ? r : q;
            const bool kept = r >= inner || outside_triangle(e, x, i, j);
            const char *const at = (const char *)o->c[item] + (size_t)(q * o->ldc + r) * bytes;
            const char *const was = (const char *)before + (size_t)(q * o->ldc + r) * bytes;
            if (kept) {
                if (memcmp(at, was, bytes) == 0)
                    continue;
                printf("%s: entry (%d,%d), not to be touched, was changed\n", current, (int)i,
                       (int)j);
                return true;
            }
            /* Of large results the borders and a sample. */
            if (x->m * x->n > 2500 && i > 1 && j > 1 && i < x->m - 2 && j < x->n - 2 &&
                random_bits() % 8 != 0)
                continue;
            long double product = 0;
            const bool use = x->k > 0 && (x->alpha.re != 0 || x->alpha.im != 0);
            struct value dot = {0, 0};
            if (use)
                dot = ref_dot(&a, &b, i, j, x->k, &product);
            const struct value then = view_stored(&old, i, j), got = view_stored(&c, i, j);
            const struct value want =
                ref_blend(x->alpha, dot, use, x->beta, then, elem_complex(e->c));
            const long double limit = bound(e, x, product, then, want);
            if (agrees(e, got, want, limit))
                continue;
            printf("%s, item %d: C(%d,%d) is %Lg,%Lg; %Lg,%Lg wanted, limit %Lg\n", current, item,
                   (int)i, (int)j, got.re, got.im, want.re, want.im, limit);
            print_corner(e, "C as it is", o->c[item], x, o->ldc, i > 1 ? i - 1 : 0,
                         j > 1 ? j - 1 : 0);
            print_corner(e, "C before", before, x, o->ldc, i > 1 ? i - 1 : 0, j > 1 ? j - 1 : 0);
            return true;
        }
    return false;
}

/* --- a case
 * --------------------------------------------------------------------------------------- */

static void fill(enum elem t, void *p, size_t bytes, bool all_nan)
{
    for (int64_t i = 0; i < (int64_t)(bytes / elem_bytes(t)); i++) {
        struct value v = {random_int(-512, 512) / 512.0L, random_int(-512, 512) / 512.0L};
        if (all_nan)
            v.re = v.im = NAN;
        elem_put(t, p, i, v);
    }
}

/* Bytes up to the last entry: the padding behind the last row or column is not ours to touch. */
static size_t span(enum elem t, bool row, int64_t rows, int64_t cols, int64_t ld)
{
    const int64_t outer = row ? rows : cols, inner = row ? cols : rows;
    return outer == 0 || inner == 0 ? 0 : (size_t)((outer - 1) * ld + inner) * elem_bytes(t);
}

static void set_last(enum elem t, void *p, bool row, int64_t ld, bool flip, int64_t i, int64_t j,
                     long double v)
{
    const int64_t r = flip ? j : i, c = flip ? i : j;
    elem_put(t, p, row ? r * ld + c : c * ld + r, (struct value){v, 0});
}

static int64_t ld_of(bool row, int64_t rows, int64_t cols, int64_t pad)
{
    const int64_t n = row ? cols : rows;
    return (n > 1 ? n : 1) + pad;
}

static void try_case(const struct entry *e, void *fn, struct one x)
{
    if (e->form == TRIANGLE)
        x.m = x.n;
    const int64_t ar = x.ta == 'N' ? x.m : x.k, ac = x.ta == 'N' ? x.k : x.m;
    const int64_t br = x.tb == 'N' ? x.k : x.n, bc = x.tb == 'N' ? x.n : x.k;
    if ((x.special & SAME_AB) && (ar != br || ac != bc))
        x.special &= ~SAME_AB;
    if (x.special & SAME_AB)
        x.pad_b = x.pad_a;
    const bool many = e->form == STRIDED || e->form == BATCH;
    struct operands o = {.lda = ld_of(x.row, ar, ac, x.pad_a),
                         .ldb = ld_of(x.row, br, bc, x.pad_b),
                         .ldc = ld_of(x.row, x.m, x.n, x.pad_c),
                         .count = many ? ITEMS : 1};
    const size_t sa = span(e->ab, x.row, ar, ac, o.lda), sb = span(e->ab, x.row, br, bc, o.ldb),
                 sc = span(e->c, x.row, x.m, x.n, o.ldc);
    const size_t gap_a = elem_bytes(e->ab), gap_c = 2 * elem_bytes(e->c), items = (size_t)o.count;
    const size_t all_a = sa * items + gap_a * (items - 1), all_b = sb * items + gap_a * (items - 1),
                 all_c = sc * items + gap_c * (items - 1);
    snprintf(current, sizeof current,
             "%s %s uplo=%c %c%c m=%d n=%d k=%d lda=%d ldb=%d ldc=%d alpha=%Lg beta=%Lg special=%d "
             "sign=%d tile=%s",
             e->name, x.row ? "row" : "col", x.uplo, x.ta, x.tb, (int)x.m, (int)x.n, (int)x.k,
             (int)o.lda, (int)o.ldb, (int)o.ldc, x.alpha.re, x.beta.re, x.special, x.sign,
             getenv("TILEBLAS_SIM_TILE") ? getenv("TILEBLAS_SIM_TILE") : "-");
    cases++;

    char *const a = arena_end(&arena_a, all_a), *const c = arena_end(&arena_c, all_c);
    char *const b = x.special & SAME_AB ? a : arena_end(&arena_b, all_b);
    fill(e->ab, a, all_a, x.special & AB_NAN);
    if (b != a)
        fill(e->ab, b, all_b, x.special & AB_NAN);
    fill(e->c, c, all_c, x.special & C_NAN);
    for (size_t i = 0; i < items; i++) {
        o.a[i] = sa ? a + i * (sa + gap_a) : NULL;
        o.b[i] = sb ? b + i * (sb + gap_a) : NULL;
        o.c[i] = sc ? c + i * (sc + gap_c) : NULL;
        if ((x.special & A_INF) && sa)
            set_last(e->ab, (void *)(uintptr_t)o.a[i], x.row, o.lda, x.ta != 'N', x.m - 1, x.k - 1,
                     INFINITY);
        if ((x.special & B_NAN) && sb)
            set_last(e->ab, (void *)(uintptr_t)o.b[i], x.row, o.ldb, x.tb != 'N', x.k - 1, x.n - 1,
                     NAN);
    }
    o.sa = x.sign * (int64_t)((sa + gap_a) / elem_bytes(e->ab));
    o.sb = x.sign * (int64_t)((sb + gap_a) / elem_bytes(e->ab));
    o.sc = x.sign * (int64_t)((sc + gap_c) / elem_bytes(e->c));
    if (e->form == STRIDED && x.sign < 0) { /* item 0 is the one that lies last */
        const struct operands p = o;
        for (size_t i = 0; i < items; i++) {
            o.a[i] = p.a[items - 1 - i];
            o.b[i] = p.b[items - 1 - i];
            o.c[i] = p.c[items - 1 - i];
        }
    }
    char *const before = malloc(all_c + 1);
    memcpy(before, c, all_c);
    char fence[64];
    memset(c - sizeof fence, 0x5a, sizeof fence);
    memset(fence, 0x5a, sizeof fence);
    arena_protect(&arena_a, PROT_READ);
    arena_protect(&arena_b, PROT_READ);
    call(e, &x, &o, fn);
    arena_protect(&arena_a, PROT_READ | PROT_WRITE);
    arena_protect(&arena_b, PROT_READ | PROT_WRITE);
    bool wrong = memcmp(c - sizeof fence, fence, sizeof fence) != 0;
    if (wrong)
        printf("%s: wrote in front of C\n", current);
    for (int i = 0; i < o.count && !wrong && sc; i++)
        wrong = item_wrong(e, &x, &o, i, before + ((char *)o.c[i] - c));
    for (size_t i = 0; i + 1 < items && !wrong && sc; i++) {
        const size_t at = i * (sc + gap_c) + sc;
        wrong = memcmp(c + at, before + at, gap_c) != 0;
        if (wrong)
            printf("%s: wrote between two items\n", current);
    }
    failures += wrong;
    free(before);
}

/* --- what is tried
 * -------------------------------------------------------------------------------- */

static struct one any(void)
{
    return (struct one){.row = random_int(0, 1),
                        .uplo = "UL"[random_int(0, 1)],
                        .ta = "NTC"[random_int(0, 2)],
                        .tb = "NTC"[random_int(0, 2)],
                        .pad_a = random_int(0, 3),
                        .pad_b = random_int(0, 3),
                        .pad_c = random_int(0, 3),
                        .alpha = {1, 0},
                        .beta = {1, 0},
                        .sign = random_int(0, 1) ? 1 : -1};
}

static void sized(struct one *x, int64_t m, int64_t n, int64_t k)
{
    x->m = m;
    x->n = n;
    x->k = k;
}

static void try_sizes(const struct entry *e, void *fn)
{
    static const int64_t others[] = {1, 7, 8, 9, 15, 16, 17, 33};
    static const long double scalars[] = {1, -1, 2.5L, 0, 1};
    for (int which = 0; which < 3; which++)
        for (int64_t v = 1; v <= 33; v++) {
            struct one x = any();
            const int64_t p = others[random_int(0, 7)], q = others[random_int(0, 7)];
            sized(&x, which == 0 ? v : p, which == 1 ? v : q, which == 2 ? v : which == 0 ? q : p);
            x.alpha.re = scalars[random_int(0, 2)];
            x.beta.re = scalars[random_int(0, 4)];
            if (elem_complex(e->scalar))
                x.alpha.im = random_int(-1, 1), x.beta.im = x.beta.re == 0 ? 0 : random_int(-1, 1);
            x.special = x.beta.re == 0 ? C_NAN : 0;
            try_case(e, fn, x);
        }
}

static void try_scalars(const struct entry *e, void *fn)
{
    static const long double scalars[] = {0, -0.0L, 1, -1, 2.5L, NAN, INFINITY};
    static const int specials[] = {0, C_NAN, A_INF, B_NAN, AB_NAN, A_INF | B_NAN, SAME_AB};
    static const int64_t sizes[][3] = {
        {1, 1, 1}, {16, 16, 16}, {17, 9, 8}, {8, 33, 17}, {15, 16, 31}};
    const bool real_small = e->form == ONE && (e->ab == E_S || e->ab == E_D);
    for (int al = 0; al < 7; al++)
        for (int be = 0; be < 7; be++)
            for (int sp = 0; sp < 7; sp++) {
                struct one x = any();
                const int64_t *const z = sizes[random_int(0, 4)];
                sized(&x, z[0], z[1], z[2]);
                x.alpha.re = scalars[al];
                x.beta.re = scalars[be];
                x.special = specials[sp];
                if (x.special & SAME_AB)
                    sized(&x, 9, 9, 9);
                /* OpenBLAS itself reads A and B here. */
                if (!ours && real_small && x.alpha.re == 0)
                    continue;
                try_case(e, fn, x);
            }
}

/* Empty in one way or another; pointers to what has no entries are NULL. */
static void try_empty(const struct entry *e, void *fn)
{
    static const long double scalars[] = {0, 1, 2.5L, NAN};
    for (int empty = 1; empty < 8; empty++)
        for (int be = 0; be < 4; be++) {
            struct one x = any();
            sized(&x, empty & 1 ? 0 : 9, empty & 2 ? 0 : 17, empty & 4 ? 0 : 5);
            if (e->form == TRIANGLE && (empty & 1))
                x.n = 0;
            x.beta.re = scalars[be];
            x.special = random_int(0, 1) ? C_NAN : 0;
            try_case(e, fn, x);
        }
    if (e->form == STRIDED || e->form == BATCH) {
        struct one x = any();
        sized(&x, 3, 3, 3);
        const struct operands none = {.lda = 3, .ldb = 3, .ldc = 3, .sa = 9, .sb = 9, .sc = 9};
        snprintf(current, sizeof current, "%s, no items", e->name);
        call(e, &x, &none, fn);
        cases++;
    }
}

/* alpha = 0 with NaN in A and C = NaN with beta = 0 on both sides of every threshold. */
static void try_big(const struct entry *e, void *fn)
{
    static const int64_t sizes[][3] = {
        {101, 101, 101}, {165, 161, 170}, {300, 33, 500}, {1, 2100, 2000}};
    const int many = e->form == STRIDED || e->form == BATCH ? 1 : 4;
    for (int s = 0; s < many; s++) {
        struct one x = any();
        sized(&x, sizes[s][0], sizes[s][1], sizes[s][2]);
        if (e->form == TRIANGLE && s == 3)
            sized(&x, 200, 200, 150);
        x.alpha.re = 2.5L;
        x.beta.re = -1;
        if (s < 3)
            try_case(e, fn, x);
        x.beta.re = 0;
        x.special = C_NAN | (s == 3 ? 0 : A_INF);
        try_case(e, fn, x);
        x.alpha.re = 0;
        x.beta.re = 2.5L;
        x.special = AB_NAN;
        if (ours || s > 0)
            try_case(e, fn, x);
        x.special = C_NAN | AB_NAN;
        x.beta.re = -0.0L;
        if (ours || s > 0)
            try_case(e, fn, x);
    }
}

int main(int argc, char **argv)
{
    const bool big = argc > 1 && strcmp(argv[1], "big") == 0;
    ours = dlsym(RTLD_DEFAULT, "tileblas_marker") != NULL;
    signal(SIGSEGV, crashed);
    signal(SIGBUS, crashed);
    signal(SIGFPE, crashed);
    arena_a = arena_make(64 << 20);
    arena_b = arena_make(128 << 20);
    arena_c = arena_make(16 << 20);
    int names = 0;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        const struct entry *const e = &entries[i];
        void *const fn = dlsym(RTLD_DEFAULT, e->name);
        if (fn == NULL) {
            if (ours) {
                printf("%s is missing\n", e->name);
                failures++;
            }
            continue;
        }
        names++;
        random_state = 88172645463325252u + i;
        const int before = failures;
        if (big) {
            try_big(e, fn);
        } else {
            try_sizes(e, fn);
            try_scalars(e, fn);
            try_empty(e, fn);
        }
        if (failures > before)
            printf("%s: %d cases failed\n", e->name, failures - before);
    }
    printf("%d names, %d cases, %d failed\n", names, cases, failures);
    return failures != 0 || names == 0;
}
