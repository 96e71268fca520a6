/* SPDX-License-Identifier: BSD-3-Clause
 * The CUDA device behind the seam of dev.h, on the driver alone (no run-time library). Decides how
 * an operation is said to the driver and what an answer of it means; not when or whether to use the
 * device. Holds no lock: what is made on first use (images, kernels) is made by whoever comes
 * first, and the loser of a race throws its own away, so that no thread ever waits here for another
 * one of ours. */
#include "dev.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "driver.h"
#include "kernel.h"
#include "../kernels/images.h"

enum { CUDA_KERNELS_MAX = 512, CUDA_TEXT_BYTES = 200 };

/* The open device. Written by open() and close() only, which nobody runs against other operations.
 */
static struct {
    const struct tb_driver *driver;
    CUdevice device;
    CUcontext context;
    unsigned long long id; /* of the context; a context made after a reset has another */
    CUevent canary;        /* never recorded; a query of it tells of sticky errors */
    int cc, smem_max;
    struct tb_caps caps; /* as open() told them */
    size_t pitch_max;
    int priority_low, priority_high;
} cuda;

static _Atomic bool cuda_forked; /* this is a child of the process that opened it */

static void cuda_in_child(void)
{
    atomic_store(&cuda_forked, true);
}

static pthread_once_t cuda_once = PTHREAD_ONCE_INIT;

static void cuda_hear_forks(void)
{
    pthread_atfork(NULL, NULL, cuda_in_child);
}

static _Atomic(CUlibrary) cuda_images[TB_IMAGES];
static _Atomic(CUfunction) cuda_kernels[CUDA_KERNELS_MAX];
static _Atomic int cuda_refused[CUDA_KERNELS_MAX]; /* why a row can never run here, or TB_OK */

static _Thread_local char cuda_text[CUDA_TEXT_BYTES];

static const char *cuda_last_error(void)
{
    return cuda_text;
}

static enum tb_status cuda_refuse(enum tb_status status, const char *text)
{
    snprintf(cuda_text, sizeof cuda_text, "%s", text);
    return status;
}

static enum tb_status cuda_meaning(CUresult result)
{
    switch (result) {
    case CUDA_SUCCESS:
        return TB_OK;
    case CUDA_ERROR_OUT_OF_MEMORY:
        return TB_NO_MEMORY;
    case CUDA_ERROR_NOT_READY:
        return TB_NOT_READY;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_DEVICE_NOT_LICENSED:
    case CUDA_ERROR_SYSTEM_NOT_READY:
        return TB_NO_DEVICE;
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
        return TB_BUSY;
    case CUDA_ERROR_STUB_LIBRARY:
        return TB_NO_DRIVER;
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
        return TB_OLD_DRIVER;
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case CUDA_ERROR_JIT_COMPILATION_DISABLED:
        return TB_NO_IMAGE;
    case CUDA_ERROR_NOT_FOUND:
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
        return TB_NO_KERNEL;
    case CUDA_ERROR_DEINITIALIZED: /* the process is ending */
        return TB_DEVICE_OFF;
    default: /* every sticky error, a dead context, and whatever should not happen */
        return TB_DEVICE_FAULT;
    }
}

static enum tb_status cuda_outcome(const char *what, CUresult result)
{
    if (result == CUDA_SUCCESS)
        return TB_OK;
    const char *text = NULL;
    if (cuda.driver->cuGetErrorString(result, &text) != CUDA_SUCCESS || !text)
        text = "unknown error";
    snprintf(cuda_text, sizeof cuda_text, "%s: %s (%d)", what, text, (int)result);
    return cuda_meaning(result);
}

/* Calls the driver; the status of the answer. */
#define CU(FN, ...) cuda_outcome(#FN, cuda.driver->FN(__VA_ARGS__))

/* --- which devices there are ---------------------------------------------------------------------
 */

/* Without any of these cuInit can only fail, and would run a set-uid helper program to find out. */
static bool cuda_has_node(void)
{
    static const char *const nodes[] = {
        "/dev/nvidiactl",   "/proc/driver/nvidia/version", "/dev/dxg",
        "/dev/nvhost-ctrl", "/dev/nvhost-ctrl-gpu",        "/dev/nvgpu"};
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++)
        if (access(nodes[i], F_OK) == 0)
            return true;
    return false;
}

static enum tb_status cuda_count(int *n)
{
    *n = 0;
    const char *visible = secure_getenv("CUDA_VISIBLE_DEVICES");
    if (visible && !*visible)
        return cuda_refuse(TB_NO_DEVICE, "CUDA_VISIBLE_DEVICES is empty");
    const struct tb_driver *driver;
    enum tb_status status = driver_open(&driver, cuda_text, sizeof cuda_text);
    if (status != TB_OK)
        return status;
    cuda.driver = driver;
    if (!cuda_has_node())
        return cuda_refuse(TB_NO_DEVICE, "a GPU driver library, but no GPU device node in /dev");
    status = CU(cuInit, 0);
    if (status == TB_OK)
        status = CU(cuDeviceGetCount, n);
    if (status == TB_OK && *n == 0)
        status = cuda_refuse(TB_NO_DEVICE, "the GPU driver lists no device");
    return status;
}

static enum tb_status cuda_uuid(int ordinal, char text[33])
{
    CUdevice device;
    CUuuid uuid;
    enum tb_status status = CU(cuDeviceGet, &device, ordinal);
    if (status == TB_OK)
        status = CU(cuDeviceGetUuid, &uuid, device);
    for (int i = 0; status == TB_OK && i < 16; i++)
        snprintf(text + 2 * i, 3, "%02x", (unsigned)(unsigned char)uuid.bytes[i]);
    return status;
}

/* --- open and close ------------------------------------------------------------------------------
 */

static enum tb_status cuda_attribute(CUdevice_attribute attribute, int *out)
{
    return CU(cuDeviceGetAttribute, out, attribute, cuda.device);
}

/* The facts that need no context, and whether the device will have us at all. */
static enum tb_status cuda_read_facts(struct tb_caps *caps)
{
    int major = 0, minor = 0, khz = 0, pitch = 0, mode = CU_COMPUTEMODE_DEFAULT;
    const struct {
        CUdevice_attribute attribute;
        int *out;
    } wanted[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, &mode},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &caps->sms},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &caps->smem_block},
        {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, &caps->fp64_ratio},
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &khz},
        {CU_DEVICE_ATTRIBUTE_MAX_PITCH, &pitch},
    };
    enum tb_status status = CU(cuDeviceGetName, caps->name, sizeof caps->name, cuda.device);
    for (size_t i = 0; status == TB_OK && i < sizeof wanted / sizeof wanted[0]; i++)
        status = cuda_attribute(wanted[i].attribute, wanted[i].out);
    if (status == TB_OK)
        status = CU(cuDeviceTotalMem, &caps->mem_total, cuda.device);
    if (status == TB_OK)
        status = CU(cuDriverGetVersion, &caps->driver);
    if (status != TB_OK)
        return status;
    caps->clock_mhz = khz / 1000;
    caps->cc = cuda.cc = major * 10 + minor;
    cuda.smem_max = caps->smem_block;
    cuda.pitch_max = (size_t)pitch;
    /* Taking an exclusive device would lock out the program's other processes, or be refused. */
    if (mode != CU_COMPUTEMODE_DEFAULT)
        return cuda_refuse(TB_NO_DEVICE, mode == CU_COMPUTEMODE_PROHIBITED
                                             ? "the GPU is in compute mode PROHIBITED"
                                             : "the GPU is in compute mode EXCLUSIVE_PROCESS");
    return TB_OK;
}

static enum tb_status cuda_has_kernels(void)
{
    for (int i = 0; i < kernel_count() && i < CUDA_KERNELS_MAX; i++)
        if (kernel_row(i)->cc_min <= cuda.cc && cuda.cc <= kernel_row(i)->cc_max)
            return TB_OK;
    char text[80];
    snprintf(text, sizeof text, "no kernel for compute capability %d.%d", cuda.cc / 10,
             cuda.cc % 10);
    return cuda_refuse(TB_NO_IMAGE, text);
}

/* A program may reset the device behind our back (cudaDeviceReset): streams, events, memory and
 * pinning of ours are gone with the context. A handle of it must not be touched then, so the
 * context is asked for its identity first. */
static enum tb_status cuda_alive(void)
{
    unsigned flags;
    int active = 0;
    unsigned long long id = 0;
    if (!cuda.context)
        return cuda_refuse(TB_NO_DEVICE, "no device is open");
    enum tb_status status = CU(cuDevicePrimaryCtxGetState, cuda.device, &flags, &active);
    if (status == TB_OK && !active)
        return cuda_refuse(TB_DEVICE_FAULT, "the program has reset the GPU");
    if (status == TB_OK)
        status = CU(cuCtxGetId, cuda.context, &id);
    if (status == TB_OK && id != cuda.id)
        return cuda_refuse(TB_DEVICE_FAULT, "the program has reset the GPU");
    return status;
}

static enum tb_status cuda_check(void)
{
    const enum tb_status status = cuda_alive();
    return status == TB_OK ? CU(cuEventQuery, cuda.canary) : status;
}

static void cuda_close(void)
{
    /* After a reset of the context everything in it is gone already, and the handles are stale. */
    bool alive = cuda.context && (!cuda.canary || cuda_check() == TB_OK);
    for (int i = 0; i < CUDA_KERNELS_MAX; i++) {
        atomic_store(&cuda_kernels[i], NULL);
        atomic_store(&cuda_refused[i], TB_OK);
    }
    for (int i = 0; i < TB_IMAGES; i++) {
        CUlibrary image = atomic_exchange(&cuda_images[i], NULL);
        if (image)
            (void)CU(cuLibraryUnload, image);
    }
    if (alive) {
        if (cuda.canary)
            (void)CU(cuEventDestroy, cuda.canary);
        (void)CU(cuCtxSetCurrent, NULL);
        (void)CU(cuDevicePrimaryCtxRelease, cuda.device);
    }
    cuda.context = NULL;
    cuda.canary = NULL;
}

/* While the program captures a graph in the global mode, what a thread of ours asks of the driver
 * would be refused, and would end the capture. */
static void cuda_stay_out(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    (void)cuda.driver->cuThreadExchangeStreamCaptureMode(&mode);
}

static enum tb_status cuda_open_context(struct tb_caps *caps)
{
    size_t total;
    cuda_stay_out();
    enum tb_status status = CU(cuDevicePrimaryCtxRetain, &cuda.context, cuda.device);
    if (status != TB_OK)
        return status;
    status = CU(cuCtxSetCurrent, cuda.context);
    if (status == TB_OK)
        status = CU(cuCtxGetId, cuda.context, &cuda.id);
    if (status == TB_OK)
        status = CU(cuEventCreate, &cuda.canary, CU_EVENT_DISABLE_TIMING);
    if (status == TB_OK)
        status = CU(cuCtxGetStreamPriorityRange, &cuda.priority_low, &cuda.priority_high);
    if (status == TB_OK)
        status = CU(cuMemGetInfo, &caps->mem_free, &total);
    return status;
}

static enum tb_status cuda_open(int ordinal, struct tb_caps *caps)
{
    *caps = (struct tb_caps){.inline_calls = false};
    pthread_once(&cuda_once, cuda_hear_forks);
    if (!cuda.driver || cuda.context)
        return cuda_refuse(TB_NO_DEVICE, "open() without count(), or twice");
    enum tb_status status = CU(cuDeviceGet, &cuda.device, ordinal);
    if (status == TB_OK)
        status = cuda_read_facts(caps);
    if (status == TB_OK)
        status = cuda_has_kernels();
    if (status == TB_OK)
        status = cuda_open_context(caps);
    cuda.caps = *caps;
    if (status != TB_OK) {
        char reason[CUDA_TEXT_BYTES];
        memcpy(reason, cuda_text, sizeof reason);
        cuda_close();
        memcpy(cuda_text, reason, sizeof reason);
    }
    return status;
}

static enum tb_status cuda_bind(void)
{
    if (!cuda.context)
        return cuda_refuse(TB_NO_DEVICE, "no device is open");
    cuda_stay_out();
    return CU(cuCtxSetCurrent, cuda.context);
}

/* --- memory --------------------------------------------------------------------------------------
 */

static enum tb_status cuda_alloc(size_t bytes, tb_dptr *out)
{
    CUdeviceptr ptr = 0;
    *out = 0;
    enum tb_status status = CU(cuMemAlloc, &ptr, bytes);
    if (status == TB_OK)
        *out = ptr;
    return status;
}

static enum tb_status cuda_free(tb_dptr ptr)
{
    return ptr ? CU(cuMemFree, ptr) : TB_OK;
}

static enum tb_status cuda_mem_free(size_t *bytes)
{
    size_t total;
    *bytes = 0;
    return CU(cuMemGetInfo, bytes, &total);
}

static enum tb_status cuda_pin(void *host, size_t bytes)
{
    CUresult result = cuda.driver->cuMemHostRegister(host, bytes, 0);
    enum tb_status status = cuda_outcome("cuMemHostRegister", result);
    /* A limit of the system on locked memory: nothing is broken. */
    if (result == CUDA_ERROR_OPERATING_SYSTEM || result == CUDA_ERROR_NOT_PERMITTED ||
        result == CUDA_ERROR_NOT_SUPPORTED)
        status = TB_NO_MEMORY;
    return status;
}

static enum tb_status cuda_unpin(void *host)
{
    return CU(cuMemHostUnregister, host);
}

/* What the driver knows about an address of the program's; TB_HOST_PAGEABLE: nothing. `owner` is
 * the context it belongs to. */
static enum tb_where cuda_lookup(const struct tb_driver *driver, const void *ptr, CUcontext *owner)
{
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_CONTEXT};
    unsigned type = 0, managed = 0;
    int ordinal = -1;
    *owner = NULL;
    void *values[] = {&type, &managed, &ordinal, owner};
    /* The plural form answers with zeros, not with an error, for memory it does not know. */
    if (driver->cuPointerGetAttributes(4, names, values, (CUdeviceptr)(uintptr_t)ptr) !=
        CUDA_SUCCESS)
        return TB_HOST_PAGEABLE; /* not initialized by anybody, or a context that died */
    /* In a context of the program's own the work on it is ordered by streams that ours do not see.
     */
    const bool foreign = cuda.context && *owner && *owner != cuda.context;
    if (managed)
        return foreign ? TB_DEVICE_FAR : TB_MANAGED;
    if (type == CU_MEMORYTYPE_HOST)
        return TB_HOST_PINNED;
    if (type != CU_MEMORYTYPE_DEVICE)
        return TB_HOST_PAGEABLE;
    return foreign || (cuda.context && ordinal != cuda.device) ? TB_DEVICE_FAR : TB_DEVICE;
}

/* The driver, if the program can have memory of it: not if it is not in this process. */
static const struct tb_driver *cuda_mapped(void)
{
    const struct tb_driver *driver;
    char why[CUDA_TEXT_BYTES];
    if (!driver_is_mapped() || driver_open(&driver, why, sizeof why) != TB_OK)
        return NULL;
    return driver;
}

static enum tb_status cuda_where(const void *ptr, enum tb_where *out)
{
    CUcontext owner;
    const struct tb_driver *driver = cuda_mapped();
    *out = driver ? cuda_lookup(driver, ptr, &owner) : TB_HOST_PAGEABLE;
    return TB_OK;
}

static bool cuda_shared(void)
{
    return driver_is_shared();
}

/* We bind the context on threads of our own only: one that is current here is the program's. */
static bool cuda_used(void)
{
    CUcontext current = NULL;
    return cuda.context && !atomic_load_explicit(&cuda_forked, memory_order_relaxed) &&
           cuda.driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current;
}

/* The driver takes no pitch above a limit in the other form of this copy; this one is slower where
 * rows are not aligned, which does not matter here. A copy that waits, in the context of the
 * memory; the thread's own current context comes back. */
static enum tb_status cuda_copy_now(const CUDA_MEMCPY2D *copy, const void *device)
{
    CUcontext owner, ours;
    const struct tb_driver *driver = cuda_mapped();
    if (!driver || cuda_lookup(driver, device, &owner) == TB_HOST_PAGEABLE)
        return cuda_refuse(TB_DEVICE_FAULT, "not memory of a device any more");
    if (owner && driver->cuCtxPushCurrent(owner) != CUDA_SUCCESS)
        return cuda_refuse(TB_DEVICE_FAULT, "the context of the operand does not answer");
    const CUresult result = driver->cuMemcpy2DUnaligned(copy);
    if (owner)
        (void)driver->cuCtxPopCurrent(&ours);
    return result == CUDA_SUCCESS
               ? TB_OK
               : cuda_refuse(TB_DEVICE_FAULT,
                             "a copy from or to the program's device memory failed");
}

/* The extent of a copy; where it lies on either side is the caller's to say. */
static CUDA_MEMCPY2D cuda_rectangle(struct tb_copy shape)
{
    return (CUDA_MEMCPY2D){.srcPitch = shape.src_pitch,
                           .dstPitch = shape.dst_pitch,
                           .WidthInBytes = shape.width,
                           .Height = shape.rows};
}

static enum tb_status cuda_fetch(void *host, const void *device, struct tb_copy shape)
{
    CUDA_MEMCPY2D copy = cuda_rectangle(shape);
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = (CUdeviceptr)(uintptr_t)device;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = host;
    return cuda_copy_now(&copy, device);
}

static enum tb_status cuda_put(void *device, const void *host, struct tb_copy shape)
{
    CUDA_MEMCPY2D copy = cuda_rectangle(shape);
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = host;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = (CUdeviceptr)(uintptr_t)device;
    return cuda_copy_now(&copy, device);
}

/* --- lanes and events ----------------------------------------------------------------------------
 */

static CUstream cuda_stream(struct tb_lane *lane)
{
    return (CUstream)lane;
}

static CUevent cuda_event(struct tb_event *event)
{
    return (CUevent)event;
}

static enum tb_status cuda_lane_open(struct tb_lane **out, bool high_priority)
{
    CUstream stream = NULL;
    /* Non-blocking: our work must not wait for the program's default stream, nor it for ours. */
    enum tb_status status = CU(cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING,
                               high_priority ? cuda.priority_high : cuda.priority_low);
    *out = (struct tb_lane *)stream;
    return status;
}

static void cuda_lane_close(struct tb_lane *lane)
{
    if (lane)
        (void)CU(cuStreamDestroy, cuda_stream(lane));
}

static enum tb_status cuda_event_create(struct tb_event **out, unsigned flags)
{
    CUevent event = NULL;
    const enum tb_status status = CU(cuEventCreate, &event, flags);
    *out = (struct tb_event *)event;
    return status;
}

/* Not CU_EVENT_BLOCKING_SYNC, which raises an interrupt when the event is over: one CPU serves all
 * the interrupts of a device, some 10 us each, and a thread that waits for one wakes late where
 * there are thousands a second. cuda_sync() looks from time to time instead. */
static enum tb_status cuda_event_open(struct tb_event **out)
{
    return cuda_event_create(out, CU_EVENT_DISABLE_TIMING);
}

static enum tb_status cuda_timer_open(struct tb_event **out)
{
    return cuda_event_create(out, CU_EVENT_DEFAULT);
}

static void cuda_event_close(struct tb_event *event)
{
    if (event)
        (void)CU(cuEventDestroy, cuda_event(event));
}

static enum tb_status cuda_record(struct tb_event *event, struct tb_lane *lane)
{
    return CU(cuEventRecord, cuda_event(event), cuda_stream(lane));
}

static enum tb_status cuda_wait(struct tb_lane *lane, struct tb_event *event)
{
    return CU(cuStreamWaitEvent, cuda_stream(lane), cuda_event(event), CU_EVENT_WAIT_DEFAULT);
}

static enum tb_status cuda_elapsed(struct tb_event *from, struct tb_event *to, double *ns)
{
    float ms = 0;
    const enum tb_status status = CU(cuEventElapsedTime, &ms, cuda_event(from), cuda_event(to));
    *ns = (double)ms * 1e6;
    return status;
}

/* A look at an event: is it over? The program may have reset the device since the last one. */
static enum tb_status cuda_over(struct tb_event *event, bool *over)
{
    enum tb_status status = cuda_alive();
    if (status != TB_OK)
        return status;
    const CUresult result = cuda.driver->cuEventQuery(cuda_event(event));
    *over = result != CUDA_ERROR_NOT_READY;
    return *over ? cuda_outcome("cuEventQuery", result) : TB_OK;
}

/* Sleeps between looks, the longer the longer it takes: beyond the first of them a sixteenth of the
 * time at most is lost. */
static enum tb_status cuda_sync(struct tb_event *event)
{
    const int64_t least = 20, most = 1000, hung = 5000000;
    int64_t waited = 0; /* us, by what was asked for */
    for (;;) {
        bool over;
        const enum tb_status status = cuda_over(event, &over);
        if (status != TB_OK || over)
            return status;
        const int64_t part = waited / 16;
        const int64_t nap = waited > hung  ? 100 * most
                            : part < least ? least
                            : part > most  ? most
                                           : part;
        nanosleep(&(struct timespec){0, (long)nap * 1000}, NULL);
        waited += nap;
    }
}

/* An event on the legacy default stream stands behind all the streams that wait for it. While the
 * program captures a graph the stream takes none; such work is not asked for yet. */
static enum tb_status cuda_follow(struct tb_lane *lane)
{
    CUevent event = NULL;
    CUstreamCaptureStatus captures;
    /* To ask does not end the capture; to record would. */
    if (cuda.driver->cuStreamIsCapturing(CU_STREAM_LEGACY, &captures) ==
        CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
        return TB_OK;
    enum tb_status status = CU(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
    if (status != TB_OK)
        return status;
    const CUresult result = cuda.driver->cuEventRecord(event, CU_STREAM_LEGACY);
    if (result == CUDA_SUCCESS)
        status = CU(cuStreamWaitEvent, cuda_stream(lane), event, CU_EVENT_WAIT_DEFAULT);
    else if (result != CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
        status = cuda_outcome("cuEventRecord", result);
    (void)cuda.driver->cuEventDestroy(event); /* the driver keeps it as long as it is waited for */
    return status;
}

/* --- copies --------------------------------------------------------------------------------------
 */

enum cuda_way { CUDA_AS_ONE, CUDA_AS_RECTANGLE, CUDA_BY_ROWS };

/* Rows without gaps go as one run, which is faster; the driver takes no pitch above a limit. */
static enum cuda_way cuda_copy_way(const struct tb_copy *shape)
{
    if (shape->rows == 1 || (shape->dst_pitch == shape->width && shape->src_pitch == shape->width))
        return CUDA_AS_ONE;
    if (shape->dst_pitch > cuda.pitch_max || shape->src_pitch > cuda.pitch_max)
        return CUDA_BY_ROWS;
    return CUDA_AS_RECTANGLE;
}

static enum tb_status cuda_h2d(struct tb_lane *lane, tb_dptr dst, const void *src,
                               struct tb_copy shape)
{
    enum tb_status status = TB_OK;
    if (shape.width == 0 || shape.rows == 0)
        return TB_OK;
    switch (cuda_copy_way(&shape)) {
    case CUDA_AS_ONE:
        return CU(cuMemcpyHtoDAsync, dst, src, shape.width * shape.rows, cuda_stream(lane));
    case CUDA_BY_ROWS:
        for (size_t i = 0; status == TB_OK && i < shape.rows; i++)
            status = CU(cuMemcpyHtoDAsync, dst + i * shape.dst_pitch,
                        (const char *)src + i * shape.src_pitch, shape.width, cuda_stream(lane));
        return status;
    case CUDA_AS_RECTANGLE:
        break;
    }
    CUDA_MEMCPY2D copy = cuda_rectangle(shape);
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = src;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = dst;
    return CU(cuMemcpy2DAsync, &copy, cuda_stream(lane));
}

static enum tb_status cuda_d2h(struct tb_lane *lane, void *dst, tb_dptr src, struct tb_copy shape)
{
    enum tb_status status = TB_OK;
    if (shape.width == 0 || shape.rows == 0)
        return TB_OK;
    switch (cuda_copy_way(&shape)) {
    case CUDA_AS_ONE:
        return CU(cuMemcpyDtoHAsync, dst, src, shape.width * shape.rows, cuda_stream(lane));
    case CUDA_BY_ROWS:
        for (size_t i = 0; status == TB_OK && i < shape.rows; i++)
            status = CU(cuMemcpyDtoHAsync, (char *)dst + i * shape.dst_pitch,
                        src + i * shape.src_pitch, shape.width, cuda_stream(lane));
        return status;
    case CUDA_AS_RECTANGLE:
        break;
    }
    CUDA_MEMCPY2D copy = cuda_rectangle(shape);
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = src;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = dst;
    return CU(cuMemcpy2DAsync, &copy, cuda_stream(lane));
}

static enum tb_status cuda_d2d(struct tb_lane *lane, tb_dptr dst, tb_dptr src, struct tb_copy shape)
{
    if (shape.width == 0 || shape.rows == 0)
        return TB_OK;
    switch (cuda_copy_way(&shape)) {
    case CUDA_AS_ONE:
        return CU(cuMemcpyDtoDAsync, dst, src, shape.width * shape.rows, cuda_stream(lane));
    case CUDA_BY_ROWS:
        for (size_t i = 0; i < shape.rows; i++) {
            const enum tb_status status =
                CU(cuMemcpyDtoDAsync, dst + i * shape.dst_pitch, src + i * shape.src_pitch,
                   shape.width, cuda_stream(lane));
            if (status != TB_OK)
                return i > 0 ? TB_TORN : status;
        }
        return TB_OK;
    case CUDA_AS_RECTANGLE:
        break;
    }
    CUDA_MEMCPY2D copy = cuda_rectangle(shape);
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = src;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = dst;
    return CU(cuMemcpy2DAsync, &copy, cuda_stream(lane));
}

static enum tb_status cuda_fill0(struct tb_lane *lane, tb_dptr dst, size_t bytes)
{
    return bytes ? CU(cuMemsetD8Async, dst, 0, bytes, cuda_stream(lane)) : TB_OK;
}

/* --- kernels -------------------------------------------------------------------------------------
 */

static enum tb_status cuda_image(enum tb_image image, CUlibrary *out)
{
    CUlibrary known = atomic_load_explicit(&cuda_images[image], memory_order_acquire);
    if (known) {
        *out = known;
        return TB_OK;
    }
    CUlibrary fresh = NULL;
    enum tb_status status =
        CU(cuLibraryLoadData, &fresh, tb_images[image].start, NULL, NULL, 0, NULL, NULL, 0);
    if (status != TB_OK)
        return status;
    if (!atomic_compare_exchange_strong(&cuda_images[image], &known, fresh)) {
        (void)CU(cuLibraryUnload, fresh);
        fresh = known;
    }
    *out = fresh;
    return TB_OK;
}

/* Does the device have what the compiled kernel and its row ask for? */
static enum tb_status cuda_admit(const struct tb_kernel *row, CUfunction fn)
{
    int fixed = 0, threads = 0, blocks = 0;
    enum tb_status status = CU(cuFuncGetAttribute, &fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, fn);
    if (status == TB_OK)
        status = CU(cuFuncGetAttribute, &threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, fn);
    if (status != TB_OK)
        return status;
    if (row->threads > threads || row->smem > cuda.smem_max - fixed)
        return cuda_refuse(TB_NO_KERNEL, "the kernel asks for more than the GPU has");
    if (row->smem > 0)
        status =
            CU(cuFuncSetAttribute, fn, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, row->smem);
    if (status == TB_OK)
        status = CU(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, fn, row->threads,
                    (size_t)row->smem);
    if (status == TB_OK && blocks < 1)
        status = cuda_refuse(TB_NO_KERNEL, "no block of the kernel fits on the GPU");
    return status;
}

static enum tb_status cuda_make_function(const struct tb_kernel *row, CUfunction *out)
{
    CUlibrary image = NULL;
    CUkernel handle = NULL;
    if (cuda.cc < row->cc_min || cuda.cc > row->cc_max)
        return cuda_refuse(TB_NO_KERNEL, "the kernel is not for this GPU");
    enum tb_status status = cuda_image(row->image, &image);
    if (status == TB_OK)
        status = CU(cuLibraryGetKernel, &handle, image, row->name);
    if (status == TB_OK)
        status = CU(cuKernelGetFunction, out, handle);
    if (status == TB_OK)
        status = cuda_admit(row, *out);
    return status;
}

/* The function of a row, made ready on first use. What cannot work is not tried again. */
static enum tb_status cuda_function(int kernel, CUfunction *out)
{
    if (kernel < 0 || kernel >= kernel_count() || kernel >= CUDA_KERNELS_MAX)
        return cuda_refuse(TB_NO_KERNEL, "no such row in the table of kernels");
    *out = atomic_load_explicit(&cuda_kernels[kernel], memory_order_acquire);
    if (*out)
        return TB_OK;
    int refused = atomic_load_explicit(&cuda_refused[kernel], memory_order_relaxed);
    if (refused != TB_OK)
        return cuda_refuse((enum tb_status)refused, "the kernel was refused before");
    enum tb_status status = cuda_make_function(kernel_row(kernel), out);
    if (status == TB_OK) /* every thread gets the same function, so a race changes nothing */
        atomic_store_explicit(&cuda_kernels[kernel], *out, memory_order_release);
    else if (status == TB_NO_KERNEL || status == TB_NO_IMAGE)
        atomic_store_explicit(&cuda_refused[kernel], (int)status, memory_order_relaxed);
    return status;
}

/* All kernels of a row. */
static enum tb_status cuda_functions(const struct tb_part *parts, int count,
                                     CUfunction fns[TB_PARTS_MAX])
{
    enum tb_status status = TB_OK;
    for (int i = 0; status == TB_OK && i < count; i++)
        status = cuda_function(parts[i].row, &fns[i]);
    return status;
}

/* The row asked for, or where these operands or this device do not suit it, the next best, which
 * has no scratch: the area has the size that the other row wants. Its parts. */
static enum tb_status cuda_settle(int *row, struct tb_gemm_params *params,
                                  struct tb_part parts[TB_PARTS_MAX], CUfunction fns[TB_PARTS_MAX],
                                  int *count)
{
    bool barred[CUDA_KERNELS_MAX] = {false};
    const int asked = *row;
    enum tb_status status = cuda_refuse(TB_NO_KERNEL, "no such row in the table of kernels");
    for (;;) {
        const int kernel = *row = kernel_refit(&cuda.caps, asked, params, barred);
        if (kernel < 0 || kernel >= CUDA_KERNELS_MAX)
            return status;
        if (kernel != asked)
            params->scratch = 0;
        *count = kernel_parts(kernel, &cuda.caps, params, parts);
        status = cuda_functions(parts, *count, fns);
        if (status != TB_NO_KERNEL && status != TB_NO_IMAGE)
            return status;
        barred[kernel] = true;
    }
}

static enum tb_status cuda_map(const struct tb_map *map, CUtensorMap *out)
{
    static const cuuint32_t steps[3] = {1, 1, 1};
    CUtensorMapDataType type = map->type == TB_F16    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                               : map->type == TB_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                      : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    static const CUtensorMapL2promotion hints[TB_KHINTS] = {
        [TB_KHINT_OWN] = CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        [TB_KHINT_NONE] = CU_TENSOR_MAP_L2_PROMOTION_NONE,
        [TB_KHINT_64] = CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
        [TB_KHINT_128] = CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        [TB_KHINT_256] = CU_TENSOR_MAP_L2_PROMOTION_L2_256B};
    memset(out, 0, sizeof *out);
    if (map->bytes == 0)
        return TB_OK;
    /* A place outside of the matrix reads as zero. */
    return CU(cuTensorMapEncodeTiled, out, type, 3, (void *)(uintptr_t)map->base, map->sizes,
              map->pitches, map->box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
              CU_TENSOR_MAP_SWIZZLE_128B, hints[map->hint], CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static enum tb_status cuda_launch_part(struct tb_lane *lane, const struct tb_part *part,
                                       CUfunction fn, const struct tb_gemm_params *params)
{
    const struct tb_kernel *row = kernel_row(part->row);
    const struct tb_launch *launch = &part->launch;
    struct tb_gemm_params by_value = *params;
    CUtensorMap maps[3];
    void *arguments[] = {&by_value, &maps[0], &maps[1], &maps[2]};
    enum tb_status status = TB_OK;
    by_value.way = launch->way;
    if (row->family == TB_SM90) {
        struct tb_map wanted[3];
        by_value.way = kernel_maps(row, params, wanted);
        by_value.work = launch->scratch > 0 ? params->scratch : 0;
        for (int i = 0; status == TB_OK && i < 3; i++)
            status = cuda_map(&wanted[i], &maps[i]);
        if (status != TB_OK)
            return status;
    }
    if (launch->cluster == 1 && !launch->early)
        return CU(cuLaunchKernel, fn, launch->grid[0], launch->grid[1], launch->grid[2],
                  (unsigned)row->threads, 1, 1, (unsigned)row->smem, cuda_stream(lane), arguments,
                  NULL);
    CUlaunchAttribute attributes[] = {
        {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
         .value.programmaticStreamSerializationAllowed = launch->early},
        {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {launch->cluster, 1, 1}}};
    const CUlaunchConfig config = {.gridDimX = launch->grid[0],
                                   .gridDimY = launch->grid[1],
                                   .gridDimZ = launch->grid[2],
                                   .blockDimX = (unsigned)row->threads,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .sharedMemBytes = (unsigned)row->smem,
                                   .hStream = cuda_stream(lane),
                                   .attrs = attributes,
                                   .numAttrs = launch->cluster > 1 ? 2 : 1};
    return CU(cuLaunchKernelEx, &config, fn, arguments, NULL);
}

static enum tb_status cuda_launch(struct tb_lane *lane, int kernel,
                                  const struct tb_gemm_params *params)
{
    struct tb_part parts[TB_PARTS_MAX];
    CUfunction fns[TB_PARTS_MAX];
    struct tb_gemm_params by_value = *params;
    int count = 0, settled = kernel;
    enum tb_status status = cuda_settle(&settled, &by_value, parts, fns, &count);
    by_value.guard = by_value.work = 0;
    if (settled != kernel) /* the order was meant for the tiles of the row that was asked for */
        by_value.band = by_value.hint = 0;
    if (status == TB_OK && count > 1)
        by_value.guard = by_value.scratch;
    if (status == TB_OK && (count > 1 || parts[0].launch.scratch > 0))
        status = cuda_fill0(lane, by_value.scratch, kernel_cleared(kernel_row(settled), &by_value));
    for (int i = 0; status == TB_OK && i < count; i++) {
        status = cuda_launch_part(lane, &parts[i], fns[i], &by_value);
        if (status != TB_OK && i > TB_PARTS_READING) /* a part before may have written C */
            status = TB_TORN;
    }
    return status;
}

const struct tb_dev_ops *tb_dev(void)
{
    static const struct tb_dev_ops ops = {
        .name = "cuda",
        .open = cuda_open,
        .close = cuda_close,
        .count = cuda_count,
        .uuid = cuda_uuid,
        .bind = cuda_bind,
        .alloc = cuda_alloc,
        .free = cuda_free,
        .mem_free = cuda_mem_free,
        .pin = cuda_pin,
        .unpin = cuda_unpin,
        .lane_open = cuda_lane_open,
        .lane_close = cuda_lane_close,
        .event_open = cuda_event_open,
        .timer_open = cuda_timer_open,
        .event_close = cuda_event_close,
        .h2d = cuda_h2d,
        .d2h = cuda_d2h,
        .d2d = cuda_d2d,
        .fill0 = cuda_fill0,
        .launch = cuda_launch,
        .record = cuda_record,
        .wait = cuda_wait,
        .elapsed = cuda_elapsed,
        .over = cuda_over,
        .sync = cuda_sync,
        .where = cuda_where,
        .shared = cuda_shared,
        .used = cuda_used,
        .fetch = cuda_fetch,
        .put = cuda_put,
        .follow = cuda_follow,
        .check = cuda_check,
        .last_error = cuda_last_error,
    };
    return &ops;
}
