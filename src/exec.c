/* SPDX-License-Identifier: BSD-3-Clause
 * Runs plans: copiers move panels and tiles between the caller's memory and staging buffers, and a
 * service thread per call asks the device for everything, in the order in which it can be done. One
 * thread, since many that call the driver at once wait for each other. A step is taken up once the
 * steps it waits for were issued; the device orders the rest by events.
 * Decides nothing about order or memory (plan.c, pool.c). Called by offload.c.
 *
 * Rules. (1) Everything in struct tb_job that changes is under the pool's lock, but for what is
 * atomic and what only the service thread looks at; the lock is never held across a device call or
 * a copy. (2) The caller's memory is touched only between job_enter() and job_leave(): once the
 * caller gave up, job_enter() refuses. (3) An event is waited for only after the work it stands for
 * was issued, so the device cannot be made to wait in a circle. */
#include "exec.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "kernel.h"
#include "log.h"
#include "pool.h"
#include "spans.h"
#include "stage.h"

int64_t exec_queue_ns = INT64_C(2000000000), exec_standstill_ns = INT64_C(8000000000);
int64_t exec_watchdog_ns = INT64_C(60000000000);
double exec_brief_bytes = 64 << 20;
static const double brief_flops = 1e11;

/* What is queued or under way, for those that ask without the lock. */
static _Atomic int64_t ahead_ns;
static atomic_int ahead_calls;

static const unsigned abandoned_bit = 1u << 31;

struct step_state {
    int64_t to_issue; /* pieces */
    uint32_t seen;    /* lanes that already wait for it, a bit each */
    bool issued;
    bool awaited;           /* another step waits for it */
    bool launched;          /* compute: asked for, whatever became of the event behind it */
    bool waited;            /* download: a copier waits for its product, or has */
    bool landed;            /* and its product is known to be over */
    struct tb_event *event; /* behind it */
};

struct tb_job {
    struct tb_call call;
    struct tb_plan plan;
    struct step_state *state;
    unsigned char *done; /* the caller's: only inside the guard */
    struct tb_slab *slab;
    struct tb_server *server;
    struct tb_job *next;                        /* in the queue, or among the active */
    int32_t compute_at, upload_at, download_at; /* the next step of each kind */
    int64_t upload_piece, download_piece;
    int64_t left;                        /* pieces of C not yet written */
    int busy;                            /* tasks in the hands of copiers */
    struct tb_chunk *asked, **asked_end; /* transfers to issue */
    bool closed;                         /* no more of them */
    int refs;
    enum tb_class class;
    int64_t served;          /* bytes moved for it, counted from those of the others at its start */
    int64_t est_ns, ahead;   /* all of it; of that, still in ahead_ns */
    int64_t pieces, carried; /* uploads and downloads: all, and those taken up */
    int64_t to_send;         /* uploads that nobody has taken up */
    enum tb_status status;   /* the first failure */
    bool begun, over, give_up, in_lingers;
    bool undrained;   /* something of it may still go on */
    atomic_bool torn; /* a part of what makes a tile of a C in place was asked for, not the rest */
    atomic_bool touched; /* something that writes to a C in place was asked for */
    pthread_cond_t told; /* the caller: begun, over, or the last section left */
    atomic_uint guard;   /* sections inside, and abandoned_bit */
    struct tb_spans spans;
};

/* --- The guard --- */

static void job_leave(struct tb_job *job)
{
    if (!(atomic_fetch_sub(&job->guard, 1) & abandoned_bit))
        return;
    pthread_mutex_lock(&pool_get()->lock);
    pthread_cond_broadcast(&job->told);
    pthread_mutex_unlock(&pool_get()->lock);
}

static bool job_enter(struct tb_job *job)
{
    if (!(atomic_fetch_add(&job->guard, 1) & abandoned_bit))
        return true;
    job_leave(job);
    return false;
}

static bool job_abandoned(struct tb_job *job)
{
    return atomic_load(&job->guard) & abandoned_bit;
}

/* --- Life of a job --- */

static enum tb_class class_of(const struct tb_call *call, const struct tb_plan *plan)
{
    const bool brief =
        plan->bytes_in + plan->bytes_out <= exec_brief_bytes && call_flops(call) <= brief_flops;
    return brief ? TB_BRIEF : TB_LONG;
}

static bool is_upload(enum tb_step_kind kind)
{
    return kind == TB_UPLOAD_A || kind == TB_UPLOAD_B || kind == TB_UPLOAD_C;
}

static struct tb_job *job_open(const struct tb_call *call, const struct tb_plan *plan,
                               unsigned char *done)
{
    const size_t steps = (size_t)plan->count;
    struct tb_job *job = calloc(1, sizeof *job + steps * sizeof(struct step_state));
    if (!job)
        return NULL;
    job->call = *call;
    job->plan = *plan;
    if (plan->many) {
        /* The caller may give up and free its plan while we still look at it. */
        job->plan.many = malloc(steps * sizeof *plan->many);
        if (!job->plan.many) {
            free(job);
            return NULL;
        }
        memcpy(job->plan.many, plan->many, steps * sizeof *plan->many);
    }
    job->state = (struct step_state *)(job + 1);
    for (int32_t i = 0; i < plan->count; i++) {
        const struct tb_step *step = plan_step(&job->plan, i);
        if (step->kind != TB_COMPUTE)
            job->state[i].to_issue = plan_pieces(&step->range, plan->elem[plan_operand(step->kind)],
                                                 plan_step_chunk(&job->plan, step));
        job->pieces += job->state[i].to_issue;
        job->to_send += is_upload(step->kind) ? job->state[i].to_issue : 0;
        for (int w = 0; w < TB_STEP_WAITS; w++)
            if (step->waits_on[w] >= 0)
                job->state[step->waits_on[w]].awaited = true;
    }
    job->class = class_of(call, plan);
    job->est_ns = job->ahead = (int64_t)plan->est_ns;
    job->left = plan->pieces;
    job->done = done;
    job->refs = 1; /* the caller's */
    job->asked_end = &job->asked;
    pool_cond_open(&job->told);
    return job;
}

/* Lock held. */
static void job_drop(struct tb_job *job)
{
    if (--job->refs > 0)
        return;
    pthread_cond_destroy(&job->told);
    plan_free(&job->plan);
    free(job);
}

/* Takes from what is ahead of others all but the given share of the job. Lock held. */
static void job_advance(struct tb_job *job, int64_t pieces_left)
{
    const int64_t left =
        pieces_left > 0 ? (int64_t)((double)job->est_ns * (double)pieces_left / (double)job->pieces)
                        : 0;
    if (left >= job->ahead)
        return;
    atomic_fetch_sub(&ahead_ns, job->ahead - left);
    job->ahead = left;
}

/* It is over, or was never begun. Lock held. */
static void job_leaves_queue(struct tb_job *job)
{
    job_advance(job, 0);
    atomic_fetch_sub(&ahead_calls, 1);
}

double exec_ahead_ns(int *calls)
{
    *calls = atomic_load_explicit(&ahead_calls, memory_order_relaxed);
    return (double)atomic_load_explicit(&ahead_ns, memory_order_relaxed);
}

/* Lock held. */
static void job_fail(struct tb_job *job, enum tb_status status)
{
    if (job->status == TB_OK)
        job->status = status;
    pthread_cond_broadcast(&pool_get()->moved);
    pthread_cond_broadcast(&pool_get()->work); /* there may be nothing left to send */
}

/* --- Order --- */

/* Have the steps it waits for been issued? Lock held. */
static bool step_ready(const struct tb_job *job, int32_t i)
{
    const struct tb_step *step = plan_step(&job->plan, i);
    for (int w = 0; w < TB_STEP_WAITS; w++)
        if (step->waits_on[w] >= 0 && !job->state[step->waits_on[w]].issued)
            return false;
    return true;
}

/* The stage of its server that a step belongs to. */
static struct tb_stage *stage_of(const struct tb_job *job, const struct tb_step *step)
{
    const int lane = step->kind == TB_COMPUTE    ? step->lane
                     : step->kind == TB_DOWNLOAD ? TB_LANE_BACK
                                                 : TB_LANE_IN;
    return &job->server->stage[job->class][lane];
}

/* Makes the lane of step i wait for the steps before it; a lane is told of a step but once. Only
 * the service thread gets here, and a step that was issued does not change: no lock needed. */
static enum tb_status lane_await(struct tb_job *job, int32_t i)
{
    const struct tb_step *step = plan_step(&job->plan, i);
    struct tb_stage *const stage = stage_of(job, step);
    const uint32_t bit = 1u << (stage - job->server->stage[job->class]);
    enum tb_status status = TB_OK;
    for (int w = 0; w < TB_STEP_WAITS && status == TB_OK; w++) {
        if (step->waits_on[w] < 0)
            continue;
        struct step_state *state = &job->state[step->waits_on[w]];
        if (!(state->seen & bit))
            status = tb_dev()->wait(stage->lane, state->event);
        state->seen |= bit;
    }
    return status;
}

/* Step i is on its lane as a whole: an event behind it. The service thread only. */
static enum tb_status step_mark(struct tb_job *job, int32_t i)
{
    return stage_mark(stage_of(job, plan_step(&job->plan, i)), &job->state[i].event);
}

/* --- The timeline --- */

static int server_number(const struct tb_server *server)
{
    return (int)(server - pool_get()->server);
}

static const char *step_name(enum tb_step_kind kind)
{
    static const char *const names[] = {[TB_UPLOAD_A] = "A",
                                        [TB_UPLOAD_B] = "B",
                                        [TB_UPLOAD_C] = "C",
                                        [TB_COMPUTE] = "tile",
                                        [TB_DOWNLOAD] = "C back"};
    return names[kind];
}

/* --- Copiers --- */

/* May the step have to wait for a product? A download waits for one. */
static bool step_lingers(const struct tb_plan *plan, const struct tb_step *step)
{
    for (int w = 0; w < TB_STEP_WAITS; w++)
        if (step->waits_on[w] >= 0 && !is_upload(plan_step(plan, step->waits_on[w])->kind))
            return true;
    return false;
}

static int copiers_able(void)
{
    return pool_get()->copiers - pool_get()->copiers_failed;
}

/* The first of every six copiers is for brief calls alone: whatever the long ones wait for, a brief
 * one finds somebody to carry it. */
static bool is_swift(const struct tb_copier *self)
{
    enum { EVERY = 6 };
    return copiers_able() >= EVERY && self->index % EVERY == 0 && self->state == TB_COPIER_UP &&
           !self->lost;
}

static bool any_swift(const struct tb_pool *pool)
{
    bool any = false;
    for (int c = 0; c < pool->copiers; c++)
        any = any || is_swift(&pool->copier[c]);
    return any;
}

/* Should this copier carry for the job? Lock held. */
static bool copier_suits(const struct tb_copier *self, const struct tb_job *job)
{
    if (is_swift(self))
        return job->class == TB_BRIEF;
    if (job->class != TB_BRIEF || !any_swift(pool_get()))
        return true;
    bool lingers = false;
    for (int i = 0; i < TB_CHUNKS; i++)
        lingers = lingers || (self->chunk[i].state != TB_CHUNK_FREE && self->chunk[i].lingers);
    return !lingers;
}

enum tb_wish { TB_WISH_IN, TB_WISH_BACK, TB_WISH_BACK_MEANWHILE };

/* Has any job something left to send? Lock held. */
static bool any_to_send(const struct tb_pool *pool)
{
    for (const struct tb_job *job = pool->active; job; job = job->next)
        if (job->to_send > 0 && job->status == TB_OK)
            return true;
    return false;
}

/* Must the product of a download be over before its transfer is asked for? Transfers that wait on
 * the device hold up those that send: the device has few queues, which all lanes share. The
 * products of a brief call are short; and a copier that is alone has to send meanwhile. Where there
 * are few, some are to stay free for a call that comes. Lock held. */
static bool step_awaits(const struct tb_job *job, int32_t i)
{
    return job->class == TB_LONG && copiers_able() > 1 && !job->state[i].landed &&
           step_lingers(&job->plan, plan_step(&job->plan, i)) &&
           (any_to_send(pool_get()) || !any_swift(pool_get()));
}

/* May one more copier wait for this product? One does for each, all learn of it; the others carry
 * what there is to send `meanwhile`, or will be. Lock held. */
static bool may_await(const struct step_state *state, bool meanwhile)
{
    const struct tb_pool *pool = pool_get();
    int waiting = 0;
    for (int c = 0; c < pool->copiers; c++)
        waiting += pool->copier[c].awaits;
    return !state->waited && (meanwhile ? 6 : 2) * waiting < copiers_able();
}

/* The next piece of one kind of a job for a copier, if its step is ready. Lock held. */
static bool job_next(const struct tb_copier *self, struct tb_job *job, enum tb_wish wish,
                     struct tb_task *task)
{
    const bool upload = wish == TB_WISH_IN;
    int32_t *at = upload ? &job->upload_at : &job->download_at;
    int64_t *piece = upload ? &job->upload_piece : &job->download_piece;
    const int32_t count = job->plan.count;
    while (*at < count && (upload ? !is_upload(plan_step(&job->plan, *at)->kind)
                                  : plan_step(&job->plan, *at)->kind != TB_DOWNLOAD))
        ++*at;
    if (job->status != TB_OK || *at == count || !step_ready(job, *at))
        return false;
    const struct tb_step *step = plan_step(&job->plan, *at);
    const bool awaits = !upload && step_awaits(job, *at);
    const bool lingers = !upload && job->class == TB_LONG && !awaits && !job->state[*at].landed;
    if (!copier_suits(self, job) ||
        (awaits && !may_await(&job->state[*at], wish == TB_WISH_BACK_MEANWHILE)))
        return false;
    if (task) {
        /* Behind an upload that lingers those of the same call do, on the same lane. */
        job->in_lingers =
            job->in_lingers || (upload && job->class == TB_LONG && step_lingers(&job->plan, step));
        *task = (struct tb_task){.job = job,
                                 .step = *at,
                                 .piece = (*piece)++,
                                 .lingers = upload ? job->in_lingers : lingers,
                                 .awaits = awaits,
                                 .landed = !upload && job->state[*at].landed};
        job->state[*at].waited = job->state[*at].waited || awaits;
        job->busy++;
        job->refs++;
        job_advance(job, job->pieces - ++job->carried);
        if (upload && --job->to_send == 0) /* what was to wait for products need not any more */
            pthread_cond_broadcast(&pool_get()->work);
        const size_t elem = job->plan.elem[plan_operand(step->kind)];
        const size_t chunk = plan_step_chunk(&job->plan, step);
        const struct tb_piece taken = plan_piece(&step->range, elem, chunk, task->piece);
        job->served += (int64_t)plan_piece_bytes(elem, &taken);
        if (*piece == plan_pieces(&step->range, elem, chunk)) {
            *piece = 0;
            ++*at;
        }
    }
    return true;
}

/* Picks a piece of the job that had the fewest bytes so far: the link is shared by bytes, whatever
 * the size of the pieces. A job that could not use its turn does not save it up. Lock held. */
static bool pick(const struct tb_copier *self, enum tb_wish wish, struct tb_task *task)
{
    struct tb_pool *pool = pool_get();
    struct tb_job *best = NULL;
    for (struct tb_job *job = pool->active; job; job = job->next) {
        if (!job_next(self, job, wish, NULL))
            continue;
        if (!task)
            return true;
        if (job->served < pool->served)
            job->served = pool->served;
        if (!best || job->served < best->served)
            best = job;
    }
    if (!best)
        return false;
    pool->served = best->served;
    return job_next(self, best, wish, task);
}

/* Buffers of a copier with a piece on its way back. One that is not up (yet) has them to itself. */
static int chunks_back(const struct tb_copier *copier)
{
    int back = 0;
    for (int i = 0; copier->state == TB_COPIER_UP && i < TB_CHUNKS; i++)
        back += copier->chunk[i].state != TB_CHUNK_FREE && copier->chunk[i].back;
    return back;
}

/* Uploads first, they feed the device; but some pieces may always be on their way back: two for
 * three copiers, by the virtual clock of tests/sim the best share. More would keep too many copiers
 * waiting for products while there is something to send. Lock held. */
static bool task_take(const struct tb_copier *self, struct tb_task *task)
{
    enum { PATIENCE = 32 };
    struct tb_pool *pool = pool_get();
    if (!pick(self, TB_WISH_IN, NULL))
        return pick(self, TB_WISH_BACK, task);
    int fetching = 0;
    for (int c = 0; c < pool->copiers; c++)
        fetching += chunks_back(&pool->copier[c]);
    if ((3 * fetching < 2 * pool->copiers || pool->sent >= PATIENCE) &&
        pick(self, TB_WISH_BACK_MEANWHILE, task)) {
        pool->sent = 0;
        return true;
    }
    pool->sent++;
    return pick(self, TB_WISH_IN, task);
}

/* Everything on the lane is over, whatever became of its event. False: the device does not say so.
 */
static bool lane_drain(struct tb_lane *lane, struct tb_event *event)
{
    const struct tb_dev_ops *dev = tb_dev();
    for (int attempt = 0; attempt < 2; attempt++)
        if (dev->record(event, lane) == TB_OK && dev->sync(event) == TB_OK)
            return true;
    return false;
}

static bool stage_drain(struct tb_stage *stage)
{
    return lane_drain(stage->lane, stage->event[0]);
}

static void engine_break(enum tb_status status)
{
    pthread_mutex_lock(&pool_get()->lock);
    pool_break(status);
    pthread_mutex_unlock(&pool_get()->lock);
}

/* Lock held. */
static void task_end(struct tb_task *task, enum tb_status status, bool written)
{
    struct tb_job *job = task->job;
    if (status != TB_OK)
        job_fail(job, status);
    job->left -= written;
    job->busy--;
    if (job->left == 0 || job->status != TB_OK)
        pthread_cond_broadcast(&pool_get()->moved);
    job_drop(job);
    task->job = NULL;
}

static void task_close(struct tb_task *task, enum tb_status status, bool written)
{
    pthread_mutex_lock(&pool_get()->lock);
    task_end(task, status, written);
    pthread_mutex_unlock(&pool_get()->lock);
}

/* A copy between the caller's memory and a buffer took so long. Short columns lie pages apart, and
 * their copies are slow on any CPU. */
static void chunk_time(struct tb_chunk *chunk, size_t elem, const struct tb_piece *piece,
                       int64_t ns)
{
    enum { PAGE = 4096 };
    if ((size_t)piece->rows * elem >= PAGE)
        pace_note(&chunk->of->pace, plan_piece_bytes(elem, piece), ns);
    else
        pace_follow(&chunk->of->pace);
}

/* The piece is here and good: the caller's memory gets it, unless the caller is gone. */
static void task_commit(struct tb_chunk *chunk)
{
    struct tb_task *task = &chunk->task;
    struct tb_job *job = task->job;
    const struct tb_step *step = plan_step(&job->plan, task->step);
    if (!job_enter(job)) {
        task_close(task, TB_TIMEOUT, false);
        return;
    }
    const size_t elem = job->plan.elem[TB_C];
    const struct tb_piece piece = plan_piece(&step->range, elem, job->plan.chunk, task->piece);
    const int64_t start = trace_start(), since = pool_now_ns();
    stage_scatter(&job->call, &step->range, elem, &piece, chunk->bytes);
    job->done[step->piece0 + task->piece] = 1;
    job_leave(job);
    trace_span(start, "copier", "unstage", NULL);
    chunk_time(chunk, elem, &piece, pool_now_ns() - since);
    task_close(task, TB_OK, true);
}

/* After a failure: whatever goes on in the buffer ends. Where the device does not say so the copier
 * is out of work for good: the buffer may still be read or written. */
static void copier_drain(struct tb_copier *self, struct tb_chunk *chunk, enum tb_status status)
{
    if (lane_drain(chunk->lane, chunk->event))
        return;
    self->lost = true;
    engine_break(status);
}

/* Waits until the service thread has issued what was asked for. False: nobody will. */
static bool chunk_await(struct tb_copier *self, struct tb_chunk *chunk)
{
    struct tb_pool *pool = pool_get();
    pthread_mutex_lock(&pool->lock);
    while (chunk->state == TB_CHUNK_ASKED && pool->broken != TB_DEVICE_OFF)
        pthread_cond_wait(&self->issued, &pool->lock);
    self->lost = self->lost || chunk->state == TB_CHUNK_ASKED;
    const bool flying = chunk->state == TB_CHUNK_FLYING;
    pthread_mutex_unlock(&pool->lock);
    return flying;
}

/* Waits until a staging buffer is free, and finishes what came in it. */
static void chunk_settle(struct tb_copier *self, struct tb_chunk *chunk)
{
    if (chunk->state == TB_CHUNK_FREE || !chunk_await(self, chunk))
        return;
    const enum tb_status status = tb_dev()->sync(chunk->event);
    if (status != TB_OK)
        copier_drain(self, chunk, status);
    if (chunk->back && status == TB_OK)
        task_commit(chunk);
    else if (chunk->back)
        task_close(&chunk->task, status, false);
    chunk->state = TB_CHUNK_FREE;
}

/* A piece between its staging buffer and the device, where its columns lie further apart if it has
 * not all the rows. */
static struct tb_copy piece_shape(const struct tb_panel *range, size_t elem,
                                  const struct tb_piece *piece, bool up)
{
    const size_t bytes = plan_piece_bytes(elem, piece);
    if (piece->rows == range->rows || piece->cols == 1 || bytes == 0)
        return (struct tb_copy){.width = bytes, .rows = 1, .dst_pitch = bytes, .src_pitch = bytes};
    const size_t near = plan_piece_pitch(elem, piece), far = plan_pitch(range->rows, elem);
    return (struct tb_copy){.width = (size_t)piece->rows * elem,
                            .rows = (size_t)piece->cols,
                            .dst_pitch = up ? far : near,
                            .src_pitch = up ? near : far};
}

/* On the way in: the bytes of a piece, ready to be sent. */
static enum tb_status task_stage(struct tb_chunk *chunk, const struct tb_task *task)
{
    struct tb_job *job = task->job;
    const struct tb_plan *plan = &job->plan;
    const struct tb_step *step = plan_step(plan, task->step);
    const enum tb_operand_id which = plan_operand(step->kind);
    const size_t elem = plan->elem[which];
    const struct tb_piece piece =
        plan_piece(&step->range, elem, plan_step_chunk(plan, step), task->piece);
    chunk->from = chunk->bytes;
    chunk->shape = piece_shape(&step->range, elem, &piece, is_upload(step->kind));
    if (!is_upload(step->kind))
        return TB_OK;
    if (!job_enter(job))
        return TB_TIMEOUT;
    /* Pinned memory needs no staging on the way in: should the caller give up, it is only read. On
     * the way back it is staged like all: C is written when a piece is known good. */
    const int64_t start = trace_start(), since = pool_now_ns();
    const bool direct =
        job->call.where[which] == TB_HOST_PINNED &&
        stage_rectangle(&job->call, &step->range, which, elem, &piece, &chunk->from, &chunk->shape);
    if (!direct)
        stage_gather(&job->call, &step->range, which, elem, &piece, chunk->bytes);
    job_leave(job);
    if (direct)
        return TB_OK;
    trace_span(start, "copier", "stage", NULL);
    chunk_time(chunk, elem, &piece, pool_now_ns() - since);
    return TB_OK;
}

/* Is the work of every step that step i waits for over? Only of steps that were issued. */
static bool step_over(const struct tb_job *job, int32_t i)
{
    const struct tb_step *step = plan_step(&job->plan, i);
    bool over = true;
    for (int w = 0; w < TB_STEP_WAITS && over; w++)
        if (step->waits_on[w] >= 0 &&
            tb_dev()->over(job->state[step->waits_on[w]].event, &over) != TB_OK)
            over = false; /* whoever waits for it will learn why */
    return over;
}

/* Products that are over as well, behind the one that was waited for: nobody need wait for them. */
static void products_look(struct tb_job *job, int32_t i)
{
    struct tb_pool *pool = pool_get();
    bool over = true;
    for (i++; over && i < job->plan.count; i++) {
        if (plan_step(&job->plan, i)->kind != TB_DOWNLOAD)
            continue;
        pthread_mutex_lock(&pool->lock);
        const bool due = !job->state[i].landed;
        over = !due || step_ready(job, i);
        pthread_mutex_unlock(&pool->lock);
        if (!due || !over)
            continue;
        over = step_over(job, i);
        pthread_mutex_lock(&pool->lock);
        job->state[i].landed = over;
        pthread_mutex_unlock(&pool->lock);
    }
}

/* Waits for the product of a piece on its way back, and tells the others. It may take long, so what
 * it had taken up before is finished first. */
static enum tb_status product_await(struct tb_copier *self, struct tb_task *task)
{
    struct tb_pool *pool = pool_get();
    struct tb_job *job = task->job;
    const struct tb_step *step = plan_step(&job->plan, task->step);
    enum tb_status status = TB_OK;
    for (int i = 0; i < TB_CHUNKS; i++)
        if (self->chunk[i].back)
            chunk_settle(self, &self->chunk[i]);
    for (int w = 0; w < TB_STEP_WAITS && status == TB_OK; w++)
        if (step->waits_on[w] >= 0)
            status = tb_dev()->sync(job->state[step->waits_on[w]].event);
    if (status == TB_OK)
        products_look(job, task->step);
    pthread_mutex_lock(&pool->lock);
    self->awaits = false;
    job->state[task->step].landed = task->landed = status == TB_OK;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    return status;
}

/* Has the service thread issue the transfer of a piece. */
static void task_run(struct tb_copier *self, struct tb_task *task)
{
    struct tb_pool *pool = pool_get();
    struct tb_job *job = task->job;
    struct tb_chunk *chunk = &self->chunk[self->turn];
    self->turn = (self->turn + 1) % TB_CHUNKS;
    enum tb_status status = task->awaits ? product_await(self, task) : TB_OK;
    chunk_settle(self, chunk);
    if (status == TB_OK)
        status = self->lost ? TB_DEVICE_FAULT : task_stage(chunk, task);
    const struct tb_step *step = plan_step(&job->plan, task->step);
    const bool back = !is_upload(step->kind);
    const bool lingers = task->lingers;
    /* A long call has one piece a copier on its way, while the next is staged: that is enough for
     * the link, and more would only be a queue that a brief call has to wait through. */
    if (job->class == TB_LONG && !back && !lingers)
        for (int i = 0; i < TB_CHUNKS; i++)
            if (!self->chunk[i].back && !self->chunk[i].lingers)
                chunk_settle(self, &self->chunk[i]);
    pthread_mutex_lock(&pool->lock);
    if (status == TB_OK && job->closed)
        status = TB_TIMEOUT;
    if (status != TB_OK) {
        task_end(task, status, false);
    } else {
        chunk->task = *task;
        chunk->back = back;
        chunk->lingers = lingers;
        chunk->state = TB_CHUNK_ASKED;
        chunk->next = NULL;
        *job->asked_end = chunk;
        job->asked_end = &chunk->next;
        pthread_cond_broadcast(&pool->moved);
    }
    pthread_mutex_unlock(&pool->lock);
}

/* The buffer to wait for: in use for the longest time, of those that will be free. NULL: none. */
static struct tb_chunk *oldest_in_use(struct tb_copier *self)
{
    for (int i = 0; i < TB_CHUNKS; i++) {
        struct tb_chunk *chunk = &self->chunk[(self->turn + i) % TB_CHUNKS];
        if (chunk->state == TB_CHUNK_FLYING || (chunk->state == TB_CHUNK_ASKED && !self->lost))
            return chunk;
    }
    return NULL;
}

static void copier_work(struct tb_copier *self)
{
    struct tb_pool *pool = pool_get();
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        struct tb_task task;
        struct tb_chunk *oldest = oldest_in_use(self);
        if (!self->lost && task_take(self, &task)) {
            self->awaits = task.awaits;
            pthread_mutex_unlock(&pool->lock);
            task_run(self, &task);
            pthread_mutex_lock(&pool->lock);
        } else if (oldest) {
            pthread_mutex_unlock(&pool->lock);
            chunk_settle(self, oldest);
            pthread_mutex_lock(&pool->lock);
        } else if (pool->stop_copiers) {
            break;
        } else {
            pool_idle(pool);
        }
    }
    pthread_mutex_unlock(&pool->lock);
}

/* --- Service threads --- */

/* One transfer between a buffer and the device, behind everything it has to wait for. */
static enum tb_status chunk_issue(struct tb_job *job, struct tb_chunk *chunk)
{
    const struct tb_dev_ops *dev = tb_dev();
    const struct tb_plan *plan = &job->plan;
    const struct tb_task *task = &chunk->task;
    const struct tb_step *step = plan_step(plan, task->step);
    const enum tb_operand_id which = plan_operand(step->kind);
    const size_t elem = plan->elem[which];
    const struct tb_piece piece =
        plan_piece(&step->range, elem, plan_step_chunk(plan, step), task->piece);
    const tb_dptr at = job->slab->base + plan_slot_offset(plan, which, step->slot) +
                       plan_piece_offset(&step->range, elem, &piece);
    struct tb_lane *const lane = stage_of(job, step)->lane;
    enum tb_status status = task->landed ? TB_OK : lane_await(job, task->step);
    if (status == TB_OK && job_abandoned(job)) /* it may have taken long */
        status = TB_TIMEOUT;
    if (status != TB_OK)
        return status;
    struct tb_span *const span = spans_begin(&job->spans, lane, chunk->back ? TRACE_D2H : TRACE_H2D,
                                             server_number(job->server), step_name(step->kind),
                                             plan_piece_bytes(elem, &piece));
    if (chunk->shape.width > 0) /* nothing of a triangle may be left in a piece */
        status = chunk->back ? dev->d2h(lane, chunk->bytes, at, chunk->shape)
                             : dev->h2d(lane, at, chunk->from, chunk->shape);
    spans_end(span, lane);
    if (status != TB_OK)
        return status;
    chunk->lane = lane;
    status = dev->record(chunk->event, lane);
    if (status != TB_OK) /* it is under way, and nothing tells when it ends */
        copier_drain(chunk->of, chunk, status);
    return status;
}

/* Issues the transfer that was asked for first; after a failure it is only let go of. Lock held,
 * and let go meanwhile. False: there is none. */
static bool asked_next(struct tb_job *job)
{
    struct tb_pool *pool = pool_get();
    struct tb_chunk *chunk = job->asked;
    if (!chunk)
        return false;
    job->asked = chunk->next;
    if (!job->asked)
        job->asked_end = &job->asked;
    struct step_state *state = &job->state[chunk->task.step];
    const bool last = state->to_issue == 1;
    enum tb_status status = job->status;
    if (status == TB_OK && job_abandoned(job))
        status = TB_TIMEOUT;
    bool flying = false;
    if (status == TB_OK) {
        pthread_mutex_unlock(&pool->lock);
        status = chunk_issue(job, chunk);
        flying = status == TB_OK;
        if (flying && chunk->of->lost) /* it waits no more, for nothing came for too long */
            copier_drain(chunk->of, chunk, TB_TIMEOUT);
        if (flying && last && state->awaited)
            status = step_mark(job, chunk->task.step);
        pthread_mutex_lock(&pool->lock);
    }
    if (status != TB_OK)
        job_fail(job, status);
    state->to_issue -= flying;
    state->issued = last && status == TB_OK;
    struct tb_task task = chunk->task;
    chunk->state = flying ? TB_CHUNK_FLYING : TB_CHUNK_FREE;
    pthread_cond_broadcast(&chunk->of->issued);
    if (!flying || !chunk->back) /* else it stays with the copier until it is here */
        task_end(&task, status, false);
    if (last)
        pthread_cond_broadcast(&pool->work);
    return true;
}

/* Asks the device for what a step does. */
static enum tb_status step_ask(const struct tb_job *job, const struct tb_step *step,
                               struct tb_lane *lane, const struct tb_gemm_params *params,
                               const struct stage_within *within)
{
    const struct tb_dev_ops *dev = tb_dev();
    enum tb_status status = TB_OK;
    if (step->action == TB_BRING || step->action == TB_STORE)
        return dev->d2d(lane, within->to, within->from, within->shape);
    if (step->action == TB_SCALE_OF)
        status = dev->fill0(lane, params->scratch, job->plan.scratch_bytes);
    return status == TB_OK ? dev->launch(lane, stage_kernel(&job->plan, step), params) : status;
}

static enum tb_status compute_issue(struct tb_server *self, struct tb_job *job, int32_t i)
{
    const struct tb_step *step = plan_step(&job->plan, i);
    const bool within = step->action == TB_BRING || step->action == TB_STORE;
    struct tb_lane *const lane = stage_of(job, step)->lane;
    struct tb_gemm_params params = {0};
    struct stage_within copy = {0};
    if (!job_enter(job))
        return TB_TIMEOUT;
    if (within)
        stage_within(&job->call, &job->plan, step, job->slab->base, &copy);
    else
        params = stage_params(&job->call, &job->plan, step, job->slab->base);
    job_leave(job);
    const bool writes =
        job->plan.in_place[TB_C] && (step->action == TB_PRODUCT || step->action == TB_STORE);
    enum tb_status status = lane_await(job, i);
    if (status == TB_OK && writes) /* before the question: who gives up after it looks at this */
        atomic_store(&job->touched, true);
    if (status == TB_OK && job_abandoned(job)) /* it may have taken long */
        status = TB_TIMEOUT;
    if (status == TB_OK) {
        const int number = server_number(self) * TB_PLAN_LANES + step->lane;
        struct tb_span *const span = spans_begin(&job->spans, lane, TRACE_KERNEL, number,
                                                 within ? "copy" : step_name(step->kind), 0);
        status = step_ask(job, step, lane, &params, &copy);
        spans_end(span, lane);
        if (writes && status == TB_TORN) /* C may have got its beta */
            atomic_store(&job->torn, true);
        else if (writes && status == TB_OK) /* one service thread: the other product comes next */
            atomic_store(&job->torn, !step->commits);
    }
    job->state[i].launched = status == TB_OK;
    return status == TB_OK && job->state[i].awaited ? step_mark(job, i) : status;
}

/* The next product of the job, if it can be issued. Lock held, and let go meanwhile. */
static bool compute_next(struct tb_server *self, struct tb_job *job)
{
    struct tb_pool *pool = pool_get();
    const int32_t count = job->plan.count;
    while (job->compute_at < count && plan_step(&job->plan, job->compute_at)->kind != TB_COMPUTE)
        job->compute_at++;
    const int32_t i = job->compute_at;
    if (i == count || !step_ready(job, i))
        return false;
    pthread_mutex_unlock(&pool->lock);
    const enum tb_status status = compute_issue(self, job, i);
    pthread_mutex_lock(&pool->lock);
    if (status != TB_OK) {
        job_fail(job, status);
        return true;
    }
    job->state[i].issued = true;
    job->compute_at++;
    pthread_cond_broadcast(&pool->work);
    return true;
}

/* Why a job cannot go on, whatever it does. Lock held. */
static enum tb_status engine_status(const struct tb_pool *pool)
{
    if (pool->broken != TB_OK)
        return pool->broken;
    return pool->copiers > 0 && pool->copiers_failed == pool->copiers ? pool->copier_status : TB_OK;
}

/* A C in place: the tiles whose products were launched are there once the lanes are over. */
static enum tb_status tiles_land(struct tb_server *self, struct tb_job *job)
{
    for (int lane = 0; lane < TB_SERVER_LANES; lane++)
        if (!stage_drain(&self->stage[job->class][lane]))
            return TB_DEVICE_FAULT;
    if (!job_enter(job))
        return TB_TIMEOUT;
    for (int32_t i = 0; i < job->plan.count; i++)
        if (job->state[i].launched && plan_step_commits(&job->plan, plan_step(&job->plan, i)))
            job->done[plan_step(&job->plan, i)->piece0] = 1;
    job_leave(job);
    return TB_OK;
}

/* Every product of a C in place is issued: waits for the end. Lock held, and let go meanwhile. */
static void job_land(struct tb_server *self, struct tb_job *job)
{
    pthread_mutex_unlock(&pool_get()->lock);
    const enum tb_status status = tiles_land(self, job);
    pthread_mutex_lock(&pool_get()->lock);
    if (status != TB_OK)
        job_fail(job, status);
    else
        job->left = 0;
}

static bool job_in_place(const struct tb_job *job)
{
    const bool *in_place = job->plan.in_place;
    return in_place[TB_A] || in_place[TB_B] || in_place[TB_C];
}

/* Operands in place are ready when the program's own work on them is. */
static enum tb_status lanes_follow(struct tb_server *self, const struct tb_job *job)
{
    enum tb_status status = TB_OK;
    for (int lane = 0; lane < TB_SERVER_LANES && job_in_place(job) && status == TB_OK; lane++)
        status = tb_dev()->follow(self->stage[job->class][lane].lane);
    return status;
}

/* Issues products until all of C is written, or something fails and the copiers have let go. */
static void job_drive(struct tb_server *self, struct tb_job *job)
{
    struct tb_pool *pool = pool_get();
    const enum tb_status ready = lanes_follow(self, job);
    pthread_mutex_lock(&pool->lock);
    job->served = pool->served;
    if (ready != TB_OK)
        job_fail(job, ready);
    job->server = self;
    job->next = pool->active;
    pool->active = job;
    pthread_cond_broadcast(&pool->work);
    while (job->left > 0 && job->status == TB_OK && !job_abandoned(job)) {
        const enum tb_status status = engine_status(pool);
        if (status != TB_OK)
            job_fail(job, status);
        else if (asked_next(job) || compute_next(self, job)) /* those are few, these may be many */
            continue;
        else if (job->plan.in_place[TB_C] && job->compute_at == job->plan.count)
            job_land(self, job);
        else
            pthread_cond_wait(&pool->moved, &pool->lock);
    }
    struct tb_job **at = &pool->active;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    while (asked_next(job) || (job->busy > 0 && !job_abandoned(job)))
        if (!job->asked && job->busy > 0 && !job_abandoned(job))
            pthread_cond_wait(&pool->moved, &pool->lock);
    job->closed = true;
    pthread_mutex_unlock(&pool->lock);
}

/* After a failure: nothing of the job may be under way when its memory goes to the next one. */
static bool job_drain(struct tb_server *self, const struct tb_job *job)
{
    bool good = true;
    for (int lane = 0; lane < TB_SERVER_LANES; lane++)
        good = stage_drain(&self->stage[job->class][lane]) && good;
    return good;
}

static void job_begun(void *arg)
{
    struct tb_job *job = arg;
    job->begun = true;
    pool_get()->stuck_ns = 0;
    pthread_cond_broadcast(&job->told);
}

/* Lock held. */
static void job_close(struct tb_job *job, enum tb_status status)
{
    if (job->status == TB_OK)
        job->status = status;
    job->over = true;
    if (job->status != TB_BUSY)
        pool_get()->stuck_ns = 0;
    job_leaves_queue(job);
    pthread_cond_broadcast(&job->told);
    job_drop(job);
}

static void job_undrained(struct tb_job *job)
{
    pthread_mutex_lock(&pool_get()->lock);
    job->undrained = true;
    pool_break(TB_DEVICE_FAULT);
    pthread_mutex_unlock(&pool_get()->lock);
}

/* For people: what kernels that decide on the device decided last on each lane. The job is over. */
static void job_tell(const struct tb_job *job)
{
    const struct tb_plan *plan = &job->plan;
    const bool decides = kernel_row(plan->kernel)->family == TB_X3;
    const size_t lanes = decides && plan->scratch_bytes > 0
                             ? (plan->bytes - plan->scratch_offset) / plan->scratch_bytes
                             : 0;
    const struct tb_copy shape = {TB_TOLD_BYTES, 1, TB_TOLD_BYTES, TB_TOLD_BYTES};
    for (int32_t lane = 0; log_wants(3) && lane < (int32_t)lanes; lane++) {
        unsigned char told[TB_TOLD_BYTES] = {0};
        const tb_dptr at = job->slab->base + plan_scratch_offset(plan, lane);
        if (tb_dev()->fetch(told, (const void *)(uintptr_t)at, shape) == TB_OK)
            log_line(3, "%s: lane %d: by %s", job->call.name, (int)lane, kernel_told(told));
    }
}

/* Memory that is idle makes room for lanes too. */
static enum tb_status lanes_get(struct tb_server *self, enum tb_class class)
{
    enum tb_status status = server_lanes(self, class);
    while (status == TB_NO_MEMORY && pool_release())
        status = server_lanes(self, class);
    return status;
}

static void job_run(struct tb_server *self, struct tb_job *job)
{
    struct tb_pool *pool = pool_get();
    pace_follow(&self->pace);
    /* The program may have reset the device: every handle of ours is void then. */
    enum tb_status status = tb_dev()->check();
    if (status != TB_OK)
        engine_break(status);
    else
        status = lanes_get(self, job->class);
    if (status == TB_OK)
        status = pool_take(job->plan.bytes, job->class, &job->give_up, job_begun, job, &job->slab);
    if (status == TB_OK) {
        spans_open(&job->spans, self->stage[job->class][TB_LANE_IN].lane);
        job_drive(self, job);
        status = job->status;
        if (status != TB_OK && !job_abandoned(job) && !job_drain(self, job))
            job_undrained(job);
        else if (status != TB_OK && job->plan.in_place[TB_C] && !job_abandoned(job))
            (void)tiles_land(self, job);
        else if (status == TB_OK)
            job_tell(job);
        if (job_abandoned(job)) {
            spans_drop(&job->spans);
        } else {
            spans_close(&job->spans);
            pool_give(job->slab);
        }
    }
    pthread_mutex_lock(&pool->lock);
    job_close(job, status);
    pthread_mutex_unlock(&pool->lock);
}

/* Takes a job out of the queue; false: it is not there any more. Lock held. */
static bool queue_remove(struct tb_pool *pool, struct tb_job *job)
{
    struct tb_job *before = NULL, *at = pool->queue_head;
    while (at && at != job) {
        before = at;
        at = at->next;
    }
    if (!at)
        return false;
    *(before ? &before->next : &pool->queue_head) = job->next;
    if (pool->queue_tail == job)
        pool->queue_tail = before;
    pool->jobs_queued--;
    job->next = NULL;
    return true;
}

/* The next job; some service threads are always left for brief ones. NULL: none. Lock held. */
static struct tb_job *job_dequeue(struct tb_pool *pool)
{
    struct tb_job *job = pool->queue_head;
    while (job && job->class == TB_LONG && pool->long_running >= TB_SERVERS_LONG)
        job = job->next;
    if (!job)
        return NULL;
    queue_remove(pool, job);
    pool->long_running += job->class == TB_LONG;
    return job;
}

static void server_work(struct tb_server *self)
{
    struct tb_pool *pool = pool_get();
    const enum tb_status status = tb_dev()->bind();
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        struct tb_job *const job = job_dequeue(pool);
        if (status != TB_OK) { /* let the next call try anew */
            if (job) {
                pool->long_running -= job->class == TB_LONG;
                job_close(job, status);
            }
            server_retire(self);
            pthread_mutex_unlock(&pool->lock);
            return;
        }
        if (job) {
            const enum tb_class class = job->class;
            pthread_mutex_unlock(&pool->lock);
            job_run(self, job);
            pthread_mutex_lock(&pool->lock);
            pool->long_running -= class == TB_LONG;
        } else if (pool->stop) {
            break;
        } else {
            pool->servers_idle++;
            pthread_cond_wait(&pool->queued, &pool->lock);
            pool->servers_idle--;
        }
    }
    pthread_mutex_unlock(&pool->lock);
}

/* --- The caller --- */

/* Generous: a slow link and a small device, shared with others. */
static int64_t estimate_ns(const struct tb_call *call, const struct tb_plan *plan)
{
    return (int64_t)((plan->bytes_in + plan->bytes_out) / 2 + call_flops(call) / 200);
}

/* Takes a job back that no service thread has; false: one has it. Lock held. */
static bool job_unqueue(struct tb_job *job)
{
    if (!queue_remove(pool_get(), job))
        return false;
    job_leaves_queue(job);
    job->refs--; /* the caller has another */
    return true;
}

/* Lock held. */
static enum tb_status job_submit(struct tb_job *job)
{
    struct tb_pool *pool = pool_get();
    const enum tb_status status = pool_start(pool, copier_work);
    if (status != TB_OK)
        return status;
    *(pool->queue_head ? &pool->queue_tail->next : &pool->queue_head) = job;
    pool->queue_tail = job;
    pool->jobs_queued++;
    job->refs++;
    atomic_fetch_add(&ahead_ns, job->ahead);
    atomic_fetch_add(&ahead_calls, 1);
    if (!pool_serve(pool, server_work)) {
        job_unqueue(job);
        return TB_NO_THREAD;
    }
    pthread_cond_signal(&pool->queued);
    return TB_OK;
}

/* Gives a job up that is still in the queue or waits for memory. Lock held. */
static void job_withdraw(struct tb_job *job)
{
    if (job_unqueue(job))
        return;
    job->give_up = true;
    pthread_cond_broadcast(&pool_get()->freed);
}

/* Leaves everything as it is, for ever, and waits only for copies that are being made. Lock held.
 */
static void job_abandon(struct tb_job *job)
{
    struct tb_pool *pool = pool_get();
    atomic_fetch_or(&job->guard, abandoned_bit);
    for (struct tb_job *other = pool->active; other; other = other->next)
        pthread_cond_broadcast(&other->told); /* what hangs here may hang there: leave too */
    pool_break(TB_DEVICE_OFF);
    while (atomic_load(&job->guard) != abandoned_bit)
        pthread_cond_wait(&job->told, &pool->lock);
}

/* A job is given up before it began. Where no other was under way, and jobs have waited for long
 * without any having begun, the device stands still: every further call would wait in vain. Only
 * time counts in which somebody waited, once, and of one wait no more than its limit: the process
 * may have been stopped. Lock held. */
static bool standstill(struct tb_pool *pool, int64_t since)
{
    const int64_t now = pool_now_ns();
    if (pool->active)
        return false;
    const int64_t from = since > pool->stuck_until ? since : pool->stuck_until;
    const int64_t waited = now - from;
    pool->stuck_ns += waited < exec_queue_ns ? waited : exec_queue_ns;
    pool->stuck_until = now;
    return pool->stuck_ns > exec_standstill_ns;
}

static enum tb_status job_wait(struct tb_job *job, int64_t patience_ns)
{
    const int64_t turn_most = 1000000000;
    struct tb_pool *pool = pool_get();
    const int64_t since = pool_now_ns(), queue_until = since + exec_queue_ns;
    while (!job->begun && !job->over)
        if (!pool_wait_until(&job->told, &pool->lock, queue_until) && !job->begun && !job->over) {
            job_withdraw(job);
            return standstill(pool, since) ? TB_TIMEOUT : TB_BUSY;
        }
    /* In turns, of which each counts no more than its length: the process may have been stopped. */
    while (!job->over) {
        const int64_t from = pool_now_ns(),
                      turn = patience_ns < turn_most ? patience_ns : turn_most;
        pool_wait_until(&job->told, &pool->lock, from + turn);
        const int64_t waited = pool_now_ns() - from;
        patience_ns -= waited < turn ? waited : turn;
        if (!job->over && (patience_ns <= 0 || pool->broken == TB_DEVICE_OFF)) {
            job_abandon(job);
            return TB_TIMEOUT;
        }
    }
    return job->status;
}

/* *unsure: products may have been added to a C in place, or may still be, and nobody can tell. */
static enum tb_status run_served(const struct tb_call *call, const struct tb_plan *plan,
                                 unsigned char *done, bool *unsure)
{
    struct tb_pool *pool = pool_get();
    struct tb_job *job = job_open(call, plan, done);
    if (!job)
        return TB_NO_MEMORY;
    pthread_mutex_lock(&pool->lock);
    enum tb_status status = job_submit(job);
    if (status == TB_OK)
        status = job_wait(job, exec_watchdog_ns + 10 * estimate_ns(call, plan));
    *unsure =
        plan->in_place[TB_C] && atomic_load(&job->touched) &&
        (job->undrained || atomic_load(&job->torn) || (status == TB_TIMEOUT && job_abandoned(job)));
    job_drop(job);
    pthread_mutex_unlock(&pool->lock);
    return status;
}

/* --- Small calls, on the caller's stack --- */

/* The whole panel as one piece, at its place in the image of the workspace. */
static struct tb_piece whole_panel(const struct tb_panel *range)
{
    return (struct tb_piece){.cols = range->items * range->cols, .rows = range->rows};
}

static void kit_gather(const struct tb_call *call, const struct tb_plan *plan, char *image)
{
    for (int32_t i = 0; i < plan->count; i++) {
        const struct tb_step *step = plan_step(plan, i);
        if (!is_upload(step->kind))
            continue;
        const enum tb_operand_id which = plan_operand(step->kind);
        const struct tb_piece piece = whole_panel(&step->range);
        stage_gather(call, &step->range, which, plan->elem[which], &piece,
                     image + plan->slots[which].offset);
    }
}

static bool reads_c(const struct tb_plan *plan)
{
    for (int32_t i = 0; i < plan->count; i++)
        if (plan_step(plan, i)->kind == TB_UPLOAD_C)
            return true;
    return false;
}

static enum tb_status kit_products(const struct tb_call *call, const struct tb_plan *plan,
                                   struct tb_kit *kit)
{
    enum tb_status status = TB_OK;
    for (int32_t i = 0; i < plan->count && status == TB_OK; i++) {
        const struct tb_step *step = plan_step(plan, i);
        if (step->kind != TB_COMPUTE)
            continue;
        const struct tb_gemm_params params = stage_params(call, plan, step, kit->device);
        status = tb_dev()->launch(kit->lane, plan->kernel, &params);
    }
    return status;
}

static enum tb_status kit_compute(const struct tb_call *call, const struct tb_plan *plan,
                                  struct tb_kit *kit)
{
    const struct tb_dev_ops *dev = tb_dev();
    const struct tb_slots *c = &plan->slots[TB_C];
    const size_t in = reads_c(plan) ? plan->bytes : c->offset;
    const struct tb_copy up = {.width = in, .rows = 1, .dst_pitch = in, .src_pitch = in};
    const struct tb_copy down = {
        .width = c->bytes, .rows = 1, .dst_pitch = c->bytes, .src_pitch = c->bytes};
    enum tb_status status = dev->bind();
    if (status == TB_OK)
        status = dev->h2d(kit->lane, kit->device, kit->host, up);
    if (status == TB_OK)
        status = kit_products(call, plan, kit);
    if (status == TB_OK)
        status = dev->d2h(kit->lane, kit->host + TB_INLINE_BYTES, kit->device + c->offset, down);
    if (status == TB_OK)
        status = dev->record(kit->event, kit->lane);
    if (status == TB_OK)
        status = dev->sync(kit->event);
    if (status != TB_OK && !lane_drain(kit->lane, kit->event))
        kit->lost = true;
    return status;
}

static enum tb_status run_inline(const struct tb_call *call, const struct tb_plan *plan,
                                 struct tb_kit *kit)
{
    const struct tb_step *product = NULL;
    for (int32_t i = 0; i < plan->count; i++)
        if (plan_step(plan, i)->kind == TB_COMPUTE)
            product = plan_step(plan, i);
    enum tb_status status = kit->lost ? TB_DEVICE_OFF : kit_open(kit);
    if (status == TB_OK) {
        const int64_t start = trace_start();
        kit_gather(call, plan, kit->host);
        status = kit_compute(call, plan, kit);
        trace_span(start, "caller", "small product", NULL);
    }
    if (status == TB_OK) {
        const struct tb_piece piece = whole_panel(&product->range);
        stage_scatter(call, &product->range, plan->elem[TB_C], &piece, kit->host + TB_INLINE_BYTES);
    }
    return status;
}

bool exec_broken(void)
{
    struct tb_pool *pool = pool_get();
    pthread_mutex_lock(&pool->lock);
    const bool broken = pool->broken != TB_OK;
    pthread_mutex_unlock(&pool->lock);
    return broken;
}

enum tb_status exec_run(const struct tb_call *call, const struct tb_plan *plan,
                        struct tb_undone *undone, struct tb_exec_stats *stats)
{
    struct tb_pool *pool = pool_get();
    const int64_t start = pool_now_ns();
    enum tb_status status = TB_OK;
    struct tb_call product = *call;
    call_as_product(&product);
    *undone = (struct tb_undone){.all = true, .plan = plan};
    *stats = (struct tb_exec_stats){.bytes_in = plan->bytes_in, .bytes_out = plan->bytes_out};
    const pid_t owner = pool->pid;
    if (owner != 0 && owner != getpid())
        return TB_FORKED;
    if (plan->on_caller && !atomic_exchange(&pool->kit.taken, true)) {
        status = run_inline(&product, plan, &pool->kit);
        atomic_store(&pool->kit.taken, false);
        undone->all = status != TB_OK;
    } else {
        int cancel;
        undone->done = calloc((size_t)plan->pieces, 1);
        if (!undone->done)
            return TB_NO_MEMORY;
        /* A caller that is cancelled while it waits would take the lock along. */
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
        status = run_served(&product, plan, undone->done, &undone->unsure);
        pthread_setcancelstate(cancel, &cancel);
        undone->all = status != TB_OK && !memchr(undone->done, 1, (size_t)plan->pieces);
    }
    if (status == TB_OK)
        undone->step = plan->count;
    stats->ns = pool_now_ns() - start;
    return status;
}
