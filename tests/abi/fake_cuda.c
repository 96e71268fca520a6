/* SPDX-License-Identifier: BSD-3-Clause
 * A stand-in for libcuda.so.1, for machines without a GPU: every function of src/driver.def, on
 * plain memory. It computes nothing (a launch is only counted). Built with the soname libcuda.so.1
 * and found by LD_LIBRARY_PATH. The environment makes it misbehave: FAKE_CUDA_VERSION=12080 what
 * cuDriverGetVersion says (13000) FAKE_CUDA_DEVICES=3         number of devices (1); 0 makes cuInit
 * fail as the driver does FAKE_CUDA_EXCLUSIVE=0,2     these ordinals are in compute mode
 * EXCLUSIVE_PROCESS FAKE_CUDA_INIT_MS=300       time cuInit takes;  FAKE_CUDA_OPEN_MS that of the
 * primary context FAKE_CUDA_FAIL=NAME:CODE:N  from its N-th call on (1), NAME returns CODE
 *   FAKE_CUDA_CC=90  FAKE_CUDA_SMEM=232448  FAKE_CUDA_PITCH=2147483647  FAKE_CUDA_MEMORY=bytes
 *   FAKE_CUDA_BUSY=N           events are over when asked for the N+1st time (0)
 *   FAKE_CUDA_CALLS=file        one line "pid name" is appended for every call
 * Like the driver, it does not survive being torn down under a call: the process then ends by
 * SIGABRT. */
#define _GNU_SOURCE
#include <cuda.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "../../kernels/kparams.h"

enum { FAKE_DEVICES_MAX = 16, FAKE_RANGES = 256, FAKE_NAMES = 64 };

/* --- counting and failing on request -------------------------------------------------------------
 */

struct fake_count {
    char name[64];
    int calls;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_count counts[FAKE_NAMES];
static _Atomic int total, inside;
static _Atomic bool initialized, torn_down;
static bool signals_blocked;
static _Atomic int last_band, last_hint;
static _Atomic pid_t user; /* the process of the last call: a child inherits no calls */

static long setting(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? atol(text) : otherwise;
}

/* Names count as a program writes them: cuMemAlloc, whatever version of it this is. */
static const char *plain_name(const char *name, char text[64])
{
    snprintf(text, 64, "%s", name);
    char *version = strstr(text, "_v2");
    if (version)
        *version = 0;
    return text;
}

static int count(const char *name)
{
    pthread_mutex_lock(&lock);
    int i = 0;
    while (*counts[i].name && strcmp(counts[i].name, name))
        i++;
    strcpy(counts[i].name, name);
    int calls = ++counts[i].calls;
    pthread_mutex_unlock(&lock);
    total++;
    return calls;
}

static void write_call(const char *name)
{
    const char *path = getenv("FAKE_CUDA_CALLS");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return;
    char line[128];
    int n = snprintf(line, sizeof line, "%d %s\n", (int)getpid(), name);
    if (write(fd, line, (size_t)n) != n)
        abort();
    close(fd);
}

static CUresult enter(const char *function)
{
    char want[64] = "", text[64];
    const char *name = plain_name(function, text);
    int code = 0, from = 1;
    const char *fail = getenv("FAKE_CUDA_FAIL");
    if (torn_down)
        abort();
    user = getpid();
    inside++;
    int calls = count(name);
    write_call(name);
    if (fail && sscanf(fail, "%63[^:]:%d:%d", want, &code, &from) >= 2 && !strcmp(want, name) &&
        calls >= from)
        return (CUresult)code;
    return CUDA_SUCCESS;
}

static CUresult leave(CUresult result)
{
    inside--;
    return result;
}

#define FAKE_ENTER()                                                                               \
    CUresult result = enter(__func__);                                                             \
    if (result != CUDA_SUCCESS)                                                                    \
    return leave(result)

static void pause_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (ms > 0 && nanosleep(&t, &t) != 0)
        ;
}

__attribute__((destructor)) static void tear_down(void)
{
    torn_down = true;
    if (inside && user == getpid())
        abort();
}

/* For the tests, by dlsym: calls so far of one function (NULL: of all). */
int fake_cuda_calls(const char *name)
{
    int calls = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; name && *counts[i].name; i++)
        if (!strcmp(counts[i].name, name))
            calls = counts[i].calls;
    pthread_mutex_unlock(&lock);
    return name ? calls : total;
}

/* The band of the last launch, and what the last map asked of the L2 cache. */
int fake_cuda_band(void)
{
    return last_band;
}

int fake_cuda_hint(void)
{
    return last_hint;
}

/* Were all signals blocked on the thread that called cuInit? */
int fake_cuda_signals_blocked(void)
{
    return signals_blocked;
}

/* --- devices and contexts ------------------------------------------------------------------------
 */

struct CUctx_st {
    int ordinal, retained;
    bool active;
    unsigned long long id;
};
static struct CUctx_st contexts[FAKE_DEVICES_MAX];
static unsigned long long next_id = 1;
/* Static TLS: the leak checker cannot follow that of a library opened late. */
static _Thread_local CUcontext current __attribute__((tls_model("initial-exec")));

/* What cudaDeviceReset() in the program does to us. */
void fake_cuda_reset(int ordinal, int used_again)
{
    contexts[ordinal].active = used_again;
    contexts[ordinal].id = next_id++;
}

static int devices(void)
{
    long n = setting("FAKE_CUDA_DEVICES", 1);
    return n > FAKE_DEVICES_MAX ? FAKE_DEVICES_MAX : (int)n;
}

static bool is_exclusive(int ordinal)
{
    const char *list = getenv("FAKE_CUDA_EXCLUSIVE");
    for (; list && *list; list += strcspn(list, ",") + (strchr(list, ',') != NULL))
        if (atoi(list) == ordinal)
            return true;
    return false;
}

CUresult CUDAAPI cuInit(unsigned flags)
{
    sigset_t mask;
    (void)flags;
    FAKE_ENTER();
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    signals_blocked = sigismember(&mask, SIGUSR1) && sigismember(&mask, SIGTERM) &&
                      sigismember(&mask, SIGCHLD) && sigismember(&mask, SIGALRM);
    pause_ms(setting("FAKE_CUDA_INIT_MS", 0));
    if (devices() == 0)
        return leave(CUDA_ERROR_NO_DEVICE);
    initialized = true;
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuDriverGetVersion(int *version)
{
    FAKE_ENTER();
    *version = (int)setting("FAKE_CUDA_VERSION", 13000);
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char **text)
{
    static const struct {
        CUresult code;
        const char *text;
    } known[] = {{CUDA_ERROR_OUT_OF_MEMORY, "out of memory"},
                 {CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"},
                 {CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"}};
    *text = "an error of the stand-in";
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].code == error)
            *text = known[i].text;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetCount(int *n)
{
    FAKE_ENTER();
    *n = devices();
    return leave(initialized ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED);
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal)
{
    FAKE_ENTER();
    *device = ordinal;
    return leave(ordinal < devices() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE);
}

CUresult CUDAAPI cuDeviceGetName(char *name, int length, CUdevice device)
{
    FAKE_ENTER();
    snprintf(name, (size_t)length, "Fake GPU %d", device);
    return leave(CUDA_SUCCESS);
}

/* Device 2 is GPU-a0a1a202-a4a5-a6a7-a8a9-aaabacadaeaf: byte 3 is the ordinal. */
CUresult CUDAAPI cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    FAKE_ENTER();
    for (int i = 0; i < 16; i++)
        uuid->bytes[i] = (char)(0xa0 + i);
    uuid->bytes[3] = (char)device;
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    (void)device;
    FAKE_ENTER();
    *bytes = (size_t)setting("FAKE_CUDA_MEMORY", 1 << 30);
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuDeviceGetAttribute(int *out, CUdevice_attribute attribute, CUdevice device)
{
    FAKE_ENTER();
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
        *out = is_exclusive(device) ? CU_COMPUTEMODE_EXCLUSIVE_PROCESS : CU_COMPUTEMODE_DEFAULT;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *out = (int)setting("FAKE_CUDA_CC", 90) / 10;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *out = (int)setting("FAKE_CUDA_CC", 90) % 10;
        break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *out = 132;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *out = (int)setting("FAKE_CUDA_SMEM", 232448);
        break;
    case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO:
        *out = 2;
        break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        *out = 1980000;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
        *out = (int)setting("FAKE_CUDA_PITCH", 2147483647);
        break;
    default:
        return leave(CUDA_ERROR_INVALID_VALUE);
    }
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    FAKE_ENTER();
    pause_ms(setting("FAKE_CUDA_OPEN_MS", 0));
    struct CUctx_st *ctx = &contexts[device];
    if (!ctx->active)
        *ctx = (struct CUctx_st){.ordinal = device, .active = true, .id = next_id++};
    ctx->retained++;
    *context = ctx;
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device)
{
    FAKE_ENTER();
    if (--contexts[device].retained <= 0)
        contexts[device].active = false;
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    FAKE_ENTER();
    *flags = 0;
    *active = contexts[device].active;
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuCtxGetId(CUcontext context, unsigned long long *id)
{
    FAKE_ENTER();
    *id = context->id;
    return leave(context->active ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    static _Thread_local CUstreamCaptureMode own = CU_STREAM_CAPTURE_MODE_GLOBAL;
    FAKE_ENTER();
    const CUstreamCaptureMode before = own;
    own = *mode;
    *mode = before;
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext context)
{
    FAKE_ENTER();
    current = context;
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *context)
{
    FAKE_ENTER();
    *context = current;
    return leave(CUDA_SUCCESS);
}

static _Thread_local CUcontext pushed;

CUresult CUDAAPI cuCtxPushCurrent(CUcontext context)
{
    FAKE_ENTER();
    pushed = current;
    current = context;
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext *context)
{
    FAKE_ENTER();
    *context = current;
    current = pushed;
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    FAKE_ENTER();
    *least = 0;
    *greatest = -5;
    return leave(current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT);
}

/* --- memory: device addresses are addresses of the heap ------------------------------------------
 */

struct fake_range {
    char *start;
    size_t bytes;
    CUmemorytype type;
};
static struct fake_range ranges[FAKE_RANGES];

static size_t in_use(void)
{
    size_t bytes = 0;
    for (int i = 0; i < FAKE_RANGES; i++)
        if (ranges[i].start && ranges[i].type == CU_MEMORYTYPE_DEVICE)
            bytes += ranges[i].bytes;
    return bytes;
}

/* The range that holds the byte, or with NULL a free entry. */
static struct fake_range *find_range(const char *byte)
{
    for (int i = 0; i < FAKE_RANGES; i++)
        if (byte ? ranges[i].start && byte >= ranges[i].start &&
                       byte < ranges[i].start + ranges[i].bytes
                 : !ranges[i].start)
            return &ranges[i];
    return NULL;
}

static void *as_host(CUdeviceptr ptr)
{
    return (void *)(size_t)ptr;
}

CUresult CUDAAPI cuMemAlloc(CUdeviceptr *out, size_t bytes)
{
    FAKE_ENTER();
    if (!current || bytes == 0)
        return leave(current ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_CONTEXT);
    pthread_mutex_lock(&lock);
    struct fake_range *range = find_range(NULL);
    char *memory = NULL;
    if (range && bytes <= (size_t)setting("FAKE_CUDA_MEMORY", 1 << 30) - in_use())
        memory = malloc(bytes);
    if (memory)
        *range = (struct fake_range){memory, bytes, CU_MEMORYTYPE_DEVICE};
    pthread_mutex_unlock(&lock);
    *out = (CUdeviceptr)(size_t)memory;
    return leave(memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

static CUresult forget(char *start, CUmemorytype type)
{
    pthread_mutex_lock(&lock);
    struct fake_range *range = find_range(start);
    bool known = range && range->start == start && range->type == type;
    if (known)
        range->start = NULL;
    pthread_mutex_unlock(&lock);
    if (known && type == CU_MEMORYTYPE_DEVICE)
        free(start);
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemFree(CUdeviceptr ptr)
{
    FAKE_ENTER();
    return leave(forget(as_host(ptr), CU_MEMORYTYPE_DEVICE));
}

CUresult CUDAAPI cuMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    FAKE_ENTER();
    *total_bytes = (size_t)setting("FAKE_CUDA_MEMORY", 1 << 30);
    pthread_mutex_lock(&lock);
    *free_bytes = *total_bytes - in_use();
    pthread_mutex_unlock(&lock);
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemHostRegister(void *host, size_t bytes, unsigned flags)
{
    (void)flags;
    FAKE_ENTER();
    pthread_mutex_lock(&lock);
    struct fake_range *range = find_range(NULL);
    if (range)
        *range = (struct fake_range){host, bytes, CU_MEMORYTYPE_HOST};
    pthread_mutex_unlock(&lock);
    return leave(range ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult CUDAAPI cuMemHostUnregister(void *host)
{
    FAKE_ENTER();
    return leave(forget(host, CU_MEMORYTYPE_HOST));
}

CUresult CUDAAPI cuPointerGetAttributes(unsigned n, CUpointer_attribute *names, void **values,
                                        CUdeviceptr ptr)
{
    FAKE_ENTER();
    if (!initialized)
        return leave(CUDA_ERROR_NOT_INITIALIZED);
    pthread_mutex_lock(&lock);
    struct fake_range *range = find_range(as_host(ptr));
    for (unsigned i = 0; i < n; i++) {
        if (names[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
            *(unsigned *)values[i] = range ? range->type : 0;
        if (names[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED)
            *(unsigned *)values[i] = 0;
        if (names[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            *(int *)values[i] = (int)setting("FAKE_CUDA_OWNER", 0);
        if (names[i] == CU_POINTER_ATTRIBUTE_CONTEXT)
            *(CUcontext *)values[i] = setting("FAKE_CUDA_FOREIGN", 0) ? &contexts[1] : NULL;
    }
    pthread_mutex_unlock(&lock);
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream)
{
    (void)stream;
    FAKE_ENTER();
    memcpy(as_host(dst), src, bytes);
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    (void)stream;
    FAKE_ENTER();
    memcpy(as_host(dst), as_host(src), bytes);
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    (void)stream;
    FAKE_ENTER();
    memcpy(dst, as_host(src), bytes);
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemcpy2DAsync(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    (void)stream;
    FAKE_ENTER();
    size_t max = (size_t)setting("FAKE_CUDA_PITCH", 2147483647);
    if (copy->srcPitch > max || copy->dstPitch > max || copy->WidthInBytes > copy->srcPitch ||
        copy->WidthInBytes > copy->dstPitch)
        return leave(CUDA_ERROR_INVALID_VALUE);
    const char *src =
        copy->srcMemoryType == CU_MEMORYTYPE_HOST ? copy->srcHost : as_host(copy->srcDevice);
    char *dst =
        copy->dstMemoryType == CU_MEMORYTYPE_HOST ? copy->dstHost : as_host(copy->dstDevice);
    for (size_t i = 0; i < copy->Height; i++)
        memcpy(dst + i * copy->dstPitch, src + i * copy->srcPitch, copy->WidthInBytes);
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *copy)
{
    return cuMemcpy2DAsync(copy, NULL);
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t bytes,
                                 CUstream stream)
{
    (void)stream;
    FAKE_ENTER();
    memset(as_host(dst), value, bytes);
    return leave(CUDA_SUCCESS);
}

/* --- streams, events, kernels: all done at once --------------------------------------------------
 */

static int thing; /* what every handle points to */

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    (void)flags;
    (void)priority;
    FAKE_ENTER();
    *stream = (CUstream)&thing;
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuStreamDestroy(CUstream stream)
{
    (void)stream;
    FAKE_ENTER();
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    (void)stream;
    FAKE_ENTER();
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    (void)stream;
    (void)event;
    (void)flags;
    FAKE_ENTER();
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    FAKE_ENTER();
    *event = (CUevent)&thing;
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
    (void)from;
    (void)to;
    FAKE_ENTER();
    *ms = 0;
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuEventDestroy(CUevent event)
{
    (void)event;
    FAKE_ENTER();
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuEventQuery(CUevent event)
{
    static atomic_long busy;
    (void)event;
    FAKE_ENTER();
    const bool over = atomic_fetch_add(&busy, 1) >= setting("FAKE_CUDA_BUSY", 0);
    if (over)
        atomic_store(&busy, 0);
    return leave(over ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream)
{
    (void)event;
    (void)stream;
    FAKE_ENTER();
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit,
                                   void **jit_values, unsigned n, CUlibraryOption *options,
                                   void **values, unsigned n_options)
{
    (void)code;
    (void)jit;
    (void)jit_values;
    (void)n;
    (void)options;
    (void)values;
    (void)n_options;
    FAKE_ENTER();
    *library = (CUlibrary)&thing;
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuLibraryUnload(CUlibrary library)
{
    (void)library;
    FAKE_ENTER();
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    (void)library;
    (void)name;
    FAKE_ENTER();
    *kernel = (CUkernel)&thing;
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    (void)kernel;
    FAKE_ENTER();
    *function = (CUfunction)&thing;
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuFuncGetAttribute(int *out, CUfunction_attribute attribute, CUfunction function)
{
    (void)function;
    FAKE_ENTER();
    *out = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    (void)function;
    (void)attribute;
    (void)value;
    FAKE_ENTER();
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                                             int threads, size_t smem)
{
    (void)function;
    (void)threads;
    (void)smem;
    FAKE_ENTER();
    *blocks = (int)setting("FAKE_CUDA_BLOCKS", 2);
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
                                unsigned bx, unsigned by, unsigned bz, unsigned smem,
                                CUstream stream, void **arguments, void **extra)
{
    (void)function;
    (void)smem;
    (void)stream;
    (void)extra;
    FAKE_ENTER();
    if (!gx || !gy || !gz || !bx || !by || !bz || !arguments || !arguments[0])
        return leave(CUDA_ERROR_INVALID_VALUE);
    last_band = ((const struct tb_gemm_params *)arguments[0])->band;
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                                  void **arguments, void **extra)
{
    (void)function;
    (void)extra;
    FAKE_ENTER();
    if (!config || !config->gridDimX || !config->gridDimY || !config->gridDimZ ||
        !config->blockDimX || !arguments || !arguments[0])
        return leave(CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
            config->gridDimX % config->attrs[i].value.clusterDim.x)
            return leave(CUDA_ERROR_INVALID_VALUE);
    last_band = ((const struct tb_gemm_params *)arguments[0])->band;
    return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                        void *base, const cuuint64_t *sizes,
                                        const cuuint64_t *pitches, const cuuint32_t *box,
                                        const cuuint32_t *steps, CUtensorMapInterleave interleave,
                                        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
                                        CUtensorMapFloatOOBfill fill)
{
    (void)type;
    (void)interleave;
    (void)swizzle;
    (void)fill;
    FAKE_ENTER();
    last_hint = (int)l2;
    bool good = map && (uintptr_t)base % 16 == 0;
    for (cuuint32_t i = 0; good && i < rank; i++)
        good = sizes[i] > 0 && sizes[i] <= UINT64_C(1) << 32 && box[i] > 0 && box[i] <= 256 &&
               steps[i] == 1 && (i == 0 || (pitches[i - 1] % 16 == 0 && pitches[i - 1] >> 40 == 0));
    return leave(good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* Preloaded, the stand-in also answers for the device nodes that go with a driver. */
int access(const char *path, int mode)
{
    if (!strncmp(path, "/dev/nvidia", 11))
        return 0;
    return faccessat(AT_FDCWD, path, mode, 0);
}
