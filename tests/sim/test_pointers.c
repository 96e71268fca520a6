/* SPDX-License-Identifier: BSD-3-Clause
 * Whole calls with operands in device, managed and pinned memory, through the router: every level-3
 * routine, on the device where there is a way, else on the CPU through copies. The reference is the
 * same call on host memory. A plain program; device memory faults when the host touches it. */
#include "../../fallback/fallback.h"
#include "../../src/device.h"
#include "../../src/place.h"
#include "../../src/run.h"
#include "dev_sim.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 12, LD = 15, ITEMS = 3, ELEMS = LD * SIDE * ITEMS };
static const struct tb_cpu none;
static int failures;

struct operand {
    enum tb_where where;
    double *host;
    void *at;
};

static void operand_open(struct operand *x, enum tb_where where, unsigned seed)
{
    x->where = where;
    x->host = malloc(ELEMS * 2 * sizeof *x->host);
    for (int i = 0; i < 2 * ELEMS; i++) {
        seed = seed * 1664525 + 1013904223;
        x->host[i] = (double)(seed >> 28) / 8 - 1;
    }
    for (int i = 0; i < 2 * ELEMS; i += LD + 1)
        x->host[i] += 8; /* a diagonal that can be divided by */
    x->at = x->host;
    if (where != TB_HOST_PAGEABLE) {
        x->at = sim_user_alloc(where, ELEMS * 2 * sizeof *x->host);
        sim_user_write(x->at, x->host, ELEMS * 2 * sizeof *x->host);
    }
}

/* What is there now, and nothing is held. */
static void operand_close(struct operand *x)
{
    if (x->at == x->host)
        return;
    sim_user_read(x->host, x->at, ELEMS * 2 * sizeof *x->host);
    sim_user_free(x->at);
}

static struct tb_call call_of(enum tb_op op, enum tb_type type, unsigned seed)
{
    const bool hermitian = op == TB_HERK, second = op == TB_HER2K;
    const bool complex = call_is_complex(type);
    struct tb_call call = {.name = "test",
                           .cpu = &none,
                           .op = op,
                           .form = TB_ONE,
                           .ab = type,
                           .c_type = type,
                           .alpha_type = hermitian ? TB_F64 : type,
                           .beta_type = hermitian || second ? TB_F64 : type,
                           .alpha.d = {1.5, 0},
                           .beta.d = {seed % 3 ? -0.5 : 0, 0},
                           .m = 7,
                           .n = 9,
                           .k = 5,
                           .lda = LD,
                           .ldb = LD,
                           .ldc = LD,
                           .batch = 1};
    const char trans = seed % 2 ? (complex ? 'C' : 'T') : 'N';
    switch (op) {
    case TB_GEMM:
    case TB_GEMM3M:
    case TB_GEMMT:
        call.ta = trans;
        call.tb = seed / 2 % 2 ? 'T' : 'N';
        if (op == TB_GEMMT) {
            call.uplo = "UL"[seed % 2];
            call.m = call.n;
        }
        break;
    case TB_SYMM:
    case TB_HEMM:
        call.side = "LR"[seed % 2];
        call.uplo = "UL"[seed / 2 % 2];
        call.k = 0;
        break;
    case TB_SYRK:
    case TB_SYR2K:
        call.uplo = "UL"[seed / 2 % 2];
        call.ta = "NT"[seed % 2];
        call.m = call.n;
        break;
    case TB_HERK:
    case TB_HER2K:
        call.uplo = "UL"[seed / 2 % 2];
        call.ta = "NC"[seed % 2];
        call.m = call.n;
        break;
    case TB_TRMM:
    case TB_TRSM:
        call.side = "LR"[seed % 2];
        call.uplo = "UL"[seed / 2 % 2];
        call.ta = trans;
        call.diag = 'N';
        call.k = 0;
        break;
    case TB_OPS:
        break;
    }
    return call;
}

/* The call on the operands, by stride or by lists. */
static void submit(struct tb_call call, const struct operand x[3], bool reference, bool lists)
{
    const void *list[3][ITEMS];
    const int64_t stride = LD * SIDE;
    const size_t bytes = (size_t)stride * call_elem_bytes(call.ab);
    const void *base[3];
    for (int i = 0; i < 3; i++) {
        base[i] = reference ? (const void *)x[i].host : x[i].at;
        for (int item = 0; item < ITEMS; item++)
            list[i][item] = (const void *)((uintptr_t)base[i] + (size_t)item * bytes);
    }
    const bool has_b =
        call.op != TB_SYRK && call.op != TB_HERK && call.op != TB_TRMM && call.op != TB_TRSM;
    call.a = base[0];
    call.b = has_b ? base[1] : NULL;
    call.ldb = has_b ? call.ldb : 0;
    call.c = (void *)(uintptr_t)base[2];
    call.stride_a = call.stride_b = call.stride_c = call.batch > 1 ? stride : 0;
    if (lists) {
        call.alist = list[0];
        call.blist = list[1];
        call.clist = (void *const *)(void *)list[2];
    }
    if (reference) {
        fallback_call(&call);
        return;
    }
    if (run_enter(&call).fn != NULL)
        failures++;
}

static void compare(const struct tb_call *call, const struct operand *got,
                    const struct operand *want, const char *what)
{
    for (int i = 0; i < 2 * ELEMS; i++)
        if (!(fabs(got->host[i] - want->host[i]) <= 1e-12 * (1 + fabs(want->host[i])))) {
            fprintf(stderr, "%s, %s, type %d: element %d is %g, not %g\n", what,
                    call_op_name(call->op), call->ab, i, got->host[i], want->host[i]);
            failures++;
            return;
        }
}

static void try_call(struct tb_call call, const enum tb_where where[3], unsigned seed, bool lists,
                     const char *what)
{
    struct operand x[3], want[3];
    for (int i = 0; i < 3; i++) {
        operand_open(&x[i], where[i], seed * 3 + (unsigned)i);
        operand_open(&want[i], TB_HOST_PAGEABLE, seed * 3 + (unsigned)i);
    }
    if (call.ab == TB_F32) /* garbage as numbers: not used */
        abort();
    submit(call, want, true, lists);
    submit(call, x, false, lists);
    for (int i = 0; i < 3; i++)
        operand_close(&x[i]);
    compare(&call, &x[2], &want[2], what);
    for (int i = 0; i < 3; i++) {
        free(x[i].host);
        free(want[i].host);
    }
}

static void every_routine(const char *what)
{
    static const enum tb_where places[] = {TB_DEVICE, TB_HOST_PAGEABLE, TB_MANAGED, TB_HOST_PINNED,
                                           TB_DEVICE_FAR};
    for (unsigned seed = 0; seed < 125; seed++) {
        const enum tb_where where[3] = {places[seed % 5], places[seed / 5 % 5], places[seed / 25]};
        for (int op = 0; op < TB_OPS; op++)
            for (int c = 0; c < 2; c++) {
                const enum tb_type type = c ? TB_C64 : TB_F64;
                const bool only_complex =
                    op == TB_HERK || op == TB_HER2K || op == TB_HEMM || op == TB_GEMM3M;
                if (!c && only_complex)
                    continue;
                struct tb_call call = call_of((enum tb_op)op, type, seed);
                try_call(call, where, seed, false, what);
                call.alpha.d[0] = 0; /* only C is touched */
                try_call(call, where, seed, false, what);
                if (op != TB_GEMM)
                    continue;
                call = call_of(TB_GEMM, type, seed);
                call.form = seed % 2 ? TB_BATCH : TB_STRIDED;
                call.batch = ITEMS;
                try_call(call, where, seed, seed % 2, what);
            }
    }
}

static long fetched(void)
{
    return sim_counts().fetches;
}

static void expect(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s\n", what);
    failures++;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "gpu";
    static const enum tb_where here[3] = {TB_DEVICE, TB_DEVICE, TB_DEVICE};
    static const enum tb_where shared[3] = {TB_HOST_PAGEABLE, TB_MANAGED, TB_HOST_PAGEABLE};
    setenv("TILEBLAS_SIM_MEMORY", "100000000", 1);
    setenv("TILEBLAS_ROUTE", strcmp(mode, "cpu") == 0 ? "cpu" : "auto", 1);
    setenv("TILEBLAS_DEVICES", strcmp(mode, "none") == 0 ? "none" : "all", 1);
    run_setup();
    run_look();
    expect(run_is_small(2, 2, 2), "small calls of a program without CUDA should not be looked at");
    void *own = sim_user_alloc(TB_DEVICE, 64);
    run_look();
    expect(!run_is_small(2, 2, 2), "small calls of a program with CUDA should be looked at");
    every_routine(mode);
    const long before = fetched(), launches = sim_counts().launches;
    try_call(call_of(TB_GEMM, TB_F64, 1), here, 1, false, mode);
    if (strcmp(mode, "gpu") == 0)
        expect(fetched() == before && sim_counts().launches == launches + 1,
               "a product on device operands should run in place");
    else
        expect(fetched() > before && launches == 0, "the CPU should have got copies");
    /* symm takes no operand in managed memory: the CPU reads it, behind the default stream. */
    const long waits = fetched(), puts = sim_counts().puts;
    try_call(call_of(TB_SYMM, TB_F64, 1), shared, 1, false, mode);
    expect(fetched() == waits + 1 && sim_counts().puts == puts,
           "the CPU should wait for managed memory once, and not copy it");
    /* What is not aligned to its elements no kernel touches. */
    struct tb_call odd = call_of(TB_GEMM, TB_C64, 1);
    odd.a = (char *)own + 8;
    odd.b = odd.c = own;
    expect(place_find(&odd) && odd.where[0] == TB_DEVICE_FAR && odd.where[1] == TB_DEVICE,
           "an operand beside its alignment should be as far as another device");
    sim_user_free(own);
    fprintf(stderr, "%s: %d failures\n", mode, failures);
    return failures != 0;
}
