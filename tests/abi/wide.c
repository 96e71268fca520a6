/* SPDX-License-Identifier: BSD-3-Clause
 * A program built for 64-bit integers behind plain names: its sizes do not fit into 32 bits, and
 * cut down they would look like small and valid ones. */
#include <stdint.h>
#include <stddef.h>

void dgemm_(const char *, const char *, const int64_t *, const int64_t *, const int64_t *,
            const double *, const double *, const int64_t *, const double *, const int64_t *,
            const double *, double *, const int64_t *, size_t, size_t);
void cblas_dgemm(int, int, int, int64_t, int64_t, int64_t, double, const double *, int64_t,
                 const double *, int64_t, double, double *, int64_t);
void cblas_dtrsm(int, int, int, int, int, int64_t, int64_t, double, const double *, int64_t,
                 double *, int64_t);

int main(void)
{
    const int64_t big = ((int64_t)1 << 32) + 2, two = 2;
    const double alpha = 2.5, beta = 0;
    double x[4] = {1, 2, 3, 4};
    for (int i = 0; i < 2; i++) {
        dgemm_("N", "T", &big, &two, &two, &alpha, x, &big, x, &two, &beta, x, &big, 1, 1);
        dgemm_("N", "N", &two, &two, &big, &beta, x, &two, x, &big, &beta, x, &two, 1, 1);
        cblas_dgemm(102, 111, 112, big, 2, 2, 2.5, x, big, x, 2, 0, x, big);
        cblas_dgemm(101, 111, 111, -big, 2, 2, 0, x, 2, x, 2, 0, x, 2);
        cblas_dtrsm(102, 141, 121, 111, 131, 2, big, 1, x, 2, x, 2);
    }
    return 0;
}
