/* SPDX-License-Identifier: BSD-3-Clause
 * Finds libcuda by dlopen. Decides whether a driver is there and new enough; not whether a device
 * is. Loading takes no lock: two threads may both load, the first one's table stays (a lock would
 * hang a caller that holds the loader's lock against one of ours that wants it). */
#include "driver.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER_NAME "libcuda.so.1"

static _Atomic(struct tb_driver *) driver_table;

static void driver_claim(void);

/* Names as the library exports them: cuda.h's macros are expanded before they become text. */
#define DRIVER_TEXT(NAME) #NAME
#define DRIVER_SYMBOL(FN) DRIVER_TEXT(FN)

static const struct {
    const char *name;
    size_t offset;
} driver_rows[] = {
#define DRIVER(FN) {DRIVER_SYMBOL(FN), offsetof(struct tb_driver, FN)},
#include "driver.def"
#undef DRIVER
};

/* Fills in what there is; the first name the library lacks, or NULL. */
static const char *driver_fill(struct tb_driver *table, void *handle)
{
    const char *missing = NULL;
    for (size_t i = 0; i < sizeof driver_rows / sizeof driver_rows[0]; i++) {
        void *fn = dlsym(handle, driver_rows[i].name);
        if (!fn && !missing)
            missing = driver_rows[i].name;
        memcpy((char *)table + driver_rows[i].offset, &fn, sizeof fn);
    }
    return missing;
}

static enum tb_status driver_judge(struct tb_driver *table, void *handle, char *why, size_t bytes)
{
    const char *missing = driver_fill(table, handle);
    int version = 0;
    /* The version first: an old driver lacks names too, and its number says more than a name. */
    if (table->cuDriverGetVersion && table->cuDriverGetVersion(&version) != CUDA_SUCCESS)
        version = 0;
    if (version > 0 && version < TB_DRIVER_MIN) {
        snprintf(why, bytes, "the GPU driver supports CUDA %d.%d, %d.%d is needed", version / 1000,
                 version % 1000 / 10, TB_DRIVER_MIN / 1000, TB_DRIVER_MIN % 1000 / 10);
        return TB_OLD_DRIVER;
    }
    if (missing || version == 0) {
        snprintf(why, bytes, "the GPU driver has no usable %s",
                 missing ? missing : "cuDriverGetVersion");
        return TB_OLD_DRIVER;
    }
    return TB_OK;
}

enum tb_status driver_open(const struct tb_driver **out, char *why, size_t why_bytes)
{
    struct tb_driver *known = atomic_load_explicit(&driver_table, memory_order_acquire);
    if (known) {
        *out = known;
        return TB_OK;
    }
    driver_claim();
    /* The handle is never closed: the driver does not survive being unloaded. */
    void *handle = dlopen(DRIVER_NAME, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *text = dlerror();
        snprintf(why, why_bytes, "no GPU driver: %s", text ? text : DRIVER_NAME);
        (void)dlerror(); /* gives the text's memory back */
        return TB_NO_DRIVER;
    }
    struct tb_driver *fresh = calloc(1, sizeof *fresh);
    if (!fresh) {
        snprintf(why, why_bytes, "out of memory");
        return TB_NO_MEMORY;
    }
    enum tb_status status = driver_judge(fresh, handle, why, why_bytes);
    if (status != TB_OK) {
        free(fresh);
        return status;
    }
    if (!atomic_compare_exchange_strong(&driver_table, &known, fresh)) {
        free(fresh);
        fresh = known;
    }
    *out = fresh;
    return TB_OK;
}

struct driver_search {
    unsigned long long adds_known, adds;
    bool driver, runtime;
};

static int driver_look(struct dl_phdr_info *info, size_t size, void *data)
{
    struct driver_search *search = data;
    (void)size;
    search->adds = info->dlpi_adds;
    if (search->adds == search->adds_known)
        return 1; /* nothing was loaded since the last search */
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *file = slash ? slash + 1 : info->dlpi_name;
    search->driver |= strncmp(file, "libcuda.so", strlen("libcuda.so")) == 0;
    search->runtime |= strncmp(file, "libcudart.so", strlen("libcudart.so")) == 0;
    return 0;
}

static _Atomic bool driver_mapped, driver_foreign, driver_loading;

/* The loader's list has a lock that the C library does not make anew in a child: a thread of ours
 * that held it as another one forked would leave it locked there for ever. So no fork while one
 * looks. */
static pthread_mutex_t driver_looking = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;

static void driver_before_fork(void)
{
    pthread_mutex_lock(&driver_looking);
}

static void driver_after_fork(void)
{
    pthread_mutex_unlock(&driver_looking);
}

static void driver_hear_forks(void)
{
    pthread_atfork(driver_before_fork, driver_after_fork, driver_after_fork);
}

static void driver_scan_locked(void);

/* Where another thread looks just now, what it finds will do: nobody waits here, least of all a
 * caller that the loader itself has called. */
static void driver_scan(void)
{
    pthread_once(&driver_once, driver_hear_forks);
    if (pthread_mutex_trylock(&driver_looking) != 0)
        return;
    driver_scan_locked();
    pthread_mutex_unlock(&driver_looking);
}

/* dlopen(RTLD_NOLOAD) would wait for a load in progress on another thread; the list of loaded
 * objects is guarded by a lock that is held for instants only. */
static void driver_scan_locked(void)
{
    static _Atomic unsigned long long adds;
    struct driver_search search = {.adds_known = atomic_load_explicit(&adds, memory_order_relaxed)};
    const bool ours = atomic_load(&driver_loading);
    dl_iterate_phdr(driver_look, &search);
    if (search.driver && !ours && !atomic_load(&driver_mapped))
        atomic_store(&driver_foreign, true);
    if (search.runtime)
        atomic_store(&driver_foreign, true);
    if (search.driver)
        atomic_store(&driver_mapped, true);
    atomic_store_explicit(&adds, search.adds, memory_order_relaxed);
}

bool driver_is_mapped(void)
{
    if (!atomic_load_explicit(&driver_mapped, memory_order_relaxed))
        driver_scan();
    return atomic_load_explicit(&driver_mapped, memory_order_relaxed);
}

bool driver_is_shared(void)
{
    if (!atomic_load_explicit(&driver_foreign, memory_order_relaxed))
        driver_scan();
    return atomic_load_explicit(&driver_foreign, memory_order_relaxed);
}

/* Who was first: to be settled before we load the driver ourselves. */
static void driver_claim(void)
{
    driver_scan();
    atomic_store(&driver_loading, true);
}
