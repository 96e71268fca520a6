/* SPDX-License-Identifier: BSD-3-Clause
 * One client for preload.sh, told by its arguments what to do:
 *   call             dgemm_, small and larger than the doors' pre-test, cblas_zgemm, twice each
 *   dlopen LIBRARY   the same through dlopen(RTLD_LOCAL) and dlsym
 *   plugin PLUGIN    dlopen(PLUGIN, RTLD_LOCAL), whose entry calls its BLAS; more than one may
 * follow close            closes stdout and stderr, then as call Exit status 0 if every result is
 * right. Prints nothing of its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void dgemm_fn(const char *, const char *, const int *, const int *, const int *,
                      const double *, const double *, const int *, const double *, const int *,
                      const double *, double *, const int *);
typedef void zgemm_fn(int, int, int, int, int, int, const void *, const void *, int, const void *,
                      int, const void *, void *, int);
#ifndef NO_BLAS
dgemm_fn dgemm_;
zgemm_fn cblas_zgemm;
#endif

static int wrong_dgemm(dgemm_fn *gemm, int n)
{
    const size_t count = (size_t)n * (size_t)n;
    double *const a = malloc(count * sizeof *a), *const c = malloc(count * sizeof *c);
    const double one = 1, zero = 0;
    int wrong = 0;
    for (size_t i = 0; i < count; i++) {
        a[i] = i % 2 ? 1 : 2;
        c[i] = -1;
    }
    gemm("N", "N", &n, &n, &n, &one, a, &n, a, &n, &zero, c, &n);
    for (int j = 0; j < n; j++)
        for (int i = 0; i<n; i += n> 20 ? 7 : 1) {
            double sum = 0;
            for (int l = 0; l < n; l++)
                sum += a[(size_t)l * (size_t)n + (size_t)i] * a[(size_t)j * (size_t)n + (size_t)l];
            wrong += c[(size_t)j * (size_t)n + (size_t)i] != sum;
        }
    free(a);
    free(c);
    return wrong;
}

static int wrong_zgemm(zgemm_fn *gemm)
{
    const double a[] = {1, 2, 3, 4, 5, 6, 7, 8}, one[] = {1, 0}, zero[] = {0, 0};
    double c[8];
    gemm(101, 111, 113, 2, 2, 2, one, a, 2, a, 2, zero, c, 2);
    return c[0] != 30 || c[1] != 0 || c[2] != 70 || c[3] != 8 || c[6] != 174 || c[7] != 0;
}

static int wrong_calls(dgemm_fn *d, zgemm_fn *z)
{
    int wrong = 0;
    for (int i = 0; i < 2; i++)
        wrong += wrong_dgemm(d, 3) + wrong_dgemm(d, 170) + wrong_zgemm(z);
    return wrong;
}

static int wrong_plugin(const char *path)
{
    void *const handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    double (*entry)(void);
    *(void **)&entry = dlsym(handle, "plugin_entry");
    return entry == NULL || entry() != 11;
}

int main(int argc, char **argv)
{
    const char *const what = argc > 1 ? argv[1] : "";
    int wrong = 0;
    if (strcmp(what, "dlopen") == 0) {
        void *const handle = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
        if (handle == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        dgemm_fn *d;
        zgemm_fn *z;
        *(void **)&d = dlsym(handle, "dgemm_");
        *(void **)&z = dlsym(handle, "cblas_zgemm");
        wrong = wrong_calls(d, z);
        /* Our threads and slots must outlive this. */
        dlclose(handle);
        wrong += wrong_calls(d, z);
    } else if (strcmp(what, "plugin") == 0) {
        for (int i = 2; i < argc; i++)
            wrong += wrong_plugin(argv[i]);
    } else {
        if (strcmp(what, "close") == 0) {
            close(STDOUT_FILENO);
            close(STDERR_FILENO);
        }
#ifndef NO_BLAS
        wrong = wrong_calls(dgemm_, cblas_zgemm);
#else
        wrong = 1;
#endif
    }
    return wrong != 0;
}
