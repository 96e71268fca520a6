/* SPDX-License-Identifier: BSD-3-Clause
 * Measures what the machine can do, in the run whose figures are compared with it: device copy,
 * link (pinned, and staged by many threads), issue of FMA and matrix instructions, L2 and shared
 * memory. */
#include "perf.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { LIMITS_REPS = 5 };

struct limits_launch {
    void *fn;
    unsigned blocks, threads;
    void **args;
};

static struct gpu_timer limits_timer;

/* Best of a few after one that does not count; milliseconds. */
static double limits_run(const struct limits_launch *launch)
{
    double best = -1;
    for (int i = 0; launch->fn && i <= LIMITS_REPS; i++) {
        if (!gpu_timer_start(&limits_timer) ||
            !GPU(cuLaunchKernel, launch->fn, launch->blocks, 1, 1, launch->threads, 1, 1, 0,
                 limits_timer.stream, launch->args, NULL))
            return -1;
        const double ms = gpu_timer_stop(&limits_timer);
        if (ms <= 0)
            return -1;
        if (i > 0 && (best < 0 || ms < best))
            best = ms;
    }
    return best;
}

static double limits_issue(void *module, const char *name, unsigned blocks, unsigned threads,
                           int iterations, double ops_per_thread, gpu_ptr scratch)
{
    void *args[] = {&scratch, &iterations};
    const struct limits_launch launch = {gpu_function(module, name), blocks, threads, args};
    const double ms = limits_run(&launch);
    return ms > 0 ? ops_per_thread * iterations * blocks * threads / ms / 1e6 : 0;
}

static double limits_copy(gpu_ptr memory, size_t bytes)
{
    double best = 0;
    for (int i = 0; i < LIMITS_REPS; i++) {
        if (!gpu_timer_start(&limits_timer) ||
            !GPU(cuMemcpyDtoDAsync_v2, memory, memory + bytes, bytes, limits_timer.stream))
            return 0;
        const double ms = gpu_timer_stop(&limits_timer);
        if (ms > 0 && 2.0 * (double)bytes / ms / 1e6 > best)
            best = 2.0 * (double)bytes / ms / 1e6;
    }
    return best;
}

static double limits_link(void *host, gpu_ptr memory, size_t bytes, bool out)
{
    double best = 0;
    for (int i = 0; i < LIMITS_REPS; i++) {
        gpu_timer_start(&limits_timer);
        if (out ? !GPU(cuMemcpyDtoHAsync_v2, host, memory, bytes, limits_timer.stream)
                : !GPU(cuMemcpyHtoDAsync_v2, memory, host, bytes, limits_timer.stream))
            return 0;
        const double ms = gpu_timer_stop(&limits_timer);
        if (ms > 0 && (double)bytes / ms / 1e6 > best)
            best = (double)bytes / ms / 1e6;
    }
    return best;
}

/* --- pageable memory through pinned chunks, as the library does it
 * --------------------------------- */

enum { LIMITS_CHUNK = 4 << 20, LIMITS_THREADS = 12 };

struct limits_stage {
    const char *from;
    char *ring; /* two chunks for each thread */
    gpu_ptr to;
    int64_t chunks;
    void *context_stream[LIMITS_THREADS];
    void *context;
};

static void limits_copier(void *arg, int64_t thread)
{
    const struct limits_stage *stage = arg;
    void *event[2], *stream = stage->context_stream[thread];
    if (!GPU(cuCtxSetCurrent, stage->context) || !GPU(cuEventCreate, &event[0], 0) ||
        !GPU(cuEventCreate, &event[1], 0))
        return;
    int slot = 0;
    for (int64_t c = thread; c < stage->chunks; c += LIMITS_THREADS, slot ^= 1) {
        char *pinned = stage->ring + (2 * thread + slot) * LIMITS_CHUNK;
        GPU(cuEventSynchronize, event[slot]);
        memcpy(pinned, stage->from + c * LIMITS_CHUNK, LIMITS_CHUNK);
        GPU(cuMemcpyHtoDAsync_v2, stage->to + (gpu_ptr)c * LIMITS_CHUNK, pinned, LIMITS_CHUNK,
            stream);
        GPU(cuEventRecord, event[slot], stream);
    }
    GPU(cuStreamSynchronize, stream);
}

static double limits_staged(char *ring, gpu_ptr memory, size_t bytes)
{
    struct limits_stage stage = {
        .ring = ring, .to = memory, .chunks = (int64_t)(bytes / LIMITS_CHUNK)};
    double best = 0;
    char *from = malloc(bytes);
    GPU(cuDevicePrimaryCtxRetain, &stage.context, 0);
    for (int i = 0; i < LIMITS_THREADS; i++)
        GPU(cuStreamCreate, &stage.context_stream[i], 1);
    if (!from)
        return 0;
    memset(from, 1, bytes);
    stage.from = from;
    for (int i = 0; i < LIMITS_REPS; i++) {
        const uint64_t start = table_now_ns();
        data_parallel(LIMITS_THREADS, limits_copier, &stage);
        const double rate = (double)bytes / (double)(table_now_ns() - start);
        if (rate > best)
            best = rate;
    }
    free(from);
    return best;
}

/* --- memory inside the GPU
 * --------------------------------------------------------------------------- */

/* `flush`: as many bytes, written before the one timed run, so that the ring is not in L2; 0: it is
 * to be. */
static double limits_chase(void *module, gpu_ptr memory, gpu_ptr out, uint32_t places,
                           uint32_t step, gpu_ptr flush)
{
    int loads = 20000;
    void *make_args[] = {&memory, &places, &step}, *args[] = {&memory, &loads, &out};
    const struct limits_launch make = {gpu_function(module, "chase_make"), 1024, 256, make_args};
    const struct limits_launch chase = {gpu_function(module, "chase"), 1, 1, args};
    limits_run(&make);
    double ms = limits_run(&chase);
    if (flush) {
        if (!GPU(cuMemsetD8Async, flush, 0, (size_t)1 << 29, limits_timer.stream) ||
            !gpu_timer_start(&limits_timer) ||
            !GPU(cuLaunchKernel, chase.fn, 1, 1, 1, 1, 1, 1, 0, limits_timer.stream, args, NULL))
            return 0;
        ms = gpu_timer_stop(&limits_timer);
    }
    return ms > 0 ? ms * 1e6 / loads : 0;
}

static void limits_memory(struct perf_limits *limits, void *module, gpu_ptr memory, gpu_ptr out)
{
    const unsigned sms = (unsigned)gpu_facts.sms;
    int vectors = gpu_facts.l2_bytes / 4 / 16, iterations = 4, loads = 20000;
    void *l2_args[] = {&memory, &vectors, &iterations, &out};
    const struct limits_launch l2 = {gpu_function(module, "l2_read"), 2 * sms, 1024, l2_args};
    double ms = limits_run(&l2);
    if (ms > 0)
        limits->l2 = 16.0 * vectors * iterations * 2 * sms / ms / 1e6;
    int rounds = 2000;
    void *smem_args[] = {&out, &rounds}, *wait_args[] = {&loads, &out};
    const struct limits_launch smem = {gpu_function(module, "smem_read"), 2 * sms, 1024, smem_args};
    ms = limits_run(&smem);
    if (ms > 0)
        limits->smem = 16.0 * 16 * 1024 * 2 * sms * rounds / ms / 1e6;
    const struct limits_launch wait = {gpu_function(module, "chase_smem"), 1, 32, wait_args};
    ms = limits_run(&wait);
    limits->smem_ns = ms > 0 ? ms * 1e6 / loads : 0;
    limits->l2_ns = limits_chase(module, memory, out, 32768, 32, 0); /* 4 MiB */
    limits->dram_ns =
        limits_chase(module, memory, out, 120000, 32 * 65, memory + ((size_t)1 << 30)); /* 1 GB */
}

void limits_measure(struct perf_limits *limits, void *stream)
{
    const size_t bytes = (size_t)1 << 30, host_bytes = (size_t)256 << 20;
    const unsigned sms = (unsigned)gpu_facts.sms;
    gpu_ptr memory = 0, scratch = 0;
    void *host = NULL, *module = gpu_module("limits.fatbin");
    if (!module || !gpu_timer_open(&limits_timer, stream) ||
        !GPU(cuMemAlloc_v2, &memory, 2 * bytes) || !GPU(cuMemAlloc_v2, &scratch, 4096) ||
        !GPU(cuMemHostAlloc, &host, host_bytes, 0))
        return;
    table_progress("limits of this machine");
    memset(host, 1, host_bytes);
    limits->fma32 = limits_issue(module, "fma32", 2 * sms, 1024, 20000, 32, scratch);
    limits->fma64 = limits_issue(module, "fma64", 2 * sms, 1024, 10000, 32, scratch);
    limits->mma16 =
        limits_issue(module, "mma16", 4 * sms, 128, 10000, 4.0 * 64 * 128 * 16 * 2 / 128, scratch);
    limits->mma32 =
        limits_issue(module, "mma32", 4 * sms, 128, 10000, 4.0 * 64 * 128 * 8 * 2 / 128, scratch);
    limits->mma64 =
        limits_issue(module, "mma64", 2 * sms, 256, 2000, 8.0 * 16 * 8 * 16 * 2 / 32, scratch);
    limits->copy = limits_copy(memory, bytes);
    limits->h2d = limits_link(host, memory, host_bytes, false);
    limits->d2h = limits_link(host, memory, host_bytes, true);
    limits->staged = limits_staged(host, memory, bytes);
    limits_memory(limits, module, memory, scratch);
    limits->measured = true;
    GPU(cuMemFreeHost, host);
    GPU(cuMemFree_v2, memory);
    GPU(cuMemFree_v2, scratch);
    const struct {
        const char *name, *unit;
        double value;
    } rows[] = {
        {"device-copy", "GB/s", limits->copy},    {"link-in-pinned", "GB/s", limits->h2d},
        {"link-out-pinned", "GB/s", limits->d2h}, {"link-in-staged", "GB/s", limits->staged},
        {"fma-fp32", "GFLOP/s", limits->fma32},   {"fma-fp64", "GFLOP/s", limits->fma64},
        {"mma-f16", "GFLOP/s", limits->mma16},    {"mma-tf32", "GFLOP/s", limits->mma32},
        {"mma-fp64", "GFLOP/s", limits->mma64},   {"l2-read", "GB/s", limits->l2},
        {"smem-read", "GB/s", limits->smem},      {"smem-latency", "ns", limits->smem_ns},
        {"l2-latency", "ns", limits->l2_ns},      {"dram-latency", "ns", limits->dram_ns}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        table_write(&(struct table_row){.level = "limit",
                                        .routine = rows[i].name,
                                        .provider = "machine",
                                        .status = rows[i].value > 0 ? "ok" : "failed",
                                        .note = rows[i].value > 0 ? "" : gpu_error(),
                                        .unit = rows[i].unit,
                                        .rate = rows[i].value});
}

double limits_rate(const struct perf_limits *limits, enum tb_type type, bool tf32,
                   const char **name)
{
    switch (type) {
    case TB_F16:
    case TB_BF16:
        *name = "mma-f16";
        return limits->mma16;
    case TB_F32:
    case TB_C32:
        *name = tf32 ? "mma-tf32" : "fma-fp32";
        return tf32 ? limits->mma32 : limits->fma32;
    default:
        *name = "mma-fp64";
        return limits->mma64 > limits->fma64 ? limits->mma64 : limits->fma64;
    }
}
