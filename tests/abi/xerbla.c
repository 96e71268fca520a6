/* SPDX-License-Identifier: BSD-3-Clause
 * Bad arguments, one at a time, for every routine of the table in its Fortran and CBLAS form.
 * Prints what xerbla says, through whose hands it went and whether C was touched. Arguments: which
 * xerbla (theirs, own, jump), which names (standard: those every CPU BLAS has; lacking: those it
 * has not, whose numbers are known here and checked). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum shape { GEMM, SYMM, SYRK, SYR2K, TRMM, GEMMT, BATCH, STRIDED };
enum style { FORTRAN, CBLAS };
/* How scalars travel in the CBLAS form. */
enum scalar { SINGLE, DOUBLE, POINTER, BITS, POINTER_SINGLE, POINTER_DOUBLE };
#define KIND_S   SINGLE
#define KIND_D   DOUBLE
#define KIND_C   POINTER
#define KIND_Z   POINTER
#define KIND_CS  SINGLE
#define KIND_ZD  DOUBLE
#define KIND_CR  POINTER_SINGLE
#define KIND_ZR  POINTER_DOUBLE
#define KIND_HHH BITS
#define KIND_BBB BITS
#define KIND_HS  SINGLE
#define KIND_BS  SINGLE

static const struct door {
    const char *routine, *name;
    enum shape shape;
    enum style style;
    enum scalar scalar;
    bool wide;
} doors[] = {
#define DOOR(SHAPE, OP, NAME, TYPES, SPELLED, I, STYLE)                                            \
    {#NAME, #SPELLED, SHAPE, STYLE, KIND_##TYPES, sizeof(I) == 8},
#include "doors.def"
#undef DOOR
};

/* --- the program's own xerbla
 * ------------------------------------------------------------------------ */

static enum { THEIRS, OWN, JUMP } mode;
static jmp_buf back;
static int reports, last_info;
static char last_name[32];

#ifdef WITH_XERBLA
static void note(const char *name, const int *info, size_t length)
{
    reports++;
    last_info = *info;
    snprintf(last_name, sizeof last_name, "%.*s", (int)(length < 24 ? length : 24), name);
}

void xerbla_(const char *name, const int *info, size_t length);
void xerbla_(const char *name, const int *info, size_t length)
{
    note(name, info, length);
    if (mode == JUMP)
        longjmp(back, 1);
}
#endif

/* --- calls: argument number `bad` is the wrong one
 * -------------------------------------------------- */

typedef const void *P;
static double a[64], b[64], c[64], untouched[64];

struct arguments {
    int order, flag[4]; /* CBLAS numbers; in order of the list */
    int64_t size[3];    /* m n k, or n k, or m n */
    int64_t lda, ldb, ldc, count;
};

static int flags_of(enum shape s)
{
    return s == TRMM ? 4 : s == GEMMT ? 3 : 2;
}
static int sizes_of(enum shape s)
{
    return s == GEMM || s == BATCH || s == STRIDED ? 3 : 2;
}
static char letter_of(int flag)
{
    switch (flag) {
    case 111:
    case 131:
        return 'N';
    case 112:
        return 'T';
    case 121:
        return 'U';
    case 122:
    case 141:
        return 'L';
    default:
        return 'X';
    }
}

#define CALLER(I)                                                                                  \
    static void call_##I(const struct door *d, void *fn, const struct arguments *x)                \
    {                                                                                              \
        const double one[2] = {1, 0};                                                              \
        const float ones[2] = {1, 0};                                                              \
        const bool single = d->scalar == SINGLE || d->scalar == POINTER_SINGLE ||                  \
                            (d->scalar == POINTER && d->routine[0] == 'c');                        \
        P al = single ? (P)ones : (P)one, be = al;                                                 \
        const I s0 = (I)x->size[0], s1 = (I)x->size[1], s2 = (I)x->size[2], lda = (I)x->lda,       \
                ldb = (I)x->ldb, ldc = (I)x->ldc, count = (I)x->count, stride = 16;                \
        const int *const f = x->flag;                                                              \
        const char l[4] = {letter_of(f[0]), letter_of(f[1]), letter_of(f[2]), letter_of(f[3])};    \
        P as[1] = {a}, bs[1] = {b};                                                                \
        void *cs[1] = {c};                                                                         \
        const I size = 1;                                                                          \
        if (d->style == FORTRAN)                                                                   \
            switch (d->shape) {                                                                    \
            case GEMM:                                                                             \
                ((void (*)(P, P, P, P, P, P, P, P, P, P, P, P, P, size_t, size_t))fn)(             \
                    l, l + 1, &s0, &s1, &s2, al, a, &lda, b, &ldb, be, c, &ldc, 1, 1);             \
                break;                                                                             \
            case SYMM:                                                                             \
            case SYR2K:                                                                            \
                ((void (*)(P, P, P, P, P, P, P, P, P, P, P, P, size_t, size_t))fn)(                \
                    l, l + 1, &s0, &s1, al, a, &lda, b, &ldb, be, c, &ldc, 1, 1);                  \
                break;                                                                             \
            case SYRK:                                                                             \
                ((void (*)(P, P, P, P, P, P, P, P, P, P, size_t, size_t))fn)(                      \
                    l, l + 1, &s0, &s1, al, a, &lda, be, c, &ldc, 1, 1);                           \
                break;                                                                             \
            case TRMM:                                                                             \
                ((void (*)(P, P, P, P, P, P, P, P, P, P, P, size_t, size_t, size_t, size_t))fn)(   \
                    l, l + 1, l + 2, l + 3, &s0, &s1, al, a, &lda, c, &ldc, 1, 1, 1, 1);           \
                break;                                                                             \
            case GEMMT:                                                                            \
                ((void (*)(P, P, P, P, P, P, P, P, P, P, P, P, P, size_t, size_t, size_t))fn)(     \
                    l, l + 1, l + 2, &s0, &s1, al, a, &lda, b, &ldb, be, c, &ldc, 1, 1, 1);        \
                break;                                                                             \
            case STRIDED:                                                                          \
                ((void (*)(P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, size_t, size_t))fn)( \
                    l, l + 1, &s0, &s1, &s2, al, a, &lda, &stride, b, &ldb, &stride, be, c, &ldc,  \
                    &stride, &count, 1, 1);                                                        \
                break;                                                                             \
            case BATCH:                                                                            \
                ((void (*)(P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, size_t, size_t))fn)(       \
                    l, l + 1, &s0, &s1, &s2, al, as, &lda, bs, &ldb, be, cs, &ldc, &count, &size,  \
                    1, 1);                                                                         \
                break;                                                                             \
            }                                                                                      \
        else                                                                                       \
            switch (d->scalar) {                                                                   \
            case SINGLE:                                                                           \
                LISTS(I, float, float, 1, 1);                                                      \
                break;                                                                             \
            case DOUBLE:                                                                           \
                LISTS(I, double, double, 1, 1);                                                    \
                break;                                                                             \
            case POINTER:                                                                          \
                LISTS(I, P, P, al, be);                                                            \
                break;                                                                             \
            case BITS:                                                                             \
                LISTS(I, uint16_t, uint16_t, 0x3c00, 0x3c00);                                      \
                break;                                                                             \
            case POINTER_SINGLE:                                                                   \
                LISTS(I, P, float, al, 1);                                                         \
                break;                                                                             \
            case POINTER_DOUBLE:                                                                   \
                LISTS(I, P, double, al, 1);                                                        \
                break;                                                                             \
            }                                                                                      \
    }
#define LISTS(I, AT, BT, AV, BV)                                                                   \
    switch (d->shape) {                                                                            \
    case GEMM:                                                                                     \
        ((void (*)(int, int, int, I, I, I, AT, P, I, P, I, BT, P, I))fn)(                          \
            x->order, f[0], f[1], s0, s1, s2, AV, a, lda, b, ldb, BV, c, ldc);                     \
        break;                                                                                     \
    case SYMM:                                                                                     \
    case SYR2K:                                                                                    \
        ((void (*)(int, int, int, I, I, AT, P, I, P, I, BT, P, I))fn)(                             \
            x->order, f[0], f[1], s0, s1, AV, a, lda, b, ldb, BV, c, ldc);                         \
        break;                                                                                     \
    case SYRK:                                                                                     \
        ((void (*)(int, int, int, I, I, AT, P, I, BT, P, I))fn)(x->order, f[0], f[1], s0, s1, AV,  \
                                                                a, lda, BV, c, ldc);               \
        break;                                                                                     \
    case TRMM:                                                                                     \
        ((void (*)(int, int, int, int, int, I, I, AT, P, I, P, I))fn)(                             \
            x->order, f[0], f[1], f[2], f[3], s0, s1, AV, a, lda, c, ldc);                         \
        break;                                                                                     \
    case GEMMT:                                                                                    \
        ((void (*)(int, int, int, int, I, I, AT, P, I, P, I, BT, P, I))fn)(                        \
            x->order, f[0], f[1], f[2], s0, s1, AV, a, lda, b, ldb, BV, c, ldc);                   \
        break;                                                                                     \
    case STRIDED:                                                                                  \
        ((void (*)(int, int, int, I, I, I, AT, P, I, I, P, I, I, BT, P, I, I, I))fn)(              \
            x->order, f[0], f[1], s0, s1, s2, AV, a, lda, stride, b, ldb, stride, BV, c, ldc,      \
            stride, count);                                                                        \
        break;                                                                                     \
    case BATCH:                                                                                    \
        ((void (*)(int, P, P, P, P, P, P, P, P, P, P, P, P, P, I, P))fn)(                          \
            x->order, &f[0], &f[1], &s0, &s1, &s2, al, as, &lda, bs, &ldb, be, cs, &ldc, count,    \
            &size);                                                                                \
        break;                                                                                     \
    }
CALLER(int32_t)
CALLER(int64_t)

/* --- the cases
 * ------------------------------------------------------------------------------------- */

/* What can be wrong: the order, each flag, each size, each leading dimension, the count. */
enum {
    BAD_ORDER,
    BAD_FLAG,
    BAD_SIZE = BAD_FLAG + 4,
    BAD_LDA = BAD_SIZE + 3,
    BAD_LDB,
    BAD_LDC,
    BAD_COUNT,
    BADS
};

static bool applies(const struct door *d, int bad)
{
    if (bad == BAD_ORDER)
        return d->style == CBLAS;
    if (bad < BAD_SIZE)
        return bad - BAD_FLAG < flags_of(d->shape);
    if (bad < BAD_LDA)
        return bad - BAD_SIZE < sizes_of(d->shape);
    if (bad == BAD_LDB)
        return d->shape != SYRK && d->shape != TRMM;
    return bad != BAD_COUNT || d->shape == STRIDED || d->shape == BATCH;
}

static struct arguments wrong(const struct door *d, int order, int bad)
{
    struct arguments x = {
        .order = order, .size = {3, 3, 3}, .lda = 3, .ldb = 3, .ldc = 3, .count = 1};
    static const int good[][4] = {
        [GEMM] = {111, 111, 0, 0},     [BATCH] = {111, 111, 0, 0},  [STRIDED] = {111, 111, 0, 0},
        [SYMM] = {141, 121, 0, 0},     [SYRK] = {121, 111, 0, 0},   [SYR2K] = {121, 111, 0, 0},
        [TRMM] = {141, 121, 111, 131}, [GEMMT] = {121, 111, 111, 0}};
    memcpy(x.flag, good[d->shape], sizeof x.flag);
    if (bad == BAD_ORDER)
        x.order = 100;
    else if (bad < BAD_SIZE)
        x.flag[bad - BAD_FLAG] = 'X' + 1000;
    else if (bad < BAD_LDA)
        x.size[bad - BAD_SIZE] = -1;
    else if (bad == BAD_LDA)
        x.lda = 2;
    else if (bad == BAD_LDB)
        x.ldb = 2;
    else if (bad == BAD_LDC)
        x.ldc = 2;
    else
        x.count = -1;
    return x;
}

/* The numbers of the Fortran lists: first size, lda, ldb, ldc, count. */
static const struct {
    int size, lda, ldb, ldc, count;
} numbers[] = {
    [GEMM] = {3, 8, 10, 13, 0},     [SYMM] = {3, 7, 9, 12, 0},   [SYRK] = {3, 7, 0, 10, 0},
    [SYR2K] = {3, 7, 9, 12, 0},     [TRMM] = {5, 9, 0, 11, 0},   [GEMMT] = {4, 8, 10, 13, 0},
    [STRIDED] = {3, 8, 11, 15, 17}, [BATCH] = {3, 8, 10, 13, 14}};

/* The number of the Fortran form, for names of ours. Row-major swaps A with B, and m with n. */
static int number(const struct door *d, int order, int bad)
{
    const bool row = d->style == CBLAS && order == 101;
    const bool products = d->shape == GEMM || d->shape == STRIDED || d->shape == BATCH;
    const bool rectangle = products || d->shape == SYMM || d->shape == TRMM;
    const bool triangle = d->shape == GEMMT;
    if (bad == BAD_ORDER)
        return 0;
    if (bad < BAD_SIZE) {
        const int flag = bad - BAD_FLAG;
        if (row && products)
            return 2 - flag;
        return row && triangle && flag > 0 ? 4 - flag : flag + 1;
    }
    if (bad < BAD_LDA) {
        const int size = bad - BAD_SIZE;
        return numbers[d->shape].size + (row && rectangle && size < 2 ? 1 - size : size);
    }
    const bool swapped = row && (products || triangle);
    switch (bad) {
    case BAD_LDA:
        return swapped ? numbers[d->shape].ldb : numbers[d->shape].lda;
    case BAD_LDB:
        return swapped ? numbers[d->shape].lda : numbers[d->shape].ldb;
    case BAD_LDC:
        return numbers[d->shape].ldc;
    default:
        return numbers[d->shape].count;
    }
}

static void upper(const char *name, char *out)
{
    int i = 0;
    for (; name[i] != '\0'; i++)
        out[i] = (char)(name[i] >= 'a' && name[i] <= 'z' ? name[i] - 32 : name[i]);
    out[i] = '\0';
}

static int failures;

/* "SBGEMM " and the like: the routine in capitals, then nothing but blanks (or the NUL of a C
 * string). */
static void check_lacking(const struct door *d, int order, int bad)
{
    char want[32];
    upper(d->routine, want);
    const size_t length = strlen(want);
    bool same = strncmp(last_name, want, length) == 0;
    for (size_t i = length; same && last_name[i] != '\0'; i++)
        same = last_name[i] == ' ';
    if (reports == 1 && same && last_info == number(d, order, bad))
        return;
    printf("%s order=%d bad=%d: %d reports, last '%s' %d; '%s' %d wanted\n", d->name, order, bad,
           reports, last_name, last_info, want, number(d, order, bad));
    failures++;
}

static void try_one(const struct door *d, void *fn, int order, int bad, bool lacking)
{
    const struct arguments x = wrong(d, order, bad);
    reports = 0;
    last_info = -99;
    last_name[0] = '\0';
    if (!lacking)
        printf("%s order=%d bad=%d:\n", d->name, order, bad);
    fflush(stdout);
    if (setjmp(back) == 0) {
        if (d->wide)
            call_int64_t(d, fn, &x);
        else
            call_int32_t(d, fn, &x);
    }
    if (memcmp(c, untouched, sizeof c) != 0) {
        printf("%s order=%d bad=%d: C was touched\n", d->name, order, bad);
        memcpy(c, untouched, sizeof c);
        failures++;
    }
    if (mode == THEIRS)
        return;
    if (lacking)
        check_lacking(d, order, bad);
    else
        printf("  %d reports, '%s' %d\n", reports, last_name, last_info);
}

static bool is_plain(const struct door *d)
{
    char name[64];
    snprintf(name, sizeof name, "%s_", d->routine);
    if (strcmp(name, d->name) == 0)
        return true;
    snprintf(name, sizeof name, "cblas_%s", d->routine);
    return strcmp(name, d->name) == 0;
}

/* After all those jumps out of a door calls still go the full way. */
static int still_works(void)
{
    void (*gemm)(P, P, P, P, P, P, P, P, P, P, P, P, P);
    *(void **)&gemm = dlsym(RTLD_DEFAULT, "dgemm_");
    const int n = 170;
    const double one = 1, zero = 0;
    double *const x = calloc((size_t)n * n, sizeof *x), *const y = calloc((size_t)n * n, sizeof *y);
    x[0] = 3;
    gemm("N", "N", &n, &n, &n, &one, x, &n, x, &n, &zero, y, &n);
    const int bad = y[0] != 9 || y[1] != 0;
    free(x);
    free(y);
    return bad;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    mode = strcmp(argv[1], "own") == 0 ? OWN : strcmp(argv[1], "jump") == 0 ? JUMP : THEIRS;
    const bool lacking = strcmp(argv[2], "lacking") == 0;
    for (int i = 0; i < 64; i++)
        untouched[i] = c[i] = i;
    int tried = 0;
    for (size_t i = 0; i < sizeof doors / sizeof doors[0]; i++) {
        const struct door *const d = &doors[i];
        void *const fn = dlsym(RTLD_DEFAULT, d->name);
        void *const openblas = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
        const bool theirs = openblas != NULL && dlsym(openblas, d->name) != NULL;
        if (fn == NULL || theirs == lacking || (!lacking && !is_plain(d)))
            continue;
        /* Bare names act only over oneMKL under a preload. */
        if (strcmp(d->name, d->routine) == 0 ||
            (strncmp(d->name, d->routine, strlen(d->routine)) == 0 &&
             strcmp(d->name + strlen(d->routine), "_64") == 0))
            continue;
        tried++;
        for (int bad = 0; bad < BADS; bad++) {
            if (!applies(d, bad))
                continue;
            try_one(d, fn, 102, bad, lacking);
            if (d->style == CBLAS && bad != BAD_ORDER)
                try_one(d, fn, 101, bad, lacking);
        }
    }
    mode = OWN;
    failures += still_works();
    fprintf(stderr, "%d names, %d failures\n", tried, failures);
    return failures != 0 || tried == 0;
}
