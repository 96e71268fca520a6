/* SPDX-License-Identifier: BSD-3-Clause
 * The map: what happens to a call between its door and its result. The only
 * file that sees both the device and the CPU side. */
#include "run.h"
#include "../fallback/fallback.h"
#include "conf.h"
#include "log.h"
#include "offload.h"
#include "place.h"
#include "trace.h"
#include "verify.h"
#include <math.h>
#include <stdlib.h>

_Atomic double run_small_volume; /* 0 until run_setup(): every call is looked at */

/* Calls of this thread that are inside the CPU BLAS with our knowledge; some
 * libraries' cblas_dgemm calls dgemm_ through the PLT and so comes back through
 * a door. Set only around calls checked valid: an illegal one may leave through
 * the program's xerbla by longjmp. */
static __thread int inside __attribute__((tls_model("initial-exec")));

void run_setup(void)
{
    trace_open(conf_get()->trace);
    atomic_store(&run_small_volume, route_small_volume(conf_get()));
}

void run_look(void)
{
    if (place_shared())
        atomic_store(&run_small_volume, 0);
}

/* OpenBLAS's small-matrix kernels read A and B of sgemm and dgemm even where
 * alpha = 0, and let their NaN through; with k = 0 they do not. */
static bool wants_k_zero(const struct tb_call *call)
{
    return (call->op == TB_GEMM || call->op == TB_GEMMT) &&
           (call->ab == TB_F32 || call->ab == TB_F64) && call->k > 0 &&
           scalar_is_zero(call->alpha_type, &call->alpha);
}

struct tb_judgement run_judge(struct tb_call *call)
{
    if (inside > 0 && call->cpu->fn != NULL)
        return (struct tb_judgement){.where = TB_ON_CPU, .reason = TB_WHY_NESTED};
    call_normalize(call);
    if (call_check(call) != 0)
        return (struct tb_judgement){.where = TB_ON_CPU, .reason = TB_WHY_ILLEGAL};
    const bool copies = place_find(call);
    run_look();
    if (call_is_trivial(call))
        return (struct tb_judgement){.where = TB_ON_CPU,
                                     .reason = TB_WHY_TRIVIAL,
                                     .k_is_zero = wants_k_zero(call),
                                     .copies = copies};
    const struct tb_choice choice = offload_choose(call, fallback_threads);
    if (!log_wants(1) && !trace_on() && route_is_final(choice.reason) && !place_shared())
        atomic_store(&run_small_volume,
                     HUGE_VAL); /* no call of this process leaves the CPU any more */
    return (struct tb_judgement){.where = choice.where,
                                 .reason = choice.reason,
                                 .est_cpu_ns = choice.est_cpu_ns,
                                 .est_gpu_ns = choice.est_gpu_ns,
                                 .copies = copies};
}

static void log_pass(const struct tb_call *call, const struct tb_pass *pass,
                     struct tb_outcome outcome)
{
    const struct tb_judgement *const j = &pass->judgement;
    outcome.choice = (struct tb_choice){j->where, j->reason, j->est_cpu_ns, j->est_gpu_ns};
    outcome.ns = (double)(log_now_ns() - pass->start_ns);
    log_call(call, &outcome);
    trace_span((int64_t)pass->start_ns, "caller", call->name, "%s, %s, m=%lld n=%lld k=%lld",
               j->where == TB_ON_GPU ? "GPU" : "CPU", route_reason_text(j->reason),
               (long long)call->m, (long long)call->n, (long long)call->k);
    trace_flush();
}

void run_report_argument(const struct tb_call *call, int number)
{
    fallback_xerbla(call, number);
}

void run_report(const struct tb_call *call)
{
    const int info = call_check(call);
    fallback_xerbla(call, call->bad_order ? 0 : info < 0 ? -info : info);
}

/* What only a working device could still give: the one loss nobody can make good. */
static void report_lost(const struct tb_call *call)
{
    log_line(1,
             "%s: C is not computed: its operands are on a device that does not answer, or there "
             "is no memory to copy them to",
             call->name);
}

/* A rectangle of C on the CPU; `copies`: through host copies of what it cannot read. */
static void rect_on_cpu(const struct tb_call *call, const struct tb_rect *rect, bool copies)
{
    struct tb_place place;
    struct tb_rect alone = *rect;
    if (copies) {
        alone.item = 0;
        if (!place_open(call, rect->item, false, &place)) {
            report_lost(call);
            return;
        }
    }
    if (!fallback_rect(copies ? &place.call : call, &alone))
        fallback_missing(call->name); /* no CPU BLAS to finish with; does not return */
    if (copies && !place_close(&place, &alone))
        report_lost(call);
}

/* --- Checking results --- */

/* What a call that is to be checked has to keep. */
struct watch {
    bool on;
    void *old; /* C before the call, where it is read */
    uint64_t number;
};

static struct watch watch_open(const struct tb_call *call)
{
    static _Atomic uint64_t calls;
    const bool product = call->op == TB_GEMM || call->op == TB_GEMM3M;
    struct watch watch = {.on = conf_get()->verify > 0 && product};
    if (!watch.on)
        return watch;
    watch.number = atomic_fetch_add(&calls, 1);
    watch.on = verify_wanted(conf_get()->verify, watch.number);
    if (watch.on && !scalar_is_zero(call->beta_type, &call->beta)) {
        watch.old = place_save(call);
        watch.on = watch.old != NULL;
    }
    return watch;
}

static const void *old_of(const struct watch *watch, const struct tb_call *call, int64_t item)
{
    const size_t bytes = (size_t)call->m * (size_t)call->n * call_elem_bytes(call->c_type);
    return watch->old ? (const char *)watch->old + (size_t)item * bytes : NULL;
}

static bool result_right(const struct tb_call *call, const struct watch *watch)
{
    const bool reduced = conf_get()->math == TB_MATH_TF32;
    bool right = true;
    for (int64_t i = 0; right && i < call->batch; i++) {
        struct tb_place place;
        if (!place_open(call, i, true, &place))
            return true; /* nothing known against it */
        right = verify_product(&place.call, old_of(watch, call, i), reduced,
                               watch->number + (uint64_t)i);
        place_drop(&place);
    }
    return right;
}

/* One product on the CPU, through copies of what it cannot read. False: not done; *found: there is
 * a CPU BLAS. */
static bool item_on_cpu(const struct tb_call *call, int64_t item, bool *found)
{
    struct tb_place place;
    if (!place_open(call, item, false, &place))
        return false;
    *found = fallback_call(&place.call);
    if (*found)
        return place_close(&place, NULL);
    place_drop(&place);
    return false;
}

/* A wrong result: the call again, from the C there was, on the CPU. */
static void compute_again(const struct tb_call *call, const struct watch *watch)
{
    bool found = true, done = true;
    log_line(1, "%s: the result of the GPU failed the check and is computed again on the CPU",
             call->name);
    offload_distrust(call);
    inside++;
    for (int64_t i = 0; done && i < call->batch; i++)
        done = (!watch->old || place_restore(call, i, watch->old)) && item_on_cpu(call, i, &found);
    inside--;
    if (!done)
        report_lost(call);
}

/* True: the result was right, or was not to be checked. */
static bool watch_close(const struct tb_call *call, struct watch *watch)
{
    const int64_t start = watch->on ? trace_start() : 0;
    const bool right = !watch->on || result_right(call, watch);
    trace_span(start, "caller", "check", NULL);
    if (!right)
        compute_again(call, watch);
    free(watch->old);
    return right;
}

/* The device computes what it can; whatever it leaves undone the CPU computes.
 * True: C is complete.
 */
static bool run_on_gpu(struct tb_call *call, struct tb_pass *pass)
{
    struct tb_offload offload;
    struct watch watch = watch_open(call);
    offload_run(call, &offload);
    if (!offload.started) {
        free(watch.old);
        pass->judgement.where = TB_ON_CPU;
        pass->judgement.reason = offload.reason;
        pass->lost = offload.hung && pass->judgement.copies;
        return false;
    }
    struct tb_outcome outcome = {.bytes_in = offload.bytes_in, .bytes_out = offload.bytes_out};
    struct tb_rect rect;
    inside++;
    if (offload.hung && pass->judgement.copies)
        report_lost(call);
    else
        for (; offload_undone(&offload, &rect); outcome.rects_on_cpu++) {
            const int64_t start = trace_start();
            rect_on_cpu(call, &rect, pass->judgement.copies);
            trace_span(start, "caller", "CPU tile", "%lld x %lld", (long long)rect.m,
                       (long long)rect.n);
        }
    inside--;
    if (outcome.rects_on_cpu > 0)
        pass->judgement.reason = offload.reason;
    watch.on = watch.on && !offload.hung;
    if (!watch_close(call, &watch))
        pass->judgement.reason = TB_WHY_FAULT;
    offload_done(&offload);
    log_pass(call, pass, outcome);
    return true;
}

/* A name the CPU BLAS lacks: ours to answer. */
static void run_on_own_cpu(struct tb_call *call, struct tb_pass *pass)
{
    if (pass->judgement.reason == TB_WHY_ILLEGAL) {
        log_pass(call, pass, (struct tb_outcome){0});
        run_report(call);
        return;
    }
    inside++;
    const bool done = fallback_call(call);
    inside--;
    if (!done)
        fallback_missing(call->name); /* does not return */
    log_pass(call, pass, (struct tb_outcome){0});
}

/* Operands the CPU cannot read: product by product through host copies. */
static void run_on_copies(struct tb_call *call, struct tb_pass *pass)
{
    bool found = true, got = !pass->lost;
    inside++;
    for (int64_t i = 0; found && got && i < call->batch; i++)
        got = item_on_cpu(call, i, &found);
    inside--;
    if (!found)
        fallback_missing(call->name); /* does not return */
    if (!got)
        report_lost(call);
    log_pass(call, pass, (struct tb_outcome){0});
}

struct tb_pass run_enter(struct tb_call *call)
{
    const bool timed = log_wants(1) || trace_on();
    struct tb_pass pass = {.start_ns = timed ? log_now_ns() : 0, .judgement = run_judge(call)};
    if (pass.judgement.where == TB_ON_GPU && run_on_gpu(call, &pass))
        return pass;
    if (pass.judgement.copies) {
        run_on_copies(call, &pass);
        return pass;
    }
    if (call->cpu->fn == NULL) {
        run_on_own_cpu(call, &pass);
        return pass;
    }
    pass.k_is_zero = pass.judgement.k_is_zero;
    switch (pass.judgement.reason) {
    case TB_WHY_ILLEGAL:
        log_pass(call, &pass, (struct tb_outcome){0});
        pass.fn = call->cpu->origin;
        break;
    case TB_WHY_NESTED:
        pass.fn = call->cpu->fn;
        break;
    default:
        pass.fn = call->cpu->fn;
        pass.counted = true;
        inside++;
        break;
    }
    return pass;
}

void run_leave(const struct tb_call *call, const struct tb_pass *pass)
{
    inside--;
    log_pass(call, pass, (struct tb_outcome){0});
}
