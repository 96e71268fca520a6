/* SPDX-License-Identifier: BSD-3-Clause
 * What a machine does per nanosecond: the figures behind the router's estimates, built in or read
 * from the text of a saved profile. Pure: no files, no clocks, no locks; calibrate.c finds the
 * profile of this process, `tileblas tune` measures one. */
#ifndef TB_PROFILE_H
#define TB_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include "call.h"
#include "caps.h"

/* The shapes at which the CPU's rate is known; route.c finds others between them. */
enum tb_shape {
    TB_SQUARE,
    TB_THIN_M,
    TB_THIN_N,
    TB_THIN_K,
    TB_THIN_MN,
    TB_LITTLE, /* where threads, not the work, take the time */
    TB_SHAPES
};

struct tb_size {
    int64_t m, n, k;
};
extern const struct tb_size profile_shape[TB_SHAPES]; /* one thread does half the square's side */

/* One thread, and as many as there are CPUs. */
enum tb_crew { TB_ALONE, TB_TOGETHER, TB_CREWS };

enum tb_profile_source {
    TB_PROFILE_BUILTIN,  /* nothing measured */
    TB_PROFILE_MEASURED, /* the link, as the device started */
    TB_PROFILE_SAVED     /* a file that `tileblas tune` wrote */
};

/* How many bytes of pageable memory a transfer time is known for, in MB: profile_staged_mb. */
enum { TB_STAGED = 5 };
extern const double profile_staged_mb[TB_STAGED];

/* PLAIN: the version before, which had no measured kernels. */
enum { TB_PROFILE_VERSION = 4, TB_PROFILE_PLAIN = 3 };
enum { TB_PROFILE_NAME = 128, TB_PROFILE_BYTES_MAX = 16384 };

/* A way over the link, in pinned memory. */
struct tb_link {
    double wait_ns; /* of a transfer of nothing */
    double rate;    /* bytes per ns of a long one */
};

struct tb_profile {
    enum tb_profile_source source;
    char gpu[TB_PROFILE_NAME], cpu_blas[TB_PROFILE_NAME]; /* what it holds for */
    int cpus;
    struct tb_link in, out;
    double copier; /* bytes per ns that one copier carries to or from the ring */
    double staged_in[TB_STAGED], staged_out[TB_STAGED]; /* ns, with all copiers there are */
    double offload_ns;                                  /* of a call that moves next to nothing */
    double start_ns;                                    /* of the device, once per process */
    double gpu_rate[TB_TYPES]; /* flop per ns of a row of rate 100 (kernels.def) on full tiles */
    double cpu_rate[TB_TYPES][TB_CREWS][TB_SHAPES]; /* flop per ns */
};

/* Built-in figures, scaled to the device (NULL while it is not known), for `cpus` CPUs with
 * AVX-512.
 */
void profile_builtin(const struct tb_caps *caps, int cpus, struct tb_profile *out);

void profile_scale_cpu(struct tb_profile *profile, double factor);

/* Is it one of this machine? */
bool profile_fits(const struct tb_profile *profile, const char *gpu, const char *cpu_blas,
                  int cpus);

/* Reads the text of a profile; `text` needs no end of string. False: not one, and `why` says so in
 * a few words; *out is then untouched. TB_PROFILE_PLAIN is read too. */
bool profile_parse(const char *text, size_t length, struct tb_profile *out, const char **why);

/* Where measured choices of kernels (tuned.h) begin behind a profile; NULL: there are none. */
const char *profile_kernels(const char *text, size_t length);

/* Writes the text of a profile, without measured kernels. The bytes, without the end of string; 0:
 * no room. */
size_t profile_print(const struct tb_profile *profile, char *text, size_t room);

/* A name as profiles hold it: printable, blanks folded, cut to what there is room for. */
void profile_name(const char *text, char out[TB_PROFILE_NAME]);

#endif
