/* SPDX-License-Identifier: BSD-3-Clause
 * call.c: the strict check with the numbers BLAS users know, row-major normalization, flops and
 * bytes. */
#include <criterion/criterion.h>
#include <string.h>
#include "../../src/call.h"

static struct tb_call gemm(char ta, char tb, int64_t m, int64_t n, int64_t k, int64_t lda,
                           int64_t ldb, int64_t ldc)
{
    return (struct tb_call){.name = "dgemm_",
                            .op = TB_GEMM,
                            .ab = TB_F64,
                            .c_type = TB_F64,
                            .alpha_type = TB_F64,
                            .beta_type = TB_F64,
                            .ta = ta,
                            .tb = tb,
                            .m = m,
                            .n = n,
                            .k = k,
                            .alpha.d = {1},
                            .beta.d = {0},
                            .lda = lda,
                            .ldb = ldb,
                            .ldc = ldc,
                            .batch = 1};
}

static const struct {
    const char *what;
    char ta, tb;
    int64_t m, n, k, lda, ldb, ldc;
    int info;
} gemm_cases[] = {
    {"plain", 'N', 'N', 3, 4, 5, 3, 5, 3, 0},
    {"transposed", 'T', 'C', 3, 4, 5, 5, 4, 3, 0},
    {"empty with ld 1", 'N', 'N', 0, 0, 0, 1, 1, 1, 0},
    {"transa", 'X', 'N', 3, 4, 5, 3, 5, 3, 1},
    {"transb", 'N', 'X', 3, 4, 5, 3, 5, 3, 2},
    {"both: the first counts", 'X', 'Y', -1, 4, 5, 3, 5, 3, 1},
    {"m", 'N', 'N', -1, 4, 5, 3, 5, 3, 3},
    {"n", 'N', 'N', 3, -1, 5, 3, 5, 3, 4},
    {"k", 'N', 'N', 3, 4, -1, 3, 5, 3, 5},
    {"lda", 'N', 'N', 3, 4, 5, 2, 5, 3, 8},
    {"lda, transposed", 'T', 'N', 3, 4, 5, 4, 5, 3, 8},
    {"ldb", 'N', 'N', 3, 4, 5, 3, 4, 3, 10},
    {"ldb, transposed", 'N', 'T', 3, 4, 5, 3, 3, 3, 10},
    {"ldc", 'N', 'N', 3, 4, 5, 3, 5, 2, 13},
    {"ld 0 with m 0 is not plainly valid", 'N', 'N', 0, 4, 5, 0, 5, 1, 8},
    {"R is an extension", 'R', 'N', 3, 4, 5, 3, 5, 3, -1},
    {"R for B", 'N', 'R', 3, 4, 5, 3, 5, 3, -2},
    {"beyond 32 bits", 'N', 'N', INT64_C(1) << 33, 1, 1, INT64_C(1) << 33, 1, INT64_C(1) << 33, 0},
    {"ld beyond 32 bits too small", 'N', 'N', INT64_C(1) << 33, 1, 1, 5, 1, INT64_C(1) << 33, 8},
};

Test(call, check_gemm)
{
    for (size_t i = 0; i < sizeof gemm_cases / sizeof gemm_cases[0]; i++) {
        const struct tb_call c =
            gemm(gemm_cases[i].ta, gemm_cases[i].tb, gemm_cases[i].m, gemm_cases[i].n,
                 gemm_cases[i].k, gemm_cases[i].lda, gemm_cases[i].ldb, gemm_cases[i].ldc);
        cr_assert_eq(call_check(&c), gemm_cases[i].info, "%s: %d, not %d", gemm_cases[i].what,
                     call_check(&c), gemm_cases[i].info);
    }
}

Test(call, check_gemmt)
{
    struct tb_call c = gemm('N', 'N', 4, 4, 5, 4, 5, 4);
    c.op = TB_GEMMT;
    c.uplo = 'X';
    cr_assert_eq(call_check(&c), 1);
    c.uplo = 'U';
    cr_assert_eq(call_check(&c), 0);
    c.ta = 'X';
    cr_assert_eq(call_check(&c), 2);
    c.ta = 'N';
    c.tb = 'X';
    cr_assert_eq(call_check(&c), 3);
    c.tb = 'N';
    c.m = c.n = -1;
    cr_assert_eq(call_check(&c), 4);
    c.m = c.n = 4;
    c.k = -1;
    cr_assert_eq(call_check(&c), 5);
    c.k = 5;
    c.lda = 3;
    cr_assert_eq(call_check(&c), 8);
    c.lda = 4;
    c.ldb = 4;
    cr_assert_eq(call_check(&c), 10);
    c.ldb = 5;
    c.ldc = 3;
    cr_assert_eq(call_check(&c), 13);
}

Test(call, check_strided)
{
    struct tb_call c = gemm('N', 'N', 3, 4, 5, 3, 5, 3);
    c.form = TB_STRIDED;
    cr_assert_eq(call_check(&c), 0);
    c.ldb = 4;
    cr_assert_eq(call_check(&c), 11);
    c.ldb = 5;
    c.ldc = 2;
    cr_assert_eq(call_check(&c), 15);
    c.ldc = 3;
    c.batch = -1;
    cr_assert_eq(call_check(&c), 17);
}

Test(call, check_triangular_and_symmetric)
{
    struct tb_call c = {.op = TB_TRSM,
                        .ab = TB_F64,
                        .c_type = TB_F64,
                        .side = 'L',
                        .uplo = 'U',
                        .ta = 'N',
                        .diag = 'N',
                        .m = 3,
                        .n = 4,
                        .lda = 3,
                        .ldc = 3,
                        .batch = 1};
    cr_assert_eq(call_check(&c), 0);
    c.ldc = 2;
    cr_assert_eq(call_check(&c), 11);
    c.lda = 2;
    cr_assert_eq(call_check(&c), 9);
    c.n = -1;
    cr_assert_eq(call_check(&c), 6);
    c.m = -1;
    cr_assert_eq(call_check(&c), 5);
    c.diag = 'X';
    cr_assert_eq(call_check(&c), 4);
    c.ta = 'X';
    cr_assert_eq(call_check(&c), 3);
    c.uplo = 'X';
    cr_assert_eq(call_check(&c), 2);
    c.side = 'X';
    cr_assert_eq(call_check(&c), 1);

    struct tb_call s = {.op = TB_SYRK,
                        .ab = TB_C64,
                        .c_type = TB_C64,
                        .uplo = 'L',
                        .ta = 'C',
                        .m = 3,
                        .n = 3,
                        .k = 2,
                        .lda = 3,
                        .ldc = 3,
                        .batch = 1};
    cr_assert_eq(call_check(&s), 2, "zsyrk knows no 'C'");
    s.op = TB_HERK;
    cr_assert_eq(call_check(&s), 0, "zherk does");
    s.ta = 'T';
    cr_assert_eq(call_check(&s), 2, "zherk knows no 'T'");
    s.op = TB_SYRK;
    s.ab = TB_F64;
    s.ta = 'C';
    cr_assert_eq(call_check(&s), 0, "dsyrk takes 'C' for 'T'");
    s.ldc = 2;
    cr_assert_eq(call_check(&s), 10);
    s.op = TB_SYR2K;
    s.ldb = 3;
    cr_assert_eq(call_check(&s), 12);
    s.ldb = 1;
    cr_assert_eq(call_check(&s), 9);
}

Test(call, row_major_illegal_flags_stay_illegal)
{
    static const struct {
        enum tb_op op;
        enum tb_type type;
        char ta;
    } wrong[] = {{TB_SYRK, TB_C64, 'C'},
                 {TB_SYR2K, TB_C32, 'C'},
                 {TB_HERK, TB_C64, 'T'},
                 {TB_HER2K, TB_C32, 'T'},
                 {TB_SYRK, TB_F64, '?'}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct tb_call c = {.op = wrong[i].op,
                            .ab = wrong[i].type,
                            .c_type = wrong[i].type,
                            .alpha_type = wrong[i].type,
                            .row_major = true,
                            .uplo = 'U',
                            .ta = wrong[i].ta,
                            .m = 3,
                            .n = 3,
                            .k = 2,
                            .lda = 3,
                            .ldb = 3,
                            .ldc = 3,
                            .batch = 1};
        call_normalize(&c);
        cr_assert_eq(call_check(&c), 2, "row %zu", i);
    }
}

Test(call, row_major_gemm_is_the_transposed_product)
{
    const double a[1] = {1}, b[1] = {2};
    struct tb_call c = gemm('T', 'N', 3, 4, 5, 7, 8, 9);
    c.row_major = true;
    c.a = a;
    c.b = b;
    c.stride_a = 11;
    c.stride_b = 12;
    call_normalize(&c);
    cr_assert(c.a == b && c.b == a && c.ta == 'N' && c.tb == 'T');
    cr_assert(c.m == 4 && c.n == 3 && c.k == 5 && c.lda == 8 && c.ldb == 7 && c.ldc == 9);
    cr_assert(c.stride_a == 12 && c.stride_b == 11);
    cr_assert_not(c.row_major);
}

Test(call, row_major_her2k_conjugates_alpha)
{
    struct tb_call c = {.op = TB_HER2K,
                        .ab = TB_C64,
                        .c_type = TB_C64,
                        .alpha_type = TB_C64,
                        .alpha.d = {2, 3},
                        .row_major = true,
                        .uplo = 'L',
                        .ta = 'N',
                        .batch = 1};
    call_normalize(&c);
    cr_assert(c.alpha.d[0] == 2 && c.alpha.d[1] == -3 && c.ta == 'C' && c.uplo == 'U');
}

Test(call, half_scalars)
{
    static const struct {
        uint16_t bits;
        double value;
    } halves[] = {{0x3c00, 1},
                  {0xbc00, -1},
                  {0x0001, 0x1p-24},
                  {0x8001, -0x1p-24},
                  {0x03ff, 1023 * 0x1p-24},
                  {0x0400, 0x1p-14},
                  {0x7bff, 65504},
                  {0x0000, 0},
                  {0x3555, 0.333251953125}};
    double v[2];
    for (size_t i = 0; i < sizeof halves / sizeof halves[0]; i++) {
        scalar_widen(TB_F16, &(union tb_scalar){.h = halves[i].bits}, v);
        cr_assert(v[0] == halves[i].value && v[1] == 0, "half %04x is %g", halves[i].bits, v[0]);
    }
    scalar_widen(TB_F16, &(union tb_scalar){.h = 0x7c00}, v);
    cr_assert(v[0] > 1e300);
    scalar_widen(TB_F16, &(union tb_scalar){.h = 0x7e00}, v);
    cr_assert(v[0] != v[0]);
    scalar_widen(TB_BF16, &(union tb_scalar){.h = 0x3fc0}, v);
    cr_assert(v[0] == 1.5);
    cr_assert(scalar_is_zero(TB_F16, &(union tb_scalar){.h = 0x8000}), "-0 is zero");
    cr_assert_not(scalar_is_zero(TB_C64, &(union tb_scalar){.d = {0, 1}}));
    cr_assert_not(scalar_is_zero(TB_F16, &(union tb_scalar){.h = 0x7e00}), "NaN is not");
}

Test(call, bytes_and_flops_do_not_overflow)
{
    struct tb_call c = gemm('N', 'T', 100000, 200000, 300000, 100000, 200000, 100000);
    cr_assert(call_flops(&c) == 2 * 1e5 * 2e5 * 3e5);
    cr_assert(call_bytes_in(&c) == 8 * (1e5 * 3e5 + 2e5 * 3e5));
    cr_assert(call_bytes_out(&c) == 8 * 1e5 * 2e5);
    c.beta.d[0] = 1;
    cr_assert(call_bytes_in(&c) == 8 * (1e5 * 3e5 + 2e5 * 3e5 + 1e5 * 2e5));
    c.stride_c = INT64_C(1) << 31;
    cr_assert_eq((char *)call_c(&c, 3) - (char *)c.c, (INT64_C(3) << 31) * 8);
    c.stride_a = -5;
    cr_assert_eq((const char *)call_a(&c, 2) - (const char *)c.a, -80);
}

Test(call, trivial)
{
    struct tb_call c = gemm('N', 'N', 3, 4, 5, 3, 5, 3);
    cr_assert_not(call_is_trivial(&c));
    c.k = 0;
    cr_assert(call_is_trivial(&c));
    c.k = 5;
    c.alpha.d[0] = -0.0;
    cr_assert(call_is_trivial(&c));
    c.alpha.d[0] = 1;
    c.batch = 0;
    cr_assert(call_is_trivial(&c));
    struct tb_call t = {.op = TB_TRSM,
                        .ab = TB_F64,
                        .c_type = TB_F64,
                        .alpha_type = TB_F64,
                        .alpha.d = {1},
                        .m = 3,
                        .n = 3,
                        .batch = 1};
    cr_assert_not(call_is_trivial(&t), "trsm has no k");
}
