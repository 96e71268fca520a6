/* SPDX-License-Identifier: BSD-3-Clause
 * FP32 products on 16-bit planes on a device: their errors beside those of the plain rows and of
 * cuBLAS on data of many kinds, and their speed beside cuBLAS, launches of both interleaved.
 *   bench_sgemm DIR errors M K...    every kind of data at M x M x K
 *   bench_sgemm DIR speed N...       all transposes, and what each part takes
 *   bench_sgemm DIR edges            odd shapes, pitches, scalars, batches
 * DIR holds check_sgemm.cubin and the fatbins. TB_CUBLAS names the library. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kernels/x3.h"
#include "../src/kernel.h"
#include "bench_cu.h"

static struct tb_caps caps;
static const char *dir;
static CUfunction fn_fill, fn_judge;
static CUlibrary libraries[TB_IMAGES];
static CUfunction functions[1024];

static CUfunction function_of(int i)
{
    static const char *const names[] = {
#define IMAGE(NAME) #NAME,
#include "../kernels/images.def"
#undef IMAGE
    };
    const struct tb_kernel *row = kernel_row(i);
    char path[512];
    CUkernel kernel;
    if (functions[i])
        return functions[i];
    snprintf(path, sizeof path, "%s/%s.fatbin", dir, names[row->image]);
    if (!libraries[row->image])
        CU(cuLibraryLoadFromFile, &libraries[row->image], path, NULL, NULL, 0, NULL, NULL, 0);
    CU(cuLibraryGetKernel, &kernel, libraries[row->image], row->name);
    CU(cuKernelGetFunction, &functions[i], kernel);
    if (row->smem)
        CU(cuFuncSetAttribute, functions[i], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
           row->smem);
    return functions[i];
}

/* ---- a product of ours ---- */

struct product {
    struct tb_gemm_params p;
    struct tb_part parts[TB_PARTS_MAX];
    int count;
};

static void product_ready(struct product *x, int row, const struct tb_gemm_params *p)
{
    x->p = *p;
    x->count = kernel_parts(row, &caps, p, x->parts);
    x->p.guard = x->count > 1 ? p->scratch : 0;
    for (int i = 0; i < x->count; i++)
        function_of(x->parts[i].row);
}

static void go_part(struct product *x, int i)
{
    const struct tb_kernel *row = kernel_row(x->parts[i].row);
    const struct tb_launch *launch = &x->parts[i].launch;
    struct tb_gemm_params params = x->p;
    void *args[] = {&params};
    params.way = launch->way;
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                   .value.clusterDim = {launch->cluster, 1, 1}};
    const CUlaunchConfig config = {.gridDimX = launch->grid[0],
                                   .gridDimY = launch->grid[1],
                                   .gridDimZ = launch->grid[2],
                                   .blockDimX = (unsigned)row->threads,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .sharedMemBytes = (unsigned)row->smem,
                                   .attrs = &attribute,
                                   .numAttrs = launch->cluster > 1};
    CU(cuLaunchKernelEx, &config, function_of(x->parts[i].row), args, NULL);
}

static void go(struct product *x)
{
    if (x->count > 1)
        CU(cuMemsetD8Async, x->p.scratch, 0, kernel_cleared(&x->p), NULL);
    for (int i = 0; i < x->count; i++)
        go_part(x, i);
}

static int path_of(const struct product *x)
{
    struct tb_x3_guard guard;
    if (x->count == 1)
        return 0;
    CU(cuMemcpyDtoH, &guard, x->p.scratch, sizeof guard);
    return (int)guard.path;
}

static int find_row(const char *name)
{
    for (int i = 0; i < kernel_count(); i++)
        if (strcmp(kernel_row(i)->name, name) == 0)
            return i;
    printf("no row %s\n", name);
    exit(2);
}

static int row_of(const char *stem, int ta, int tb)
{
    char name[64];
    snprintf(name, sizeof name, "%s_%c%c", stem, ta ? 't' : 'n', tb ? 't' : 'n');
    return find_row(name);
}

/* ---- cuBLAS ---- */

static void *blas;
static int (*blas_gemm)(void *, int, int, int, int, int, const float *, const void *, int,
                        const void *, int, const float *, void *, int);

static void blas_open(void)
{
    const char *name = getenv("TB_CUBLAS");
    void *lib = dlopen(name ? name : "libcublas.so.13", RTLD_NOW);
    int (*create)(void **);
    if (!lib) {
        printf("no cuBLAS: %s\n", dlerror());
        return;
    }
    *(void **)&create = dlsym(lib, "cublasCreate_v2");
    *(void **)&blas_gemm = dlsym(lib, "cublasSgemm_v2");
    if (!create || !blas_gemm || create(&blas))
        exit(2);
}

static void blas_go(const struct tb_gemm_params *p)
{
    const float alpha = (float)p->alpha[0], beta = (float)p->beta[0];
    if (blas_gemm && blas_gemm(blas, p->op_a & 1, p->op_b & 1, (int)p->m, (int)p->n, (int)p->k,
                               &alpha, (void *)p->a, (int)p->lda, (void *)p->b, (int)p->ldb, &beta,
                               (void *)p->c, (int)p->ldc))
        exit(2);
}

/* ---- data and errors ---- */

static const char *const kinds[] = {
    "signed",   "U(0,1)", "normal", "graded10", "graded30", "phi3",   "huge", "subnorm",
    "overflow", "cancel", "rows60", "|normal|", "sparse",   "infnan", "ones", "const"};
enum { KINDS = sizeof kinds / sizeof *kinds };

static CUdeviceptr buf[5]; /* a, b, c, old, scratch */
static CUdeviceptr verdict_at;

static void fill_operand(const struct tb_gemm_params *p, int which, int kind, uint64_t seed)
{
    CUdeviceptr x = which ? p->b : p->a;
    int64_t rows = which ? p->n : p->m, k = p->k, ld = which ? p->ldb : p->lda;
    int turned = which ? !(p->op_b & 1) : p->op_a & 1;
    seed += (uint64_t)(kind == 9 ? 0 : which) * 977; /* cancelling data must match */
    void *args[] = {&x, &rows, &k, &ld, &turned, &kind, &which, &seed};
    CU(cuLaunchKernel, fn_fill, 1024, 1, 1, 256, 1, 1, 0, NULL, args, NULL);
}

struct verdict {
    double worst, squares;
    unsigned long long count, classes;
};

static struct verdict judge(const struct tb_gemm_params *p, CUdeviceptr old, int step)
{
    struct verdict v;
    CUdeviceptr a = p->a, b = p->b, c = p->c;
    int64_t a_r = p->op_a & 1 ? p->lda : 1, a_k = p->op_a & 1 ? 1 : p->lda;
    int64_t b_r = p->op_b & 1 ? 1 : p->ldb, b_k = p->op_b & 1 ? p->ldb : 1;
    int64_t ldc = p->ldc, m = p->m, n = p->n, k = p->k;
    float alpha = (float)p->alpha[0], beta = (float)p->beta[0];
    void *args[] = {&a,   &a_r, &a_k, &b, &b_r,   &b_k,  &c,    &ldc,
                    &old, &m,   &n,   &k, &alpha, &beta, &step, &verdict_at};
    CU(cuMemsetD8, verdict_at, 0, sizeof v);
    CU(cuLaunchKernel, fn_judge, 1024, 1, 1, 256, 1, 1, 0, NULL, args, NULL);
    CU(cuMemcpyDtoH, &v, verdict_at, sizeof v);
    return v;
}

static struct tb_gemm_params params_of(int64_t m, int64_t n, int64_t k, int ta, int tb)
{
    return (struct tb_gemm_params){.a = buf[0],
                                   .b = buf[1],
                                   .c = buf[2],
                                   .m = m,
                                   .n = n,
                                   .k = k,
                                   .lda = ta ? k : m,
                                   .ldb = tb ? n : k,
                                   .ldc = m,
                                   .batch = 1,
                                   .alpha = {1, 0},
                                   .op_a = ta,
                                   .op_b = tb,
                                   .beta_zero = 1,
                                   .scratch = buf[4]};
}

static void say(const char *name, const struct verdict *v)
{
    printf("  %s %.2f/%.2f%s", name, sqrt(v->squares / (double)v->count), v->worst,
           v->classes ? " WRONG CLASS" : "");
    if (v->classes)
        printf(" %llu", v->classes);
}

/* rms/max in u. The verdict against OpenBLAS is that of accuracy.c. */
static void errors(int64_t m, int64_t k)
{
    static const char *const paths[] = {"none", "f16", "bf16", "simt"};
    for (int kind = 0; kind < KINDS; kind++) {
        struct tb_gemm_params p = params_of(m, m, k, 0, 0);
        struct product x3, simt;
        fill_operand(&p, 0, kind, 1 + (uint64_t)kind);
        fill_operand(&p, 1, kind, 1 + (uint64_t)kind);
        product_ready(&x3, row_of("f32_x3", 0, 0), &p);
        product_ready(&simt, row_of("f32_64x64", 0, 0), &p);
        CU(cuMemsetD8, p.c, 0xff, (size_t)(m * m * 4));
        go(&x3);
        printf("%-9s k %6lld %-4s", kinds[kind], (long long)k, paths[path_of(&x3)]);
        struct verdict v = judge(&p, 0, 1);
        say("x3", &v);
        CU(cuMemsetD8, p.c, 0xff, (size_t)(m * m * 4));
        go(&simt);
        v = judge(&p, 0, 1);
        say("simt", &v);
        if (blas_gemm) {
            CU(cuMemsetD8, p.c, 0xff, (size_t)(m * m * 4));
            blas_go(&p);
            v = judge(&p, 0, 1);
            say("cublas", &v);
        }
        printf("\n");
    }
}

/* ---- edges ---- */

static uint64_t state = 88172645463325252u;
static int pick(int n)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (int)((state >> 20) % (uint64_t)n);
}

static int edges(void)
{
    static const float scalars[] = {1, 0.5f, -2, 1.25e-3f, 0x1p100f, 0x1p-100f, 0x1p-130f};
    static const int sizes[] = {1, 3, 64, 127, 128, 129, 200, 256, 257, 300, 385, 513};
    static const int ks[] = {256, 257, 287, 288,  289,  319,  511,  512,
                             513, 544, 545, 1023, 1024, 1025, 1056, 2049};
    int failed = 0;
    for (int t = 0; t < 240; t++) {
        const int ta = pick(2), tb = pick(2), kind = (const int[]){0, 1, 2, 3, 4, 5, 6, 13}[t % 8];
        const int64_t m = sizes[pick(12)], n = sizes[pick(12)], k = ks[pick(16)];
        struct tb_gemm_params p = params_of(m, n, k, ta, tb);
        const int pad = pick(2);
        p.lda += pad * pick(7), p.ldb += pad * pick(7), p.ldc += pad * pick(7);
        p.a += pad * 4 * (uint64_t)pick(4), p.b += pad * 4 * (uint64_t)pick(4);
        const uint64_t shift = pad * 4 * (uint64_t)pick(4);
        p.c += shift;
        p.alpha[0] = scalars[pick(7)];
        p.beta[0] = pick(2) ? scalars[pick(7)] : 0;
        if (kind >= 4)
            p.alpha[0] = 1, p.beta[0] = p.beta[0] != 0;
        p.beta_zero = p.beta[0] == 0;
        const size_t bytes = (size_t)(p.ldc * n) * 4;
        fill_operand(&p, 0, kind, 100 + (uint64_t)t);
        fill_operand(&p, 1, kind, 100 + (uint64_t)t);
        /* old C: numbers within, NaN around and where beta = 0 */
        float *old = malloc(bytes + 64), *got = malloc(bytes + 64);
        memset(old, 0xff, bytes + 64);
        for (int64_t j = 0; j < n && !p.beta_zero; j++)
            for (int64_t i = 0; i < m; i++)
                old[shift / 4 + (uint64_t)(j * p.ldc + i)] = (float)pick(1000) / 500 - 1;
        CU(cuMemcpyHtoD, buf[2], old, bytes + 64);
        CU(cuMemcpyHtoD, buf[3], old, bytes + 64);
        struct product x;
        product_ready(&x, row_of("f32_x3", ta, tb), &p);
        go(&x);
        const struct verdict v = judge(&p, buf[3] + shift, 1);
        CU(cuMemcpyDtoH, got, buf[2], bytes + 64);
        int outside = 0;
        for (size_t e = 0; e < bytes / 4 + 16; e++) {
            const int64_t at = (int64_t)e - (int64_t)(shift / 4);
            if (at >= 0 && at % p.ldc < m && at / p.ldc < n)
                continue;
            outside += memcmp(&got[e], &old[e], 4) != 0;
        }
        float *again = malloc(bytes + 64);
        CU(cuMemcpyHtoD, buf[2], old, bytes + 64);
        go(&x);
        CU(cuMemcpyDtoH, again, buf[2], bytes + 64);
        const int differs = memcmp(got, again, bytes + 64) != 0;
        if (v.classes || outside || differs || !(v.worst < 12)) {
            failed++;
            printf("FAIL %lldx%lldx%lld %c%c kind %s path %d alpha %g beta %g ld %lld %lld %lld: "
                   "worst %.3g classes %llu outside %d differs %d\n",
                   (long long)m, (long long)n, (long long)k, "nt"[ta], "nt"[tb], kinds[kind],
                   path_of(&x), p.alpha[0], p.beta[0], (long long)p.lda, (long long)p.ldb,
                   (long long)p.ldc, v.worst, v.classes, outside, differs);
        }
        free(old), free(got), free(again);
    }
    printf("edges: %d failed of 240\n", failed);
    return failed;
}

/* ---- speed ---- */

static int by_value(const void *x, const void *y)
{
    const float a = *(const float *)x, b = *(const float *)y;
    return (a > b) - (a < b);
}

static CUevent from, to;

static float timed(struct product *x, const struct tb_gemm_params *p, int reps)
{
    float ms;
    CU(cuEventRecord, from, NULL);
    for (int r = 0; r < reps; r++)
        if (x)
            go(x);
        else
            blas_go(p);
    CU(cuEventRecord, to, NULL);
    CU(cuEventSynchronize, to);
    CU(cuEventElapsedTime, &ms, from, to);
    return ms / (float)reps;
}

enum { ROUNDS = 7 };

static void speed(int64_t n, int kind, int all)
{
    const double flops = 2.0 * (double)n * (double)n * (double)n;
    const int reps = n <= 1024 ? 40 : n <= 2048 ? 20 : n <= 4096 ? 6 : n <= 8192 ? 2 : 1;
    const int rounds = n > 8192 ? 3 : ROUNDS;
    for (int op = 0; op < (all ? 4 : 1); op++) {
        struct tb_gemm_params p = params_of(n, n, n, op & 1, op >> 1);
        struct product x;
        float ours[ROUNDS], theirs[ROUNDS];
        fill_operand(&p, 0, kind, 5);
        fill_operand(&p, 1, kind, 5);
        product_ready(&x, row_of("f32_x3", op & 1, op >> 1), &p);
        timed(&x, &p, 2), timed(NULL, &p, 2);
        for (int r = 0; r < rounds; r++) {
            ours[r] = timed(&x, &p, reps);
            theirs[r] = timed(NULL, &p, reps);
        }
        qsort(ours, (size_t)rounds, sizeof *ours, by_value);
        qsort(theirs, (size_t)rounds, sizeof *theirs, by_value);
        const double a = ours[rounds / 2], b = theirs[rounds / 2];
        printf("%6lld %c%c %-8s path %d  x3 %8.4f ms %6.1f TF (spread %2.0f%%)  cublas %8.4f ms "
               "%5.1f TF  ratio %.2f\n",
               (long long)n, "nt"[op & 1], "nt"[op >> 1], kinds[kind], path_of(&x), a,
               flops / a * 1e-9, 100 * (ours[rounds - 1] - ours[0]) / a, b, flops / b * 1e-9,
               b / a);
    }
}

/* What each part takes by itself. */
static void parts(int64_t n, int kind)
{
    struct tb_gemm_params p = params_of(n, n, n, 0, 0);
    struct product x;
    fill_operand(&p, 0, kind, 5);
    fill_operand(&p, 1, kind, 5);
    product_ready(&x, row_of("f32_x3", 0, 0), &p);
    go(&x);
    printf("%6lld parts, us:", (long long)n);
    for (int i = 0; i < x.count; i++) {
        float ms[5];
        const int reps = n > 4096 ? 2 : 10;
        for (int r = 0; r < 5; r++) {
            CU(cuEventRecord, from, NULL);
            for (int q = 0; q < reps; q++)
                go_part(&x, i);
            CU(cuEventRecord, to, NULL);
            CU(cuEventSynchronize, to);
            CU(cuEventElapsedTime, &ms[r], from, to);
        }
        qsort(ms, 5, sizeof *ms, by_value);
        printf(" %s %.1f", kernel_row(x.parts[i].row)->name, 1000 * ms[2] / (float)reps);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    CUdevice device;
    CUcontext context;
    CUlibrary helpers;
    CUkernel kernel;
    char path[512];
    int major, minor, failed = 0;
    if (argc < 3)
        return 2;
    dir = argv[1];
    setvbuf(stdout, NULL, _IOLBF, 0);
    CU(cuInit, 0);
    CU(cuDeviceGet, &device, 0);
    CU(cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    CU(cuDeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    CU(cuDeviceGetAttribute, &caps.sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    CU(cuDeviceGetAttribute, &caps.smem_block,
       CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device);
    caps.cc = 10 * major + minor;
    CU(cuDevicePrimaryCtxRetain, &context, device);
    CU(cuCtxSetCurrent, context);
    snprintf(path, sizeof path, "%s/check_sgemm.cubin", dir);
    CU(cuLibraryLoadFromFile, &helpers, path, NULL, NULL, 0, NULL, NULL, 0);
    CU(cuLibraryGetKernel, &kernel, helpers, "fill");
    CU(cuKernelGetFunction, &fn_fill, kernel);
    CU(cuLibraryGetKernel, &kernel, helpers, "judge");
    CU(cuKernelGetFunction, &fn_judge, kernel);
    CU(cuMemAlloc, &verdict_at, sizeof(struct verdict));
    CU(cuEventCreate, &from, 0);
    CU(cuEventCreate, &to, 0);
    blas_open();
    int64_t most = 2304;
    for (int i = 3; i < argc; i++)
        most = atoll(argv[i]) > most ? atoll(argv[i]) : most;
    const int64_t least = strcmp(argv[2], "errors") == 0 && argc > 3 ? atoll(argv[3]) : most;
    const size_t elems = (size_t)(most * (least > 2304 ? least : 2304)) + 4096;
    for (int i = 0; i < 5; i++)
        CU(cuMemAlloc, &buf[i], i < 4 ? elems * 4 : elems * 12 + ((size_t)most << 13) + (64 << 20));
    if (strcmp(argv[2], "edges") == 0)
        failed = edges();
    for (int i = 3; i < argc; i++) {
        const int64_t n = atoll(argv[i]);
        if (strcmp(argv[2], "errors") == 0 && i > 3)
            errors(atoll(argv[3]), n);
        if (strcmp(argv[2], "speed") == 0) {
            speed(n, 0, 1);
            if (n <= 8192)
                speed(n, 4, 0);
            parts(n, 0);
        }
    }
    return failed != 0;
}
