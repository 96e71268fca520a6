/* SPDX-License-Identifier: BSD-3-Clause
 * Device memory, threads and staging buffers that all offloaded calls share. Decides how many
 * threads there are and how much memory is held; knows nothing of products. Called by exec.c. A
 * forked child does not get here: device.c keeps it off the device. One lock (struct tb_pool),
 * never held while the device is called. */
#include "pool.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
#include "conf.h"

enum { STACK_BYTES = 1 << 20 };
int64_t pool_idle_ns = INT64_C(10000000000);

static struct tb_pool pool;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* --- Time and locks --- */

int64_t pool_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void pool_cond_open(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

bool pool_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_ns)
{
    const struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    return pthread_cond_timedwait(cond, lock, &until) == 0;
}

/* Held for moments, and wanted by many threads: whoever finds it taken tries again for a moment
 * before it sleeps. */
static void lock_open(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(lock, &attr);
    pthread_mutexattr_destroy(&attr);
}

static void pool_reset(void)
{
    memset(&pool, 0, sizeof pool);
    pool.budget = SIZE_MAX;
    lock_open(&pool.lock);
    pool_cond_open(&pool.work);
    pool_cond_open(&pool.queued);
    pool_cond_open(&pool.moved);
    pool_cond_open(&pool.freed);
}

struct tb_pool *pool_get(void)
{
    pthread_once(&once, pool_reset);
    return &pool;
}

void pool_forget(void)
{
    /* A lock that some thread of the parent held at the fork is made anew with the rest. */
    pthread_once(&once, pool_reset);
    pool_reset();
    pace_forget();
}

/* --- How many copiers --- */

static int mpi_local_ranks(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                                        "PMI_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = secure_getenv(names[i]);
        const long ranks = text ? strtol(text, NULL, 10) : 0;
        if (ranks > 0 && ranks < 100000)
            return (int)ranks;
    }
    return 1;
}

/* CPUs of the quota in the cgroup (version 2) of the process, or `cpus` where there is none. */
static int cgroup_cpus(int cpus)
{
    char line[512] = "", path[640], quota[32] = "";
    long period = 0;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file) && strncmp(line, "0::", 3) != 0)
        line[0] = '\0';
    if (file)
        fclose(file);
    line[strcspn(line, "\n")] = '\0';
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", line[0] ? line + 3 : "");
    file = fopen(path, "re");
    if (!file)
        file = fopen("/sys/fs/cgroup/cpu.max", "re"); /* a container sees its own as the root */
    const int got = file ? fscanf(file, "%31s %ld", quota, &period) : 0;
    if (file)
        fclose(file);
    const long us = strtol(quota, NULL, 10);
    if (got != 2 || us <= 0 || period <= 0)
        return cpus;
    const long allowed = (us + period - 1) / period;
    return allowed < cpus ? (int)allowed : cpus;
}

/* The caller may be pinned to one CPU; the process as a whole seldom is. */
static bool affinity_all(cpu_set_t *all)
{
    cpu_set_t one;
    CPU_ZERO(all);
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        const long tid = strtol(entry->d_name, NULL, 10);
        if (tid > 0 && sched_getaffinity((pid_t)tid, sizeof one, &one) == 0)
            CPU_OR(all, all, &one);
    }
    if (tasks)
        closedir(tasks);
    return CPU_COUNT(all) > 0 || sched_getaffinity(0, sizeof *all, all) == 0;
}

static int affinity_cpus(void)
{
    cpu_set_t all;
    return affinity_all(&all) ? CPU_COUNT(&all) : 1;
}

int pool_cpus(void)
{
    const int cpus = cgroup_cpus(affinity_cpus()) / mpi_local_ranks();
    return cpus < 1 ? 1 : cpus;
}

int pool_copiers(int (*cpus)(void))
{
    int want = conf_get()->threads;
    if (want <= 0) {
        want = cpus();
        want = want > TB_COPIERS_AUTO ? TB_COPIERS_AUTO : want;
    }
    return want > TB_COPIERS_MAX ? TB_COPIERS_MAX : want;
}

/* --- Threads --- */

int thread_begin(pthread_t *thread, pthread_attr_t *attr, void *(*body)(void *), void *arg)
{
    sigset_t all, before;
    cpu_set_t cpus;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = affinity_all(&cpus) ? pthread_attr_setaffinity_np(attr, sizeof cpus, &cpus) : 0;
    error = error ? error : pthread_create(thread, attr, body, arg);
    if (error && pthread_attr_setaffinity_np(attr, 0, &cpus) == 0) /* it may be forbidden */
        error = pthread_create(thread, attr, body, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static bool thread_start(pthread_t *thread, void *(*body)(void *), void *arg)
{
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0)
        return false;
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    const bool ok = thread_begin(thread, &attr, body, arg) == 0;
    pthread_attr_destroy(&attr);
    return ok;
}

static void (*copier_life)(struct tb_copier *);
static void (*server_life)(struct tb_server *);

static void chunk_close(struct tb_chunk *chunk)
{
    const struct tb_dev_ops *dev = tb_dev();
    if (chunk->event)
        dev->event_close(chunk->event);
    if (chunk->bytes) {
        dev->unpin(chunk->bytes);
        munmap(chunk->bytes, TB_CHUNK_BYTES);
    }
    *chunk = (struct tb_chunk){0};
}

static enum tb_status pinned_open(size_t size, char **out)
{
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED)
        return TB_NO_MEMORY;
    /* Else a fork would make the next write here move to a page the device does not know. */
    madvise(bytes, size, MADV_DONTFORK);
    const enum tb_status status = tb_dev()->pin(bytes, size);
    if (status != TB_OK)
        munmap(bytes, size);
    else
        *out = bytes;
    return status;
}

static enum tb_status chunk_open(struct tb_chunk *chunk)
{
    const enum tb_status status = pinned_open(TB_CHUNK_BYTES, &chunk->bytes);
    return status == TB_OK ? tb_dev()->event_open(&chunk->event) : status;
}

static void copier_close(struct tb_copier *self)
{
    for (int i = 0; i < TB_CHUNKS; i++)
        chunk_close(&self->chunk[i]);
}

static enum tb_status copier_open(struct tb_copier *self)
{
    enum tb_status status = tb_dev()->bind();
    for (int i = 0; i < TB_CHUNKS && status == TB_OK; i++) {
        status = chunk_open(&self->chunk[i]);
        self->chunk[i].of = self;
    }
    if (status != TB_OK)
        copier_close(self);
    return status;
}

/* Naps of a thread of ours end when they are to, not up to 50 us later. */
static void thread_open(void)
{
    (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
}

static void *copier_main(void *arg)
{
    struct tb_copier *self = arg;
    thread_open();
    const enum tb_status status = copier_open(self);
    pthread_mutex_lock(&pool.lock);
    self->state = status == TB_OK ? TB_COPIER_UP : TB_COPIER_FAILED;
    if (status != TB_OK) {
        pool.copiers_failed++;
        pool.copier_status = status;
    }
    pthread_cond_broadcast(&pool.moved);
    pthread_cond_broadcast(&pool.work); /* who carries what depends on how many there are */
    pthread_mutex_unlock(&pool.lock);
    if (status == TB_OK)
        copier_life(self);
    return NULL;
}

enum tb_status pool_start(struct tb_pool *p, void (*copy)(struct tb_copier *self))
{
    if (p->broken != TB_OK)
        return p->broken;
    if (p->copiers > 0 && p->copiers_failed == p->copiers) {
        /* None came up the last time. Their threads are over or about to be. */
        for (int i = 0; i < p->copiers; i++)
            pthread_detach(p->copier[i].thread);
        memset(p->copier, 0, sizeof p->copier);
        p->copiers = p->copiers_failed = 0;
    }
    if (p->copiers > 0)
        return TB_OK;
    if (!copier_life)
        copier_life = copy; /* the same for ever */
    p->pid = getpid();
    const int want = pool_copiers(pool_cpus);
    for (int i = 0; i < want; i++) {
        struct tb_copier *self = &p->copier[i];
        self->index = i;
        self->state = TB_COPIER_STARTING;
        pool_cond_open(&self->issued);
        if (!thread_start(&self->thread, copier_main, self)) {
            self->state = TB_COPIER_NONE;
            break;
        }
        p->copiers++;
    }
    return p->copiers > 0 ? TB_OK : TB_NO_THREAD;
}

static void stage_close(struct tb_stage *stage)
{
    for (int i = 0; i < TB_RING && stage->event[i]; i++)
        tb_dev()->event_close(stage->event[i]);
    if (stage->lane)
        tb_dev()->lane_close(stage->lane);
    *stage = (struct tb_stage){0};
}

static enum tb_status stage_open(struct tb_stage *stage, bool high_priority)
{
    const enum tb_status status = tb_dev()->lane_open(&stage->lane, high_priority);
    return status == TB_OK ? tb_dev()->event_open(&stage->event[0]) : status; /* for the end */
}

static void lanes_close(struct tb_server *self, enum tb_class class)
{
    for (int lane = 0; lane < TB_SERVER_LANES; lane++)
        stage_close(&self->stage[class][lane]);
}

enum tb_status server_lanes(struct tb_server *self, enum tb_class class)
{
    enum tb_status status = TB_OK;
    if (self->stage[class][0].lane)
        return TB_OK;
    /* A brief call's products go in between the blocks of a long one's. */
    for (int lane = 0; lane < TB_SERVER_LANES && status == TB_OK; lane++)
        status = stage_open(&self->stage[class][lane], class == TB_BRIEF || lane >= TB_LANE_IN);
    if (status != TB_OK)
        lanes_close(self, class);
    return status;
}

enum tb_status stage_mark(struct tb_stage *stage, struct tb_event **out)
{
    struct tb_event **event = &stage->event[stage->turn % TB_RING];
    enum tb_status status = *event ? TB_OK : tb_dev()->event_open(event);
    if (status == TB_OK) {
        stage->turn++; /* so that the first that is not open ends the list */
        status = tb_dev()->record(*event, stage->lane);
    }
    *out = *event;
    return status;
}

void server_retire(struct tb_server *self)
{
    pthread_detach(self->thread);
    self->alive = false;
}

static void *server_main(void *arg)
{
    struct tb_server *self = arg;
    thread_open();
    server_life(self);
    return NULL;
}

bool pool_serve(struct tb_pool *p, void (*serve)(struct tb_server *self))
{
    struct tb_server *dead = NULL;
    bool any = false;
    if (!server_life)
        server_life = serve; /* the same for ever */
    for (struct tb_server *self = p->server; self < p->server + TB_SERVERS_MAX; self++) {
        any = any || self->alive;
        dead = dead || self->alive ? dead : self;
    }
    if (dead && p->jobs_queued > p->servers_idle)
        dead->alive = thread_start(&dead->thread, server_main, dead);
    return any || (dead && dead->alive);
}

/* --- The kit of small calls --- */

static void kit_close(struct tb_kit *kit)
{
    const struct tb_dev_ops *dev = tb_dev();
    if (kit->event)
        dev->event_close(kit->event);
    if (kit->lane)
        dev->lane_close(kit->lane);
    if (kit->device)
        dev->free(kit->device);
    if (kit->host) {
        dev->unpin(kit->host);
        munmap(kit->host, 2 * TB_INLINE_BYTES);
    }
    kit->event = NULL;
    kit->lane = NULL;
    kit->device = 0;
    kit->host = NULL;
    kit->ready = false;
}

enum tb_status kit_open(struct tb_kit *kit)
{
    const struct tb_dev_ops *dev = tb_dev();
    if (kit->ready)
        return TB_OK;
    pool.pid = getpid();
    enum tb_status status = dev->bind();
    if (status == TB_OK)
        status = dev->lane_open(&kit->lane, false);
    if (status == TB_OK)
        status = dev->event_open(&kit->event);
    if (status == TB_OK)
        status = dev->alloc(TB_INLINE_BYTES, &kit->device);
    if (status == TB_OK)
        status = pinned_open(2 * TB_INLINE_BYTES, &kit->host);
    kit->ready = status == TB_OK;
    if (!kit->ready)
        kit_close(kit);
    return status;
}

/* --- Device memory --- */

size_t pool_budget(const struct tb_caps *caps)
{
    struct tb_pool *p = pool_get();
    const struct tb_conf_memory *memory = &conf_get()->memory;
    pthread_mutex_lock(&p->lock);
    if (p->budget == SIZE_MAX) {
        const size_t share = (size_t)((double)caps->mem_free * memory->percent / 100);
        p->budget = memory->bytes && memory->bytes < caps->mem_free ? memory->bytes
                    : memory->bytes                                 ? caps->mem_free
                                                                    : share;
    }
    const size_t budget = p->budget;
    pthread_mutex_unlock(&p->lock);
    return budget;
}

void pool_limit(size_t bytes)
{
    struct tb_pool *p = pool_get();
    pthread_mutex_lock(&p->lock);
    p->budget = bytes;
    pthread_mutex_unlock(&p->lock);
}

/* The smallest idle slab that is large enough and not a waste. Lock held. */
static struct tb_slab *slab_idle(size_t bytes)
{
    struct tb_slab *best = NULL;
    for (struct tb_slab *slab = pool.slab; slab < pool.slab + TB_SLABS_MAX; slab++)
        if (slab->bytes >= bytes && slab->bytes && !slab->used &&
            (slab->bytes <= (64 << 20) || slab->bytes / 4 <= bytes) &&
            (!best || slab->bytes < best->bytes))
            best = slab;
    return best;
}

/* Gives one idle slab back to the device; false: there is none. Lock held, and let go meanwhile. */
static bool slab_release(void)
{
    for (struct tb_slab *slab = pool.slab; slab < pool.slab + TB_SLABS_MAX; slab++)
        if (slab->bytes && !slab->used) {
            slab->used = true;
            pthread_mutex_unlock(&pool.lock);
            tb_dev()->free(slab->base);
            pthread_mutex_lock(&pool.lock);
            pool.held -= slab->bytes;
            *slab = (struct tb_slab){0};
            pthread_cond_broadcast(&pool.freed);
            return true;
        }
    return false;
}

bool pool_release(void)
{
    pthread_mutex_lock(&pool.lock);
    const bool any = slab_release();
    pthread_mutex_unlock(&pool.lock);
    return any;
}

static size_t room_most(enum tb_class class)
{
    return class == TB_BRIEF ? pool.budget : pool.budget - pool.budget / 8;
}

/* What a call of that class may still take, were all idle memory given back. Lock held. */
static size_t room_left(enum tb_class class)
{
    const size_t most = room_most(class);
    size_t taken = 0;
    for (const struct tb_slab *slab = pool.slab; slab < pool.slab + TB_SLABS_MAX; slab++)
        if (slab->used && (class == TB_BRIEF || slab->holder == TB_LONG))
            taken += slab->bytes;
    return taken < most ? most - taken : 0;
}

static struct tb_slab *slab_entry(void)
{
    for (struct tb_slab *slab = pool.slab; slab < pool.slab + TB_SLABS_MAX; slab++)
        if (!slab->bytes)
            return slab;
    return NULL;
}

/* A new slab; the budget allows it. Lock held, and let go meanwhile. */
static enum tb_status slab_new(size_t bytes, enum tb_class class, struct tb_slab *slab)
{
    *slab = (struct tb_slab){.bytes = bytes, .used = true, .holder = class};
    pool.held += bytes;
    pthread_mutex_unlock(&pool.lock);
    enum tb_status status = tb_dev()->alloc(bytes, &slab->base);
    size_t left = 0;
    const bool told = status == TB_NO_MEMORY && tb_dev()->mem_free(&left) == TB_OK;
    pthread_mutex_lock(&pool.lock);
    if (status == TB_OK)
        return TB_OK;
    pool.held -= bytes;
    *slab = (struct tb_slab){0};
    pthread_cond_broadcast(&pool.freed);
    /* Somebody else took memory since the budget was set: plan the next call with what there is. */
    if (told && pool.held + left / 10 * 9 < pool.budget)
        pool.budget = pool.held + left / 10 * 9;
    return status;
}

enum tb_status pool_take(size_t bytes, enum tb_class class, const bool *give_up,
                         void (*begun)(void *), void *arg, struct tb_slab **out)
{
    enum tb_status status = TB_OK;
    bool told = false; /* it has begun: its caller waits for the device from now on */
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        status = pool.broken != TB_OK ? pool.broken : *give_up ? TB_BUSY : TB_OK;
        if (status != TB_OK)
            break;
        const size_t room = room_left(class);
        struct tb_slab *slab = slab_idle(bytes);
        if (slab && slab->bytes <= room) {
            slab->used = true;
            slab->holder = class;
            *out = slab;
            begun(arg);
            break;
        }
        slab = slab_entry();
        if (slab && bytes <= room && pool.held <= pool.budget && bytes <= pool.budget - pool.held) {
            begun(arg);
            told = true;
            *out = slab;
            status = slab_new(bytes, class, slab);
            if (status == TB_NO_MEMORY && slab_release())
                continue;
            break;
        }
        if (told || bytes > room_most(class)) {
            status = TB_NO_MEMORY;
            break;
        }
        if (bytes <= room && slab_release())
            continue;
        pthread_cond_wait(&pool.freed, &pool.lock);
    }
    pthread_mutex_unlock(&pool.lock);
    return status;
}

void pool_give(struct tb_slab *slab)
{
    pthread_mutex_lock(&pool.lock);
    slab->used = false;
    pool.last_used_ns = pool_now_ns();
    pthread_cond_broadcast(&pool.freed);
    /* The copiers may all have gone to sleep while the slab was in use, for as long as nothing
     * comes: one of them is to see to the memory that is idle from now on. */
    pthread_cond_signal(&pool.work);
    pthread_mutex_unlock(&pool.lock);
}

static bool slabs_idle(void)
{
    bool any = false;
    for (int i = 0; i < TB_SLABS_MAX; i++) {
        if (pool.slab[i].used)
            return false;
        any = any || pool.slab[i].bytes;
    }
    return any;
}

void pool_break(enum tb_status status)
{
    if (pool.broken == TB_OK || status == TB_DEVICE_OFF)
        pool.broken = status;
    pthread_cond_broadcast(&pool.moved);
    pthread_cond_broadcast(&pool.freed);
    for (int c = 0; c < pool.copiers; c++)
        pthread_cond_broadcast(&pool.copier[c].issued);
}

void pool_idle(struct tb_pool *p)
{
    if (p->broken != TB_OK || !slabs_idle()) { /* a device that is lost takes nothing back */
        pthread_cond_wait(&p->work, &p->lock);
        return;
    }
    const int64_t until = p->last_used_ns + pool_idle_ns;
    if (pool_now_ns() < until) {
        pool_wait_until(&p->work, &p->lock, until);
        return;
    }
    while (!p->stop_copiers && p->broken == TB_OK && slabs_idle() && slab_release())
        ;
}

void pool_close(void)
{
    struct tb_pool *p = pool_get();
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->work);
    pthread_cond_broadcast(&p->queued);
    pthread_cond_broadcast(&p->freed);
    pthread_cond_broadcast(&p->moved);
    pthread_mutex_unlock(&p->lock);
    tb_dev()->bind();
    for (int i = 0; i < TB_SERVERS_MAX; i++)
        if (p->server[i].alive)
            pthread_join(p->server[i].thread, NULL);
    pthread_mutex_lock(&p->lock);
    p->stop_copiers = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->copiers; i++)
        pthread_join(p->copier[i].thread, NULL);
    /* Only now: a job that was given up is let go of when its threads come to it, and until then
     * any of them may wait for an event of any other. */
    for (int i = 0; i < p->copiers; i++)
        if (p->copier[i].state == TB_COPIER_UP)
            copier_close(&p->copier[i]);
    for (int i = 0; i < TB_SERVERS_MAX; i++)
        for (int class = 0; class < TB_CLASSES; class ++)
            lanes_close(&p->server[i], (enum tb_class) class);
    for (int i = 0; i < TB_SLABS_MAX; i++)
        if (p->slab[i].bytes)
            tb_dev()->free(p->slab[i].base);
    kit_close(&p->kit);
    pool_reset();
}
