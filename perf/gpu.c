/* SPDX-License-Identifier: BSD-3-Clause
 * The CUDA driver for the measuring programs: opened at run time, a few of its functions, declared
 * by hand so that these programs compile on any machine. */
#include "perf.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct gpu_driver gpu;
struct gpu_facts gpu_facts = {.name = "none"};
static char gpu_text[200] = "no GPU";

const char *gpu_error(void)
{
    return gpu_text;
}

bool gpu_ok(int result, const char *what)
{
    const char *name = "unknown";
    if (result == 0)
        return true;
    if (gpu.cuGetErrorName)
        gpu.cuGetErrorName(result, &name);
    snprintf(gpu_text, sizeof gpu_text, "%s: %s", what, name);
    return false;
}

static bool gpu_load(char *why, size_t bytes)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        snprintf(why, bytes, "no GPU driver (libcuda.so.1)");
        return false;
    }
#define LOOK(NAME, ARGS)                                                                           \
    *(void **)(void *)&gpu.NAME = dlsym(lib, #NAME);                                               \
    if (!gpu.NAME) {                                                                               \
        snprintf(why, bytes, "the GPU driver has no " #NAME);                                      \
        return false;                                                                              \
    }
    GPU_FUNCTIONS(LOOK)
#undef LOOK
    return true;
}

bool gpu_open(char *why, size_t bytes)
{
    static const struct {
        int attribute; /* CUdevice_attribute */
        int *out;
    } wanted[] = {{16, &gpu_facts.sms},        {38, &gpu_facts.l2_bytes},
                  {97, &gpu_facts.smem_block}, {81, &gpu_facts.smem_sm},
                  {39, &gpu_facts.threads_sm}, {82, &gpu_facts.regs_sm},
                  {13, &gpu_facts.clock_mhz}};
    int device = 0, major = 0, minor = 0;
    void *context = NULL;
    if (gpu_facts.cc)
        return true;
    if (!gpu_load(why, bytes))
        return false;
    bool ok = GPU(cuInit, 0) && GPU(cuDeviceGet, &device, 0) &&
              GPU(cuDeviceGetName, gpu_facts.name, sizeof gpu_facts.name, device) &&
              GPU(cuDeviceGetAttribute, &major, 75, device) &&
              GPU(cuDeviceGetAttribute, &minor, 76, device) &&
              GPU(cuDriverGetVersion, &gpu_facts.driver);
    for (size_t i = 0; ok && i < sizeof wanted / sizeof wanted[0]; i++)
        ok = GPU(cuDeviceGetAttribute, wanted[i].out, wanted[i].attribute, device);
    ok = ok && GPU(cuDevicePrimaryCtxRetain, &context, device) && GPU(cuCtxSetCurrent, context);
    if (!ok) {
        snprintf(why, bytes, "%s", gpu_text);
        snprintf(gpu_facts.name, sizeof gpu_facts.name, "none");
        return false;
    }
    gpu_facts.clock_mhz /= 1000;
    gpu_facts.cc = major * 10 + minor;
    return true;
}

bool gpu_timer_open(struct gpu_timer *timer, void *stream)
{
    timer->stream = stream;
    return GPU(cuEventCreate, &timer->from, 0) && GPU(cuEventCreate, &timer->to, 0);
}

bool gpu_timer_start(struct gpu_timer *timer)
{
    return GPU(cuEventRecord, timer->from, timer->stream);
}

double gpu_timer_stop(struct gpu_timer *timer)
{
    float ms = -1;
    if (!GPU(cuEventRecord, timer->to, timer->stream) || !GPU(cuEventSynchronize, timer->to) ||
        !GPU(cuEventElapsedTime, &ms, timer->from, timer->to))
        return -1;
    return (double)ms;
}

void *gpu_module(const char *file)
{
    char path[4096];
    void *module = NULL;
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 256);
    if (n <= 0)
        return NULL;
    path[n] = 0;
    char *slash = strrchr(path, '/');
    /* libtool keeps the real program one folder down */
    if (slash - path > 6 && strncmp(slash - 6, "/.libs", 6) == 0)
        slash -= 6;
    snprintf(slash + 1, 255, "%s", file);
    if (access(path, R_OK) != 0) {
        snprintf(gpu_text, sizeof gpu_text, "%.150s is missing beside the program", file);
        return NULL;
    }
    return GPU(cuModuleLoad, &module, path) ? module : NULL;
}

void *gpu_function(void *module, const char *name)
{
    void *fn = NULL;
    return module && gpu_ok(gpu.cuModuleGetFunction(&fn, module, name), name) ? fn : NULL;
}
