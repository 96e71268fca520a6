/* SPDX-License-Identifier: BSD-3-Clause
 * Calls a 4 x 4 product argv[2] times through the form argv[1], for cost.sh to count instructions.
 */
#include <stdlib.h>
#include <string.h>

void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *,
            const double *, const int *, const double *, const int *, const double *, double *,
            const int *);
void cblas_dgemm(int, int, int, int, int, int, double, const double *, int, const double *, int,
                 double, double *, int);

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const int n = 4, count = atoi(argv[2]);
    const double one = 1, zero = 0, a[16] = {1, 2, 3};
    double c[16];
    if (strcmp(argv[1], "fortran") == 0)
        for (int i = 0; i < count; i++)
            dgemm_("N", "N", &n, &n, &n, &one, a, &n, a, &n, &zero, c, &n);
    else
        for (int i = 0; i < count; i++)
            cblas_dgemm(102, 111, 111, n, n, n, 1, a, n, a, n, 0, c, n);
    return c[0] != 1;
}
