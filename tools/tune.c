/* SPDX-License-Identifier: BSD-3-Clause
 * Measures what src/profile.h holds, with the library's own parts: the CPU BLAS it would forward
 * to, the device through the path that calls take. Decides how long that may last (a minute, and
 * for the kernels what is asked for) and where it is saved; what is not measured in time stands in
 * its built-in ratio to what was. Of a profile that is there already the part that was not asked
 * for stays. */
#include "tune.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "../fallback/fallback.h"
#include "../src/calibrate.h"
#include "../src/dev.h"
#include "../src/device.h"
#include "../src/kernel.h"
#include "../src/log.h"
#include "../src/pool.h"
#include "../src/profile.h"
#include "../src/run.h"
#include "../src/tuned.h"
#include "rank.h"

enum { BAR = 30, REPS_MAX = 64, PATH_ROOM = 8192 };

static struct {
    struct tb_profile profile, old;
    struct tb_tuned tuned;
    bool has_tuned;
    bool measured[TB_TYPES][TB_CREWS][TB_SHAPES];
    uint64_t start_ns;
    double budget_ns; /* of the whole */
    double each_ns;   /* of one measurement, at least */
    bool bar, quick;
    int done, total;
    char *a, *b, *c; /* operands of any of the calls, on the host */
    size_t bytes;    /* of each */
} tune;

/* --- What a person sees ---
 */

static void progress(const char *format, ...)
{
    char what[80];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    tune.done++;
    if (!tune.bar)
        return;
    const int full = tune.done * BAR / tune.total < BAR ? tune.done * BAR / tune.total : BAR;
    fprintf(stderr, "\r[%.*s%*s] %3d%%  %-36.36s", full, "##############################",
            BAR - full, "", full * 100 / BAR, what);
}

static void progress_end(void)
{
    if (tune.bar)
        fprintf(stderr, "\r%*s\r", BAR + 46, "");
}

/* --- Samples ---
 */

static bool time_left(void)
{
    return (double)(log_now_ns() - tune.start_ns) < tune.budget_ns;
}

static int by_size(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* The median time of what `work` does, after a first time that does not count; with a rest of
 * `rest_us` before each, in which threads fall asleep as they do between the calls of a program. 0:
 * it failed. */
static double median_ns(bool (*work)(struct tb_call *), struct tb_call *call, long rest_us)
{
    double sample[REPS_MAX], sum = 0;
    int count = 0;
    if (!work(call))
        return 0;
    while (count < REPS_MAX && (count < 3 || sum < tune.each_ns)) {
        if (rest_us > 0)
            nanosleep(&(struct timespec){0, rest_us * 1000}, NULL);
        const uint64_t from = log_now_ns();
        if (!work(call))
            return 0;
        sample[count] = (double)(log_now_ns() - from);
        sum += sample[count++];
        if (sum > 20 * tune.each_ns)
            break;
    }
    qsort(sample, (size_t)count, sizeof *sample, by_size);
    return sample[count / 2];
}

/* --- Calls ---
 */

static const struct tb_cpu nowhere; /* no door: run_enter() completes every call itself */

static struct tb_call product(enum tb_type type, int64_t m, int64_t n, int64_t k)
{
    struct tb_call call = {.name = "gemm",
                           .cpu = &nowhere,
                           .op = TB_GEMM,
                           .ab = type,
                           .c_type = type,
                           .alpha_type = type,
                           .beta_type = type,
                           .ta = 'N',
                           .tb = 'N',
                           .m = m,
                           .n = n,
                           .k = k,
                           .a = tune.a,
                           .b = tune.b,
                           .c = tune.c,
                           .lda = m,
                           .ldb = k,
                           .ldc = m,
                           .batch = 1};
    if (type == TB_F64 || type == TB_C64)
        call.alpha.d[0] = 1;
    else if (type == TB_F32 || type == TB_C32)
        call.alpha.f[0] = 1;
    else
        call.alpha.h = type == TB_F16 ? 0x3c00 : 0x3f80;
    return call;
}

static bool on_cpu(struct tb_call *call)
{
    return fallback_call(call);
}

/* Through the engine; false where the CPU had to do it. */
static bool on_gpu(struct tb_call *call)
{
    struct tb_call copy = *call;
    return run_enter(&copy).judgement.where == TB_ON_GPU;
}

/* --- The CPU ---
 */

static const char letters[TB_TYPES] = {[TB_F16] = 'h', [TB_BF16] = 'b', [TB_F32] = 's',
                                       [TB_F64] = 'd', [TB_C32] = 'c',  [TB_C64] = 'z'};
static const char *const shape_names[TB_SHAPES] = {"square",  "short m",       "short n",
                                                   "short k", "short m and n", "little"};

static int64_t part_of(int64_t side, int part)
{
    return side / part > 16 ? side / part : side < 16 ? side : 16;
}

static struct tb_call part_of_shape(enum tb_type type, const struct tb_size *x, int part)
{
    return product(type, part_of(x->m, part), part_of(x->n, part), part_of(x->k, part));
}

/* The largest part of a shape that a CPU of that rate does four times in its share of the time. */
static int affordable_part(enum tb_type type, const struct tb_size *x, int least, double rate)
{
    int part = least;
    for (; part < 8; part *= 2) {
        const struct tb_call call = part_of_shape(type, x, part);
        if (4 * call_flops(&call) / rate <= tune.budget_ns / 10)
            break;
    }
    return part;
}

/* A small part tells how much of the shape there is time for: a reference BLAS takes a hundred
 * times as long as a tuned one. */
static void measure_shape(enum tb_type type, enum tb_crew crew, enum tb_shape shape)
{
    const struct tb_size *const x = &profile_shape[shape];
    const int least = crew == TB_ALONE && shape == TB_SQUARE ? 2 : 1; /* as fast, and 8 x sooner */
    struct tb_call call = part_of_shape(type, x, 8);
    progress("CPU, %cgemm, %s, %s", letters[type], crew == TB_ALONE ? "1 thread" : "all threads",
             shape_names[shape]);
    if (!time_left() || !on_cpu(&call))
        return;
    const uint64_t from = log_now_ns();
    on_cpu(&call);
    const double little_ns = (double)(log_now_ns() - from) + 1;
    call = part_of_shape(type, x, affordable_part(type, x, least, call_flops(&call) / little_ns));
    const double ns = time_left() ? median_ns(on_cpu, &call, 0) : 0;
    if (ns <= 0)
        return;
    tune.profile.cpu_rate[type][crew][shape] = call_flops(&call) / ns;
    tune.measured[type][crew][shape] = true;
}

/* A figure that was measured, for one that was not: of the same type and crew, of another crew, of
 * another type; NULL: none was. */
static const double *nearest(int type, int crew, int shape, const struct tb_profile *builtin,
                             double *ratio)
{
    int best = -1, cost = INT_MAX;
    for (int i = 0; i < TB_TYPES * TB_CREWS * TB_SHAPES; i++) {
        const int t = i / TB_SHAPES / TB_CREWS, c = i / TB_SHAPES % TB_CREWS, s = i % TB_SHAPES;
        const int here = (t != type) * 4 + (c != crew) * 2 + (s != shape);
        if (tune.measured[t][c][s] && here < cost) {
            best = i;
            cost = here;
        }
    }
    if (best < 0)
        return NULL;
    const int t = best / TB_SHAPES / TB_CREWS, c = best / TB_SHAPES % TB_CREWS,
              s = best % TB_SHAPES;
    *ratio = builtin->cpu_rate[type][crew][shape] / builtin->cpu_rate[t][c][s];
    return &tune.profile.cpu_rate[t][c][s];
}

static void complete_cpu(const struct tb_profile *builtin)
{
    for (int i = 0; i < TB_TYPES * TB_CREWS * TB_SHAPES; i++) {
        const int t = i / TB_SHAPES / TB_CREWS, c = i / TB_SHAPES % TB_CREWS, s = i % TB_SHAPES;
        double ratio;
        const double *const like =
            tune.measured[t][c][s] ? NULL : nearest(t, c, s, builtin, &ratio);
        if (like != NULL)
            tune.profile.cpu_rate[t][c][s] = *like * ratio;
    }
}

static const enum tb_type types[] = {TB_F32, TB_F64, TB_C32, TB_C64, TB_F16, TB_BF16};
enum { TYPES_QUICK = 2, TYPES_ALL = sizeof types / sizeof *types };

static void measure_cpu(void)
{
    const struct tb_profile builtin = tune.profile;
    const int threads = fallback_threads(), cpus = tune.profile.cpus;
    const bool settable = fallback_set_threads(threads);
    for (int t = 0; t < (tune.quick ? TYPES_QUICK : TYPES_ALL); t++) {
        rank_fill(tune.a, 68 << 20, types[t]);
        rank_fill(tune.b, 68 << 20, types[t]);
        for (int crew = 0; crew < TB_CREWS; crew++) {
            const int wanted = crew == TB_ALONE ? 1 : cpus;
            if (crew == TB_TOGETHER && cpus == 1) {
                memcpy(tune.profile.cpu_rate[types[t]][TB_TOGETHER],
                       tune.profile.cpu_rate[types[t]][TB_ALONE],
                       sizeof tune.profile.cpu_rate[types[t]][TB_ALONE]);
                memcpy(tune.measured[types[t]][TB_TOGETHER], tune.measured[types[t]][TB_ALONE],
                       sizeof tune.measured[types[t]][TB_ALONE]);
                tune.done += TB_SHAPES;
                continue;
            }
            if (!settable && wanted != threads) {
                tune.done += TB_SHAPES;
                continue;
            }
            fallback_set_threads(wanted);
            for (int shape = 0; shape < TB_SHAPES; shape++)
                measure_shape(types[t], (enum tb_crew)crew, (enum tb_shape)shape);
        }
    }
    fallback_set_threads(threads);
    complete_cpu(&builtin);
}

/* --- The device ---
 */

/* A kernel on a large square, operands on the device. */
static void measure_kernel(struct rank *rank, enum tb_type type)
{
    const int64_t n = type == TB_F16 || type == TB_BF16 ? 8192 : type == TB_C64 ? 2048 : 4096;
    const struct tb_extent x = {n, n, n, 1};
    const struct tb_call call = product(type, n, n, n);
    const int row = kernel_choose(&rank->caps, type, type, false, false, n, n, n, 1);
    progress("GPU, %cgemm", letters[type]);
    if (row < 0 || !time_left() || !rank_place(rank, type, type, &x))
        return;
    const double ns = rank_ns(rank, row, (struct tb_block_order){0, 0}, &x, 3);
    const double share = kernel_efficiency(&rank->caps, type, type, false, false, n, n, n, 1);
    if (ns > 0 && share > 0)
        tune.profile.gpu_rate[type] = call_flops(&call) / ns / share;
}

static void measure_rates(const struct tb_caps *caps)
{
    struct rank rank;
    if (!rank_open(&rank, tb_dev(), caps))
        return;
    for (int t = 0; t < TYPES_ALL; t++)
        measure_kernel(&rank, types[t]);
    rank_close(&rank);
}

/* A call that mostly moves `bytes` one way: what that takes, or 0. */
static double moving_ns(double bytes, bool out)
{
    int64_t side = 16;
    if (!time_left())
        return 0;
    while ((double)((side + 16) * (side + 16) * 4) <= bytes)
        side += 16;
    struct tb_call call = out ? product(TB_F32, side, side, 4) : product(TB_F32, side, 16, side);
    const double ns = median_ns(on_gpu, &call, 1000) - tune.profile.offload_ns;
    const double moved = out ? call_bytes_out(&call) : call_bytes_in(&call);
    return ns > 0 ? ns * bytes / moved : 0;
}

static void measure_link(void)
{
    struct tb_profile *const p = &tune.profile;
    struct tb_call little = product(TB_F32, 128, 128, 128);
    progress("GPU, a call");
    const double ns = median_ns(on_gpu, &little, 1000);
    if (ns > 0)
        p->offload_ns = ns;
    progress("GPU, link");
    calibrate_link(tb_dev(), p);
    for (int i = 0; i < 2 * TB_STAGED; i++) {
        const bool out = i % 2 != 0;
        const double mb = profile_staged_mb[i / 2];
        progress("GPU, %.0f MB %s", mb, out ? "out" : "in");
        const double moving = moving_ns(mb * 1e6, out);
        if (moving > 0)
            (out ? p->staged_out : p->staged_in)[i / 2] = moving;
    }
}

static void measure_gpu(const struct tb_caps *caps, double start_ns)
{
    struct tb_call first = product(TB_F32, 512, 512, 512);
    rank_fill(tune.a, tune.bytes, TB_F32);
    rank_fill(tune.b, tune.bytes, TB_F32);
    progress("GPU, start");
    const uint64_t from = log_now_ns();
    on_gpu(&first); /* threads, pinned memory, the kernels' image */
    start_ns += (double)(log_now_ns() - from);
    if (start_ns > tune.profile.start_ns) /* a start from a cold disk takes as long as it takes */
        tune.profile.start_ns = start_ns;
    measure_link();
    measure_rates(caps);
}

/* --- The kernels ---
 */

static const char *pair_name(int pair)
{
    static const char *const names[TB_PAIRS] = {"sgemm", "dgemm",  "cgemm", "zgemm",
                                                "hgemm", "shgemm", "bgemm", "sbgemm"};
    return names[pair];
}

static void tell_class(int pair, int class, void *unused)
{
    char name[TB_CLASS_NAME];
    (void)unused;
    shape_class_name(class, name);
    progress("kernels, %s, %s", pair_name(pair), name);
}

/* False: the device does not work. */
static bool measure_kernels(const struct tb_caps *caps, int seconds)
{
    static struct rank_outcome outcome[TB_PAIRS];
    const struct rank_limits limits = {
        .seconds = seconds, .multiplies = HUGE_VAL, .tell = tell_class};
    struct rank rank;
    if (!rank_open(&rank, tb_dev(), caps))
        return false;
    for (int pair = 0; pair < TB_PAIRS; pair++)
        outcome[pair] = rank_pair(&rank, pair, &limits, &tune.tuned);
    rank_close(&rank);
    progress_end();
    for (int pair = 0; pair < TB_PAIRS; pair++) {
        const struct rank_outcome *const x = &outcome[pair];
        printf("%-10s %d of %d classes and layouts measured in %.1f s", pair_name(pair),
               x->measured, x->classes, x->seconds);
        if (x->kept > 0)
            printf("; another kernel or order than the estimate's in %d, %.0f%% of its time",
                   x->kept, 100 * x->gain);
        else if (x->measured > 0)
            printf("; the estimate's kernels are the best");
        printf("%s\n", x->measured < x->classes ? "; the others keep the estimate" : "");
    }
    return true;
}

/* --- Saving ---
 */

/* The folders above a file. */
static void make_folders(const char *path, mode_t mode)
{
    char folder[PATH_ROOM];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(folder, mode) == 0)
            (void)chmod(folder, mode); /* whatever the umask */
        *slash = '/';
    }
}

static bool is_profile(const char *path)
{
    static const char head[] = "tileblas-profile";
    char found[sizeof head - 1];
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    const ssize_t got = read(fd, found, sizeof found);
    close(fd);
    return got == (ssize_t)sizeof found && memcmp(found, head, sizeof found) == 0;
}

/* Only a profile, an empty file, or nothing, may be replaced: not a device, a folder, a link to
 * elsewhere, a file of another kind. */
static bool may_replace(const char *path)
{
    struct stat facts;
    if (lstat(path, &facts) != 0)
        return errno == ENOENT;
    if (S_ISREG(facts.st_mode) && (facts.st_size == 0 || is_profile(path)))
        return true;
    errno = S_ISDIR(facts.st_mode) ? EISDIR : EEXIST;
    return false;
}

/* Whole or not at all: readers may come at any time. */
static bool write_file(const char *path, const char *text, size_t length)
{
    char part[PATH_ROOM + 32];
    snprintf(part, sizeof part, "%s.XXXXXX", path);
    const int fd = mkostemp(part, O_CLOEXEC);
    if (fd < 0)
        return false;
    bool done = fchmod(fd, 0644) == 0; /* whatever the umask */
    for (size_t at = 0; done && at < length;) {
        const ssize_t put = write(fd, text + at, length - at);
        done = put > 0;
        at += done ? (size_t)put : 0;
    }
    done = done && fsync(fd) == 0;
    done = close(fd) == 0 && done && rename(part, path) == 0;
    if (!done) {
        const int error = errno;
        unlink(part);
        errno = error;
    }
    return done;
}

/* Where the profile will be; false, with a word on standard error, where it cannot be: told before
 * a minute is spent on it. */
static bool find_place(bool system, char path[PATH_ROOM])
{
    const struct tb_profile *const p = &tune.profile;
    char folder[PATH_ROOM];
    if (!calibrate_path(system ? 1 : 0, p->gpu, p->cpu_blas, p->cpus, path, PATH_ROOM)) {
        fputs("tileblas: there is no home folder to save the profile in; set HOME, "
              "XDG_CACHE_HOME or TILEBLAS_PROFILE\n",
              stderr);
        return false;
    }
    make_folders(path, system ? 0755 : 0700);
    snprintf(folder, sizeof folder, "%s", path);
    char *const slash = strrchr(folder, '/');
    if (slash != NULL)
        slash[1] = '\0';
    if (may_replace(path) && access(slash != NULL ? folder : ".", W_OK) == 0)
        return true;
    fprintf(stderr, "tileblas: %s cannot be written: %s\n", path, strerror(errno));
    return false;
}

static int save(const char *path, const struct tb_caps *caps)
{
    static char text[TB_PROFILE_BYTES_MAX + TB_TUNED_BYTES_MAX];
    size_t length = profile_print(&tune.profile, text, TB_PROFILE_BYTES_MAX);
    if (length > 0 && tune.has_tuned)
        length += tuned_print(&tune.tuned, caps, text + length, sizeof text - length);
    if (length == 0 || !may_replace(path) || !write_file(path, text, length)) {
        fprintf(stderr, "tileblas: %s cannot be written: %s\n", path, strerror(errno));
        return 1;
    }
    printf("saved: %s\n", path);
    return 0;
}

/* --- The whole ---
 */

static void report(void)
{
    const struct tb_profile *const p = &tune.profile;
    printf("CPU BLAS:  %s, %d CPUs\n", p->cpu_blas, p->cpus);
    printf("           GFLOP/s of a square of %lld, 1 thread / all: s %.0f / %.0f, d %.0f / %.0f\n",
           (long long)profile_shape[TB_SQUARE].m, p->cpu_rate[TB_F32][TB_ALONE][TB_SQUARE],
           p->cpu_rate[TB_F32][TB_TOGETHER][TB_SQUARE], p->cpu_rate[TB_F64][TB_ALONE][TB_SQUARE],
           p->cpu_rate[TB_F64][TB_TOGETHER][TB_SQUARE]);
    const double mb = profile_staged_mb[TB_STAGED - 1] * 1e6;
    printf("GPU:       %s: %.0f us a call, link %.1f GB/s in, %.1f GB/s out (pinned %.1f, %.1f)\n",
           p->gpu, p->offload_ns * 1e-3, mb / p->staged_in[TB_STAGED - 1],
           mb / p->staged_out[TB_STAGED - 1], p->in.rate, p->out.rate);
    printf("           TFLOP/s: s %.1f, d %.1f, c %.1f, z %.1f, h %.0f, b %.0f\n",
           p->gpu_rate[TB_F32] * 1e-3, p->gpu_rate[TB_F64] * 1e-3, p->gpu_rate[TB_C32] * 1e-3,
           p->gpu_rate[TB_C64] * 1e-3, p->gpu_rate[TB_F16] * 1e-3, p->gpu_rate[TB_BF16] * 1e-3);
}

/* The engine takes every call here, and nothing of an old profile is taken over. */
static void prepare_environment(bool system)
{
    setenv("TILEBLAS_ROUTE", "gpu", 1);
    unsetenv("TILEBLAS_VERIFY");
    unsetenv("TILEBLAS_MATH");
    unsetenv("TILEBLAS_TRACE");
    if (system)
        unsetenv("TILEBLAS_PROFILE");
}

static bool get_memory(void)
{
    tune.bytes = (size_t)136 << 20; /* the largest operand of any call here */
    tune.a = malloc(tune.bytes);
    tune.b = malloc(tune.bytes);
    tune.c = malloc(tune.bytes);
    if (tune.a != NULL && tune.b != NULL && tune.c != NULL) {
        memset(tune.a, 0, tune.bytes);
        memset(tune.b, 0, tune.bytes);
        memset(tune.c, 0, tune.bytes);
        return true;
    }
    fputs("tileblas: not enough memory\n", stderr);
    return false;
}

/* The part of a saved profile that stays. Returns whether the machine is known by it. */
static bool keep_old(const struct tb_caps *caps)
{
    static char text[TB_PROFILE_BYTES_MAX + TB_TUNED_BYTES_MAX + 1];
    struct tb_profile saved;
    int bad;
    const size_t length = calibrate_saved(&tune.profile, text, sizeof text, &saved);
    const char *const section = length > 0 ? profile_kernels(text, length) : NULL;
    if (section != NULL)
        tune.has_tuned = tuned_parse(section, length - (size_t)(section - text), caps, &tune.tuned,
                                     &bad) == TB_TUNED_FITS;
    if (length > 0)
        tune.old = saved;
    return length > 0;
}

static bool measure_machine(const struct tb_caps *caps, double start_ns)
{
    if (!get_memory())
        return false;
    measure_gpu(caps, start_ns);
    measure_cpu();
    progress_end();
    report();
    return true;
}

static void plan_time(const struct tune_options *options, bool machine)
{
    tune.quick = options->quick;
    tune.each_ns = options->quick ? 5e6 : 60e6;
    tune.budget_ns = options->quick ? 8e9 : 50e9;
    tune.start_ns = log_now_ns();
    tune.bar = isatty(STDERR_FILENO);
    tune.total = 1;
    if (machine)
        tune.total += (options->quick ? TYPES_QUICK : TYPES_ALL) * TB_CREWS * TB_SHAPES +
                      2 * TB_STAGED + TYPES_ALL + 5;
    if (options->kernels > 0)
        tune.total += TB_PAIRS * TB_SHAPE_CLASSES;
}

/* The device, and what there is on the CPU side; NULL, with a word on standard error: nothing can
 * be measured that would be of use. */
static const struct tb_caps *start(double *start_ns)
{
    if (fallback_find("dgemm_", (const void *)(uintptr_t)tune_run, true).fn == NULL) {
        fputs("tileblas: no CPU BLAS was found: install OpenBLAS (libopenblas.so.0) or set "
              "TILEBLAS_CPU_BLAS\n",
              stderr);
        return NULL;
    }
    calibrate_cpu(fallback_name, pool_cpus);
    const uint64_t from = log_now_ns();
    const enum tb_device_state state = device_start(INT64_C(20000000000));
    *start_ns = (double)(log_now_ns() - from);
    const struct tb_caps *const caps = state == TB_DEVICE_READY ? device_caps() : NULL;
    if (caps == NULL)
        fprintf(stderr,
                "tileblas: no GPU (%s): every call runs on the CPU, with a profile or without; "
                "nothing was measured or saved\n",
                device_why_not());
    return caps;
}

int tune_run(const struct tune_options *options)
{
    double start_ns;
    char path[PATH_ROOM];
    prepare_environment(options->system);
    const struct tb_caps *const caps = start(&start_ns);
    if (caps == NULL)
        return 1;
    calibrate_builtin(caps, calibrate_cpus(), &tune.profile);
    memcpy(tune.profile.cpu_blas, calibrate_get()->cpu_blas, sizeof tune.profile.cpu_blas);
    if (!find_place(options->system, path))
        return 1;
    const bool known = keep_old(caps) && options->kernels > 0;
    plan_time(options, !known);
    if (known)
        tune.profile = tune.old;
    else if (!measure_machine(caps, start_ns))
        return 1;
    if (options->kernels > 0) {
        tune.has_tuned = true;
        memset(&tune.tuned, 0, sizeof tune.tuned);
        if (!measure_kernels(caps, options->kernels)) {
            progress_end();
            fputs("tileblas: the GPU does not work\n", stderr);
            return 1;
        }
    }
    return save(path, caps);
}
