/* SPDX-License-Identifier: BSD-3-Clause
 * The FP64 rows of kernels.def, real and complex, beside cuBLAS: launches of both interleaved on
 * the same random data, results compared with each other. tests/gpu/kernels says whether rows are
 * right; this says how fast they are, for shapes and batches of all kinds.
 *   bench_gemm64 DIR square d|z N...   all rows at N, all transposes
 *   bench_gemm64 DIR odd d|z           shapes of all kinds
 *   bench_gemm64 DIR batch d|z         strided batches
 *   bench_gemm64 DIR split d|z         every division of k, where that pays
 * DIR holds the fatbins of the build. TB_CUBLAS names the library; TB_ONLY: rows with that in their
 * name; TB_ROUNDS: how often each side has its turn. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/kernel.h"
#include "bench_cu.h"

enum { SIDES = 32, ROUNDS_MAX = 9, COPIES = 8 };

static struct tb_caps caps;
static const char *dir;
static CUlibrary libraries[TB_IMAGES];
static enum tb_type type;
static int elem, rounds = 3, bad;
static CUdeviceptr heap, heap_c; /* A and B, never written; C */
static size_t heap_bytes = (size_t)10 << 30;

static CUfunction function_of(int i)
{
    static const char *const names[] = {
#define IMAGE(NAME) #NAME,
#include "../kernels/images.def"
#undef IMAGE
    };
    static CUfunction known[1024];
    const struct tb_kernel *row = kernel_row(i);
    char path[512];
    CUkernel kernel;
    if (known[i])
        return known[i];
    snprintf(path, sizeof path, "%s/%s.fatbin", dir, names[row->image]);
    if (!libraries[row->image])
        CU(cuLibraryLoadFromFile, &libraries[row->image], path, NULL, NULL, 0, NULL, NULL, 0);
    if (cuLibraryGetKernel(&kernel, libraries[row->image], row->name) != CUDA_SUCCESS)
        return NULL;
    CU(cuKernelGetFunction, &known[i], kernel);
    CU(cuFuncSetAttribute, known[i], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, row->smem);
    return known[i];
}

/* ---- the two sides of a comparison ---- */

struct side {
    int kernel, split; /* row, or -1: cuBLAS; blocks that divide k, or 0: as the library says */
    double seconds[ROUNDS_MAX], ghz;
};

static void *blas;
static int (*blas_gemm)(void *, int, int, int, int, int, const void *, const void *, int, int,
                        long long, const void *, int, int, long long, const void *, void *, int,
                        int, long long, int, int, int);

static void blas_open(void)
{
    const char *name = getenv("TB_CUBLAS");
    void *lib = dlopen(name ? name : "libcublas.so.13", RTLD_NOW);
    int (*create)(void **);
    if (!lib) {
        printf("no cuBLAS: %s\n", dlerror());
        exit(2);
    }
    *(void **)&create = dlsym(lib, "cublasCreate_v2");
    *(void **)&blas_gemm = dlsym(lib, "cublasGemmStridedBatchedEx");
    if (!create || !blas_gemm || create(&blas))
        exit(2);
}

static void blas_go(const struct tb_gemm_params *p)
{
    const int t = type == TB_F64 ? 1 : 5;
    const int r = blas_gemm(blas, p->op_a & 1, p->op_b & 1, (int)p->m, (int)p->n, (int)p->k,
                            p->alpha, (void *)p->a, t, (int)p->lda, p->stride_a, (void *)p->b, t,
                            (int)p->ldb, p->stride_b, p->beta, (void *)p->c, t, (int)p->ldc,
                            p->stride_c, (int)p->batch, 70, -1);
    if (r) {
        printf("cuBLAS status %d\n", r);
        exit(2);
    }
}

static void row_go(const struct side *s, const struct tb_gemm_params *p)
{
    const struct tb_kernel *row = kernel_row(s->kernel);
    struct tb_gemm_params by_value = *p;
    void *args[] = {&by_value};
    struct tb_launch launch;
    kernel_launch(row, &caps, p, &launch);
    if (s->split) {
        launch.grid[0] = launch.grid[0] / launch.cluster * (unsigned)s->split;
        launch.cluster = (unsigned)s->split;
    }
    CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                 .value.clusterDim = {launch.cluster, 1, 1}};
    const CUlaunchConfig config = {.gridDimX = launch.grid[0],
                                   .gridDimY = launch.grid[1],
                                   .gridDimZ = launch.grid[2],
                                   .blockDimX = (unsigned)row->threads,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .sharedMemBytes = (unsigned)row->smem,
                                   .attrs = &cluster,
                                   .numAttrs = launch.cluster > 1};
    CU(cuLaunchKernelEx, &config, function_of(s->kernel), args, NULL);
}

static void go(const struct side *s, const struct tb_gemm_params *p)
{
    if (s->kernel < 0)
        blas_go(p);
    else
        row_go(s, p);
}

/* GHz of a multiprocessor just after a turn; 0 without DIR/clock.cubin. */
static double clock_now(void)
{
    static CUmodule module;
    static CUfunction fn;
    static CUdeviceptr at;
    static int tried;
    char path[512];
    long long seen[2];
    if (!tried++) {
        snprintf(path, sizeof path, "%s/clock.cubin", dir);
        if (cuModuleLoad(&module, path) == CUDA_SUCCESS) {
            CU(cuModuleGetFunction, &fn, module, "spin");
            CU(cuMemAlloc, &at, sizeof seen);
        }
    }
    if (!fn)
        return 0;
    void *args[] = {&at};
    CU(cuLaunchKernel, fn, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL);
    CU(cuMemcpyDtoH, seen, at, sizeof seen);
    return (double)seen[0] / (double)seen[1];
}

static double turn(const struct side *s, const struct tb_gemm_params *p, int copies, int times)
{
    static CUevent start, stop;
    float ms;
    if (!start) {
        CU(cuEventCreate, &start, 0);
        CU(cuEventCreate, &stop, 0);
    }
    for (int x = -1; x < times; x++) {
        if (x == 0)
            CU(cuEventRecord, start, NULL);
        go(s, &p[(x + copies) % copies]);
    }
    CU(cuEventRecord, stop, NULL);
    CU(cuEventSynchronize, stop);
    CU(cuEventElapsedTime, &ms, start, stop);
    return ms * 1e-3 / times;
}

/* ---- one shape ---- */

static int by_value(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* As the library lays out what it uploads; `odd` leading dimensions as a program may have them. */
static int64_t pitch(int64_t rows, int odd)
{
    const int64_t unit = odd ? 1 : rows * elem >= 512 ? 128 / elem : 16 / elem > 0 ? 16 / elem : 1;
    return (rows + unit - 1) / unit * unit;
}

static size_t up256(int64_t x)
{
    return ((size_t)x + 255) / 256 * 256;
}

static double largest_difference(const double *x, const double *y, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, isfinite(x[i]) ? fabs(x[i] - y[i]) : INFINITY);
    return most;
}

/* First and last parts of the results of a side and of cuBLAS, within what two orders of summation
 * may differ by: this tells a product from something else. */
static void compare(const struct side *s, const struct tb_gemm_params *p, size_t c_bytes)
{
    enum { PART = 1 << 20 };
    static double want[2][PART / 8], got[2][PART / 8];
    const size_t part = c_bytes < PART ? c_bytes & ~(size_t)15 : PART;
    const CUdeviceptr from[2] = {p->c, p->c + (c_bytes - part) / 16 * 16};
    if (s->kernel < 0)
        return;
    for (int side = 0; side < 2; side++) {
        const struct side other = {.kernel = -1};
        CU(cuMemsetD8, p->c, 0, c_bytes);
        go(side ? s : &other, p);
        for (int i = 0; i < 2; i++)
            CU(cuMemcpyDtoH, side ? got[i] : want[i], from[i], part);
    }
    for (int i = 0; i < 2; i++) {
        const double most = largest_difference(want[i], got[i], part / 8);
        if (!(most <= 0x1p-53 * (double)p->k * (8 + sqrt((double)p->k)))) {
            printf("  WRONG: %s split %d: %g\n", kernel_row(s->kernel)->name, s->split, most);
            bad = 1;
        }
    }
}

/* A line: cuBLAS, then every side as ratio to it. The ratio of the library's choice. */
static double shape(int ta, int tb, int m, int n, int k, int batch, int splits, int odd)
{
    static struct side sides[SIDES];
    struct tb_gemm_params p[COPIES];
    const int64_t lda = pitch(ta ? k : m, odd), ldb = pitch(tb ? n : k, odd), ldc = pitch(m, odd);
    const int64_t sa = lda * (ta ? m : k), sb = ldb * (tb ? k : n), sc = ldc * n;
    const size_t one_a = up256(sa * batch * elem), one_b = up256(sb * batch * elem),
                 one_c = up256(sc * batch * elem), ab = one_a + one_b, all = ab + one_c;
    int copies = (int)((size_t)(120 << 20) / all) + 1, count = 1;
    copies = copies > COPIES ? COPIES : copies;
    if (ab * (size_t)copies > heap_bytes || one_c * (size_t)copies > heap_bytes)
        return 0;
    for (int x = 0; x < copies; x++)
        p[x] = (struct tb_gemm_params){.a = heap + (size_t)x * ab,
                                       .b = heap + (size_t)x * ab + one_a,
                                       .c = heap_c + (size_t)x * one_c,
                                       .stride_a = sa,
                                       .stride_b = sb,
                                       .stride_c = sc,
                                       .m = m,
                                       .n = n,
                                       .k = k,
                                       .lda = lda,
                                       .ldb = ldb,
                                       .ldc = ldc,
                                       .batch = batch,
                                       .alpha = {1, 0},
                                       .op_a = ta,
                                       .op_b = tb,
                                       .beta_zero = 1};
    const double flops = (type == TB_F64 ? 2.0 : 8.0) * m * n * k * batch;
    const double guess = flops / 50e12 + (double)all / 3e12 + 5e-6;
    int times = (int)(4e-3 / guess) + 1;
    times = times > 100 ? 100 : times;
    sides[0] = (struct side){.kernel = -1};
    const int choice = kernel_choose(&caps, type, type, ta, tb, m, n, k, batch);
    for (int i = 0; i < kernel_count(); i++) {
        const struct tb_kernel *row = kernel_row(i);
        if (row->family == TB_TRI || row->ab != type || row->ta != ta || row->tb != tb ||
            (getenv("TB_ONLY") && !strstr(row->name, getenv("TB_ONLY"))) || !function_of(i))
            continue;
        const int divided = row->family == TB_DMMA ? splits : 0;
        for (int split = divided ? 1 : 0; split <= divided && count < SIDES; split *= 2, count++) {
            sides[count] = (struct side){.kernel = i, .split = split};
            if (!split) {
                count++;
                break;
            }
            if (row->bm * row->bn * elem > row->smem / row->pair)
                split = 8;
        }
    }
    for (int r = 0; r < rounds; r++)
        for (int x = 0; x < count; x++)
            sides[x].seconds[r] = turn(&sides[x], p, copies, times), sides[x].ghz = clock_now();
    double chosen = 0, base = 1, best = 0;
    printf("%c%c%s %5d %5d %5d", ta ? 'T' : 'N', tb ? 'T' : 'N', odd ? "u" : " ", m, n, k);
    if (batch > 1)
        printf(" x%d", batch);
    for (int x = 0; x < count; x++) {
        qsort(sides[x].seconds, (size_t)rounds, sizeof(double), by_value);
        const double ratio = base / sides[x].seconds[rounds / 2];
        if (x == 0) {
            base = sides[x].seconds[rounds / 2];
            printf(" %8.1f us %5.1f TF", base * 1e6, flops / base * 1e-12);
            if (sides[0].ghz > 0)
                printf(" %.2f", sides[0].ghz);
            printf(" |");
            continue;
        }
        best = fmax(best, ratio);
        if (sides[x].kernel == choice && sides[x].split == 0)
            chosen = ratio;
        if (sides[x].split == 1 || sides[x].split == 0)
            printf(" ;");
        printf(" %s%.3f", sides[x].kernel == choice ? "*" : "", ratio);
        if (sides[x].ghz > 0)
            printf(" %.2f", sides[x].ghz);
    }
    printf(" | %.1f\n", flops / base * best * 1e-12);
    for (int x = 1; x < count; x++)
        compare(&sides[x], &p[0], (size_t)(sc * batch - (ldc - m)) * (size_t)elem);
    return chosen;
}

static const int odd[][4] = {
    {1000, 1000, 1000, 0}, {1001, 999, 1003, 4},  {513, 511, 517, 5},     {2049, 2047, 2050, 4},
    {3001, 2999, 3003, 5}, {4097, 4095, 4099, 4}, {4097, 4095, 4099, 7},  {5000, 5000, 5000, 2},
    {7001, 5003, 3001, 0}, {16, 8192, 8192, 0},   {16, 8192, 8192, 1},    {8192, 16, 8192, 0},
    {8192, 16, 8192, 1},   {64, 4096, 4096, 0},   {4096, 64, 4096, 1},    {1, 4096, 4096, 1},
    {8, 4096, 11008, 1},   {11008, 8, 4096, 1},   {100, 100, 10000, 0},   {64, 64, 65536, 0},
    {128, 128, 32768, 1},  {256, 256, 16384, 0},  {512, 512, 8192, 1},    {333, 777, 12345, 5},
    {4096, 4096, 16, 0},   {4096, 4096, 64, 1},   {8192, 8192, 128, 1},   {3000, 3000, 200, 2},
    {128, 8192, 1024, 0},  {8192, 128, 1024, 1},  {256, 10000, 2048, 1},  {129, 4000, 4000, 1},
    {3000, 257, 5000, 1},  {700, 700, 700, 0},    {300, 300, 300, 1},     {200, 200, 2000, 0},
    {1500, 150, 1500, 2},  {768, 3072, 768, 1},   {1024, 2560, 10240, 0}, {12288, 384, 4096, 1}};

static void open_all(void)
{
    CUdevice dev;
    CUcontext ctx;
    int major, minor;
    CU(cuInit, 0);
    CU(cuDeviceGet, &dev, 0);
    CU(cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev);
    CU(cuDeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, dev);
    CU(cuDeviceGetAttribute, &caps.sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev);
    CU(cuDeviceGetAttribute, &caps.smem_block,
       CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, dev);
    caps.cc = 10 * major + minor;
    CU(cuDevicePrimaryCtxRetain, &ctx, dev);
    CU(cuCtxSetCurrent, ctx);
    CU(cuMemAlloc, &heap, heap_bytes);
    CU(cuMemAlloc, &heap_c, heap_bytes);
}

/* Numbers of U(-1, 1) everywhere. */
static void fill(void)
{
    const size_t part = (size_t)64 << 20;
    double *host = malloc(part);
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < part / 8; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        host[i] = (double)(x >> 11) * 0x1p-52 - 1;
    }
    CU(cuMemcpyHtoD, heap, host, part);
    free(host);
    /* Each copy begins elsewhere, or columns of A and B would be the same. */
    for (size_t at = part, shift = 0, n; at < heap_bytes; at += n) {
        shift += 8 * 509;
        n = heap_bytes - at < part - shift ? heap_bytes - at : part - shift;
        CU(cuMemcpyDtoD, heap + at, heap + shift, n);
    }
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 4)
        return 2;
    dir = argv[1];
    type = *argv[3] == 'd' ? TB_F64 : TB_C64;
    elem = type == TB_F64 ? 8 : 16;
    if (getenv("TB_ROUNDS"))
        rounds = atoi(getenv("TB_ROUNDS"));
    rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
    open_all();
    blas_open();
    fill();
    printf("%s: cuBLAS |", type == TB_F64 ? "dgemm" : "zgemm");
    for (int i = 0; i < kernel_count(); i++)
        if (kernel_row(i)->family != TB_TRI && kernel_row(i)->ab == type && !kernel_row(i)->ta &&
            !kernel_row(i)->tb)
            printf(" %s", kernel_row(i)->name);
    printf(" (ratios) | TF of the best\n");
    if (strcmp(argv[2], "square") == 0) {
        for (int x = 4; x < argc; x++)
            for (int op = 0; op < 4; op++)
                shape(op >> 1, op & 1, atoi(argv[x]), atoi(argv[x]), atoi(argv[x]), 1, 0, 0);
    } else if (strcmp(argv[2], "odd") == 0) {
        double logs = 0, least = 1e9;
        int shapes = 0;
        for (size_t x = 0; x < sizeof odd / sizeof *odd; x++) {
            const double ratio = shape(odd[x][3] & 1, odd[x][3] >> 1 & 1, odd[x][0], odd[x][1],
                                       odd[x][2], 1, 0, odd[x][3] >> 2);
            if (ratio > 0)
                logs += log(ratio), least = fmin(least, ratio), shapes++;
        }
        printf("%d odd shapes: geometric mean %.3f, least %.3f\n", shapes, exp(logs / shapes),
               least);
    } else if (strcmp(argv[2], "split") == 0) {
        static const int some[][3] = {{1024, 1024, 1024}, {512, 512, 8192},  {64, 64, 65536},
                                      {16, 8192, 8192},   {128, 8192, 1024}, {300, 300, 300}};
        for (size_t x = 0; x < sizeof some / sizeof *some; x++)
            shape(0, 0, some[x][0], some[x][1], some[x][2], 1, 8, 0);
    } else {
        shape(0, 0, 256, 256, 256, 1000, 0, 0);
        shape(1, 0, 256, 256, 256, 1000, 0, 0);
        shape(0, 0, 64, 64, 64, 10000, 0, 0);
        shape(1, 0, 64, 64, 64, 10000, 0, 0);
    }
    return bad;
}
