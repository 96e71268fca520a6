/* SPDX-License-Identifier: BSD-3-Clause
 * The one device of the process: which one, whether it is up, when it is given up. Works on the
 * seam of dev.h alone, so it serves every device. Decides nothing about calls; offload.c asks it.
 *
 * State and owner live in one atomic word, so a child can tell that its parent's device is not its
 * own without a lock that the parent may have held. The lock below is for waiting and for texts
 * only. */
#include "device.h"

#include <ctype.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "calibrate.h"
#include "conf.h"
#include "dev.h"
#include "log.h"
#include "pool.h"

#define DEVICE_STACK_BYTES                                                                         \
    ((size_t)2 << 20) /* the program's own limit may be tiny or unlimited                          \
                       */
#define DEVICE_SECOND_NS   INT64_C(1000000000)
#define DEVICE_EXIT_NS     (10 * DEVICE_SECOND_NS) /* the longest that exit waits for a start */
#define DEVICE_WAIT_MAX_NS (3600 * DEVICE_SECOND_NS)

enum { DEVICE_LIST_MAX = 64, DEVICE_UUID_DIGITS = 32, DEVICE_TEXT_BYTES = 320 };

/* One entry of TILEBLAS_DEVICES: an ordinal, or the first hex digits of a UUID. */
struct device_item {
    int ordinal; /* -1: by uuid */
    char uuid[DEVICE_UUID_DIGITS + 1];
};

struct device_list {
    int n; /* 0: all */
    struct device_item item[DEVICE_LIST_MAX];
};

static _Atomic uint64_t device_word; /* state in the low byte, above it the pid that took it on */
static _Atomic int device_faults;
static _Atomic int64_t device_began_ns; /* when the start began; 0: it has not */
static _Atomic bool device_exiting;

static pthread_once_t device_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t device_changed;
static bool device_exit_heard; /* the exit handler is registered */

/* Written before the state that makes them visible, never after it. */
static struct device_list device_wanted;
static struct tb_caps device_facts;
static char device_text[DEVICE_TEXT_BYTES];

/* --- state ---------------------------------------------------------------------------------------
 */

static uint64_t device_pack(enum tb_device_state state, pid_t owner)
{
    return (uint64_t)(uint32_t)owner << 8 | (uint64_t)state;
}

static enum tb_device_state device_unpack(uint64_t word, pid_t *owner)
{
    *owner = (pid_t)(uint32_t)(word >> 8);
    return (enum tb_device_state)(word & 0xff);
}

enum tb_device_state device_state(void)
{
    pid_t owner;
    uint64_t word = atomic_load_explicit(&device_word, memory_order_acquire);
    enum tb_device_state state = device_unpack(word, &owner);
    if (state == TB_DEVICE_UNTRIED || state == TB_DEVICE_ABSENT || state == TB_DEVICE_FORKED)
        return state;
    if (owner != getpid()) /* also after a raw clone, which runs no fork handlers */
        return TB_DEVICE_FORKED;
    if (atomic_load_explicit(&device_exiting, memory_order_relaxed))
        return TB_DEVICE_DEAD;
    return state;
}

/* Ends the start: the new state, and everybody who waits for it awake. */
static void device_settle(enum tb_device_state state)
{
    atomic_store_explicit(&device_word, device_pack(state, getpid()), memory_order_release);
    pthread_mutex_lock(&device_lock);
    pthread_cond_broadcast(&device_changed);
    pthread_mutex_unlock(&device_lock);
}

static void device_settle_absent(const char *text)
{
    snprintf(device_text, sizeof device_text, "%s", text);
    device_settle(TB_DEVICE_ABSENT);
}

static bool device_is_starting(void)
{
    pid_t owner;
    return device_unpack(atomic_load_explicit(&device_word, memory_order_acquire), &owner) ==
               TB_DEVICE_STARTING &&
           owner == getpid();
}

static void device_await(int64_t wait_ns)
{
    struct timespec until;
    int cancel;
    if (wait_ns > DEVICE_WAIT_MAX_NS)
        wait_ns = DEVICE_WAIT_MAX_NS;
    clock_gettime(CLOCK_MONOTONIC, &until);
    wait_ns += until.tv_nsec;
    until.tv_sec += (time_t)(wait_ns / DEVICE_SECOND_NS);
    until.tv_nsec = (long)(wait_ns % DEVICE_SECOND_NS);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_mutex_lock(&device_lock);
    while (device_is_starting())
        if (pthread_cond_timedwait(&device_changed, &device_lock, &until) != 0)
            break;
    pthread_mutex_unlock(&device_lock);
    pthread_setcancelstate(cancel, &cancel);
}

/* --- fork and exit -------------------------------------------------------------------------------
 */

/* The lock needs no repair in a child: whoever finds the device started by its parent never takes
 * it. */
static void device_in_child(void)
{
    pid_t owner;
    enum tb_device_state state =
        device_unpack(atomic_load_explicit(&device_word, memory_order_acquire), &owner);
    if (state != TB_DEVICE_UNTRIED && state != TB_DEVICE_ABSENT)
        atomic_store(&device_word, device_pack(TB_DEVICE_FORKED, 0));
}

/* A process that ends while the driver is being set up on another thread can crash in the driver:
 * let the start end first. From here on nothing is sent to the device. */
static void device_at_exit(void)
{
    atomic_store(&device_exiting, true);
    if (device_is_starting())
        device_await(DEVICE_EXIT_NS);
}

static void device_prepare(void)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&device_changed, &attr);
    pthread_condattr_destroy(&attr);
    device_exit_heard =
        atexit(device_at_exit) == 0 && pthread_atfork(NULL, NULL, device_in_child) == 0;
}

/* --- which device --------------------------------------------------------------------------------
 */

/* "3"; "GPU-" or "MIG-" and the first digits of a UUID; or all 32 digits of it, with or without
 * dashes. */
static bool device_parse_item(const char *text, size_t length, struct device_item *out)
{
    size_t digits = 0;
    bool prefixed = length > 4 && (!strncmp(text, "GPU-", 4) || !strncmp(text, "MIG-", 4));
    *out = (struct device_item){.ordinal = -1};
    if (!prefixed && length > 0 && length <= 4 && strspn(text, "0123456789") >= length) {
        out->ordinal = atoi(text); /* stops at the comma */
        return true;
    }
    for (size_t i = prefixed ? 4 : 0; i < length; i++) {
        if (text[i] == '-')
            continue;
        if (!isxdigit((unsigned char)text[i]) || digits == DEVICE_UUID_DIGITS)
            return false;
        out->uuid[digits++] = (char)tolower((unsigned char)text[i]);
    }
    return prefixed ? digits > 0 : digits == DEVICE_UUID_DIGITS;
}

static bool device_parse_list(const char *text, struct device_list *out)
{
    out->n = 0;
    if (!*text || !strcmp(text, "all"))
        return true;
    for (;;) {
        size_t blanks = strspn(text, " \t");
        text += blanks;
        size_t length = strcspn(text, ","), used = length;
        while (used > 0 && (text[used - 1] == ' ' || text[used - 1] == '\t'))
            used--;
        if (out->n == DEVICE_LIST_MAX || !device_parse_item(text, used, &out->item[out->n]))
            return false;
        out->n++;
        if (!text[length])
            return true;
        text += length + 1;
    }
}

/* Number of this process among those of its job on this machine, 0 where there is no job. */
static int device_local_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                        "SLURM_LOCALID", "PMI_LOCAL_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = secure_getenv(names[i]);
        if (text && *text && strlen(text) <= 6 && strspn(text, "0123456789") == strlen(text))
            return atoi(text);
    }
    return 0;
}

static bool device_matches(const struct device_item *item, int ordinal)
{
    char uuid[DEVICE_UUID_DIGITS + 1] = "";
    if (item->ordinal >= 0)
        return item->ordinal == ordinal;
    return tb_dev()->uuid(ordinal, uuid) == TB_OK && !strncmp(uuid, item->uuid, strlen(item->uuid));
}

/* The ordinals to try, in the order of the list; of n devices. */
static int device_candidates(const struct device_list *list, int n, int out[DEVICE_LIST_MAX])
{
    int found = 0;
    if (list->n == 0)
        for (int i = 0; i < n && found < DEVICE_LIST_MAX; i++)
            out[found++] = i;
    for (int i = 0; i < list->n; i++)
        for (int ordinal = 0; ordinal < n; ordinal++)
            if (device_matches(&list->item[i], ordinal)) {
                out[found++] = ordinal;
                break;
            }
    return found;
}

/* --- the start -----------------------------------------------------------------------------------
 */

/* What the device says about the last failure, or else what the status means. */
static const char *device_reason(enum tb_status status)
{
    const char *text = tb_dev()->last_error ? tb_dev()->last_error() : NULL;
    return text && *text ? text : tb_status_text(status);
}

/* Opens the first usable device of the list, counted from the one of our rank; NULL, or why not. */
static const char *device_bring_up(void)
{
    int n = 0, candidates[DEVICE_LIST_MAX];
    enum tb_status status = tb_dev()->count(&n);
    if (status != TB_OK)
        return device_reason(status);
    /* Once more: handlers run last in, first out, and the driver may have registered its own by
     * now. */
    if (atexit(device_at_exit) != 0)
        return "the process is ending";
    int found = device_candidates(&device_wanted, n, candidates);
    if (found == 0)
        return n == 0 ? tb_status_text(TB_NO_DEVICE)
                      : "TILEBLAS_DEVICES names no GPU of this machine";
    int first = device_local_rank() % found;
    for (int i = 0; i < found; i++) {
        if (atomic_load(&device_exiting))
            return "the process is ending";
        status = tb_dev()->open(candidates[(first + i) % found], &device_facts);
        device_facts.strict = conf_get()->math == TB_MATH_STRICT;
        if (status == TB_OK) {
            calibrate_device(tb_dev(), &device_facts);
            device_facts.tuned = calibrate_tuned();
            return NULL;
        }
    }
    return device_reason(status);
}

static void *device_thread(void *unused)
{
    (void)unused;
    const char *why = device_bring_up();
    if (why)
        device_settle_absent(why);
    else
        device_settle(TB_DEVICE_READY);
    return NULL;
}

static int device_spawn(void)
{
    pthread_attr_t attr;
    pthread_t thread;
    int error = pthread_attr_init(&attr);
    if (error)
        return error;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, DEVICE_STACK_BYTES);
    /* The driver's threads inherit the signal mask and the CPUs. */
    error = thread_begin(&thread, &attr, device_thread, NULL);
    pthread_attr_destroy(&attr);
    return error;
}

static void device_begin(void)
{
    uint64_t untried = device_pack(TB_DEVICE_UNTRIED, 0);
    const char *list = conf_get()->devices;
    pthread_once(&device_once, device_prepare);
    atomic_store(&device_began_ns, (int64_t)log_now_ns());
    if (!atomic_compare_exchange_strong(&device_word, &untried,
                                        device_pack(TB_DEVICE_STARTING, getpid())))
        return;
    if (!tb_dev()) {
        device_settle_absent("built without GPU support");
        return;
    }
    if (!strcmp(list, "none")) {
        device_settle_absent("TILEBLAS_DEVICES=none");
        return;
    }
    if (!device_parse_list(list, &device_wanted)) {
        log_line(0,
                 "TILEBLAS_DEVICES=%s is not all, none, or a list of ordinals and UUIDs; using all",
                 list);
        device_wanted.n = 0;
    }
    if (!device_exit_heard)
        device_settle_absent("the process is ending");
    else if (device_spawn() != 0)
        device_settle_absent(tb_status_text(TB_NO_THREAD));
}

enum tb_device_state device_start(int64_t wait_ns)
{
    if (device_state() == TB_DEVICE_UNTRIED)
        device_begin();
    if (wait_ns > 0 && device_state() == TB_DEVICE_STARTING)
        device_await(wait_ns);
    return device_state();
}

int64_t device_starting_ns(void)
{
    const int64_t began = atomic_load_explicit(&device_began_ns, memory_order_relaxed);
    return began != 0 && device_state() == TB_DEVICE_STARTING ? (int64_t)log_now_ns() - began : 0;
}

/* --- facts and faults ----------------------------------------------------------------------------
 */

const struct tb_caps *device_caps(void)
{
    return device_state() == TB_DEVICE_READY ? &device_facts : NULL;
}

const char *device_why_not(void)
{
    pid_t owner;
    switch (device_state()) {
    case TB_DEVICE_FORKED:
        return tb_status_text(TB_FORKED);
    case TB_DEVICE_STARTING:
        return "the GPU is starting";
    case TB_DEVICE_DEAD: /* or not dead at all, but not to be used any more */
        if (device_unpack(atomic_load_explicit(&device_word, memory_order_acquire), &owner) !=
            TB_DEVICE_DEAD)
            return "the process is ending";
        return device_text;
    case TB_DEVICE_ABSENT:
        return device_text;
    case TB_DEVICE_UNTRIED:
    case TB_DEVICE_READY:
        break;
    }
    return "";
}

/* Switches the device off; false if somebody else has. It is left as it is: its work may never end.
 */
static bool device_give_up(int faults, enum tb_status status, const char *doing)
{
    bool mine = false;
    pthread_mutex_lock(&device_lock);
    if (device_state() == TB_DEVICE_READY) {
        snprintf(device_text, sizeof device_text,
                 "GPU switched off after %d fault%s, the last one: %s: %s", faults,
                 faults == 1 ? "" : "s", doing, device_reason(status));
        atomic_store_explicit(&device_word, device_pack(TB_DEVICE_DEAD, getpid()),
                              memory_order_release);
        mine = true;
    }
    pthread_mutex_unlock(&device_lock);
    return mine;
}

void device_fault(enum tb_status status, const char *doing, bool final)
{
    if (device_state() != TB_DEVICE_READY)
        return;
    int faults = atomic_fetch_add(&device_faults, 1) + 1;
    if (!final && faults < TB_DEVICE_FAULTS_MAX) {
        log_line(2, "GPU fault %d of %d: %s: %s", faults, TB_DEVICE_FAULTS_MAX, doing,
                 device_reason(status));
        return;
    }
    if (device_give_up(faults, status, doing))
        log_line(1, "%s", device_text);
}
