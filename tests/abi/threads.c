/* SPDX-License-Identifier: BSD-3-Clause
 * 16 threads that all make their first call at once, then products of sizes across the doors'
 * pre-test, on operands they share; integer data, so every result is exact. First argument: KiB of
 * stack beyond the least; second: threads. */
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *,
            const double *, const int *, const double *, const int *, const double *, double *,
            const int *);
void cblas_sgemm(int, int, int, int, int, int, float, const float *, int, const float *, int, float,
                 float *, int);

enum { THREADS = 16, LARGEST = 200, ROUNDS = 3 };
static const int sizes[] = {3, 17, 64, 150, 165, 200};
static double a[LARGEST * LARGEST], product[sizeof sizes / sizeof sizes[0]][LARGEST * LARGEST];
static float as[LARGEST * LARGEST];
static atomic_int wrong;
static pthread_barrier_t start;

static void expect(void)
{
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        const int n = sizes[s];
        for (int j = 0; j < n; j++)
            for (int i = 0; i < n; i++) {
                double sum = 0;
                for (int l = 0; l < n; l++)
                    sum += a[l * LARGEST + i] * a[j * LARGEST + l];
                product[s][j * n + i] = sum;
            }
    }
}

static void *work(void *number)
{
    const size_t many = sizeof sizes / sizeof sizes[0];
    const size_t first = (size_t)(uintptr_t)number;
    double *const c = malloc(sizeof *c * LARGEST * LARGEST);
    float *const cs = malloc(sizeof *cs * LARGEST * LARGEST);
    pthread_barrier_wait(&start);
    for (size_t r = 0; r < ROUNDS * many; r++) {
        const size_t s = (first + r) % many;
        const int n = sizes[s], ld = LARGEST;
        const double one = 1, two = 2;
        for (int i = 0; i < n * n; i++) {
            c[i] = 5;
            cs[i] = -7;
        }
        dgemm_("N", "N", &n, &n, &n, &one, a, &ld, a, &ld, &two, c, &n);
        cblas_sgemm(102, 111, 111, n, n, n, 1, as, ld, as, ld, 0, cs, n);
        for (int i = 0; i < n * n; i++)
            if (c[i] != product[s][i] + 10 || cs[i] != (float)product[s][i]) {
                if (atomic_fetch_add(&wrong, 1) == 0)
                    fprintf(stderr, "thread %zu, n=%d, entry %d: %g and %g, not %g\n", first, n, i,
                            c[i], (double)cs[i], product[s][i]);
                break;
            }
    }
    free(c);
    free(cs);
    return NULL;
}

int main(int argc, char **argv)
{
    alarm(200);
    for (int i = 0; i < LARGEST * LARGEST; i++)
        as[i] = (float)(a[i] = i % 11 - 5);
    expect();
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    if (argc > 1 &&
        pthread_attr_setstacksize(&attr, (size_t)atoi(argv[1]) * 1024 +
                                             (size_t)sysconf(_SC_THREAD_STACK_MIN)) != 0)
        return 99;
    pthread_t threads[THREADS];
    const size_t count = argc > 2 ? (size_t)atoi(argv[2]) : THREADS;
    if (count == 0 || count > THREADS)
        return 99;
    pthread_barrier_init(&start, NULL, (unsigned)count);
    for (size_t i = 0; i < count; i++)
        if (pthread_create(&threads[i], &attr, work, (void *)(uintptr_t)i) != 0)
            return 99;
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    return wrong != 0;
}
