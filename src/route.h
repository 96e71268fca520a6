/* SPDX-License-Identifier: BSD-3-Clause
 * Where a call goes, and why. Pure: no I/O, no locks, no clocks; everything it
 * knows is handed in.
 */
#ifndef TB_ROUTE_H
#define TB_ROUTE_H

#include "call.h"
#include "caps.h"
#include "conf.h"
#include "profile.h"
#include <stdbool.h>

/* Reasons, as the log prints them. */
#define TB_REASON_LIST(X)                                                                          \
    X(TB_WHY_FASTER, "faster")              /* the estimate says so (GPU, or CPU) */               \
    X(TB_WHY_FORCED, "forced")              /* TILEBLAS_ROUTE */                                   \
    X(TB_WHY_ILLEGAL, "bad-argument")       /* forwarded unchanged, the CPU BLAS reports it */     \
    X(TB_WHY_TRIVIAL, "nothing-to-do")      /* empty, k = 0 or alpha = 0 */                        \
    X(TB_WHY_SMALL, "small")                /* never worth it, whatever the machine */             \
    X(TB_WHY_NO_KERNEL, "no-kernel")        /* no device path for the routine or type */           \
    X(TB_WHY_NO_DEVICE, "no-device")        /* none, none allowed, or driver unusable */           \
    X(TB_WHY_STARTING, "device-starting")   /* the CPU finishes before the device is up */         \
    X(TB_WHY_DEVICE_OFF, "device-off")      /* switched off after faults */                        \
    X(TB_WHY_FORKED, "forked")              /* child of a process that used the device */          \
    X(TB_WHY_NO_MEMORY, "no-device-memory") /* no plan fits into the budget */                     \
    X(TB_WHY_BUSY, "device-busy")           /* others had it, or its memory, for too long */       \
    X(TB_WHY_OPERANDS, "device-operands")   /* they are on a device: ours, or another one */       \
    X(TB_WHY_NESTED, "nested")              /* the CPU BLAS came back through our door */          \
    X(TB_WHY_WIDE_LIBRARY,                                                                         \
      "wide-library")               /* 64-bit integers behind plain names: only forwarded */       \
    X(TB_WHY_FAULT, "device-fault") /* went to the device and could not be finished there */

enum tb_reason {
#define TB_REASON_ENUM(NAME, TEXT) NAME,
    TB_REASON_LIST(TB_REASON_ENUM)
#undef TB_REASON_ENUM
        TB_REASONS
};
const char *route_reason_text(enum tb_reason reason);

enum tb_side { TB_ON_CPU, TB_ON_GPU };

struct tb_choice {
    enum tb_side where;
    enum tb_reason reason;
    double est_cpu_ns, est_gpu_ns; /* 0 where not estimated */
};

/* The state of the device as the router needs it. */
enum tb_device_state {
    TB_DEVICE_UNTRIED,
    TB_DEVICE_STARTING,
    TB_DEVICE_READY,
    TB_DEVICE_ABSENT,
    TB_DEVICE_DEAD,
    TB_DEVICE_FORKED
};

/* What is known as the call comes. */
struct tb_facts {
    enum tb_device_state device;
    bool has_kernel;    /* a device path exists for this call */
    bool on_device;     /* an operand lies in device memory, none out of our reach */
    bool far;           /* an operand lies on a device where our kernels cannot reach it */
    int cpu_threads;    /* the CPU BLAS would use */
    int copiers;        /* threads that carry pageable memory to and from the link */
    double efficiency;  /* of the kernel that would be taken, kernel_efficiency(); 0: not known */
    double starting_ns; /* since the start of the device began */
    double queue_ns;    /* estimates of the calls that are on the device now */
    int queued;         /* and how many they are */
    int on_cpu;         /* large calls that the CPU computes now */
    const struct tb_profile *profile;
};

struct tb_choice route_choose(const struct tb_call *call, const struct tb_facts *facts,
                              const struct tb_conf *conf);

/* Will every later call of this process get that answer too? */
bool route_is_final(enum tb_reason reason);

/* The two estimates, in ns. route_gpu_ns: of a device that is up, with nothing else on it. */
double route_cpu_ns(const struct tb_call *call, const struct tb_facts *facts);
double route_gpu_ns(const struct tb_call *call, const struct tb_facts *facts);

/* The volume m n k below which no machine gains anything: the doors' pre-test.
 */
double route_small_volume(const struct tb_conf *conf);

#endif
