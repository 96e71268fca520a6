/* SPDX-License-Identifier: BSD-3-Clause
 * The kernel level: operands on the device, our kernels (each row of kernels.def that fits, and the
 * one the library would choose), cuBLAS and Triton in turns, a few milliseconds each, timed by
 * device events. Every set of operands is used once before the first comes round again, and
 * together they exceed L2 twice. Afterwards each provider computes into a C full of NaN, which is
 * checked. */
#include "perf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "../src/dev.h"
#include "../src/kernel.h"

enum { KERNEL_PROVIDERS = 32, KERNEL_SETS = 64, KERNEL_REPS = 64, KERNEL_SAMPLES = 24 };
enum {
    KERNEL_CUBLAS = -1,
    KERNEL_CUBLAS_TF32 = -2,
    KERNEL_MISSING = -3,
    KERNEL_TRITON = -4,
    KERNEL_TRITON_TF32 = -5
};

static struct {
    struct tb_caps caps;
    struct tb_lane *lane;
    struct gpu_timer timer;
    bool cublas;
    char cublas_why[120];
    void *gather;
    gpu_ptr memory; /* all operand sets */
    size_t bytes;
    gpu_ptr fetched;
    uint64_t seed;
} kernel;

struct kernel_job {
    const struct perf_case *item;
    enum tb_type ab, c;
    int64_t a_rows, a_cols, b_rows, b_cols;
    size_t a_bytes, b_bytes, c_bytes;
    int sets, next;
    double alpha[2], beta[2];
};

struct kernel_provider {
    char name[48], note[160];
    int row; /* of kernels.def, or KERNEL_... */
    int inner, reps;
    double ms[KERNEL_REPS], median, min, max;
    struct data_error error;
    const char *status;
};

bool kernel_open(struct perf_options *options, char *why, size_t bytes)
{
    int devices;
    size_t available = 0, total = 0;
    const struct tb_dev_ops *dev = tb_dev();
    if (!gpu_open(why, bytes))
        return false;
    if (!dev || dev->count(&devices) != TB_OK || dev->open(0, &kernel.caps) != TB_OK ||
        dev->bind() != TB_OK || dev->lane_open(&kernel.lane, false) != TB_OK) {
        snprintf(why, bytes, "our device does not open: %s", dev ? dev->last_error() : "not built");
        return false;
    }
    void *stream = kernel.lane; /* what a lane of the CUDA device is */
    if (!gpu_timer_open(&kernel.timer, stream) || !GPU(cuMemGetInfo_v2, &available, &total)) {
        snprintf(why, bytes, "%s", gpu_error());
        return false;
    }
    kernel.cublas = cublas_open(stream, kernel.cublas_why, sizeof kernel.cublas_why);
    limits_measure(&options->limits, stream);
    kernel.gather = gpu_function(gpu_module("limits.fatbin"), "gather");
    if (!kernel.gather) {
        snprintf(why, bytes, "%s", gpu_error());
        return false;
    }
    kernel.bytes = (size_t)14 << 30;
    while (kernel.bytes > available / 2)
        kernel.bytes /= 2;
    kernel.seed = table_now_ns();
    return GPU(cuMemAlloc_v2, &kernel.memory, kernel.bytes) &&
           GPU(cuMemAlloc_v2, &kernel.fetched, (size_t)16 << 20);
}

static gpu_ptr kernel_operand(const struct kernel_job *job, int set, int which)
{
    const size_t one = job->a_bytes + job->b_bytes + job->c_bytes;
    const size_t before[] = {0, job->a_bytes, job->a_bytes + job->b_bytes};
    return kernel.memory + (gpu_ptr)set * one + before[which];
}

static size_t kernel_align(size_t bytes)
{
    return (bytes + 255) & ~(size_t)255;
}

/* Fresh random A, B and C0 for every set; false where memory or the driver fails. */
static bool kernel_prepare(struct kernel_job *job)
{
    const struct perf_case *item = job->item;
    const bool ta = item->trans[0] != 'n', tb = item->trans[1] != 'n';
    job->a_rows = ta ? item->k : item->m;
    job->a_cols = ta ? item->m : item->k;
    job->b_rows = tb ? item->n : item->k;
    job->b_cols = tb ? item->k : item->n;
    job->a_bytes = kernel_align((size_t)(job->a_rows * job->a_cols) * call_elem_bytes(job->ab));
    job->b_bytes = kernel_align((size_t)(job->b_rows * job->b_cols) * call_elem_bytes(job->ab));
    job->c_bytes = kernel_align((size_t)(item->m * item->n) * call_elem_bytes(job->c));
    const size_t one = job->a_bytes + job->b_bytes + job->c_bytes;
    const size_t wanted = 2 * (size_t)gpu_facts.l2_bytes / one + 1;
    job->sets = wanted > KERNEL_SETS ? KERNEL_SETS : (int)wanted;
    if ((size_t)job->sets * one > kernel.bytes)
        return false;
    char *host = malloc(one);
    bool ok = host != NULL;
    for (int s = 0; ok && s < job->sets; s++) {
        const uint64_t seed = data_mix(kernel.seed + (uint64_t)s);
        const struct data_matrix a = {job->ab, item->dist,  DATA_A,      ta,
                                      false,   job->a_rows, job->a_cols, seed};
        const struct data_matrix b = {job->ab, item->dist,  DATA_B,      !tb,
                                      false,   job->b_rows, job->b_cols, seed + 1};
        const struct data_matrix c = {job->c, item->dist, DATA_C,  false,
                                      false,  item->m,    item->n, seed + 2};
        data_fill(&a, host);
        data_fill(&b, host + job->a_bytes);
        if (item->beta != 0)
            data_fill(&c, host + job->a_bytes + job->b_bytes);
        ok = GPU(cuMemcpyHtoDAsync_v2, kernel_operand(job, s, 0), host,
                 item->beta != 0 ? one : job->a_bytes + job->b_bytes, kernel.timer.stream) &&
             GPU(cuStreamSynchronize, kernel.timer.stream);
    }
    free(host);
    kernel.seed += 1000;
    return ok;
}

/* An area of so many bytes, the same for all; 0 where none is wanted or there is no room. */
static gpu_ptr kernel_area(size_t bytes)
{
    static gpu_ptr area;
    static size_t held;
    if (bytes > held) {
        if (area)
            GPU(cuMemFree_v2, area);
        held = GPU(cuMemAlloc_v2, &area, bytes) ? bytes : 0;
        area = held ? area : 0;
    }
    return bytes > 0 && bytes <= held ? area : 0;
}

static bool kernel_run(const struct kernel_job *job, struct kernel_provider *p, int set)
{
    const struct perf_case *item = job->item;
    const gpu_ptr a = kernel_operand(job, set, 0), b = kernel_operand(job, set, 1),
                  c = kernel_operand(job, set, 2);
    if (p->row < 0) {
        const int status = cublas_gemm(
            job->ab, job->c, p->row == KERNEL_CUBLAS_TF32, item->trans[0], item->trans[1], item->m,
            item->n, item->k, job->alpha, a, job->a_rows, b, job->b_rows, job->beta, c, item->m);
        if (status != 0)
            snprintf(p->note, sizeof p->note, "cuBLAS status %d", status);
        return status == 0;
    }
    static const char ops[] = "ntrc"; /* enum tb_kop */
    struct tb_gemm_params params = {.a = a,
                                    .b = b,
                                    .c = c,
                                    .m = item->m,
                                    .n = item->n,
                                    .k = item->k,
                                    .lda = job->a_rows,
                                    .ldb = job->b_rows,
                                    .ldc = item->m,
                                    .batch = 1,
                                    .alpha = {job->alpha[0], job->alpha[1]},
                                    .beta = {job->beta[0], job->beta[1]},
                                    .op_a = (int32_t)(strchr(ops, item->trans[0]) - ops),
                                    .op_b = (int32_t)(strchr(ops, item->trans[1]) - ops),
                                    .beta_zero = item->beta == 0};
    params.scratch = kernel_area(kernel_scratch(kernel_row(p->row), &kernel.caps, &params));
    if (tb_dev()->launch(kernel.lane, p->row, &params) == TB_OK)
        return true;
    snprintf(p->note, sizeof p->note, "%.150s", tb_dev()->last_error());
    return false;
}

static bool kernel_is_triton(const struct kernel_provider *p)
{
    return p->row == KERNEL_TRITON || p->row == KERNEL_TRITON_TF32;
}

static bool kernel_is_tf32(const struct kernel_provider *p)
{
    return p->row == KERNEL_CUBLAS_TF32 || p->row == KERNEL_TRITON_TF32;
}

/* False where the answer is not "ok ..."; then the note says why, and the status what that means.
 */
static bool kernel_ask_triton(struct kernel_provider *p, const char *line, char *answer,
                              size_t bytes)
{
    static const char *const kinds[] = {"absent", "missing", "failed"};
    triton_ask(line, answer, bytes);
    if (strncmp(answer, "ok", 2) == 0)
        return true;
    p->status = "failed";
    for (int i = 0; i < 3; i++)
        if (strncmp(answer, kinds[i], strlen(kinds[i])) == 0)
            p->status = kinds[i];
    snprintf(p->note, sizeof p->note, "%.150s", strchr(answer, ' ') ? strchr(answer, ' ') + 1 : "");
    return false;
}

/* Names the case to that process; it makes operands of the same kind. */
static bool kernel_begin_triton(const struct kernel_job *job, struct kernel_provider *p)
{
    const struct perf_case *x = job->item;
    char line[120], answer[200];
    if (x->alpha != 1 || x->beta != 0 || x->dist != DATA_SIGNED) {
        p->status = "absent";
        snprintf(p->note, sizeof p->note, "alpha = 1, beta = 0, U(-1,1) only");
        return false;
    }
    snprintf(line, sizeof line, "case %s %d %s %lld %lld %lld", x->routine, kernel_is_tf32(p),
             x->trans, (long long)x->m, (long long)x->n, (long long)x->k);
    if (!kernel_ask_triton(p, line, answer, sizeof answer))
        return false;
    snprintf(p->note, sizeof p->note, "%.150s", answer[2] ? answer + 3 : "");
    return true;
}

static double kernel_sample_triton(struct kernel_provider *p)
{
    char line[40], answer[200];
    double ms = -1;
    snprintf(line, sizeof line, "run %d %d", kernel_is_tf32(p), p->inner);
    if (!kernel_ask_triton(p, line, answer, sizeof answer) || sscanf(answer, "ok %lf", &ms) != 1)
        return -1;
    return ms;
}

static bool kernel_check_triton(struct kernel_provider *p)
{
    char line[40], answer[200];
    double max, sum2;
    long long entries, bad;
    snprintf(line, sizeof line, "check %d", kernel_is_tf32(p));
    if (!kernel_ask_triton(p, line, answer, sizeof answer) ||
        sscanf(answer, "ok %lf %lf %lld %lld", &max, &sum2, &entries, &bad) != 4)
        return false;
    p->error = (struct data_error){max, sum2, entries, bad};
    return true;
}

/* One sample: `inner` calls, each on the next set. Milliseconds of one, negative on failure. */
static double kernel_sample(struct kernel_job *job, struct kernel_provider *p)
{
    if (kernel_is_triton(p))
        return kernel_sample_triton(p);
    if (!gpu_timer_start(&kernel.timer))
        return -1;
    for (int i = 0; i < p->inner; i++) {
        if (!kernel_run(job, p, job->next))
            return -1;
        job->next = (job->next + 1) % job->sets;
    }
    const double ms = gpu_timer_stop(&kernel.timer) / p->inner;
    if (ms <= 0)
        snprintf(p->note, sizeof p->note, "%.150s", gpu_error());
    return ms;
}

/* --- check
 * --------------------------------------------------------------------------------------------- */

static bool kernel_fetch(gpu_ptr from, int64_t stride, int64_t count, enum tb_type type,
                         double *out)
{
    const size_t size = call_elem_bytes(type);
    int64_t stride_bytes = stride * (int64_t)size;
    int bytes = (int)size;
    void *raw = malloc((size_t)count * size);
    void *args[] = {&from, &stride_bytes, &kernel.fetched, &count, &bytes};
    const bool ok =
        raw &&
        GPU(cuLaunchKernel, kernel.gather, (unsigned)((count + 255) / 256), 1, 1, 256, 1, 1, 0,
            kernel.timer.stream, args, NULL) &&
        GPU(cuMemcpyDtoHAsync_v2, raw, kernel.fetched, (size_t)count * size, kernel.timer.stream) &&
        GPU(cuStreamSynchronize, kernel.timer.stream);
    if (ok)
        data_widen(type, raw, 1, count, out);
    free(raw);
    return ok;
}

static int64_t kernel_pick(int sample, int64_t n) /* the edges first, then anywhere */
{
    kernel.seed = data_mix(kernel.seed);
    return sample == 0 ? 0 : sample == 1 ? n - 1 : (int64_t)(kernel.seed >> 1) % n;
}

static void kernel_conjugate(double *pairs, int64_t n, bool wanted)
{
    for (int64_t i = 0; wanted && i < n; i++)
        pairs[2 * i + 1] = -pairs[2 * i + 1];
}

/* Computes once more into NaN and compares entries where KERNEL_SAMPLES rows and columns meet. */
static bool kernel_check(struct kernel_job *job, struct kernel_provider *p)
{
    const struct perf_case *item = job->item;
    const int64_t m = item->m, n = item->n, k = item->k;
    const bool cx = call_is_complex(job->ab), ta = item->trans[0] != 'n',
               tb = item->trans[1] != 'n';
    const size_t width = cx ? 2 : 1;
    double *a = malloc((size_t)k * KERNEL_SAMPLES * width * sizeof *a),
           *b = malloc((size_t)k * width * sizeof *b);
    double *c = malloc((size_t)m * 2 * width * sizeof *c);
    int64_t row[KERNEL_SAMPLES];
    const gpu_ptr at_a = kernel_operand(job, 0, 0), at_b = kernel_operand(job, 0, 1);
    const gpu_ptr at_c = kernel_operand(job, 0, 2);
    const size_t es = call_elem_bytes(job->ab), cs = call_elem_bytes(job->c);
    bool ok = a && b && c;
    for (int i = 0; ok && i < KERNEL_SAMPLES; i++) {
        row[i] = kernel_pick(i, m);
        ok = kernel_fetch(at_a + (gpu_ptr)(row[i] * (ta ? job->a_rows : 1)) * es,
                          ta ? 1 : job->a_rows, k, job->ab, a + (size_t)(i * k) * width);
        kernel_conjugate(a + (size_t)(i * k) * width, k, item->trans[0] == 'c' && cx);
    }
    /* C0 of set 0 is what earlier samples left there: keep the columns before they are computed
     * anew. */
    for (int j = 0; ok && j < KERNEL_SAMPLES; j++) {
        const int64_t col = kernel_pick(j, n);
        const gpu_ptr column = at_c + (gpu_ptr)(col * m) * cs;
        double *before = c + (size_t)m * width;
        ok = kernel_fetch(at_b + (gpu_ptr)(col * (tb ? 1 : job->b_rows)) * es, tb ? job->b_rows : 1,
                          k, job->ab, b);
        kernel_conjugate(b, k, item->trans[1] == 'c' && cx);
        if (ok && item->beta != 0)
            ok = kernel_fetch(column, 1, m, job->c, before);
        if (ok && (j == 0 || item->beta != 0)) {
            if (item->beta == 0)
                ok = GPU(cuMemsetD8Async, at_c, 0xff, (size_t)(m * n) * cs, kernel.timer.stream);
            ok = ok && kernel_run(job, p, 0);
        }
        ok = ok && kernel_fetch(column, 1, m, job->c, c);
        for (int i = 0; ok && i < KERNEL_SAMPLES; i++) {
            double got[2] = {c[(size_t)row[i] * width], cx ? c[2 * row[i] + 1] : 0};
            double c0[2] = {0, 0};
            if (item->beta != 0)
                memcpy(c0, before + (size_t)row[i] * width, width * sizeof *c0);
            data_compare(&p->error, a + (size_t)(i * k) * width, b, k, job->alpha, job->beta, c0,
                         got, cx, job->ab == TB_F64 || job->ab == TB_C64);
        }
    }
    if (!ok && !p->note[0])
        snprintf(p->note, sizeof p->note, "%.150s", gpu_error());
    free(a);
    free(b);
    free(c);
    return ok;
}

/* --- a case
 * ---------------------------------------------------------------------------------------------- */

static int kernel_list(const struct kernel_job *job, const struct perf_options *options,
                       struct kernel_provider *out)
{
    const struct perf_case *item = job->item;
    const bool ta = item->trans[0] != 'n', tb = item->trans[1] != 'n';
    int n = 0;
    const int chosen =
        kernel_choose_alone(&kernel.caps, job->ab, job->c, ta, tb, item->m, item->n, item->k, 1);
    struct kernel_provider *p = &out[n++];
    *p = (struct kernel_provider){.row = chosen < 0 ? KERNEL_MISSING : chosen};
    snprintf(p->name, sizeof p->name, "ours");
    snprintf(p->note, sizeof p->note, "%s",
             chosen < 0 ? "no kernel fits" : kernel_row(chosen)->name);
    for (int i = 0; i < kernel_count() && n < KERNEL_PROVIDERS - 4; i++) {
        const struct tb_kernel *row = kernel_row(i);
        char name[48];
        snprintf(name, sizeof name, "ours:%.40s", row->name);
        if (row->family == TB_TRI || row->ab != job->ab || row->c != job->c || row->ta != ta ||
            row->tb != tb || row->cc_min > kernel.caps.cc || row->cc_max < kernel.caps.cc ||
            i == chosen || !options->providers ||
            !(perf_wants(options, name) || perf_wants(options, "ours:all")))
            continue;
        p = &out[n++];
        *p = (struct kernel_provider){.row = i};
        snprintf(p->name, sizeof p->name, "%s", name);
    }
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "cublas-tf32" : "cublas";
        if ((i && job->ab != TB_F32) || !perf_wants(options, name))
            continue;
        p = &out[n++];
        *p = (struct kernel_provider){.row = !kernel.cublas ? KERNEL_MISSING
                                             : i            ? KERNEL_CUBLAS_TF32
                                                            : KERNEL_CUBLAS};
        snprintf(p->name, sizeof p->name, "%s", name);
        snprintf(p->note, sizeof p->note, "%s", kernel.cublas_why);
    }
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "triton-tf32" : "triton";
        const bool has = job->ab == TB_F32 || job->ab == TB_F16 || job->ab == TB_BF16;
        if (!has || (i && job->ab != TB_F32) || !perf_wants(options, name))
            continue;
        p = &out[n++];
        *p = (struct kernel_provider){.row = i ? KERNEL_TRITON_TF32 : KERNEL_TRITON};
        snprintf(p->name, sizeof p->name, "%s", name);
    }
    return n;
}

static void kernel_time(struct kernel_job *job, struct kernel_provider *list, int n,
                        const struct perf_options *options)
{
    const int reps = options->reps < KERNEL_REPS ? options->reps : KERNEL_REPS;
    for (int i = 0; i < n; i++) {
        struct kernel_provider *p = &list[i];
        p->status = p->row == KERNEL_MISSING ? "missing" : "ok";
        p->inner = 1;
        if (kernel_is_triton(p) && !kernel_begin_triton(job, p))
            continue;
        double ms = p->row == KERNEL_MISSING ? -1 : kernel_sample(job, p); /* loads the code */
        ms = ms > 0 ? kernel_sample(job, p) : ms;
        if (ms <= 0 && strcmp(p->status, "ok") == 0)
            p->status = "failed";
        const double wanted = options->case_ms / reps;
        p->inner = ms > 0 && ms < wanted ? (int)(wanted / ms) + 1 : 1;
    }
    for (int r = 0; r < reps; r++)
        for (int i = 0; i < n; i++) {
            struct kernel_provider *p = &list[i];
            const double ms = strcmp(p->status, "ok") == 0 ? kernel_sample(job, p) : -1;
            if (ms > 0)
                p->ms[p->reps++] = ms;
            else if (strcmp(p->status, "ok") == 0)
                p->status = "failed";
        }
}

static void kernel_row_out(const struct kernel_job *job, const struct kernel_provider *p,
                           const struct perf_options *options, double ours)
{
    const struct perf_case *item = job->item;
    const double flops = (call_is_complex(job->ab) ? 8.0 : 2.0) * (double)item->m *
                         (double)item->n * (double)item->k;
    const char *limit = "";
    const double most = limits_rate(&options->limits, job->ab, kernel_is_tf32(p), &limit);
    const double rate = p->reps ? flops / p->median / 1e6 : 0, unit = data_unit(job->ab);
    table_write(&(struct table_row){.level = "kernel",
                                    .routine = item->routine,
                                    .trans = item->trans,
                                    .dist = data_dist_names[item->dist],
                                    .memory = "device",
                                    .provider = p->name,
                                    .status = p->status,
                                    .unit = "GFLOP/s",
                                    .limit = limit,
                                    .note = p->note,
                                    .m = item->m,
                                    .n = item->n,
                                    .k = item->k,
                                    .alpha = item->alpha,
                                    .beta = item->beta,
                                    .reps = p->reps,
                                    .ms = p->median,
                                    .ms_min = p->min,
                                    .ms_max = p->max,
                                    .rate = rate,
                                    .vs_ours = p->reps && ours > 0 ? p->median / ours : 0,
                                    .limit_share = most > 0 ? rate / most : 0,
                                    .err_max = p->error.max / unit,
                                    .err_rms = data_rms(&p->error) / unit,
                                    .entries = p->error.entries});
}

/* Largest error a result may have and count as right, in units of the type; the accuracy program
 * judges finely, this only tells a product from something else. */
static double kernel_tolerance(const struct kernel_job *job, const struct kernel_provider *p)
{
    return kernel_is_tf32(p) ? 0x1p14 : 4 + 2 * sqrt((double)job->item->k);
}

/* Measures and checks the providers of a case; how many there are. */
static int kernel_measure(struct kernel_job *job, struct kernel_provider *list,
                          const struct perf_options *options)
{
    enum tb_op op;
    cases_type(job->item->routine, &job->ab, &job->c, &op);
    const int n = kernel_list(job, options, list);
    if (kernel_prepare(job)) {
        kernel_time(job, list, n, options);
    } else {
        for (int i = 0; i < n; i++) {
            list[i].status = "failed";
            snprintf(list[i].note, sizeof list[i].note, "operands: %.120s", gpu_error());
        }
    }
    for (int i = 0; i < n; i++) {
        struct kernel_provider *p = &list[i];
        if (p->reps)
            p->median = table_median(p->ms, p->reps, &p->min, &p->max);
        if (strcmp(p->status, "ok") != 0)
            continue;
        if (!(kernel_is_triton(p) ? kernel_check_triton(p) : kernel_check(job, p)))
            p->status = "failed";
        else if (p->error.bad || !(p->error.max <= kernel_tolerance(job, p) * data_unit(job->ab)))
            p->status = "wrong";
    }
    return n;
}

static struct kernel_provider kernel_providers[KERNEL_PROVIDERS];

void kernel_case(const struct perf_case *item, const struct perf_options *options)
{
    struct kernel_provider *list = kernel_providers;
    struct kernel_job job = {.item = item, .alpha = {item->alpha, 0}, .beta = {item->beta, 0}};
    const int n = kernel_measure(&job, list, options);
    for (int i = 0; i < n; i++)
        kernel_row_out(&job, &list[i], options, list[0].reps ? list[0].median : 0);
}

int kernel_rank(const struct perf_case *item, const struct perf_options *options,
                struct kernel_ranked *out, int room)
{
    struct kernel_provider *list = kernel_providers;
    struct kernel_job job = {.item = item, .alpha = {item->alpha, 0}, .beta = {item->beta, 0}};
    const int n = kernel_measure(&job, list, options);
    for (int i = 0; i < n && i < room; i++) {
        const struct kernel_provider *p = &list[i];
        out[i] = (struct kernel_ranked){
            .status = p->status, .chosen = i == 0, .ms = p->median, .min = p->min, .max = p->max};
        snprintf(out[i].name, sizeof out[i].name, "%.40s",
                 p->row >= 0 ? kernel_row(p->row)->name : p->name);
        if (strcmp(p->status, "ok") != 0)
            snprintf(out[i].note, sizeof out[i].note, "%.90s", p->note);
    }
    return n < room ? n : room;
}
