/* SPDX-License-Identifier: BSD-3-Clause
 * What the measuring programs share: the driver by hand (no toolkit header needed), random data
 * that can be made again column by column, the error of a result, rows of CSV. None of it is part
 * of the library. */
#ifndef TB_PERF_H
#define TB_PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "../src/call.h"

/* --- gpu.c: the CUDA driver, opened at run time --------------------------------------------------
 */

typedef uint64_t gpu_ptr;
struct gpu_facts {
    char name[64];
    int cc, sms, driver, l2_bytes, smem_block, smem_sm, regs_sm, threads_sm, clock_mhz;
};
#define GPU_FUNCTIONS(X)                                                                           \
    X(cuInit, (unsigned flags))                                                                    \
    X(cuDeviceGet, (int *device, int ordinal))                                                     \
    X(cuDeviceGetName, (char *name, int bytes, int device))                                        \
    X(cuDeviceGetAttribute, (int *value, int attribute, int device))                               \
    X(cuDriverGetVersion, (int *version))                                                          \
    X(cuDevicePrimaryCtxRetain, (void **context, int device))                                      \
    X(cuCtxSetCurrent, (void *context))                                                            \
    X(cuCtxSynchronize, (void))                                                                    \
    X(cuMemAlloc_v2, (gpu_ptr * ptr, size_t bytes))                                                \
    X(cuMemFree_v2, (gpu_ptr ptr))                                                                 \
    X(cuMemGetInfo_v2, (size_t * available, size_t * total))                                       \
    X(cuMemHostAlloc, (void **ptr, size_t bytes, unsigned flags))                                  \
    X(cuMemFreeHost, (void *ptr))                                                                  \
    X(cuMemcpyHtoDAsync_v2, (gpu_ptr to, const void *from, size_t bytes, void *stream))            \
    X(cuMemcpyDtoHAsync_v2, (void *to, gpu_ptr from, size_t bytes, void *stream))                  \
    X(cuMemcpyDtoDAsync_v2, (gpu_ptr to, gpu_ptr from, size_t bytes, void *stream))                \
    X(cuMemsetD8Async, (gpu_ptr to, unsigned char byte, size_t bytes, void *stream))               \
    X(cuStreamCreate, (void **stream, unsigned flags))                                             \
    X(cuStreamSynchronize, (void *stream))                                                         \
    X(cuEventCreate, (void **event, unsigned flags))                                               \
    X(cuEventRecord, (void *event, void *stream))                                                  \
    X(cuEventSynchronize, (void *event))                                                           \
    X(cuEventElapsedTime, (float *ms, void *from, void *to))                                       \
    X(cuModuleLoad, (void **module, const char *path))                                             \
    X(cuModuleGetFunction, (void **fn, void *module, const char *name))                            \
    X(cuFuncGetAttribute, (int *value, int attribute, void *fn))                                   \
    X(cuFuncSetAttribute, (void *fn, int attribute, int value))                                    \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                                 \
      (int *blocks, void *fn, int threads, size_t smem))                                           \
    X(cuLaunchKernel, (void *fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,  \
                       unsigned bz, unsigned smem, void *stream, void **args, void **extra))       \
    X(cuTensorMapEncodeTiled,                                                                      \
      (void *map, int type, unsigned rank, gpu_ptr base, const uint64_t *sizes,                    \
       const uint64_t *pitches, const uint32_t *box, const uint32_t *steps, int interleave,        \
       int swizzle, int promotion, int fill))                                                      \
    X(cuGetErrorName, (int result, const char **name))

struct gpu_driver {
#define FIELD(NAME, ARGS) int(*NAME) ARGS;
    GPU_FUNCTIONS(FIELD)
#undef FIELD
};
extern struct gpu_driver gpu;
extern struct gpu_facts gpu_facts; /* name "none" until gpu_open() succeeds */

/* Opens device 0 and makes its primary context current; false with one line in `why`. */
bool gpu_open(char *why, size_t bytes);
/* False on a driver error, which gpu_error() then names. */
bool gpu_ok(int result, const char *what);
const char *gpu_error(void);
#define GPU(FN, ...) gpu_ok(gpu.FN(__VA_ARGS__), #FN)
/* Milliseconds between two events; negative where the driver failed. */
struct gpu_timer {
    void *from, *to, *stream;
};
bool gpu_timer_open(struct gpu_timer *timer, void *stream);
bool gpu_timer_start(struct gpu_timer *timer);
double gpu_timer_stop(struct gpu_timer *timer);
/* A compiled file beside the program; its kernels by name. NULL where missing (gpu_error() says).
 */
void *gpu_module(const char *file);
void *gpu_function(void *module, const char *name);

/* --- limits.c: what the machine can do, measured in the same run ---------------------------------
 */

struct perf_limits {
    bool measured;
    double copy, h2d, d2h, staged;            /* GB/s; copy counts bytes read and written */
    double fma32, fma64, mma16, mma32, mma64; /* GFLOP/s: tf32 in mma32 */
    double l2, smem;                          /* GB/s, all multiprocessors */
    double l2_ns, smem_ns, dram_ns;           /* latency of a dependent load */
};
void limits_measure(struct perf_limits *limits, void *stream);
/* The GFLOP/s limit of a product of that type on device-resident data, and its name. */
double limits_rate(const struct perf_limits *limits, enum tb_type type, bool tf32,
                   const char **name);

/* --- data.c
 * ---------------------------------------------------------------------------------------- */

enum data_dist {
    DATA_SIGNED,    /* U(-1,1) */
    DATA_UNIFORM,   /* U(0,1) */
    DATA_NORMAL,    /* N(0,1) */
    DATA_GRADED,    /* normal, times 2^-10 to 2^10 along k in A and back in B */
    DATA_CANCEL,    /* the second half of k undoes all but 2^-10 of the first */
    DATA_SUBNORMAL, /* A subnormal in its type */
    DATA_OVERFLOW,  /* A within a factor of 2 of the largest number, B small enough */
    DATA_HUGE,      /* U(-1,1), one element of A times 2^60 (2^10 in f16) */
    DATA_INFNAN,    /* U(-1,1) with a few Inf and NaN in A and B */
    DATA_DISTS
};
extern const char *const data_dist_names[];
int data_dist_find(const char *name); /* -1: no such */

/* Which matrix: k runs along its columns (A as op N), along its rows (B as op N), or neither (C).
 */
enum data_role { DATA_A, DATA_B, DATA_C };
struct data_matrix {
    enum tb_type type;
    enum data_dist dist;
    enum data_role role;
    bool k_by_row; /* k is the row index of the stored matrix */
    bool triangle; /* a well-scaled triangle: off the diagonal / rows, diagonal in 1..2 */
    int64_t rows, cols;
    uint64_t seed;
};
/* Column j, the same whoever asks. */
void data_column(const struct data_matrix *matrix, int64_t j, void *out);
void data_fill(const struct data_matrix *matrix, void *out); /* ld = rows; in parallel */
void data_widen(enum tb_type type, const void *from, int64_t stride, int64_t n,
                double *out); /* pairs */
uint64_t data_mix(uint64_t x);
/* Runs fn(arg, i) for i < n on the CPUs there are. */
void data_parallel(int64_t n, void (*fn)(void *arg, int64_t i), void *arg);
void data_narrow(enum tb_type type, double x, uint16_t *out); /* to a 16-bit type */
uint16_t data_to_half(double x);
double data_from_half(uint16_t h);

/* Unit roundoff the errors of a type are counted in. */
double data_unit(enum tb_type ab);

struct data_error {
    double max, sum2;
    int64_t entries, bad; /* bad: not finite where the reference is, or the other way round */
};
/* What an entry should be, and the sum of magnitudes its error is measured by, for either part where
 * complex (of re: |Ar||Br| + |Ai||Bi|, of im: |Ar||Bi| + |Ai||Br|). */
struct data_wanted {
    long double value[2], size[2];
};
void data_reference(struct data_wanted *out, const double *a, const double *b, int64_t k,
                    const double alpha[2], const double beta[2], const double c0[2],
                    bool complex_type, bool wide);
void data_judge(struct data_error *error, const struct data_wanted *wanted, const double got[2],
                bool complex_type);
/* Both: alpha * (a . b) + beta c0 against `got`; arrays of pairs where complex, nothing conjugated.
 */
void data_compare(struct data_error *error, const double *a, const double *b, int64_t k,
                  const double alpha[2], const double beta[2], const double c0[2],
                  const double got[2], bool complex_type, bool wide);
void data_error_merge(struct data_error *into, const struct data_error *from);
double data_rms(const struct data_error *error);

/* --- table.c
 * --------------------------------------------------------------------------------------- */

struct table_row {
    const char *level, *routine, *trans, *dist, *memory, *provider, *status, *unit, *limit, *note;
    int64_t m, n, k;
    double alpha, beta;
    int reps;
    double ms, ms_min, ms_max, rate, vs_ours, limit_share;
    double err_max, err_rms; /* in units of data_unit() */
    int64_t entries;
};
void table_open(FILE *file);
void table_write(const struct table_row *row);
double table_median(double *values, int n, double *min, double *max);
void table_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t table_now_ns(void);
int table_cpus(void);
const char *table_facts(void); /* the machine, as the first columns of every row */
const char *table_facts_head(void);

/* --- kernel.c, host.c: the two levels of the bench; cases.c: what to measure
 * ------------------------- */

struct perf_case {
    char level[8], routine[16], trans[8], memory[12];
    enum data_dist dist;
    int64_t m, n, k;
    double alpha, beta;
};
struct perf_options {
    int reps;
    double case_ms;        /* time spent on one provider of a case, at least one call */
    const char *providers; /* NULL: all; else a comma list */
    const char *our_library;
    struct perf_limits limits;
};
/* Calls each() for every case of a file; -1 and a message on stderr where it does not parse. */
int cases_read(const char *path, void (*each)(const struct perf_case *, void *), void *arg);
bool cases_type(const char *routine, enum tb_type *ab, enum tb_type *c, enum tb_op *op);
bool perf_wants(const struct perf_options *options, const char *provider);

bool kernel_open(struct perf_options *options, char *why, size_t bytes);
void kernel_case(const struct perf_case *item, const struct perf_options *options);
/* Every row of ours that can run the case, measured in turns and checked; how many there are. */
struct kernel_ranked {
    char name[48], note[100];
    const char *status;
    bool chosen; /* the row that the library takes by itself */
    double ms, min, max;
};
int kernel_rank(const struct perf_case *item, const struct perf_options *options,
                struct kernel_ranked *out, int room);
void host_open(const struct perf_options *options, const char *self);
void host_case(const struct perf_case *item, const struct perf_options *options);
void host_close(void);
int host_worker(const char *provider, const char *library);

/* --- cublas.c
 * ---------------------------------------------------------------------------------------- */

bool cublas_open(void *stream, char *why, size_t bytes);
/* C = alpha op(A) op(B) + beta C on the device; 0 or cuBLAS's status. */
int cublas_gemm(enum tb_type ab, enum tb_type c_type, bool tf32, char ta, char tb, int64_t m,
                int64_t n, int64_t k, const double *alpha, gpu_ptr a, int64_t lda, gpu_ptr b,
                int64_t ldb, const double *beta, gpu_ptr c, int64_t ldc);
void *cublas_library(char *why, size_t bytes);

/* --- triton.c
 * ---------------------------------------------------------------------------------------- */

/* "case ROUTINE tf32? TRANS M N K", "run TF32 CALLS", "check TF32"; see triton-matmul.py. */
void triton_ask(const char *line, char *answer, size_t bytes);
void triton_close(void);

#endif
