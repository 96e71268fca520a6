/* SPDX-License-Identifier: BSD-3-Clause
 * Where a name leads, decided at its first call: to its door, straight to the CPU BLAS (names that
 * are not doors, wide libraries behind plain names, bare names of other owners), or nowhere.
 * Finding the CPU BLAS is fallback/'s. Several threads may resolve the same name at once and come
 * to the same answer. */
#include "resolve.h"
#include "doors.h"
#include "../fallback/fallback.h"
#include "../src/log.h"
#include "../src/run.h"
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

struct tb_cpu tb_cpu[TB_DOORS];

/* Their types differ; only addresses are needed here. */
#define DOOR(SHAPE, OP, NAME, TYPES, SPELLED, I, STYLE) void tb_door_##SPELLED(void);
#include "doors.def"
#undef DOOR

static const struct {
    tb_fn door;
    unsigned char wide;
} doors[TB_DOORS] = {
#define DOOR(SHAPE, OP, NAME, TYPES, SPELLED, I, STYLE) {tb_door_##SPELLED, sizeof(I) == 8},
#include "doors.def"
#undef DOOR
};

/* The first of the bare names: they come last. */
#define TB_FIRST_BARE TB_DOOR_sgemm

static const char *name_of(size_t index)
{
    const char *name = tb_names;
    while (index-- > 0)
        name += strlen(name) + 1;
    return name;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The next definition whoever's it is. Where fallback/ found none, this is a second copy of
 * ourselves: a program linked to libtileblas.so may use bare names. */
static tb_fn next_copy(const char *name)
{
    void *const address = dlsym(RTLD_NEXT, name);
    tb_fn fn;
    memcpy(&fn, &address, sizeof fn);
    return fn;
}

/* Where calls of a door's name go. Fills the door's CPU entry first: the slot opens after it. */
static tb_fn resolve_door(size_t index, const char *name, const void *caller)
{
    pthread_once(&once, run_setup);
    run_look();
    const struct tb_found found = fallback_find(name, caller, true);
    /* A bare dgemm is oneMKL's (by reference) or somebody's own function of any signature: the
     * preload library touches only the former. */
    if (tb_doors_only && index >= TB_FIRST_BARE && !found.mkl) {
        const tb_fn next = found.origin != NULL ? found.origin : next_copy(name);
        if (next == NULL)
            fallback_missing(name);
        return next;
    }
    if (found.wide && !doors[index].wide) {
        log_line(2, "%s: forwarded only, %s has 64-bit integers behind plain names", name,
                 found.path);
        return found.fn;
    }
    struct tb_cpu *const cpu = &tb_cpu[index];
    const tb_fn direct = found.fn == found.origin ? found.fn : NULL;
    cpu->origin = found.origin;
    cpu->fn = found.fn;
    cpu->direct = direct;
    log_line(3, "%s: %s", name, found.fn != NULL ? found.path : "own CPU path");
    return doors[index].door;
}

void *tb_resolve(size_t index, const void *caller)
{
    const char *const name = name_of(index);
    tb_fn to;
    if (index < TB_DOORS) {
        to = resolve_door(index, name, caller);
    } else {
        to = fallback_find(name, caller, false).fn;
        if (to == NULL)
            fallback_missing(name);
    }
    void *address;
    memcpy(&address, &to, sizeof address);
    __atomic_store_n(&tb_slots[index], address, __ATOMIC_RELEASE);
    return address;
}
