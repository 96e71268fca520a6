/* SPDX-License-Identifier: BSD-3-Clause
 * The configuration: environment only, read once, at the first call. A bad value costs one line on
 * stderr and becomes the default. conf.def is the table. */
#ifndef TB_CONF_H
#define TB_CONF_H

#include <stddef.h>

enum tb_conf_route { TB_ROUTE_AUTO, TB_ROUTE_CPU, TB_ROUTE_GPU };
enum tb_conf_math { TB_MATH_AUTO, TB_MATH_STRICT, TB_MATH_TF32 };
enum tb_conf_start { TB_START_AUTO, TB_START_WAIT };
enum tb_conf_residency { TB_RESIDENCY_AUTO, TB_RESIDENCY_OFF, TB_RESIDENCY_VERIFY };

struct tb_conf_memory {
    size_t bytes;   /* cap, or 0 where percent holds */
    double percent; /* of the free device memory */
};

struct tb_conf {
    enum tb_conf_route route;
    enum tb_conf_math math;
    enum tb_conf_start start;
    enum tb_conf_residency residency;
    struct tb_conf_memory memory;
    double verify;
    int threads, verbose;
    const char *cpu_blas, *devices, *log, *trace, *profile; /* never NULL; "" is unset */
};

/* The configuration of this process. */
const struct tb_conf *conf_get(void);

/* Parses from a lookup function (secure_getenv in the library); `complain` gets one line per bad
 * value. */
void conf_parse(struct tb_conf *out, char *(*lookup)(const char *name),
                void (*complain)(const char *line));

#endif
