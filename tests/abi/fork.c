/* SPDX-License-Identifier: BSD-3-Clause
 * Products before, during and after fork: parent first, child first, children of children, with a
 * small and a large size each, every process under alarm(). A child that hangs or is wrong fails
 * the test. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *,
            const double *, const int *, const double *, const int *, const double *, double *,
            const int *);

static int product_wrong(int n)
{
    const size_t count = (size_t)n * (size_t)n;
    double *const a = malloc(count * sizeof *a), *const c = malloc(count * sizeof *c);
    const double one = 1, zero = 0;
    for (size_t i = 0; i < count; i++)
        a[i] = (double)(i % 7) - 3;
    dgemm_("N", "T", &n, &n, &n, &one, a, &n, a, &n, &zero, c, &n);
    int wrong = 0;
    for (int q = 0; q < 50; q++) {
        const size_t i = (size_t)(q * 131 % n), j = (size_t)(q * 71 % n);
        double sum = 0;
        for (size_t l = 0; l < (size_t)n; l++)
            sum += a[l * (size_t)n + i] * a[l * (size_t)n + j];
        wrong += c[j * (size_t)n + i] != sum;
    }
    free(a);
    free(c);
    return wrong;
}

static int both_wrong(void)
{
    return product_wrong(5) + product_wrong(300);
}

/* Runs `job` in a child; what it returns is the child's exit status, by _exit as pool workers
 * leave. */
static int in_child(const char *what, int (*job)(void))
{
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(20);
        _exit(job() != 0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    fprintf(stderr, "%s: %s %d\n", what, WIFSIGNALED(status) ? "signal" : "status",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return 1;
}

static int grandchild(void)
{
    return both_wrong() + in_child("grandchild", both_wrong) + both_wrong();
}

static int silent_child(void)
{
    return 0;
}

static int detached(void)
{
    if (daemon(1, 1) != 0)
        return 0;
    _exit(both_wrong() != 0);
}

int main(int argc, char **argv)
{
    alarm(120);
    int wrong = 0;
    if (argc > 1 && strcmp(argv[1], "child-first") == 0)
        wrong += in_child("child before the first call", both_wrong);
    wrong += both_wrong();
    wrong += in_child("child", both_wrong);
    wrong += in_child("child that forks", grandchild);
    wrong += in_child("child that calls nothing", silent_child);
    wrong += in_child("daemon", detached);
    wrong += both_wrong();
    for (int i = 0; i < 8; i++)
        wrong += in_child("one of many", both_wrong);
    wrong += both_wrong();
    return wrong != 0;
}
