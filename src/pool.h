/* SPDX-License-Identifier: BSD-3-Clause
 * What all offloaded calls of a process share: device memory within a budget, copier threads with
 * their pinned staging buffers, and service threads that drive one call each. Owns their lives, not
 * their work: that is in exec.c, the only user. Nothing exists before the first offload, nothing in
 * a forked child. */
#ifndef TB_POOL_H
#define TB_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "dev.h"
#include "pace.h"
#include "plan.h"

enum { TB_COPIERS_MAX = 16, TB_COPIERS_AUTO = 12, TB_SERVERS_MAX = 8, TB_SLABS_MAX = 32 };
/* Events of a lane, more than a plan has products on one; staging buffers of a copier. */
enum { TB_RING = 2048, TB_CHUNKS = 2 };

/* Calls that are over in a few ms, and the others: the former may overtake the latter everywhere.
 */
enum tb_class { TB_LONG, TB_BRIEF, TB_CLASSES };
enum { TB_SERVERS_LONG = TB_SERVERS_MAX - 2 }; /* as many long calls are under way at once */

/* A piece of work of a call in the hands of a copier. */
struct tb_task {
    struct tb_job *job; /* NULL: none */
    int32_t step;
    int64_t piece;
    bool lingers; /* an upload that may have to wait for a product of a long call */
    bool awaits;  /* on its way back, and its product may not be over */
    bool landed;  /* and it is known to be */
};

enum tb_chunk_state { TB_CHUNK_FREE, TB_CHUNK_ASKED, TB_CHUNK_FLYING };

/* A staging buffer, or the place of a piece that needs none. At most one transfer is under way in
 * it. A copier asks for the transfer, the service thread of the call issues it, the copier waits.
 */
struct tb_chunk {
    char *bytes;
    struct tb_event *event;            /* behind that transfer */
    _Atomic enum tb_chunk_state state; /* freed by its copier without the lock */
    struct tb_task task;
    bool back;            /* it comes from the device */
    bool lingers;         /* as its task */
    struct tb_copier *of; /* whose it is */
    struct tb_lane *lane; /* that carries it */
    struct tb_chunk *next;
    const void *from; /* on the way in: the bytes, */
    struct tb_copy shape;
};

struct tb_copier {
    int index;
    pthread_t thread;
    enum { TB_COPIER_NONE, TB_COPIER_STARTING, TB_COPIER_UP, TB_COPIER_FAILED } state;
    pthread_cond_t issued; /* a transfer that it asked for */
    struct tb_chunk chunk[TB_CHUNKS];
    bool awaits;      /* it waits for a product */
    atomic_bool lost; /* a transfer in its buffers no longer answers */
    int turn;         /* chunk to take next */
    struct tb_pace pace;
};

/* The lanes of a call: those it computes on, the way in and the way back. All copiers put its
 * transfers on the same two: so they arrive in the order of the plan. */
enum { TB_LANE_IN = TB_PLAN_LANES, TB_LANE_BACK, TB_SERVER_LANES };

/* A lane and its events. They are opened as they are needed and used in turn: one that is recorded
 * anew stands for more work of the lane, so whoever waits for it waits long enough. */
struct tb_stage {
    struct tb_lane *lane;
    struct tb_event *event[TB_RING];
    unsigned turn;
};

/* A service thread and its lanes, for calls of either class. */
struct tb_server {
    pthread_t thread;
    bool alive;
    struct tb_stage stage[TB_CLASSES][TB_SERVER_LANES];
    struct tb_pace pace;
};

struct tb_slab {
    tb_dptr base;
    size_t bytes; /* 0: the entry is free */
    bool used;
    enum tb_class holder; /* while it is used */
};

/* What a call on its caller's own stack needs; whoever sets `taken` has it. */
struct tb_kit {
    atomic_bool taken;
    bool ready, lost;
    struct tb_lane *lane;
    struct tb_event *event;
    tb_dptr device;
    char *host; /* what goes in, and TB_INLINE_BYTES further on what comes back */
};

/* The one lock of the engine. Never held across a call of the device or a copy. Job states (exec.c)
 * are under it too. */
struct tb_pool {
    pthread_mutex_t lock;
    pthread_cond_t work;   /* copiers: there may be something to carry */
    pthread_cond_t queued; /* servers: a job waits */
    pthread_cond_t moved;  /* servers: a step moved on, or copiers came or failed */
    pthread_cond_t freed;  /* device memory came back */
    _Atomic pid_t pid;     /* of the process the threads belong to; 0: none started */
    bool stop;             /* service threads are to end, once they have let go of their jobs */
    bool stop_copiers; /* and then the copiers: until then a job may wait for what they issued */
    enum tb_status broken; /* why nothing more may be started, or TB_OK */
    int copiers, copiers_failed;
    enum tb_status copier_status;
    int servers_idle, jobs_queued;
    int64_t stuck_ns, stuck_until; /* how long jobs waited that nothing kept from beginning, none of
                                      which began; the time of the last of them */
    int long_running;              /* jobs of that class with a service thread */
    int64_t served;                /* exec.c: bytes that the job served last had had */
    struct tb_job *queue_head, *queue_tail, *active; /* exec.c's */
    unsigned sent;                                   /* pieces since one was fetched */
    struct tb_kit kit;
    struct tb_copier copier[TB_COPIERS_MAX];
    struct tb_server server[TB_SERVERS_MAX];
    struct tb_slab slab[TB_SLABS_MAX];
    size_t budget, held;
    int64_t last_used_ns;
};

/* The pool; its lock is ready to use. */
struct tb_pool *pool_get(void);

/* Device memory the process may use, from the configuration and what the device had free. */
size_t pool_budget(const struct tb_caps *caps);
void pool_limit(size_t bytes); /* sets it outright */

/* pthread_create() for threads of ours: no signal of the program is ever handled on one, and it may
 * run wherever one of the program's may, for the caller may be bound to one CPU. */
int thread_begin(pthread_t *thread, pthread_attr_t *attr, void *(*body)(void *), void *arg);

/* Starts the copiers if they are not there. Lock held. `copy` is a copier's life, up to pool->stop.
 */
enum tb_status pool_start(struct tb_pool *pool, void (*copy)(struct tb_copier *self));
/* Sees to a service thread for the jobs that are queued. False: there is none at all. Lock held.
 * `serve` is the life of the thread. */
bool pool_serve(struct tb_pool *pool, void (*serve)(struct tb_server *self));

/* Opens the lanes of a service thread for calls of that class, on it, if they are not open. Few
 * calls need both, and the device has few queues for all lanes. */
enum tb_status server_lanes(struct tb_server *self, enum tb_class class);
/* Records the next event of a lane; on the service thread. */
enum tb_status stage_mark(struct tb_stage *stage, struct tb_event **out);
/* The thread could not begin and ends: its entry belongs to nobody then, and may be taken by the
 * next. Lock held. */
void server_retire(struct tb_server *self);

/* Opens the kit; on the thread of a caller that has taken it. */
enum tb_status kit_open(struct tb_kit *kit);

/* Gives one slab that nobody uses back to the device; false: there is none. No lock held. */
bool pool_release(void);

/* A slab of at least `bytes`; waits for others to give theirs back until *give_up (under the lock).
 * Long calls leave an eighth of the budget to brief ones. `begun` is called, under the lock, before
 * the device is asked for anything. No lock held. */
enum tb_status pool_take(size_t bytes, enum tb_class class, const bool *give_up,
                         void (*begun)(void *), void *arg, struct tb_slab **out);
void pool_give(struct tb_slab *slab);

/* Nothing more may be started: everybody who waits is told. Lock held. */
void pool_break(enum tb_status status);

/* Waits for work; gives idle device memory back after a while. Lock held. */
void pool_idle(struct tb_pool *pool);
extern int64_t pool_idle_ns; /* the while, for tests */

/* Ends all threads and gives everything back. For tests and for a device that is to be closed; no
 * call may be in progress. */
void pool_close(void);
/* Forgets everything without touching it: for a child that is to begin anew, which so far only the
 * tests do; the library leaves the device alone in such a child. */
void pool_forget(void);

int64_t pool_now_ns(void);
/* Waits with an absolute limit of that clock; false: it passed. */
bool pool_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_ns);
void pool_cond_open(pthread_cond_t *cond);

/* CPUs the process may use: of all its threads, within its cgroup, its share among local MPI ranks.
 */
int pool_cpus(void);

/* Copiers there are or would be; asks for the CPUs where the configuration does not say. */
int pool_copiers(int (*cpus)(void));

#endif
