/* SPDX-License-Identifier: BSD-3-Clause
 * A C program that calls a bit of everything: levels 1, 2 and 3, complex results, LAPACK, controls.
 */
#include <complex.h>
#include <stdio.h>
#include <string.h>

double ddot_(const int *, const double *, const int *, const double *, const int *);
float sdot_(const int *, const float *, const int *, const float *, const int *);
double complex zdotu_(const int *, const double *, const int *, const double *, const int *);
float complex cdotc_(const int *, const float *, const int *, const float *, const int *);
int idamax_(const int *, const double *, const int *);
void dgemv_(const char *, const int *, const int *, const double *, const double *, const int *,
            const double *, const int *, const double *, double *, const int *);
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *,
            const double *, const int *, const double *, const int *, const double *, double *,
            const int *);
void dgesv_(const int *, const int *, double *, const int *, int *, double *, const int *, int *);
void cblas_dscal(int, double, double *, int);
void cblas_dgemm(int, int, int, int, int, int, double, const double *, int, const double *, int,
                 double, double *, int);
void cblas_zdotc_sub(int, const void *, int, const void *, int, void *);
const char *openblas_get_config(void);
int openblas_get_num_threads(void);
void openblas_set_num_threads(int);

static int wrong;
static void check(const char *what, int good)
{
    if (!good) {
        printf("wrong: %s\n", what);
        wrong++;
    }
}

int main(void)
{
    const int one = 1, two = 2;
    const double x[] = {1, 2, 3, 4}, y[] = {5, 6, 7, 8}, alpha = 1, beta = 0;
    const float xs[] = {1, 2, 3, 4};
    check("ddot_", ddot_(&two, x, &one, y, &one) == 17);
    check("sdot_", sdot_(&two, xs, &one, xs, &one) == 5);
    /* (1 + 2i)(5 + 6i) + (3 + 4i)(7 + 8i); conj(1 + 2i)(1 + 2i) + conj(3 + 4i)(3 + 4i) */
    const double complex z = zdotu_(&two, x, &one, y, &one);
    check("zdotu_", creal(z) == -18 && cimag(z) == 68);
    const float complex c = cdotc_(&two, xs, &one, xs, &one);
    check("cdotc_", crealf(c) == 30 && cimagf(c) == 0);
    double pair[2];
    cblas_zdotc_sub(2, x, 1, y, 1, pair);
    check("cblas_zdotc_sub", pair[0] == 70 && pair[1] == -8);
    check("idamax_", idamax_(&two, y, &one) == 2);

    double v[2] = {0, 0}, m[4] = {0, 0, 0, 0};
    dgemv_("N", &two, &two, &alpha, x, &two, y, &one, &beta, v, &one);
    check("dgemv_", v[0] == 23 && v[1] == 34);
    dgemm_("N", "T", &two, &two, &two, &alpha, x, &two, y, &two, &beta, m, &two);
    check("dgemm_", m[0] == 26 && m[1] == 38 && m[2] == 30 && m[3] == 44);
    cblas_dgemm(101, 111, 111, 2, 2, 2, 1, x, 2, y, 2, 0, m, 2);
    check("cblas_dgemm", m[0] == 19 && m[1] == 22 && m[2] == 43 && m[3] == 50);
    cblas_dscal(2, 3, v, 1);
    check("cblas_dscal", v[0] == 69 && v[1] == 102);

    double a[4] = {2, 0, 0, 4}, b[2] = {2, 8};
    int pivots[2], info = -1;
    dgesv_(&two, &one, a, &two, pivots, b, &two, &info);
    check("dgesv_", info == 0 && b[0] == 1 && b[1] == 2);

    check("openblas_get_config", strncmp(openblas_get_config(), "OpenBLAS", 8) == 0);
    openblas_set_num_threads(1);
    check("openblas_set_num_threads", openblas_get_num_threads() == 1);
    if (wrong == 0)
        puts("right");
    return wrong;
}
