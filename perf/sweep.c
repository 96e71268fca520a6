/* SPDX-License-Identifier: BSD-3-Clause
 * Is the router right? 200 products of all kinds of shapes, with one CPU thread and with all: the
 * router's choice beside the CPU alone and the GPU alone, each in a process of its own, taking
 * turns. With -f: what the first large call of a process takes. Only the public names are used. */
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WAYS = 4, SHAPES_MAX = 400, REPS_MAX = 40, LINE = 400 };
enum { CPU, GPU, AUTO, TOLD }; /* TOLD: as AUTO, and says what it expects; not timed */
#define OPERAND_BYTES ((size_t)160 << 20)
#define PAUSE_MS      120 /* as long as the threads of a CPU BLAS may spin on */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

/* --- The worker: calls what it is told to, says how long it took ---
 */

struct shape {
    const char *kind;
    char type, ta, tb;
    int m, n, k, threads;
};

typedef void gemm_fn(const char *, const char *, const int *, const int *, const int *,
                     const void *, const void *, const int *, const void *, const int *,
                     const void *, void *, const int *, size_t, size_t);

static struct {
    void *library;
    char *a, *b, *c;
} worker;

/* Pairs of floats of either sign from 0.5 to 1, which are also doubles far from any edge. */
static char *operand(void)
{
    uint64_t *const x = malloc(OPERAND_BYTES), state = 88172645463325252u;
    for (size_t i = 0; x && i < OPERAND_BYTES / 8; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        x[i] = (state & 0x807fffff807fffffu) | 0x3f0000003f000000u;
    }
    return (char *)x;
}

static bool worker_open(const char *library)
{
    worker.library = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
    if (!worker.library) {
        fprintf(stderr, "%s\n", dlerror());
        return false;
    }
    worker.a = operand();
    worker.b = operand();
    worker.c = operand();
    return worker.a && worker.b && worker.c;
}

static double call_ms(const struct shape *x)
{
    char name[8] = "?gemm_";
    name[0] = x->type;
    gemm_fn *fn;
    *(void **)(void *)&fn = dlsym(worker.library, name);
    const double one_d[2] = {1, 0}, zero[2] = {0, 0};
    const float one_f[2] = {1, 0};
    const void *const one =
        x->type == 's' || x->type == 'c' ? (const void *)one_f : (const void *)one_d;
    const int lda = x->ta == 'N' ? x->m : x->k, ldb = x->tb == 'N' ? x->k : x->n;
    const uint64_t from = now_ns();
    fn(&x->ta, &x->tb, &x->m, &x->n, &x->k, one, worker.a, &lda, worker.b, &ldb, zero, worker.c,
       &x->m, 1, 1);
    return (double)(now_ns() - from) * 1e-6;
}

static int by_size(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static double measure(const struct shape *x, double least_ms, int most)
{
    double sample[REPS_MAX], sum = 0;
    int count = 0;
    call_ms(x);
    while (count < most && (count < 3 || sum < least_ms)) {
        sample[count] = call_ms(x);
        sum += sample[count++];
    }
    qsort(sample, (size_t)count, sizeof *sample, by_size);
    return sample[count / 2];
}

static int work(const char *library)
{
    char line[LINE];
    if (!worker_open(library))
        return 1;
    void (*set_threads)(int);
    *(void **)(void *)&set_threads = dlsym(worker.library, "openblas_set_num_threads");
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        struct shape x = {.kind = ""};
        double least_ms;
        int most;
        if (sscanf(line, "%c %c %c %d %d %d %d %lf %d", &x.type, &x.ta, &x.tb, &x.m, &x.n, &x.k,
                   &x.threads, &least_ms, &most) != 9)
            return 1;
        if (set_threads)
            set_threads(x.threads);
        printf("%.6f\n", most > 0 ? measure(&x, least_ms, most) : call_ms(&x));
        fflush(stdout);
    }
    return 0;
}

/* The first large call of a process, and the second. */
static int work_first(const char *library, const char *type, const char *side)
{
    const int n = atoi(side);
    const struct shape x = {"", type[0], 'N', 'N', n, n, n, 0};
    if (!worker_open(library))
        return 1;
    const double first = call_ms(&x);
    pause_ms(700); /* the device is up by then */
    call_ms(&x);
    pause_ms(PAUSE_MS);
    printf("%.6f %.6f\n", first, call_ms(&x));
    return 0;
}

/* --- The parent ---
 */

static struct way {
    const char *name, *route, *start;
    FILE *to, *from;
    pid_t pid;
} ways[WAYS] = {{.name = "cpu", .route = "cpu", .start = "auto"},
                {.name = "gpu", .route = "gpu", .start = "wait"},
                {.name = "auto", .route = "auto", .start = "wait"},
                {.name = "told", .route = "auto", .start = "wait"}};

static const char *self, *library, *told_log;
static bool told; /* ask the router what it expects, too */

static void set_environment(const struct way *way, const char *start)
{
    setenv("TILEBLAS_ROUTE", way->route, 1);
    setenv("TILEBLAS_START", start, 1);
    if (way == &ways[TOLD]) {
        setenv("TILEBLAS_VERBOSE", "2", 1);
        setenv("TILEBLAS_LOG", told_log, 1);
    }
}

static bool way_open(struct way *way)
{
    int in[2], out[2];
    if (pipe(in) != 0 || pipe(out) != 0)
        return false;
    way->pid = fork();
    if (way->pid == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        for (int fd = 3; fd < 64; fd++)
            close(fd);
        set_environment(way, way->start);
        execl("/proc/self/exe", self, "--worker", library, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    way->to = fdopen(in[1], "w");
    way->from = fdopen(out[0], "r");
    char line[LINE];
    return way->to && way->from && fgets(line, sizeof line, way->from) != NULL;
}

static double ask(struct way *way, const struct shape *x, double least_ms, int most)
{
    char line[LINE];
    fprintf(way->to, "%c %c %c %d %d %d %d %g %d\n", x->type, x->ta, x->tb, x->m, x->n, x->k,
            x->threads, least_ms, most);
    fflush(way->to);
    return fgets(line, sizeof line, way->from) ? atof(line) : NAN;
}

struct result {
    double ms[3], est_cpu, est_gpu;
    char side; /* 'C' or 'G' */
    bool again;
};

static struct shape shapes[SHAPES_MAX];
static struct result results[SHAPES_MAX];
static int count;

static double flops(const struct shape *x)
{
    return (x->type == 'c' || x->type == 'z' ? 8.0 : 2.0) * x->m * x->n * x->k;
}

static double bytes_of(char type)
{
    return type == 's' ? 4 : type == 'z' ? 16 : 8;
}

static void add(const char *kind, int m, int n, int k, int threads)
{
    static const char types[] = "sdczsddz";
    static const char *const trans[] = {"NN", "NT", "TN", "NN", "TT"};
    if (count == SHAPES_MAX)
        return;
    struct shape x = {kind, types[count % 8], 'N', 'N', m, n, k, threads};
    x.ta = trans[count % 5][0];
    x.tb = trans[count % 5][1];
    /* One thread is to need less than a third of a second, an operand to have its place. */
    const double rate = x.type == 's' || x.type == 'c' ? 120e9 : 60e9;
    while ((threads == 1 && flops(&x) / rate > 0.3) ||
           bytes_of(x.type) * fmax((double)x.m * x.k, fmax((double)x.n * x.k, (double)x.m * x.n)) >
               (double)OPERAND_BYTES) {
        x.m = x.m > 512 ? x.m * 3 / 4 : x.m;
        x.n = x.n > 512 ? x.n * 3 / 4 : x.n;
        x.k = x.k > 512 ? x.k * 3 / 4 : x.k;
    }
    shapes[count++] = x;
}

static void list_shapes(int threads)
{
    static const int squares[] = {96,  128, 160, 192, 224,  256,  320,  384,  448,  512,
                                  576, 640, 768, 896, 1024, 1280, 1536, 2048, 2560, 3072};
    static const int shorts[] = {8, 16, 32, 64, 128}, longs[] = {500, 1100, 2300, 4200};
    static const int ks[] = {16, 32, 64, 128}, wides[] = {400, 900, 1600, 2600, 4000};
    static const int deeps[] = {16, 40, 64, 128, 256};
    for (size_t i = 0; i < sizeof squares / sizeof *squares; i++)
        add("square", squares[i], squares[i], squares[i], threads);
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 4; j++) {
            add("skinny", longs[j], shorts[i], longs[(j + i) % 4], threads);
            add("flat", shorts[i], longs[j], longs[(j + i + 1) % 4], threads);
            add("outer", wides[i], wides[(i + j) % 5], ks[j], threads);
        }
    for (int i = 0; i < 5; i++) {
        add("tiny-k", wides[i], wides[i], i % 2 ? 2 : 1, threads);
        add("tiny-k", wides[i], wides[4 - i], i % 2 ? 8 : 4, threads);
        add("deep", deeps[i], deeps[i], 8192, threads);
        add("deep", deeps[i], deeps[4 - i], 40000, threads);
    }
}

/* What the router said in the last line of its log. */
static void read_told(struct result *r)
{
    char line[LINE], last[LINE] = "";
    FILE *file = fopen(told_log, "r");
    while (file && fgets(line, sizeof line, file))
        if (strstr(line, "gemm"))
            memcpy(last, line, sizeof last);
    if (file)
        fclose(file);
    const char *side = strstr(last, ": GPU ("), *estimate = strstr(last, "estimated CPU ");
    r->side = side ? 'G' : 'C';
    if (estimate)
        sscanf(estimate, "estimated CPU %lf ms GPU %lf", &r->est_cpu, &r->est_gpu);
    unlink(told_log);
}

static void run_shape(int i, double least_ms, int most)
{
    const struct shape *const x = &shapes[i];
    struct result *const r = &results[i];
    for (int turn = 0; turn < 3; turn++) {
        const int way = (turn + i) % 3;
        r->ms[way] = ask(&ways[way], x, least_ms, most);
        if (x->threads > 1 && way != GPU)
            pause_ms(PAUSE_MS);
    }
    if (!told)
        return;
    ask(&ways[TOLD], x, 0, 0);
    read_told(r);
    if (x->threads > 1 && r->side == 'C')
        pause_ms(PAUSE_MS);
}

static double best_of(const struct result *r)
{
    return fmin(r->ms[CPU], r->ms[GPU]);
}

static bool is_over(const struct result *r)
{
    return !(r->ms[AUTO] <= 1.10 * best_of(r) + 0.020);
}

static void write_csv(FILE *out)
{
    fputs("kind,type,trans,m,n,k,threads,cpu_ms,gpu_ms,auto_ms,auto_by_best,side,est_cpu_ms,"
          "est_gpu_ms,over,again\n",
          out);
    for (int i = 0; i < count; i++) {
        const struct shape *const x = &shapes[i];
        const struct result *const r = &results[i];
        fprintf(out, "%s,%c,%c%c,%d,%d,%d,%d,%.4f,%.4f,%.4f,%.3f,%s,%.4f,%.4f,%d,%d\n", x->kind,
                x->type, x->ta, x->tb, x->m, x->n, x->k, x->threads, r->ms[CPU], r->ms[GPU],
                r->ms[AUTO], r->ms[AUTO] / best_of(r),
                r->side == 'G'   ? "gpu"
                : r->side == 'C' ? "cpu"
                                 : "",
                r->est_cpu, r->est_gpu, is_over(r), r->again);
    }
}

/* Exit status 1: a bound of the router is not kept. */
static int summary(void)
{
    double logs = 0, worst = 0, cpu = 0, gpu = 0, ours = 0;
    int over = 0, worst_at = 0, wrong = 0;
    for (int i = 0; i < count; i++) {
        const struct result *const r = &results[i];
        const double ratio = r->ms[AUTO] / best_of(r);
        logs += log(ratio);
        cpu += log(r->ms[CPU] / best_of(r));
        gpu += log(r->ms[GPU] / best_of(r));
        wrong += (r->side == 'G') != (r->ms[GPU] < r->ms[CPU]);
        ours += r->side == 'G';
        over += is_over(r);
        if (is_over(r))
            printf("over: %s %cgemm %c%c %d x %d x %d, %d threads: cpu %.3f gpu %.3f auto %.3f ms "
                   "(%.1s, expected %.3f %.3f)\n",
                   shapes[i].kind, shapes[i].type, shapes[i].ta, shapes[i].tb, shapes[i].m,
                   shapes[i].n, shapes[i].k, shapes[i].threads, r->ms[CPU], r->ms[GPU], r->ms[AUTO],
                   &r->side, r->est_cpu, r->est_gpu);
        if ((ratio > worst || isnan(ratio)) && r->ms[AUTO] > best_of(r) + 0.020) {
            worst = ratio;
            worst_at = i;
        }
    }
    const double mean = exp(logs / count);
    printf("%d shapes: auto / best: geometric mean %.4f; %d over 1.10 x + 20 us (%.1f%%); worst "
           "%.3f beyond 20 us (%s %cgemm %d x %d x %d, %d threads)\n",
           count, mean, over, 100.0 * over / count, worst, shapes[worst_at].kind,
           shapes[worst_at].type, shapes[worst_at].m, shapes[worst_at].n, shapes[worst_at].k,
           shapes[worst_at].threads);
    printf("%.0f on the GPU, %d on the slower side; cpu / best %.3f, gpu / best %.3f\n", ours,
           wrong, exp(cpu / count), exp(gpu / count));
    return !(mean < 1.02 && over * 50 <= count && worst <= 1.5);
}

static int sweep(const char *csv, int threads, int part)
{
    list_shapes(1);
    list_shapes(threads);
    if (part > 1) { /* every part-th, for a look */
        int kept = 0;
        for (int i = 0; i < count; i += part)
            shapes[kept++] = shapes[i];
        count = kept;
    }
    for (int w = 0; w < (told ? WAYS : TOLD); w++)
        if (!way_open(&ways[w])) {
            fprintf(stderr, "the worker of %s did not start\n", ways[w].name);
            return 2;
        }
    for (int i = 0; i < count; i++)
        run_shape(i, 12, 15);
    for (int i = 0; i < count; i++)
        if (is_over(&results[i])) {
            results[i].again = true;
            run_shape(i, 40, 30);
        }
    FILE *out = csv ? fopen(csv, "w") : NULL;
    if (out) {
        write_csv(out);
        fclose(out);
    }
    const int status = summary();
    for (int w = 0; w < (told ? WAYS : TOLD); w++) {
        fclose(ways[w].to);
        waitpid(ways[w].pid, NULL, 0);
    }
    return status;
}

/* --- The first call ---
 */

static bool first_of(const struct way *way, char type, int n, double *first, double *second)
{
    char line[LINE] = "", command[2] = {type, 0}, side[16];
    int out[2];
    snprintf(side, sizeof side, "%d", n);
    if (pipe(out) != 0)
        return false;
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(out[1], STDOUT_FILENO);
        set_environment(way, "auto");
        execl("/proc/self/exe", self, "--first", library, command, side, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    FILE *from = fdopen(out[0], "r");
    const bool got = from && fgets(line, sizeof line, from) != NULL;
    if (from)
        fclose(from);
    waitpid(pid, NULL, 0);
    return got && sscanf(line, "%lf %lf", first, second) == 2;
}

static int first_calls(int part)
{
    static const struct {
        char type;
        int n;
    } cases[] = {{'d', 1024}, {'s', 3000}, {'d', 4096}, {'s', 4472}, {'d', 4472}, {'s', 6300}};
    int status = 0;
    puts("first call: cpu, gpu (and its second), auto (and its second) ms; auto / min(cpu, 400 + "
         "second of gpu)");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i += (size_t)part) {
        double cpu[2], gpu[2], ours[2] = {0, 0}, least = 1e9, second = 0;
        if (!first_of(&ways[CPU], cases[i].type, cases[i].n, &cpu[0], &cpu[1]) ||
            !first_of(&ways[GPU], cases[i].type, cases[i].n, &gpu[0], &gpu[1]))
            return 2;
        for (int r = 0; r < 2; r++) {
            if (!first_of(&ways[AUTO], cases[i].type, cases[i].n, &ours[0], &ours[1]))
                return 2;
            second = ours[0] < least ? ours[1] : second;
            least = fmin(least, ours[0]);
        }
        const double bound = fmin(cpu[0], 400 + gpu[1]);
        printf("%cgemm %d: cpu %.1f, gpu %.1f (%.1f), auto %.1f (%.1f): %.2f\n", cases[i].type,
               cases[i].n, cpu[0], gpu[0], gpu[1], least, second, least / bound);
        fflush(stdout);
        status |= least > 1.1 * bound;
    }
    return status;
}

int main(int argc, char **argv)
{
    const char *csv = NULL;
    bool first = false;
    int option, part = 1, threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
    char log_name[64];
    if (argc == 3 && strcmp(argv[1], "--worker") == 0)
        return work(argv[2]);
    if (argc == 5 && strcmp(argv[1], "--first") == 0)
        return work_first(argv[2], argv[3], argv[4]);
    self = argv[0];
    library = "libtileblas.so.0";
    snprintf(log_name, sizeof log_name, "/tmp/sweep-%ld.log", (long)getpid());
    told_log = log_name;
    while ((option = getopt(argc, argv, "b:o:t:p:fv")) != -1) {
        if (option == 'b')
            library = optarg;
        else if (option == 'o')
            csv = optarg;
        else if (option == 't')
            threads = atoi(optarg);
        else if (option == 'p')
            part = atoi(optarg);
        else if (option == 'f')
            first = true;
        else if (option == 'v')
            told = true;
        else {
            fputs("usage: sweep [-b LIBTILEBLAS] [-o FILE.csv] [-t THREADS] [-p EVERY] [-v] [-f]\n",
                  stderr);
            return 2;
        }
    }
    return first ? first_calls(part) : sweep(csv, threads, part);
}
