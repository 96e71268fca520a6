/* SPDX-License-Identifier: BSD-3-Clause
 * Every row of kernels.def on a real device, against a reference in higher precision: shapes around
 * every tile edge, layouts, alignments, batches, scalars, NaN and Inf, untouched surroundings of C.
 * A plain program over libcuda (opened at run time). One line per row.
 *   kernels [--quick | --bench | --large] [--skip-large] [name...]
 * --quick: few cases, for compute-sanitizer. --bench: TFLOP/s at 4096 (or --2048, --8192). --large:
 * only the case beyond 2^31 elements (up to 36 GB), which --skip-large leaves out. A name stands
 * for the rows that begin with it. Exit 0: all passed; 1: a failure; 77: no device. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <cuda.h>
#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../kernels/images.h"
#include "../../kernels/fold.h"
#include "../../src/kernel.h"

/* ---- the driver ---- */

#define DRIVER(X)                                                                                  \
    X(cuInit)                                                                                      \
    X(cuDeviceGetCount)                                                                            \
    X(cuDeviceGet)                                                                                 \
    X(cuDeviceGetName)                                                                             \
    X(cuDeviceGetAttribute)                                                                        \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuCtxSetCurrent)                                                                             \
    X(cuLibraryLoadData)                                                                           \
    X(cuLibraryGetKernel)                                                                          \
    X(cuKernelGetFunction)                                                                         \
    X(cuFuncSetAttribute)                                                                          \
    X(cuFuncGetAttribute)                                                                          \
    X(cuLaunchKernelEx)                                                                            \
    X(cuTensorMapEncodeTiled)                                                                      \
    X(cuMemAlloc)                                                                                  \
    X(cuMemFree)                                                                                   \
    X(cuStreamCreate)                                                                              \
    X(cuMemGetInfo)                                                                                \
    X(cuMemsetD8)                                                                                  \
    X(cuMemcpyHtoD)                                                                                \
    X(cuMemcpyDtoH)                                                                                \
    X(cuMemcpy2DUnaligned)                                                                         \
    X(cuCtxSynchronize)                                                                            \
    X(cuEventCreate)                                                                               \
    X(cuEventRecord)                                                                               \
    X(cuEventSynchronize)                                                                          \
    X(cuEventElapsedTime)                                                                          \
    X(cuGetErrorName)

static struct {
#define FIELD(NAME)      __typeof__(&NAME) NAME##_fn;
#define NAME_TEXT2(NAME) #NAME
#define NAME_TEXT(NAME)  NAME_TEXT2(NAME)
    DRIVER(FIELD)
} cu;

static int driver_open(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);
    if (!lib)
        return 0;
#define LOOKUP(NAME)                                                                               \
    *(void **)(void *)&cu.NAME##_fn = dlsym(lib, NAME_TEXT(NAME));                                 \
    if (!cu.NAME##_fn)                                                                             \
        return 0;
    DRIVER(LOOKUP)
    return 1;
}

static int failures_here; /* of the current row */

static void check(CUresult r, const char *what)
{
    if (r == CUDA_SUCCESS)
        return;
    const char *name = "?";
    cu.cuGetErrorName_fn(r, &name);
    printf("driver: %s: %s\n", what, name);
    exit(1);
}
#define CU(NAME, ...) check(cu.NAME##_fn(__VA_ARGS__), #NAME)

/* ---- elements, as pairs of long double on the host ---- */

struct num {
    long double re, im;
};

static float half_to_float(uint16_t h)
{
    const int e = h >> 10 & 31, f = h & 1023;
    const float s = h & 0x8000 ? -1.0f : 1.0f;
    if (e == 31)
        return f ? NAN : s * INFINITY;
    return s * (e ? ldexpf((float)(f | 1024), e - 25) : ldexpf((float)f, -24));
}

static uint16_t float_to_half(float x) /* test inputs: finite, cut off to what a half holds */
{
    const uint16_t s = signbit(x) ? 0x8000 : 0;
    int e;
    if (isnan(x))
        return 0x7e00;
    if (isinf(x))
        return s | 0x7c00;
    const float f = frexpf(fabsf(x), &e);
    if (f == 0 || e < -13)
        return s | (uint16_t)ldexpf(fabsf(x), 24);
    return s | (uint16_t)((e + 14) << 10) | (uint16_t)((int)ldexpf(f, 11) & 1023);
}

static struct num get(enum tb_type t, const void *p, size_t i)
{
    uint32_t bits;
    float f;
    switch (t) {
    case TB_F16:
        return (struct num){half_to_float(((const uint16_t *)p)[i]), 0};
    case TB_BF16:
        bits = (uint32_t)((const uint16_t *)p)[i] << 16;
        memcpy(&f, &bits, 4);
        return (struct num){f, 0};
    case TB_F32:
        return (struct num){((const float *)p)[i], 0};
    case TB_F64:
        return (struct num){((const double *)p)[i], 0};
    case TB_C32:
        return (struct num){((const float *)p)[2 * i], ((const float *)p)[2 * i + 1]};
    default:
        return (struct num){((const double *)p)[2 * i], ((const double *)p)[2 * i + 1]};
    }
}

static void put(enum tb_type t, void *p, size_t i, double re, double im)
{
    const float f = (float)re;
    uint32_t bits;
    switch (t) {
    case TB_F16:
        ((uint16_t *)p)[i] = float_to_half(f);
        break;
    case TB_BF16:
        memcpy(&bits, &f, 4);
        ((uint16_t *)p)[i] = (uint16_t)(bits >> 16 | (isnan(f) ? 0x40 : 0));
        break;
    case TB_F32:
        ((float *)p)[i] = f;
        break;
    case TB_F64:
        ((double *)p)[i] = re;
        break;
    case TB_C32:
        ((float *)p)[2 * i] = f, ((float *)p)[2 * i + 1] = (float)im;
        break;
    default:
        ((double *)p)[2 * i] = re, ((double *)p)[2 * i + 1] = im;
        break;
    }
}

static size_t bytes_of(enum tb_type t)
{
    static const size_t bytes[] = {
        [TB_F16] = 2, [TB_BF16] = 2, [TB_F32] = 4, [TB_F64] = 8, [TB_C32] = 8, [TB_C64] = 16};
    return bytes[t];
}

static int is_complex(enum tb_type t)
{
    return t == TB_C32 || t == TB_C64;
}

static uint64_t seed = 88172645463325252u;
static uint64_t rnd(void)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}
static int pick(int n)
{
    return (int)((rnd() >> 20) % (uint64_t)n);
}
static double uniform(void)
{
    return (double)(rnd() >> 11) * 0x1p-53;
}

/* ---- one case ---- */

enum spread {
    SIGNED,
    POSITIVE,
    WIDE, /* signed, times 2^-30 to 2^30 */
    WIDER /* times 2^-60 to 2^60 */
};

struct shape {
    int64_t m, n, k, batch;
    int list;             /* batch by lists of addresses */
    int pad[3], shift[3]; /* of A, B, C: added to ld and to the address, in elements */
    int conj_a, conj_b;
    double alpha[2], beta[2];
    enum spread spread;
    int special; /* plants Inf and NaN at the edges of A and B */
};

/* A matrix, or a batch of them `stride` apart, with what surrounds it, on the host. */
struct mat {
    enum tb_type type;
    int64_t rows, cols, ld, stride, batch;
    size_t shift, elems;
    void *data;
    CUdeviceptr dev;
};

/* `unit`: leading dimension, stride and address are multiples of so many elements. */
static struct mat mat_make(enum tb_type type, int64_t rows, int64_t cols, int64_t batch, int pad,
                           int shift, int unit)
{
    struct mat x = {.type = type,
                    .rows = rows,
                    .cols = cols,
                    .ld = (rows + pad + unit - 1) / unit * unit,
                    .batch = batch,
                    .shift = (size_t)(shift * unit)};
    x.stride = x.ld * (cols - 1) + rows + (batch > 1 ? pad : 0);
    x.stride = (x.stride + unit - 1) / unit * unit;
    x.elems = x.shift + (size_t)(x.stride * (batch - 1) + x.ld * (cols - 1) + rows);
    x.data = malloc(x.elems * bytes_of(type));
    for (size_t i = 0; i < x.elems; i++) /* what no kernel may use */
        put(type, x.data, i, NAN, NAN);
    return x;
}

static size_t at(const struct mat *x, int64_t item, int64_t i, int64_t j)
{
    return x->shift + (size_t)(item * x->stride + j * x->ld + i);
}

static void mat_fill(struct mat *x, enum spread spread)
{
    for (int64_t b = 0; b < x->batch; b++)
        for (int64_t j = 0; j < x->cols; j++)
            for (int64_t i = 0; i < x->rows; i++) {
                const double re = uniform(), im = uniform();
                const int most = spread == WIDE ? 30 : spread == WIDER ? 60 : 0;
                const double up = most ? ldexp(1, pick(2 * most + 1) - most) : 1;
                put(x->type, x->data, at(x, b, i, j), up * (spread == POSITIVE ? re : 2 * re - 1),
                    spread == POSITIVE ? im : 2 * im - 1);
            }
}

/* Exactly as large as the data, so that compute-sanitizer sees a read one element too far. */
static void mat_upload(struct mat *x)
{
    CU(cuMemAlloc, &x->dev, x->elems * bytes_of(x->type));
    CU(cuMemcpyHtoD, x->dev, x->data, x->elems * bytes_of(x->type));
}

static void mat_free(struct mat *x)
{
    if (x->dev)
        CU(cuMemFree, x->dev);
    free(x->data);
}

static CUdeviceptr list_of(const struct mat *x)
{
    CUdeviceptr list;
    uint64_t *host = malloc((size_t)x->batch * sizeof *host);
    for (int64_t i = 0; i < x->batch; i++)
        host[i] = x->dev + at(x, i, 0, 0) * bytes_of(x->type);
    CU(cuMemAlloc, &list, (size_t)x->batch * sizeof *host);
    CU(cuMemcpyHtoD, list, host, (size_t)x->batch * sizeof *host);
    free(host);
    return list;
}

struct loaded {
    const struct tb_kernel *row;
    int index;
};

static struct tb_caps caps;
static CUfunction functions[512]; /* of the rows, once loaded */

/* What the row asks of A and B (kernel_accepts), in elements. */
static int unit_of(const struct tb_kernel *row)
{
    return row->family == TB_SM90 ? 8 : 1;
}

static void encode(const struct tb_map *map, CUtensorMap *out)
{
    static const CUtensorMapL2promotion hints[TB_KHINTS] = {
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
        CU_TENSOR_MAP_L2_PROMOTION_L2_64B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B};
    const cuuint32_t ones[3] = {1, 1, 1};
    memset(out, 0, sizeof *out);
    if (map->bytes)
        CU(cuTensorMapEncodeTiled, out,
           map->type == TB_F16    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
           : map->type == TB_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                  : CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
           3, (void *)(uintptr_t)map->base, map->sizes, map->pitches, map->box, ones,
           CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, hints[map->hint],
           CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static CUstream stream(void)
{
    static CUstream made;
    if (!made)
        CU(cuStreamCreate, &made, CU_STREAM_DEFAULT); /* takes turns with copies */
    return made;
}

static void launch_part(const struct tb_part *part, const struct tb_gemm_params *p)
{
    const struct tb_kernel *row = kernel_row(part->row);
    const struct tb_launch shape = part->launch;
    struct tb_gemm_params params = *p;
    struct tb_map maps[3];
    CUtensorMap encoded[3];
    void *args[] = {&params, &encoded[0], &encoded[1], &encoded[2]};
    params.way = shape.way;
    if (row->family == TB_SM90) {
        params.way = kernel_maps(row, p, maps);
        params.work = shape.scratch > 0 ? params.scratch : 0;
        for (int i = 0; i < 3; i++)
            encode(&maps[i], &encoded[i]);
    }
    CUlaunchAttribute attributes[] = {
        {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
         .value.programmaticStreamSerializationAllowed = row->family == TB_SM90},
        {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {shape.cluster, 1, 1}}};
    const CUlaunchConfig config = {.gridDimX = shape.grid[0],
                                   .gridDimY = shape.grid[1],
                                   .gridDimZ = shape.grid[2],
                                   .blockDimX = (unsigned)row->threads,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .sharedMemBytes = (unsigned)row->smem,
                                   .hStream = stream(),
                                   .attrs = attributes,
                                   .numAttrs = shape.cluster > 1 ? 2 : 1};
    CU(cuLaunchKernelEx, &config, functions[part->row], args, NULL);
}

/* An area for rows that need one, with what earlier launches left in it. */
static CUdeviceptr area(size_t bytes)
{
    static CUdeviceptr at;
    static size_t held;
    if (bytes > held) {
        if (at)
            CU(cuMemFree, at);
        CU(cuMemAlloc, &at, bytes);
        CU(cuMemsetD8, at, 0xA5, bytes);
        held = bytes;
    }
    return at;
}

/* The area of launches that divide tiles: its flags are down, and left so. */
static CUdeviceptr flags(void)
{
    static CUdeviceptr work;
    const size_t bytes = kernel_shared_most(&caps);
    if (!work) {
        CU(cuMemAlloc, &work, bytes);
        CU(cuMemsetD8, work, 0, bytes);
    }
    return work;
}

/* As the library would; or with tiles shared or not, where the row can. */
enum way { WAY_CHOSEN, WAY_WHOLE, WAY_SHARED };

static void launch_as(const struct loaded *k, const struct tb_gemm_params *p, enum way way)
{
    struct tb_part parts[TB_PARTS_MAX];
    struct tb_gemm_params params = *p;
    if (k->row->family == TB_X3)
        params.guard = params.scratch = area(kernel_scratch(k->row, &caps, p));
    else if (k->row->family == TB_SM90)
        params.scratch = flags();
    if (!kernel_accepts(k->row, &params)) {
        printf("driver: %s: a case that the row does not accept\n", k->row->name);
        exit(1);
    }
    const int count = kernel_parts(k->index, &caps, &params, parts);
    if (count > 1)
        CU(cuMemsetD8, params.scratch, 0, kernel_cleared(k->row, &params));
    else if (way != WAY_CHOSEN && k->row->family == TB_SM90 &&
             (way == WAY_WHOLE || !kernel_launch_shared(k->row, &caps, &params, &parts[0].launch)))
        kernel_launch_whole(k->row, &caps, &params, &parts[0].launch);
    for (int i = 0; i < count; i++)
        launch_part(&parts[i], &params);
}

static void launch(const struct loaded *k, const struct tb_gemm_params *p)
{
    launch_as(k, p, WAY_CHOSEN);
}

static struct tb_gemm_params params_of(const struct loaded *k, const struct shape *s,
                                       const struct mat *a, const struct mat *b,
                                       const struct mat *c)
{
    return (struct tb_gemm_params){.a = a->dev + a->shift * bytes_of(a->type),
                                   .b = b->dev + b->shift * bytes_of(b->type),
                                   .c = c->dev + c->shift * bytes_of(c->type),
                                   .stride_a = a->stride,
                                   .stride_b = b->stride,
                                   .stride_c = c->stride,
                                   .m = s->m,
                                   .n = s->n,
                                   .k = s->k,
                                   .lda = a->ld,
                                   .ldb = b->ld,
                                   .ldc = c->ld,
                                   .batch = s->batch,
                                   .alpha = {s->alpha[0], s->alpha[1]},
                                   .beta = {s->beta[0], s->beta[1]},
                                   .op_a = k->row->ta + 2 * s->conj_a,
                                   .op_b = k->row->tb + 2 * s->conj_b,
                                   .beta_zero = s->beta[0] == 0 && s->beta[1] == 0,
                                   .band = (int16_t)(pick(2) ? 0 : 1 + pick(20)),
                                   .hint = (int16_t)pick(TB_KHINTS)};
}

static struct num scaled(const double s[2], struct num x)
{
    if (s[1] == 0)
        return (struct num){s[0] * x.re, s[0] * x.im};
    return (struct num){s[0] * x.re - s[1] * x.im, s[0] * x.im + s[1] * x.re};
}

static long double size_of(struct num x)
{
    return x.im == 0 ? fabsl(x.re) : hypotl(x.re, x.im);
}

static int same_class(long double x, long double ref)
{
    return isnan(ref) ? isnan(x) : isinf(ref) ? x == ref : isfinite(x);
}

/* Unit roundoff of the computation and of C. */
static double unit(enum tb_type t)
{
    return t == TB_F16                  ? 0x1p-11
           : t == TB_BF16               ? 0x1p-8
           : t == TB_F32 || t == TB_C32 ? 0x1p-24
                                        : 0x1p-53;
}

/* The bound, in units of the roundoff of C. A chain of k roundings of positive terms, the worst
 * case, has an rms error of 0.26 sqrt(k) u (simulated and measured); all rows together look at 10^7
 * entries, so that 6 of these are the limit. FP32 chains are cut (kernels/fold.h), with a second
 * chain over the pieces. The tensor cores cut off instead of rounding, 2 u of FP32 for the sum in
 * each step of 16 of k, up to 1 u for its terms; alpha and beta C take 1 u each
 * (perf/probe_rounding.cu). */
static double bound(const struct tb_kernel *row, double k)
{
    const double compute = row->ab == TB_F64 || row->ab == TB_C64 ? 0x1p-53 : 0x1p-24;
    const double f = is_complex(row->ab) ? 2 : 1;
    const double link = tb_fold_every((int64_t)k, (int)f);
    const double chain =
        compute == 0x1p-53 ? sqrt(f * k) : sqrt(fmin(f * k, link)) + sqrt(f * k / link);
    const double plain = (unit(row->c) > compute ? 1.0 : 0.0) +
                         compute / unit(row->c) * (2.5 * f + 6 * 0.26 * chain);
    if (row->family == TB_X3) /* out of the tensor core every 16 of k, folded every 512; or plain */
        return fmax(plain, 6 + 6 * 0.26 * (sqrt(fmin(k, 512) / 16) + sqrt(k / 512)));
    if (row->family == TB_SM80 || row->family == TB_SM90)
        return (unit(row->c) > compute ? 1.0 : 0.0) + compute / unit(row->c) * (5 + k / 8);
    return plain;
}

struct stats {
    double worst; /* of error / bound */
    double worst_u;
    double rms; /* of the last case, in u */
    int cases;
};

static void report(const struct loaded *k, const struct shape *s, const char *what)
{
    if (failures_here++ < 4)
        printf("  %s: %s: m=%lld n=%lld k=%lld batch=%lld%s pad=%d,%d,%d shift=%d,%d,%d conj=%d%d "
               "alpha=%g,%g beta=%g,%g special=%d\n",
               k->row->name, what, (long long)s->m, (long long)s->n, (long long)s->k,
               (long long)s->batch, s->list ? " list" : "", s->pad[0], s->pad[1], s->pad[2],
               s->shift[0], s->shift[1], s->shift[2], s->conj_a, s->conj_b, s->alpha[0],
               s->alpha[1], s->beta[0], s->beta[1], s->special);
}

/* op(X) of every item as a dense array of pairs, `len` (along k) fastest, so that a dot product
 * runs along memory. `lead` counts rows of op(A) or columns of op(B). */
static struct num *unpack(const struct mat *x, int64_t item, int64_t lead, int64_t len, int k_first,
                          int conj)
{
    struct num *out = malloc((size_t)(lead * len) * sizeof *out);
    for (int64_t i = 0; i < lead; i++)
        for (int64_t l = 0; l < len; l++) {
            struct num v = get(x->type, x->data, k_first ? at(x, item, l, i) : at(x, item, i, l));
            if (conj)
                v.im = -v.im;
            out[i * len + l] = v;
        }
    return out;
}

/* sum = a . b over k, and mag = |a| . |b|. FP64 needs more than double; for FP32 double is enough
 * and fast. */
static void dot(const struct num *a, const struct num *b, int64_t k, int cplx, int fine,
                struct num *sum, long double *mag)
{
    *sum = (struct num){0, 0};
    *mag = 0;
    if (cplx) {
        for (int64_t l = 0; l < k; l++) {
            sum->re += a[l].re * b[l].re - a[l].im * b[l].im;
            sum->im += a[l].re * b[l].im + a[l].im * b[l].re;
            *mag += (long double)sqrt((double)((a[l].re * a[l].re + a[l].im * a[l].im) *
                                               (b[l].re * b[l].re + b[l].im * b[l].im)));
        }
    } else if (fine) {
        for (int64_t l = 0; l < k; l++)
            sum->re += a[l].re * b[l].re, *mag += fabsl(a[l].re * b[l].re);
    } else {
        double s = 0, g = 0;
        for (int64_t l = 0; l < k; l++) {
            const double p = (double)a[l].re * (double)b[l].re;
            s += p, g += fabs(p);
        }
        sum->re = s, *mag = g;
    }
}

static void plant_specials(const struct tb_kernel *row, const struct shape *s, struct mat *a,
                           struct mat *b)
{
    const int64_t k = s->k - 1; /* the last of k, where a tile is cut off */
    const int64_t i = s->m - 1, j = s->n - 1;
    for (int64_t item = 0; item < s->batch; item++) {
        put(a->type, a->data, row->ta ? at(a, item, k, i) : at(a, item, i, k), INFINITY, 0.5);
        put(b->type, b->data, row->tb ? at(b, item, j, k / 2) : at(b, item, k / 2, j), -INFINITY,
            -0.25);
        put(a->type, a->data, row->ta ? at(a, item, 0, 0) : at(a, item, 0, 0), NAN, 0);
        put(b->type, b->data, row->tb ? at(b, item, 0, k) : at(b, item, k, 0), 0, 0); /* 0 x Inf */
    }
}

/* The same launch on the same C gives the same bits; another way sums in another order. */
static int repeats(const struct loaded *k, const struct tb_gemm_params *p, enum way way,
                   const struct mat *c, const unsigned char *first, size_t bytes)
{
    unsigned char *const again = malloc(bytes);
    CU(cuMemcpyHtoD, c->dev, c->data, bytes);
    launch_as(k, p, way);
    CU(cuCtxSynchronize);
    CU(cuMemcpyDtoH, again, c->dev, bytes);
    const int same = memcmp(again, first, bytes) == 0;
    free(again);
    return same;
}

static void run_case(const struct loaded *k, const struct shape *s, struct stats *st)
{
    const struct tb_kernel *row = k->row;
    struct mat a = mat_make(row->ab, row->ta ? s->k : s->m, row->ta ? s->m : s->k, s->batch,
                            s->pad[0], s->shift[0], unit_of(row));
    struct mat b = mat_make(row->ab, row->tb ? s->n : s->k, row->tb ? s->k : s->n, s->batch,
                            s->pad[1], s->shift[1], unit_of(row));
    struct mat c = mat_make(row->c, s->m, s->n, s->batch, s->pad[2], s->shift[2], 1);
    const size_t c_bytes = c.elems * bytes_of(c.type);
    const double u = unit(row->c), limit = bound(row, (double)s->k);
    const int fine = row->ab == TB_F64 || row->ab == TB_C64, cplx = is_complex(row->ab);
    struct tb_gemm_params p;
    CUdeviceptr lists[3] = {0, 0, 0};

    mat_fill(&a, s->spread);
    mat_fill(&b, s->spread);
    if (s->beta[0] != 0 || s->beta[1] != 0)
        mat_fill(&c, s->spread); /* else C stays NaN */
    if (s->special)
        plant_specials(row, s, &a, &b);
    mat_upload(&a), mat_upload(&b), mat_upload(&c);
    p = params_of(k, s, &a, &b, &c);
    if (s->list) {
        p.alist = lists[0] = list_of(&a);
        p.blist = lists[1] = list_of(&b);
        p.clist = lists[2] = list_of(&c);
        p.a = p.b = p.c = 0;
    }
    const enum way way = pick(2) ? WAY_SHARED : WAY_WHOLE;
    launch_as(k, &p, way);
    CU(cuCtxSynchronize);

    unsigned char *out = malloc(c_bytes), *touched = calloc(c.elems, 1);
    CU(cuMemcpyDtoH, out, c.dev, c_bytes);
    if (!repeats(k, &p, way, &c, out, c_bytes))
        report(k, s, "a second run differs");
    double squares = 0;
    int wrong_class = 0, beyond = 0;
    for (int64_t item = 0; item < s->batch; item++) {
        struct num *pa = unpack(&a, item, s->m, s->k, row->ta, s->conj_a);
        struct num *pb = unpack(&b, item, s->n, s->k, !row->tb, s->conj_b);
        for (int64_t j = 0; j < s->n; j++)
            for (int64_t i = 0; i < s->m; i++) {
                struct num sum, old, got, ref;
                long double mag, scale;
                dot(pa + i * s->k, pb + j * s->k, s->k, cplx, fine, &sum, &mag);
                ref = scaled(s->alpha, sum);
                scale = mag * hypot(s->alpha[0], s->alpha[1]);
                if (!p.beta_zero) {
                    old = get(c.type, c.data, at(&c, item, i, j));
                    const struct num add = scaled(s->beta, old);
                    ref.re += add.re, ref.im += add.im;
                    scale += size_of(old) * hypot(s->beta[0], s->beta[1]);
                }
                got = get(c.type, out, at(&c, item, i, j));
                touched[at(&c, item, i, j)] = 1;
                if (!same_class(got.re, ref.re) || (cplx && !same_class(got.im, ref.im))) {
                    wrong_class++;
                } else if (isfinite(ref.re) && isfinite(ref.im)) {
                    const struct num diff = {got.re - ref.re, got.im - ref.im};
                    const long double tiny = row->c == TB_F16 ? 0x1p-25L : 0;
                    const double err =
                        (double)(fmaxl(size_of(diff) - tiny, 0) / (scale > 0 ? scale : 1) / u);
                    squares += err * err;
                    st->worst = fmax(st->worst, err / limit);
                    st->worst_u = fmax(st->worst_u, err);
                    beyond += !(err <= limit);
                }
            }
        free(pa), free(pb);
    }
    st->rms = sqrt(squares / (double)(s->m * s->n * s->batch));
    st->cases++;
    if (wrong_class)
        report(k, s, "NaN or Inf differ");
    if (beyond)
        report(k, s, "error beyond the bound");
    for (size_t i = 0, size = bytes_of(c.type); i < c.elems; i++)
        if (!touched[i] && memcmp(out + i * size, (char *)c.data + i * size, size) != 0) {
            report(k, s, "wrote outside of C");
            break;
        }
    free(out), free(touched);
    for (int i = 0; i < 3; i++)
        if (lists[i])
            CU(cuMemFree, lists[i]);
    mat_free(&a), mat_free(&b), mat_free(&c);
}

/* ---- the cases of a row ---- */

static struct shape random_shape(const struct tb_kernel *row, int64_t m, int64_t n, int64_t k)
{
    struct shape s = {.m = m, .n = n, .k = k, .batch = 1, .alpha = {1, 0}};
    const int plain = pick(4) == 0; /* aligned where the shape is */
    for (int i = 0; i < 3 && !plain; i++) {
        s.pad[i] = pick(3) ? pick(9) : 0;
        s.shift[i] = pick(3);
    }
    if (plain) { /* leading dimensions that allow wide loads, whatever the shape */
        const int64_t rows[3] = {row->ta ? k : m, row->tb ? n : k, m};
        for (int i = 0; i < 3; i++)
            s.pad[i] = (int)((16 - rows[i] % 16) % 16);
    }
    if (pick(3))
        s.alpha[0] = 2 * uniform() - 1;
    if (pick(3))
        s.beta[0] = pick(2) ? 1 : 2 * uniform() - 1;
    s.alpha[0] = (float)s.alpha[0], s.beta[0] = (float)s.beta[0];
    if (is_complex(row->ab)) {
        s.conj_a = pick(2), s.conj_b = pick(2);
        if (pick(2))
            s.alpha[1] = (float)(2 * uniform() - 1);
        if (pick(3) == 0)
            s.beta[1] = (float)(2 * uniform() - 1);
    }
    s.spread = pick(2) ? SIGNED : POSITIVE;
    return s;
}

static int takes_lists(const struct tb_kernel *row)
{
    return row->family != TB_SM90 && row->family != TB_X3;
}

static void run_random(const struct loaded *k, int64_t m, int64_t n, int64_t kk, int special,
                       struct stats *st)
{
    struct shape s = random_shape(k->row, m, n, kk);
    s.special = special;
    if (pick(4) == 0 && m * n * kk < (k->row->family == TB_X3 ? 4000000 : 100000))
        s.batch = 3, s.list = pick(2) && takes_lists(k->row);
    run_case(k, &s, st);
}

/* Launches that follow each other at once, each on what the one before has left (beta = 1): the
 * same bits as with a wait between them. A launch may begin while the one before it ends. */
static void run_chain(const struct loaded *k, int64_t m, int64_t n, int64_t depth, struct stats *st)
{
    enum { LINKS = 5 };
    struct shape s = {.m = m, .n = n, .k = depth, .batch = 1, .alpha = {0.5, 0}, .beta = {1, 0}};
    struct mat a = mat_make(k->row->ab, k->row->ta ? depth : m, k->row->ta ? m : depth, 1, 0, 0,
                            unit_of(k->row));
    struct mat b = mat_make(k->row->ab, k->row->tb ? n : depth, k->row->tb ? depth : n, 1, 0, 0,
                            unit_of(k->row));
    struct mat c = mat_make(k->row->c, m, n, 1, 0, 0, 1);
    const size_t bytes = c.elems * bytes_of(c.type);
    unsigned char *out[2] = {malloc(bytes), malloc(bytes)};
    mat_fill(&a, 0), mat_fill(&b, 0), mat_fill(&c, 0);
    mat_upload(&a), mat_upload(&b);
    struct tb_gemm_params p = {0};
    for (int at_once = 0; at_once < 2; at_once++) {
        mat_upload(&c);
        if (at_once == 0)
            p = params_of(k, &s, &a, &b, &c); /* in one order: it decides which tiles are shared */
        p.c = c.dev;
        for (int i = 0; i < LINKS; i++) {
            launch_as(k, &p, i % 2 ? WAY_SHARED : WAY_WHOLE);
            if (!at_once)
                CU(cuCtxSynchronize);
        }
        CU(cuCtxSynchronize);
        CU(cuMemcpyDtoH, out[at_once], c.dev, bytes);
        if (at_once == 0)
            CU(cuMemFree, c.dev);
    }
    if (memcmp(out[0], out[1], bytes) != 0)
        report(k, &s, "launches in a row differ from launches apart");
    st->cases++;
    free(out[0]), free(out[1]);
    mat_free(&a), mat_free(&b), mat_free(&c);
}

static void run_shapes(const struct loaded *k, int quick, struct stats *st)
{
    const struct tb_kernel *r = k->row;
    const int64_t ms[] = {1, r->bm - 1, r->bm, r->bm + 1, 2 * r->bm + 3};
    const int64_t ns[] = {1, r->bn - 1, r->bn, r->bn + 1, 2 * r->bn + 3};
    const int64_t ks[] = {1,   2,   r->bk - 1, r->bk, r->bk + 1, 2 * r->bk, 5 * r->bk + 3,
                          255, 256, 257,       264,   265,       512,       521};
    const int nk = (int)(sizeof ks / sizeof *ks),
              edge_nk = quick ? 7 : nk; /* quick: short k on large tiles */
    for (int i = 1; i <= 33; i += quick ? 8 : 1) {
        run_random(k, i, 1 + pick(33), 1 + pick(33), 0, st);
        run_random(k, 1 + pick(33), i, 1 + pick(33), pick(2), st);
        run_random(k, 1 + pick(33), 1 + pick(33), i, 0, st);
    }
    for (int i = 0; i < 5; i += quick ? 2 : 1)
        for (int j = 0; j < 5; j += quick ? 2 : 1)
            run_random(k, ms[i], ns[j], ks[pick(edge_nk)], 0, st);
    for (int i = 0; i < nk; i += quick ? 3 : 1) {
        if (i < edge_nk)
            run_random(k, ms[pick(4)], ns[pick(4)], ks[i], 0, st);
        run_random(k, 1 + pick(40), 1 + pick(40), ks[i], 1, st);
    }
    /* Wide loads and stores throughout. */
    struct shape whole = random_shape(r, 2 * r->bm, 2 * r->bn, 6 * r->bk);
    memset(whole.pad, 0, sizeof whole.pad);
    memset(whole.shift, 0, sizeof whole.shift);
    run_case(k, &whole, st);
    for (int i = 0; i < 4; i++) /* k long enough to be divided */
        run_random(k, 1 + pick(2 * r->bm), 1 + pick(2 * r->bn), 500 + pick(1500), 0, st);
    if (r->family == TB_SM90) {
        run_chain(k, 16, 16, 16, st);
        run_chain(k, 3 * r->bm, 3 * r->bn, 64, st);
        run_chain(k, 3 * r->bm + 8, 2 * r->bn + 1, 3000, st);
        run_chain(k, 1536, 1032, 200, st);
    }
    if (quick)
        return;
    run_random(k, 35, 37, 4096, 0, st);
    for (int i = 0; i < 4; i++) /* k divided among blocks, where a row does that */
        run_random(k, 1 + pick(r->bm + 9), 1 + pick(r->bn + 9), 700 + pick(1500), i == 3, st);
    run_random(k, 20 * r->bm - 5, 3, 17, 0, st); /* more than one band of tiles */
    run_random(k, 17 * r->bm, 2 * r->bn + 1, 9, 0, st);
    struct shape many = {.m = 3, .n = 2, .k = 5, .batch = 70000, .alpha = {1, 0}, .pad = {1, 0, 2}};
    run_case(k, &many, st);
    many.list = r->family != TB_SM90, many.beta[0] = 0.5;
    run_case(k, &many, st);
}

/* FP32 on 16-bit planes: tails of k around steps, segments and folds, edges of tiles, batches, and
 * operands that take each of its ways. */
static void run_x3(const struct loaded *k, int quick, struct stats *st)
{
    const int64_t sides[] = {1, 2, 63, 127, 128, 129, 255, 257},
                  ks[] = {256, 257, 271, 287, 288, 289,  320,  511,
                          512, 513, 528, 544, 545, 1024, 1025, 1057};
    const int ns = quick ? 4 : 8, nk = 16;
    for (int i = 0; i < ns; i++)
        for (int j = 0; j < ns; j++)
            run_random(k, sides[i], sides[j], ks[pick(nk)], 0, st);
    for (int i = 0; i < nk; i++) {
        run_random(k, 1 + pick(150), 1 + pick(150), ks[i], 0, st);
        run_random(k, 1 + pick(40), 1 + pick(40), ks[i], 1, st);
    }
    for (int spread = WIDE; spread <= WIDER; spread++)
        for (int i = 0; i < nk; i += quick ? 4 : 1) {
            struct shape s = random_shape(k->row, 1 + pick(150), 1 + pick(150), ks[i]);
            s.spread = (enum spread)spread;
            s.special = pick(4) == 0;
            run_case(k, &s, st);
        }
    if (quick)
        return;
    run_random(k, 20 * 128 - 5, 3, 300, 0, st); /* more than one band of tiles */
    run_random(k, 17 * 128, 257, 256, 0, st);
    run_random(k, 3, 40 * 128, 256, 0, st);
    struct shape many = {
        .m = 30, .n = 20, .k = 260, .batch = 700, .alpha = {1, 0}, .pad = {1, 0, 2}};
    run_case(k, &many, st);
}

/* Positive data over a long k, where a single FP32 chain drifts: rms of 20 u and more at k = 8192.
 */
static void run_fold(const struct loaded *k, struct stats *st)
{
    if ((k->row->family != TB_SIMT && k->row->family != TB_X3) || k->row->ab == TB_F64 ||
        k->row->ab == TB_C64 || k->row->c == TB_F16 || k->row->c == TB_BF16)
        return;
    struct shape s = {.m = 96, .n = 72, .k = 8192, .batch = 1, .alpha = {1, 0}, .spread = POSITIVE};
    run_case(k, &s, st);
    if (!(st->rms < (k->row->family == TB_X3 ? 1.9 : 1.8)))
        report(k, &s, "rms error says that sums are not folded");
}

/* Offsets beyond 2^31 elements: all three matrices share one allocation with a leading dimension of
 * 2^20 and more; the long side of each lies along its columns where the layout lets it. 0: no
 * memory for it. */
static int run_large(const struct loaded *k, struct stats *st)
{
    const struct tb_kernel *row = k->row;
    const int64_t ld = (1 << 20) + (row->family != TB_SM90 ? 3 : 8), many = 2060, few = 5;
    const int64_t m = row->ta && !row->tb ? many : few, n = many,
                  kk = !(row->ta && !row->tb) ? many
                       : row->family == TB_X3 ? 300
                                              : few;
    const size_t size = bytes_of(row->ab), csize = bytes_of(row->c),
                 wide = size > csize ? size : csize;
    struct shape s = {.m = m, .n = n, .k = kk, .batch = 1, .alpha = {1, 0}};
    struct mat x[3] = {mat_make(row->ab, row->ta ? kk : m, row->ta ? m : kk, 1, 0, 0, 1),
                       mat_make(row->ab, row->tb ? n : kk, row->tb ? kk : n, 1, 0, 0, 1),
                       mat_make(row->c, m, n, 1, 0, 0, 1)};
    size_t free_bytes, total;
    CUdeviceptr dev;
    CU(cuMemGetInfo, &free_bytes, &total);
    if (free_bytes < (size_t)ld * (size_t)many * wide + (1u << 30))
        return 0;
    CU(cuMemAlloc, &dev, (size_t)ld * (size_t)many * wide);
    CUDA_MEMCPY2D copy[3];
    for (int i = 0; i < 3; i++) {
        const size_t e = bytes_of(x[i].type);
        mat_fill(&x[i], SIGNED);
        x[i].dev = dev + (CUdeviceptr)i * 8192 * wide;
        copy[i] = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_HOST,
                                  .srcHost = x[i].data,
                                  .srcPitch = (size_t)x[i].ld * e,
                                  .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                  .dstDevice = x[i].dev,
                                  .dstPitch = (size_t)ld * e,
                                  .WidthInBytes = (size_t)x[i].rows * e,
                                  .Height = (size_t)x[i].cols};
        CU(cuMemcpy2DUnaligned, &copy[i]);
    }
    struct tb_gemm_params p = params_of(k, &s, &x[0], &x[1], &x[2]);
    p.lda = p.ldb = p.ldc = ld;
    launch(k, &p);
    CU(cuCtxSynchronize);
    CUDA_MEMCPY2D back = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = copy[2].dstDevice,
                          .srcPitch = copy[2].dstPitch,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = x[2].data,
                          .dstPitch = copy[2].srcPitch,
                          .WidthInBytes = copy[2].WidthInBytes,
                          .Height = copy[2].Height};
    CU(cuMemcpy2DUnaligned, &back);
    struct num *pa = unpack(&x[0], 0, m, kk, row->ta, 0),
               *pb = unpack(&x[1], 0, n, kk, !row->tb, 0);
    for (int64_t j = 0; j < n; j += 7)
        for (int64_t i = 0; i < m; i += 3) {
            struct num sum, got = get(row->c, x[2].data, at(&x[2], 0, i, j));
            long double mag;
            dot(pa + i * kk, pb + j * kk, kk, is_complex(row->ab),
                row->ab == TB_F64 || row->ab == TB_C64, &sum, &mag);
            const struct num diff = {got.re - sum.re, got.im - sum.im};
            const double err =
                (double)((size_of(diff) - (row->c == TB_F16 ? 0x1p-25L : 0)) / mag) / unit(row->c);
            st->worst_u = fmax(st->worst_u, err);
            st->worst = fmax(st->worst, err / bound(row, (double)kk));
            if (!(err <= bound(row, (double)kk))) {
                report(k, &s, "wrong beyond 2^31 elements");
                i = m, j = n;
            }
        }
    free(pa), free(pb);
    CU(cuMemFree, dev);
    for (int i = 0; i < 3; i++)
        free(x[i].data);
    st->cases++;
    return 1;
}

static int by_value(const void *x, const void *y)
{
    const float a = *(const float *)x, b = *(const float *)y;
    return (a > b) - (a < b);
}

/* Random A and B of order n of a type, on the device; kept for the next row of that type. */
static void bench_data(enum tb_type type, int64_t n, CUdeviceptr out[2])
{
    static struct mat kept[2];
    for (int i = 0; i < 2; i++) {
        if (!kept[i].dev || kept[i].type != type || kept[i].rows != n) {
            mat_free(&kept[i]);
            kept[i] = mat_make(type, n, n, 1, 0, 0, 1);
            mat_fill(&kept[i], SIGNED);
            mat_upload(&kept[i]);
        }
        out[i] = kept[i].dev;
    }
}

/* TFLOP/s of a square product of random data: median of 10 after 3, and the spread (max - min) /
 * median. */
static double bench(const struct loaded *k, int64_t n, double *spread)
{
    const struct tb_kernel *row = k->row;
    float ms[10];
    CUevent start, stop;
    CUdeviceptr ab[2], c;
    bench_data(row->ab, n, ab);
    CU(cuMemAlloc, &c, (size_t)(n * n) * bytes_of(row->c));
    const struct tb_gemm_params p = {.a = ab[0],
                                     .b = ab[1],
                                     .c = c,
                                     .m = n,
                                     .n = n,
                                     .k = n,
                                     .lda = n,
                                     .ldb = n,
                                     .ldc = n,
                                     .batch = 1,
                                     .alpha = {1, 0},
                                     .op_a = row->ta,
                                     .op_b = row->tb,
                                     .beta_zero = 1};
    CU(cuEventCreate, &start, 0);
    CU(cuEventCreate, &stop, 0);
    for (int i = -3; i < 10; i++) {
        CU(cuEventRecord, start, stream());
        launch(k, &p);
        CU(cuEventRecord, stop, stream());
        CU(cuEventSynchronize, stop);
        CU(cuEventElapsedTime, &ms[i < 0 ? 0 : i], start, stop);
    }
    CU(cuMemFree, c);
    qsort(ms, 10, sizeof *ms, by_value);
    const double median = (ms[4] + ms[5]) / 2.0;
    *spread = (ms[9] - ms[0]) / median;
    return (is_complex(row->ab) ? 8.0 : 2.0) * (double)n * (double)n * (double)n / median * 1e-9;
}

/* ---- main ---- */

static CUlibrary images[TB_IMAGES];

static void load_one(int i)
{
    const struct tb_kernel *row = kernel_row(i);
    CUkernel kernel;
    if (functions[i])
        return;
    if (!images[row->image])
        CU(cuLibraryLoadData, &images[row->image], tb_images[row->image].start, NULL, NULL, 0, NULL,
           NULL, 0);
    CU(cuLibraryGetKernel, &kernel, images[row->image], row->name);
    CU(cuKernelGetFunction, &functions[i], kernel);
    if (row->smem > 0)
        CU(cuFuncSetAttribute, functions[i], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
           row->smem);
}

/* A row of several kernels needs those of any shape, and what may stand in for them. */
static int load(int index, struct loaded *out)
{
    const struct tb_kernel *row = kernel_row(index);
    if (caps.cc < row->cc_min || caps.cc > row->cc_max || row->smem + 256 > caps.smem_block)
        return 0;
    *out = (struct loaded){row, index};
    for (int i = 0; i < kernel_count(); i++)
        if (i == index ? row->family != TB_X3
                       : row->family == TB_X3 &&
                             (kernel_row(i)->family == TB_PART ||
                              (kernel_row(i)->family == TB_SIMT && kernel_row(i)->ab == row->ab)))
            load_one(i);
    return 1;
}

static int wanted(int argc, char **argv, const char *name)
{
    int names = 0;
    for (int i = 1; i < argc; i++)
        if (argv[i][0] != '-') {
            names++;
            if (strncmp(argv[i], name, strlen(argv[i])) == 0)
                return 1;
        }
    return names == 0;
}

static int has(int argc, char **argv, const char *flag)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], flag) == 0)
            return 1;
    return 0;
}

static int device_open(void)
{
    CUdevice dev;
    CUcontext ctx;
    int count = 0, major, minor;
    if (!driver_open() || cu.cuInit_fn(0) != CUDA_SUCCESS ||
        cu.cuDeviceGetCount_fn(&count) != CUDA_SUCCESS || count == 0)
        return 0;
    CU(cuDeviceGet, &dev, 0);
    CU(cuDeviceGetName, caps.name, sizeof caps.name, dev);
    CU(cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev);
    CU(cuDeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, dev);
    CU(cuDeviceGetAttribute, &caps.sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev);
    CU(cuDeviceGetAttribute, &caps.smem_block,
       CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, dev);
    caps.cc = 10 * major + minor;
    CU(cuDevicePrimaryCtxRetain, &ctx, dev);
    CU(cuCtxSetCurrent, ctx);
    return 1;
}

int main(int argc, char **argv)
{
    const int quick = has(argc, argv, "--quick"), timing = has(argc, argv, "--bench");
    const int64_t size = has(argc, argv, "--8192") ? 8192 : has(argc, argv, "--2048") ? 2048 : 4096;
    int failed = 0, tested = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!device_open()) {
        printf("no device\n");
        return 77;
    }
    printf("%s, compute capability %d, %d multiprocessors, %d bytes of shared memory a block\n",
           caps.name, caps.cc, caps.sms, caps.smem_block);
    for (int i = 0; i < kernel_count(); i++) {
        const struct tb_kernel *row = kernel_row(i);
        struct loaded k;
        if (row->family == TB_PART || row->family == TB_TRI /* level3.c tries those */ ||
            !wanted(argc, argv, row->name))
            continue;
        if (!load(i, &k)) {
            printf("%-20s does not fit this device\n", row->name);
            continue;
        }
        if (timing) {
            int regs = 0;
            double spread;
            if (functions[i])
                CU(cuFuncGetAttribute, &regs, CU_FUNC_ATTRIBUTE_NUM_REGS, functions[i]);
            const double rate = bench(&k, size, &spread);
            printf("%-20s %7.2f TFLOP/s  spread %4.1f%%  %3d registers  %6d bytes\n", row->name,
                   rate, 100 * spread, regs, row->smem);
            continue;
        }
        struct stats st = {.worst = 0};
        double fold_rms = 0;
        const char *large = "";
        failures_here = 0;
        seed = 88172645463325252u + (uint64_t)i;
        if (!has(argc, argv, "--large"))
            (row->family == TB_X3 ? run_x3 : run_shapes)(&k, quick, &st);
        if (has(argc, argv, "--large")) {
            if (!run_large(&k, &st))
                large = ", no memory for 2^31 elements";
        } else if (!quick) {
            st.rms = 0;
            run_fold(&k, &st);
            fold_rms = st.rms;
            if (!has(argc, argv, "--skip-large") && !run_large(&k, &st))
                large = ", no memory for 2^31 elements";
        }
        tested++;
        failed += failures_here > 0;
        printf("%-20s %s  %d cases, worst error %.3g u (%.0f%% of the bound), rms at k=8192 %.2f "
               "u%s\n",
               row->name, failures_here ? "FAIL" : "PASS", st.cases, st.worst_u, 100 * st.worst,
               fold_rms, large);
    }
    if (!timing)
        printf("%d rows tested, %d failed\n", tested, failed);
    return failed || (!timing && tested == 0);
}
