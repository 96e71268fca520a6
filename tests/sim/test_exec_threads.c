/* SPDX-License-Identifier: BSD-3-Clause
 * Many callers at once on little device memory. A plain program, so that it
 * runs under the thread sanitizer. Usage: test_exec_threads [rounds]. */
#include "../../src/exec.h"
#include "../../src/pool.h"
#include "dev_sim.h"
#include "product.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CALLERS = 12 };

static struct tb_caps caps;
static int rounds = 12;
static atomic_int wrong, busy, done;

static void one_call(unsigned seed)
{
    const struct spec spec = {.ab = seed % 3 ? TB_F64 : TB_F32,
                              .c = seed % 3 ? TB_F64 : TB_F32,
                              .ta = "NT"[seed % 2],
                              .tb = "NT"[seed / 2 % 2],
                              .m = 5 + seed % 29,
                              .n = 5 + seed % 23,
                              .k = 3 + seed % 31,
                              .gap = seed % 2,
                              .alpha = 1,
                              .beta = seed % 3,
                              .batch = seed % 5 == 0 ? 9 : 1,
                              .seed = seed};
    struct product p;
    struct tb_plan plan;
    struct tb_undone undone;
    struct tb_exec_stats stats;
    struct tb_rect rect;
    product_open(&p, &spec);
    enum tb_status status = plan_build(&p.call, &caps, seed % 4 ? 30000 : 12000, &plan);
    if (status != TB_OK) {
        fprintf(stderr, "plan: %s\n", tb_status_text(status));
        wrong++;
        product_close(&p);
        return;
    }
    status = exec_run(&p.call, &plan, &undone, &stats);
    busy += status == TB_BUSY;
    if (status != TB_OK && status != TB_BUSY) {
        fprintf(stderr, "seed %u: %s\n", seed, tb_status_text(status));
        wrong++;
    }
    while (undone_next(&undone, &rect))
        product_rect(&p, &rect);
    undone_free(&undone);
    plan_free(&plan);
    wrong += !product_right(&p);
    done++;
    product_close(&p);
}

static void *caller(void *arg)
{
    for (int i = 0; i < rounds; i++)
        one_call((unsigned)(uintptr_t)arg * 1000 + (unsigned)i);
    return NULL;
}

static void all_callers(const char *inline_calls, int64_t queue_ns)
{
    pthread_t thread[CALLERS];
    pthread_attr_t attr;
    setenv("TILEBLAS_SIM_INLINE", inline_calls, 1);
    if (tb_dev()->open(0, &caps) != TB_OK)
        exit(1);
    pool_limit(40000); /* room for one or two */
    exec_brief_bytes = 3000;
    exec_queue_ns = queue_ns;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, (size_t)64 << 10);
    for (uintptr_t i = 0; i < CALLERS; i++)
        if (pthread_create(&thread[i], &attr, caller, (void *)i) != 0)
            exit(1);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(thread[i], NULL);
    pthread_attr_destroy(&attr);
    pool_close();
    tb_dev()->close();
}

int main(int argc, char **argv)
{
    if (argc > 1)
        rounds = atoi(argv[1]);
    setenv("TILEBLAS_SIM_TILE", "8", 1);
    setenv("TILEBLAS_SIM_CHUNK", "512", 1);
    setenv("TILEBLAS_SIM_MEMORY", "200000", 1);
    setenv("TILEBLAS_THREADS", "6", 1);
    all_callers("0", INT64_C(60000000000));
    if (busy) {
        fprintf(stderr, "%d callers did not wait\n", busy);
        return 1;
    }
    unsetenv("TILEBLAS_SIM_TILE");
    all_callers("1", INT64_C(60000000000));
    setenv("TILEBLAS_SIM_TILE", "8", 1);
    all_callers("0", 200000); /* impatient: some go to the CPU, all are right */
    fprintf(stderr, "%d calls, %d went to the CPU, %d wrong\n", done, busy, wrong);
    return wrong != 0 || done != 3 * CALLERS * rounds;
}
