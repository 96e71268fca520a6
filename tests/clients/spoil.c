/* SPDX-License-Identifier: BSD-3-Clause
 * A fault to be found: preloaded in front of the library by spoil.sh. TB_SPOIL_HOW=entry changes
 * one entry of every non-empty dgemm result by a thousandth; =stdout makes dgemm print a line. The
 * tests of the clients must fail under it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The same door behind us in the order of search: the library under test. */
static void *next_door(const char *name)
{
    void *fn = dlsym(RTLD_NEXT, name);
    if (!fn)
        _exit(99);
    return fn;
}

static void spoil(int64_t m, int64_t n, double *c)
{
    const char *how = getenv("TB_SPOIL_HOW");
    if (m <= 0 || n <= 0 || !c || !how)
        return;
    if (!strcmp(how, "entry"))
        c[0] += 1e-3 * (1 + (c[0] < 0 ? -c[0] : c[0]));
    if (!strcmp(how, "stdout") && write(1, "dgemm\n", 6) != 6)
        _exit(99);
}

#define FORTRAN(NAME, INT)                                                                         \
    void NAME(const char *ta, const char *tb, const INT *m, const INT *n, const INT *k,            \
              const double *alpha, const double *a, const INT *lda, const double *b,               \
              const INT *ldb, const double *beta, double *c, const INT *ldc, size_t la,            \
              size_t lb);                                                                          \
    void NAME(const char *ta, const char *tb, const INT *m, const INT *n, const INT *k,            \
              const double *alpha, const double *a, const INT *lda, const double *b,               \
              const INT *ldb, const double *beta, double *c, const INT *ldc, size_t la, size_t lb) \
    {                                                                                              \
        __typeof__(&NAME) fn = (__typeof__(&NAME))next_door(#NAME);                                \
        fn(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, 1, 1);                            \
        (void)la, (void)lb;                                                                        \
        spoil(*m, *n, c);                                                                          \
    }

#define CBLAS(NAME, INT)                                                                           \
    void NAME(int order, int ta, int tb, INT m, INT n, INT k, double alpha, const double *a,       \
              INT lda, const double *b, INT ldb, double beta, double *c, INT ldc);                 \
    void NAME(int order, int ta, int tb, INT m, INT n, INT k, double alpha, const double *a,       \
              INT lda, const double *b, INT ldb, double beta, double *c, INT ldc)                  \
    {                                                                                              \
        __typeof__(&NAME) fn = (__typeof__(&NAME))next_door(#NAME);                                \
        fn(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);                           \
        spoil(m, n, c);                                                                            \
    }

FORTRAN(dgemm_, int32_t)
FORTRAN(scipy_dgemm_64_, int64_t)
CBLAS(cblas_dgemm, int32_t)
CBLAS(scipy_cblas_dgemm64_, int64_t)
