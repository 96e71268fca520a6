/* SPDX-License-Identifier: BSD-3-Clause
 * Calls side by side on a real GPU, with the library preloaded: a short one beside a long one, many
 * short ones at once, what the threads of the library burn while nothing moves, and a reset of the
 * device in the middle of calls. Prints a table; status 1 where a bound does not hold. Usage:
 * together [alone|beside|long|many|asleep|reset]. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *,
            const double *, const int *, const double *, const int *, const double *, double *,
            const int *);

static double seconds = 1.5;
static int failures;
static atomic_bool stop;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static double cpu(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-3;
}

struct product {
    int n;
    double *a, *b, *c;
};

static struct product product(int n)
{
    struct product p = {.n = n};
    const size_t count = (size_t)n * (size_t)n;
    p.a = malloc(count * 8);
    p.b = malloc(count * 8);
    p.c = malloc(count * 8);
    for (size_t i = 0; i < count; i++) {
        p.a[i] = (double)(i % 7) - 3;
        p.b[i] = (double)(i % 5) - 2;
        p.c[i] = 0;
    }
    return p;
}

static void multiply(const struct product *p)
{
    const double one = 1, zero = 0;
    dgemm_("N", "N", &p->n, &p->n, &p->n, &one, p->a, &p->n, p->b, &p->n, &zero, p->c, &p->n);
}

static int by_value(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

struct times {
    double median, p90, most;
    int count;
};

/* Times of calls for about that long. */
static struct times series(const struct product *p, double ms)
{
    static double t[20000];
    struct times out = {0};
    const double until = now() + ms;
    while (out.count < 20000 && (now() < until || out.count < 3)) {
        const double start = now();
        multiply(p);
        t[out.count++] = now() - start;
    }
    qsort(t, (size_t)out.count, sizeof *t, by_value);
    out.median = t[out.count / 2];
    out.p90 = t[out.count * 9 / 10];
    out.most = t[out.count - 1];
    return out;
}

static void row(const char *what, struct times t)
{
    printf("%-34s median %8.2f ms, p90 %8.2f, most %8.2f, %d calls\n", what, t.median, t.p90,
           t.most, t.count);
    fflush(stdout);
}

struct loop {
    struct product p;
    int rounds; /* 0: until told */
    double took;
    int done;
    pthread_t thread;
};

static void *loop(void *arg)
{
    struct loop *l = arg;
    const double start = now();
    while (l->rounds ? l->done < l->rounds : !atomic_load(&stop)) {
        multiply(&l->p);
        l->done++;
    }
    l->took = now() - start;
    return NULL;
}

static void alone(void)
{
    static const int sides[] = {512, 1024, 2048, 4096, 8192};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        const struct product p = product(sides[i]);
        char name[40];
        multiply(&p);
        snprintf(name, sizeof name, "dgemm %d alone", sides[i]);
        row(name, series(&p, seconds * 300));
        free(p.a);
        free(p.b);
        free(p.c);
    }
}

/* Products of those sides beside one of side `large`. The median of the first, ms. */
static double side_by_side(int large, const int sides[2])
{
    struct loop big = {.p = product(large)};
    double first = 0;
    atomic_store(&stop, false);
    pthread_create(&big.thread, NULL, loop, &big);
    usleep(200000);
    for (int i = 0; i < 2; i++) {
        const struct product p = product(sides[i]);
        char name[40];
        multiply(&p);
        snprintf(name, sizeof name, "dgemm %d beside %d", sides[i], large);
        const struct times t = series(&p, seconds * 1000);
        row(name, t);
        first = i == 0 ? t.median : first;
    }
    atomic_store(&stop, true);
    pthread_join(big.thread, NULL);
    printf("dgemm %d meanwhile %23.2f ms a call, %d calls\n", large, big.took / big.done, big.done);
    return first;
}

/* A short one waits for a product of a tile, and what is on the link. */
static void beside(void)
{
    failures += side_by_side(8192, (const int[]){512, 1024}) > 6;
}

/* Two long ones share link and device; a figure to look at. */
static void long_ones(void)
{
    side_by_side(16384, (const int[]){3072, 4096});
}

/* The same bytes: 16 threads of 1024, one thread of 4096. */
static void many(void)
{
    enum { THREADS = 16, ROUNDS = 24 };
    static struct loop small[THREADS];
    struct loop one = {.p = product(4096), .rounds = THREADS * ROUNDS / 16};
    multiply(&one.p);
    for (int i = 0; i < THREADS; i++) {
        small[i] = (struct loop){.p = product(1024), .rounds = ROUNDS};
        multiply(&small[i].p);
    }
    for (int repeat = 0; repeat < 3; repeat++) {
        double start = now();
        one.done = 0;
        loop(&one);
        const double single = now() - start, before = cpu();
        start = now();
        for (int i = 0; i < THREADS; i++) {
            small[i].done = 0;
            pthread_create(&small[i].thread, NULL, loop, &small[i]);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(small[i].thread, NULL);
        const double sixteen = now() - start;
        printf("16 threads x %d x dgemm 1024: %.1f ms (cpu %.0f); 1 thread x %d x dgemm 4096: %.1f "
               "ms\n",
               ROUNDS, sixteen, cpu() - before, one.rounds, single);
        fflush(stdout);
        if (repeat == 2 && sixteen > single)
            failures++;
    }
}

static void *sym(const char *name)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return handle ? dlsym(handle, name) : NULL;
}

/* A process that has offloaded and now does nothing; and one that waits for a kernel of some 100
 * ms. */
static void asleep(void)
{
    usleep(300000); /* the CPU BLAS's own threads come to rest */
    double start = now(), before = cpu();
    usleep(1000000);
    printf("idle: %.2f ms of CPU in %.0f ms\n", cpu() - before, now() - start);
    failures += cpu() - before > 5;
    int (*retain)(void **, int), (*current)(void *), (*alloc)(uint64_t *, size_t),
        (*set)(uint64_t, unsigned char, size_t);
    void *context;
    uint64_t at[3];
    const int n = 16384;
    *(void **)&retain = sym("cuDevicePrimaryCtxRetain");
    *(void **)&current = sym("cuCtxSetCurrent");
    *(void **)&alloc = sym("cuMemAlloc_v2");
    *(void **)&set = sym("cuMemsetD8_v2");
    if (!retain || retain(&context, 0) != 0 || current(context) != 0)
        return;
    for (int i = 0; i < 3; i++)
        if (alloc(&at[i], (size_t)n * (size_t)n * 8) != 0 ||
            set(at[i], 0, (size_t)n * (size_t)n * 8) != 0)
            return;
    const struct product p = {n, (double *)(uintptr_t)at[0], (double *)(uintptr_t)at[1],
                              (double *)(uintptr_t)at[2]};
    multiply(&p);
    start = now();
    before = cpu();
    multiply(&p);
    printf("a kernel of dgemm 16384 in place: %.2f ms of CPU in %.0f ms\n", cpu() - before,
           now() - start);
    failures += cpu() - before > 5;
    /* Small calls on device memory of a program that came to CUDA after the library did. */
    const struct product little = {32, p.a, p.b, p.c};
    multiply(&little);
    printf("a small product on device memory came back\n");
}

static void *reset_soon(void *arg)
{
    int (*reset)(int);
    *(void **)&reset = sym("cuDevicePrimaryCtxReset_v2");
    usleep(30000);
    printf("  reset: %d\n", reset ? reset(0) : -1);
    return arg;
}

/* The program resets the device in the middle of calls: all come back right. */
static void reset_midway(void)
{
    const struct product p = product(4096);
    pthread_t thread;
    pthread_create(&thread, NULL, reset_soon, NULL);
    for (int i = 0; i < 5; i++) {
        memset(p.c, 0xff, 8 * 4096u * 4096u);
        multiply(&p);
        for (int j = 0; j < 4096; j += 97)
            for (int k = 0, bad = 0; k < 4096 && !bad; k += 89) {
                double sum = 0;
                for (int l = 0; l < 4096; l++)
                    sum += p.a[k + (size_t)l * 4096] * p.b[l + (size_t)j * 4096];
                if (sum != p.c[k + (size_t)j * 4096]) {
                    printf("  wrong after a reset, call %d: C(%d, %d)\n", i, k, j);
                    failures++;
                    bad = 1;
                    j = 4096;
                }
            }
    }
    pthread_join(thread, NULL);
    printf("reset in the middle: five calls done\n");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "all";
    setvbuf(stdout, NULL, _IOLBF, 0);
    const struct product first = product(2048);
    for (int i = 0; i < 3; i++)
        multiply(&first); /* the device starts */
    usleep(200000);
    if (!strcmp(what, "all") || !strcmp(what, "alone"))
        alone();
    if (!strcmp(what, "all") || !strcmp(what, "beside"))
        beside();
    if (!strcmp(what, "all") || !strcmp(what, "long"))
        long_ones();
    if (!strcmp(what, "all") || !strcmp(what, "many"))
        many();
    if (!strcmp(what, "all") || !strcmp(what, "asleep"))
        asleep();
    if (!strcmp(what, "all") || !strcmp(what, "reset"))
        reset_midway();
    printf("%d failures\n", failures);
    return failures != 0;
}
