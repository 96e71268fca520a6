/* SPDX-License-Identifier: BSD-3-Clause
 * The virtual clock. The copier that is free first acts next; what it issues gets its times at
 * once, since all it waits for was issued before. */
#include "clock.h"

#include <stdlib.h>
#include <string.h>

static const double never = 1e300;

struct interval {
    double from, to;
};

/* A resource that serves one at a time; whoever comes first in time takes the first gap. */
struct server {
    struct interval *busy; /* sorted */
    size_t count, room;
};

struct step_times {
    int64_t next, pieces; /* to issue */
    double issued, done;
    double landed; /* downloads: the product is known to be over */
};

struct job {
    const struct tb_plan *plan;
    double start, served; /* bytes */
    bool brief;
    struct step_times *step;
    int32_t upload_at, download_at, compute_at;
    double flops_per_step_unit, end;
};

struct chunk {
    double until; /* its transfer is over */
    bool lingers, upload;
    double scatter;
    struct job *job; /* of a download */
};

struct copier {
    double now, lane[2];
    double awaits; /* the end of a product */
    bool swift;
    struct chunk chunk[2];
    int turn;
};

struct world {
    const struct clock_machine *machine;
    struct server in, out, device;
    struct job job[CLOCK_CALLS_MAX];
    struct copier copier[64];
    double served;
    int calls, sent;
};

static double later(double x, double y)
{
    return x > y ? x : y;
}

/* The first gap of that length from `ready` on. */
static struct interval serve(struct server *s, double ready, double length)
{
    size_t at = s->count;
    while (at > 0 && s->busy[at - 1].to > ready)
        at--;
    double start = ready;
    while (at < s->count && s->busy[at].from < start + length)
        start = later(start, s->busy[at++].to);
    if (s->count == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        s->busy = realloc(s->busy, s->room * sizeof *s->busy);
        if (!s->busy)
            abort();
    }
    memmove(s->busy + at + 1, s->busy + at, (s->count - at) * sizeof *s->busy);
    s->busy[at] = (struct interval){start, start + length};
    s->count++;
    return s->busy[at];
}

/* Between the blocks of whatever runs; what it takes from the others is too little to count. */
static struct interval serve_first(const struct server *s, double ready, double length)
{
    double start = ready;
    for (size_t i = 0; i < s->count; i++)
        if (s->busy[i].from <= ready && s->busy[i].to > ready)
            start = s->busy[i].to;
    return (struct interval){start, start + length};
}

static bool is_upload(enum tb_step_kind kind)
{
    return kind == TB_UPLOAD_A || kind == TB_UPLOAD_B || kind == TB_UPLOAD_C;
}

/* When all the step waits for is issued; done. */
static double waits(const struct job *job, int32_t i, bool done)
{
    const struct tb_step *step = plan_step(job->plan, i);
    double time = 0;
    for (int w = 0; w < TB_STEP_WAITS; w++)
        if (step->waits_on[w] >= 0) {
            const struct step_times *before = &job->step[step->waits_on[w]];
            time = later(time, done ? before->done : before->issued);
        }
    return time;
}

/* Products are issued in order as soon as they can be. */
static void compute_all(struct world *world, struct job *job)
{
    const struct tb_plan *plan = job->plan;
    for (; job->compute_at < plan->count; job->compute_at++) {
        const int32_t i = job->compute_at;
        const struct tb_step *step = plan_step(plan, i);
        if (step->kind != TB_COMPUTE)
            continue;
        const double issue = waits(job, i, false);
        if (issue >= never)
            return;
        const double flops = job->flops_per_step_unit * (double)step->range.items *
                             (double)step->range.rows * (double)step->range.cols * (double)step->k;
        const double length = flops / world->machine->kernel + world->machine->operation;
        const struct interval run =
            (job->brief ? serve_first(&world->device, waits(job, i, true), length)
                        : serve(&world->device, waits(job, i, true), length));
        job->step[i].issued = issue;
        job->step[i].done = run.to;
        job->end = later(job->end, run.to);
    }
}

static bool next_of(struct job *job, bool upload, double now, int32_t *step)
{
    int32_t *at = upload ? &job->upload_at : &job->download_at;
    const int32_t count = job->plan->count;
    while (*at < count && (upload ? !is_upload(plan_step(job->plan, *at)->kind)
                                  : plan_step(job->plan, *at)->kind != TB_DOWNLOAD))
        ++*at;
    *step = *at;
    return *at < count && job->start <= now && waits(job, *at, false) <= now;
}

static bool step_lingers(const struct job *job, int32_t i)
{
    const struct tb_step *step = plan_step(job->plan, i);
    for (int w = 0; w < TB_STEP_WAITS; w++)
        if (step->waits_on[w] >= 0 && plan_step(job->plan, step->waits_on[w])->kind == TB_COMPUTE)
            return !job->brief;
    return false;
}

static bool suits(const struct world *world, const struct copier *self, const struct job *job)
{
    if (self->swift)
        return job->brief;
    if (!job->brief || !world->copier[0].swift)
        return true;
    return !(self->chunk[0].until > 0 && self->chunk[0].lingers) &&
           !(self->chunk[1].until > 0 && self->chunk[1].lingers);
}

enum wish { IN, BACK, BACK_MEANWHILE };

static bool any_to_send(const struct world *world, double now)
{
    for (int c = 0; c < world->calls; c++) {
        const struct job *job = &world->job[c];
        for (int32_t i = job->upload_at; job->start <= now && i < job->plan->count; i++)
            if (is_upload(plan_step(job->plan, i)->kind))
                return true;
    }
    return false;
}

/* The rule of exec.c: nobody waits for a product once there is nothing left to send, unless copiers
 * are few. */
static bool step_awaits(const struct world *world, const struct job *job, int32_t i, double now)
{
    return !job->brief && job->step[i].landed > now &&
           (any_to_send(world, now) || !world->copier[0].swift);
}

/* Who waited for the product of a download looks at those behind it. */
static void products_look(struct job *job, int32_t i, double now)
{
    for (i++; i < job->plan->count; i++) {
        if (plan_step(job->plan, i)->kind != TB_DOWNLOAD)
            continue;
        if (waits(job, i, false) > now || waits(job, i, true) > now)
            return;
        if (now < job->step[i].landed)
            job->step[i].landed = now;
    }
}

/* The rule of exec.c: a few copiers wait for products while there is something to send. */
static bool may_await(const struct world *world, double now, bool meanwhile)
{
    int waiting = 0;
    for (int c = 0; c < world->machine->copiers; c++)
        waiting += world->copier[c].awaits > now;
    return (meanwhile ? 6 : 2) * waiting < world->machine->copiers;
}

static struct job *pick(struct world *world, const struct copier *self, enum wish wish, bool take)
{
    struct job *best = NULL;
    int32_t step;
    for (int i = 0; i < world->calls; i++) {
        struct job *job = &world->job[i];
        if (!next_of(job, wish == IN, self->now, &step) || !suits(world, self, job))
            continue;
        if (wish != IN && step_awaits(world, job, step, self->now) &&
            !may_await(world, self->now, wish == BACK_MEANWHILE))
            continue;
        if (take && job->served < world->served)
            job->served = world->served;
        if (!best || job->served < best->served)
            best = job;
    }
    if (best && take)
        world->served = best->served;
    return best;
}

/* The rule of exec.c: uploads first, but some pieces may always be on their way back. */
static struct job *choose(struct world *world, const struct copier *self, bool *upload)
{
    enum { PATIENCE = 32 };
    const int copiers = world->machine->copiers;
    *upload = pick(world, self, IN, false) != NULL;
    if (!*upload)
        return pick(world, self, BACK, true);
    int fetching = 0;
    for (int c = 0; c < copiers; c++)
        for (int i = 0; i < 2; i++)
            fetching += world->copier[c].chunk[i].job != NULL;
    if ((3 * fetching < 2 * copiers || world->sent >= PATIENCE) &&
        pick(world, self, BACK_MEANWHILE, false)) {
        world->sent = 0;
        *upload = false;
        return pick(world, self, BACK_MEANWHILE, true);
    }
    world->sent++;
    return pick(world, self, IN, true);
}

static void settle(struct copier *self, struct chunk *chunk)
{
    self->now = later(self->now, chunk->until);
    if (chunk->job) {
        self->now += chunk->scatter;
        chunk->job->end = later(chunk->job->end, self->now);
    }
    *chunk = (struct chunk){0};
}

static void carry(struct world *world, struct copier *self, struct job *job, bool upload)
{
    const struct clock_machine *machine = world->machine;
    const struct tb_plan *plan = job->plan;
    const int32_t i = upload ? job->upload_at : job->download_at;
    const struct tb_step *step = plan_step(plan, i);
    struct step_times *times = &job->step[i];
    const size_t elem = plan->elem[plan_operand(step->kind)];
    const struct tb_piece piece =
        plan_piece(&step->range, elem, plan_step_chunk(plan, step), times->next++);
    const double bytes = (double)plan_piece_bytes(elem, &piece);
    struct chunk *chunk = &self->chunk[self->turn];
    self->turn ^= 1;
    if (times->next == times->pieces)
        ++*(upload ? &job->upload_at : &job->download_at);
    if (!upload && step_awaits(world, job, i, self->now)) {
        for (int x = 0; x < 2; x++)
            if (self->chunk[x].job)
                settle(self, &self->chunk[x]);
        self->now = self->awaits = later(self->now, waits(job, i, true));
        if (self->now < times->landed)
            times->landed = self->now;
        products_look(job, i, self->now);
    }
    settle(self, chunk);
    if (upload)
        self->now += bytes / machine->stage;
    const bool lingers = upload ? step_lingers(job, i) : !job->brief && times->landed > self->now;
    struct chunk *const other = &self->chunk[self->turn];
    if (upload && !job->brief && !lingers && other->upload && !other->lingers)
        settle(self, other);
    const struct interval way =
        serve(upload ? &world->in : &world->out,
              later(self->lane[upload], later(self->now, waits(job, i, true))),
              bytes / (upload ? machine->link_in : machine->link_out) + machine->operation);
    *chunk = (struct chunk){.until = way.to, .lingers = lingers, .upload = upload};
    self->lane[upload] = way.to;
    job->served += bytes;
    if (!upload) {
        chunk->job = job;
        chunk->scatter = bytes / machine->stage;
    }
    times->done = later(times->done, way.to);
    if (times->next == times->pieces) {
        times->issued = self->now;
        compute_all(world, job);
    }
}

/* False: the copier has nothing to do, and nothing under way. */
static bool act(struct world *world, struct copier *self)
{
    bool upload;
    struct job *job = choose(world, self, &upload);
    if (job) {
        carry(world, self, job, upload);
        return true;
    }
    for (int i = 0; i < 2; i++) {
        struct chunk *chunk = &self->chunk[self->turn ^ i];
        if (chunk->until > 0) {
            settle(self, chunk);
            return true;
        }
    }
    return false;
}

static double busy(const struct server *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->count; i++)
        sum += s->busy[i].to - s->busy[i].from;
    return sum;
}

static double overlap(const struct server *x, const struct server *y)
{
    double sum = 0;
    for (size_t i = 0, j = 0; i < x->count && j < y->count;) {
        const double from = later(x->busy[i].from, y->busy[j].from);
        const bool first = x->busy[i].to < y->busy[j].to;
        const double to = first ? x->busy[i].to : y->busy[j].to;
        sum += to > from ? to - from : 0;
        *(first ? &i : &j) += 1;
    }
    return sum;
}

static void job_open(struct job *job, const struct clock_call *call)
{
    const struct tb_plan *const plan = call->plan;
    double units = 0;
    *job = (struct job){.plan = plan,
                        .start = call->start,
                        .brief = call->brief,
                        .step = calloc((size_t)plan->count, sizeof *job->step)};
    if (!job->step)
        abort();
    for (int32_t i = 0; i < plan->count; i++) {
        const struct tb_step *step = plan_step(plan, i);
        job->step[i].issued = job->step[i].landed = never;
        if (step->kind == TB_COMPUTE)
            units += (double)step->range.items * (double)step->range.rows *
                     (double)step->range.cols * (double)step->k;
        else
            job->step[i].pieces = plan_pieces(&step->range, plan->elem[plan_operand(step->kind)],
                                              plan_step_chunk(plan, step));
    }
    job->flops_per_step_unit = call->flops / units;
}

/* The copier that is free first; one that is idle follows the others. */
static void turn_wheel(struct world *world)
{
    for (;;) {
        struct copier *self = NULL;
        double next = never;
        for (int c = 0; c < world->machine->copiers; c++)
            if (!self || world->copier[c].now < self->now)
                self = &world->copier[c];
        if (self->now >= never)
            return;
        if (act(world, self))
            continue;
        for (int c = 0; c < world->machine->copiers; c++)
            if (world->copier[c].now > self->now && world->copier[c].now < next)
                next = world->copier[c].now;
        for (int i = 0; i < world->calls; i++)
            if (world->job[i].start > self->now && world->job[i].start < next)
                next = world->job[i].start;
        self->now = next;
    }
}

struct clock_times clock_run(const struct clock_call calls[], int count,
                             const struct clock_machine *machine, double finish[])
{
    struct clock_times times = {0};
    struct world world = {.machine = machine, .calls = count};
    for (int i = 0; i < count; i++)
        job_open(&world.job[i], &calls[i]);
    for (int c = 0; c < machine->copiers; c++)
        world.copier[c].swift = machine->copiers >= 6 && c % 6 == 0;
    turn_wheel(&world);
    for (int i = 0; i < count; i++) {
        times.total = later(times.total, world.job[i].end);
        if (finish)
            finish[i] = world.job[i].end;
        free(world.job[i].step);
    }
    times.in = busy(&world.in);
    times.kernel = busy(&world.device);
    times.out = busy(&world.out);
    times.in_kernel = overlap(&world.in, &world.device);
    times.in_out = overlap(&world.in, &world.out);
    times.ideal = later(times.kernel, later(times.in, times.out));
    free(world.in.busy);
    free(world.out.busy);
    free(world.device.busy);
    return times;
}
