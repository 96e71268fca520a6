/* SPDX-License-Identifier: BSD-3-Clause
 * The tensor-core rows of kernels.def on a device: right (against sums in double, by
 * check_gemm16.cu), and how fast beside cuBLAS, launches of both interleaved on the same data.
 * Every run of it is one process, so that a kernel that hangs costs its caller a timeout and
 * nothing else.
 *   bench_gemm16 DIR test ROW          all cases of one row; exit 0 if right
 *   bench_gemm16 DIR square AB C N...  rates of all rows at N, all transposes
 *   bench_gemm16 DIR odd AB C          shapes of all kinds; DIR batch AB C: strided batches
 * DIR holds check.cubin and the fatbins. AB, C: f16, bf16, f32. TB_CUBLAS names the library. */
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

static struct tb_caps caps;
static const char *dir;
static CUfunction fn_fill, fn_judge, fn_differ;
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
    if (!libraries[row->image] &&
        cuLibraryLoadFromFile(&libraries[row->image], path, NULL, NULL, 0, NULL, NULL, 0))
        return NULL;
    if (cuLibraryGetKernel(&kernel, libraries[row->image], row->name))
        return NULL;
    CU(cuKernelGetFunction, &functions[i], kernel);
    CU(cuFuncSetAttribute, functions[i], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
       row->smem);
    return functions[i];
}

/* ---- a launch made ready ---- */

struct ready {
    CUfunction fn;
    CUlaunchConfig config;
    CUlaunchAttribute attributes[2];
    struct tb_gemm_params p;
    CUtensorMap maps[3];
};

/* Which way of a row (kernel.h): the library's choice, whole tiles, shared ones. */
enum way { WAY_CHOSEN, WAY_WHOLE, WAY_SHARED };
static CUdeviceptr work;
static CUstream stream; /* of both sides; takes turns with copies and other kernels */

static void encode(const struct tb_map *map, CUtensorMap *out)
{
    static const CUtensorMapDataType types[] = {[TB_F16] = CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                                                [TB_BF16] = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                                                [TB_F32] = CU_TENSOR_MAP_DATA_TYPE_FLOAT32};
    const cuuint32_t ones[3] = {1, 1, 1};
    memset(out, 0, sizeof *out);
    if (map->bytes)
        CU(cuTensorMapEncodeTiled, out, types[map->type], 3, (void *)(uintptr_t)map->base,
           (const cuuint64_t *)map->sizes, (const cuuint64_t *)map->pitches, map->box, ones,
           CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
           CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static int launch_of(const struct tb_kernel *row, const struct tb_gemm_params *p, enum way way,
                     struct tb_launch *launch)
{
    if (way == WAY_SHARED)
        return kernel_launch_shared(row, &caps, p, launch);
    if (way == WAY_WHOLE)
        kernel_launch_whole(row, &caps, p, launch);
    else
        kernel_launch(row, &caps, p, launch);
    return 1;
}

static int make_ready(int i, const struct tb_gemm_params *p, enum way way, struct ready *r)
{
    const struct tb_kernel *row = kernel_row(i);
    struct tb_launch launch;
    struct tb_map maps[3];
    memset(r, 0, sizeof *r);
    if (!kernel_accepts(row, p) || !(r->fn = function_of(i)))
        return 0;
    r->p = *p;
    r->p.scratch = work;
    if (!launch_of(row, &r->p, way, &launch))
        return 0;
    r->p.way = launch.way;
    if (row->family == TB_SM90) {
        r->p.work = launch.scratch ? work : 0;
        r->p.way = kernel_maps(row, p, maps);
        if (getenv("TB_DIRECT")) /* C not through the copy engine */
            r->p.way &= ~TB_WAY_C_MAP;
        if (getenv("TB_BAND")) /* so many rows of C */
            r->p.way = (r->p.way & 255) | (atoi(getenv("TB_BAND")) / row->bm) << TB_WAY_BAND;
        for (int x = 0; x < 3; x++)
            encode(&maps[x], &r->maps[x]);
    }
    r->attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    r->attributes[0].value.clusterDim.x = launch.cluster;
    r->attributes[0].value.clusterDim.y = r->attributes[0].value.clusterDim.z = 1;
    r->attributes[1].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    r->attributes[1].value.programmaticStreamSerializationAllowed =
        getenv("TB_EARLY") ? atoi(getenv("TB_EARLY")) : launch.early;
    r->config = (CUlaunchConfig){.gridDimX = launch.grid[0],
                                 .gridDimY = launch.grid[1],
                                 .gridDimZ = launch.grid[2],
                                 .blockDimX = (unsigned)row->threads,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .sharedMemBytes = (unsigned)row->smem,
                                 .hStream = stream,
                                 .numAttrs = row->family == TB_SM90 ? 2 : 0};
    return 1;
}

static void go(struct ready *r)
{
    void *args[] = {&r->p, &r->maps[0], &r->maps[1], &r->maps[2]};
    r->config.attrs = r->attributes;
    CU(cuLaunchKernelEx, &r->config, r->fn, args, NULL);
}

/* ---- cuBLAS ---- */

static void *blas;
static int (*blas_gemm)(void *, int, int, int, int, int, const void *, const void *, int, int,
                        long long, const void *, int, int, long long, const void *, void *, int,
                        int, long long, int, int, int);

static void blas_open(void)
{
    const char *name = getenv("TB_CUBLAS");
    void *lib = dlopen(name ? name : "libcublas.so.13", RTLD_NOW);
    int (*create)(void **), (*on)(void *, CUstream);
    if (!lib) {
        printf("no cuBLAS: %s\n", dlerror());
        exit(2);
    }
    *(void **)&create = dlsym(lib, "cublasCreate_v2");
    *(void **)&on = dlsym(lib, "cublasSetStream_v2");
    *(void **)&blas_gemm = dlsym(lib, "cublasGemmStridedBatchedEx");
    if (!create || !on || !blas_gemm || create(&blas) || on(blas, stream))
        exit(2);
}

static const int blas_type[] = {[TB_F16] = 2, [TB_BF16] = 14, [TB_F32] = 0};

static void blas_go(const struct tb_gemm_params *p, enum tb_type ab, enum tb_type c)
{
    const float alpha = (float)p->alpha[0], beta = (float)p->beta[0];
    const int r = blas_gemm(blas, p->op_a & 1, p->op_b & 1, (int)p->m, (int)p->n, (int)p->k, &alpha,
                            (void *)p->a, blas_type[ab], (int)p->lda, p->stride_a, (void *)p->b,
                            blas_type[ab], (int)p->ldb, p->stride_b, &beta, (void *)p->c,
                            blas_type[c], (int)p->ldc, p->stride_c, (int)p->batch, 68, -1);
    if (r) {
        printf("cuBLAS status %d\n", r);
        exit(2);
    }
}

/* ---- data ---- */

static size_t bytes_of(enum tb_type t)
{
    return t == TB_F32 ? 4 : 2;
}

static void fill(CUdeviceptr to, uint64_t count, uint64_t seed, int type, int spread)
{
    void *args[] = {&to, &count, &seed, &type, &spread};
    CU(cuLaunchKernel, fn_fill, 1024, 1, 1, 256, 1, 1, 0, NULL, args, NULL);
}

struct verdict {
    double worst, squares;
    unsigned long long count, outside, classes;
    int i, j, item;
};

static CUdeviceptr verdict_at;

static struct verdict judge(const struct tb_gemm_params *p, CUdeviceptr old, enum tb_type ab,
                            enum tb_type c, int step)
{
    struct verdict v;
    int ab_ = (int)ab, c_ = (int)c;
    double unit = c == TB_F16 ? 0x1p-11 : c == TB_BF16 ? 0x1p-8 : 0x1p-24;
    struct tb_gemm_params q = *p;
    void *args[] = {&q, &old, &ab_, &c_, &step, &unit, &verdict_at};
    CU(cuMemsetD8, verdict_at, 0, sizeof v);
    CU(cuLaunchKernel, fn_judge, (unsigned)((p->ldc / step + 63) / 64),
       (unsigned)((p->n + step - 1) / step), (unsigned)p->batch, 64, 1, 1, 0, NULL, args, NULL);
    CU(cuMemcpyDtoH, &v, verdict_at, sizeof v);
    return v;
}

static uint64_t seed = 12345;
static uint64_t rnd(void)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed >> 11;
}

/* ---- tests ---- */

struct shape {
    int m, n, k, batch, pad_a, pad_b, pad_c, shift_c, spread;
    float alpha, beta;
};

static CUdeviceptr buf_a, buf_b, buf_c, buf_old;
enum { TEST_BYTES = 96 << 20 };

static int64_t up8(int64_t x, int64_t unit)
{
    return (x + unit - 1) / unit * unit;
}

/* Right, untouched around, and twice the same. A way that the row has not for this shape is none.
 */
static int test_way(int i, const struct shape *s, enum way way, double *worst)
{
    const struct tb_kernel *row = kernel_row(i);
    const size_t ec = bytes_of(row->c);
    const int unit = row->family == TB_SM90 || s->pad_c % 8 == 0 ? 8 : 1;
    const int64_t lda = up8(row->ta ? s->k : s->m, unit) + unit * s->pad_a;
    const int64_t ldb = up8(row->tb ? s->n : s->k, unit) + unit * s->pad_b,
                  ldc = up8(s->m, 8) + s->pad_c;
    struct tb_gemm_params p = {.a = buf_a,
                               .b = buf_b,
                               .c = buf_c + (size_t)s->shift_c * ec,
                               .stride_a = lda * (row->ta ? s->m : s->k),
                               .stride_b = ldb * (row->tb ? s->k : s->n),
                               .stride_c = ldc * s->n,
                               .m = s->m,
                               .n = s->n,
                               .k = s->k,
                               .lda = lda,
                               .ldb = ldb,
                               .ldc = ldc,
                               .batch = s->batch,
                               .alpha = {s->alpha, 0},
                               .beta = {s->beta, 0},
                               .op_a = row->ta,
                               .op_b = row->tb,
                               .beta_zero = s->beta == 0};
    const size_t count_c = (size_t)(p.stride_c * s->batch + 8);
    struct ready r;
    if (!make_ready(i, &p, way, &r)) {
        if (way != WAY_WHOLE)
            return 1;
        printf("  %s not launchable\n", row->name);
        return 0;
    }
    /* NaN around the operands: whatever is read from there shows. */
    fill(buf_a, (uint64_t)(p.stride_a * s->batch), rnd(), (int)row->ab, s->spread);
    fill(buf_b, (uint64_t)(p.stride_b * s->batch), rnd(), (int)row->ab, s->spread);
    fill(buf_old, count_c, rnd(), (int)row->c, s->beta == 0 ? 2 : s->spread);
    CU(cuMemcpyDtoD, buf_c, buf_old, count_c * ec);
    go(&r);
    CU(cuCtxSynchronize);
    const CUdeviceptr old = buf_old + (size_t)s->shift_c * ec;
    const struct verdict v = judge(&p, old, row->ab, row->c, 1);
    const double chain = 2 + sqrt((double)s->k) * (row->c == TB_F32 ? 1.0 : 0.02) +
                         (row->c == TB_F32 ? (double)s->k / 8 : (double)s->k / 65536);
    *worst = fmax(*worst, v.worst);
    if (v.count == (unsigned long long)s->m * (unsigned long long)s->n * (unsigned)s->batch &&
        !v.outside && !v.classes && v.worst <= chain) {
        unsigned long long differing;
        uint64_t words = count_c * ec / 4;
        CU(cuMemcpyDtoD, buf_a + TEST_BYTES, buf_c, count_c * ec);
        CU(cuMemcpyDtoD, buf_c, buf_old, count_c * ec);
        go(&r);
        CUdeviceptr x = buf_c, y = buf_a + TEST_BYTES;
        void *args[] = {&x, &y, &words, &verdict_at};
        CU(cuMemsetD8, verdict_at, 0, 64);
        CU(cuLaunchKernel, fn_differ, 256, 1, 1, 256, 1, 1, 0, NULL, args, NULL);
        CU(cuMemcpyDtoH, &differing, verdict_at, sizeof differing);
        if (!differing)
            return 1;
        printf("  %s: %llu words differ the second time\n", row->name, differing);
    }
    printf("  %s way %d m=%d n=%d k=%d batch=%d pad=%d,%d,%d shift=%d alpha=%g beta=%g spread=%d: "
           "worst "
           "%.3g u, "
           "%llu of %lld judged, %llu outside, %llu NaN/Inf, at %d %d %d\n",
           row->name, (int)way, s->m, s->n, s->k, s->batch, s->pad_a, s->pad_b, s->pad_c,
           s->shift_c, s->alpha, s->beta, s->spread, v.worst, v.count,
           (long long)s->m * s->n * s->batch, v.outside, v.classes, v.i, v.j, v.item);
    return 0;
}

static int test_case(int i, const struct shape *s, double *worst)
{
    const uint64_t same = seed;
    if (!test_way(i, s, WAY_WHOLE, worst))
        return 0;
    seed = same;
    return test_way(i, s, WAY_SHARED, worst);
}

static int test_row(int i)
{
    const struct tb_kernel *row = kernel_row(i);
    const int ms[] = {1, 7, row->bm - 1, row->bm, row->bm + 1, 2 * row->bm + 3, 5};
    const int ks[] = {1,   8,   63,  64,  65,  191, 255, 256, 257,
                      319, 320, 321, 384, 385, 448, 449, 640, 3000};
    const int ns[] = {1, 9, row->bn - 1, row->bn, row->bn + 1, 2 * row->bn, 3 * row->bn + 5};
    int failed = 0, cases = 0;
    double worst = 0;
    CU(cuMemAlloc, &buf_a, 2 * (size_t)TEST_BYTES);
    CU(cuMemAlloc, &buf_b, TEST_BYTES);
    CU(cuMemAlloc, &buf_c, TEST_BYTES);
    CU(cuMemAlloc, &buf_old, TEST_BYTES);
    const int many = getenv("TB_CASES") ? atoi(getenv("TB_CASES")) : 150;
    for (int x = 0; x < many && failed < 3; x++) {
        struct shape s = {.m = ms[rnd() % 7],
                          .n = ns[rnd() % 7],
                          .k = ks[x % 18],
                          .batch = rnd() % 4 ? 1 : 3,
                          .pad_a = (int)(rnd() % 2),
                          .pad_b = (int)(rnd() % 2),
                          .pad_c = rnd() % 2 ? 8 : (int)(rnd() % 9),
                          .shift_c = rnd() % 4 ? 0 : (int)(rnd() % 4),
                          .spread = rnd() % 2          ? 0
                                    : row->c == TB_F16 ? 1
                                                       : 3,
                          .alpha = rnd() % 2 ? 1 : 0.7f,
                          .beta = rnd() % 2 ? 0 : -0.6f};
        if (x == 0)
            s = (struct shape){row->bm, row->bn, 64, 1, 0, 0, 0, 0, 0, 1, 0};
        if (x == 1)
            s = (struct shape){row->bm, row->bn * 2, 128, 1, 0, 0, 0, 0, 0, 1, 0};
        failed += !test_case(i, &s, &worst);
        cases++;
    }
    const struct shape big[] = {
        {2048, 2048, 512, 1, 0, 0, 0, 0, 0, 1, 0}, {4000, 1111, 333, 1, 0, 0, 0, 0, 0, 1, 0.5f},
        {64, 64, 64, 1000, 0, 0, 0, 0, 0, 1, 0},   {100, 36, 40, 500, 0, 0, 0, 0, 0, 1, 1},
        {60, 50, 20000, 1, 0, 0, 0, 0, 1, 1, 0},   {300, 200, 8192, 1, 0, 0, 0, 0, 1, 1, 2},
        {1, 1, 30000, 1, 0, 0, 0, 0, 0, 1, 0},     {16, 5000, 1024, 1, 0, 0, 0, 0, 0, 1, 0}};
    for (int x = 0; x < 8 && failed < 3; x++) {
        failed += !test_case(i, &big[x], &worst);
        cases++;
    }
    printf("%-26s %s %d cases, worst %.3g u\n", row->name, failed ? "FAIL" : "PASS", cases, worst);
    return failed != 0;
}

/* ---- rates ---- */

enum { SIDES = 24, ROUNDS = 5 };

static int by_value(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* Sides of one comparison: rows, or cuBLAS (kernel -1); operands rotate through `copies` places. */
struct side {
    int kernel;
    enum way way;
    struct ready ready[8];
    double seconds[ROUNDS];
};

static size_t heap_bytes;
static CUdeviceptr heap;

static double run_side(struct side *s, const struct tb_gemm_params *p, int copies, enum tb_type ab,
                       enum tb_type c, int times)
{
    static CUevent start, stop;
    float ms;
    if (!start) {
        CU(cuEventCreate, &start, 0);
        CU(cuEventCreate, &stop, 0);
    }
    for (int x = -1; x < times; x++) {
        if (x == 0)
            CU(cuEventRecord, start, stream);
        const int at = (x + copies) % copies;
        if (s->kernel < 0)
            blas_go(&p[at], ab, c);
        else
            go(&s->ready[at]);
    }
    CU(cuEventRecord, stop, stream);
    CU(cuEventSynchronize, stop);
    CU(cuEventElapsedTime, &ms, start, stop);
    return ms * 1e-3 / times;
}

/* As the library lays out what it uploads. */
static int64_t pitch(int64_t rows, int64_t bytes)
{
    if (getenv("TB_TIGHT")) /* no gaps, as programs have it */
        return rows;
    return up8(rows * bytes, rows * bytes >= 512 ? 128 : 16) / bytes;
}

/* Prints one line: cuBLAS, then every row that takes the shape, as ratio to it; '*' marks the
 * choice. */
static double compare(enum tb_type ab, enum tb_type c, int ta, int tb, int m, int n, int k,
                      int batch, int rounds)
{
    static struct side sides[SIDES];
    const int64_t lda = pitch(ta ? k : m, 2), ldb = pitch(tb ? n : k, 2),
                  ldc = pitch(m, (int64_t)bytes_of(c));
    const int64_t sa = lda * (ta ? m : k), sb = ldb * (tb ? k : n), sc = ldc * n;
    const size_t one_a = (size_t)up8(sa * batch * 2, 256), one_b = (size_t)up8(sb * batch * 2, 256);
    const size_t one_c = (size_t)up8(sc * batch * (int64_t)bytes_of(c), 256),
                 all = one_a + one_b + one_c;
    int copies = (int)((size_t)(140 << 20) / all) + 1, count = 1;
    struct tb_gemm_params p[8];
    if (copies > 8)
        copies = 8;
    if (all * (size_t)copies > heap_bytes) {
        printf("%d %d %d x %d: too large\n", m, n, k, batch);
        return 0;
    }
    for (int x = 0; x < copies; x++) {
        const CUdeviceptr at = heap + (size_t)x * all;
        p[x] = (struct tb_gemm_params){.a = at,
                                       .b = at + one_a,
                                       .c = at + one_a + one_b,
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
        fill(at, (one_a + one_b) / 2, rnd(), (int)ab, 0);
    }
    const double flops = 2.0 * m * n * k * batch,
                 guess = flops / 600e12 + (double)all / 3e12 + 4e-6;
    int times = (int)(6e-3 / guess) + 2;
    if (times > 300)
        times = 300;
    sides[0].kernel = -1;
    const int choice = kernel_choose_alone(&caps, ab, c, ta, tb, m, n, k, batch);
    for (int i = 0; i < kernel_count(); i++)
        for (enum way way = WAY_CHOSEN; way <= WAY_SHARED; way++) {
            const struct tb_kernel *row = kernel_row(i);
            const int wanted =
                getenv("TB_CHOICE") ? i == choice && way == WAY_CHOSEN : way != WAY_CHOSEN;
            if (row->family == TB_SIMT || row->ab != ab || row->c != c || row->ta != ta ||
                row->tb != tb || (getenv("TB_ONLY") && !strstr(row->name, getenv("TB_ONLY"))) ||
                !wanted || count == SIDES || !make_ready(i, &p[0], way, &sides[count].ready[0]))
                continue;
            sides[count].kernel = i;
            sides[count].way = way;
            for (int x = 1; x < copies; x++)
                make_ready(i, &p[x], way, &sides[count].ready[x]);
            count++;
        }
    for (int r = 0; r < rounds; r++)
        for (int x = 0; x < count; x++)
            sides[x].seconds[r] = run_side(&sides[x], p, copies, ab, c, times);
    for (int x = 0; x < count; x++)
        qsort(sides[x].seconds, (size_t)rounds, sizeof(double), by_value);
    const double base = sides[0].seconds[rounds / 2];
    struct tb_launch launch;
    double chosen = 0, best = 0;
    p[0].scratch = work;
    kernel_launch(kernel_row(choice), &caps, &p[0], &launch);
    printf("%c%c %5d %5d %5d", ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k);
    if (batch > 1)
        printf(" x%d", batch);
    printf(" %8.1f us %6.1f TF |", base * 1e6, flops / base * 1e-12);
    for (int x = 1; x < count; x++) {
        const double ratio = base / sides[x].seconds[rounds / 2];
        const int is =
            sides[x].kernel == choice &&
            (sides[x].way == WAY_CHOSEN || (sides[x].way == WAY_SHARED) == !!launch.scratch);
        const struct tb_kernel *row = kernel_row(sides[x].kernel);
        best = fmax(best, ratio);
        if (is)
            chosen = ratio;
        printf(" %s%s%dx%d%s:%.3f", is ? "*" : "", row->family == TB_SM80 ? "a" : "", row->bm,
               row->bn,
               sides[x].way == WAY_SHARED || (sides[x].way == WAY_CHOSEN && launch.scratch) ? "s"
               : row->pair > 1                                                              ? "p"
                                                                                            : "",
               ratio);
    }
    printf(" | %6.1f\n", flops / base * best * 1e-12);
    return chosen;
}

/* rms and worst error of the chosen row and of cuBLAS on a sample of entries. */
static void errors(enum tb_type ab, enum tb_type c, int n, int spread)
{
    struct tb_gemm_params p = {.a = heap,
                               .b = heap + (size_t)n * (size_t)n * 2,
                               .m = n,
                               .n = n,
                               .k = n,
                               .lda = n,
                               .ldb = n,
                               .ldc = n,
                               .batch = 1,
                               .alpha = {1, 0},
                               .beta_zero = 1};
    p.c = p.b + (size_t)n * (size_t)n * 2;
    fill(p.a, (uint64_t)n * (uint64_t)n * 2, rnd(), (int)ab, spread);
    struct ready r;
    const int choice = kernel_choose_alone(&caps, ab, c, false, false, n, n, n, 1);
    struct verdict v[2];
    if (!make_ready(choice, &p, WAY_CHOSEN, &r))
        return;
    go(&r);
    v[0] = judge(&p, p.c, ab, c, 61);
    blas_go(&p, ab, c);
    v[1] = judge(&p, p.c, ab, c, 61);
    printf("error n=%d spread %d: ours rms %.4f max %.3f, cuBLAS rms %.4f max %.3f u\n", n, spread,
           sqrt(v[0].squares / (double)v[0].count), v[0].worst,
           sqrt(v[1].squares / (double)v[1].count), v[1].worst);
}

static enum tb_type type_named(const char *s)
{
    return strcmp(s, "f16") == 0 ? TB_F16 : strcmp(s, "bf16") == 0 ? TB_BF16 : TB_F32;
}

static void open_all(void)
{
    CUdevice dev;
    CUcontext ctx;
    CUmodule module;
    char path[512];
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
    snprintf(path, sizeof path, "%s/check.cubin", dir);
    CU(cuModuleLoad, &module, path);
    CU(cuModuleGetFunction, &fn_fill, module, "fill");
    CU(cuModuleGetFunction, &fn_judge, module, "judge");
    CU(cuModuleGetFunction, &fn_differ, module, "differ");
    CU(cuStreamCreate, &stream, CU_STREAM_DEFAULT);
    CU(cuMemAlloc, &verdict_at, 256);
    CU(cuMemAlloc, &work, kernel_shared_most(&caps));
    CU(cuMemsetD8, work, 0, kernel_shared_most(&caps));
}

static const int odd[][4] =
    {/* m, n, k, transposes (bit 0: A, bit 1: B) */
     {1000, 1000, 1000, 0}, {1001, 999, 1003, 0},   {513, 511, 517, 1},     {2049, 2047, 2050, 0},
     {3001, 2999, 3003, 1}, {4097, 4095, 4099, 0},  {4097, 4095, 4099, 3},  {5000, 5000, 5000, 2},
     {7001, 5003, 3001, 0}, {6000, 6000, 6000, 1},  {16, 8192, 8192, 0},    {16, 8192, 8192, 1},
     {8192, 16, 8192, 0},   {8192, 16, 8192, 1},    {32, 4096, 4096, 1},    {4096, 32, 4096, 1},
     {64, 4096, 4096, 0},   {4096, 64, 4096, 1},    {1, 4096, 4096, 1},     {4096, 1, 4096, 1},
     {8, 4096, 11008, 1},   {11008, 8, 4096, 1},    {100, 100, 10000, 0},   {100, 100, 65536, 1},
     {64, 64, 65536, 0},    {128, 128, 32768, 1},   {256, 256, 16384, 0},   {512, 512, 8192, 1},
     {512, 512, 65536, 0},  {333, 777, 12345, 1},   {4096, 4096, 8, 0},     {4096, 4096, 16, 0},
     {4096, 4096, 64, 1},   {8192, 8192, 32, 0},    {8192, 8192, 128, 1},   {10000, 10000, 100, 0},
     {3000, 3000, 200, 2},  {2000, 2000, 333, 3},   {128, 8192, 1024, 0},   {8192, 128, 1024, 1},
     {256, 10000, 2048, 1}, {10000, 256, 2048, 0},  {129, 4000, 4000, 1},   {4000, 129, 4000, 0},
     {257, 3000, 5000, 2},  {3000, 257, 5000, 1},   {700, 700, 700, 0},     {300, 300, 300, 1},
     {200, 200, 2000, 0},   {150, 1500, 1500, 3},   {1500, 150, 1500, 2},   {768, 3072, 768, 1},
     {3072, 768, 768, 1},   {2560, 1024, 10240, 1}, {1024, 2560, 10240, 0}, {4096, 4096, 14336, 1},
     {14336, 512, 4096, 1}, {12288, 384, 4096, 1},  {50257, 128, 768, 1},   {20000, 20000, 256, 0}};

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 4)
        return 2;
    dir = argv[1];
    open_all();
    if (strcmp(argv[2], "test") == 0) {
        for (int i = 0; i < kernel_count(); i++)
            if (strcmp(kernel_row(i)->name, argv[3]) == 0)
                return test_row(i);
        return 2;
    }
    if (argc < 5)
        return 2;
    const enum tb_type ab = type_named(argv[3]), c = type_named(argv[4]);
    blas_open();
    heap_bytes = (size_t)6 << 30;
    CU(cuMemAlloc, &heap, heap_bytes);
    printf("%s -> %s: cuBLAS | ratios of the rows, s: tiles shared, p: pairs | TF of the best\n",
           argv[3], argv[4]);
    double logs = 0, least = 1e9;
    int shapes = 0;
    if (strcmp(argv[2], "square") == 0) {
        for (int x = 5; x < argc; x++)
            for (int op = 0; op < 4; op++)
                compare(ab, c, op >> 1, op & 1, atoi(argv[x]), atoi(argv[x]), atoi(argv[x]), 1,
                        atoi(argv[x]) > 10000 ? 3 : ROUNDS);
        for (int spread = 0; spread < 2; spread++)
            errors(ab, c, 4096, spread);
    } else if (strcmp(argv[2], "odd") == 0) {
        for (size_t x = 0; x < sizeof odd / sizeof *odd; x++) {
            const double ratio = compare(ab, c, odd[x][3] & 1, odd[x][3] >> 1, odd[x][0], odd[x][1],
                                         odd[x][2], 1, 3);
            if (ratio > 0)
                logs += log(ratio), least = fmin(least, ratio), shapes++;
        }
        printf("%d odd shapes: geometric mean %.3f, least %.3f\n", shapes, exp(logs / shapes),
               least);
    } else {
        compare(ab, c, 0, 0, 256, 256, 256, 1000, 3);
        compare(ab, c, 1, 0, 256, 256, 256, 1000, 3);
        compare(ab, c, 0, 0, 64, 64, 64, 10000, 3);
        compare(ab, c, 1, 0, 64, 64, 64, 10000, 3);
        compare(ab, c, 0, 0, 1024, 1024, 1024, 16, 3);
        compare(ab, c, 1, 0, 128, 128, 4096, 32, 3);
    }
    return 0;
}
