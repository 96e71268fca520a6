/* SPDX-License-Identifier: BSD-3-Clause
 * The host runs out: the n-th malloc, mmap, thread, ... of the library fails, for n = 1, 2, 3 ...
 * until none does, and then the n-th and all later ones. Every time the result is right, the call
 * after it too, and nothing is lost. The functions are wrapped by the linker; each attempt is a
 * process of its own. */
#include "../../fallback/fallback.h"
#include "../../src/device.h"
#include "../../src/pool.h"
#include "../../src/run.h"
#include "dev_sim.h"
#include "product.h"
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- The wrappers --- */

static atomic_long left; /* until one fails */
static atomic_bool armed, for_good, fired;
static atomic_long alive; /* what malloc and its like gave and free has not got back */

static bool fails(void)
{
    if (!atomic_load(&armed))
        return false;
    const long n = atomic_fetch_sub(&left, 1);
    const bool fail = n == 1 || (n < 1 && atomic_load(&for_good));
    if (fail) {
        atomic_store(&fired, true);
        errno = ENOMEM;
    }
    return fail;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *at, size_t bytes);
void __real_free(void *at);
char *__real_strdup(const char *text);
void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *),
                          void *arg);
FILE *__real_fopen(const char *path, const char *mode);
DIR *__real_opendir(const char *path);

static void *counted(void *memory)
{
    atomic_fetch_add(&alive, memory != NULL);
    return memory;
}

void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : counted(__real_malloc(bytes));
}

/* The simulated device's own, which never fails. */
void *__real_aligned_alloc(size_t unit, size_t bytes);
void *__wrap_aligned_alloc(size_t unit, size_t bytes);
void *__wrap_aligned_alloc(size_t unit, size_t bytes)
{
    return counted(__real_aligned_alloc(unit, bytes));
}

void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : counted(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *at, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes)
{
    if (fails())
        return NULL;
    return at ? __real_realloc(at, bytes) : counted(__real_realloc(at, bytes));
}

char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : counted(__real_strdup(text));
}

void __wrap_free(void *at);
void __wrap_free(void *at)
{
    atomic_fetch_sub(&alive, at != NULL);
    __real_free(at);
}

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    return fails() ? MAP_FAILED : __real_mmap(at, bytes, protection, flags, fd, offset);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *),
                          void *arg)
{
    return fails() ? EAGAIN : __real_pthread_create(thread, attr, body, arg);
}

FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
    return fails() ? NULL : __real_fopen(path, mode);
}

DIR *__wrap_opendir(const char *path);
DIR *__wrap_opendir(const char *path)
{
    return fails() ? NULL : __real_opendir(path);
}

/* --- The attempts --- */

enum { RIGHT_FIRED = 10, RIGHT_UNTOUCHED = 11, WRONG = 20, WRONG_LATER = 21, LOST = 22 };

static const struct tb_cpu none;

static const struct {
    const char *name, *caller, *verify, *trace;
    struct spec spec;
    bool may_lose; /* with operands on a device and no memory at all there is no way */
} cases[] = {
    {.name = "on the caller's stack",
     .caller = "1",
     .verify = "0",
     .trace = "",
     .spec = {.ab = TB_F64, .c = TB_F64, .m = 9, .n = 8, .k = 7}},
    {.name = "in tiles",
     .caller = "0",
     .verify = "0",
     .trace = "",
     .spec = {.ab = TB_F64, .c = TB_F64, .m = 30, .n = 21, .k = 12, .gap = 1}},
    {.name = "a batch by lists, traced",
     .caller = "0",
     .verify = "0",
     .trace = "/dev/null",
     .spec = {.ab = TB_C32, .c = TB_C32, .m = 5, .n = 6, .k = 7, .batch = 40, .lists = true}},
    {.name = "16 bits, checked",
     .caller = "0",
     .verify = "1",
     .trace = "",
     .spec = {.ab = TB_F16, .c = TB_F32, .m = 20, .n = 21, .k = 5}},
    {.name = "operands on the device, checked",
     .caller = "0",
     .verify = "1",
     .trace = "",
     .may_lose = true,
     .spec = {.ab = TB_F64,
              .c = TB_F64,
              .m = 20,
              .n = 21,
              .k = 5,
              .where = {TB_DEVICE, TB_HOST_PAGEABLE, TB_DEVICE}}},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static bool one_call(struct product *p)
{
    struct tb_call call = p->call;
    const bool done = run_enter(&call).fn == NULL;
    atomic_store(&armed, false);
    return done && product_right(p);
}

/* A process: sets things up, lets the n-th attempt fail. `balance` gets what is alive at the end.
 */
static int attempt(int which, long n, bool ever, long *balance)
{
    struct product p;
    struct spec spec = cases[which].spec;
    setenv("TILEBLAS_SIM_INLINE", cases[which].caller, 1);
    setenv("TILEBLAS_VERIFY", cases[which].verify, 1);
    setenv("TILEBLAS_TRACE", cases[which].trace, 1);
    spec.ta = 'N';
    spec.tb = 'T';
    spec.alpha = -1;
    spec.beta = 2;
    spec.seed = (unsigned)n;
    product_open(&p, &spec);
    p.call.cpu = &none;
    run_setup();
    struct product first;
    for (int i = 0; i < 3; i++)
        spec.where[i] = TB_HOST_PAGEABLE;
    product_open(&first, &spec);
    first.call.cpu = &none;
    if (!fallback_call(&first.call)) /* the CPU library is found: what follows needs it */
        return 77;
    product_close(&first);
    atomic_store(&alive, 0);
    atomic_store(&left, n);
    atomic_store(&for_good, ever);
    atomic_store(&armed, true);
    const bool right = one_call(&p);
    if (!right && !(ever && cases[which].may_lose))
        return WRONG;
    product_reset(&p);
    if (!one_call(&p))
        return WRONG_LATER;
    if (device_state() == TB_DEVICE_READY) {
        pool_close();
        tb_dev()->close();
    }
    *balance = atomic_load(&alive);
    product_close(&p);
    return atomic_load(&fired) ? RIGHT_FIRED : RIGHT_UNTOUCHED;
}

static int in_a_child(int which, long n, bool ever, long *balance)
{
    int ends[2], status = 0;
    fflush(NULL);
    if (pipe(ends) != 0)
        return WRONG;
    const pid_t child = fork();
    if (child == 0) {
        long mine = 0;
        alarm(120);
        const int result = attempt(which, n, ever, &mine);
        if (write(ends[1], &mine, sizeof mine) != sizeof mine)
            _exit(WRONG);
        _exit(result);
    }
    close(ends[1]);
    *balance = -1;
    if (read(ends[0], balance, sizeof *balance) != sizeof *balance)
        *balance = -1;
    close(ends[0]);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A process of the thread sanitizer takes a second: every eighth place there. */
#ifdef __SANITIZE_THREAD__
enum { STEP = 8 };
#else
enum { STEP = 1 };
#endif

static int countdown(int which, bool ever)
{
    long usual, balance, n = 1;
    int bad = 0, result = in_a_child(which, 0, false, &usual);
    if (result != RIGHT_UNTOUCHED) {
        fprintf(stderr, "%s: status %d without a failure\n", cases[which].name, result);
        return 1;
    }
    for (result = RIGHT_FIRED; result != RIGHT_UNTOUCHED && n < 2000; n += STEP) {
        result = in_a_child(which, n, ever, &balance);
        if (result != RIGHT_FIRED && result != RIGHT_UNTOUCHED)
            fprintf(stderr, "%s, %ld%s: status %d\n", cases[which].name, n, ever ? " on" : "",
                    result);
        else if (balance > usual) /* where the device never came up there may be less */
            fprintf(stderr, "%s, %ld%s: %ld pieces of memory at the end, not %ld\n",
                    cases[which].name, n, ever ? " on" : "", balance, usual);
        else
            continue;
        if (++bad > 5)
            break;
    }
    fprintf(stderr, "%s: %ld places%s, %d bad\n", cases[which].name, n - 2,
            ever ? ", for good" : "", bad);
    return bad + (n < 4);
}

int main(void)
{
    int bad = 0;
    setenv("TILEBLAS_SIM_TILE", "8", 1);
    setenv("TILEBLAS_SIM_CHUNK", "512", 1);
    setenv("TILEBLAS_SIM_MEMORY", "4000000", 1);
    setenv("TILEBLAS_THREADS", "6", 1);
    setenv("TILEBLAS_ROUTE", "gpu", 1);
    for (int which = 0; which < CASES; which++)
        for (int ever = 0; ever < 2; ever++)
            bad += countdown(which, ever);
    return bad != 0;
}
