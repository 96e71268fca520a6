/* SPDX-License-Identifier: BSD-3-Clause
 * Climbs the ladder: every rung is checked on small shapes around its tile, with Inf in the last
 * row and NaN all around the operands, then timed at full size beside the library's own kernel,
 * cuBLAS, OpenBLAS and the copy rate. One CSV row each; counters of a profiler are joined by
 * ladder-table.py. ladder [-o FILE] [-n SIZE] [-1]    -1: only one launch of each at full size, for
 * the profiler */
#include "perf.h"

#include <dlfcn.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../src/dev.h"
#include "../src/kernel.h"

enum ladder_kind { F32, F32_BANDS, F16, F16_BANDS, F16_MAPS, TRANSPOSE, REDUCE, STENCIL, CONV };
enum { LADDER_REPS = 9, LADDER_POINTS = 16384, LADDER_CONV = 8192, LADDER_NUMBERS = 1 << 28 };

struct ladder_rung {
    enum ladder_kind kind;
    const char *name, *file;
    int threads, bm, bn, bk, smem, barriers;
};
static const struct ladder_rung ladder_rungs[] = {
#define RUNG(KIND, ...) {KIND, __VA_ARGS__},
#undef RUNG
#define RUNG(KIND, NAME, FILE, THREADS, BM, BN, BK, SMEM, BARRIERS)                                \
    {KIND, #NAME, FILE, THREADS, BM, BN, BK, SMEM, BARRIERS},
#include "../kernels/ladder/rungs.def"
#undef RUNG
};
enum { LADDER_COUNT = sizeof ladder_rungs / sizeof ladder_rungs[0] };

static struct {
    void *module;
    struct gpu_timer timer;
    struct perf_limits limits;
    FILE *out;
    gpu_ptr in, in2, to; /* operands at full size */
    int n;
    bool once, failed;
    double cublas[2]; /* milliseconds: fp32, f16 in and fp32 out */
} ladder = {.n = 4096};

static bool is_gemm(enum ladder_kind kind)
{
    return kind <= F16_MAPS;
}

static bool is_half(enum ladder_kind kind)
{
    return kind == F16 || kind == F16_BANDS || kind == F16_MAPS;
}

static void *ladder_function(const struct ladder_rung *rung)
{
    void *fn = gpu_function(ladder.module, rung->name);
    if (fn && rung->smem && !GPU(cuFuncSetAttribute, fn, 8, rung->smem))
        return NULL;
    return fn;
}

/* A row-major matrix of halves as the copy engine of sm_90 sees it: boxes of 64 by `lines`,
 * swizzled over 128 bytes; what lies outside comes as zeros. */
struct ladder_map {
    _Alignas(64) uint64_t opaque[16];
};

static bool ladder_map(struct ladder_map *map, gpu_ptr base, int rows, int cols, int ld,
                       uint32_t lines)
{
    enum { FLOAT16 = 6, SWIZZLE_128B = 3, PROMOTE_256B = 3 };
    const uint64_t sizes[3] = {(uint64_t)cols, (uint64_t)rows, 1};
    const uint64_t pitches[2] = {2 * (uint64_t)ld, 2 * (uint64_t)ld};
    const uint32_t box[3] = {64, lines, 1}, steps[3] = {1, 1, 1};
    return GPU(cuTensorMapEncodeTiled, map, FLOAT16, 3, base, sizes, pitches, box, steps, 0,
               SWIZZLE_128B, PROMOTE_256B, 0);
}

/* GEMM: size {m, n, k}, ld {lda, ldb, ldc}. Others: size[0] points a side, ld[0]; REDUCE: size[0]
 * numbers. */
static bool ladder_launch(const struct ladder_rung *rung, gpu_ptr in, gpu_ptr in2, gpu_ptr to,
                          const int size[3], const int ld[3])
{
    void *fn = ladder_function(rung);
    int m = size[0], n = size[1], k = size[2], lda = ld[0], ldb = ld[1], ldc = ld[2];
    int64_t numbers = size[0];
    void *gemm_args[] = {&in, &in2, &to, &m, &n, &k, &lda, &ldb, &ldc};
    void *plane_args[] = {&in, &to, &m, &lda}, *line_args[] = {&in, &to, &numbers};
    struct ladder_map a, b;
    void *map_args[] = {&a, &b, &to, &m, &n, &k, &ldc};
    const unsigned rows = (unsigned)((m + rung->bm - 1) / rung->bm);
    const unsigned cols = (unsigned)(((is_gemm(rung->kind) ? n : m) + rung->bn - 1) / rung->bn);
    const bool line = rung->kind == REDUCE;
    const bool maps = rung->kind == F16_MAPS;
    const bool bands = rung->kind == F32_BANDS || rung->kind == F16_BANDS || maps;
    if (maps && (!ladder_map(&a, in, m, k, lda, 128) || !ladder_map(&b, in2, k, n, ldb, 64)))
        return false;
    return fn && GPU(cuLaunchKernel, fn,
                     line    ? rows
                     : bands ? rows * cols
                             : cols,
                     line || bands ? 1 : rows, 1, (unsigned)rung->threads, 1, 1,
                     (unsigned)rung->smem, ladder.timer.stream,
                     maps                  ? map_args
                     : is_gemm(rung->kind) ? gemm_args
                     : line                ? line_args
                                           : plane_args,
                     NULL);
}

/* --- check
 * --------------------------------------------------------------------------------------------- */

/* A matrix of floats or halves with a pitch, NaN in all that does not belong to it. */
struct ladder_plane {
    int rows, cols, ld;
    bool half;
    size_t bytes;
    double *value; /* rows x ld */
    gpu_ptr device;
};

static bool ladder_plane_make(struct ladder_plane *p, int rows, int cols, bool half, bool random)
{
    static uint64_t state = 1;
    p->rows = rows;
    p->cols = cols;
    p->ld = (cols + 8 + 7) / 8 * 8;
    p->half = half;
    p->bytes = (size_t)p->ld * (size_t)(rows + 2) * (half ? 2 : 4);
    p->value = malloc((size_t)(rows + 2) * (size_t)p->ld * sizeof *p->value);
    char *raw = malloc(p->bytes);
    bool ok = p->value && raw && GPU(cuMemAlloc_v2, &p->device, p->bytes);
    for (int i = 0; ok && i < (rows + 2) * p->ld; i++) {
        const bool inside = i / p->ld < rows && i % p->ld < cols;
        state = data_mix(state);
        double v = inside && random ? (double)(int64_t)state * 0x1p-63 : NAN;
        if (half)
            ((uint16_t *)raw)[i] = data_to_half(v);
        else
            ((float *)raw)[i] = (float)v;
        p->value[i] = half ? data_from_half(((uint16_t *)raw)[i]) : (double)((float *)raw)[i];
    }
    ok = ok && GPU(cuMemcpyHtoDAsync_v2, p->device, raw, p->bytes, ladder.timer.stream) &&
         GPU(cuStreamSynchronize, ladder.timer.stream);
    free(raw);
    return ok;
}

static bool ladder_plane_set(struct ladder_plane *p, int row, int col, double v)
{
    const uint16_t h = data_to_half(v);
    const float f = (float)v;
    const size_t at = (size_t)row * (size_t)p->ld + (size_t)col;
    p->value[at] = v;
    return GPU(cuMemcpyHtoDAsync_v2, p->device + at * (p->half ? 2 : 4),
               p->half ? (const void *)&h : &f, p->half ? 2 : 4, ladder.timer.stream) &&
           GPU(cuStreamSynchronize, ladder.timer.stream);
}

static void ladder_plane_free(struct ladder_plane *p)
{
    free(p->value);
    if (p->device)
        GPU(cuMemFree_v2, p->device);
}

static bool ladder_fetch(const struct ladder_plane *p, float *out)
{
    return GPU(cuMemcpyDtoHAsync_v2, out, p->device, p->bytes, ladder.timer.stream) &&
           GPU(cuStreamSynchronize, ladder.timer.stream);
}

static double ladder_at(const struct ladder_plane *p, int y, int x) /* zero outside */
{
    return y >= 0 && x >= 0 && y < p->rows && x < p->cols
               ? p->value[(size_t)y * (size_t)p->ld + (size_t)x]
               : 0;
}

/* What entry (y, x) of the result should be; *size bounds what rounding may do. */
static double ladder_expect(enum ladder_kind kind, const struct ladder_plane *a,
                            const struct ladder_plane *b, int y, int x, double *size)
{
    double sum = 0;
    *size = 0;
    if (is_gemm(kind)) {
        for (int i = 0; i < a->cols; i++) {
            const double p = ladder_at(a, y, i) * ladder_at(b, i, x);
            sum += p;
            *size += fabs(p);
        }
    } else if (kind == TRANSPOSE) {
        sum = ladder_at(a, x, y);
    } else if (kind == STENCIL) {
        const double here = ladder_at(a, y, x);
        sum = here + 0.125 * (ladder_at(a, y - 1, x) + ladder_at(a, y + 1, x) +
                              ladder_at(a, y, x - 1) + ladder_at(a, y, x + 1) - 4 * here);
        *size = 4;
    } else {
        for (int dy = -4; dy <= 4; dy++)
            for (int dx = -4; dx <= 4; dx++)
                sum += ladder_at(a, y + dy, x + dx) / (1 + abs(dx) + abs(dy));
        *size = 40;
    }
    return sum;
}

static bool ladder_same(double got, double want, double size)
{
    if (isnan(want))
        return isnan(got);
    if (isinf(want))
        return got == want;
    return fabs(got - want) <= 64 * 0x1p-24 * size; /* k is below 300 here */
}

/* One shape: every entry right, nothing around C written. */
static bool ladder_check_shape(const struct ladder_rung *rung, int m, int n, int k, char *why,
                               size_t bytes)
{
    struct ladder_plane a = {0}, b = {0}, c = {0};
    const bool gemm = is_gemm(rung->kind);
    bool ok = ladder_plane_make(&a, m, gemm ? k : n, is_half(rung->kind), true) &&
              ladder_plane_make(&b, gemm ? k : 1, n, is_half(rung->kind), true) &&
              ladder_plane_make(&c, rung->kind == TRANSPOSE ? n : m,
                                rung->kind == TRANSPOSE ? m : n, false, false);
    float *got = ok ? malloc(c.bytes) : NULL;
    ok = ok && got && ladder_plane_set(&a, m - 1, 0, INFINITY) &&
         ladder_plane_set(&a, m - 1, a.cols - 1, -INFINITY);
    const int size[3] = {m, n, k}, ld[3] = {a.ld, b.ld, c.ld};
    ok = ok && ladder_launch(rung, a.device, b.device, c.device, size, ld) && ladder_fetch(&c, got);
    if (!ok)
        snprintf(why, bytes, "%.100s", gpu_error());
    for (int i = 0; ok && i < (c.rows + 2) * c.ld; i++) {
        double room;
        const int y = i / c.ld, x = i % c.ld;
        const bool inside = y < c.rows && x < c.cols;
        const double want = inside ? ladder_expect(rung->kind, &a, &b, y, x, &room) : 0;
        ok = inside ? ladder_same((double)got[i], want, room) : isnan(got[i]);
        if (!ok)
            snprintf(why, bytes, "%dx%dx%d entry (%d %d) is %g not %g", m, n, k, y, x,
                     (double)got[i], want);
    }
    free(got);
    ladder_plane_free(&a);
    ladder_plane_free(&b);
    ladder_plane_free(&c);
    return ok;
}

static bool ladder_check_reduce(const struct ladder_rung *rung, int numbers, char *why,
                                size_t bytes)
{
    struct ladder_plane in = {0}, out = {0};
    const int blocks = (numbers + rung->bm - 1) / rung->bm, size[3] = {numbers, 1, 1},
              ld[3] = {0, 0, 0};
    bool ok = ladder_plane_make(&in, 1, numbers, false, true) &&
              ladder_plane_make(&out, 1, blocks, false, false);
    float *got = ok ? malloc(out.bytes) : NULL;
    ok = ok && got && ladder_launch(rung, in.device, 0, out.device, size, ld) &&
         ladder_fetch(&out, got);
    double want = 0, sum = 0;
    for (int i = 0; ok && i < numbers; i++)
        want += in.value[i];
    for (int i = 0; ok && i < blocks; i++)
        sum += (double)got[i];
    ok = ok && fabs(sum - want) <= 64 * 0x1p-24 * numbers && isnan(got[blocks]);
    if (!ok)
        snprintf(why, bytes, "%d numbers: %g not %g", numbers, sum, want);
    free(got);
    ladder_plane_free(&in);
    ladder_plane_free(&out);
    return ok;
}

static bool ladder_check(const struct ladder_rung *rung, char *why, size_t bytes)
{
    const int bm = rung->bm, bn = rung->bn, bk = rung->bk, side = bm > bn ? bm : bn;
    static const int off[] = {-1, 0, 1};
    if (rung->kind == REDUCE)
        return ladder_check_reduce(rung, bm - 1, why, bytes) &&
               ladder_check_reduce(rung, bm, why, bytes) &&
               ladder_check_reduce(rung, 3 * bm + 1, why, bytes) &&
               ladder_check_reduce(rung, 1, why, bytes);
    if (!is_gemm(rung->kind)) {
        for (int i = 0; i < 3; i++)
            if (!ladder_check_shape(rung, side + off[i], side + off[i], 1, why, bytes) ||
                !ladder_check_shape(rung, 3 * side + off[i], 3 * side + off[i], 1, why, bytes))
                return false;
        return ladder_check_shape(rung, 1, 1, 1, why, bytes);
    }
    for (int i = 0; i < 3; i++) /* k up to three stages and beyond */
        if (!ladder_check_shape(rung, bm + off[i], bn - off[i], (i + 1) * bk + off[i], why,
                                bytes) ||
            !ladder_check_shape(rung, bm + off[i], bn + off[2 - i], 4 * bk + off[i], why, bytes))
            return false;
    /* 9 and a bit rows of tiles: more than a band */
    return ladder_check_shape(rung, 1, 1, 1, why, bytes) &&
           ladder_check_shape(rung, 9 * bm + 1, bn + 1, bk + 1, why, bytes);
}

/* --- time
 * ------------------------------------------------------------------------------------------------
 */

static int ladder_lines(const char *file)
{
    char path[4096];
    int lines = 0, c;
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 100);
    path[n > 0 ? n : 0] = 0;
    char *slash = strrchr(path, '/');
    if (!slash)
        return 0;
    snprintf(slash + 1, 99, "rungs/%s", file);
    FILE *in = fopen(path, "r");
    while (in && (c = getc(in)) != EOF)
        lines += c == '\n';
    if (in)
        fclose(in);
    return lines;
}

static void ladder_head(void)
{
    fprintf(
        ladder.out,
        "%s,kind,rung,status,n,ms,ms_min,ms_max,rate,unit,share_of_peak,peak,vs_cublas,registers,"
        "smem_bytes,threads,blocks_sm,occupancy,barriers_per_k,lines,note\n",
        table_facts_head());
}

struct ladder_line {
    const char *kind, *name, *status, *unit, *peak, *note;
    int n, registers, smem, threads, blocks, lines;
    double ms, min, max, rate, share, vs_cublas, barriers;
};

static void ladder_write(const struct ladder_line *x)
{
    fprintf(ladder.out,
            "%s,%s,%s,%s,%d,%.6g,%.6g,%.6g,%.6g,%s,%.4f,%s,%.4g,%d,%d,%d,%d,%.3f,%.4g,%d,\"%s\"\n",
            table_facts(), x->kind, x->name, x->status, x->n, x->ms, x->min, x->max, x->rate,
            x->unit ? x->unit : "", x->share, x->peak ? x->peak : "", x->vs_cublas, x->registers,
            x->smem, x->threads, x->blocks,
            (double)x->blocks * x->threads / (gpu_facts.threads_sm ? gpu_facts.threads_sm : 1),
            x->barriers, x->lines, x->note ? x->note : "");
    fflush(ladder.out);
    if (strcmp(x->status, "ok") != 0)
        ladder.failed = true;
}

/* Work of one launch: operations of a product, bytes of the rest. */
static double ladder_work(const struct ladder_rung *rung, int n)
{
    const double points = (double)n * n;
    switch (rung->kind) {
    case REDUCE:
        return 4.0 * n;
    case CONV:
        return 2.0 * 81 * points;
    case TRANSPOSE:
    case STENCIL:
        return 8.0 * points;
    default:
        return 2.0 * points * n;
    }
}

static void ladder_describe(const struct ladder_rung *rung, struct ladder_line *x)
{
    void *fn = ladder_function(rung);
    GPU(cuFuncGetAttribute, &x->registers, 4, fn);
    GPU(cuFuncGetAttribute, &x->smem, 1, fn);
    GPU(cuOccupancyMaxActiveBlocksPerMultiprocessor, &x->blocks, fn, rung->threads,
        (size_t)rung->smem);
    x->smem += rung->smem;
    x->threads = rung->threads;
    x->barriers = (double)rung->barriers;
    x->lines = ladder_lines(rung->file);
}

static int ladder_size(const struct ladder_rung *rung)
{
    return rung->kind == REDUCE  ? LADDER_NUMBERS
           : rung->kind == CONV  ? LADDER_CONV
           : is_gemm(rung->kind) ? ladder.n
                                 : LADDER_POINTS;
}

static double ladder_time(const struct ladder_rung *rung, int more, double ms[LADDER_REPS],
                          int *reps)
{
    const int n = ladder_size(rung), size[3] = {n, n, n}, ld[3] = {n + more, n + more, n + more};
    *reps = 0;
    for (int i = ladder.once ? LADDER_REPS - 1 : -1; i < LADDER_REPS; i++) {
        if (!gpu_timer_start(&ladder.timer) ||
            !ladder_launch(rung, ladder.in, ladder.in2, ladder.to, size, ld))
            return -1;
        const double t = gpu_timer_stop(&ladder.timer);
        if (t <= 0)
            return -1;
        if (i >= 0)
            ms[(*reps)++] = t;
    }
    return 0;
}

static void ladder_rung(const struct ladder_rung *rung)
{
    static const char *const kinds[] = {"gemm-f32",  "gemm-f32", "gemm-f16",
                                        "gemm-f16",  "gemm-f16", "transpose",
                                        "reduction", "stencil",  "convolution"};
    char why[160] = "";
    double ms[LADDER_REPS];
    int reps = 0;
    struct ladder_line x = {
        .kind = kinds[rung->kind], .name = rung->name, .n = ladder_size(rung), .note = why};
    const bool flops = is_gemm(rung->kind) || rung->kind == CONV;
    x.unit = flops ? "GFLOP/s" : "GB/s";
    x.peak = flops ? is_half(rung->kind) ? "mma-f16" : "fma-fp32" : "device-copy";
    if (rung->kind == F16_MAPS && gpu_facts.cc != 90) {
        x.status = "missing";
        x.note = "needs the copy engine of sm_90";
    } else if (!ladder_function(rung)) {
        x.status = "missing";
    } else if (!ladder.once && !ladder_check(rung, why, sizeof why)) {
        x.status = "wrong";
    } else if (ladder_time(rung, 0, ms, &reps) != 0) {
        x.status = "failed";
        snprintf(why, sizeof why, "%.100s", gpu_error());
    } else {
        const double peak = flops ? is_half(rung->kind) ? ladder.limits.mma16 : ladder.limits.fma32
                                  : ladder.limits.copy;
        x.status = "ok";
        x.ms = table_median(ms, reps, &x.min, &x.max);
        x.rate = ladder_work(rung, x.n) / x.ms / 1e6;
        x.share = peak > 0 ? x.rate / peak : 0;
        if (is_gemm(rung->kind) && ladder.cublas[is_half(rung->kind)] > 0)
            x.vs_cublas = ladder.cublas[is_half(rung->kind)] / x.ms;
        ladder_describe(rung, &x);
    }
    ladder_write(&x);
}

/* Does a pitch of 2^16 bytes cost anything, all lines beginning in the same place of the memory's
 * interleaving? The same transposes with lines 64 words longer. */
static void ladder_pitch(const struct ladder_rung *rung)
{
    char name[60], why[100] = "";
    double ms[LADDER_REPS];
    int reps = 0;
    snprintf(name, sizeof name, "%.40s_pitch", rung->name);
    struct ladder_line x = {.kind = "transpose",
                            .name = name,
                            .n = ladder_size(rung),
                            .status = "ok",
                            .unit = "GB/s",
                            .peak = "device-copy",
                            .note = "lines 64 words longer"};
    if (ladder_time(rung, 64, ms, &reps) != 0) {
        x.status = "failed";
        snprintf(why, sizeof why, "%.90s", gpu_error());
        x.note = why;
    } else {
        x.ms = table_median(ms, reps, &x.min, &x.max);
        x.rate = ladder_work(rung, x.n) / x.ms / 1e6;
        x.share = ladder.limits.copy > 0 ? x.rate / ladder.limits.copy : 0;
    }
    ladder_write(&x);
}

/* --- the peers
 * ------------------------------------------------------------------------------------------- */

static void ladder_peer(const char *kind, const char *name, const char *note, bool half,
                        bool (*call)(bool half))
{
    double ms[LADDER_REPS], limit = half ? ladder.limits.mma16 : ladder.limits.fma32;
    struct ladder_line x = {.kind = kind,
                            .name = name,
                            .n = ladder.n,
                            .status = "failed",
                            .unit = "GFLOP/s",
                            .peak = half ? "mma-f16" : "fma-fp32",
                            .note = note};
    for (int i = -2; i < LADDER_REPS; i++) {
        if (!gpu_timer_start(&ladder.timer) || !call(half)) {
            x.note = gpu_error();
            ladder_write(&x);
            return;
        }
        const double t = gpu_timer_stop(&ladder.timer);
        if (i >= 0)
            ms[i] = t;
    }
    x.status = "ok";
    x.ms = table_median(ms, LADDER_REPS, &x.min, &x.max);
    x.rate = 2.0 * ladder.n * ladder.n * ladder.n / x.ms / 1e6;
    x.share = limit > 0 ? x.rate / limit : 0;
    if (strcmp(name, "cublas") == 0)
        ladder.cublas[half] = x.ms;
    x.vs_cublas = ladder.cublas[half] > 0 ? ladder.cublas[half] / x.ms : 0;
    ladder_write(&x);
}

static bool ladder_call_cublas(bool half)
{
    static const double one[2] = {1, 0}, zero[2] = {0, 0};
    const int64_t n = ladder.n;
    return cublas_gemm(half ? TB_F16 : TB_F32, TB_F32, false, 'n', 'n', n, n, n, one, ladder.in2, n,
                       ladder.in, n, zero, ladder.to, n) == 0;
}

static int ladder_ours;
static bool ladder_call_ours(bool half)
{
    const int64_t n = ladder.n;
    (void)half;
    const struct tb_gemm_params params = {.a = ladder.in2,
                                          .b = ladder.in,
                                          .c = ladder.to,
                                          .m = n,
                                          .n = n,
                                          .k = n,
                                          .lda = n,
                                          .ldb = n,
                                          .ldc = n,
                                          .batch = 1,
                                          .alpha = {1, 0},
                                          .beta_zero = 1};
    return tb_dev()->launch(ladder.timer.stream, ladder_ours, &params) == TB_OK;
}

static void ladder_openblas(void)
{
    struct ladder_line x = {.kind = "gemm-f32",
                            .name = "openblas",
                            .n = ladder.n,
                            .status = "missing",
                            .unit = "GFLOP/s",
                            .note = "libopenblas.so.0 not found"};
    void *lib = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    void (*fn)(const char *, const char *, const int *, const int *, const int *, const float *,
               const float *, const int *, const float *, const int *, const float *, float *,
               const int *);
    *(void **)(void *)&fn = lib ? dlsym(lib, "sgemm_") : NULL;
    const float one = 1, zero = 0;
    const int n = ladder.n;
    const struct data_matrix data = {TB_F32, DATA_SIGNED, DATA_A, false, false, n, n, 7};
    const size_t bytes = (size_t)n * (size_t)n * 4;
    float *a = malloc(bytes), *b = malloc(bytes), *c = calloc(1, bytes);
    double ms[3];
    if (fn && a && b && c) {
        data_fill(&data, a);
        data_fill(&data, b);
        for (int i = -1; i < 3; i++) {
            const uint64_t start = table_now_ns();
            fn("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
            if (i >= 0)
                ms[i] = (double)(table_now_ns() - start) * 1e-6;
        }
        x.status = "ok";
        x.note = "operands in host memory";
        x.ms = table_median(ms, 3, &x.min, &x.max);
        x.rate = 2.0 * n * n * n / x.ms / 1e6;
        x.vs_cublas = ladder.cublas[0] > 0 ? ladder.cublas[0] / x.ms : 0;
    }
    ladder_write(&x);
    free(a);
    free(b);
    free(c);
}

/* --- coalescing and bank conflicts
 * ------------------------------------------------------------------------- */

static void ladder_strides(const char *kernel, const int *strides, int count)
{
    const bool shared = strcmp(kernel, "smem_stride") == 0;
    void *fn = gpu_function(ladder.module, kernel);
    int64_t numbers = 1 << 24;
    for (int i = 0; i < count; i++) {
        int stride = strides[i], rounds = 2000;
        char name[40];
        double ms[LADDER_REPS];
        bool ok = fn != NULL;
        const unsigned blocks = shared ? 8u * (unsigned)gpu_facts.sms : (unsigned)(numbers / 1024);
        void *load_args[] = {&ladder.in, &ladder.to, &numbers, &stride};
        void *smem_args[] = {&ladder.to, &rounds, &stride};
        snprintf(name, sizeof name, "%.20s_%d", kernel, stride);
        for (int r = -1; ok && r < LADDER_REPS; r++) {
            ok = gpu_timer_start(&ladder.timer) &&
                 GPU(cuLaunchKernel, fn, blocks, 1, 1, 256, 1, 1, 0, ladder.timer.stream,
                     shared ? smem_args : load_args, NULL);
            const double t = gpu_timer_stop(&ladder.timer);
            if (r >= 0)
                ms[r] = t;
        }
        struct ladder_line x = {.kind = "micro",
                                .name = name,
                                .status = ok ? "ok" : "failed",
                                .unit = "GB/s",
                                .peak = shared ? "smem-read" : "device-copy",
                                .note = ok ? "" : gpu_error()};
        if (ok) {
            const double useful = shared ? 4.0 * 256 * 16 * rounds * blocks : 4.0 * (double)numbers;
            const double peak = shared ? ladder.limits.smem : ladder.limits.copy;
            x.ms = table_median(ms, LADDER_REPS, &x.min, &x.max);
            x.rate = useful / x.ms / 1e6;
            x.share = peak > 0 ? x.rate / peak : 0;
        }
        ladder_write(&x);
    }
}

/* --- all of it
 * --------------------------------------------------------------------------------------------- */

static bool ladder_open(char *why, size_t bytes)
{
    const size_t most = (size_t)1 << 31;
    struct tb_caps caps;
    int devices;
    struct tb_lane *lane = NULL;
    if (!gpu_open(why, bytes))
        return false;
    const struct tb_dev_ops *dev = tb_dev();
    if (!dev || dev->count(&devices) != TB_OK || dev->open(0, &caps) != TB_OK ||
        dev->bind() != TB_OK || dev->lane_open(&lane, false) != TB_OK) {
        snprintf(why, bytes, "our device does not open");
        return false;
    }
    ladder.module = gpu_module("ladder.fatbin");
    if (!ladder.module || !gpu_timer_open(&ladder.timer, lane) ||
        !GPU(cuMemAlloc_v2, &ladder.in, most) || !GPU(cuMemAlloc_v2, &ladder.in2, most / 8) ||
        !GPU(cuMemAlloc_v2, &ladder.to, most)) {
        snprintf(why, bytes, "%s", gpu_error());
        return false;
    }
    return true;
}

/* U(-1,1) in both inputs, zero in the output: no more bytes than the rungs of that kind read. */
static bool ladder_fill(enum tb_type type, bool gemm)
{
    const size_t size = call_elem_bytes(type);
    const size_t wanted = gemm ? 4 * (size_t)ladder.n * (size_t)ladder.n * size : (size_t)1 << 30;
    const int64_t rows = 1 << 12, cols = (int64_t)(wanted / size) / rows + 1;
    const struct data_matrix data = {type,  DATA_SIGNED, DATA_A, false,
                                     false, rows,        cols,   table_now_ns()};
    const size_t bytes = (size_t)(rows * cols) * size;
    char *host = malloc(bytes);
    bool ok = host != NULL;
    if (ok)
        data_fill(&data, host);
    ok = ok && GPU(cuMemcpyHtoDAsync_v2, ladder.in, host, bytes, ladder.timer.stream) &&
         GPU(cuMemcpyHtoDAsync_v2, ladder.in2, host + bytes / 2, bytes / 4, ladder.timer.stream) &&
         GPU(cuMemsetD8Async, ladder.to, 0, bytes, ladder.timer.stream) &&
         GPU(cuStreamSynchronize, ladder.timer.stream);
    free(host);
    return ok;
}

static void ladder_climb(void)
{
    static const int load_strides[] = {1, 2, 4, 8, 16, 32}, smem_strides[] = {1, 2, 4, 8, 16, 32};
    struct tb_caps caps = {
        .cc = gpu_facts.cc, .sms = gpu_facts.sms, .smem_block = gpu_facts.smem_block};
    char why[160] = "";
    const bool cublas = !ladder.once && cublas_open(ladder.timer.stream, why, sizeof why);
    bool half = false;
    for (int i = 0; i < LADDER_COUNT; i++) {
        const struct ladder_rung *rung = &ladder_rungs[i];
        const enum ladder_kind before = ladder_rungs[i ? i - 1 : 0].kind;
        const bool first = i == 0 || is_half(rung->kind) != is_half(before) ||
                           is_gemm(rung->kind) != is_gemm(before);
        table_progress("%d/%d %s", i + 1, LADDER_COUNT, rung->name);
        if (first && !ladder_fill(is_half(rung->kind) ? TB_F16 : TB_F32, is_gemm(rung->kind)))
            fprintf(stderr, "operands: %s\n", gpu_error());
        half = is_half(rung->kind);
        if (first && is_gemm(rung->kind) && !ladder.once) {
            const char *kind = half ? "gemm-f16" : "gemm-f32";
            if (cublas)
                ladder_peer(kind, "cublas", "", half, ladder_call_cublas);
            caps.strict = !half; /* the ladder of FP32 ends at the plain kernel */
            ladder_ours = kernel_choose(&caps, half ? TB_F16 : TB_F32, TB_F32, false, false,
                                        ladder.n, ladder.n, ladder.n, 1);
            if (ladder_ours >= 0)
                ladder_peer(kind, "tuned", kernel_row(ladder_ours)->name, half, ladder_call_ours);
        }
        ladder_rung(rung);
    }
    for (int i = 0; i < LADDER_COUNT && !ladder.once; i++)
        if (ladder_rungs[i].kind == TRANSPOSE)
            ladder_pitch(&ladder_rungs[i]);
    if (!ladder.once) {
        ladder_openblas();
        ladder_strides("load_stride", load_strides, 6);
        ladder_strides("smem_stride", smem_strides, 6);
    }
    if (why[0])
        ladder_write(&(struct ladder_line){
            .kind = "gemm-f32", .name = "cublas", .status = "missing", .note = why});
}

int main(int argc, char **argv)
{
    const char *path = NULL;
    char why[200];
    int option;
    while ((option = getopt(argc, argv, "o:n:1")) != -1) {
        if (option == 'o')
            path = optarg;
        else if (option == 'n')
            ladder.n = atoi(optarg);
        else if (option == '1')
            ladder.once = true;
        else
            return 2;
    }
    ladder.out = path ? fopen(path, "w") : stdout;
    if (!ladder.out || ladder.n < 8 || ladder.n > 8192 || ladder.n % 8) {
        fprintf(stderr, "usage: ladder [-o FILE] [-n SIZE, a multiple of 8] [-1]\n");
        return 2;
    }
    const bool ready = ladder_open(why, sizeof why);
    if (ready && !ladder.once) {
        FILE *limits = path ? fopen("/dev/null", "w") : stderr;
        if (limits)
            table_open(limits);
        limits_measure(&ladder.limits, ladder.timer.stream);
    }
    ladder_head();
    if (!ready)
        ladder_write(
            &(struct ladder_line){.kind = "all", .name = "all", .status = "missing", .note = why});
    else
        ladder_climb();
    table_progress("%s\n", ready ? ladder.failed ? "something failed" : "done" : why);
    return !ready ? 77 : ladder.failed;
}
