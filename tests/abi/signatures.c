/* SPDX-License-Identifier: BSD-3-Clause
 * Calls every door as a program does that never saw our headers: the argument lists are written out
 * here, by shape, integer width and kind of scalar (16-bit scalars by value in a uint16_t), with
 * and without the hidden lengths of Fortran. Integer data, so results are exact. Arguments: largest
 * dimension, trials per door. */
#include "ref.h"

enum shape { GEMM, SYMM, SYRK, SYR2K, TRMM, GEMMT, BATCH, STRIDED };
enum style { FORTRAN, CBLAS };
enum {
    OP_GEMM,
    OP_GEMM3M,
    OP_GEMMT,
    OP_SYMM,
    OP_HEMM,
    OP_SYRK,
    OP_HERK,
    OP_SYR2K,
    OP_HER2K,
    OP_TRMM,
    OP_TRSM
};

/* TYPES of the table: A and B; C; alpha; beta. */
#define KIND_S   E_S, E_S, E_S, E_S
#define KIND_D   E_D, E_D, E_D, E_D
#define KIND_C   E_C, E_C, E_C, E_C
#define KIND_Z   E_Z, E_Z, E_Z, E_Z
#define KIND_CS  E_C, E_C, E_S, E_S
#define KIND_ZD  E_Z, E_Z, E_D, E_D
#define KIND_CR  E_C, E_C, E_C, E_S
#define KIND_ZR  E_Z, E_Z, E_Z, E_D
#define KIND_HHH E_H, E_H, E_H, E_H
#define KIND_BBB E_B, E_B, E_B, E_B
#define KIND_HS  E_H, E_S, E_S, E_S
#define KIND_BS  E_B, E_S, E_S, E_S

typedef void (*door_fn)(void);

#define DOOR(SHAPE, OP, NAME, TYPES, SPELLED, I, STYLE) void SPELLED(void);
#include "doors.def"
#undef DOOR

static const struct door {
    const char *name;
    enum shape shape;
    int op;
    enum style style;
    int wide;
    door_fn fn;
    enum elem ab, c, alpha, beta;
} doors[] = {
#define DOOR(SHAPE, OP, NAME, TYPES, SPELLED, I, STYLE)                                            \
    {#SPELLED, SHAPE, OP_##OP, STYLE, sizeof(I) == 8, SPELLED, KIND_##TYPES},
#include "doors.def"
#undef DOOR
};

enum { ITEMS = 3, GROUPS = 2 };

/* One product with its matrices; for batches, what all items of a group share, and every item's. */
struct shared {
    char side, uplo, ta, tb, diag;
    int64_t m, n, k, lda, ldb, ldc;
    double alpha[2], beta[2]; /* in the bits of the scalar types */
    struct value alpha_value, beta_value;
};
struct item {
    void *a, *b, *c, *before;
    size_t a_bytes, b_bytes, c_bytes;
};
struct problem {
    bool row, hidden;
    struct shared of[GROUPS];
    struct item item[ITEMS];
    int64_t stride_a, stride_b, stride_c; /* elements */
};

static int flag_number(char letter, int which)
{
    switch (which) {
    case 't':
        return letter == 'N' ? 111 : letter == 'T' ? 112 : 113;
    case 'u':
        return letter == 'U' ? 121 : 122;
    case 'd':
        return letter == 'N' ? 131 : 132;
    default:
        return letter == 'L' ? 141 : 142;
    }
}

typedef const void *P;

/* The Fortran lists. Letters in front; one hidden length each behind, or none. */
#define FORTRAN_CALLER(I)                                                                          \
    static void fortran_##I(const struct door *d, const struct problem *p)                         \
    {                                                                                              \
        const struct shared *const s = p->of;                                                      \
        const struct item *const x = p->item;                                                      \
        const I m = (I)s->m, n = (I)s->n, k = (I)s->k, lda = (I)s->lda, ldb = (I)s->ldb,           \
                ldc = (I)s->ldc, sa = (I)p->stride_a, sb = (I)p->stride_b, sc = (I)p->stride_c,    \
                count = ITEMS, groups = GROUPS;                                                    \
        const P al = s->alpha, be = s->beta;                                                       \
        const char *const side = &s->side, *const uplo = &s->uplo, *const ta = &s->ta,             \
                          *const tb = &s->tb, *const diag = &s->diag;                              \
        const char tas[GROUPS] = {p->of[0].ta, p->of[1].ta},                                       \
                   tbs[GROUPS] = {p->of[0].tb, p->of[1].tb};                                       \
        const I ms[GROUPS] = {(I)p->of[0].m, (I)p->of[1].m},                                       \
                ns[GROUPS] = {(I)p->of[0].n, (I)p->of[1].n},                                       \
                ks[GROUPS] = {(I)p->of[0].k, (I)p->of[1].k},                                       \
                las[GROUPS] = {(I)p->of[0].lda, (I)p->of[1].lda},                                  \
                lbs[GROUPS] = {(I)p->of[0].ldb, (I)p->of[1].ldb},                                  \
                lcs[GROUPS] = {(I)p->of[0].ldc, (I)p->of[1].ldc}, sizes[GROUPS] = {ITEMS - 1, 1};  \
        P as[ITEMS] = {x[0].a, x[1].a, x[2].a};                                                    \
        P bs[ITEMS] = {x[0].b, x[1].b, x[2].b};                                                    \
        void *cs[ITEMS] = {x[0].c, x[1].c, x[2].c};                                                \
        char als[GROUPS * 16], bes[GROUPS * 16];                                                   \
        for (int g = 0; g < GROUPS; g++) {                                                         \
            memcpy(als + g * (int)elem_bytes(d->alpha), p->of[g].alpha, elem_bytes(d->alpha));     \
            memcpy(bes + g * (int)elem_bytes(d->beta), p->of[g].beta, elem_bytes(d->beta));        \
        }                                                                                          \
        if (p->hidden)                                                                             \
            switch (d->shape) {                                                                    \
            case GEMM:                                                                             \
                ((void (*)(P, P, P, P, P, P, P, P, P, P, P, void *, P, size_t, size_t))d->fn)(     \
                    ta, tb, &m, &n, &k, al, x->a, &lda, x->b, &ldb, be, x->c, &ldc, 1, 1);         \
                break;                                                                             \
            case SYMM:                                                                             \
                ((void (*)(P, P, P, P, P, P, P, P, P, P, void *, P, size_t, size_t))d->fn)(        \
                    side, uplo, &m, &n, al, x->a, &lda, x->b, &ldb, be, x->c, &ldc, 1, 1);         \
                break;                                                                             \
            case SYRK:                                                                             \
                ((void (*)(P, P, P, P, P, P, P, P, void *, P, size_t, size_t))d->fn)(              \
                    uplo, ta, &n, &k, al, x->a, &lda, be, x->c, &ldc, 1, 1);                       \
                break;                                                                             \
            case SYR2K:                                                                            \
                ((void (*)(P, P, P, P, P, P, P, P, P, P, void *, P, size_t, size_t))d->fn)(        \
                    uplo, ta, &n, &k, al, x->a, &lda, x->b, &ldb, be, x->c, &ldc, 1, 1);           \
                break;                                                                             \
            case TRMM:                                                                             \
                ((void (*)(P, P, P, P, P, P, P, P, P, void *, P, size_t, size_t, size_t,           \
                           size_t))d->fn)(side, uplo, ta, diag, &m, &n, al, x->a, &lda, x->c,      \
                                          &ldc, 1, 1, 1, 1);                                       \
                break;                                                                             \
            case GEMMT:                                                                            \
                ((void (*)(P, P, P, P, P, P, P, P, P, P, P, void *, P, size_t, size_t,             \
                           size_t))d->fn)(uplo, ta, tb, &n, &k, al, x->a, &lda, x->b, &ldb, be,    \
                                          x->c, &ldc, 1, 1, 1);                                    \
                break;                                                                             \
            case BATCH:                                                                            \
                ((void (*)(P, P, P, P, P, P, P *, P, P *, P, P, void **, P, P, P, size_t,          \
                           size_t))d->fn)(tas, tbs, ms, ns, ks, als, as, las, bs, lbs, bes, cs,    \
                                          lcs, &groups, sizes, 1, 1);                              \
                break;                                                                             \
            case STRIDED:                                                                          \
                ((void (*)(P, P, P, P, P, P, P, P, P, P, P, P, P, void *, P, P, P, size_t,         \
                           size_t))d->fn)(ta, tb, &m, &n, &k, al, x->a, &lda, &sa, x->b, &ldb,     \
                                          &sb, be, x->c, &ldc, &sc, &count, 1, 1);                 \
                break;                                                                             \
            }                                                                                      \
        else                                                                                       \
            switch (d->shape) {                                                                    \
            case GEMM:                                                                             \
                ((void (*)(P, P, P, P, P, P, P, P, P, P, P, void *, P))d->fn)(                     \
                    ta, tb, &m, &n, &k, al, x->a, &lda, x->b, &ldb, be, x->c, &ldc);               \
                break;                                                                             \
            case SYMM:                                                                             \
                ((void (*)(P, P, P, P, P, P, P, P, P, P, void *, P))d->fn)(                        \
                    side, uplo, &m, &n, al, x->a, &lda, x->b, &ldb, be, x->c, &ldc);               \
                break;                                                                             \
            case SYRK:                                                                             \
                ((void (*)(P, P, P, P, P, P, P, P, void *, P))d->fn)(uplo, ta, &n, &k, al, x->a,   \
                                                                     &lda, be, x->c, &ldc);        \
                break;                                                                             \
            case SYR2K:                                                                            \
                ((void (*)(P, P, P, P, P, P, P, P, P, P, void *, P))d->fn)(                        \
                    uplo, ta, &n, &k, al, x->a, &lda, x->b, &ldb, be, x->c, &ldc);                 \
                break;                                                                             \
            case TRMM:                                                                             \
                ((void (*)(P, P, P, P, P, P, P, P, P, void *, P))d->fn)(                           \
                    side, uplo, ta, diag, &m, &n, al, x->a, &lda, x->c, &ldc);                     \
                break;                                                                             \
            case GEMMT:                                                                            \
                ((void (*)(P, P, P, P, P, P, P, P, P, P, P, void *, P))d->fn)(                     \
                    uplo, ta, tb, &n, &k, al, x->a, &lda, x->b, &ldb, be, x->c, &ldc);             \
                break;                                                                             \
            case BATCH:                                                                            \
                ((void (*)(P, P, P, P, P, P, P *, P, P *, P, P, void **, P, P, P))d->fn)(          \
                    tas, tbs, ms, ns, ks, als, as, las, bs, lbs, bes, cs, lcs, &groups, sizes);    \
                break;                                                                             \
            case STRIDED:                                                                          \
                ((void (*)(P, P, P, P, P, P, P, P, P, P, P, P, P, void *, P, P, P))d->fn)(         \
                    ta, tb, &m, &n, &k, al, x->a, &lda, &sa, x->b, &ldb, &sb, be, x->c, &ldc, &sc, \
                    &count);                                                                       \
                break;                                                                             \
            }                                                                                      \
    }
FORTRAN_CALLER(int32_t)
FORTRAN_CALLER(int64_t)

/* The CBLAS lists. AT, BT: types of alpha and beta as parameters; AV, BV: their values. */
#define CBLAS_CALLER(SUFFIX, I, AT, BT, AV, BV)                                                    \
    static void cblas_##SUFFIX##_##I(const struct door *d, const struct problem *p)                \
    {                                                                                              \
        const struct shared *const s = p->of;                                                      \
        const struct item *const x = p->item;                                                      \
        const int order = p->row ? 101 : 102, side = flag_number(s->side, 's'),                    \
                  uplo = flag_number(s->uplo, 'u'), ta = flag_number(s->ta, 't'),                  \
                  tb = flag_number(s->tb, 't'), diag = flag_number(s->diag, 'd');                  \
        const I m = (I)s->m, n = (I)s->n, k = (I)s->k, lda = (I)s->lda, ldb = (I)s->ldb,           \
                ldc = (I)s->ldc;                                                                   \
        switch (d->shape) {                                                                        \
        case GEMM:                                                                                 \
            ((void (*)(int, int, int, I, I, I, AT, P, I, P, I, BT, void *, I))d->fn)(              \
                order, ta, tb, m, n, k, AV, x->a, lda, x->b, ldb, BV, x->c, ldc);                  \
            break;                                                                                 \
        case SYMM:                                                                                 \
            ((void (*)(int, int, int, I, I, AT, P, I, P, I, BT, void *, I))d->fn)(                 \
                order, side, uplo, m, n, AV, x->a, lda, x->b, ldb, BV, x->c, ldc);                 \
            break;                                                                                 \
        case SYRK:                                                                                 \
            ((void (*)(int, int, int, I, I, AT, P, I, BT, void *, I))d->fn)(                       \
                order, uplo, ta, n, k, AV, x->a, lda, BV, x->c, ldc);                              \
            break;                                                                                 \
        case SYR2K:                                                                                \
            ((void (*)(int, int, int, I, I, AT, P, I, P, I, BT, void *, I))d->fn)(                 \
                order, uplo, ta, n, k, AV, x->a, lda, x->b, ldb, BV, x->c, ldc);                   \
            break;                                                                                 \
        case TRMM:                                                                                 \
            ((void (*)(int, int, int, int, int, I, I, AT, P, I, void *, I))d->fn)(                 \
                order, side, uplo, ta, diag, m, n, AV, x->a, lda, x->c, ldc);                      \
            break;                                                                                 \
        case GEMMT:                                                                                \
            ((void (*)(int, int, int, int, I, I, AT, P, I, P, I, BT, void *, I))d->fn)(            \
                order, uplo, ta, tb, n, k, AV, x->a, lda, x->b, ldb, BV, x->c, ldc);               \
            break;                                                                                 \
        case STRIDED:                                                                              \
            ((void (*)(int, int, int, I, I, I, AT, P, I, I, P, I, I, BT, void *, I, I, I))d->fn)(  \
                order, ta, tb, m, n, k, AV, x->a, lda, (I)p->stride_a, x->b, ldb, (I)p->stride_b,  \
                BV, x->c, ldc, (I)p->stride_c, ITEMS);                                             \
            break;                                                                                 \
        case BATCH:                                                                                \
            break;                                                                                 \
        }                                                                                          \
    }
#define FLOAT(X)   (*(const float *)(X))
#define DOUBLE(X)  (*(const double *)(X))
#define BITS(X)    (*(const uint16_t *)(X))
#define POINTER(X) ((P)(X))
#define CBLAS_CALLERS(I)                                                                           \
    CBLAS_CALLER(s, I, float, float, FLOAT(s->alpha), FLOAT(s->beta))                              \
    CBLAS_CALLER(d, I, double, double, DOUBLE(s->alpha), DOUBLE(s->beta))                          \
    CBLAS_CALLER(c, I, P, P, POINTER(s->alpha), POINTER(s->beta))                                  \
    CBLAS_CALLER(cr, I, P, float, POINTER(s->alpha), FLOAT(s->beta))                               \
    CBLAS_CALLER(zr, I, P, double, POINTER(s->alpha), DOUBLE(s->beta))                             \
    CBLAS_CALLER(h, I, uint16_t, uint16_t, BITS(s->alpha), BITS(s->beta))                          \
    static void cblas_batch_##I(const struct door *d, const struct problem *p)                     \
    {                                                                                              \
        const struct shared *const s = p->of;                                                      \
        const struct item *const x = p->item;                                                      \
        const int tas[GROUPS] = {flag_number(s[0].ta, 't'), flag_number(s[1].ta, 't')},            \
                  tbs[GROUPS] = {flag_number(s[0].tb, 't'), flag_number(s[1].tb, 't')};            \
        const I ms[GROUPS] = {(I)s[0].m, (I)s[1].m}, ns[GROUPS] = {(I)s[0].n, (I)s[1].n},          \
                ks[GROUPS] = {(I)s[0].k, (I)s[1].k}, las[GROUPS] = {(I)s[0].lda, (I)s[1].lda},     \
                lbs[GROUPS] = {(I)s[0].ldb, (I)s[1].ldb},                                          \
                lcs[GROUPS] = {(I)s[0].ldc, (I)s[1].ldc}, sizes[GROUPS] = {ITEMS - 1, 1};          \
        P as[ITEMS] = {x[0].a, x[1].a, x[2].a};                                                    \
        P bs[ITEMS] = {x[0].b, x[1].b, x[2].b};                                                    \
        void *cs[ITEMS] = {x[0].c, x[1].c, x[2].c};                                                \
        char als[GROUPS * 16], bes[GROUPS * 16];                                                   \
        for (int g = 0; g < GROUPS; g++) {                                                         \
            memcpy(als + g * (int)elem_bytes(d->alpha), s[g].alpha, elem_bytes(d->alpha));         \
            memcpy(bes + g * (int)elem_bytes(d->beta), s[g].beta, elem_bytes(d->beta));            \
        }                                                                                          \
        ((void (*)(int, P, P, P, P, P, P, P *, P, P *, P, P, void **, P, I, P))d->fn)(             \
            p->row ? 101 : 102, tas, tbs, ms, ns, ks, als, as, las, bs, lbs, bes, cs, lcs, GROUPS, \
            sizes);                                                                                \
    }
CBLAS_CALLERS(int32_t)
CBLAS_CALLERS(int64_t)

#define PICK(NAME) (d->wide ? NAME##_int64_t : NAME##_int32_t)

static void call(const struct door *d, const struct problem *p)
{
    void (*with)(const struct door *, const struct problem *);
    if (d->style == FORTRAN)
        with = PICK(fortran);
    else if (d->shape == BATCH)
        with = PICK(cblas_batch);
    else if (d->alpha == E_H || d->alpha == E_B)
        with = PICK(cblas_h);
    else if (elem_complex(d->alpha) && elem_complex(d->beta))
        with = PICK(cblas_c);
    else if (elem_complex(d->alpha))
        with = d->beta == E_S ? PICK(cblas_cr) : PICK(cblas_zr);
    else
        with = d->alpha == E_S ? PICK(cblas_s) : PICK(cblas_d);
    with(d, p);
}

/* --- problems ----------------------------------------------------------------------------------
 */

static int largest = 6;

static void choose_scalar(enum elem t, bool complex, double bits[2], struct value *v)
{
    v->re = random_int(-2, 2);
    v->im = complex ? random_int(-2, 2) : 0;
    if (v->re == 0 && v->im == 0)
        v->re = 1;
    elem_put(t, bits, 0, *v);
}

static bool is_hermitian(int op)
{
    return op == OP_HEMM || op == OP_HERK || op == OP_HER2K;
}

/* Stored rows and columns of A, B and C. */
struct sides {
    int64_t a[2], b[2], c[2];
};

static struct sides choose_shared(const struct door *d, struct shared *s, bool row)
{
    const bool complex = elem_complex(d->ab);
    s->side = "LR"[random_int(0, 1)];
    s->uplo = "UL"[random_int(0, 1)];
    s->ta = "NTC"[random_int(0, 2)];
    s->tb = "NTC"[random_int(0, 2)];
    s->diag = "NU"[random_int(0, 1)];
    s->m = random_int(1, largest);
    s->n = random_int(1, largest);
    s->k = random_int(1, largest);
    choose_scalar(d->alpha, elem_complex(d->alpha), s->alpha, &s->alpha_value);
    choose_scalar(d->beta, elem_complex(d->beta), s->beta, &s->beta_value);
    struct sides z = {{0, 0}, {0, 0}, {s->m, s->n}};
    const int64_t order = s->side == 'L' ? s->m : s->n;
    switch (d->op) {
    case OP_GEMMT:
        s->m = s->n;
        z.c[0] = s->n;
        /* fall through */
    case OP_GEMM:
    case OP_GEMM3M:
        z.a[0] = s->ta == 'N' ? s->m : s->k;
        z.a[1] = s->ta == 'N' ? s->k : s->m;
        z.b[0] = s->tb == 'N' ? s->k : s->n;
        z.b[1] = s->tb == 'N' ? s->n : s->k;
        break;
    case OP_SYMM:
    case OP_HEMM:
        z.a[0] = z.a[1] = order;
        z.b[0] = s->m;
        z.b[1] = s->n;
        break;
    case OP_SYRK:
    case OP_HERK:
    case OP_SYR2K:
    case OP_HER2K:
        if (is_hermitian(d->op))
            s->ta = s->ta == 'T' ? 'C' : s->ta;
        else if (complex)
            s->ta = s->ta == 'C' ? 'T' : s->ta;
        s->m = s->n;
        z.c[0] = s->n;
        z.a[0] = s->ta == 'N' ? s->n : s->k;
        z.a[1] = s->ta == 'N' ? s->k : s->n;
        memcpy(z.b, z.a, sizeof z.a);
        break;
    default:
        z.a[0] = z.a[1] = order;
        /* B = alpha op(A) B only: there is no beta. */
        s->beta_value = (struct value){0, 0};
        if (d->op == OP_TRSM) {
            s->alpha_value = (struct value){2, 0};
            elem_put(d->alpha, s->alpha, 0, s->alpha_value);
        }
        break;
    }
    s->lda = (row ? z.a[1] : z.a[0]) + random_int(0, 3);
    s->ldb = (row ? z.b[1] : z.b[0]) + random_int(0, 3);
    s->ldc = (row ? z.c[1] : z.c[0]) + random_int(0, 3);
    return z;
}

static size_t matrix_bytes(enum elem t, bool row, const int64_t side[2], int64_t ld)
{
    return (size_t)((row ? side[0] : side[1]) * ld) * elem_bytes(t);
}

static void fill(enum elem t, void *p, size_t bytes, int reach)
{
    for (int64_t i = 0; i < (int64_t)(bytes / elem_bytes(t)); i++)
        elem_put(t, p, i, (struct value){random_int(-reach, reach), random_int(-reach, reach)});
}

/* A triangle to solve with: ones and twos on the diagonal and few entries beside it, so that
 * nothing is ever rounded. */
static void tame_triangle(enum elem t, void *p, int64_t ld, int64_t order)
{
    for (int64_t j = 0; j < order; j++)
        for (int64_t i = 0; i < order; i++) {
            const int64_t apart = i > j ? i - j : j - i;
            const struct value v = {apart == 0   ? random_int(1, 2)
                                    : apart == 1 ? random_int(-1, 1)
                                                 : 0,
                                    0};
            elem_put(t, p, j * ld + i, v);
        }
}

static struct view general(enum elem t, const void *p, int64_t ld, bool row, char trans)
{
    return (struct view){.t = t, .p = p, .ld = ld, .row = row, .trans = trans};
}

static char conjugate_of(const struct door *d, char trans)
{
    return trans != 'N' ? 'N' : is_hermitian(d->op) ? 'C' : 'T';
}

/* What C(i, j) must be. C before the call is in `old`. */
static struct value expected(const struct door *d, const struct shared *s, const struct item *x,
                             bool row, int64_t i, int64_t j)
{
    const bool complex = elem_complex(d->ab);
    struct view a = general(d->ab, x->a, s->lda, row, s->ta);
    struct view b = general(d->ab, x->b, s->ldb, row, s->tb);
    const struct view old = general(d->c, x->before, s->ldc, row, 'N');
    const struct value was = view_stored(&old, i, j);
    long double size = 0;
    struct value dot, alpha = s->alpha_value;
    switch (d->op) {
    case OP_GEMM:
    case OP_GEMM3M:
    case OP_GEMMT:
        dot = ref_dot(&a, &b, i, j, s->k, &size);
        break;
    case OP_SYMM:
    case OP_HEMM:
        a.trans = b.trans = 'N';
        a.kind = d->op == OP_HEMM ? 'H' : 'S';
        a.uplo = s->uplo;
        dot = s->side == 'L' ? ref_dot(&a, &b, i, j, s->m, &size)
                             : ref_dot(&b, &a, i, j, s->n, &size);
        break;
    case OP_SYRK:
    case OP_HERK:
        b = a;
        b.trans = conjugate_of(d, s->ta);
        dot = ref_dot(&a, &b, i, j, s->k, &size);
        break;
    case OP_SYR2K:
    case OP_HER2K: {
        struct view at = a, bt = b;
        b.trans = a.trans;
        at.trans = bt.trans = conjugate_of(d, s->ta);
        const struct value conj = {alpha.re, d->op == OP_HER2K ? -alpha.im : alpha.im};
        const struct value one = value_mul(alpha, ref_dot(&a, &bt, i, j, s->k, &size), complex);
        const struct value two = value_mul(conj, ref_dot(&b, &at, i, j, s->k, &size), complex);
        dot = value_add(one, two);
        alpha = (struct value){1, 0};
        break;
    }
    case OP_TRSM: { /* made from the solution, see fill_item() */
        const struct view solution = general(d->c, x->b, s->ldc, row, 'N');
        return value_mul(alpha, view_stored(&solution, i, j), complex);
    }
    default:
        a.kind = 'T';
        a.uplo = s->uplo;
        a.diag = s->diag;
        dot = s->side == 'L' ? ref_dot(&a, &old, i, j, s->m, &size)
                             : ref_dot(&old, &a, i, j, s->n, &size);
        break;
    }
    struct value v = ref_blend(alpha, dot, true, s->beta_value, was, complex);
    if (is_hermitian(d->op) && d->op != OP_HEMM && i == j)
        v.im = 0;
    return v;
}

static bool is_written(const struct door *d, const struct shared *s, int64_t i, int64_t j)
{
    const bool triangle = d->op == OP_GEMMT || d->op == OP_SYRK || d->op == OP_HERK ||
                          d->op == OP_SYR2K || d->op == OP_HER2K;
    return !triangle || i == j || (i < j) == (s->uplo == 'U');
}

static void fill_item(const struct door *d, const struct shared *s, const struct sides *z,
                      struct item *x, bool row)
{
    fill(d->ab, x->a, x->a_bytes, 2);
    fill(d->ab, x->b, x->b_bytes, 2);
    fill(d->c, x->c, x->c_bytes, 2);
    if (d->op == OP_TRSM) {
        /* x->b keeps the solution, C becomes op(A) X or X op(A). */
        tame_triangle(d->ab, x->a, s->lda, z->a[0]);
        struct view a = general(d->ab, x->a, s->lda, row, s->ta);
        a.kind = 'T';
        a.uplo = s->uplo;
        a.diag = s->diag;
        const struct view solution = general(d->c, x->b, s->ldc, row, 'N');
        long double size = 0;
        for (int64_t i = 0; i < s->m; i++)
            for (int64_t j = 0; j < s->n; j++)
                elem_put(d->c, x->c, row ? i * s->ldc + j : j * s->ldc + i,
                         s->side == 'L' ? ref_dot(&a, &solution, i, j, s->m, &size)
                                        : ref_dot(&solution, &a, i, j, s->n, &size));
    }
    memcpy(x->before, x->c, x->c_bytes);
}

static int wrong_item(const struct door *d, const struct problem *p, const struct shared *s,
                      const struct item *x)
{
    const int64_t outer = p->row ? s->m : s->n, inner = p->row ? s->n : s->m;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < s->ldc; i++) {
            const int64_t at = o * s->ldc + i, r = p->row ? o : i, c = p->row ? i : o;
            const struct value got = elem_get(d->c, x->c, at);
            const struct value want = i < inner && is_written(d, s, r, c)
                                          ? expected(d, s, x, p->row, r, c)
                                          : elem_get(d->c, x->before, at);
            if (got.re == want.re && got.im == want.im)
                continue;
            printf("%s: %s side=%c uplo=%c ta=%c tb=%c diag=%c m=%d n=%d k=%d lda=%d ldb=%d ldc=%d "
                   "alpha=%g,%g beta=%g,%g lengths=%d: C(%d,%d)%s is %g,%g, not %g,%g\n",
                   d->name, p->row ? "row" : "col", s->side, s->uplo, s->ta, s->tb, s->diag,
                   (int)s->m, (int)s->n, (int)s->k, (int)s->lda, (int)s->ldb, (int)s->ldc,
                   (double)s->alpha_value.re, (double)s->alpha_value.im, (double)s->beta_value.re,
                   (double)s->beta_value.im, p->hidden, (int)r, (int)c,
                   i < inner ? "" : " (padding)", (double)got.re, (double)got.im, (double)want.re,
                   (double)want.im);
            return 1;
        }
    return 0;
}

static int try_door(const struct door *d)
{
    struct problem p = {.row = d->style == CBLAS && random_int(0, 1), .hidden = random_int(0, 1)};
    struct sides z[GROUPS];
    const int items = d->shape == BATCH || d->shape == STRIDED ? ITEMS : 1;
    for (int g = 0; g < GROUPS; g++)
        z[g] = choose_shared(d, &p.of[g], p.row);
    /* Strided items lie in one block each for A, B and C; all others have blocks of their own. */
    for (int i = 0; i < items; i++) {
        const int g = d->shape == BATCH && i == ITEMS - 1;
        const struct shared *const s = &p.of[g];
        struct item *const x = &p.item[i];
        x->a_bytes = matrix_bytes(d->ab, p.row, z[g].a, s->lda);
        x->b_bytes = matrix_bytes(d->ab, p.row, z[g].b, s->ldb);
        x->c_bytes = matrix_bytes(d->c, p.row, z[g].c, s->ldc);
        if (d->op == OP_TRSM)
            x->b_bytes = x->c_bytes;
        if (d->shape != STRIDED || i == 0) {
            const size_t many = d->shape == STRIDED ? ITEMS : 1;
            x->a = malloc(many * (x->a_bytes + 64));
            x->b = malloc(many * (x->b_bytes + 64));
            x->c = malloc(many * (x->c_bytes + 64));
            p.stride_a = (int64_t)(x->a_bytes / elem_bytes(d->ab)) + 1;
            p.stride_b = (int64_t)(x->b_bytes / elem_bytes(d->ab)) + 2;
            p.stride_c = (int64_t)(x->c_bytes / elem_bytes(d->c)) + 3;
        } else {
            x->a = (char *)p.item[0].a + i * p.stride_a * (int64_t)elem_bytes(d->ab);
            x->b = (char *)p.item[0].b + i * p.stride_b * (int64_t)elem_bytes(d->ab);
            x->c = (char *)p.item[0].c + i * p.stride_c * (int64_t)elem_bytes(d->c);
        }
        x->before = malloc(x->c_bytes);
        fill_item(d, s, &z[g], x, p.row);
    }
    call(d, &p);
    int wrong = 0;
    for (int i = 0; i < items && !wrong; i++)
        wrong = wrong_item(d, &p, &p.of[d->shape == BATCH && i == ITEMS - 1], &p.item[i]);
    for (int i = 0; i < items; i++) {
        free(p.item[i].before);
        if (d->shape != STRIDED || i == 0) {
            free(p.item[i].a);
            free(p.item[i].b);
            free(p.item[i].c);
        }
    }
    return wrong;
}

int main(int argc, char **argv)
{
    const int trials = argc > 2 ? atoi(argv[2]) : 12;
    largest = argc > 1 ? atoi(argv[1]) : 6;
    int wrong = 0;
    const int count = (int)(sizeof doors / sizeof doors[0]);
    for (int i = 0; i < count; i++)
        for (int t = 0; t < trials; t++) {
            random_state = 1 + (uint64_t)i * 1000003 + (uint64_t)t * 97;
            for (int w = 0; w < 8; w++)
                random_bits();
            if (try_door(&doors[i])) {
                wrong++;
                break;
            }
        }
    printf("%d doors, %d trials each, %d wrong\n", count, trials, wrong);
    return wrong != 0;
}
