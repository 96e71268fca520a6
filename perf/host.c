/* SPDX-License-Identifier: BSD-3-Clause
 * The host level: each provider in a process of its own, called through the public Fortran symbols
 * (cublasXt through its own), all on the same data. The parent lets them take turns, with a pause
 * after those whose worker threads go on spinning, and checks every answer; a worker that dies is a
 * row that says so. */
#include "perf.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOST_PROVIDERS = 8, HOST_REPS = 64, HOST_SAMPLES = 20, HOST_LINE = 400 };
enum { HOST_BURST = 3, HOST_WAIT_MS = 300000, HOST_FROM = 3, HOST_TO = 4, HOST_LONG_MS = 3000 };

/* Which library, what its environment says, whether its threads need a pause after a call. */
static const struct host_way {
    const char *name, *library, *env[3];
    bool pause, gpu;
} host_ways[] = {
    {"ours", "libtileblas.so.0", {"TILEBLAS_START=wait"}, true, false},
    {"ours-gpu", "libtileblas.so.0", {"TILEBLAS_START=wait", "TILEBLAS_ROUTE=gpu"}, false, true},
    {"ours-tf32", "libtileblas.so.0", {"TILEBLAS_START=wait", "TILEBLAS_MATH=tf32"}, true, true},
    {"openblas", "libopenblas.so.0", {NULL}, true, false},
    {"nvblas", "libnvblas.so.13", {"NVBLAS_CONFIG_FILE=%s.conf"}, true, true},
    {"nvblas-autopin", "libnvblas.so.13", {"NVBLAS_CONFIG_FILE=%s-autopin.conf"}, true, true},
    {"cublasxt", "libcublas.so.13", {NULL}, false, true},
};
enum { HOST_WAYS = sizeof host_ways / sizeof host_ways[0] };

/* --- the worker
 * ------------------------------------------------------------------------------------------ */

struct host_work {
    struct perf_case item;
    enum tb_type ab, c_type;
    enum tb_op op;
    uint64_t seed;
    void *a, *b, *c;
    struct data_matrix a_data, b_data, c_data;
    bool pinned, in_place;
    int64_t sample_cols[HOST_SAMPLES], sample_rows[HOST_SAMPLES];
};

typedef void (*host_fn)(void);
static struct {
    void *library, *xt;
    bool is_xt;
} host_lib;

static void *host_alloc(struct host_work *work, size_t bytes)
{
    void *ptr = NULL;
    if (work->pinned)
        return GPU(cuMemHostAlloc, &ptr, bytes, 0) ? ptr : NULL;
    return malloc(bytes);
}

static void host_free(struct host_work *work)
{
    void *all[] = {work->a, work->b, work->c};
    for (int i = 0; i < 3; i++) {
        if (all[i] && work->pinned)
            GPU(cuMemFreeHost, all[i]);
        else
            free(all[i]);
    }
    work->a = work->b = work->c = NULL;
}

/* The shapes by routine; triangles are lower, on the left, not transposed. */
static void host_describe(struct host_work *work)
{
    const struct perf_case *x = &work->item;
    const bool gemm = work->op == TB_GEMM, rank = work->op == TB_SYRK || work->op == TB_SYR2K;
    const bool ta = gemm && x->trans[0] != 'n', tb = gemm && x->trans[1] != 'n';
    const int64_t k = gemm || rank ? x->k : x->m;
    work->in_place = work->op == TB_TRMM || work->op == TB_TRSM;
    work->a_data =
        (struct data_matrix){work->ab,      x->dist,       DATA_A,    ta, work->op == TB_TRSM,
                             ta ? k : x->m, ta ? x->m : k, work->seed};
    work->b_data = (struct data_matrix){work->ab,
                                        x->dist,
                                        DATA_B,
                                        !tb && !rank,
                                        false,
                                        tb || rank ? x->n : k,
                                        tb || rank ? k : x->n,
                                        work->seed + 1};
    work->c_data = (struct data_matrix){work->c_type, x->dist, DATA_C, false,
                                        false,        x->m,    x->n,   work->seed + 2};
}

static const char *host_prepare(struct host_work *work)
{
    cases_type(work->item.routine, &work->ab, &work->c_type, &work->op);
    host_describe(work);
    char why[160];
    work->pinned = strcmp(work->item.memory, "pinned") == 0;
    if (work->pinned && !gpu_open(why, sizeof why))
        return "no GPU to pin memory for";
    const struct data_matrix *all[] = {&work->a_data, &work->b_data, &work->c_data};
    void **out[] = {&work->a, &work->b, &work->c};
    for (int i = 0; i < 3; i++) {
        if (i == 1 && (work->in_place || work->op == TB_SYRK))
            continue;
        *out[i] =
            host_alloc(work, (size_t)(all[i]->rows * all[i]->cols) * call_elem_bytes(all[i]->type));
        if (!*out[i])
            return "out of memory";
        data_fill(all[i], *out[i]);
    }
    return NULL;
}

static host_fn host_symbol(const char *routine)
{
    char name[40];
    snprintf(name, sizeof name, "%.30s_", routine);
    return (host_fn)dlsym(host_lib.library, name);
}

static bool host_call_xt(const struct host_work *work, const void *alpha, const void *beta)
{
    const struct perf_case *x = &work->item;
    char name[40] = "cublasXtSgemm";
    if (work->op != TB_GEMM)
        return false;
    name[8] = (char)(x->routine[0] - 'a' + 'A');
    int (*fn)(void *, int, int, size_t, size_t, size_t, const void *, const void *, size_t,
              const void *, size_t, const void *, void *, size_t);
    *(void **)(void *)&fn = dlsym(host_lib.library, name);
    return fn &&
           fn(host_lib.xt,
              x->trans[0] == 'n'   ? 0
              : x->trans[0] == 't' ? 1
                                   : 2,
              x->trans[1] == 'n'   ? 0
              : x->trans[1] == 't' ? 1
                                   : 2,
              (size_t)x->m, (size_t)x->n, (size_t)x->k, alpha, work->a, (size_t)work->a_data.rows,
              work->b, (size_t)work->b_data.rows, beta, work->c, (size_t)x->m) == 0;
}

/* The call that is measured. False: the provider has no such routine, or refused. */
static bool host_call(const struct host_work *work)
{
    const struct perf_case *x = &work->item;
    const bool wide = work->ab == TB_F64 || work->ab == TB_C64;
    const double alpha_d[2] = {x->alpha, 0}, beta_d[2] = {x->beta, 0};
    const float alpha_f[2] = {(float)x->alpha, 0}, beta_f[2] = {(float)x->beta, 0};
    uint16_t alpha_h, beta_h; /* of hgemm and bgemm */
    data_narrow(work->c_type, x->alpha, &alpha_h);
    data_narrow(work->c_type, x->beta, &beta_h);
    const bool half = work->c_type == TB_F16 || work->c_type == TB_BF16;
    const void *alpha = half ? (const void *)&alpha_h : wide ? (const void *)alpha_d : alpha_f;
    const void *beta = half ? (const void *)&beta_h : wide ? (const void *)beta_d : beta_f;
    const int m = (int)x->m, n = (int)x->n, k = (int)x->k, lda = (int)work->a_data.rows,
              ldb = (int)work->b_data.rows, ldc = m;
    const char ta = (char)(x->trans[0] - 'a' + 'A'), tb = (char)(x->trans[1] - 'a' + 'A');
    if (host_lib.is_xt)
        return host_call_xt(work, alpha, beta);
    const host_fn fn = host_symbol(x->routine);
    if (!fn)
        return false;
    switch (work->op) {
    case TB_GEMM:
        ((void (*)(const char *, const char *, const int *, const int *, const int *, const void *,
                   const void *, const int *, const void *, const int *, const void *, void *,
                   const int *))fn)(&ta, &tb, &m, &n, &k, alpha, work->a, &lda, work->b, &ldb, beta,
                                    work->c, &ldc);
        return true;
    case TB_SYMM:
        ((void (*)(const char *, const char *, const int *, const int *, const void *, const void *,
                   const int *, const void *, const int *, const void *, void *, const int *))fn)(
            "L", "L", &m, &n, alpha, work->a, &lda, work->b, &ldb, beta, work->c, &ldc);
        return true;
    case TB_SYRK:
        ((void (*)(const char *, const char *, const int *, const int *, const void *, const void *,
                   const int *, const void *, void *, const int *))fn)(
            "L", "N", &n, &k, alpha, work->a, &lda, beta, work->c, &ldc);
        return true;
    case TB_SYR2K:
        ((void (*)(const char *, const char *, const int *, const int *, const void *, const void *,
                   const int *, const void *, const int *, const void *, void *, const int *))fn)(
            "L", "N", &n, &k, alpha, work->a, &lda, work->b, &ldb, beta, work->c, &ldc);
        return true;
    default:
        ((void (*)(const char *, const char *, const char *, const char *, const int *, const int *,
                   const void *, const void *, const int *, void *, const int *))fn)(
            "L", "L", "N", "N", &m, &n, alpha, work->a, &lda, work->c, &ldc);
        return true;
    }
}

/* Nothing of an earlier answer is left: NaN where C is only written, the first C where it is read
 * too. */
static void host_reset(struct host_work *work)
{
    if (work->in_place || work->item.beta != 0)
        data_fill(&work->c_data, work->c);
    else
        memset(work->c, 0xff,
               (size_t)(work->c_data.rows * work->c_data.cols) * call_elem_bytes(work->c_type));
}

/* Row i of what multiplies from the left and column j of what multiplies from the right, as pairs
 * where complex. Their length is the return value. */
static int64_t host_row(const struct host_work *work, int64_t i, double *out)
{
    const int64_t ld = work->a_data.rows,
                  k = work->op == TB_GEMM ? work->item.k : work->a_data.cols;
    const size_t es = call_elem_bytes(work->ab), w = call_is_complex(work->ab) ? 2 : 1;
    const char *a = work->a;
    const bool turned = work->op == TB_GEMM && work->item.trans[0] != 'n';
    if (turned)
        data_widen(work->ab, a + (size_t)(i * ld) * es, 1, k, out);
    else
        data_widen(work->ab, a + (size_t)i * es, ld, k, out);
    for (int64_t j = 0; turned && w == 2 && work->item.trans[0] == 'c' && j < k; j++)
        out[2 * j + 1] = -out[2 * j + 1];
    if (work->op == TB_SYMM) /* the upper triangle mirrors the lower */
        data_widen(work->ab, a + (size_t)(i * ld + i) * es, 1, k - i, out + (size_t)i * w);
    if (work->in_place)
        memset(out + (size_t)(i + 1) * w, 0, (size_t)(k - i - 1) * w * sizeof *out);
    return k;
}

static void host_col(const struct host_work *work, int64_t j, double *out)
{
    const size_t es = call_elem_bytes(work->ab), w = call_is_complex(work->ab) ? 2 : 1;
    const int64_t ld = work->b_data.rows, k = work->item.k;
    if (work->op == TB_SYRK) {
        data_widen(work->ab, (const char *)work->a + (size_t)j * es, work->a_data.rows, k, out);
    } else if (work->op == TB_TRSM) {
        data_widen(work->ab, (const char *)work->c + (size_t)(j * ld) * es, 1, ld, out);
    } else if (work->op == TB_TRMM) {
        void *first = malloc((size_t)ld * es);
        if (first)
            data_column(&work->c_data, j, first);
        if (first)
            data_widen(work->ab, first, 1, ld, out);
        free(first);
    } else if (work->op == TB_SYR2K || work->item.trans[1] != 'n') {
        data_widen(work->ab, (const char *)work->b + (size_t)j * es, ld, k, out);
        for (int64_t i = 0; w == 2 && work->item.trans[1] == 'c' && work->op == TB_GEMM && i < k;
             i++)
            out[2 * i + 1] = -out[2 * i + 1];
    } else {
        data_widen(work->ab, (const char *)work->b + (size_t)(j * ld) * es, 1, ld, out);
    }
}

struct host_check {
    struct host_work *work;
    struct data_error errors[HOST_SAMPLES];
    double *rows; /* of the samples, one behind the other */
    int64_t k;
};

/* One sampled column against all sampled rows. syr2k: [A B] times [B A]' as one long sum. trsm: the
 * residual alpha B0 - A X, with |A||X| + |alpha B0| under it. */
static void host_check_col(void *arg, int64_t s)
{
    struct host_check *check = arg;
    struct host_work *work = check->work;
    const int64_t j = work->sample_cols[s], m = work->item.m, k = check->k;
    const bool cx = call_is_complex(work->ab);
    const size_t w = cx ? 2 : 1, cs = call_elem_bytes(work->c_type);
    double *col = malloc((size_t)k * w * sizeof *col), *got = malloc((size_t)m * w * sizeof *got);
    double *first = malloc((size_t)m * w * sizeof *first);
    void *raw = malloc((size_t)m * cs);
    if (!col || !got || !first || !raw)
        goto out;
    data_widen(work->c_type, (const char *)work->c + (size_t)(j * m) * cs, 1, m, got);
    data_column(&work->c_data, j, raw);
    data_widen(work->c_type, raw, 1, m, first);
    if (work->op == TB_SYR2K) {
        const int64_t half = k / 2;
        host_col(work, j, col);
        data_widen(work->ab, (const char *)work->a + (size_t)j * call_elem_bytes(work->ab),
                   work->a_data.rows, half, col + (size_t)half * w);
    } else {
        host_col(work, j, col);
    }
    for (int i = 0; i < HOST_SAMPLES; i++) {
        const int64_t at = work->sample_rows[i];
        const bool lower = work->op == TB_SYRK || work->op == TB_SYR2K;
        double alpha[2] = {work->item.alpha, 0}, beta[2] = {work->item.beta, 0};
        double result[2] = {got[(size_t)at * w], cx ? got[2 * at + 1] : 0};
        double c0[2] = {first[(size_t)at * w], cx ? first[2 * at + 1] : 0};
        if (lower && at < j)
            continue;
        if (work->op == TB_TRSM) { /* A X - alpha B0 against 0 */
            beta[0] = -alpha[0];
            alpha[0] = 1;
            result[0] = result[1] = 0;
        }
        if (work->op == TB_TRMM)
            beta[0] = 0;
        data_compare(&check->errors[s], check->rows + (size_t)(i * k) * w, col, k, alpha, beta, c0,
                     result, cx, work->ab == TB_F64 || work->ab == TB_C64);
    }
out:
    free(col);
    free(got);
    free(first);
    free(raw);
}

static bool host_verify(struct host_work *work, struct data_error *error)
{
    struct host_check check = {.work = work};
    const size_t w = call_is_complex(work->ab) ? 2 : 1;
    const int64_t k = work->op == TB_GEMM || work->op == TB_SYRK || work->op == TB_SYR2K
                          ? work->item.k
                          : work->item.m;
    check.k = work->op == TB_SYR2K ? 2 * k : k;
    check.rows = malloc((size_t)(check.k * HOST_SAMPLES) * w * sizeof *check.rows);
    if (!check.rows)
        return false;
    for (int i = 0; i < HOST_SAMPLES; i++) {
        work->seed = data_mix(work->seed);
        work->sample_rows[i] = i == 0   ? 0
                               : i == 1 ? work->item.m - 1
                                        : (int64_t)(work->seed >> 1) % work->item.m;
        work->seed = data_mix(work->seed);
        work->sample_cols[i] = i == 0   ? 0
                               : i == 1 ? work->item.n - 1
                                        : (int64_t)(work->seed >> 1) % work->item.n;
        double *row = check.rows + (size_t)(i * check.k) * w;
        host_row(work, work->sample_rows[i], row);
        if (work->op == TB_SYR2K)
            data_widen(work->ab,
                       (const char *)work->b +
                           (size_t)work->sample_rows[i] * call_elem_bytes(work->ab),
                       work->b_data.rows, k, row + (size_t)k * w);
    }
    data_parallel(HOST_SAMPLES, host_check_col, &check);
    *error = (struct data_error){0};
    for (int s = 0; s < HOST_SAMPLES; s++)
        data_error_merge(error, &check.errors[s]);
    free(check.rows);
    return true;
}

static void host_worker_run(struct host_work *work, int inner, FILE *to)
{
    struct data_error error;
    if (work->in_place || work->item.beta != 0)
        inner = 1;
    host_reset(work);
    const uint64_t start = table_now_ns();
    for (int i = 0; i < inner; i++)
        if (!host_call(work)) {
            fprintf(to, "absent\n");
            return;
        }
    const double ms = (double)(table_now_ns() - start) * 1e-6 / inner;
    if (!host_verify(work, &error)) {
        fprintf(to, "failed out of memory for the check\n");
        return;
    }
    fprintf(to, "ok %.9g %.9g %.9g %lld %lld\n", ms, error.max, error.sum2,
            (long long)error.entries, (long long)error.bad);
}

static bool host_start_xt(void)
{
    int device = 0;
    int (*create)(void **) = (int (*)(void **))dlsym(host_lib.library, "cublasXtCreate");
    int (*pick)(void *, int, int *) =
        (int (*)(void *, int, int *))dlsym(host_lib.library, "cublasXtDeviceSelect");
    return create && pick && create(&host_lib.xt) == 0 && pick(host_lib.xt, 1, &device) == 0;
}

/* The life of a worker: lines in, lines out. "case ...", "run INNER", end of file. */
int host_worker(const char *provider, const char *library)
{
    struct host_work work = {0};
    char line[HOST_LINE];
    FILE *from = fdopen(HOST_FROM, "r"), *to = fdopen(HOST_TO, "w");
    if (!from || !to)
        return 1;
    setvbuf(to, NULL, _IOLBF, HOST_LINE);
    host_lib.library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    host_lib.is_xt = strcmp(provider, "cublasxt") == 0;
    if (!host_lib.library)
        fprintf(to, "missing %.200s\n", dlerror());
    else if (host_lib.is_xt && !host_start_xt())
        fprintf(to, "missing cublasXt does not start\n");
    else
        fprintf(to, "ok\n");
    while (fgets(line, sizeof line, from)) {
        int dist = 0, inner = 1;
        unsigned long long seed = 0;
        long long size[3];
        struct perf_case *x = &work.item;
        if (sscanf(line, "run %d", &inner) == 1) {
            host_worker_run(&work, inner, to);
        } else if (sscanf(line, "case %15s %7s %11s %d %lld %lld %lld %lf %lf %llu", x->routine,
                          x->trans, x->memory, &dist, &size[0], &size[1], &size[2], &x->alpha,
                          &x->beta, &seed) == 10) {
            x->dist = (enum data_dist)dist;
            x->m = size[0];
            x->n = size[1];
            x->k = size[2];
            host_free(&work);
            work.seed = seed;
            const char *wrong = host_prepare(&work);
            fprintf(to, wrong ? "failed %s\n" : "ok\n", wrong);
        } else {
            fprintf(to, "failed not understood\n");
        }
    }
    host_free(&work);
    return 0;
}

/* --- the parent
 * -------------------------------------------------------------------------------------------- */

struct host_provider {
    const struct host_way *way;
    pid_t pid;
    FILE *to, *from;
    char answer[HOST_LINE], note[HOST_LINE];
    const char *status;
    int reps, inner, done; /* `done` samples came from settling */
    bool settled;          /* has answered a case before */
    double ms[HOST_REPS];
    struct data_error error;
};

static struct {
    const char *self;
    char folder[100], conf[200];
    struct host_provider list[HOST_PROVIDERS];
    int count;
    uint64_t seed;
} host;

static void host_write_conf(const char *library)
{
    for (int pin = 0; pin < 2; pin++) {
        char path[240];
        snprintf(path, sizeof path, "%s%s.conf", host.conf, pin ? "-autopin" : "");
        FILE *file = fopen(path, "w");
        if (!file)
            continue;
        fprintf(file,
                "NVBLAS_LOGFILE /dev/null\nNVBLAS_CPU_BLAS_LIB %s\nNVBLAS_GPU_LIST 0\n"
                "NVBLAS_TILE_DIM 2048\n%s",
                library, pin ? "NVBLAS_AUTOPIN_MEM_ENABLED\n" : "");
        fclose(file);
    }
}

static void host_child(const struct host_way *way, const char *library, int in, int out)
{
    for (int i = 0; i < 3 && way->env[i]; i++) {
        char text[300], *equal;
        snprintf(text, sizeof text, way->env[i], host.conf);
        equal = strchr(text, '=');
        *equal = 0;
        setenv(text, equal + 1, 1);
    }
    /* Above the two numbers the worker uses, then down to them. */
    const int from = fcntl(in, F_DUPFD, 10), to = fcntl(out, F_DUPFD, 10);
    dup2(from, HOST_FROM);
    dup2(to, HOST_TO);
    for (int fd = 5; fd < 64; fd++)
        close(fd);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* what a library prints must not end up in our CSV */
    execl("/proc/self/exe", host.self, "--worker", way->name, library, (char *)NULL);
    _exit(127);
}

static bool host_answer(struct host_provider *p)
{
    struct pollfd wait = {.fd = p->from ? fileno(p->from) : -1, .events = POLLIN};
    p->answer[0] = 0;
    if (p->from && poll(&wait, 1, HOST_WAIT_MS) == 1 &&
        fgets(p->answer, sizeof p->answer, p->from)) {
        p->answer[strcspn(p->answer, "\n")] = 0;
        return true;
    }
    snprintf(p->answer, sizeof p->answer, "failed no answer");
    if (p->pid > 0) {
        int status = 0;
        kill(p->pid, SIGKILL);
        waitpid(p->pid, &status, 0);
        if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
            snprintf(p->answer, sizeof p->answer, "failed ended by signal %d", WTERMSIG(status));
    }
    p->pid = 0;
    return false;
}

static void host_stop(struct host_provider *p)
{
    if (p->to)
        fclose(p->to);
    if (p->from)
        fclose(p->from);
    if (p->pid > 0)
        waitpid(p->pid, NULL, 0);
    p->to = p->from = NULL;
    p->pid = 0;
}

static void host_spawn(struct host_provider *p, const char *library)
{
    int down[2], up[2];
    if (pipe(down) != 0)
        return;
    if (pipe(up) != 0) {
        close(down[0]);
        close(down[1]);
        return;
    }
    p->pid = fork();
    if (p->pid == 0)
        host_child(p->way, library, down[0], up[1]);
    close(down[0]);
    close(up[1]);
    p->to = fdopen(down[1], "w");
    p->from = fdopen(up[0], "r");
    setvbuf(p->to, NULL, _IOLBF, HOST_LINE);
    host_answer(p);
    memcpy(p->note, p->answer, sizeof p->note);
    if (strcmp(p->answer, "ok") != 0)
        host_stop(p);
}

void host_open(const struct perf_options *options, const char *self)
{
    const char *ours = options->our_library;
    signal(SIGPIPE, SIG_IGN);
    host.self = self;
    host.seed = table_now_ns();
    snprintf(host.folder, sizeof host.folder, "/tmp/tileblas-bench-XXXXXX");
    if (!mkdtemp(host.folder))
        host.folder[0] = 0;
    snprintf(host.conf, sizeof host.conf, "%s/nvblas", host.folder);
    host_write_conf("libopenblas.so.0");
    for (int i = 0; i < HOST_WAYS; i++) {
        const struct host_way *way = &host_ways[i];
        const bool is_ours = strncmp(way->name, "ours", 4) == 0;
        const bool extra =
            strcmp(way->name, "ours-gpu") == 0 || strcmp(way->name, "ours-tf32") == 0;
        if (options->providers ? !perf_wants(options, way->name) : extra)
            continue;
        struct host_provider *p = &host.list[host.count++];
        p->way = way;
        if (way->gpu && !gpu_facts.cc) {
            snprintf(p->note, sizeof p->note, "missing no GPU");
            continue;
        }
        host_spawn(p, is_ours && ours ? ours : way->library);
    }
}

void host_close(void)
{
    char path[240];
    for (int i = 0; i < host.count; i++)
        host_stop(&host.list[i]);
    for (int pin = 0; pin < 2 && host.folder[0]; pin++) {
        snprintf(path, sizeof path, "%s%s.conf", host.conf, pin ? "-autopin" : "");
        unlink(path);
    }
    if (host.folder[0])
        rmdir(host.folder);
}

/* Sends a line and takes the answer; false where it is not "ok ...", with the reason in the note.
 */
static bool host_ask(struct host_provider *p, const char *line)
{
    if (!p->to || fprintf(p->to, "%s\n", line) < 0) {
        p->status = strncmp(p->note, "missing", 7) == 0 ? "missing" : "failed";
        return false;
    }
    host_answer(p);
    if (strncmp(p->answer, "ok", 2) == 0)
        return true;
    p->status = strncmp(p->answer, "absent", 6) == 0 ? "absent" : "failed";
    memcpy(p->note, p->answer, sizeof p->note);
    return false;
}

/* Spinning worker threads would take CPU from the next provider. */
static void host_pause(const struct host_provider *p)
{
    if (p->way->pause)
        usleep(120000);
}

static double host_turn(struct host_provider *p, int inner)
{
    char line[40];
    double ms = -1, max = 0, sum2 = 0;
    long long entries = 0, bad = 0;
    snprintf(line, sizeof line, "run %d", inner);
    if (!host_ask(p, line) ||
        sscanf(p->answer, "ok %lf %lf %lf %lld %lld", &ms, &max, &sum2, &entries, &bad) != 5)
        return -1;
    const struct data_error error = {max, sum2, entries, bad};
    data_error_merge(&p->error, &error);
    return ms;
}

/* The least time the case can take here: operands over the link, or the operations. */
static double host_floor(const struct perf_limits *limits, const struct tb_call *call, bool pinned,
                         const char **name)
{
    const char *unit;
    const double rate = limits_rate(limits, call->ab, false, &unit);
    const double link = pinned ? limits->h2d : limits->staged;
    if (!limits->measured || rate <= 0 || link <= 0 || limits->d2h <= 0)
        return 0;
    const double in = call_bytes_in(call) / link / 1e6,
                 out = call_bytes_out(call) / limits->d2h / 1e6;
    const double compute = call_flops(call) / rate / 1e6;
    *name = compute >= in && compute >= out ? unit : in >= out ? "link-in" : "link-out";
    return compute >= in && compute >= out ? compute : in >= out ? in : out;
}

static struct tb_call host_as_call(const struct perf_case *item)
{
    struct tb_call call = {.form = TB_ONE,
                           .batch = 1,
                           .side = 'L',
                           .uplo = 'L',
                           .ta = 'N',
                           .tb = 'N',
                           .diag = 'N',
                           .m = item->m,
                           .n = item->n,
                           .k = item->k};
    cases_type(item->routine, &call.ab, &call.c_type, &call.op);
    call.alpha_type = call.beta_type = call.c_type;
    call.alpha.d[0] = 1;
    if (call.c_type == TB_F32 || call.c_type == TB_C32)
        call.alpha.f[0] = 1;
    return call;
}

static void host_row_out(const struct perf_case *item, struct host_provider *p,
                         const struct perf_options *options, double ours)
{
    double min = 0, max = 0;
    const double median = p->reps ? table_median(p->ms, p->reps, &min, &max) : 0;
    const struct tb_call call = host_as_call(item);
    const char *limit = "";
    const double least =
        host_floor(&options->limits, &call, strcmp(item->memory, "pinned") == 0, &limit);
    const double unit = data_unit(call.ab);
    table_write(&(struct table_row){.level = "host",
                                    .routine = item->routine,
                                    .trans = item->trans,
                                    .dist = data_dist_names[item->dist],
                                    .memory = item->memory,
                                    .provider = p->way->name,
                                    .status = p->status,
                                    .unit = "GFLOP/s",
                                    .limit = limit,
                                    .note = strcmp(p->status, "ok") == 0 ? "" : p->note,
                                    .m = item->m,
                                    .n = item->n,
                                    .k = item->k,
                                    .alpha = item->alpha,
                                    .beta = item->beta,
                                    .reps = p->reps,
                                    .ms = median,
                                    .ms_min = min,
                                    .ms_max = max,
                                    .rate = p->reps ? call_flops(&call) / median / 1e6 : 0,
                                    .vs_ours = p->reps && ours > 0 ? median / ours : 0,
                                    .limit_share = p->reps && least > 0 ? least / median : 0,
                                    .err_max = p->error.max / unit,
                                    .err_rms = data_rms(&p->error) / unit,
                                    .entries = p->error.entries});
}

/* Calls a sample needs so that the clock's own cost vanishes, and samples that fit into the time.
 */
static void host_warm(struct host_provider *p, const struct perf_options *options, const char *line)
{
    p->status = "ok";
    p->reps = p->done = 0;
    p->error = (struct data_error){0};
    double ms = host_ask(p, line) ? host_turn(p, 1) : -1;
    if (ms >= HOST_LONG_MS && p->settled) { /* so long that the first one is as good as any */
        p->ms[0] = ms;
        p->reps = p->done = 1;
        host_pause(p);
        return;
    }
    p->settled = p->settled || ms > 0;
    /* first calls load libraries, devices and pages: go on until a call is no quicker than half of
     * the last */
    for (int i = 0; ms > 0 && ms < HOST_LONG_MS && i < 4; i++) {
        const double before = ms;
        ms = host_turn(p, 1);
        if (ms <= 0 || ms > 0.5 * before || (i == 0 && ms * options->reps < options->case_ms))
            break;
    }
    host_pause(p);
    if (ms <= 0)
        return;
    p->inner = ms < 1 ? (int)(1 / ms) + 1 : 1;
    int reps = options->reps;
    if (ms * reps > options->case_ms)
        reps = (int)(options->case_ms / ms);
    reps = reps < 3 && ms < options->case_ms ? 3 : reps < 1 ? 1 : reps;
    p->reps = reps > HOST_REPS ? HOST_REPS : reps;
}

/* Samples r ... of one provider in a row, then the next one's turn. */
static void host_burst(struct host_provider *p, int r)
{
    const int end = r + HOST_BURST < p->reps ? r + HOST_BURST : p->reps;
    r = r > p->done ? r : p->done;
    if (r >= p->reps || strcmp(p->status, "ok") != 0)
        return;
    for (; r < end; r++) {
        p->ms[r] = host_turn(p, p->inner);
        if (p->ms[r] <= 0) {
            p->reps = r;
            return;
        }
    }
    host_pause(p);
}

void host_case(const struct perf_case *item, const struct perf_options *options)
{
    char line[HOST_LINE];
    int most = 0;
    host.seed = data_mix(host.seed);
    snprintf(line, sizeof line, "case %s %s %s %d %lld %lld %lld %.17g %.17g %llu", item->routine,
             item->trans, item->memory, (int)item->dist, (long long)item->m, (long long)item->n,
             (long long)item->k, item->alpha, item->beta, (unsigned long long)host.seed);
    for (int i = 0; i < host.count; i++) {
        host_warm(&host.list[i], options, line);
        most = host.list[i].reps > most ? host.list[i].reps : most;
    }
    for (int r = 0; r < most; r += HOST_BURST)
        for (int i = 0; i < host.count; i++)
            host_burst(&host.list[i], r);
    const double tolerance = (4 + 2 * sqrt((double)(item->k > item->m ? item->k : item->m)));
    double ours = 0, lo, hi;
    for (int i = 0; i < host.count; i++) {
        struct host_provider *p = &host.list[i];
        enum tb_type ab, c;
        enum tb_op op;
        cases_type(item->routine, &ab, &c, &op);
        const double allowed = strcmp(p->way->name, "ours-tf32") == 0 ? 0x1p14 : tolerance;
        if (strcmp(p->status, "ok") == 0 &&
            (p->error.bad || !(p->error.max <= allowed * data_unit(ab))))
            p->status = "wrong";
        if (strcmp(p->way->name, "ours") == 0 && p->reps)
            ours = table_median(p->ms, p->reps, &lo, &hi);
    }
    for (int i = 0; i < host.count; i++)
        host_row_out(item, &host.list[i], options, ours);
}
