/* SPDX-License-Identifier: BSD-3-Clause
 * Where a call goes, and why. Pure: no I/O, no locks, no clocks; everything it
 * knows is handed in.
 */
#ifndef TB_ROUTE_H
#define TB_ROUTE_H

#include "call.h"
#include "caps.h"
#include "conf.h"
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
    X(TB_WHY_OPERANDS, "device-operands")   /* they are on a device: ours, or another one */        \
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

/* Rates of the machine. Built-in figures until something better was measured.
 */
struct tb_rates {
    double link_in, link_out; /* bytes per ns, pageable memory, both ways at once */
    double fixed_ns;          /* of an offloaded call that moves nothing */
    double gpu[TB_TYPES];     /* flop per ns by type of A and B */
    double cpu[TB_TYPES];     /* flop per ns of one CPU thread at its best */
    double start_ns;          /* of the device, once per process */
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

struct tb_facts {
    enum tb_device_state device;
    bool has_kernel; /* a device path exists for this call */
    bool on_device;  /* an operand lies in device memory, none out of our reach */
    bool far;        /* an operand lies on a device where our kernels cannot reach it */
    int cpu_threads; /* the CPU BLAS would use */
    struct tb_rates rates;
};

struct tb_choice route_choose(const struct tb_call *call, const struct tb_facts *facts,
                              const struct tb_conf *conf);

/* Will every later call of this process get that answer too? */
bool route_is_final(enum tb_reason reason);

/* Built-in rates, scaled to the device (caps may be NULL while it is not
 * known). */
void route_default_rates(const struct tb_caps *caps, struct tb_rates *out);

/* The volume m n k below which no machine gains anything: the doors' pre-test.
 */
double route_small_volume(const struct tb_conf *conf);

#endif
