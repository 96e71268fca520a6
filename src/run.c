/* SPDX-License-Identifier: BSD-3-Clause
 * The map: what happens to a call between its door and its result. The only
 * file that sees both the device (offload.h) and the CPU side (oncpu.h, fallback.h). */
#include "run.h"
#include "../fallback/fallback.h"
#include "conf.h"
#include "log.h"
#include "offload.h"
#include "oncpu.h"
#include "place.h"
#include "trace.h"
#include "watch.h"
#include <errno.h>
#include <math.h>
#include <time.h>

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

/* Some call went to the device or started it: the driver is here through us. */
static atomic_bool offloads;

/* A driver that is loaded late must be noticed before the first operand of it comes. Between the
 * two lie the start of the driver and a context, 0.1 s and more; a tick of this clock is at most 10
 * ms. Where the driver was here already, only the thread's own context tells. */
bool run_passes(void)
{
    static _Atomic int64_t looked;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    const int64_t tick = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    const bool fresh = atomic_load_explicit(&looked, memory_order_relaxed) == tick;
    const bool ours = atomic_load_explicit(&offloads, memory_order_relaxed);
    if (!(ours && place_used()) && (fresh || !place_shared())) {
        atomic_store_explicit(&looked, tick, memory_order_relaxed);
        return true;
    }
    atomic_store(&run_small_volume, 0);
    return false;
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

static const struct tb_cpu_side cpu_side = {fallback_threads, fallback_name};

static struct tb_judgement judge(struct tb_call *call)
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
    const struct tb_choice choice = offload_choose(call, &cpu_side);
    if (choice.where == TB_ON_GPU || choice.reason == TB_WHY_STARTING)
        atomic_store_explicit(&offloads, true, memory_order_relaxed);
    if (!log_wants(1) && !trace_on() && route_is_final(choice.reason) && !place_shared())
        atomic_store(&run_small_volume,
                     HUGE_VAL); /* no call of this process leaves the CPU any more */
    return (struct tb_judgement){.where = choice.where,
                                 .reason = choice.reason,
                                 .est_cpu_ns = choice.est_cpu_ns,
                                 .est_gpu_ns = choice.est_gpu_ns,
                                 .copies = copies};
}

static struct tb_choice choice_of(const struct tb_judgement *j)
{
    return (struct tb_choice){j->where, j->reason, j->est_cpu_ns, j->est_gpu_ns};
}

static void log_pass(const struct tb_call *call, const struct tb_pass *pass,
                     struct tb_outcome outcome)
{
    const struct tb_judgement *const j = &pass->judgement;
    outcome.choice = choice_of(j);
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

/* A wrong result: the call again, from the C there was, on the CPU. */
static void compute_again(const struct tb_call *call, const struct tb_watch *watch)
{
    bool found;
    log_line(1, "%s: the result of the GPU failed the check and is computed again on the CPU",
             call->name);
    offload_distrust(call);
    inside++;
    if (!cpu_copies(call, watch->old, &found))
        cpu_lost(call);
    inside--;
}

/* Whatever the device left undone; the number of rectangles. */
static int64_t finish_on_cpu(const struct tb_call *call, struct tb_offload *offload, bool copies)
{
    struct tb_rect rect;
    int64_t rects = 0;
    if (offload->unsure || (offload->hung && copies)) {
        cpu_lost(call);
        return 0;
    }
    inside++;
    for (; offload_undone(offload, &rect); rects++) {
        const int64_t start = trace_start();
        if (rects == 0 && !offload->hung)
            place_await(call);
        cpu_rect(call, &rect, copies);
        trace_span(start, "caller", "CPU tile", "%lld x %lld", (long long)rect.m,
                   (long long)rect.n);
    }
    inside--;
    return rects;
}

/* The device computes what it can; whatever it leaves undone the CPU computes.
 * True: C is complete.
 */
static bool run_on_gpu(struct tb_call *call, struct tb_pass *pass)
{
    struct tb_offload offload;
    struct tb_watch watch = watch_open(call);
    const struct tb_choice choice = choice_of(&pass->judgement);
    offload_run(call, &choice, &cpu_side, &offload);
    if (!offload.started) {
        watch_close(&watch);
        pass->judgement.where = TB_ON_CPU;
        pass->judgement.reason = offload.reason;
        pass->lost = offload.unsure || (offload.hung && pass->judgement.copies);
        pass->hung = offload.hung;
        pass->judgement.copies = pass->judgement.copies || pass->lost;
        return false;
    }
    struct tb_outcome outcome = {
        .bytes_in = offload.bytes_in, .bytes_out = offload.bytes_out, .kernel = offload.kernel};
    outcome.rects_on_cpu = finish_on_cpu(call, &offload, pass->judgement.copies);
    if (outcome.rects_on_cpu > 0)
        pass->judgement.reason = offload.reason;
    if (!offload.hung && !watch_right(call, &watch)) {
        compute_again(call, &watch);
        pass->judgement.reason = TB_WHY_FAULT;
    }
    watch_close(&watch);
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
    const struct tb_choice choice = choice_of(&pass->judgement);
    inside++;
    offload_cpu_begins(&choice);
    cpu_own(call);
    inside--;
    offload_cpu_ended(&choice);
    log_pass(call, pass, (struct tb_outcome){0});
}

/* Operands the CPU cannot read: product by product through host copies. */
static void run_on_copies(struct tb_call *call, struct tb_pass *pass)
{
    bool found = true;
    inside++;
    const bool got = !pass->lost && cpu_copies(call, NULL, &found);
    inside--;
    if (!found)
        fallback_missing(call->name); /* does not return */
    if (!got)
        cpu_lost(call);
    log_pass(call, pass, (struct tb_outcome){0});
}

static struct tb_pass enter(struct tb_call *call)
{
    const bool timed = log_wants(1) || trace_on();
    struct tb_pass pass = {.start_ns = timed ? log_now_ns() : 0, .judgement = judge(call)};
    if (pass.judgement.where == TB_ON_GPU && run_on_gpu(call, &pass))
        return pass;
    if (pass.judgement.reason != TB_WHY_ILLEGAL && pass.judgement.reason != TB_WHY_NESTED &&
        !pass.hung)
        place_await(call);
    if (pass.judgement.copies) {
        run_on_copies(call, &pass);
        return pass;
    }
    if (call->cpu->fn == NULL) {
        run_on_own_cpu(call, &pass);
        return pass;
    }
    pass.k_is_zero = pass.judgement.k_is_zero;
    const struct tb_choice choice = choice_of(&pass.judgement);
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
        offload_cpu_begins(&choice);
        break;
    }
    return pass;
}

/* The program's errno stays as it is, whatever was tried. */
struct tb_judgement run_judge(struct tb_call *call)
{
    const int saved = errno;
    const struct tb_judgement judgement = judge(call);
    if (judgement.where == TB_ON_CPU && judgement.reason != TB_WHY_ILLEGAL &&
        judgement.reason != TB_WHY_NESTED)
        place_await(call); /* it may be forwarded with others, and not come back here */
    errno = saved;
    return judgement;
}

struct tb_pass run_enter(struct tb_call *call)
{
    const int saved = errno;
    const struct tb_pass pass = enter(call);
    errno = saved;
    return pass;
}

void run_leave(const struct tb_call *call, const struct tb_pass *pass)
{
    const int saved = errno; /* of the CPU BLAS, if it set it */
    const struct tb_choice choice = choice_of(&pass->judgement);
    inside--;
    offload_cpu_ended(&choice);
    log_pass(call, pass, (struct tb_outcome){0});
    errno = saved;
}
