/* SPDX-License-Identifier: BSD-3-Clause
 * The check of a result by itself: thousands of results as a CPU BLAS computes them, of all
 * routines, are never refused, whatever the data, and one wrong entry of the stated size is always
 * found. With the argument "time" it tells what a check costs. */
#include "../../fallback/fallback.h"
#include "../../src/verify.h"
#include "dev_sim.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIDE = 96, KINDS = 9, CALLS = 10000 };

static const struct tb_cpu none;
static uint64_t state = 1;

static const struct {
    enum tb_type ab, c;
    double unit, unit_c, least; /* roundoff of the sums, of C; the smallest number */
} pairs[] = {
    {TB_F32, TB_F32, 0x1p-24, 0x1p-24, 0x1p-149},  {TB_F64, TB_F64, 0x1p-53, 0x1p-53, 0x1p-1074},
    {TB_C32, TB_C32, 0x1p-24, 0x1p-24, 0x1p-149},  {TB_C64, TB_C64, 0x1p-53, 0x1p-53, 0x1p-1074},
    {TB_F16, TB_F16, 0x1p-21, 0x1p-11, 0x1p-24},   {TB_F16, TB_F32, 0x1p-21, 0x1p-24, 0x1p-24},
    {TB_BF16, TB_BF16, 0x1p-21, 0x1p-8, 0x1p-133}, {TB_BF16, TB_F32, 0x1p-21, 0x1p-24, 0x1p-133}};

static unsigned random_below(unsigned n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % n;
}

static double uniform(void)
{
    return random_below(1u << 30) * 0x1p-30;
}

/* Kinds of data that are hard on a tolerance. */
static double value(unsigned kind, int64_t row, int64_t col, enum tb_type type)
{
    const bool half = type == TB_F16, wide = type == TB_F64 || type == TB_C64;
    switch (kind) {
    case 0:
        return 2 * uniform() - 1;
    case 1:
        return uniform(); /* no cancellation */
    case 2:               /* from entry to entry */
        return (2 * uniform() - 1) * ldexp(1, (int)random_below(half ? 8 : 40) - (half ? 4 : 20));
    case 3: /* row by row and column by column */
        return (2 * uniform() - 1) *
               ldexp(1, (int)((row * 7 + col * 3) % (half ? 9 : 61)) - (half ? 4 : 30));
    case 4: /* hardly numbers any more */
        return uniform() * (half ? 1e-6 : wide ? 1e-310 : type == TB_BF16 ? 1e-38 : 1e-40);
    case 5: /* sums that do not fit */
        return (2 * uniform() - 1) * (half ? 6e4 : wide ? 1e200 : 1e25);
    case 6:
        return random_below(200) == 0 ? (random_below(2) ? (double)INFINITY : (double)NAN)
                                      : uniform();
    case 7:
        return (row + col) % 2 ? 1 : -1; /* partial sums of 0 */
    default:
        return random_below(100) == 0; /* mostly nothing */
    }
}

static double fetch(enum tb_type type, const void *at, int64_t i)
{
    return type == TB_F16                     ? (double)sim_half_to_float(((const uint16_t *)at)[i])
           : type == TB_BF16                  ? (double)sim_bf16_to_float(((const uint16_t *)at)[i])
           : type == TB_F32 || type == TB_C32 ? (double)((const float *)at)[i]
                                              : ((const double *)at)[i];
}

static void store(enum tb_type type, void *at, int64_t i, double x)
{
    if (type == TB_F16)
        ((uint16_t *)at)[i] = sim_float_to_half((float)x);
    else if (type == TB_BF16)
        ((uint16_t *)at)[i] = sim_float_to_bf16((float)x);
    else if (type == TB_F32 || type == TB_C32)
        ((float *)at)[i] = (float)x;
    else
        ((double *)at)[i] = x;
}

static void fill(enum tb_type type, void *at, int64_t rows, int64_t cols, int64_t ld, unsigned kind)
{
    const int parts = call_is_complex(type) ? 2 : 1;
    for (int64_t j = 0; j < cols; j++)
        for (int64_t i = 0; i < rows * parts; i++)
            store(type, at, j * ld * parts + i, value(kind, i / parts, j, type));
}

static double a[2 * SIDE * SIDE], b[2 * SIDE * SIDE], c[2 * SIDE * SIDE], old[2 * SIDE * SIDE];

struct trial {
    unsigned pair, kind_a, kind_b;
    struct tb_call call;
};

static struct trial trial_of_product(bool tame)
{
    struct trial t = {.pair = random_below(8)};
    const enum tb_type ab = pairs[t.pair].ab, c_type = pairs[t.pair].c;
    const enum tb_type scalar = ab == TB_F16 || ab == TB_BF16 ? TB_F32 : ab;
    const char ta = "NTC"[random_below(3)], tb = "NTC"[random_below(3)];
    const unsigned most = random_below(8) ? 24 : SIDE;
    const int64_t m = 1 + random_below(most), n = 1 + random_below(most),
                  k = 1 + random_below(most);
    t.kind_a = random_below(tame ? 2 : KINDS);
    t.kind_b = random_below(tame ? 2 : KINDS);
    t.call =
        (struct tb_call){.name = "test",
                         .cpu = &none,
                         .op = call_is_complex(ab) && random_below(4) == 0 ? TB_GEMM3M : TB_GEMM,
                         .form = TB_ONE,
                         .ab = ab,
                         .c_type = c_type,
                         .alpha_type = scalar,
                         .beta_type = scalar,
                         .ta = ta,
                         .tb = tb,
                         .m = m,
                         .n = n,
                         .k = k,
                         .a = a,
                         .b = b,
                         .c = c,
                         .lda = ta == 'N' ? m : k,
                         .ldb = tb == 'N' ? k : n,
                         .ldc = m,
                         .batch = 1};
    const double beta = random_below(3) == 0 ? 0 : random_below(2) ? 1 : 2 * uniform() - 1;
    const bool imaginary = call_is_complex(scalar) && beta != 0;
    store(scalar, &t.call.alpha, 0, random_below(2) ? 1 : 3 * uniform() - 1.5);
    if (call_is_complex(scalar))
        store(scalar, &t.call.alpha, 1, uniform());
    store(scalar, &t.call.beta, 0, beta);
    if (imaginary)
        store(scalar, &t.call.beta, 1, random_below(2) ? 0 : uniform());
    fill(ab, a, ta == 'N' ? m : k, ta == 'N' ? k : m, t.call.lda, t.kind_a);
    fill(ab, b, tb == 'N' ? k : n, tb == 'N' ? n : k, t.call.ldb, t.kind_b);
    fill(c_type, c, m, n, m, random_below(tame ? 2 : KINDS));
    memcpy(old, c, sizeof old);
    if (!fallback_call(&t.call))
        exit(77);
    return t;
}

/* --- The other routines --- */

static bool is_square(enum tb_op op)
{
    return op == TB_SYMM || op == TB_HEMM || op == TB_TRMM || op == TB_TRSM;
}

/* What a routine must not look at is NaN: the other triangle, a diagonal that is one or real. */
static void spoil(const struct tb_call *call, void *x, int64_t order, int64_t ld)
{
    const int parts = call_is_complex(call->ab) ? 2 : 1;
    const bool real = call->op == TB_HEMM || call->op == TB_HERK || call->op == TB_HER2K;
    for (int64_t j = 0; j < order; j++)
        for (int64_t i = 0; i < order; i++)
            for (int p = 0; p < parts; p++)
                if ((call->uplo == 'L' ? i < j : i > j) ||
                    (i == j && ((is_square(call->op) && call->diag == 'U') || (real && p == 1))))
                    store(call->ab, x, (i + j * ld) * parts + p, (double)NAN);
}

/* trsm: tame, or something that grows, or that cannot be solved at all. */
static void diagonal(const struct trial *t, bool tame)
{
    const struct tb_call *call = &t->call;
    const int64_t order = call->lda;
    const int parts = call_is_complex(call->ab) ? 2 : 1;
    for (int64_t i = 0; tame && i < order * order * parts; i++)
        store(call->ab, a, i, fetch(call->ab, a, i) / (4 * (double)order));
    for (int64_t i = 0; i < order; i++)
        if (tame || random_below(50))
            store(call->ab, a, (i + i * order) * parts,
                  tame || random_below(2) ? 1 + uniform() : uniform() / 4);
}

static struct trial trial(bool tame)
{
    static const enum tb_op ops[] = {TB_GEMMT, TB_SYMM,  TB_HEMM, TB_SYRK, TB_HERK,
                                     TB_SYR2K, TB_HER2K, TB_TRMM, TB_TRSM};
    if (random_below(3) == 0)
        return trial_of_product(tame);
    struct trial t = {.pair = random_below(4)};
    const enum tb_op op = ops[random_below(9)];
    const bool hermitian = op == TB_HEMM || op == TB_HERK || op == TB_HER2K;
    if (hermitian)
        t.pair = 2 + t.pair % 2;
    const enum tb_type type = pairs[t.pair].ab;
    const enum tb_type real = type == TB_C32 ? TB_F32 : type == TB_C64 ? TB_F64 : type;
    const bool complex = call_is_complex(type), square = is_square(op);
    const unsigned most = random_below(8) ? 24 : SIDE;
    const int64_t n = 1 + random_below(most), m = square ? 1 + random_below(most) : n,
                  k = 1 + random_below(most);
    struct tb_call *call = &t.call;
    t.kind_a = random_below(tame ? 2 : KINDS);
    t.kind_b = random_below(tame ? 2 : KINDS);
    *call = (struct tb_call){.name = "test",
                             .cpu = &none,
                             .op = op,
                             .form = TB_ONE,
                             .ab = type,
                             .c_type = type,
                             .alpha_type = op == TB_HERK ? real : type,
                             .beta_type = op == TB_HERK || op == TB_HER2K ? real : type,
                             .side = square ? "LR"[random_below(2)] : 0,
                             .uplo = "LU"[random_below(2)],
                             .diag = op == TB_TRMM || op == TB_TRSM ? "NU"[random_below(2)] : 0,
                             .ta = "NTC"[random_below(3)],
                             .tb = "NTC"[random_below(3)],
                             .m = m,
                             .n = n,
                             .k = square ? 0 : k,
                             .a = a,
                             .b = call_has_b(call) ? b : NULL,
                             .c = c,
                             .ldc = m,
                             .batch = 1};
    if (op == TB_HERK || op == TB_HER2K)
        call->ta = "NC"[random_below(2)];
    else if (op == TB_SYRK || op == TB_SYR2K)
        call->ta = "NT"[random_below(2)];
    int64_t rows, cols;
    if (op == TB_SYMM || op == TB_HEMM)
        call->ta = 'N';
    call_stored_a(call, &rows, &cols);
    call->lda = rows;
    fill(type, a, rows, cols, rows, t.kind_a);
    if (op == TB_TRSM)
        diagonal(&t, tame);
    if (square)
        spoil(call, a, rows, rows);
    if (op == TB_SYMM || op == TB_HEMM)
        call->tb = 'N';
    call->b = op == TB_SYRK || op == TB_HERK || op == TB_TRMM || op == TB_TRSM ? NULL : b;
    call_stored_b(call, &rows, &cols);
    call->ldb = rows;
    fill(type, b, rows, cols, rows, t.kind_b);
    fill(type, c, m, n, m, random_below(tame ? 2 : KINDS));
    if (!square)
        spoil(call, c, n, n);
    const double beta = random_below(3) == 0 ? 0 : random_below(2) ? 1 : 2 * uniform() - 1;
    store(call->alpha_type, &call->alpha, 0, random_below(2) ? 1 : 3 * uniform() - 1.5);
    if (complex && op != TB_HERK && random_below(2))
        store(type, &call->alpha, 1, uniform());
    store(call->beta_type, &call->beta, 0, beta);
    memcpy(old, c, sizeof old);
    if (!fallback_call(call))
        exit(77);
    return t;
}

static int right(void)
{
    int refused = 0;
    for (int i = 0; i < CALLS; i++) {
        const struct trial t = trial(false);
        if (verify_result(&t.call, old, false, (uint64_t)i))
            continue;
        refused++;
        fprintf(stderr,
                "refused, call %d: %s types %d %d, %c%c%c %c%c, %lld x %lld x %lld, data %u %u, "
                "beta %g\n",
                i, call_op_name(t.call.op), t.call.ab, t.call.c_type,
                t.call.side ? t.call.side : '-', t.call.uplo ? t.call.uplo : '-',
                t.call.diag ? t.call.diag : '-', t.call.ta, t.call.tb, (long long)t.call.m,
                (long long)t.call.n, (long long)t.call.k, t.kind_a, t.kind_b,
                fetch(t.call.beta_type, &t.call.beta, 0));
    }
    fprintf(stderr, "%d of %d right results refused\n", refused, CALLS);
    return refused != 0;
}

/* The square of the size of entry (i, l) of op(X); of a triangle what counts, or all that it stands
 * for. */
static double square(const struct tb_call *call, const void *x, char trans, char part, bool mirror,
                     int64_t ld, int64_t i, int64_t l)
{
    const int parts = call_is_complex(call->ab) ? 2 : 1;
    int64_t r = trans == 'N' ? i : l, q = trans == 'N' ? l : i;
    if (part && (part == 'L' ? r < q : r > q)) {
        const int64_t kept = r;
        r = q;
        q = kept;
        if (!mirror)
            return 0;
    }
    if (part && !mirror && call->diag == 'U' && r == q)
        return 1;
    double sum = 0;
    for (int p = 0; p < parts; p++) {
        const double number = fetch(call->ab, x, (r + q * ld) * parts + p);
        sum += isnan(number) ? 0 : number * number; /* what does not count */
    }
    return sum;
}

/* A factor of the products behind C. */
struct factor {
    const void *at;
    char trans, part;
    bool mirror;
    int64_t ld;
};

/* The two factors, and how deep the sums are. */
static int64_t factors_of(const struct trial *t, struct factor f[2])
{
    const struct tb_call *call = &t->call;
    struct tb_call p = *call;
    call_as_product(&p);
    f[0] = (struct factor){p.a, p.ta, 0, false, p.lda};
    f[1] = (struct factor){p.b, p.tb, 0, false, p.ldb};
    if (!is_square(call->op))
        return call->k;
    const bool mirror = call->op == TB_SYMM || call->op == TB_HEMM;
    const void *other = mirror ? call->b : call->op == TB_TRMM ? (const void *)old : call->c;
    f[0] = (struct factor){call->a, mirror ? 'N' : call->ta, call->uplo, mirror, call->lda};
    f[1] = (struct factor){other, 'N', 0, false, mirror ? call->ldb : call->m};
    if (call->side == 'R') {
        const struct factor kept = f[0];
        f[0] = f[1];
        f[1] = kept;
    }
    return call->side == 'L' ? call->m : call->n;
}

static double size_of(enum tb_type type, const void *at, int64_t i)
{
    return call_is_complex(type) ? hypot(fetch(type, at, 2 * i), fetch(type, at, 2 * i + 1))
                                 : fabs(fetch(type, at, i));
}

/* The size that is promised to be found in row i: 24 times what rounding may do to an entry of the
 * largest column there could be. */
static double promised(const struct trial *t, int64_t i)
{
    const struct tb_call *const call = &t->call;
    const bool wide = call->ab == TB_F64 || call->ab == TB_C64;
    const bool mirror = call_is_triangular(call) && call->op != TB_GEMMT;
    const char part = call_is_triangular(call) ? call->uplo : 0;
    struct factor f[2];
    const int64_t depth = factors_of(t, f);
    double row = 0, all = 0, before = 0, after = 0;
    for (int64_t l = 0; l < depth; l++)
        row += square(call, f[0].at, f[0].trans, f[0].part, f[0].mirror, f[0].ld, i, l);
    for (int64_t l = 0; l < depth; l++)
        for (int64_t j = 0; j < call->n; j++)
            all += square(call, f[1].at, f[1].trans, f[1].part, f[1].mirror, f[1].ld, l, j);
    double products = sqrt(row * all);
    if (call_is_rank_2k(call)) { /* the other one: no larger than with all of A */
        double row_b = 0, all_a = 0;
        for (int64_t l = 0; l < depth; l++)
            row_b += square(call, b, call->ta, 0, false, call->ldb, i, l);
        for (int64_t l = 0; l < depth; l++)
            for (int64_t j = 0; j < call->n; j++)
                all_a += square(call, a, call->ta, 0, false, call->lda, j, l);
        products += sqrt(row_b * all_a);
    }
    const struct tb_call as_c = {.ab = call->c_type};
    for (int64_t j = 0; j < call->n; j++) {
        before += square(&as_c, old, 'N', part, mirror, call->m, i, j);
        after += square(&as_c, c, 'N', part, mirror, call->m, i, j);
    }
    const double n = (double)call->n, k = (double)depth;
    const double chain = 8 + sqrt(k) + (wide ? 2 * (sqrt(n) + sqrt(k)) : 0);
    const double beta = size_of(call->beta_type, &call->beta, 0),
                 alpha = size_of(call->alpha_type, &call->alpha, 0);
    const double sums = call->op == TB_TRSM   ? products + alpha * sqrt(before)
                        : call->op == TB_TRMM ? alpha * products
                                              : alpha * products + beta * sqrt(before);
    return 24 * (2 * chain * pairs[t->pair].unit * sums + pairs[t->pair].unit_c * sqrt(after) +
                 4 * sqrt(n) * (2 + k) * pairs[t->pair].least);
}

static int wrong(void)
{
    int passed = 0, planted = 0;
    for (int x = 0; x < CALLS / 4; x++) {
        const struct trial t = trial(true);
        const enum tb_type type = t.call.c_type;
        int64_t i = random_below((unsigned)t.call.m), j = random_below((unsigned)t.call.n);
        if (call_is_triangular(&t.call) && (t.call.uplo == 'L' ? i < j : i > j)) {
            const int64_t kept = i;
            i = j;
            j = kept;
        }
        const int parts = call_is_complex(type) ? 2 : 1;
        const int64_t at = (i + j * t.call.m) * parts + random_below((unsigned)parts);
        /* A wrong solution shows in its equations, times what is on the diagonal, more or less. */
        const double was = fetch(type, c, at),
                     by = promised(&t, i) * (t.call.op == TB_TRSM ? 4 : 1);
        store(type, c, at, was + (random_below(2) ? by : -by));
        if (fabs(fetch(type, c, at) - was) < 0.9 * by)
            continue; /* rounded away: not as large as promised any more */
        planted++;
        if (!verify_result(&t.call, old, false, (uint64_t)x))
            continue;
        passed++;
        fprintf(stderr,
                "not found, call %d: %s types %d %d, %c%c, %lld x %lld x %lld, %g off by %g\n", x,
                call_op_name(t.call.op), t.call.ab, type, t.call.ta, t.call.tb, (long long)t.call.m,
                (long long)t.call.n, (long long)t.call.k, was, by);
    }
    fprintf(stderr, "%d of %d wrong entries not found\n", passed, planted);
    return passed != 0 || planted < CALLS / 8;
}

static void cost(int64_t side, unsigned pair)
{
    const size_t bytes = (size_t)side * (size_t)side * call_elem_bytes(pairs[pair].ab);
    void *x[3];
    for (int i = 0; i < 3; i++) {
        x[i] = malloc(bytes);
        fill(pairs[pair].ab, x[i], side, side, side, 0);
    }
    struct tb_call call = {.op = TB_GEMM,
                           .ab = pairs[pair].ab,
                           .c_type = pairs[pair].c,
                           .alpha_type = pairs[pair].ab,
                           .beta_type = pairs[pair].ab,
                           .ta = 'N',
                           .tb = 'N',
                           .m = side,
                           .n = side,
                           .k = side,
                           .a = x[0],
                           .b = x[1],
                           .c = x[2],
                           .lda = side,
                           .ldb = side,
                           .ldc = side,
                           .batch = 1};
    store(pairs[pair].ab, &call.alpha, 0, 1);
    const clock_t start = clock();
    (void)verify_result(&call, NULL, false, 1);
    printf("type %d, %lld: %.1f ms of CPU, %.2f ns an entry of A, B and C\n", (int)call.ab,
           (long long)side, (double)(clock() - start) * 1e3 / CLOCKS_PER_SEC,
           (double)(clock() - start) * 1e9 / CLOCKS_PER_SEC / 3 / (double)(side * side));
    for (int i = 0; i < 3; i++)
        free(x[i]);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "time") == 0) {
        for (unsigned pair = 0; pair < 4; pair++)
            cost(2048, pair);
        return 0;
    }
    /* Before it is loaded: the thread sanitizer does not see how its threads wait for each other.
     */
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    return right() + wrong() != 0;
}
