/* SPDX-License-Identifier: BSD-3-Clause
 * Makes a timeline: four products on the simulated device, the last one with a fault in the middle,
 * then an end of the process: return, exit, _exit, or fork (the child calls once more). */
#include "../../src/run.h"
#include "dev_sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIDE = 40 };
static const struct tb_cpu none;
static double a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE];

static void product(void)
{
    struct tb_call call = {.name = "test",
                           .cpu = &none,
                           .op = TB_GEMM,
                           .form = TB_ONE,
                           .ab = TB_F64,
                           .c_type = TB_F64,
                           .alpha_type = TB_F64,
                           .beta_type = TB_F64,
                           .ta = 'N',
                           .tb = 'N',
                           .m = SIDE,
                           .n = SIDE,
                           .k = SIDE,
                           .alpha.d = {1},
                           .beta.d = {1},
                           .a = a,
                           .b = b,
                           .c = c,
                           .lda = SIDE,
                           .ldb = SIDE,
                           .ldc = SIDE,
                           .batch = 1};
    if (run_enter(&call).fn != NULL)
        exit(1);
}

int main(int argc, char **argv)
{
    const char *end = argc > 1 ? argv[1] : "return";
    setenv("TILEBLAS_ROUTE", "gpu", 1);
    setenv("TILEBLAS_SIM_TILE", "16", 1);
    setenv("TILEBLAS_SIM_CHUNK", "2048", 1);
    setenv("TILEBLAS_THREADS", "3", 1);
    run_setup();
    for (int i = 0; i < 3; i++)
        product();
    sim_fail(SIM_FAIL_OUT, 6);
    product();
    if (!strcmp(end, "_exit"))
        _exit(0);
    if (!strcmp(end, "exit"))
        exit(0);
    if (!strcmp(end, "fork")) {
        const pid_t child = fork();
        if (child == 0) {
            product();
            exit(0);
        }
        int status = 1;
        waitpid(child, &status, 0);
        return status != 0;
    }
    return 0;
}
