/* SPDX-License-Identifier: BSD-3-Clause
 * Which CPU BLAS a name leads to: the configured one, else what the program would have reached
 * without us, else OpenBLAS by handle. Never ourselves. Called at the first call of each name, from
 * any thread and possibly with the loader's lock held: nothing here waits for another thread, and a
 * name found nowhere is looked for again at the next question. */
#include "fallback.h"
#include "elf.h"
#include "object.h"
#include "../src/conf.h"
#include "../src/log.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct target {
    void *fn;
    const struct tb_object *owner;
};

static _Atomic(const struct tb_object *) last_scanned; /* where the scan found something last */
static _Atomic(const struct tb_object *) in_use;       /* the library of the level-3 doors */

/* ---- What a definition is worth ---- */

static bool spelled_wide(const char *name)
{
    size_t n = strlen(name);
    return (n > 3 && strcmp(name + n - 3, "64_") == 0) ||
           (n > 3 && strcmp(name + n - 3, "_64") == 0);
}

/* shgemm took bfloat16 in OpenBLAS 0.3.10 and takes IEEE half since 0.3.31. Its gemmt of 0.3.26
 * gives wrong results and crashes (row-major, conjugated); the one beside gemmtr, from 0.3.29 on,
 * is another. */
static bool means_what_we_mean(const char *name, const struct tb_object *owner)
{
    if (strstr(name, "shgemm"))
        return object_kind(owner)->openblas_version >= 331;
    const int version = strstr(name, "gemmt") ? object_kind(owner)->openblas_version : 0;
    return version == 0 || version >= 329;
}

static struct target judge(void *fn, const char *name)
{
    const struct tb_object *owner = fn ? object_at(fn) : NULL;
    if (!owner || owner->ours || !means_what_we_mean(name, owner))
        return (struct target){0};
    return (struct target){fn, owner};
}

static bool is_wide_for(const struct tb_object *owner, const char *name)
{
    return !spelled_wide(name) && object_kind(owner)->wide;
}

static struct target narrow_only(struct target t, const char *name)
{
    return t.fn && is_wide_for(t.owner, name) ? (struct target){0} : t;
}

/* ---- Step 1: TILEBLAS_CPU_BLAS ---- */

static void complain_once(atomic_bool *told, const char *library, const char *why)
{
    if (!atomic_exchange(told, true))
        log_line(0, "TILEBLAS_CPU_BLAS=%s %s; using another CPU BLAS", library, why);
}

static void *open_configured(const char *library)
{
    static _Atomic(void *) handle;
    static atomic_bool refused, told;
    void *h = atomic_load(&handle);
    if (h || atomic_load(&refused))
        return h;
    h = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (h && !dlsym(h, TB_MARKER)) {
        atomic_store(&handle, h);
        return h;
    }
    atomic_store(&refused, true);
    complain_once(&told, library, h ? "leads back to tileblas" : "cannot be opened");
    return NULL;
}

static struct target configured(const char *library, const char *name)
{
    static atomic_bool told;
    void *handle = open_configured(library);
    struct target t = judge(handle ? dlsym(handle, name) : NULL, name);
    if (t.fn && is_wide_for(t.owner, name)) {
        complain_once(&told, library, "has 64-bit integers behind plain names");
        return (struct target){0};
    }
    return t;
}

/* ---- Step 2: what the program would have reached ---- */

/* A definition in front of ours in the global scope belongs to somebody who calls us: going there
 * would never end. NULL if there is none, or if we are not in the global scope. */
static const void *in_front(const char *name)
{
    void *global = dlopen(NULL, RTLD_LAZY);
    void *marker = global ? dlsym(global, TB_MARKER) : NULL;
    void *first = marker && object_is_ours(marker) ? dlsym(global, name) : NULL;
    return first && !object_is_ours(first) ? first : NULL;
}

static const void *base_of(const void *address)
{
    Dl_info info;
    return address && dladdr(address, &info) ? info.dli_fbase : NULL;
}

/* The scope of the object that called: itself and its dependencies. */
static void *in_scope_of(const void *caller, const char *name)
{
    struct link_map *map = NULL;
    Dl_info info;
    if (!caller || !dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) || !map ||
        map->l_name[0] == '\0')
        return NULL;
    void *handle = dlopen(map->l_name, RTLD_NOLOAD | RTLD_LAZY);
    void *fn = handle ? dlsym(handle, name) : NULL;
    if (handle)
        dlclose(handle); /* object_at() pins the object of the definition instead */
    return fn;
}

struct scan {
    const char *name;
    size_t skip; /* candidates already tried */
    char *path;  /* of the next one */
};

static int scan_object(struct dl_phdr_info *info, size_t bytes, void *data)
{
    struct scan *scan = data;
    const ElfW(Dyn) *dyn = NULL;
    (void)bytes;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dyn = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    if (!dyn || !info->dlpi_name || info->dlpi_name[0] == '\0' ||
        !elf_defines(info->dlpi_addr, dyn, scan->name) ||
        elf_defines(info->dlpi_addr, dyn, TB_MARKER) || scan->skip-- > 0)
        return 0;
    scan->path = strdup(info->dlpi_name);
    return 1;
}

/* Any loaded object that defines the name, in the order of loading; a library that served another
 * name goes first, so that all names come from one. */
static struct target in_any_object(const char *name, const void *excluded, bool allow_wide)
{
    const struct tb_object *last = atomic_load_explicit(&last_scanned, memory_order_acquire);
    struct target t = judge(last ? object_own_symbol(last, name) : NULL, name);
    t = allow_wide ? t : narrow_only(t, name);
    for (size_t tried = 0; !t.fn; tried++) {
        struct scan scan = {.name = name, .skip = tried};
        if (!dl_iterate_phdr(scan_object, &scan))
            return t;
        void *handle = scan.path ? dlopen(scan.path, RTLD_NOLOAD | RTLD_LAZY) : NULL;
        void *fn = handle ? dlsym(handle, name) : NULL;
        free(scan.path);
        if (fn && base_of(fn) != excluded)
            t = judge(fn, name);
        t = allow_wide ? t : narrow_only(t, name);
        if (handle)
            dlclose(handle);
    }
    atomic_store_explicit(&last_scanned, t.owner, memory_order_release);
    return t;
}

static struct target reachable(const char *name, const void *caller)
{
    void *next = dlsym(RTLD_NEXT, name);
    struct target t = judge(next, name);
    if (t.fn)
        return t;
    const void *excluded = base_of(in_front(name));
    void *fn = in_scope_of(caller, name);
    if (fn && base_of(fn) != excluded)
        t = judge(fn, name);
    if (t.fn)
        return t;
    /* Behind a second copy of ours the global scope goes on, whatever stands there; other objects
     * are a guess, and a wide one cannot be meant by a caller whose own scope does not lead to it.
     */
    return in_any_object(name, excluded, next && object_is_ours(next));
}

/* ---- Step 4: OpenBLAS by handle ---- */

/* The internals of an OpenBLAS in the global scope would capture those of one opened later. */
static bool openblas_is_global(void)
{
    static const char *const internals[] = {"exec_blas", "gotoblas", "openblas_get_config", NULL};
    void *global = dlopen(NULL, RTLD_LAZY);
    for (const char *const *name = internals; global && *name; name++) {
        void *found = dlsym(global, *name);
        if (found && !object_is_ours(found))
            return true;
    }
    return false;
}

/* A library by its soname, opened once; NULL where it is not installed, is ours, or must not be
 * opened. */
static void *open_once(const char *soname, _Atomic(void *) *handle, atomic_bool *missing)
{
    void *h = atomic_load(handle);
    if (h || atomic_load(missing))
        return h;
    h = dlopen(soname, RTLD_NOLOAD | RTLD_LAZY);
    if (!h && openblas_is_global())
        return NULL;
    if (!h)
        h = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    if (h && dlsym(h, TB_MARKER))
        h = NULL;
    atomic_store(handle, h);
    atomic_store(missing, !h);
    return h;
}

static void *openblas(void)
{
    static _Atomic(void *) handle;
    static atomic_bool missing;
    return open_once("libopenblas.so.0", &handle, &missing);
}

static void *system_blas(void)
{
    static _Atomic(void *) handle;
    static atomic_bool missing;
    return open_once("libblas.so.3", &handle, &missing);
}

static struct target in_handle(void *handle, const char *name)
{
    return narrow_only(judge(handle ? dlsym(handle, name) : NULL, name), name);
}

/* A door missing in OpenBLAS has our own path on top of OpenBLAS: no second library for it. */
static struct target opened(const char *name, bool door)
{
    void *first = openblas();
    struct target t = in_handle(first, name);
    if (t.fn || (first && door))
        return t;
    return in_handle(system_blas(), name);
}

/* ---- The rule ---- */

static struct tb_found found_of(struct target t, struct target origin, const char *name)
{
    return (struct tb_found){.fn = (tb_fn)t.fn,
                             .origin = (tb_fn)origin.fn,
                             .wide = is_wide_for(t.owner, name),
                             .mkl = object_kind(t.owner)->mkl,
                             .path = t.owner->path};
}

static struct tb_found find(const char *name, const void *caller, bool door)
{
    const char *library = conf_get()->cpu_blas;
    bool next = strcmp(library, "next") == 0;
    struct target t = {0};
    if (library[0] != '\0' && !next)
        t = configured(library, name);
    bool asked_for = t.fn != NULL;
    if (!t.fn)
        t = reachable(name, caller);
    if (!t.fn && !next)
        t = opened(name, door);
    if (!t.fn)
        return (struct tb_found){0};
    struct target better = {0};
    if (door && !next && !asked_for && object_kind(t.owner)->reference &&
        !is_wide_for(t.owner, name))
        better = in_handle(openblas(), name);
    struct target used = better.fn ? better : t;
    if (door && (!atomic_load(&in_use) || strstr(name, "dgemm")))
        atomic_store(&in_use, used.owner);
    return found_of(used, t, name);
}

struct tb_found fallback_find(const char *name, const void *caller, bool door)
{
    int saved = errno;
    struct tb_found found = find(name, caller, door);
    errno = saved;
    return found;
}

void fallback_missing(const char *name)
{
    dprintf(STDERR_FILENO, "%s: symbol lookup error: tileblas: undefined symbol: %s\n",
            program_invocation_name, name);
    _exit(127);
}

/* ---- The library in use ---- */

const char *fallback_path(void)
{
    const struct tb_object *object = atomic_load(&in_use);
    return object ? object->path : "";
}

int fallback_threads(void)
{
    const struct tb_object *object = atomic_load(&in_use);
    const struct tb_kind *kind = object ? object_kind(object) : NULL;
    int threads = kind && kind->threads ? kind->threads() : 0;
    if (threads > 1 && kind->serial && kind->serial())
        return 1; /* it does not nest its threads into the caller's team */
    if (threads > 0)
        return threads;
    cpu_set_t cpus;
    if ((kind && kind->reference) || sched_getaffinity(0, sizeof cpus, &cpus) != 0)
        return 1;
    return CPU_COUNT(&cpus);
}

bool fallback_set_threads(int threads)
{
    const struct tb_object *object = atomic_load(&in_use);
    const struct tb_kind *kind = object ? object_kind(object) : NULL;
    if (!kind || !kind->set_threads)
        return false;
    kind->set_threads(threads);
    return true;
}

/* Of what OpenBLAS says of itself only the name and the version: the processor it names is not the
 * same in every process. */
void fallback_name(char *out, size_t room)
{
    const struct tb_object *object = atomic_load(&in_use);
    const char *path = object ? object->path : "", *slash = strrchr(path, '/');
    const char *config = object ? object_kind(object)->config : NULL;
    const char *space = config ? strchr(config, ' ') : NULL;
    if (!space) {
        snprintf(out, room, "%s", slash ? slash + 1 : path);
        return;
    }
    const int length = (int)(space - config + 1) + (int)strcspn(space + 1, " ");
    snprintf(out, room, "%.*s%s", length, config,
             strstr(config, "USE_OPENMP") ? " with OpenMP" : "");
}
