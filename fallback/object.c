/* SPDX-License-Identifier: BSD-3-Clause
 * The libraries met so far and what is known about each, by the marks they carry. Decides what a
 * library is; which library serves a name is decided in find.c, the only caller. The list is
 * push-only and lock-free: a thread in a constructor holds the loader's lock, and would deadlock
 * with one that holds a lock of ours and asks the loader. */
#include "object.h"
#include "elf.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic(struct tb_object *) objects;

static bool map_of(const void *address, struct link_map **map, Dl_info *info)
{
    *map = NULL;
    return dladdr1(address, info, (void **)map, RTLD_DL_LINKMAP) != 0 && *map != NULL;
}

bool object_is_ours(const void *address)
{
    struct link_map *map;
    Dl_info info;
    return map_of(address, &map, &info) && elf_defines(map->l_addr, map->l_ld, TB_MARKER);
}

void *object_own_symbol(const struct tb_object *object, const char *name)
{
    void *found = dlsym(object->handle, name);
    Dl_info info;
    return found && dladdr(found, &info) && (uintptr_t)info.dli_fbase == object->base ? found
                                                                                      : NULL;
}

/* A mark of the object or of what it depends on (an interface library in front of the real one).
 * The scope of the main program is everybody's, so only its own symbols count. */
static void *mark(const struct tb_object *object, const char *name)
{
    if (object->program)
        return object_own_symbol(object, name);
    void *found = dlsym(object->handle, name);
    return found && !object_is_ours(found) ? found : NULL;
}

static void *first_mark(const struct tb_object *object, const char *const *names)
{
    void *found = NULL;
    for (; *names && !found; names++)
        found = mark(object, *names);
    return found;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool ends_with(const char *text, size_t length, const char *tail)
{
    size_t n = strlen(tail);
    return length >= n && strncmp(text + length - n, tail, n) == 0;
}

/* libblas64.so.3, libmkl_intel_ilp64.so: 64 that tells the integers, not the processor. */
static bool name_is_wide(const char *path)
{
    static const char *const other[] = {"lp64",    "x86_64",  "x86-64",  "amd64", "x64", "arm64",
                                        "aarch64", "riscv64", "linux64", "win64", NULL};
    const char *name = base_name(path), *end = strstr(name, ".so");
    size_t length = end ? (size_t)(end - name) : strlen(name);
    if (ends_with(name, length, "ilp64"))
        return true;
    for (const char *const *o = other; *o; o++)
        if (ends_with(name, length, *o))
            return false;
    return ends_with(name, length, "64");
}

static const char *openblas_config(const struct tb_object *object)
{
    static const char *const names[] = {"openblas_get_config", "openblas_get_config64_",
                                        "openblas_get_config_64", NULL};
    char *(*get)(void) = (char *(*)(void))first_mark(object, names);
    return get ? get() : NULL;
}

static int parse_version(const char *config)
{
    int major, minor, patch;
    const char *digits = config ? strpbrk(config, "0123456789") : NULL;
    if (!digits || sscanf(digits, "%d.%d.%d", &major, &minor, &patch) != 3)
        return 0;
    return major * 10000 + minor * 100 + patch;
}

static bool detect_wide(const struct tb_object *object, const char *config)
{
    if (config)
        return strstr(config, "USE64BITINT") != NULL;
    int (*bits)(void) = (int (*)(void))mark(object, "bli_info_get_blas_int_type_size");
    if (bits)
        return bits() == 64;
    const char *layer = secure_getenv("MKL_INTERFACE_LAYER");
    if (layer && strstr(layer, "ILP64") && strncmp(base_name(object->path), "libmkl_rt", 9) == 0)
        return true;
    return !object->program && name_is_wide(object->path);
}

static bool detect_reference(const struct tb_object *object)
{
    static const char *const others[] = {"openblas_get_config",
                                         "openblas_get_config64_",
                                         "mkl_get_version",
                                         "bli_info_get_version_str",
                                         "flexiblas_get_version",
                                         "ATL_buildinfo",
                                         NULL};
    bool looks = object_own_symbol(object, "RowMajorStrg") ||
                 object_own_symbol(object, "dasumsub_") ||
                 strncmp(base_name(object->path), "libgslcblas", 11) == 0;
    return looks && !first_mark(object, others);
}

static void describe(const struct tb_object *object, struct tb_kind *out)
{
    static const char *const threads[] = {"openblas_get_num_threads",
                                          "openblas_get_num_threads64_",
                                          "scipy_openblas_get_num_threads",
                                          "scipy_openblas_get_num_threads64_",
                                          "mkl_get_max_threads",
                                          "MKL_Get_Max_Threads",
                                          "bli_thread_get_num_threads",
                                          NULL};
    static const char *const set[] = {"openblas_set_num_threads",
                                      "openblas_set_num_threads64_",
                                      "scipy_openblas_set_num_threads",
                                      "scipy_openblas_set_num_threads64_",
                                      "MKL_Set_Num_Threads",
                                      "bli_thread_set_num_threads",
                                      NULL};
    const char *config = openblas_config(object);
    out->openblas_version = parse_version(config);
    out->wide = detect_wide(object, config);
    out->reference = detect_reference(object);
    out->mkl = mark(object, "mkl_get_version") || mark(object, "MKL_Get_Version") ||
               strncmp(base_name(object->path), "libmkl_", 7) == 0;
    out->threads = (int (*)(void))first_mark(object, threads);
    out->set_threads = (void (*)(long))first_mark(object, set);
    out->config = config;
    if (out->mkl || (config && strstr(config, "USE_OPENMP")))
        out->serial = (int (*)(void))(uintptr_t)dlsym(RTLD_DEFAULT, "omp_in_parallel");
}

const struct tb_kind *object_kind(const struct tb_object *object)
{
    static const struct tb_kind nothing_special;
    static __thread bool asking __attribute__((tls_model("initial-exec")));
    struct tb_object *o = (struct tb_object *)(uintptr_t)object;
    const struct tb_kind *old = atomic_load_explicit(&o->kind, memory_order_acquire);
    if (old || asking)
        return old ? old : &nothing_special;
    struct tb_kind *kind = calloc(1, sizeof *kind);
    if (!kind)
        return &nothing_special;
    asking = true;
    describe(object, kind);
    asking = false;
    if (atomic_compare_exchange_strong_explicit(&o->kind, &old, kind, memory_order_acq_rel,
                                                memory_order_acquire))
        return kind;
    free(kind); /* another thread was first */
    return old;
}

static const struct tb_object *known(uintptr_t base)
{
    struct tb_object *o = atomic_load_explicit(&objects, memory_order_acquire);
    while (o && o->base != base)
        o = o->next;
    return o;
}

static struct tb_object *make(const struct link_map *map, const Dl_info *info, const void *address)
{
    struct tb_object *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->base = (uintptr_t)info->dli_fbase;
    o->program = map->l_name[0] == '\0';
    o->path = strdup(o->program ? info->dli_fname : map->l_name);
    o->handle = dlopen(o->program ? NULL : map->l_name, RTLD_LAZY | RTLD_NOLOAD);
    if (!o->path || !o->handle) {
        free((void *)(uintptr_t)o->path);
        free(o);
        return NULL;
    }
    o->ours = object_is_ours(address);
    return o;
}

const struct tb_object *object_at(const void *address)
{
    struct link_map *map;
    Dl_info info;
    if (!map_of(address, &map, &info))
        return NULL;
    const struct tb_object *old = known((uintptr_t)info.dli_fbase);
    if (old)
        return old;
    struct tb_object *o = make(map, &info, address);
    if (!o)
        return NULL;
    /* A second record of one object, from a race, is harmless: both say the same. */
    o->next = atomic_load_explicit(&objects, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&objects, &o->next, o, memory_order_release,
                                                  memory_order_relaxed))
        ;
    return o;
}
