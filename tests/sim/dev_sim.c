/* SPDX-License-Identifier: BSD-3-Clause
 * A device made of plain memory, for tests: work is queued on lanes and done
 * late, in a random order that the events allow. It checks what a real device
 * would let pass: the order of accesses to device memory (a ledger of vector
 * clocks), bounds and red zones, staging buffers touched too early, leaks. It
 * fails or hangs on demand. Environment, read at open(): TILEBLAS_SIM_SEED,
 * _TILE, _CHUNK, _ORDER, _MEMORY (bytes), _INLINE (0: no calls on the caller's stack),
 * _FAIL=n[+|!], _HANG=n[+], _PLANT=skip-wait|overrun|stray|wrong, _PACE=NAME (nothing is computed,
 * and timers show a time of their own: a kernel takes 60 us, one whose name begins with NAME 20 us,
 * NAME:band or NAME:hint only where it is launched with one). */
#include "dev_sim.h"

#include "../../src/kernel.h"
#include "../../src/log.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LANES = 128, HOST = 0, RED = 256, RED_BYTE = 0xA5, POISON = 0xFF };

/* What is known to have happened: per lane, how many of its operations. Index
 * HOST is unused. */
struct clocks {
    int lanes; /* as many are set, the rest stands for 0; small calls know few
                  lanes and are many */
    uint32_t of[LANES];
};

/* One recording of an event. */
struct mark {
    int refs;
    bool done;
    int64_t when; /* ns */
    struct clocks seen;
};

struct tb_event {
    struct mark *mark; /* the latest recording, or NULL */
};

enum op_kind { OP_IN, OP_OUT, OP_WITHIN, OP_FILL, OP_LAUNCH, OP_RECORD, OP_WAIT };

struct op {
    enum op_kind kind;
    struct op *next;
    struct clocks host;     /* what the host knew when it asked */
    struct mark *mark;      /* record, wait */
    tb_dptr device, source; /* source: of a copy within the device */
    char *pinned;
    uint64_t hash; /* of the staging buffer when the copy was asked for */
    struct tb_copy shape;
    size_t bytes;
    int kernel;
    struct tb_gemm_params params;
};

struct tb_lane {
    int id;
    struct op *head, *tail;
    struct clocks seen;
};

struct access {
    size_t from, to;
    size_t pitch, width; /* runs of `width` bytes; pitch 0: all of it */
    uint32_t stamp;
    uint8_t lane;
    bool write;
};

struct block {
    tb_dptr base;
    size_t bytes;
    char *memory; /* red zones around */
    struct access *access;
    size_t accesses, room;
    struct block *next;
    enum tb_where where; /* of the program's own */
};

struct pin {
    char *host;
    size_t bytes;
    struct pin *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static struct block *users; /* memory of the program; outlives open and close */
static __thread bool bound;
static __thread char error_text[128];

static struct {
    bool open, inline_calls, lost, hanging, hang_all, let_go, skip_wait, overrun, stray, wrong;
    int64_t tile, chunk;
    int order;
    char pace[64];
    int64_t pace_ns; /* what the timers show then */
    size_t memory;
    struct tb_caps caps; /* as open() told them */
    uint64_t random, seed;
    tb_dptr next_base;
    struct block *blocks;
    struct pin *pins;
    struct tb_lane *lane[LANES];
    int top; /* lanes have smaller numbers */
    struct clocks host;
    struct op *spare;
    enum sim_fail fail;
    long fail_at, hang_at, late; /* operations still to go */
    bool failed;
    struct sim_counts counts;
} sim;

__attribute__((format(printf, 1, 2), noreturn)) static void violation(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("simulated device: VIOLATION: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    fflush(stderr);
    _exit(99);
}

/* Memory of the device itself, zeroed. Not by malloc: a test may let that fail, for the library.
 */
static void *own(size_t bytes)
{
    void *memory = aligned_alloc(16, (bytes + 15) / 16 * 16);
    if (!memory)
        abort();
    return memset(memory, 0, bytes);
}

static uint64_t sim_random(void)
{
    sim.random ^= sim.random << 13;
    sim.random ^= sim.random >> 7;
    sim.random ^= sim.random << 17;
    return sim.random;
}

/* --- Faults --- */

static enum tb_status failure(enum tb_status status, const char *what)
{
    snprintf(error_text, sizeof error_text, "simulated failure of %s", what);
    return status;
}

/* Every call of the seam begins here, with the lock held: counts, hangs, fails.
 */
static enum tb_status seam(const char *what)
{
    if (!bound)
        violation("%s on a thread that did not bind the device", what);
    sim.counts.calls++;
    if (sim.hang_at > 0 && --sim.hang_at == 0) {
        sim.hanging = true;
        while (!sim.let_go)
            pthread_cond_wait(&released, &lock);
        sim.hanging = false;
        pthread_cond_broadcast(&released);
    }
    while (sim.hang_all && sim.hanging && !sim.let_go)
        pthread_cond_wait(&released, &lock);
    if (sim.lost)
        return failure(TB_DEVICE_FAULT, what);
    if (sim.fail == SIM_FAIL_EVER && sim.failed)
        return failure(TB_DEVICE_FAULT, what);
    if ((sim.fail == SIM_FAIL_ONCE || sim.fail == SIM_FAIL_EVER) && sim.fail_at > 0 &&
        --sim.fail_at == 0) {
        sim.failed = true;
        return failure(TB_DEVICE_FAULT, what);
    }
    return TB_OK;
}

/* The same for what may lack memory. */
static enum tb_status seam_memory(const char *what)
{
    const enum tb_status status = seam(what);
    if (status == TB_OK && sim.fail == SIM_FAIL_MEMORY && sim.fail_at > 0 && --sim.fail_at == 0) {
        sim.failed = true;
        return failure(TB_NO_MEMORY, what);
    }
    return status;
}

void sim_reset(void)
{
    pthread_mutex_lock(&lock);
    sim.lost = true;
    pthread_mutex_unlock(&lock);
}

static bool failing(void)
{
    return sim.lost || (sim.fail == SIM_FAIL_EVER && sim.failed);
}

void sim_fail(enum sim_fail mode, long n)
{
    pthread_mutex_lock(&lock);
    sim.fail = mode;
    sim.fail_at = sim.late = n;
    sim.failed = sim.lost = false;
    pthread_mutex_unlock(&lock);
}

bool sim_failed(void)
{
    pthread_mutex_lock(&lock);
    const bool failed = sim.failed;
    pthread_mutex_unlock(&lock);
    return failed;
}

void sim_hang(long n)
{
    pthread_mutex_lock(&lock);
    sim.hang_at = n;
    sim.hang_all = false;
    sim.let_go = false;
    pthread_mutex_unlock(&lock);
}

void sim_hang_all(long n)
{
    sim_hang(n);
    pthread_mutex_lock(&lock);
    sim.hang_all = true;
    pthread_mutex_unlock(&lock);
}

bool sim_hanging(void)
{
    pthread_mutex_lock(&lock);
    const bool hanging = sim.hanging;
    pthread_mutex_unlock(&lock);
    return hanging;
}

void sim_release(void)
{
    pthread_mutex_lock(&lock);
    sim.let_go = true;
    pthread_cond_broadcast(&released);
    while (sim.hanging) /* else the next sim_hang() would catch the same thread again */
        pthread_cond_wait(&released, &lock);
    pthread_mutex_unlock(&lock);
}

void sim_seed(uint64_t seed)
{
    pthread_mutex_lock(&lock);
    sim.seed = seed;
    sim.random = seed * 0x9E3779B97F4A7C15 + 0x1234567;
    pthread_mutex_unlock(&lock);
}

struct sim_counts sim_counts(void)
{
    pthread_mutex_lock(&lock);
    const struct sim_counts counts = sim.counts;
    pthread_mutex_unlock(&lock);
    return counts;
}

/* --- Memory --- */

static struct block *user_of(const void *ptr)
{
    const tb_dptr at = (tb_dptr)(uintptr_t)ptr;
    for (struct block *block = users; block; block = block->next)
        if (at >= block->base && at < block->base + block->bytes)
            return block;
    return NULL;
}

static struct block *block_of(tb_dptr at, size_t bytes, const char *what)
{
    for (struct block *block = sim.blocks; block; block = block->next)
        if (at >= block->base && at < block->base + block->bytes) {
            if (bytes > block->bytes - (size_t)(at - block->base))
                violation("%s passes the end of its memory by %zu bytes", what,
                          bytes - (block->bytes - (size_t)(at - block->base)));
            return block;
        }
    struct block *user = user_of((const void *)(uintptr_t)at);
    if (user && user->where == TB_DEVICE_FAR)
        violation("%s in the memory of another device", what);
    if (user && user->where != TB_HOST_PINNED) {
        if (bytes > user->bytes - (size_t)(at - user->base))
            violation("%s passes the end of the program's memory by %zu bytes", what,
                      bytes - (user->bytes - (size_t)(at - user->base)));
        return user;
    }
    violation("%s at %llx: not device memory", what, (unsigned long long)at);
}

static char *host_of(const struct block *block, tb_dptr at)
{
    return block->memory + RED + (at - block->base);
}

static void red_check(const struct block *block)
{
    for (size_t i = 0; i < RED; i++)
        if ((unsigned char)block->memory[i] != RED_BYTE ||
            (unsigned char)block->memory[RED + block->bytes + i] != RED_BYTE)
            violation("red zone overwritten, byte %zu", i);
}

static void pinned_check(const char *host, size_t bytes, const char *what)
{
    for (const struct pin *pin = sim.pins; pin; pin = pin->next)
        if (host >= pin->host && host + bytes <= pin->host + pin->bytes)
            return;
    const struct block *user = user_of(host);
    if (user && user->where == TB_HOST_PINNED &&
        bytes <= user->bytes - (size_t)((tb_dptr)(uintptr_t)host - user->base))
        return;
    violation("%s with host memory that is not pinned", what);
}

/* Four sums at a time: small calls are mostly this. */
static uint64_t hash_bytes(const char *from, size_t bytes)
{
    uint64_t sum[4] = {1, 2, 3, 4}, word[4];
    size_t i = 0;
    for (; i + sizeof word <= bytes; i += sizeof word) {
        memcpy(word, from + i, sizeof word);
        for (int x = 0; x < 4; x++)
            sum[x] = (sum[x] ^ word[x]) * 0x9E3779B97F4A7C15;
    }
    for (; i < bytes; i++)
        sum[0] = (sum[0] ^ (unsigned char)from[i]) * 1099511628211u;
    return sum[0] ^ sum[1] << 1 ^ sum[2] << 2 ^ sum[3] << 3;
}

static uint64_t hash_rows(const char *from, size_t width, size_t rows, size_t pitch)
{
    uint64_t hash = 0;
    for (size_t row = 0; row < rows; row++)
        hash = (hash ^ hash_bytes(from + row * pitch, width)) * 1099511628211u;
    return hash;
}

/* --- The ledger --- */

static void clocks_join(struct clocks *into, const struct clocks *from)
{
    for (; into->lanes < from->lanes; into->lanes++)
        into->of[into->lanes] = 0;
    for (int i = 0; i < from->lanes; i++)
        if (into->of[i] < from->of[i])
            into->of[i] = from->of[i];
}

static void clocks_copy(struct clocks *into, const struct clocks *from)
{
    into->lanes = from->lanes;
    memcpy(into->of, from->of, (size_t)from->lanes * sizeof *from->of);
}

static bool clocks_know(const struct clocks *clocks, int lane, uint32_t stamp)
{
    return lane < clocks->lanes && clocks->of[lane] >= stamp;
}

/* Rectangles of one matrix may interleave without meeting. */
static bool accesses_meet(const struct access *x, const struct access *y)
{
    if (x->from >= y->to || y->from >= x->to)
        return false;
    if (x->pitch == 0 || x->pitch != y->pitch)
        return true;
    const struct access *low = x->from < y->from ? x : y, *high = low == x ? y : x;
    const size_t delta = (high->from - low->from) % x->pitch;
    return delta < low->width || x->pitch - delta < high->width;
}

/* An access of a lane: everything it conflicts with must be known to have
 * happened before. */
static void ledger(struct tb_lane *lane, struct block *block, tb_dptr at, size_t bytes,
                   size_t pitch, size_t width, bool write, const char *what)
{
    const size_t from = (size_t)(at - block->base), to = from + bytes;
    const struct access fresh = {from, to, pitch, width, lane->seen.of[lane->id], (uint8_t)lane->id,
                                 write};
    size_t kept = 0;
    for (size_t i = 0; i < block->accesses; i++) {
        const struct access *old = &block->access[i];
        const bool meets = accesses_meet(old, &fresh);
        if (meets && (old->write || write) && !clocks_know(&lane->seen, old->lane, old->stamp))
            violation("%s on lane %d: bytes %zu to %zu were %s by lane %d, and "
                      "nothing orders the two",
                      what, lane->id, from, to, old->write ? "written" : "read", old->lane);
        const bool covered = old->from >= from && old->to <= to &&
                             (pitch == 0 || (old->from == from && old->to == to));
        if (covered && (write || (old->lane == lane->id && !old->write)))
            continue; /* the new one stands for it */
        block->access[kept++] = *old;
    }
    if (kept == block->room) {
        block->room = block->room ? 2 * block->room : 16;
        struct access *more = own(block->room * sizeof *more);
        if (kept > 0)
            memcpy(more, block->access, kept * sizeof *more);
        free(block->access);
        block->access = more;
    }
    block->access[kept++] = fresh;
    block->accesses = kept;
}

/* --- Execution --- */

static void mark_drop(struct mark *mark)
{
    if (mark && --mark->refs == 0)
        free(mark);
}

/* Bytes from the first to the last element of `batch` matrices. */
static size_t span(int64_t rows, int64_t cols, int64_t ld, int64_t stride, int64_t batch,
                   enum tb_type type)
{
    return (size_t)((batch - 1) * stride + (cols - 1) * ld + rows) * call_elem_bytes(type);
}

/* Planted: the kernel writes behind the memory of C, or reads too far. */
static void plant(const struct block *c, size_t *bytes_a)
{
    if (sim.overrun)
        c->memory[RED + c->bytes] = 0;
    if (sim.stray)
        *bytes_a += (size_t)1 << 40;
}

/* Planted: one column of the tile is not what it should be. */
static void plant_wrong(const struct tb_gemm_params *p, char *c, size_t elem)
{
    if (sim.wrong)
        memset(c + (size_t)(p->n / 2 * p->ldc) * elem, 0, (size_t)p->m * elem);
}

/* A row that works on a triangle, or completes one. */
static void run_triangle(struct tb_lane *lane, const struct op *op)
{
    const struct tb_gemm_params p = op->params;
    const struct tb_kernel *row = kernel_row(op->kernel);
    const size_t elem = call_elem_bytes(row->ab), in_c = span(p.m, p.n, p.ldc, 0, 1, row->ab);
    struct block *c = block_of(p.c, in_c, "kernel, C");
    ledger(lane, c, p.c, in_c, (size_t)p.ldc * elem, (size_t)p.m * elem, true, "kernel, C");
    if (row->pair == 1) {
        sim_mirror(row->ab, &p, host_of(c, p.c));
        return;
    }
    if (p.k > row->bm)
        violation("a triangle of order %lld for kernel %s", (long long)p.k, row->name);
    const size_t in_a = span(p.k, p.k, p.lda, 0, 1, row->ab);
    struct block *a = block_of(p.a, in_a, "kernel, A");
    ledger(lane, a, p.a, in_a, 0, 0, false, "kernel, A");
    sim_triangle(row->ab, &p, host_of(a, p.a), host_of(c, p.c));
    plant_wrong(&p, host_of(c, p.c), elem);
    red_check(c);
}

static bool is_fast(const struct tb_kernel *row, const struct tb_gemm_params *p)
{
    const char *const asks = strchr(sim.pace, ':');
    const size_t length = asks ? (size_t)(asks - sim.pace) : strlen(sim.pace);
    return strncmp(row->name, sim.pace, length) == 0 &&
           (!asks || (strcmp(asks, ":band") == 0 ? p->band > 0 : p->hint > 0));
}

static void run_launch(struct tb_lane *lane, const struct op *op)
{
    if (kernel_row(op->kernel)->family == TB_TRI) {
        run_triangle(lane, op);
        return;
    }
    struct tb_gemm_params p = op->params;
    const struct tb_kernel *row = kernel_row(op->kernel);
    const bool ta = p.op_a & TB_KOP_T, tb = p.op_b & TB_KOP_T;
    size_t in_a = span(ta ? p.k : p.m, ta ? p.m : p.k, p.lda, p.stride_a, p.batch, row->ab);
    const size_t in_b = span(tb ? p.n : p.k, tb ? p.k : p.n, p.ldb, p.stride_b, p.batch, row->ab);
    const size_t in_c = span(p.m, p.n, p.ldc, p.stride_c, p.batch, row->c);
    struct block *c = block_of(p.c, in_c, "kernel, C");
    plant(c, &in_a);
    struct block *a = block_of(p.a, in_a, "kernel, A"), *b = block_of(p.b, in_b, "kernel, B");
    const size_t aside = p.scratch ? kernel_scratch(row, &sim.caps, &p) : 0;
    if (aside > 0) { /* and full of junk afterwards */
        struct block *scratch = block_of(p.scratch, aside, "kernel, scratch");
        ledger(lane, scratch, p.scratch, aside, 0, 0, true, "kernel, scratch");
        memset(host_of(scratch, p.scratch), 0xA5, aside);
        red_check(scratch);
    }
    const size_t elem = call_elem_bytes(row->ab), elem_c = call_elem_bytes(row->c);
    ledger(lane, a, p.a, in_a, 0, 0, false, "kernel, A");
    ledger(lane, b, p.b, in_b, 0, 0, false, "kernel, B");
    ledger(lane, c, p.c, in_c, p.batch == 1 ? (size_t)p.ldc * elem_c : 0, (size_t)p.m * elem_c,
           true, "kernel, C");
    if (sim.pace[0] != '\0') {
        sim.pace_ns += is_fast(row, &p) ? 20000 : 60000;
        return;
    }
    for (int64_t i = 0; i < p.batch; i++)
        sim_gemm(row->ab, row->c, &p, host_of(a, p.a) + (size_t)(i * p.stride_a) * elem,
                 host_of(b, p.b) + (size_t)(i * p.stride_b) * elem,
                 host_of(c, p.c) + (size_t)(i * p.stride_c) * elem_c);
    plant_wrong(&p, host_of(c, p.c), elem_c);
    red_check(c);
}

static void run_copy(struct tb_lane *lane, const struct op *op)
{
    const struct tb_copy s = op->shape;
    const bool in = op->kind == OP_IN;
    const size_t pitch = in ? s.dst_pitch : s.src_pitch;
    const size_t bytes = (s.rows - 1) * pitch + s.width;
    const char *what = in ? "copy in" : "copy out";
    struct block *block = block_of(op->device, bytes, what);
    ledger(lane, block, op->device, bytes, s.rows > 1 ? pitch : 0, s.width, in, what);
    const size_t host_pitch = in ? s.src_pitch : s.dst_pitch;
    if (hash_rows(op->pinned, s.width, s.rows, host_pitch) != op->hash)
        violation("%s: the host used the staging buffer before the copy was over", what);
    for (size_t row = 0; row < s.rows; row++)
        if (in)
            memcpy(host_of(block, op->device) + row * pitch, op->pinned + row * host_pitch,
                   s.width);
        else
            memcpy(op->pinned + row * host_pitch, host_of(block, op->device) + row * pitch,
                   s.width);
}

static void run_within(struct tb_lane *lane, const struct op *op)
{
    const struct tb_copy s = op->shape;
    const size_t to = (s.rows - 1) * s.dst_pitch + s.width,
                 from = (s.rows - 1) * s.src_pitch + s.width;
    struct block *target = block_of(op->device, to, "copy within, to"),
                 *source = block_of(op->source, from, "copy within, from");
    ledger(lane, source, op->source, from, s.rows > 1 ? s.src_pitch : 0, s.width, false,
           "copy within, from");
    ledger(lane, target, op->device, to, s.rows > 1 ? s.dst_pitch : 0, s.width, true,
           "copy within, to");
    for (size_t row = 0; row < s.rows; row++)
        memcpy(host_of(target, op->device) + row * s.dst_pitch,
               host_of(source, op->source) + row * s.src_pitch, s.width);
    red_check(target);
}

/* A fault that shows when the work is done: its result is garbage, the device
 * is lost. */
static bool fails_late(const struct op *op)
{
    const bool counts =
        op->kind == OP_IN || op->kind == OP_OUT || op->kind == OP_WITHIN || op->kind == OP_LAUNCH;
    if (sim.fail != SIM_FAIL_LATE || !counts || sim.late <= 0 || --sim.late > 0)
        return false;
    sim.failed = sim.lost = true;
    return true;
}

static void run_head(struct tb_lane *lane)
{
    struct op *op = lane->head;
    lane->head = op->next;
    lane->seen.of[lane->id]++;
    clocks_join(&lane->seen, &op->host);
    if (!fails_late(op))
        switch (op->kind) {
        case OP_IN:
        case OP_OUT:
            run_copy(lane, op);
            break;
        case OP_WITHIN:
            run_within(lane, op);
            break;
        case OP_FILL: {
            struct block *block = block_of(op->device, op->bytes, "fill");
            ledger(lane, block, op->device, op->bytes, 0, 0, true, "fill");
            memset(host_of(block, op->device), 0, op->bytes);
            break;
        }
        case OP_LAUNCH:
            run_launch(lane, op);
            break;
        case OP_RECORD:
            op->mark->done = true;
            op->mark->when = sim.pace[0] ? sim.pace_ns : (int64_t)log_now_ns();
            clocks_copy(&op->mark->seen, &lane->seen);
            break;
        case OP_WAIT:
            clocks_join(&lane->seen, &op->mark->seen);
            break;
        }
    mark_drop(op->mark);
    op->next = sim.spare;
    sim.spare = op;
}

static bool runnable(const struct tb_lane *lane)
{
    return lane && lane->head && (lane->head->kind != OP_WAIT || lane->head->mark->done);
}

/* Does the next operation of some lane that can; false: none can. */
static bool run_any(void)
{
    const int start = (int)(sim_random() % (uint64_t)sim.top);
    for (int i = 0; i < sim.top; i++) {
        struct tb_lane *lane = sim.lane[start + i < sim.top ? start + i : start + i - sim.top];
        if (!runnable(lane))
            continue;
        run_head(lane);
        return true;
    }
    return false;
}

/* The device works a little while the host goes on; how much depends on the
 * seed. */
static void drift(void)
{
    const uint64_t most = sim.seed % 4;
    for (uint64_t i = most ? sim_random() % (most + 1) : 0; i > 0 && !sim.lost; i--)
        run_any();
}

static struct op *op_new(struct tb_lane *lane, enum op_kind kind)
{
    struct op *op = sim.spare;
    if (op)
        sim.spare = op->next;
    else
        op = own(sizeof *op);
    op->kind = kind;
    op->next = NULL;
    op->mark = NULL;
    clocks_copy(&op->host, &sim.host);
    if (lane->head)
        lane->tail->next = op;
    else
        lane->head = op;
    lane->tail = op;
    return op;
}

/* --- The seam --- */

static enum tb_status leave(enum tb_status status)
{
    pthread_mutex_unlock(&lock);
    return status;
}

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

static void read_environment(void)
{
    const char *fail = getenv("TILEBLAS_SIM_FAIL"), *hang = getenv("TILEBLAS_SIM_HANG"),
               *planted = getenv("TILEBLAS_SIM_PLANT"), *pace = getenv("TILEBLAS_SIM_PACE");
    sim.tile = number("TILEBLAS_SIM_TILE", 0);
    sim.chunk = number("TILEBLAS_SIM_CHUNK", 0);
    sim.order = (int)number("TILEBLAS_SIM_ORDER", 0);
    sim.memory = (size_t)number("TILEBLAS_SIM_MEMORY", 1L << 30);
    sim.inline_calls = number("TILEBLAS_SIM_INLINE", 1) != 0;
    sim.seed = (uint64_t)number("TILEBLAS_SIM_SEED", 1);
    sim.random = sim.seed * 0x9E3779B97F4A7C15 + 0x1234567;
    sim.hang_at = number("TILEBLAS_SIM_HANG", 0);
    sim.hang_all = hang && strchr(hang, '+');
    snprintf(sim.pace, sizeof sim.pace, "%s", pace ? pace : "");
    sim.fail = SIM_FAIL_NONE;
    if (fail && *fail) {
        sim.fail_at = sim.late = strtol(fail, NULL, 10);
        sim.fail = strchr(fail, '+')   ? SIM_FAIL_EVER
                   : strchr(fail, '!') ? SIM_FAIL_LATE
                                       : SIM_FAIL_ONCE;
    }
    sim.skip_wait = planted && strcmp(planted, "skip-wait") == 0;
    sim.overrun = planted && strcmp(planted, "overrun") == 0;
    sim.stray = planted && strcmp(planted, "stray") == 0;
    sim.wrong = planted && strcmp(planted, "wrong") == 0;
}

static enum tb_status sim_open(int ordinal, struct tb_caps *caps)
{
    pthread_mutex_lock(&lock);
    if (ordinal != 0)
        return leave(TB_NO_DEVICE);
    if (sim.open)
        violation("opened twice");
    memset(&sim, 0, sizeof sim);
    for (struct block *block = users; block; block = block->next)
        block->accesses = 0; /* the lanes of before are gone */
    read_environment();
    sim.open = true;
    sim.top = 1;
    sim.next_base = UINT64_C(0x7000000000000000); /* never an address of the host */
    *caps = (struct tb_caps){.name = "simulated device",
                             .cc = 90,
                             .sms = 4,
                             .smem_block = 227 << 10,
                             .fp64_ratio = 2,
                             .clock_mhz = 1000,
                             .mem_total = sim.memory,
                             .mem_free = sim.memory,
                             .driver = 13000,
                             .inline_calls = sim.inline_calls,
                             .tile = sim.tile,
                             .chunk = sim.chunk,
                             .order = sim.order};
    sim.caps = *caps;
    return leave(TB_OK);
}

static void sim_close(void)
{
    pthread_mutex_lock(&lock);
    const struct sim_counts c = sim.counts;
    if (c.allocs || c.pins || c.lanes || c.events)
        violation("left behind: %ld allocations, %ld pinned, %ld lanes, %ld events", c.allocs,
                  c.pins, c.lanes, c.events);
    while (sim.spare) {
        struct op *op = sim.spare;
        sim.spare = op->next;
        free(op);
    }
    sim.open = false;
    pthread_mutex_unlock(&lock);
}

static enum tb_status sim_count(int *n)
{
    *n = 1;
    return TB_OK;
}

static enum tb_status sim_uuid(int ordinal, char text[33])
{
    memcpy(text, "51500000000000000000000000000000", 33);
    return ordinal == 0 ? TB_OK : TB_NO_DEVICE;
}

static enum tb_status sim_bind(void)
{
    pthread_mutex_lock(&lock);
    bound = sim.open;
    return leave(sim.open ? seam("bind") : TB_DEVICE_OFF);
}

static enum tb_status sim_alloc(size_t bytes, tb_dptr *out)
{
    pthread_mutex_lock(&lock);
    enum tb_status status = seam_memory("alloc");
    if (status == TB_OK && bytes > sim.memory - sim.counts.bytes)
        status = failure(TB_NO_MEMORY, "alloc");
    if (status != TB_OK)
        return leave(status);
    struct block *block = own(sizeof *block);
    char *memory = own(bytes + 2 * RED);
    memset(memory, RED_BYTE, RED);
    memset(memory + RED, POISON, bytes);
    memset(memory + RED + bytes, RED_BYTE, RED);
    *block =
        (struct block){.base = sim.next_base, .bytes = bytes, .memory = memory, .next = sim.blocks};
    sim.next_base += (bytes + 4095) / 512 * 512 + 4096;
    sim.blocks = block;
    sim.counts.allocs++;
    sim.counts.bytes += bytes;
    if (sim.counts.bytes_peak < sim.counts.bytes)
        sim.counts.bytes_peak = sim.counts.bytes;
    *out = block->base;
    return leave(TB_OK);
}

/* Nothing that is still to be done may touch the block. */
static void block_idle_check(const struct block *block)
{
    for (int i = 0; i < LANES; i++)
        for (const struct op *op = sim.lane[i] ? sim.lane[i]->head : NULL; op; op = op->next) {
            const tb_dptr at[] = {op->device, op->params.a, op->params.b, op->params.c};
            const bool copies = op->kind == OP_IN || op->kind == OP_OUT || op->kind == OP_FILL;
            if (op->kind == OP_WITHIN && (op->device - block->base < block->bytes ||
                                          op->source - block->base < block->bytes))
                violation("device memory freed with a copy still to be done");
            for (int x = copies ? 0 : 1; x < (copies ? 1 : op->kind == OP_LAUNCH ? 4 : 1); x++)
                if (at[x] - block->base < block->bytes)
                    violation("device memory freed with work on it still to be done");
        }
}

static enum tb_status sim_free(tb_dptr base)
{
    pthread_mutex_lock(&lock);
    /* It is freed all the same: what is reported may be the fault of earlier
     * work. */
    const enum tb_status status = seam("free");
    struct block **at = &sim.blocks;
    while (*at && (*at)->base != base)
        at = &(*at)->next;
    struct block *block = *at;
    if (!block)
        violation("free of %llx, which is not allocated", (unsigned long long)base);
    if (!failing())
        block_idle_check(block);
    red_check(block);
    *at = block->next;
    sim.counts.allocs--;
    sim.counts.bytes -= block->bytes;
    free(block->memory);
    free(block->access);
    free(block);
    return leave(status);
}

static enum tb_status sim_mem_free(size_t *bytes)
{
    pthread_mutex_lock(&lock);
    const enum tb_status status = seam("mem_free");
    *bytes = sim.memory - sim.counts.bytes;
    return leave(status);
}

static enum tb_status sim_pin(void *host, size_t bytes)
{
    pthread_mutex_lock(&lock);
    const enum tb_status status = seam_memory("pin");
    if (status != TB_OK)
        return leave(status);
    struct pin *pin = own(sizeof *pin);
    *pin = (struct pin){host, bytes, sim.pins};
    sim.pins = pin;
    sim.counts.pins++;
    return leave(TB_OK);
}

static enum tb_status sim_unpin(void *host)
{
    pthread_mutex_lock(&lock);
    const enum tb_status status = seam("unpin");
    struct pin **at = &sim.pins;
    while (*at && (*at)->host != host)
        at = &(*at)->next;
    struct pin *pin = *at;
    if (!pin)
        violation("unpin of memory that is not pinned");
    for (int i = 0; i < LANES && !failing(); i++)
        for (const struct op *op = sim.lane[i] ? sim.lane[i]->head : NULL; op; op = op->next)
            if ((op->kind == OP_IN || op->kind == OP_OUT) &&
                (size_t)(op->pinned - pin->host) < pin->bytes)
                violation("host memory unpinned with a copy still to be done");
    *at = pin->next;
    sim.counts.pins--;
    free(pin);
    return leave(status);
}

static enum tb_status sim_lane_open(struct tb_lane **out, bool high_priority)
{
    (void)high_priority;
    pthread_mutex_lock(&lock);
    const enum tb_status status = seam_memory("lane_open");
    if (status != TB_OK)
        return leave(status);
    int id = 1;
    while (id < LANES && sim.lane[id])
        id++;
    struct tb_lane *lane = id < LANES ? own(sizeof *lane) : NULL;
    if (!lane)
        return leave(failure(TB_NO_MEMORY, "lane_open"));
    lane->id = id;
    lane->seen.lanes = id + 1;
    clocks_join(&lane->seen, &sim.host); /* what a lane of the same number did is over */
    if (sim.top <= id)
        sim.top = id + 1;
    sim.lane[id] = *out = lane;
    sim.counts.lanes++;
    return leave(TB_OK);
}

static void sim_lane_close(struct tb_lane *lane)
{
    pthread_mutex_lock(&lock);
    while (lane->head && !failing())
        if (!run_any())
            violation("lane %d is closed and its work cannot be done", lane->id);
    while (lane->head) {
        struct op *op = lane->head;
        lane->head = op->next;
        mark_drop(op->mark);
        free(op);
    }
    clocks_join(&sim.host, &lane->seen);
    sim.lane[lane->id] = NULL;
    sim.counts.lanes--;
    free(lane);
    pthread_mutex_unlock(&lock);
}

static enum tb_status sim_event_open(struct tb_event **out)
{
    pthread_mutex_lock(&lock);
    const enum tb_status status = seam_memory("event_open");
    if (status != TB_OK)
        return leave(status);
    *out = own(sizeof **out);
    sim.counts.events++;
    return leave(TB_OK);
}

static void sim_event_close(struct tb_event *event)
{
    pthread_mutex_lock(&lock);
    mark_drop(event->mark);
    free(event);
    sim.counts.events--;
    pthread_mutex_unlock(&lock);
}

static enum tb_status copy(struct tb_lane *lane, enum op_kind kind, tb_dptr device, char *pinned,
                           struct tb_copy shape)
{
    const bool in = kind == OP_IN;
    pthread_mutex_lock(&lock);
    const enum tb_status status = seam(in ? "h2d" : "d2h");
    if (status != TB_OK)
        return leave(status);
    if (!in && sim.fail == SIM_FAIL_OUT && sim.fail_at > 0 && --sim.fail_at == 0) {
        sim.failed = true;
        return leave(failure(TB_DEVICE_FAULT, "d2h"));
    }
    const size_t pitch = in ? shape.src_pitch : shape.dst_pitch;
    const size_t far_pitch = in ? shape.dst_pitch : shape.src_pitch;
    pinned_check(pinned, (shape.rows - 1) * pitch + shape.width, in ? "copy in" : "copy out");
    block_of(device, (shape.rows - 1) * far_pitch + shape.width, in ? "copy in" : "copy out");
    if (!in) /* whoever looks too early sees no numbers */
        for (size_t row = 0; row < shape.rows; row++)
            memset(pinned + row * pitch, POISON, shape.width);
    struct op *op = op_new(lane, kind);
    op->device = device;
    op->pinned = pinned;
    op->shape = shape;
    op->hash = hash_rows(pinned, shape.width, shape.rows, pitch);
    *(in ? &sim.counts.copies_in : &sim.counts.copies_out) += 1;
    *(in ? &sim.counts.bytes_in : &sim.counts.bytes_out) +=
        (double)shape.width * (double)shape.rows;
    drift();
    return leave(TB_OK);
}

static enum tb_status sim_h2d(struct tb_lane *lane, tb_dptr dst, const void *src,
                              struct tb_copy shape)
{
    return copy(lane, OP_IN, dst, (char *)(uintptr_t)src, shape);
}

static enum tb_status sim_d2h(struct tb_lane *lane, void *dst, tb_dptr src, struct tb_copy shape)
{
    return copy(lane, OP_OUT, src, dst, shape);
}

static enum tb_status sim_d2d(struct tb_lane *lane, tb_dptr dst, tb_dptr src, struct tb_copy shape)
{
    pthread_mutex_lock(&lock);
    const enum tb_status status = seam("d2d");
    if (status != TB_OK)
        return leave(status);
    block_of(dst, (shape.rows - 1) * shape.dst_pitch + shape.width, "copy within, to");
    block_of(src, (shape.rows - 1) * shape.src_pitch + shape.width, "copy within, from");
    struct op *op = op_new(lane, OP_WITHIN);
    op->device = dst;
    op->source = src;
    op->shape = shape;
    drift();
    return leave(TB_OK);
}

static enum tb_status sim_fill0(struct tb_lane *lane, tb_dptr dst, size_t bytes)
{
    pthread_mutex_lock(&lock);
    const enum tb_status status = seam("fill0");
    if (status != TB_OK)
        return leave(status);
    block_of(dst, bytes, "fill");
    struct op *op = op_new(lane, OP_FILL);
    op->device = dst;
    op->bytes = bytes;
    drift();
    return leave(TB_OK);
}

static enum tb_status sim_launch(struct tb_lane *lane, int kernel,
                                 const struct tb_gemm_params *params)
{
    const struct tb_kernel *row = kernel_row(kernel);
    pthread_mutex_lock(&lock);
    const enum tb_status status = seam("launch");
    if (status != TB_OK)
        return leave(status);
    if (!row)
        violation("launch of kernel %d, which does not exist", kernel);
    if (row->family != TB_TRI &&
        (row->ta != !!(params->op_a & TB_KOP_T) || row->tb != !!(params->op_b & TB_KOP_T)))
        violation("kernel %s launched with other transposes", row->name);
    if (params->alist || params->blist || params->clist)
        violation("lists on the device are not simulated");
    if (row->family == TB_X3 && !params->scratch)
        violation("kernel %s launched without its area", row->name);
    struct op *op = op_new(lane, OP_LAUNCH);
    op->kernel = kernel;
    op->params = *params;
    sim.counts.launches++;
    drift();
    if (sim.fail == SIM_FAIL_PART && row->family == TB_X3 && sim.fail_at > 0 &&
        --sim.fail_at == 0) {
        sim.failed = true;
        return leave(failure(TB_TORN, "launch"));
    }
    return leave(TB_OK);
}

static enum tb_status sim_record(struct tb_event *event, struct tb_lane *lane)
{
    pthread_mutex_lock(&lock);
    const enum tb_status status = seam("record");
    if (status != TB_OK)
        return leave(status);
    struct mark *mark = own(sizeof *mark);
    if (!mark)
        abort();
    mark->refs = 2;
    mark->done = false;
    mark->seen.lanes = 0;
    mark_drop(event->mark);
    event->mark = mark;
    op_new(lane, OP_RECORD)->mark = mark;
    drift();
    return leave(TB_OK);
}

static enum tb_status sim_wait(struct tb_lane *lane, struct tb_event *event)
{
    pthread_mutex_lock(&lock);
    const enum tb_status status = seam("wait");
    if (status != TB_OK || !event->mark || (sim.skip_wait && sim_random() % 4 == 0))
        return leave(status);
    op_new(lane, OP_WAIT)->mark = event->mark;
    event->mark->refs++;
    drift();
    return leave(TB_OK);
}

static enum tb_status sim_elapsed(struct tb_event *from, struct tb_event *to, double *ns)
{
    pthread_mutex_lock(&lock);
    enum tb_status status = seam("elapsed");
    if (status == TB_OK && !(from->mark && from->mark->done && to->mark && to->mark->done))
        status = failure(TB_DEVICE_FAULT, "a timer that is not over");
    if (status == TB_OK)
        *ns = (double)(to->mark->when - from->mark->when);
    return leave(status);
}

static enum tb_status sim_sync(struct tb_event *event)
{
    pthread_mutex_lock(&lock);
    enum tb_status status = seam("sync");
    struct mark *mark = event->mark;
    if (status != TB_OK || !mark)
        return leave(status);
    while (!mark->done && !failing())
        if (!run_any())
            violation("the lanes wait for each other");
    if (failing())
        status = failure(TB_DEVICE_FAULT, "earlier work");
    else
        clocks_join(&sim.host, &mark->seen);
    return leave(status);
}

static enum tb_status sim_over(struct tb_event *event, bool *over)
{
    pthread_mutex_lock(&lock);
    const enum tb_status status = seam("over");
    struct mark *mark = event->mark;
    *over = !mark || mark->done;
    if (status == TB_OK && mark && mark->done)
        clocks_join(&sim.host, &mark->seen);
    return leave(status);
}

static enum tb_status sim_where(const void *ptr, enum tb_where *out)
{
    pthread_mutex_lock(&lock);
    const struct block *user = user_of(ptr);
    *out = user ? user->where : TB_HOST_PAGEABLE;
    return leave(TB_OK);
}

static bool sim_shared(void)
{
    pthread_mutex_lock(&lock);
    const bool any = users != NULL;
    pthread_mutex_unlock(&lock);
    return any;
}

/* Threads of the simulated program have nothing to show. */
static bool sim_used(void)
{
    return false;
}

static const tb_dptr user_first = UINT64_C(0x6000000000000000);

void *sim_user_alloc(enum tb_where where, size_t bytes)
{
    static tb_dptr next;
    struct block *block = own(sizeof *block);
    char *memory = own(bytes + 2 * RED);
    if (!block || !memory)
        abort();
    memset(memory, RED_BYTE, bytes + 2 * RED);
    pthread_mutex_lock(&lock);
    const bool hidden = where == TB_DEVICE || where == TB_DEVICE_FAR;
    if (next == 0)
        next = user_first;
    *block = (struct block){.base = hidden ? next : (tb_dptr)(uintptr_t)(memory + RED),
                            .bytes = bytes,
                            .memory = memory,
                            .where = where,
                            .next = users};
    next += hidden ? (bytes + 4095) / 512 * 512 + 4096 : 0;
    users = block;
    pthread_mutex_unlock(&lock);
    return (void *)(uintptr_t)block->base;
}

void sim_user_free(void *at)
{
    pthread_mutex_lock(&lock);
    struct block **link = &users;
    while (*link && (*link)->base != (tb_dptr)(uintptr_t)at)
        link = &(*link)->next;
    struct block *block = *link;
    if (!block)
        violation("the program frees what it does not have");
    red_check(block);
    *link = block->next;
    free(block->memory);
    free(block->access);
    free(block);
    pthread_mutex_unlock(&lock);
}

void sim_user_read(void *to, const void *from, size_t bytes)
{
    pthread_mutex_lock(&lock);
    memcpy(to, host_of(user_of(from), (tb_dptr)(uintptr_t)from), bytes);
    pthread_mutex_unlock(&lock);
}

void sim_user_write(void *to, const void *from, size_t bytes)
{
    pthread_mutex_lock(&lock);
    memcpy(host_of(user_of(to), (tb_dptr)(uintptr_t)to), from, bytes);
    pthread_mutex_unlock(&lock);
}

/* The program's memory as a copy that waits sees it. */
static char *user_rows(const void *at, size_t width, size_t rows, size_t pitch, const char *what)
{
    struct block *user = user_of(at);
    if (!user)
        violation("%s of what is not the program's device memory", what);
    const size_t left = user->bytes - (size_t)((tb_dptr)(uintptr_t)at - user->base);
    if ((rows - 1) * pitch + width > left)
        violation("%s passes the end of the program's memory", what);
    return host_of(user, (tb_dptr)(uintptr_t)at);
}

static enum tb_status sim_fetch(void *host, const void *device, struct tb_copy shape)
{
    pthread_mutex_lock(&lock);
    if (failing())
        return leave(failure(TB_DEVICE_FAULT, "fetch"));
    const char *from = user_rows(device, shape.width, shape.rows, shape.src_pitch, "fetch");
    for (size_t row = 0; row < shape.rows; row++)
        memcpy((char *)host + row * shape.dst_pitch, from + row * shape.src_pitch, shape.width);
    sim.counts.fetches++;
    return leave(TB_OK);
}

static enum tb_status sim_put(void *device, const void *host, struct tb_copy shape)
{
    pthread_mutex_lock(&lock);
    if (failing())
        return leave(failure(TB_DEVICE_FAULT, "put"));
    char *to = user_rows(device, shape.width, shape.rows, shape.dst_pitch, "put");
    for (size_t row = 0; row < shape.rows; row++)
        memcpy(to + row * shape.dst_pitch, (const char *)host + row * shape.src_pitch, shape.width);
    sim.counts.puts++;
    return leave(TB_OK);
}

static enum tb_status sim_follow(struct tb_lane *lane)
{
    (void)lane;
    pthread_mutex_lock(&lock);
    const enum tb_status status = seam("follow");
    sim.counts.follows++;
    return leave(status);
}

/* Fails when the device is gone, and then for good; never once. */
static enum tb_status sim_check(void)
{
    pthread_mutex_lock(&lock);
    return leave(failing() ? failure(TB_DEVICE_FAULT, "check") : TB_OK);
}

static const char *sim_last_error(void)
{
    return error_text;
}

const struct tb_dev_ops *tb_dev(void)
{
    static const struct tb_dev_ops ops = {
        .name = "simulated",
        .open = sim_open,
        .close = sim_close,
        .count = sim_count,
        .uuid = sim_uuid,
        .bind = sim_bind,
        .alloc = sim_alloc,
        .free = sim_free,
        .mem_free = sim_mem_free,
        .pin = sim_pin,
        .unpin = sim_unpin,
        .lane_open = sim_lane_open,
        .lane_close = sim_lane_close,
        .event_open = sim_event_open,
        .timer_open = sim_event_open,
        .event_close = sim_event_close,
        .h2d = sim_h2d,
        .d2h = sim_d2h,
        .d2d = sim_d2d,
        .fill0 = sim_fill0,
        .launch = sim_launch,
        .record = sim_record,
        .wait = sim_wait,
        .elapsed = sim_elapsed,
        .over = sim_over,
        .sync = sim_sync,
        .where = sim_where,
        .shared = sim_shared,
        .used = sim_used,
        .fetch = sim_fetch,
        .put = sim_put,
        .follow = sim_follow,
        .check = sim_check,
        .last_error = sim_last_error,
    };
    return &ops;
}
