/* SPDX-License-Identifier: BSD-3-Clause
 * A plugin that calls its BLAS: from plugin_entry(), or, with -DIN_CONSTRUCTOR, already while it is
 * being loaded (the loader's lock is held then). */
double plugin_entry(void);
void cblas_dgemm(int, int, int, int, int, int, double, const double *, int, const double *, int,
                 double, double *, int);

static double product(void)
{
    static double a[200 * 200], c[200 * 200];
    const int n = 200;
    for (int i = 0; i < n * n; i++)
        a[i] = 0;
    a[0] = 1;
    a[1] = 2;
    a[n] = 5;
    cblas_dgemm(101, 111, 111, n, n, n, 1, a, n, a, n, 0, c, n);
    return c[0];
}

#ifdef IN_CONSTRUCTOR
static double early;
__attribute__((constructor)) static void work(void)
{
    early = product();
}
double plugin_entry(void)
{
    return early;
}
#else
double plugin_entry(void)
{
    return product();
}
#endif
