/* SPDX-License-Identifier: BSD-3-Clause
 * Products of 32-bit numbers that leave 32 bits: leading dimension times columns, stride times
 * item, with tiny matrices in huge reserved memory of which only the touched pages exist. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef const void *P;
static int failures, tried;

static void *reserve(size_t bytes)
{
    void *const p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        printf("skipped: cannot reserve %zu bytes\n", bytes);
        exit(77);
    }
    return p;
}

static void check(const char *what, double got, double want)
{
    tried++;
    if (got == want)
        return;
    printf("%s: %g, not %g\n", what, got, want);
    failures++;
}

static void *find(const char *name)
{
    void *const fn = dlsym(RTLD_DEFAULT, name);
    if (fn == NULL && dlsym(RTLD_DEFAULT, "tileblas_marker") != NULL) {
        printf("%s is missing\n", name);
        failures++;
    }
    return fn;
}

/* C (2 x 2) = A (2 x 12) B (12 x 2) with lda = 2^28 - 1: A reaches past 2^31 elements. */
static void big_leading(void)
{
    const int lda = (1 << 28) - 1, k = 12;
    float *const a = reserve((size_t)lda * (size_t)k * sizeof *a);
    float b[24], c[4] = {9, 9, 9, 9};
    for (int l = 0; l < k; l++) {
        a[(size_t)l * (size_t)lda] = (float)(l + 1);
        a[(size_t)l * (size_t)lda + 1] = -1;
        b[l] = 1;
        b[l + k] = (float)(l % 3);
    }
    void (*cblas)(int, int, int, int, int, int, float, P, int, P, int, float, P, int);
    *(void **)&cblas = find("cblas_sgemm");
    cblas(102, 111, 111, 2, 2, k, 1, a, lda, b, k, 0, c, 2);
    check("lda k > 2^31, c00", c[0], 78);
    check("lda k > 2^31, c10", c[1], -12);
    check("lda k > 2^31, c01", c[2], 1 * (2 + 5 + 8 + 11) + 2 * (3 + 6 + 9 + 12));
    /* C itself: 2 x 12 = (2 x 2) (2 x 12), ldc as large. */
    float small[4] = {1, 2, 3, 4}, right[24];
    for (int l = 0; l < 24; l++)
        right[l] = (float)(l % 5);
    cblas(102, 111, 111, 2, k, 2, 1, small, 2, right, 2, 0, a, lda);
    check("ldc n > 2^31", a[11 * (size_t)lda + 1], 2 * right[22] + 4 * right[23]);
    check("ldc n > 2^31, between", a[11 * (size_t)lda + 2], 0);
    munmap(a, (size_t)lda * (size_t)k * sizeof *a);
}

/* Items 2^30 elements apart: 32-bit strides whose multiples are not. */
static void big_strides(void)
{
    void (*strided)(int, int, int, int, int, int, float, P, int, int, P, int, int, float, P, int,
                    int, int);
    *(void **)&strided = find("cblas_sgemm_batch_strided");
    void (*wide)(int, int, int, int64_t, int64_t, int64_t, float, P, int64_t, int64_t, P, int64_t,
                 int64_t, float, P, int64_t, int64_t, int64_t);
    *(void **)&wide = find("cblas_sgemm_batch_strided_64");
    if (strided == NULL)
        return;
    const int64_t stride = 1 << 30, items = 4;
    float *const a = reserve((size_t)(stride * items) * sizeof *a), b[4] = {1, 0, 0, 1}, c[16];
    for (int64_t i = 0; i < items; i++)
        for (int e = 0; e < 4; e++)
            a[i * stride + e] = (float)(10 * i + e);
    memset(c, 0, sizeof c);
    strided(102, 111, 111, 2, 2, 2, 1, a, 2, (int)stride, b, 2, 0, 0, c, 2, 4, (int)items);
    check("stride 2^30, item 3", c[15], 33);
    check("stride 2^30, item 2", c[8], 20);
    /* Backwards: item 0 is the last one. */
    memset(c, 0, sizeof c);
    strided(101, 111, 111, 2, 2, 2, 1, a + (items - 1) * stride, 2, -(int)stride, b, 2, 0, 0, c, 2,
            4, (int)items);
    check("stride -2^30, item 3", c[15], 3);
    check("stride -2^30, item 0", c[1], 31);
    /* Into far apart C, by 64-bit strides of more than 2^31. */
    const int64_t far = ((int64_t)1 << 31) + 6;
    wide(102, 111, 111, 2, 2, 2, 1, b, 2, 0, b, 2, 0, 0, a, 2, far, 2);
    check("stride 2^31 + 6", a[far + 3], 1);
    check("stride 2^31 + 6, item 0", a[1], 0);
    munmap(a, (size_t)(stride * items) * sizeof *a);
}

int main(void)
{
    big_leading();
    big_strides();
    printf("%d values, %d wrong\n", tried, failures);
    return failures != 0;
}
