/* SPDX-License-Identifier: BSD-3-Clause
 * What a test may ask of the simulated device beyond the seam. The environment
 * (TILEBLAS_SIM_...) is read at open(); these functions change or tell things
 * afterwards. A violation of the rules of dev.h ends the process with status 99
 * and a line on stderr. */
#ifndef TB_DEV_SIM_H
#define TB_DEV_SIM_H

#include "../../src/dev.h"
#include <stdbool.h>
#include <stdint.h>

enum sim_fail {
    SIM_FAIL_NONE,
    SIM_FAIL_ONCE,   /* the n-th call of the seam fails, its operation is not done
                      */
    SIM_FAIL_OUT,    /* the same of the n-th copy to the host */
    SIM_FAIL_MEMORY, /* the n-th call that needs memory: of the device, pinned, a lane, an event */
    SIM_FAIL_PART,   /* the n-th launch of a row of several kernels does its work, but for the last
                      * kernel, which is refused
                      */
    SIM_FAIL_EVER,   /* and so does every later one */
    SIM_FAIL_LATE    /* the n-th transfer or kernel fails when it runs; the device is
                      * lost from then on
                      */
};

/* From now on: operations counted anew. */
void sim_fail(enum sim_fail mode, long n);
void sim_reset(void);      /* as cudaDeviceReset by the program: the device is gone */
bool sim_failed(void);     /* it has come to that */
void sim_hang(long n);     /* the n-th call of the seam from now on does not return
                              before sim_release() */
void sim_hang_all(long n); /* and neither does any later one */
bool sim_hanging(void);
void sim_release(void);
void sim_seed(uint64_t seed);

/* Memory of the program itself, as cudaMalloc, cudaMallocManaged or cudaHostAlloc would give it;
 * with or without an open device. Device memory faults when the host touches it; the functions
 * below read and write it. TB_DEVICE_FAR is device memory that no kernel may touch. */
void *sim_user_alloc(enum tb_where where, size_t bytes);
void sim_user_free(void *at);
void sim_user_read(void *to, const void *from, size_t bytes);
void sim_user_write(void *to, const void *from, size_t bytes);

struct sim_counts {
    long calls, launches, copies_in, copies_out;
    double bytes_in, bytes_out;
    long allocs, pins, lanes, events; /* alive */
    size_t bytes, bytes_peak;         /* of device memory */
    long fetches, puts, follows;
};
struct sim_counts sim_counts(void);

/* The reference product behind the launches, on host addresses. */
void sim_gemm(enum tb_type ab, enum tb_type c, const struct tb_gemm_params *p, const void *a,
              const void *b, void *out);
/* The work on triangles: A of order k, C. And the missing half of C. */
void sim_triangle(enum tb_type type, const struct tb_gemm_params *p, const void *a, void *c);
void sim_mirror(enum tb_type type, const struct tb_gemm_params *p, void *c);
float sim_half_to_float(uint16_t bits);
uint16_t sim_float_to_half(float x);
float sim_bf16_to_float(uint16_t bits);
uint16_t sim_float_to_bf16(float x);

#endif
