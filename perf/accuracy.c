/* SPDX-License-Identifier: BSD-3-Clause
 * The error of every kernel row beside OpenBLAS, cuBLAS and one chain of multiply-adds, all on the
 * same data: each entry against a reference in higher precision, over three seeds and about 1e5
 * entries. Every row of ours ends with a verdict: what the library promises is kept, or not.
 *   accuracy [-o FILE] [-q] [-t TYPES] [-k FROM-TO] [-d DISTS] [-l SECONDS]
 * -q: k up to 1024; TYPES: letters of s d c z h b H B (H, B: FP32 result); DISTS: a comma list.
 * What the time given with -l leaves out is a row "not run". */
#include "perf.h"

#include <dlfcn.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "../src/dev.h"
#include "../src/kernel.h"

enum { SIDE = 184, SEEDS = 3, PROVIDERS = 24 };

struct accuracy_provider {
    char name[56];
    enum { CHAIN, OPENBLAS, CUBLAS, CUBLAS_TF32, OURS } how;
    int row;
    bool failed;
    char note[100];
    struct data_error error;
    double *c; /* widened result */
};

static const struct accuracy_type {
    char letter;
    const char *routine;
    enum tb_type ab, c;
} accuracy_types[] = {{'s', "sgemm", TB_F32, TB_F32},  {'d', "dgemm", TB_F64, TB_F64},
                      {'c', "cgemm", TB_C32, TB_C32},  {'z', "zgemm", TB_C64, TB_C64},
                      {'h', "hgemm", TB_F16, TB_F16},  {'b', "bgemm", TB_BF16, TB_BF16},
                      {'H', "shgemm", TB_F16, TB_F32}, {'B', "sbgemm", TB_BF16, TB_F32}};

static struct {
    const struct accuracy_type *type;
    struct tb_lane *lane;
    struct tb_caps caps;
    bool gpu, cublas, broken;
    char cublas_why[100];
    void *openblas;
    gpu_ptr a, b, c, scratch;
    struct accuracy_provider list[PROVIDERS];
    int count;
    int64_t k;
    double *wide_a, *wide_b; /* rows of A, columns of B, one behind the other */
    struct data_error part[SIDE][PROVIDERS];
    FILE *out;
    int64_t k_min, k_max;
    const char *dists; /* NULL: all */
    uint64_t end_ns;   /* 0: none */
} acc = {.k_min = 1, .k_max = 16384};

/* --- providers
 * ------------------------------------------------------------------------------------------- */

/* Four rows at a time: a chain waits for itself, four do not wait for each other. */
__attribute__((target("fma"))) static void accuracy_chain64(const double *a, const double *b,
                                                            int64_t k, double out[4])
{
    double sum[4] = {0};
    for (int64_t i = 0; i < k; i++)
        for (int r = 0; r < 4; r++)
            sum[r] = __builtin_fma(a[r * k + i], b[i], sum[r]);
    memcpy(out, sum, sizeof sum);
}

__attribute__((target("fma"))) static void accuracy_chain32(const double *a, const double *b,
                                                            int64_t k, double out[4])
{
    float sum[4] = {0};
    for (int64_t i = 0; i < k; i++)
        for (int r = 0; r < 4; r++)
            sum[r] = __builtin_fmaf((float)a[r * k + i], (float)b[i], sum[r]);
    for (int r = 0; r < 4; r++)
        out[r] = (double)sum[r];
}

/* Complex: two chains of 2 k each, one row. */
__attribute__((target("fma"))) static void accuracy_chain_c64(const double *a, const double *b,
                                                              int64_t k, double out[2])
{
    double re = 0, im = 0;
    for (int64_t i = 0; i < 2 * k; i += 2) {
        re = __builtin_fma(-a[i + 1], b[i + 1], __builtin_fma(a[i], b[i], re));
        im = __builtin_fma(a[i + 1], b[i], __builtin_fma(a[i], b[i + 1], im));
    }
    out[0] = re;
    out[1] = im;
}

__attribute__((target("fma"))) static void accuracy_chain_c32(const double *a, const double *b,
                                                              int64_t k, double out[2])
{
    float re = 0, im = 0;
    for (int64_t i = 0; i < 2 * k; i += 2) {
        const float ar = (float)a[i], ai = (float)a[i + 1], br = (float)b[i], bi = (float)b[i + 1];
        re = __builtin_fmaf(-ai, bi, __builtin_fmaf(ar, br, re));
        im = __builtin_fmaf(ai, br, __builtin_fmaf(ar, bi, im));
    }
    out[0] = (double)re;
    out[1] = (double)im;
}

static bool accuracy_has_chain(void)
{
    return __builtin_cpu_supports("fma") && acc.type->ab != TB_F16 && acc.type->ab != TB_BF16;
}

static void accuracy_chain_column(void *arg, int64_t j)
{
    double *c = arg;
    const int64_t k = acc.k;
    const bool wide = acc.type->ab == TB_F64 || acc.type->ab == TB_C64;
    if (call_is_complex(acc.type->ab)) {
        for (int64_t i = 0; i < SIDE; i++)
            (wide ? accuracy_chain_c64 : accuracy_chain_c32)(
                acc.wide_a + 2 * i * k, acc.wide_b + 2 * j * k, k, c + 2 * (j * SIDE + i));
        return;
    }
    for (int64_t i = 0; i < SIDE; i += 4) /* SIDE is a multiple of 4 */
        (wide ? accuracy_chain64 : accuracy_chain32)(acc.wide_a + i * k, acc.wide_b + j * k, k,
                                                     c + j * SIDE + i);
}

static bool accuracy_openblas(const void *a, const void *b, void *c)
{
    char name[20];
    snprintf(name, sizeof name, "%s_", acc.type->routine);
    void (*fn)(const char *, const char *, const int *, const int *, const int *, const void *,
               const void *, const int *, const void *, const int *, const void *, void *,
               const int *);
    *(void **)(void *)&fn = dlsym(acc.openblas, name);
    const double one_d[2] = {1, 0}, zero_d[2] = {0, 0};
    const float one_f[2] = {1, 0}, zero_f[2] = {0, 0};
    const bool wide = acc.type->ab == TB_F64 || acc.type->ab == TB_C64;
    const int side = SIDE, k = (int)acc.k;
    if (!fn)
        return false;
    fn("N", "N", &side, &side, &k, wide ? (const void *)one_d : one_f, a, &side, b, &k,
       wide ? (const void *)zero_d : zero_f, c, &side);
    return true;
}

static bool accuracy_on_gpu(struct accuracy_provider *p, void *c, size_t c_bytes)
{
    static const double one[2] = {1, 0}, zero[2] = {0, 0};
    struct tb_gemm_params params = {.a = acc.a,
                                    .b = acc.b,
                                    .c = acc.c,
                                    .m = SIDE,
                                    .n = SIDE,
                                    .k = acc.k,
                                    .lda = SIDE,
                                    .ldb = acc.k,
                                    .ldc = SIDE,
                                    .batch = 1,
                                    .alpha = {1, 0},
                                    .beta_zero = 1};
    void *stream = acc.lane;
    params.scratch = acc.scratch;
    bool ok = GPU(cuMemsetD8Async, acc.c, 0x7f, c_bytes, stream);
    if (p->how == OURS && tb_dev()->launch(acc.lane, p->row, &params) != TB_OK) {
        snprintf(p->note, sizeof p->note, "%.90s", tb_dev()->last_error());
        return false;
    }
    if (p->how != OURS)
        ok = ok && cublas_gemm(acc.type->ab, acc.type->c, p->how == CUBLAS_TF32, 'n', 'n', SIDE,
                               SIDE, acc.k, one, acc.a, SIDE, acc.b, acc.k, zero, acc.c, SIDE) == 0;
    ok = ok && GPU(cuMemcpyDtoHAsync_v2, c, acc.c, c_bytes, stream) &&
         GPU(cuStreamSynchronize, stream);
    if (!ok)
        snprintf(p->note, sizeof p->note, "%.90s", gpu_error());
    return ok;
}

static void accuracy_add(int how, int row, const char *name)
{
    if (acc.count == PROVIDERS)
        return;
    struct accuracy_provider *p = &acc.list[acc.count++];
    double *c = p->c;
    *p = (struct accuracy_provider){.how = how, .row = row, .c = c};
    snprintf(p->name, sizeof p->name, "%s", name);
}

static void accuracy_providers(void)
{
    char name[56];
    acc.count = 0;
    if (accuracy_has_chain())
        accuracy_add(CHAIN, 0, "fma-chain");
    accuracy_add(OPENBLAS, 0, "openblas");
    accuracy_add(CUBLAS, 0, "cublas");
    if (acc.type->ab == TB_F32)
        accuracy_add(CUBLAS_TF32, 0, "cublas-tf32");
    for (int i = 0; i < kernel_count(); i++) {
        const struct tb_kernel *row = kernel_row(i);
        if (row->family == TB_TRI || row->ab != acc.type->ab || row->c != acc.type->c || row->ta ||
            row->tb || (acc.gpu && (row->cc_min > acc.caps.cc || row->cc_max < acc.caps.cc)))
            continue;
        snprintf(name, sizeof name, "ours:%.40s", row->name);
        accuracy_add(OURS, i, name);
    }
    for (int i = 0; i < acc.count; i++)
        if (!acc.list[i].c)
            acc.list[i].c = malloc((size_t)SIDE * SIDE * 2 * sizeof(double));
}

/* --- one data set
 * ------------------------------------------------------------------------------------------ */

static void accuracy_run(struct accuracy_provider *p, const void *a, const void *b, void *c)
{
    const size_t bytes = (size_t)SIDE * SIDE * call_elem_bytes(acc.type->c);
    bool ok = !p->failed;
    memset(c, 0x7f, bytes);
    if (p->how == CHAIN) {
        data_parallel(SIDE, accuracy_chain_column, p->c);
        return;
    }
    if (p->how == OPENBLAS) {
        ok = ok && acc.openblas && accuracy_openblas(a, b, c);
        if (!ok)
            snprintf(p->note, sizeof p->note,
                     acc.openblas ? "no such routine" : "libopenblas.so.0 not found");
    } else if (!acc.gpu || (p->how != OURS && !acc.cublas)) {
        snprintf(p->note, sizeof p->note, "%.90s", acc.gpu ? acc.cublas_why : "no GPU");
        ok = false;
    } else {
        ok = ok && accuracy_on_gpu(p, c, bytes);
    }
    p->failed = !ok;
    if (ok)
        data_widen(acc.type->c, c, 1, (int64_t)SIDE * SIDE, p->c);
}

static void accuracy_judge_column(void *arg, int64_t j)
{
    static const double one[2] = {1, 0}, zero[2] = {0, 0};
    const bool cx = call_is_complex(acc.type->ab);
    const bool wide = acc.type->ab == TB_F64 || acc.type->ab == TB_C64;
    const int64_t w = cx ? 2 : 1;
    (void)arg;
    memset(acc.part[j], 0, sizeof acc.part[j]);
    for (int64_t i = 0; i < SIDE; i++) {
        struct data_wanted wanted;
        data_reference(&wanted, acc.wide_a + i * acc.k * w, acc.wide_b + j * acc.k * w, acc.k, one,
                       zero, zero, cx, wide);
        for (int p = 0; p < acc.count; p++) {
            const double *c = acc.list[p].c + (j * SIDE + i) * w;
            const double got[2] = {c[0], cx ? c[1] : 0};
            if (!acc.list[p].failed)
                data_judge(&acc.part[j][p], &wanted, got, cx);
        }
    }
}

static bool accuracy_set(enum data_dist dist, uint64_t seed)
{
    const int64_t k = acc.k, w = call_is_complex(acc.type->ab) ? 2 : 1;
    const size_t es = call_elem_bytes(acc.type->ab), bytes = (size_t)(SIDE * k) * es;
    const struct data_matrix a_data = {acc.type->ab, dist, DATA_A, false, false, SIDE, k, seed};
    const struct data_matrix b_data = {acc.type->ab, dist, DATA_B, true, false, k, SIDE, seed + 1};
    char *a = malloc(bytes), *b = malloc(bytes), *c = malloc((size_t)SIDE * SIDE * 16);
    acc.wide_a = malloc((size_t)(SIDE * k * w) * sizeof(double));
    acc.wide_b = malloc((size_t)(SIDE * k * w) * sizeof(double));
    bool ok = a && b && c && acc.wide_a && acc.wide_b;
    if (ok) {
        data_fill(&a_data, a);
        data_fill(&b_data, b);
        for (int64_t i = 0; i < SIDE; i++)
            data_widen(acc.type->ab, a + (size_t)i * es, SIDE, k, acc.wide_a + i * k * w);
        data_widen(acc.type->ab, b, 1, SIDE * k, acc.wide_b);
        if (acc.gpu)
            ok = GPU(cuMemcpyHtoDAsync_v2, acc.a, a, bytes, (void *)acc.lane) &&
                 GPU(cuMemcpyHtoDAsync_v2, acc.b, b, bytes, (void *)acc.lane);
        for (int i = 0; ok && i < acc.count; i++)
            accuracy_run(&acc.list[i], a, b, c);
        data_parallel(SIDE, accuracy_judge_column, NULL);
        for (int j = 0; j < SIDE; j++)
            for (int i = 0; i < acc.count; i++)
                data_error_merge(&acc.list[i].error, &acc.part[j][i]);
    }
    free(a);
    free(b);
    free(c);
    free(acc.wide_a);
    free(acc.wide_b);
    return ok;
}

/* --- verdicts
 * ---------------------------------------------------------------------------------------------- */

static const struct accuracy_provider *accuracy_find(int how)
{
    for (int i = 0; i < acc.count; i++)
        if ((int)acc.list[i].how == how && !acc.list[i].failed)
            return &acc.list[i];
    return NULL;
}

/* At most 1.25 times the peer's largest and rms error, or below 4 u and 1 u. The peer: OpenBLAS in
 * FP32, cuBLAS for 16-bit inputs, in FP64 one chain of multiply-adds, real and complex. Two chains
 * over the same data in another order are as good as each other, but the largest of 10^5 errors is
 * not the same: 1.25 is room for that. */
static const char *accuracy_verdict(const struct accuracy_provider *p)
{
    const enum tb_type ab = acc.type->ab;
    const bool half = ab == TB_F16 || ab == TB_BF16;
    const bool wide = ab == TB_F64 || ab == TB_C64;
    const struct accuracy_provider *peer = accuracy_find(half ? CUBLAS : wide ? CHAIN : OPENBLAS);
    const double u = data_unit(ab), rms = data_rms(&p->error);
    if (p->how != OURS || p->failed)
        return p->failed ? "missing" : "peer";
    if (p->error.bad)
        return "BROKEN: Inf or NaN";
    const double most = fmax(4 * u, peer ? 1.25 * peer->error.max : 0);
    const double most_rms = fmax(u, peer ? 1.25 * data_rms(&peer->error) : 0);
    if (p->error.max <= most && rms <= most_rms)
        return "kept";
    return peer ? "BROKEN" : "no peer";
}

static void accuracy_write(enum data_dist dist)
{
    const double u = data_unit(acc.type->ab);
    for (int i = 0; i < acc.count; i++) {
        const struct accuracy_provider *p = &acc.list[i];
        const char *verdict = accuracy_verdict(p);
        if (strncmp(verdict, "BROKEN", 6) == 0)
            acc.broken = true;
        fprintf(acc.out, "%s,%s,%s,%lld,%s,%.4g,%.4g,%lld,%lld,%s,\"%s\"\n", table_facts(),
                acc.type->routine, data_dist_names[dist], (long long)acc.k, p->name,
                p->error.max / u, data_rms(&p->error) / u, (long long)p->error.entries,
                (long long)p->error.bad, verdict, p->note);
    }
    fflush(acc.out);
}

static bool accuracy_wants(const char *dist)
{
    const size_t n = strlen(dist);
    for (const char *at = acc.dists; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, dist, n) == 0 && (at[n] == 0 || at[n] == ','))
            return true;
    return !acc.dists;
}

static void accuracy_type_run(void)
{
    for (acc.k = 1; acc.k <= acc.k_max; acc.k *= 4)
        for (int dist = 0; dist < DATA_DISTS; dist++) {
            if (acc.k < acc.k_min || !accuracy_wants(data_dist_names[dist]))
                continue;
            if (acc.end_ns && table_now_ns() > acc.end_ns) {
                fprintf(acc.out, "%s,%s,%s,%lld,all,0,0,0,0,not run,\"the time given was over\"\n",
                        table_facts(), acc.type->routine, data_dist_names[dist], (long long)acc.k);
                continue;
            }
            table_progress("%s k %lld %s", acc.type->routine, (long long)acc.k,
                           data_dist_names[dist]);
            accuracy_providers();
            for (uint64_t seed = 0; seed < SEEDS; seed++)
                if (!accuracy_set((enum data_dist)dist,
                                  data_mix(seed * 977 + (uint64_t)acc.k * 31 + (uint64_t)dist)))
                    for (int i = 0; i < acc.count; i++)
                        acc.list[i].failed = true;
            accuracy_write((enum data_dist)dist);
        }
}

/* The most that any row needs. */
static size_t accuracy_scratch(int64_t k)
{
    const struct tb_gemm_params params = {.m = SIDE, .n = SIDE, .k = k, .batch = 1};
    size_t most = kernel_shared_most(&acc.caps);
    for (int i = 0; i < kernel_count(); i++)
        if (kernel_scratch(kernel_row(i), &acc.caps, &params) > most)
            most = kernel_scratch(kernel_row(i), &acc.caps, &params);
    return most;
}

static void accuracy_open(void)
{
    char why[200];
    const struct tb_dev_ops *dev = tb_dev();
    int devices;
    const size_t bytes = (size_t)(SIDE * acc.k_max) * 16;
    acc.openblas = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    acc.gpu = gpu_open(why, sizeof why) && dev && dev->count(&devices) == TB_OK &&
              dev->open(0, &acc.caps) == TB_OK && dev->bind() == TB_OK &&
              dev->lane_open(&acc.lane, false) == TB_OK && GPU(cuMemAlloc_v2, &acc.a, bytes) &&
              GPU(cuMemAlloc_v2, &acc.b, bytes) &&
              GPU(cuMemAlloc_v2, &acc.c, (size_t)SIDE * SIDE * 16) &&
              GPU(cuMemAlloc_v2, &acc.scratch, accuracy_scratch(acc.k_max));
    acc.cublas = acc.gpu && cublas_open(acc.lane, acc.cublas_why, sizeof acc.cublas_why);
}

int main(int argc, char **argv)
{
    const char *path = NULL, *types = "sdczhbHB";
    long long from = 1, to = 16384;
    int option;
    while ((option = getopt(argc, argv, "o:qt:k:d:l:")) != -1) {
        if (option == 'o')
            path = optarg;
        else if (option == 'q')
            to = 1024;
        else if (option == 't')
            types = optarg;
        else if (option == 'd')
            acc.dists = optarg;
        else if (option == 'l')
            acc.end_ns = table_now_ns() + (uint64_t)(atof(optarg) * 1e9);
        else if (option != 'k' || sscanf(optarg, "%lld-%lld", &from, &to) != 2)
            return 2;
    }
    acc.k_min = from;
    acc.k_max = to;
    acc.out = path ? fopen(path, "w") : stdout;
    if (!acc.out) {
        fprintf(stderr, "%s: cannot be written\n", path);
        return 2;
    }
    accuracy_open();
    fprintf(acc.out, "%s,routine,dist,k,provider,err_max_u,err_rms_u,entries,bad,verdict,note\n",
            table_facts_head());
    for (size_t i = 0; i < sizeof accuracy_types / sizeof accuracy_types[0]; i++)
        if (strchr(types, accuracy_types[i].letter)) {
            acc.type = &accuracy_types[i];
            accuracy_type_run();
        }
    table_progress(acc.broken ? "a promise is BROKEN\n" : "done\n");
    return acc.broken;
}
