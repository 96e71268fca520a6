/* SPDX-License-Identifier: BSD-3-Clause
 * The device of the process (device.c) on the CUDA backend (dev_cuda.c, driver.c) over a stand-in
 * for the driver (tests/abi/fake_cuda.c; its folder in TB_FAKE_CUDA, default tests/abi/fake). A
 * plain program, as it is about forks, threads and exits. Each case is one process of its own, with
 * its own environment: the program runs itself with the name of the case. Exit status 0: all
 * passed. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "../../src/dev.h"
#include "../../src/device.h"
#include "../../src/kernel.h"
#include "../../src/run.h"

#define CHECK(WHAT)                                                                                \
    do {                                                                                           \
        if (!(WHAT)) {                                                                             \
            fprintf(stderr, "%s:%d: %s does not hold (state %d, %s)\n", __FILE__, __LINE__, #WHAT, \
                    (int)device_state(), device_why_not());                                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#define SECOND INT64_C(1000000000)

/* The table of kernels and its images, where they are not linked in: the stand-in runs none. */
#define IMAGE(NAME)                                                                                \
    __attribute__((weak, visibility("hidden"))) const unsigned char tb_image_##NAME[1];            \
    __attribute__((weak, visibility("hidden"))) const unsigned char tb_image_##NAME##_end[1];
#include "../../kernels/images.def"
#undef IMAGE

static const struct tb_kernel plain_row = {"plain", TB_IMAGE_F32, TB_F32, TB_F32,  false, false,
                                           64,      64,           16,     256,     65536, 2,
                                           100,     80,           999,    TB_SIMT, 1};

__attribute__((weak)) int kernel_count(void)
{
    return 1;
}
__attribute__((weak)) const struct tb_kernel *kernel_row(int i)
{
    (void)i;
    return &plain_row;
}
__attribute__((weak)) int kernel_refit(const struct tb_caps *caps, int kernel,
                                       const struct tb_gemm_params *params, const bool *barred)
{
    (void)caps;
    (void)params;
    return kernel == 0 && !barred[0] ? 0 : -1;
}
__attribute__((weak)) int kernel_parts(int kernel, const struct tb_caps *caps,
                                       const struct tb_gemm_params *params,
                                       struct tb_part parts[TB_PARTS_MAX])
{
    parts[0].row = kernel;
    kernel_launch(kernel_row(kernel), caps, params, &parts[0].launch);
    return 1;
}
__attribute__((weak)) size_t kernel_cleared(const struct tb_kernel *kernel,
                                            const struct tb_gemm_params *params)
{
    (void)kernel;
    (void)params;
    return 0;
}
__attribute__((weak)) void kernel_launch(const struct tb_kernel *kernel, const struct tb_caps *caps,
                                         const struct tb_gemm_params *params, struct tb_launch *out)
{
    (void)kernel;
    (void)caps;
    (void)params;
    *out = (struct tb_launch){.grid = {1, 1, 1}, .cluster = 1};
}
__attribute__((weak)) int32_t kernel_maps(const struct tb_kernel *kernel,
                                          const struct tb_gemm_params *params,
                                          struct tb_map maps[3])
{
    (void)kernel;
    (void)params;
    memset(maps, 0, 3 * sizeof *maps);
    return 0;
}

/* The backend asks for the device nodes; this machine may have none. */
int access(const char *path, int mode)
{
    if (!strcmp(path, "/dev/nvidiactl"))
        return getenv("TEST_NO_NODE") ? -1 : 0;
    if (getenv("TEST_NO_NODE") && (!strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6)))
        return -1;
    return faccessat(AT_FDCWD, path, mode, 0);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

/* What this process has worked, in ns: no other program makes it longer. */
static int64_t worked_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

static void sleep_us(long us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    while (nanosleep(&t, &t) != 0)
        ;
}

static void *fake_symbol(const char *name)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    return handle ? dlsym(handle, name) : NULL;
}

static bool fake_is_loaded(void)
{
    return fake_symbol("fake_cuda_calls") != NULL;
}

static int calls(const char *name)
{
    int (*fn)(const char *);
    *(void **)&fn = fake_symbol("fake_cuda_calls");
    return fn ? fn(name) : 0;
}

/* Of the last launch and the last map. */
static int told(const char *name)
{
    int (*fn)(void);
    *(void **)&fn = fake_symbol(name);
    return fn ? fn() : -1;
}

static int thread_count(void)
{
    char line[256];
    int n = -1;
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file);
    while (fgets(line, sizeof line, file))
        sscanf(line, "Threads: %d", &n);
    fclose(file);
    return n;
}

static bool says(const char *what)
{
    return strstr(device_why_not(), what) != NULL;
}

static void check_absent(const char *why, bool loaded)
{
    CHECK(device_start(5 * SECOND) == TB_DEVICE_ABSENT);
    CHECK(says(why));
    CHECK(device_caps() == NULL);
    CHECK(fake_is_loaded() == loaded);
    CHECK(device_start(5 * SECOND) == TB_DEVICE_ABSENT);
}

static void check_ready(const char *name)
{
    CHECK(device_start(5 * SECOND) == TB_DEVICE_READY);
    CHECK(device_caps() != NULL);
    CHECK(!strcmp(device_caps()->name, name));
    CHECK(!*device_why_not());
}

/* Waits for a child; its exit status, 128 + the signal that ended it. */
static int status_of(pid_t child)
{
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* --- absence -------------------------------------------------------------------------------------
 */

static void no_driver(void)
{
    if (dlopen("libcuda.so.1", RTLD_LAZY)) {
        printf("  (no_driver: this machine has a driver, not tried)\n");
        return;
    }
    const int64_t begin = worked_ns();
    CHECK(device_start(5 * SECOND) == TB_DEVICE_ABSENT); /* not waited for: it would be starting */
    CHECK(worked_ns() - begin < SECOND / 20);
    CHECK(says("libcuda.so.1"));
}

static void old_driver(void)
{
    check_absent("12.8", true);
    CHECK(calls("cuDriverGetVersion") == 1 && calls("cuInit") == 0);
}

static void none_allowed(void)
{
    check_absent("TILEBLAS_DEVICES=none", false);
    CHECK(thread_count() == 1);
}

static void none_visible(void)
{
    check_absent("CUDA_VISIBLE_DEVICES", false);
}

static void no_node(void)
{
    check_absent("/dev", true);
    CHECK(calls("cuInit") == 0);
}

static void no_device(void)
{
    check_absent("no CUDA-capable device", true);
    CHECK(calls("cuInit") == 1);
}

static void no_kernels(void)
{
    check_absent("compute capability 3.5", true);
    CHECK(calls("cuDevicePrimaryCtxRetain") == 0);
}

static void open_fails(void)
{
    check_absent("cuMemGetInfo: out of memory", true);
    CHECK(calls("cuDevicePrimaryCtxRetain") == 2 && calls("cuDevicePrimaryCtxRelease") == 2);
    CHECK(calls("cuEventDestroy") == 2);
}

/* --- the start -----------------------------------------------------------------------------------
 */

static void nothing_before(void)
{
    CHECK(device_state() == TB_DEVICE_UNTRIED);
    CHECK(device_caps() == NULL && !*device_why_not());
    device_fault(TB_DEVICE_FAULT, "nothing", true);
    CHECK(device_state() == TB_DEVICE_UNTRIED);
    enum tb_where where = TB_DEVICE;
    int local;
    CHECK(tb_dev()->where(&local, &where) == TB_OK && where == TB_HOST_PAGEABLE);
    CHECK(!fake_is_loaded() && thread_count() == 1);
    check_ready("Fake GPU 0");
    CHECK(fake_is_loaded());
}

static void facts(void)
{
    check_ready("Fake GPU 0");
    const struct tb_caps *caps = device_caps();
    CHECK(caps->cc == 90 && caps->sms == 132 && caps->smem_block == 232448);
    CHECK(caps->fp64_ratio == 2 && caps->clock_mhz == 1980 && caps->driver == 13000);
    CHECK(caps->mem_total == 1 << 30 && caps->mem_free == 1 << 30 && !caps->inline_calls);
}

static void slow_start(void)
{
    const int64_t begin = now_ns();
    CHECK(device_start(0) == TB_DEVICE_STARTING);
    CHECK(device_state() == TB_DEVICE_STARTING && device_caps() == NULL && says("starting"));
    /* A wait that ends before the start does. */
    CHECK(device_start(SECOND / 20) == TB_DEVICE_STARTING);
    CHECK(now_ns() - begin >= SECOND / 20);
    check_ready("Fake GPU 0");
    CHECK(now_ns() - begin >= 2 * SECOND);
}

static void program_handler(int number)
{
    (void)number;
}

static void signals_stay_ours(void)
{
    sigset_t before, after;
    signal(SIGUSR1, program_handler);
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    check_ready("Fake GPU 0");
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    int (*blocked)(void);
    *(void **)&blocked = fake_symbol("fake_cuda_signals_blocked");
    CHECK(blocked && blocked());
    CHECK(sigismember(&before, SIGUSR1) == 0 && sigismember(&after, SIGUSR1) == 0);
}

static void *start_and_wait(void *state)
{
    *(enum tb_device_state *)state = device_start(5 * SECOND);
    return NULL;
}

static void many_callers(void)
{
    enum { CALLERS = 8 };
    pthread_t thread[CALLERS];
    enum tb_device_state state[CALLERS];
    for (int i = 0; i < CALLERS; i++)
        CHECK(pthread_create(&thread[i], NULL, start_and_wait, &state[i]) == 0);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < CALLERS; i++)
        CHECK(state[i] == TB_DEVICE_READY);
    CHECK(calls("cuInit") == 1 && calls("cuDevicePrimaryCtxRetain") == 1);
}

/* 200 programs that end while the device starts, at every moment of it: each keeps its exit status.
 */
static void exit_during_start(void)
{
    enum { PROGRAMS = 200, AT_ONCE = 10 };
    for (int i = 0; i < PROGRAMS; i += AT_ONCE) {
        pid_t child[AT_ONCE];
        for (int j = 0; j < AT_ONCE; j++) {
            child[j] = fork();
            if (child[j] == 0) {
                device_start(0);
                sleep_us((i + j) * 400);
                exit(7);
            }
        }
        for (int j = 0; j < AT_ONCE; j++)
            CHECK(status_of(child[j]) == 7);
    }
}

static enum tb_device_state state_at_exit;
static void note_state(void)
{
    state_at_exit = device_state();
    if (state_at_exit != TB_DEVICE_DEAD || device_start(SECOND) != TB_DEVICE_DEAD ||
        !says("ending"))
        _exit(1);
    _exit(5);
}

/* Registered before the device was started, so it runs after the exit has been noticed. */
static void calls_at_exit(void)
{
    pid_t child = fork();
    if (child == 0) {
        atexit(note_state);
        check_ready("Fake GPU 0");
        exit(0);
    }
    CHECK(status_of(child) == 5);
}

static void start_late(void)
{
    CHECK(device_start(2 * SECOND) == TB_DEVICE_READY);
    fflush(NULL);
}

/* The first call that wants the device comes from an exit handler: nothing hangs or crashes. */
static void start_at_exit(void)
{
    pid_t child = fork();
    if (child == 0) {
        atexit(start_late);
        exit(6);
    }
    CHECK(status_of(child) == 6);
}

/* --- fork ----------------------------------------------------------------------------------------
 */

static void check_alloc(void)
{
    tb_dptr ptr = 0;
    CHECK(tb_dev()->bind() == TB_OK);
    CHECK(tb_dev()->alloc(1000, &ptr) == TB_OK && ptr);
    CHECK(tb_dev()->free(ptr) == TB_OK);
}

static void fork_before(void)
{
    CHECK(device_state() == TB_DEVICE_UNTRIED);
    pid_t child = fork();
    if (child == 0) {
        check_ready("Fake GPU 0");
        check_alloc();
        _exit(3);
    }
    CHECK(status_of(child) == 3);
    check_ready("Fake GPU 0");
    CHECK(calls("cuInit") == 1);
}

/* In a child of a process that used the driver. */
static void check_forked(int calls_of_parent)
{
    alarm(50);
    CHECK(device_state() == TB_DEVICE_FORKED);
    CHECK(device_start(3600 * SECOND) == TB_DEVICE_FORKED); /* at once, or the alarm ends it */
    CHECK(device_caps() == NULL && says("child"));
    device_fault(TB_DEVICE_FAULT, "nothing", true);
    CHECK(device_state() == TB_DEVICE_FORKED);
    CHECK(calls_of_parent < 0 || calls(NULL) == calls_of_parent);
}

static void fork_after(void)
{
    check_ready("Fake GPU 0");
    int before = calls(NULL);
    pid_t child = fork();
    if (child == 0) {
        check_forked(before);
        pid_t grandchild = fork(); /* as daemon() does */
        if (grandchild == 0) {
            check_forked(before);
            exit(4);
        }
        CHECK(status_of(grandchild) == 4);
        exit(3);
    }
    CHECK(status_of(child) == 3);
    check_ready("Fake GPU 0");
    check_alloc();
}

/* No fork handlers run in a child made like this. */
static pid_t raw_clone(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

static void raw_clone_after(void)
{
    check_ready("Fake GPU 0");
    int before = calls(NULL);
    pid_t child = raw_clone();
    if (child == 0) {
        check_forked(before);
        if (raw_clone() == 0) {
            check_forked(before);
            _exit(3);
        }
        int status = 0;
        wait(&status);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
    }
    CHECK(status_of(child) == 3);
    check_alloc();
}

static void fork_during(void)
{
    CHECK(device_start(0) == TB_DEVICE_STARTING);
    for (int i = 0; i < 5; i++) {
        pid_t child = i % 2 ? raw_clone() : fork();
        if (child == 0) {
            check_forked(-1);
            _exit(3);
        }
        CHECK(status_of(child) == 3);
        sleep_us(20000);
    }
    check_ready("Fake GPU 0");
    check_alloc();
}

/* Children are made while other threads of the parent go in and out of the device's lock. */
static void *poll_start(void *unused)
{
    while (device_start(200000) == TB_DEVICE_STARTING)
        ;
    return unused;
}

static void fork_under_lock(void)
{
    enum { POLLERS = 3 };
    pthread_t thread[POLLERS];
    CHECK(device_start(0) == TB_DEVICE_STARTING);
    for (int i = 0; i < POLLERS; i++)
        CHECK(pthread_create(&thread[i], NULL, poll_start, NULL) == 0);
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        if (child == 0) {
            check_forked(-1);
            _exit(3);
        }
        CHECK(status_of(child) == 3);
    }
    for (int i = 0; i < POLLERS; i++)
        pthread_join(thread[i], NULL);
    check_ready("Fake GPU 0");
}

static void fork_absent(void)
{
    check_absent("TILEBLAS_DEVICES=none", false);
    pid_t child = fork();
    if (child == 0) {
        check_absent("TILEBLAS_DEVICES=none", false);
        exit(3);
    }
    CHECK(status_of(child) == 3);
}

/* --- which device --------------------------------------------------------------------------------
 */

static void picks_0(void)
{
    check_ready("Fake GPU 0");
}

static void picks_1(void)
{
    check_ready("Fake GPU 1");
    CHECK(calls("cuDevicePrimaryCtxRetain") == 1);
}

static void picks_2(void)
{
    check_ready("Fake GPU 2");
}

static void picks_3(void)
{
    check_ready("Fake GPU 3");
}

static void names_none(void)
{
    check_absent("TILEBLAS_DEVICES names no GPU", true);
}

static void exclusive_all(void)
{
    check_absent("EXCLUSIVE_PROCESS", true);
    CHECK(calls("cuDevicePrimaryCtxRetain") == 0);
}

/* --- faults --------------------------------------------------------------------------------------
 */

static void faults(void)
{
    check_ready("Fake GPU 0");
    for (int i = 1; i < TB_DEVICE_FAULTS_MAX; i++) {
        device_fault(TB_DEVICE_FAULT, "launch", false);
        CHECK(device_state() == TB_DEVICE_READY && device_caps());
    }
    device_fault(TB_DEVICE_FAULT, "launch", false);
    CHECK(device_state() == TB_DEVICE_DEAD && device_caps() == NULL);
    CHECK(says("3 faults") && says("launch"));
    device_fault(TB_DEVICE_FAULT, "launch again", true);
    CHECK(!says("again") && device_start(SECOND) == TB_DEVICE_DEAD);
}

static void final_fault(void)
{
    check_ready("Fake GPU 0");
    tb_dptr ptr;
    CHECK(tb_dev()->bind() == TB_OK);
    CHECK(tb_dev()->alloc(10, &ptr) == TB_DEVICE_FAULT);
    device_fault(TB_DEVICE_FAULT, "alloc", true);
    CHECK(device_state() == TB_DEVICE_DEAD);
    CHECK(says("1 fault") && says("cuMemAlloc: an illegal memory access") && says("700"));
}

static void *fault_once(void *unused)
{
    device_fault(TB_DEVICE_FAULT, "threads", false);
    return unused;
}

/* Many threads at once meet the same fault: one of them says so. */
static void faults_together(void)
{
    enum { CALLERS = 16 };
    pthread_t thread[CALLERS];
    check_ready("Fake GPU 0");
    for (int i = 0; i < CALLERS; i++)
        CHECK(pthread_create(&thread[i], NULL, fault_once, NULL) == 0);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(thread[i], NULL);
    CHECK(device_state() == TB_DEVICE_DEAD);
}

/* --- the backend on the stand-in -----------------------------------------------------------------
 */

static void memory_runs_out(void)
{
    check_ready("Fake GPU 0");
    tb_dptr ptr = 1, big = 1;
    size_t bytes = 0;
    CHECK(tb_dev()->bind() == TB_OK);
    CHECK(tb_dev()->alloc((size_t)1 << 40, &big) == TB_NO_MEMORY && big == 0);
    CHECK(strstr(tb_dev()->last_error(), "cuMemAlloc: out of memory"));
    CHECK(tb_dev()->alloc(1 << 20, &ptr) == TB_OK && ptr);
    CHECK(tb_dev()->mem_free(&bytes) == TB_OK && bytes == (1 << 30) - (1 << 20));
    CHECK(tb_dev()->free(ptr) == TB_OK && tb_dev()->free(0) == TB_OK);
    CHECK(tb_dev()->mem_free(&bytes) == TB_OK && bytes == 1 << 30);
}

static void pin_refused(void)
{
    char page[4096];
    check_ready("Fake GPU 0");
    CHECK(tb_dev()->bind() == TB_OK);
    CHECK(tb_dev()->pin(page, sizeof page) == TB_NO_MEMORY);
}

static void where_is_it(void)
{
    static char pinned[4096], plain[64];
    enum tb_where where;
    tb_dptr ptr;
    check_ready("Fake GPU 0");
    CHECK(tb_dev()->bind() == TB_OK && tb_dev()->alloc(512, &ptr) == TB_OK);
    CHECK(tb_dev()->pin(pinned, sizeof pinned) == TB_OK);
    CHECK(tb_dev()->where(plain, &where) == TB_OK && where == TB_HOST_PAGEABLE);
    CHECK(tb_dev()->where(pinned + 100, &where) == TB_OK && where == TB_HOST_PINNED);
    CHECK(tb_dev()->where((void *)(uintptr_t)(ptr + 511), &where) == TB_OK && where == TB_DEVICE);
    setenv("FAKE_CUDA_OWNER", "1", 1);
    CHECK(tb_dev()->where((void *)(uintptr_t)ptr, &where) == TB_OK && where == TB_DEVICE_FAR);
    setenv("FAKE_CUDA_OWNER", "0", 1);
    setenv("FAKE_CUDA_FOREIGN", "1", 1); /* a context of the program's own */
    CHECK(tb_dev()->where((void *)(uintptr_t)ptr, &where) == TB_OK && where == TB_DEVICE_FAR);
    setenv("FAKE_CUDA_FOREIGN", "0", 1);
    const struct tb_copy shape = {.width = 8, .rows = 4, .dst_pitch = 16, .src_pitch = 8};
    const struct tb_copy back = {.width = 8, .rows = 4, .dst_pitch = 8, .src_pitch = 16};
    char out[32], in[32];
    for (size_t i = 0; i < sizeof out; i++)
        out[i] = (char)i;
    CHECK(tb_dev()->put((void *)(uintptr_t)ptr, out, shape) == TB_OK);
    CHECK(tb_dev()->fetch(in, (void *)(uintptr_t)ptr, back) == TB_OK);
    CHECK(memcmp(in, out, sizeof in) == 0);
    CHECK(tb_dev()->fetch(in, plain, back) == TB_DEVICE_FAULT);
    CHECK(!tb_dev()->shared()); /* it was we who loaded the driver */
    CHECK(tb_dev()->unpin(pinned) == TB_OK);
    CHECK(tb_dev()->where(pinned + 100, &where) == TB_OK && where == TB_HOST_PAGEABLE);
}

static void nap(void)
{
    const struct timespec tick = {.tv_nsec = 25000000};
    nanosleep(&tick, NULL);
}

/* A program that loads the driver late, without the run-time library, after calls of it were known:
 * its small calls pass unseen until then, and no more. */
static void driver_comes_late(void)
{
    run_setup();
    run_look();
    for (int i = 0; i < 3; i++) {
        CHECK(run_is_small(2, 2, 2));
        nap();
    }
    CHECK(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL));
    nap(); /* where a real one makes a context */
    CHECK(!run_is_small(2, 2, 2));
    CHECK(run_small_volume == 0);
}

/* The same after the library itself loaded the driver: nothing new is mapped then. */
static void program_comes_late(void)
{
    static const struct tb_cpu none;
    void *context;
    int (*retain)(void **, int), (*current)(void *);
    struct tb_call call = {.name = "test", .cpu = &none, .op = TB_GEMM, .form = TB_ONE};
    call.ab = call.c_type = call.alpha_type = call.beta_type = TB_F64;
    call.ta = call.tb = 'N';
    call.m = call.n = call.k = call.lda = call.ldb = call.ldc = 20000;
    call.batch = 1;
    call.alpha.d[0] = 1;
    run_setup();
    check_ready("Fake GPU 0");
    CHECK(run_judge(&call).where == TB_ON_GPU); /* from now on the driver is in use */
    for (int i = 0; i < 3; i++) {
        CHECK(run_is_small(2, 2, 2)); /* a driver that only we use does not count */
        nap();
    }
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    *(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
    *(void **)&current = dlsym(driver, "cuCtxSetCurrent");
    CHECK(retain(&context, 0) == 0 && current(context) == 0);
    CHECK(!run_is_small(2, 2, 2)); /* at once */
}

/* `rows` runs of `width` bytes go up with one pair of pitches and come back with another; nothing
 * between the runs is touched on either side. */
static void copy_there_and_back(size_t width, size_t rows, size_t pitch, size_t device_pitch)
{
    static unsigned char up[4096], image[4096], down[4096];
    struct tb_lane *lane;
    struct tb_event *event;
    tb_dptr ptr;
    for (size_t i = 0; i < sizeof up; i++)
        up[i] = (unsigned char)(i * 7 + 1);
    memset(down, 0xee, sizeof down);
    CHECK(tb_dev()->alloc(sizeof image, &ptr) == TB_OK);
    CHECK(tb_dev()->lane_open(&lane, true) == TB_OK && tb_dev()->event_open(&event) == TB_OK);
    CHECK(tb_dev()->fill0(lane, ptr, sizeof image) == TB_OK);
    CHECK(tb_dev()->h2d(lane, ptr, up, (struct tb_copy){width, rows, device_pitch, pitch}) ==
          TB_OK);
    CHECK(tb_dev()->d2h(lane, image, ptr, (struct tb_copy){sizeof image, 1, 0, 0}) == TB_OK);
    CHECK(tb_dev()->d2h(lane, down, ptr, (struct tb_copy){width, rows, pitch, device_pitch}) ==
          TB_OK);
    CHECK(tb_dev()->record(event, lane) == TB_OK && tb_dev()->sync(event) == TB_OK);
    for (size_t i = 0; i < sizeof up; i++) {
        size_t run = i / pitch, at = i % pitch;
        CHECK(down[i] == (run < rows && at < width ? up[i] : 0xee));
        run = i / device_pitch, at = i % device_pitch;
        CHECK(image[i] == (run < rows && at < width ? up[run * pitch + at] : 0));
    }
    tb_dev()->event_close(event);
    tb_dev()->lane_close(lane);
    CHECK(tb_dev()->free(ptr) == TB_OK);
}

/* Runs go from one place on the device to another, with other pitches. */
static void copy_within(size_t width, size_t rows, size_t pitch, size_t other)
{
    static unsigned char up[4096], down[4096];
    const struct tb_copy all = {sizeof up, 1, sizeof up, sizeof up};
    struct tb_lane *lane;
    struct tb_event *event;
    tb_dptr from, to;
    for (size_t i = 0; i < sizeof up; i++)
        up[i] = (unsigned char)(i * 5 + i / 251 + 1);
    CHECK(tb_dev()->alloc(sizeof up, &from) == TB_OK && tb_dev()->alloc(sizeof up, &to) == TB_OK);
    CHECK(tb_dev()->lane_open(&lane, false) == TB_OK && tb_dev()->event_open(&event) == TB_OK);
    CHECK(tb_dev()->fill0(lane, to, sizeof up) == TB_OK);
    CHECK(tb_dev()->h2d(lane, from, up, all) == TB_OK);
    CHECK(tb_dev()->d2d(lane, to, from, (struct tb_copy){width, rows, other, pitch}) == TB_OK);
    CHECK(tb_dev()->d2h(lane, down, to, all) == TB_OK);
    CHECK(tb_dev()->record(event, lane) == TB_OK && tb_dev()->sync(event) == TB_OK);
    for (size_t i = 0; i < sizeof up; i++) {
        const size_t run = i / other, at = i % other;
        CHECK(down[i] == (run < rows && at < width ? up[run * pitch + at] : 0));
    }
    tb_dev()->event_close(event);
    tb_dev()->lane_close(lane);
    CHECK(tb_dev()->free(from) == TB_OK && tb_dev()->free(to) == TB_OK);
}

static void copies(void)
{
    check_ready("Fake GPU 0");
    CHECK(tb_dev()->bind() == TB_OK);
    copy_there_and_back(37, 11, 53, 64);
    CHECK(calls("cuMemcpy2DAsync") == 2);
    copy_there_and_back(64, 11, 64, 64);
    CHECK(calls("cuMemcpy2DAsync") == 2);
    copy_there_and_back(37, 1, 53, 41);
    CHECK(calls("cuMemcpy2DAsync") == 2);
    copy_there_and_back(37, 0, 53, 41);
    copy_there_and_back(0, 5, 53, 41);
    CHECK(calls("cuMemcpy2DAsync") == 2);
    copy_there_and_back(300, 5, 301, 700); /* a pitch the driver does not take: run by run */
    CHECK(calls("cuMemcpy2DAsync") == 2);
    copy_within(37, 11, 53, 64);
    CHECK(calls("cuMemcpy2DAsync") == 3);
    copy_within(64, 11, 64, 64);
    copy_within(37, 1, 53, 41);
    copy_within(37, 0, 53, 41);
    copy_within(300, 5, 301, 700);
    CHECK(calls("cuMemcpy2DAsync") == 3);
}

static const struct tb_gemm_params one_product = {.m = 1, .n = 1, .k = 1, .batch = 1};

static enum tb_status launch_row(int row)
{
    struct tb_lane *lane;
    check_ready("Fake GPU 0");
    CHECK(tb_dev()->bind() == TB_OK && tb_dev()->lane_open(&lane, false) == TB_OK);
    enum tb_status status = tb_dev()->launch(lane, row, &one_product);
    tb_dev()->lane_close(lane);
    return status;
}

static void launches(void)
{
    CHECK(launch_row(0) == TB_OK && launch_row(0) == TB_OK);
    CHECK(calls("cuLaunchKernel") == 2);
    CHECK(calls("cuLibraryLoadData") == 1 && calls("cuLibraryGetKernel") == 1);
    CHECK(launch_row(-1) == TB_NO_KERNEL && launch_row(kernel_count()) == TB_NO_KERNEL);
    tb_dev()->close();
    CHECK(calls("cuLibraryUnload") == 1 && calls("cuDevicePrimaryCtxRelease") == 1);
}

/* Rows that may stand in for row 0, itself included. */
static int alternatives(void)
{
    const struct tb_kernel *first = kernel_row(0);
    int n = 0;
    for (int i = 0; i < kernel_count(); i++) {
        const struct tb_kernel *row = kernel_row(i);
        n += row->family != TB_TRI && row->family != TB_X3 /* which wants an area */ &&
             row->ab == first->ab && row->c == first->c && row->ta == first->ta &&
             row->tb == first->tb;
    }
    return n;
}

/* The first row of `family`. */
static int row_of(enum tb_family family)
{
    for (int i = 0; i < kernel_count(); i++)
        if (kernel_row(i)->family == family)
            return i;
    return -1;
}

static const struct tb_gemm_params deep_product = {
    .a = 0x100000,
    .b = 0x200000,
    .c = 0x300000,
    .m = 64,
    .n = 64,
    .k = 4096,
    .lda = 4096,
    .ldb = 4096,
    .ldc = 64,
    .batch = 1,
    .alpha = {1, 0},
};

/* Operands that the tensor copy engine takes, and such that it does not: another row serves those.
 */
static void maps(void)
{
    struct tb_gemm_params p = deep_product;
    struct tb_lane *lane;
    const int row = row_of(TB_SM90);
    check_ready("Fake GPU 0");
    CHECK(calls("cuLaunchKernel") + calls("cuLaunchKernelEx") == 0); /* a start measures none */
    CHECK(tb_dev()->bind() == TB_OK && tb_dev()->lane_open(&lane, false) == TB_OK);
    if (row >= 0) {
        CHECK(tb_dev()->launch(lane, row, &p) == TB_OK);
        CHECK(calls("cuTensorMapEncodeTiled") == 3);
        p.c += 2; /* C finds its way out without a map */
        CHECK(tb_dev()->launch(lane, row, &p) == TB_OK);
        CHECK(calls("cuTensorMapEncodeTiled") == 5);
        p.a += 2;
        CHECK(tb_dev()->launch(lane, row, &p) == TB_OK);
        CHECK(calls("cuTensorMapEncodeTiled") == 5);
        CHECK(calls("cuLaunchKernel") + calls("cuLaunchKernelEx") == 3);
        CHECK(told("fake_cuda_hint") == 3 /* 256 bytes */ && told("fake_cuda_band") == 0);
        /* What was tuned for a row goes with it, and not with another. */
        p = deep_product;
        p.c += 2;
        p.band = 3;
        p.hint = TB_KHINT_128;
        CHECK(tb_dev()->launch(lane, row, &p) == TB_OK);
        CHECK(told("fake_cuda_hint") == 2 && told("fake_cuda_band") == 3);
        p.a += 2;
        CHECK(tb_dev()->launch(lane, row, &p) == TB_OK);
        CHECK(told("fake_cuda_hint") == 2 && told("fake_cuda_band") == 0);
    }
    tb_dev()->lane_close(lane);
}

/* A row of several kernels is several launches behind one clearing; without its area another row
 * serves. */
static void parts(void)
{
    struct tb_gemm_params p = deep_product;
    struct tb_lane *lane;
    tb_dptr area;
    const int row = row_of(TB_X3);
    check_ready("Fake GPU 0");
    if (row < 0) /* the table of stand-ins has none */
        return;
    CHECK(tb_dev()->bind() == TB_OK && tb_dev()->lane_open(&lane, false) == TB_OK);
    CHECK(tb_dev()->launch(lane, row, &p) == TB_OK);
    CHECK(calls("cuLaunchKernel") + calls("cuLaunchKernelEx") == 1);
    CHECK(calls("cuMemsetD8Async") == 0);
    CHECK(tb_dev()->alloc(kernel_cleared(kernel_row(row), &p) + 256, &area) == TB_OK);
    p.scratch = (area + 255) / 256 * 256;
    CHECK(tb_dev()->launch(lane, row, &p) == TB_OK);
    CHECK(calls("cuLaunchKernel") + calls("cuLaunchKernelEx") == 7);
    CHECK(calls("cuMemsetD8Async") == 1);
    CHECK(tb_dev()->free(area) == TB_OK);
    tb_dev()->lane_close(lane);
}

/* What a row of several kernels says where one of them is refused; TB_OK without such a row. */
static enum tb_status launch_parts(void)
{
    struct tb_gemm_params p = deep_product;
    struct tb_lane *lane;
    tb_dptr area;
    const int row = row_of(TB_X3);
    check_ready("Fake GPU 0");
    if (row < 0)
        return TB_OK;
    CHECK(tb_dev()->bind() == TB_OK && tb_dev()->lane_open(&lane, false) == TB_OK);
    CHECK(tb_dev()->alloc(kernel_cleared(kernel_row(row), &p) + 256, &area) == TB_OK);
    p.scratch = (area + 255) / 256 * 256;
    return tb_dev()->launch(lane, row, &p);
}

static void part_refused(void)
{
    const enum tb_status status = launch_parts();
    CHECK(status == (row_of(TB_X3) < 0 ? TB_OK : TB_NO_KERNEL)); /* C is as it was */
}

static void part_torn(void)
{
    const enum tb_status status = launch_parts();
    CHECK(status == (row_of(TB_X3) < 0 ? TB_OK : TB_TORN));
}

/* A launch that divides tiles has the flags of its area cleared; with no area, and where another
 * row has to take its place, it is still a launch. */
static void scratch(void)
{
    struct tb_gemm_params p = deep_product;
    struct tb_lane *lane;
    tb_dptr area;
    check_ready("Fake GPU 0");
    p.lda = 64;
    p.k = p.ldb = 65536;
    const int row =
        kernel_choose_alone(device_caps(), TB_BF16, TB_BF16, false, false, p.m, p.n, p.k, p.batch);
    CHECK(kernel_scratch(kernel_row(row), device_caps(), &p) > 0);
    CHECK(tb_dev()->bind() == TB_OK && tb_dev()->lane_open(&lane, false) == TB_OK);
    CHECK(tb_dev()->launch(lane, row, &p) == TB_OK);
    CHECK(calls("cuLaunchKernelEx") == 1 && calls("cuMemsetD8Async") == 0);
    CHECK(tb_dev()->alloc(kernel_cleared(kernel_row(row), &p), &area) == TB_OK);
    p.scratch = area;
    CHECK(tb_dev()->launch(lane, row, &p) == TB_OK);
    CHECK(calls("cuLaunchKernelEx") == 2 && calls("cuMemsetD8Async") == 1);
    p.a += 2; /* not for the copy engine */
    CHECK(tb_dev()->launch(lane, row, &p) == TB_OK);
    CHECK(calls("cuLaunchKernelEx") + calls("cuLaunchKernel") == 3);
    CHECK(calls("cuMemsetD8Async") == 1);
    CHECK(tb_dev()->free(area) == TB_OK);
    tb_dev()->lane_close(lane);
}

static void image_refused(void)
{
    CHECK(launch_row(0) == TB_NO_IMAGE && launch_row(0) == TB_NO_IMAGE);
    CHECK(calls("cuLibraryLoadData") == alternatives() && calls("cuLaunchKernel") == 0);
}

static void demands_too_much(void)
{
    CHECK(launch_row(0) == TB_NO_KERNEL && launch_row(0) == TB_NO_KERNEL);
    CHECK(calls("cuLaunchKernel") == 0 && calls("cuLibraryGetKernel") == alternatives());
}

static void launch_faults(void)
{
    CHECK(launch_row(0) == TB_DEVICE_FAULT);
    CHECK(strstr(tb_dev()->last_error(), "cuLaunchKernel: an illegal memory access"));
}

static void reset_by_program(void)
{
    void (*reset)(int, int);
    check_ready("Fake GPU 0");
    CHECK(tb_dev()->bind() == TB_OK && tb_dev()->check() == TB_OK);
    *(void **)&reset = fake_symbol("fake_cuda_reset");
    CHECK(reset);
    const int destroyed = calls("cuEventDestroy"); /* the start has measured the link */
    reset(0, 0);
    CHECK(tb_dev()->check() == TB_DEVICE_FAULT && strstr(tb_dev()->last_error(), "reset"));
    reset(0, 1);
    CHECK(tb_dev()->check() == TB_DEVICE_FAULT && strstr(tb_dev()->last_error(), "reset"));
    int queries = calls("cuEventQuery");
    tb_dev()->close(); /* and the stale handles stay untouched */
    CHECK(calls("cuEventQuery") == queries && calls("cuEventDestroy") == destroyed);
    CHECK(calls("cuDevicePrimaryCtxRelease") == 0);
}

static void sticky_error(void)
{
    check_ready("Fake GPU 0");
    CHECK(tb_dev()->bind() == TB_OK && tb_dev()->check() == TB_OK);
    CHECK(setenv("FAKE_CUDA_FAIL", "cuEventQuery:700", 1) == 0);
    CHECK(tb_dev()->check() == TB_DEVICE_FAULT);
}

/* Whoever waits for an event asks until it is over, and learns of an error. */
static void waits_for_events(void)
{
    struct tb_event *event;
    bool over = true;
    check_ready("Fake GPU 0");
    CHECK(tb_dev()->bind() == TB_OK && tb_dev()->event_open(&event) == TB_OK);
    CHECK(setenv("FAKE_CUDA_BUSY", "5", 1) == 0);
    CHECK(tb_dev()->over(event, &over) == TB_OK && !over);
    const int queries = calls("cuEventQuery");
    CHECK(tb_dev()->sync(event) == TB_OK && calls("cuEventQuery") == queries + 5);
    CHECK(unsetenv("FAKE_CUDA_BUSY") == 0);
    CHECK(tb_dev()->over(event, &over) == TB_OK && over);
    CHECK(setenv("FAKE_CUDA_FAIL", "cuEventQuery:700", 1) == 0);
    CHECK(tb_dev()->sync(event) == TB_DEVICE_FAULT);
}

static void *reset_soon(void *reset)
{
    usleep(20000);
    ((void (*)(int, int))(uintptr_t)reset)(0, 1);
    return NULL;
}

/* The program resets the device under a wait: it ends, and the handle is not touched again. */
static void reset_in_a_wait(void)
{
    struct tb_event *event;
    pthread_t thread;
    check_ready("Fake GPU 0");
    CHECK(tb_dev()->bind() == TB_OK && tb_dev()->event_open(&event) == TB_OK);
    CHECK(setenv("FAKE_CUDA_BUSY", "1000000000", 1) == 0);
    CHECK(pthread_create(&thread, NULL, reset_soon, fake_symbol("fake_cuda_reset")) == 0);
    CHECK(tb_dev()->sync(event) == TB_DEVICE_FAULT);
    CHECK(strstr(tb_dev()->last_error(), "reset"));
    pthread_join(thread, NULL);
}

/* --- the table -----------------------------------------------------------------------------------
 */

#define UUID(N) "a0a1a20" #N "-a4a5-a6a7-a8a9-aaabacadaeaf"

static const struct test {
    const char *name;
    void (*run)(void);
    const char *env[5];
    int lines;        /* of ours on stderr */
    const char *line; /* part of one of them */
    bool without_fake;
} tests[] = {
    {"no_driver", no_driver, .without_fake = true},
    {"old_driver", old_driver, .env = {"FAKE_CUDA_VERSION=12080"}},
    {"none_allowed", none_allowed, .env = {"TILEBLAS_DEVICES=none"}},
    {"none_visible", none_visible, .env = {"CUDA_VISIBLE_DEVICES="}},
    {"no_node", no_node, .env = {"TEST_NO_NODE=1"}},
    {"no_device", no_device, .env = {"FAKE_CUDA_DEVICES=0"}},
    {"no_kernels", no_kernels, .env = {"FAKE_CUDA_CC=35"}},
    {"open_fails", open_fails, .env = {"FAKE_CUDA_FAIL=cuMemGetInfo:2", "FAKE_CUDA_DEVICES=2"}},
    {"nothing_before", nothing_before, .env = {NULL}},
    {"facts", facts, .env = {NULL}},
    {"slow_start", slow_start, .env = {"FAKE_CUDA_INIT_MS=1500", "FAKE_CUDA_OPEN_MS=500"}},
    {"signals_stay_ours", signals_stay_ours, .env = {NULL}},
    {"many_callers", many_callers, .env = {"FAKE_CUDA_INIT_MS=30"}},
    {"exit_during_start", exit_during_start,
     .env = {"FAKE_CUDA_INIT_MS=30", "FAKE_CUDA_OPEN_MS=30"}},
    {"calls_at_exit", calls_at_exit, .env = {NULL}},
    {"start_at_exit", start_at_exit, .env = {"FAKE_CUDA_INIT_MS=30"}},
    {"fork_before", fork_before, .env = {NULL}},
    {"fork_after", fork_after, .env = {NULL}},
    {"raw_clone_after", raw_clone_after, .env = {NULL}},
    {"fork_during", fork_during, .env = {"FAKE_CUDA_INIT_MS=150", "FAKE_CUDA_OPEN_MS=150"}},
    {"fork_under_lock", fork_under_lock, .env = {"FAKE_CUDA_INIT_MS=600"}},
    {"fork_absent", fork_absent, .env = {"TILEBLAS_DEVICES=none"}},
    {"first_of_four", picks_0, .env = {"FAKE_CUDA_DEVICES=4"}},
    {"all", picks_0, .env = {"FAKE_CUDA_DEVICES=4", "TILEBLAS_DEVICES=all"}},
    {"ordinal", picks_2, .env = {"FAKE_CUDA_DEVICES=4", "TILEBLAS_DEVICES=2"}},
    {"list", picks_3, .env = {"FAKE_CUDA_DEVICES=4", "TILEBLAS_DEVICES=9, 3 ,1"}},
    {"uuid", picks_2, .env = {"FAKE_CUDA_DEVICES=4", "TILEBLAS_DEVICES=GPU-" UUID(2)}},
    {"uuid_digits", picks_1, .env = {"FAKE_CUDA_DEVICES=4", "TILEBLAS_DEVICES=" UUID(1)}},
    {"uuid_short", picks_3, .env = {"FAKE_CUDA_DEVICES=4", "TILEBLAS_DEVICES=GPU-A0A1A203,0"}},
    {"ordinal_beyond", names_none, .env = {"FAKE_CUDA_DEVICES=4", "TILEBLAS_DEVICES=4"}},
    {"uuid_unknown", names_none, .env = {"FAKE_CUDA_DEVICES=4", "TILEBLAS_DEVICES=GPU-a0a1a204"}},
    {"bad_word", picks_0, .env = {"FAKE_CUDA_DEVICES=4", "TILEBLAS_DEVICES=gpu2"}, .lines = 1,
     .line = "TILEBLAS_DEVICES=gpu2"},
    {"bad_gap", picks_0, .env = {"FAKE_CUDA_DEVICES=4", "TILEBLAS_DEVICES=2,,3"}, .lines = 1,
     .line = "TILEBLAS_DEVICES"},
    {"bad_end", picks_0, .env = {"FAKE_CUDA_DEVICES=4", "TILEBLAS_DEVICES=2,"}, .lines = 1,
     .line = "TILEBLAS_DEVICES"},
    {"bad_sign", picks_0, .env = {"FAKE_CUDA_DEVICES=4", "TILEBLAS_DEVICES=-1"}, .lines = 1,
     .line = "TILEBLAS_DEVICES"},
    {"bad_uuid", picks_0, .env = {"FAKE_CUDA_DEVICES=4", "TILEBLAS_DEVICES=GPU-" UUID(2) "0"},
     .lines = 1, .line = "UUID"},
    {"rank_openmpi", picks_1, .env = {"FAKE_CUDA_DEVICES=4", "OMPI_COMM_WORLD_LOCAL_RANK=1"}},
    {"rank_mpich", picks_2, .env = {"FAKE_CUDA_DEVICES=4", "MPI_LOCALRANKID=2"}},
    {"rank_slurm", picks_3, .env = {"FAKE_CUDA_DEVICES=4", "SLURM_LOCALID=3"}},
    {"rank_pmi", picks_1, .env = {"FAKE_CUDA_DEVICES=4", "PMI_LOCAL_RANK=1"}},
    {"rank_wraps", picks_1, .env = {"FAKE_CUDA_DEVICES=4", "SLURM_LOCALID=9"}},
    {"rank_in_list", picks_1,
     .env = {"FAKE_CUDA_DEVICES=4", "SLURM_LOCALID=1", "TILEBLAS_DEVICES=3,1"}},
    {"rank_garbage", picks_0, .env = {"FAKE_CUDA_DEVICES=4", "SLURM_LOCALID=-1"}},
    {"rank_next_usable", picks_2,
     .env = {"FAKE_CUDA_DEVICES=4", "SLURM_LOCALID=1", "FAKE_CUDA_EXCLUSIVE=1"}},
    {"exclusive_one", picks_1, .env = {"FAKE_CUDA_DEVICES=2", "FAKE_CUDA_EXCLUSIVE=0"}},
    {"exclusive_all", exclusive_all, .env = {"FAKE_CUDA_DEVICES=2", "FAKE_CUDA_EXCLUSIVE=0,1"}},
    {"faults", faults, .env = {"TILEBLAS_VERBOSE=1"}, .lines = 1, .line = "switched off"},
    {"faults_told", faults, .env = {"TILEBLAS_VERBOSE=2"}, .lines = 3,
     .line = "fault 2 of 3: launch"},
    {"final_fault", final_fault, .env = {"FAKE_CUDA_FAIL=cuMemAlloc:700"}},
    {"faults_together", faults_together, .env = {"TILEBLAS_VERBOSE=1"}, .lines = 1,
     .line = "threads"},
    {"memory_runs_out", memory_runs_out, .env = {NULL}},
    {"pin_refused", pin_refused, .env = {"FAKE_CUDA_FAIL=cuMemHostRegister:304"}},
    {"where_is_it", where_is_it, .env = {NULL}},
    {"driver_comes_late", driver_comes_late, .env = {NULL}},
    {"program_comes_late", program_comes_late, .env = {NULL}},
    {"copies", copies, .env = {"FAKE_CUDA_PITCH=512"}},
    {"launches", launches, .env = {NULL}},
    {"image_refused", image_refused, .env = {"FAKE_CUDA_FAIL=cuLibraryLoadData:209"}},
    {"demands_blocks", demands_too_much, .env = {"FAKE_CUDA_BLOCKS=0"}},
    {"demands_attribute", demands_too_much, .env = {"FAKE_CUDA_FAIL=cuFuncGetAttribute:500"}},
    {"maps", maps, .env = {NULL}},
    {"parts", parts, .env = {NULL}},
    {"part_refused", part_refused, .env = {"FAKE_CUDA_FAIL=cuLaunchKernel:701:3"}},
    {"part_torn", part_torn, .env = {"FAKE_CUDA_FAIL=cuLaunchKernel:701:4"}},
    {"scratch", scratch, .env = {NULL}},
    {"launch_faults", launch_faults, .env = {"FAKE_CUDA_FAIL=cuLaunchKernel:700"}},
    {"reset_by_program", reset_by_program, .env = {NULL}},
    {"sticky_error", sticky_error, .env = {0}},
    {"waits_for_events", waits_for_events, .env = {0}},
    {"reset_in_a_wait", reset_in_a_wait, .env = {0}},
};

enum { TESTS = sizeof tests / sizeof tests[0] };

/* Becomes the case: a clean environment but for its own variables. */
static void become(const struct test *test, const char *self, int stderr_fd)
{
    static const char *const clean[] = {
        "TILEBLAS_DEVICES", "TILEBLAS_VERBOSE", "TILEBLAS_LOG",   "CUDA_VISIBLE_DEVICES",
        "SLURM_LOCALID",    "MPI_LOCALRANKID",  "PMI_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"};
    const char *fake = getenv("TB_FAKE_CUDA");
    for (size_t i = 0; i < sizeof clean / sizeof clean[0]; i++)
        unsetenv(clean[i]);
    if (!test->without_fake)
        setenv("LD_LIBRARY_PATH", fake ? fake : "tests/abi/fake", 1);
    for (int i = 0; i < 5 && test->env[i]; i++)
        putenv((char *)(uintptr_t)test->env[i]);
    dup2(stderr_fd, STDERR_FILENO);
    alarm(60);
    execl(self, self, test->name, (char *)NULL);
    _exit(126);
}

static bool run_one(const struct test *test, const char *self)
{
    char text[8192];
    size_t used = 0;
    int pipe_fd[2], lines = 0;
    CHECK(pipe(pipe_fd) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        become(test, self, pipe_fd[1]);
    close(pipe_fd[1]);
    for (ssize_t n; (n = read(pipe_fd[0], text + used, sizeof text - 1 - used)) > 0;)
        used += (size_t)n;
    close(pipe_fd[0]);
    text[used] = 0;
    int status = status_of(child);
    for (const char *at = text; (at = strstr(at, "tileblas: ")); at++)
        lines++;
    bool told = !test->line || strstr(text, test->line);
    bool passed = status == 0 && lines == test->lines && told;
    printf("%s %s\n", passed ? "ok  " : "FAIL", test->name);
    if (!passed)
        printf("  status %d, %d lines for %d:\n%s", status, lines, test->lines, text);
    return passed;
}

int main(int argc, char **argv)
{
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    int failed = 0;
    if (length <= 0)
        return 1;
    self[length] = 0;
    for (int i = 0; argc == 2 && i < TESTS; i++)
        if (!strcmp(tests[i].name, argv[1])) {
            tests[i].run();
            return 0;
        }
    if (argc == 2)
        return 1;
    for (int i = 0; i < TESTS; i++)
        failed += !run_one(&tests[i], self);
    printf("%d of %d failed\n", failed, (int)TESTS);
    return failed != 0;
}
