/* SPDX-License-Identifier: BSD-3-Clause
 * The CUDA backend and the device of the process on a real GPU: copies, order, launches, errors,
 * faults, resets, forks and exits. Each case is a process of its own (the program runs itself with
 * the name of the case), since a fault ends the context of the process that meets it. Exit status
 * 77: no GPU. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "../../src/dev.h"
#include "../../src/device.h"
#include "../../src/kernel.h"

#define CHECK(WHAT)                                                                                \
    do {                                                                                           \
        if (!(WHAT)) {                                                                             \
            printf("  %s:%d: %s does not hold (state %d, %s; last error: %s)\n", __FILE__,         \
                   __LINE__, #WHAT, (int)device_state(), device_why_not(),                         \
                   tb_dev()->last_error());                                                        \
            fflush(stdout);                                                                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)
#define OK(CALL) CHECK((CALL) == TB_OK)

#define SECOND   INT64_C(1000000000)

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void up(void)
{
    CHECK(device_start(60 * SECOND) == TB_DEVICE_READY);
    OK(tb_dev()->bind());
}

static int status_of(pid_t child)
{
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Memory as the library pins it: a mapping of its own. */
static void *ring(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    OK(tb_dev()->pin(memory, bytes));
    return memory;
}

static void unring(void *memory, size_t bytes)
{
    OK(tb_dev()->unpin(memory));
    munmap(memory, bytes);
}

static void finish(struct tb_lane *lane)
{
    struct tb_event *event;
    OK(tb_dev()->event_open(&event));
    OK(tb_dev()->record(event, lane));
    OK(tb_dev()->sync(event));
    tb_dev()->event_close(event);
}

/* --- facts and memory ----------------------------------------------------------------------------
 */

static void facts(void)
{
    char uuid[33];
    double begin = now_ms();
    CHECK(device_start(0) == TB_DEVICE_STARTING);
    double returned = now_ms();
    up();
    const struct tb_caps *caps = device_caps();
    printf(
        "  %s, cc %d, %d SMs, %d MHz, fp64 1:%d, %d bytes of shared memory, %zu of %zu MiB free, "
        "driver %d\n  start: returned after %.2f ms, ready after %.0f ms\n",
        caps->name, caps->cc, caps->sms, caps->clock_mhz, caps->fp64_ratio, caps->smem_block,
        caps->mem_free >> 20, caps->mem_total >> 20, caps->driver, returned - begin,
        now_ms() - begin);
    CHECK(caps->cc >= 75 && caps->sms > 0 && caps->clock_mhz > 100 && caps->fp64_ratio > 0);
    CHECK(caps->smem_block >= 48 << 10 && caps->mem_free > 0 && caps->mem_free <= caps->mem_total);
    OK(tb_dev()->uuid(0, uuid));
    CHECK(strlen(uuid) == 32 && strspn(uuid, "0123456789abcdef") == 32);
    OK(tb_dev()->check());
}

/* Runs go up with one pair of pitches and come back with another; nothing between them is touched.
 */
static void there_and_back(size_t width, size_t rows, size_t pitch, size_t device_pitch)
{
    const size_t bytes = (rows + 1) * (pitch > device_pitch ? pitch : device_pitch) + 64;
    unsigned char *src = ring(bytes), *image = ring(bytes), *dst = ring(bytes);
    struct tb_lane *lane;
    tb_dptr ptr;
    for (size_t i = 0; i < bytes; i++)
        src[i] = (unsigned char)(i * 7 + i / 251 + 1);
    memset(dst, 0xee, bytes);
    memset(image, 0x11, bytes);
    OK(tb_dev()->alloc(bytes, &ptr));
    OK(tb_dev()->lane_open(&lane, true));
    OK(tb_dev()->fill0(lane, ptr, bytes));
    OK(tb_dev()->h2d(lane, ptr, src, (struct tb_copy){width, rows, device_pitch, pitch}));
    OK(tb_dev()->d2h(lane, image, ptr, (struct tb_copy){bytes, 1, bytes, bytes}));
    OK(tb_dev()->d2h(lane, dst, ptr, (struct tb_copy){width, rows, pitch, device_pitch}));
    finish(lane);
    for (size_t i = 0; i < bytes; i++) {
        size_t run = i / pitch, at = i % pitch;
        CHECK(dst[i] == (run < rows && at < width ? src[i] : 0xee));
        run = i / device_pitch, at = i % device_pitch;
        CHECK(image[i] == (run < rows && at < width ? src[run * pitch + at] : 0));
    }
    tb_dptr other;
    OK(tb_dev()->alloc(bytes, &other)); /* and once more, within the device */
    OK(tb_dev()->fill0(lane, other, bytes));
    OK(tb_dev()->d2d(lane, other, ptr, (struct tb_copy){width, rows, pitch, device_pitch}));
    OK(tb_dev()->d2h(lane, image, other, (struct tb_copy){bytes, 1, bytes, bytes}));
    finish(lane);
    for (size_t i = 0; i < bytes; i++)
        CHECK(image[i] == (i / pitch < rows && i % pitch < width ? src[i] : 0));
    OK(tb_dev()->free(other));
    tb_dev()->lane_close(lane);
    OK(tb_dev()->free(ptr));
    unring(src, bytes);
    unring(image, bytes);
    unring(dst, bytes);
}

static void copies(void)
{
    up();
    there_and_back(1, 1, 1, 1);
    there_and_back(37, 11, 53, 64);
    there_and_back(4096, 300, 4096, 4096);
    there_and_back(4001, 301, 4099, 4007);
    there_and_back(8 * 777, 513, 8 * 1001, 8 * 784);
    there_and_back(100003, 1, 100003, 100003);
    there_and_back(64, 5000, 65, 128);
}

/* A leading dimension whose pitch is above what the driver takes in one rectangle. */
static void far_apart(void)
{
    const size_t pitch = ((size_t)3 << 30) + 8, width = 24, rows = 2;
    up();
    char *far = mmap(NULL, pitch + 4096, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char back[48] = "";
    struct tb_lane *lane;
    tb_dptr ptr;
    CHECK(far != MAP_FAILED);
    memcpy(far, "the first run of bytes ..", width);
    memcpy(far + pitch, "the second one, far away ", width);
    OK(tb_dev()->alloc(48, &ptr));
    OK(tb_dev()->lane_open(&lane, false));
    OK(tb_dev()->h2d(lane, ptr, far, (struct tb_copy){width, rows, width, pitch}));
    OK(tb_dev()->d2h(lane, back, ptr, (struct tb_copy){48, 1, 48, 48}));
    finish(lane);
    CHECK(!memcmp(back, far, width) && !memcmp(back + width, far + pitch, width));
    tb_dev()->lane_close(lane);
}

static void memory_runs_out(void)
{
    tb_dptr ptr = 1;
    size_t before, after;
    up();
    OK(tb_dev()->mem_free(&before));
    CHECK(tb_dev()->alloc(before + ((size_t)1 << 30), &ptr) == TB_NO_MEMORY && ptr == 0);
    CHECK(strstr(tb_dev()->last_error(), "cuMemAlloc: out of memory"));
    OK(tb_dev()->check());
    there_and_back(37, 11, 53, 64);
    OK(tb_dev()->alloc((size_t)256 << 20, &ptr));
    OK(tb_dev()->mem_free(&after));
    CHECK(after + ((size_t)200 << 20) < before);
    OK(tb_dev()->free(ptr));
    CHECK(device_state() == TB_DEVICE_READY);
}

/* --- where a pointer points ----------------------------------------------------------------------
 */

static void *driver_symbol(const char *name)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *fn = handle ? dlsym(handle, name) : NULL;
    CHECK(fn);
    return fn;
}

static enum tb_where where(const void *ptr)
{
    enum tb_where out;
    OK(tb_dev()->where(ptr, &out));
    return out;
}

struct pointers {
    const void *plain, *pinned, *device, *managed;
};

static void *ask_everywhere(void *data)
{
    const struct pointers *p = data;
    CHECK(where(p->plain) == TB_HOST_PAGEABLE);
    CHECK(where(p->pinned) == TB_HOST_PINNED);
    CHECK(where(p->device) == TB_DEVICE);
    CHECK(where(p->managed) == TB_MANAGED);
    return NULL;
}

static void ask_on_a_thread(struct pointers *p)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, ask_everywhere, p) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void pointers(void)
{
    int (*managed)(tb_dptr *, size_t, unsigned);
    tb_dptr ptr, shared;
    up();
    *(void **)&managed = driver_symbol("cuMemAllocManaged");
    OK(tb_dev()->alloc(4096, &ptr));
    CHECK(managed(&shared, 4096, 1) == 0);
    char *pinned = ring(8192);
    struct pointers p = {&ptr, pinned + 5000, (void *)(uintptr_t)(ptr + 4095),
                         (void *)(uintptr_t)(shared + 100)};
    ask_everywhere(&p);
    ask_on_a_thread(&p); /* one with no context of its own */
    const int rounds = 100000;
    double begin = now_ms();
    for (int i = 0; i < rounds; i++)
        (void)where(&p);
    printf("  a question about pageable memory takes %.0f ns\n", (now_ms() - begin) * 1e6 / rounds);
}

/* The program uses CUDA, the library has not started. */
static void pointers_of_program(void)
{
    int (*init)(unsigned), (*retain)(void **, int), (*current)(void *);
    int (*alloc)(tb_dptr *, size_t), (*pin)(void *, size_t, unsigned);
    static char memory[8192];
    void *context;
    tb_dptr ptr;
    CHECK(where(memory) == TB_HOST_PAGEABLE);
    *(void **)&init = driver_symbol("cuInit");
    CHECK(where(memory) == TB_HOST_PAGEABLE); /* loaded, not initialized */
    *(void **)&retain = driver_symbol("cuDevicePrimaryCtxRetain");
    *(void **)&current = driver_symbol("cuCtxSetCurrent");
    *(void **)&alloc = driver_symbol("cuMemAlloc_v2");
    *(void **)&pin = driver_symbol("cuMemHostRegister_v2");
    CHECK(init(0) == 0 && retain(&context, 0) == 0 && current(context) == 0);
    CHECK(alloc(&ptr, 4096) == 0 && pin(memory, sizeof memory, 0) == 0);
    CHECK(where((void *)(uintptr_t)ptr) == TB_DEVICE && where(memory + 17) == TB_HOST_PINNED);
    CHECK(where(&ptr) == TB_HOST_PAGEABLE && device_state() == TB_DEVICE_UNTRIED);
}

/* --- kernels and order ---------------------------------------------------------------------------
 */

enum { M = 150, N = 133, K = 71, LDA = 157, LDB = 149, LDC = 151, COLS = 160 };

static double element(const void *x, bool wide, int64_t i)
{
    return wide ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

static void put(void *x, bool wide, int64_t i, double value)
{
    if (wide)
        ((double *)x)[i] = value;
    else
        ((float *)x)[i] = (float)value;
}

/* alpha op(A) op(B) + beta C by row `index`, against a plain sum in double. */
static void product(int index)
{
    const struct tb_kernel *row = kernel_row(index);
    const bool wide = row->ab == TB_F64;
    const size_t size = wide ? 8 : 4, bytes = (size_t)LDA * COLS * size;
    char *host[3];
    tb_dptr ptr[3];
    struct tb_lane *lane;
    OK(tb_dev()->lane_open(&lane, false));
    for (int x = 0; x < 3; x++) {
        host[x] = ring(bytes);
        OK(tb_dev()->alloc(bytes, &ptr[x]));
        for (int64_t i = 0; i < LDA * COLS; i++)
            put(host[x], wide, i, (double)((i * 37 + x * 11) % 101) / 50 - 1);
        OK(tb_dev()->h2d(lane, ptr[x], host[x], (struct tb_copy){bytes, 1, bytes, bytes}));
    }
    struct tb_gemm_params params = {.a = ptr[0],
                                    .b = ptr[1],
                                    .c = ptr[2],
                                    .m = M,
                                    .n = N,
                                    .k = K,
                                    .lda = LDA,
                                    .ldb = LDB,
                                    .ldc = LDC,
                                    .batch = 1,
                                    .alpha = {0.5, 0},
                                    .beta = {-2, 0},
                                    .op_a = row->ta ? TB_KOP_T : TB_KOP_N,
                                    .op_b = row->tb ? TB_KOP_T : TB_KOP_N};
    char *got = ring(bytes);
    OK(tb_dev()->launch(lane, index, &params));
    OK(tb_dev()->d2h(lane, got, ptr[2], (struct tb_copy){bytes, 1, bytes, bytes}));
    finish(lane);
    double worst = 0;
    for (int64_t i = 0; i < LDA * COLS; i++) {
        const int64_t r = i % LDC, c = i / LDC;
        double want = element(host[2], wide, i), size_of_sum = 0;
        if (r < M && c < N) {
            double sum = 0;
            for (int64_t k = 0; k < K; k++) {
                double a = element(host[0], wide, row->ta ? k + r * LDA : r + k * LDA);
                double b = element(host[1], wide, row->tb ? c + k * LDB : k + c * LDB);
                sum += a * b;
                size_of_sum += fabs(a * b);
            }
            size_of_sum = 0.5 * size_of_sum + 2 * fabs(want);
            want = 0.5 * sum - 2 * want;
        }
        const double off = fabs(element(got, wide, i) - want);
        CHECK(off <= size_of_sum * (wide ? 1e-14 : 4e-7)); /* outside of C: not a bit */
        worst = fmax(worst, size_of_sum > 0 ? off / size_of_sum : 0);
    }
    printf("  %-16s worst error %.1e\n", row->name, worst);
    for (int x = 0; x < 3; x++) {
        OK(tb_dev()->free(ptr[x]));
        unring(host[x], bytes);
    }
    unring(got, bytes);
    tb_dev()->lane_close(lane);
}

static bool can_test(int index)
{
    const struct tb_kernel *row = kernel_row(index);
    const int cc = device_caps()->cc;
    return row->family != TB_TRI && (row->ab == TB_F32 || row->ab == TB_F64) && row->cc_min <= cc &&
           cc <= row->cc_max;
}

static void launches(void)
{
    int done = 0;
    up();
    for (int i = 0; i < kernel_count(); i++)
        if (can_test(i)) {
            product(i);
            done++;
        }
    CHECK(done > 0);
    struct tb_lane *lane;
    struct tb_gemm_params params = {.m = 1, .n = 1, .k = 1, .batch = 1};
    OK(tb_dev()->lane_open(&lane, false));
    CHECK(tb_dev()->launch(lane, -1, &params) == TB_NO_KERNEL);
    CHECK(tb_dev()->launch(lane, kernel_count(), &params) == TB_NO_KERNEL);
    tb_dev()->lane_close(lane);
}

/* A long chain on one lane; the other must not fetch before the event behind it. */
static void order(void)
{
    const size_t bytes = (size_t)128 << 20;
    struct tb_lane *first, *second;
    struct tb_event *done;
    tb_dptr ptr;
    up();
    unsigned *a = ring(bytes), *b = ring(bytes), *got = ring(bytes);
    memset(a, 0x5a, bytes);
    for (size_t i = 0; i < bytes / 4; i++)
        b[i] = (unsigned)i * 2654435761u;
    OK(tb_dev()->alloc(bytes, &ptr));
    OK(tb_dev()->lane_open(&first, false));
    OK(tb_dev()->lane_open(&second, true));
    OK(tb_dev()->event_open(&done));
    const struct tb_copy all = {bytes, 1, bytes, bytes};
    for (int round = 0; round < 3; round++) {
        memset(got, 0, bytes);
        double begin = now_ms();
        for (int i = 0; i < 5; i++)
            OK(tb_dev()->h2d(first, ptr, a, all));
        OK(tb_dev()->h2d(first, ptr, b, all));
        OK(tb_dev()->record(done, first));
        OK(tb_dev()->wait(second, done));
        OK(tb_dev()->d2h(second, got, ptr, all));
        double issued = now_ms() - begin;
        finish(second);
        CHECK(!memcmp(got, b, bytes));
        printf("  issued in %.2f ms, done after %.1f ms\n", issued, now_ms() - begin);
    }
    OK(tb_dev()->sync(done));
    tb_dev()->event_close(done);
    tb_dev()->lane_close(first);
    tb_dev()->lane_close(second);
}

/* --- faults --------------------------------------------------------------------------------------
 */

static void illegal_address(void)
{
    struct tb_lane *lane;
    struct tb_event *event;
    struct tb_gemm_params params = {.a = 0x1000,
                                    .b = 0x2000,
                                    .c = 0x3000,
                                    .m = 64,
                                    .n = 64,
                                    .k = 64,
                                    .lda = 64,
                                    .ldb = 64,
                                    .ldc = 64,
                                    .batch = 1,
                                    .alpha = {1, 0},
                                    .beta_zero = 1};
    int row = 0;
    tb_dptr ptr;
    up();
    while (row < kernel_count() && !can_test(row))
        row++;
    CHECK(row < kernel_count());
    OK(tb_dev()->lane_open(&lane, false));
    OK(tb_dev()->event_open(&event));
    OK(tb_dev()->launch(lane, row, &params));
    enum tb_status status = tb_dev()->record(event, lane);
    if (status == TB_OK)
        status = tb_dev()->sync(event);
    CHECK(status == TB_DEVICE_FAULT && strstr(tb_dev()->last_error(), "illegal"));
    printf("  %s\n", tb_dev()->last_error());
    CHECK(tb_dev()->check() == TB_DEVICE_FAULT);
    CHECK(tb_dev()->alloc(100, &ptr) == TB_DEVICE_FAULT);
    device_fault(status, "launch", true);
    CHECK(device_state() == TB_DEVICE_DEAD && device_caps() == NULL);
    printf("  %s\n", device_why_not());
}

static void reset_by_program(void)
{
    int (*reset)(int), (*retain)(void **, int);
    void *context;
    up();
    OK(tb_dev()->check());
    *(void **)&reset = driver_symbol("cuDevicePrimaryCtxReset_v2");
    *(void **)&retain = driver_symbol("cuDevicePrimaryCtxRetain");
    CHECK(reset(0) == 0);
    CHECK(tb_dev()->check() == TB_DEVICE_FAULT);
    printf("  %s\n", tb_dev()->last_error());
    CHECK(retain(&context, 0) == 0);
    CHECK(tb_dev()->check() == TB_DEVICE_FAULT);
    printf("  %s\n", tb_dev()->last_error());
    tb_dev()->close();
}

/* --- fork and exit -------------------------------------------------------------------------------
 */

static int in_child(void)
{
    alarm(20);
    return device_state() == TB_DEVICE_FORKED && device_start(SECOND) == TB_DEVICE_FORKED ? 3 : 9;
}

static void forks(void)
{
    CHECK(device_start(0) == TB_DEVICE_STARTING);
    for (int i = 0; i < 20; i++) { /* during the start, whatever the driver is doing */
        pid_t child = fork();
        if (child == 0)
            exit(in_child());
        CHECK(status_of(child) == 3);
        usleep(10000);
    }
    up();
    pid_t child = fork();
    if (child == 0)
        exit(in_child());
    CHECK(status_of(child) == 3);
    there_and_back(37, 11, 53, 64);
    product(0);
}

static void fork_first(void)
{
    pid_t child = fork();
    if (child == 0) {
        up();
        there_and_back(37, 11, 53, 64);
        exit(4);
    }
    CHECK(status_of(child) == 4);
    up();
}

/* 200 programs that end while the device starts, at every moment of it: each keeps its status. */
static void exits(void)
{
    enum { PROGRAMS = 200, AT_ONCE = 10 };
    int wrong = 0, ready = 0;
    for (int i = 0; i < PROGRAMS; i += AT_ONCE) {
        pid_t child[AT_ONCE];
        for (int j = 0; j < AT_ONCE; j++) {
            child[j] = fork();
            if (child[j] == 0) {
                alarm(60);
                device_start(0);
                usleep((useconds_t)(i + j) * 2000);
                exit(device_state() == TB_DEVICE_READY ? 8 : 7);
            }
        }
        for (int j = 0; j < AT_ONCE; j++) {
            int status = status_of(child[j]);
            ready += status == 8;
            if (status != 7 && status != 8) {
                printf("  after %d ms: status %d\n", (i + j) * 2, status);
                wrong++;
            }
        }
    }
    printf("  %d programs, %d were past the start, %d lost their status\n", (int)PROGRAMS, ready,
           wrong);
    CHECK(wrong == 0);
}

/* --- the table -----------------------------------------------------------------------------------
 */

static const struct {
    const char *name;
    void (*run)(void);
} tests[] = {
    {"facts", facts},
    {"copies", copies},
    {"far_apart", far_apart},
    {"memory_runs_out", memory_runs_out},
    {"pointers", pointers},
    {"pointers_of_program", pointers_of_program},
    {"launches", launches},
    {"order", order},
    {"illegal_address", illegal_address},
    {"reset_by_program", reset_by_program},
    {"forks", forks},
    {"fork_first", fork_first},
    {"exits", exits},
};

enum { TESTS = sizeof tests / sizeof tests[0] };

static int run(const char *self, const char *name)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(90);
        execl(self, self, name, (char *)NULL);
        _exit(126);
    }
    return status_of(child);
}

static void probe(void)
{
    if (device_start(60 * SECOND) != TB_DEVICE_READY) {
        printf("no GPU: %s\n", device_why_not());
        exit(77);
    }
}

int main(int argc, char **argv)
{
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    int failed = 0;
    if (length <= 0 || !tb_dev())
        return length <= 0 ? 1 : 77;
    self[length] = 0;
    if (argc == 2 && !strcmp(argv[1], "probe"))
        probe();
    for (int i = 0; argc == 2 && i < TESTS; i++)
        if (!strcmp(tests[i].name, argv[1]))
            tests[i].run();
    if (argc == 2)
        return 0;
    if (run(self, "probe") == 77)
        return 77;
    for (int i = 0; i < TESTS; i++) {
        double begin = now_ms();
        int status = run(self, tests[i].name);
        printf("%s %s (%.1f s)\n", status == 0 ? "ok  " : "FAIL", tests[i].name,
               (now_ms() - begin) / 1e3);
        if (status != 0)
            printf("  status %d\n", status);
        failed += status != 0;
    }
    printf("%d of %d failed\n", failed, (int)TESTS);
    return failed != 0;
}
