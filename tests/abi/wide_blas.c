/* SPDX-License-Identifier: BSD-3-Clause
 * A stand-in for an ILP64 BLAS with plain names: 64-bit integers behind dgemm_ and cblas_dgemm, and
 * an openblas_get_config() that says so. It computes nothing and tells what reached it. */
#include <inttypes.h>
#include <stdio.h>

const char *openblas_get_config(void);
void dgemm_(const char *, const char *, const int64_t *, const int64_t *, const int64_t *,
            const double *, const double *, const int64_t *, const double *, const int64_t *,
            const double *, double *, const int64_t *, size_t, size_t);
void cblas_dgemm(int, int, int, int64_t, int64_t, int64_t, double, const double *, int64_t,
                 const double *, int64_t, double, double *, int64_t);
void cblas_dtrsm(int, int, int, int, int, int64_t, int64_t, double, const double *, int64_t,
                 double *, int64_t);

const char *openblas_get_config(void)
{
    return "OpenBLAS 0.3.21 USE64BITINT DYNAMIC_ARCH stand-in";
}

void dgemm_(const char *ta, const char *tb, const int64_t *m, const int64_t *n, const int64_t *k,
            const double *alpha, const double *a, const int64_t *lda, const double *b,
            const int64_t *ldb, const double *beta, double *c, const int64_t *ldc, size_t la,
            size_t lb)
{
    (void)a;
    (void)b;
    (void)c;
    (void)la;
    (void)lb;
    printf("dgemm_ %c%c %" PRId64 " %" PRId64 " %" PRId64 " %g %" PRId64 " %" PRId64 " %g %" PRId64
           "\n",
           *ta, *tb, *m, *n, *k, *alpha, *lda, *ldb, *beta, *ldc);
}

void cblas_dgemm(int order, int ta, int tb, int64_t m, int64_t n, int64_t k, double alpha,
                 const double *a, int64_t lda, const double *b, int64_t ldb, double beta, double *c,
                 int64_t ldc)
{
    (void)a;
    (void)b;
    (void)c;
    printf("cblas_dgemm %d %d %d %" PRId64 " %" PRId64 " %" PRId64 " %g %" PRId64 " %" PRId64
           " %g %" PRId64 "\n",
           order, ta, tb, m, n, k, alpha, lda, ldb, beta, ldc);
}

void cblas_dtrsm(int order, int side, int uplo, int ta, int diag, int64_t m, int64_t n,
                 double alpha, const double *a, int64_t lda, double *b, int64_t ldb)
{
    (void)a;
    (void)b;
    printf("cblas_dtrsm %d %d %d %d %d %" PRId64 " %" PRId64 " %g %" PRId64 " %" PRId64 "\n", order,
           side, uplo, ta, diag, m, n, alpha, lda, ldb);
}
