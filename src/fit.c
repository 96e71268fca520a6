/* SPDX-License-Identifier: BSD-3-Clause
 * How many blocks fit on a multiprocessor: the least of what shared memory, registers, threads and
 * the number of blocks allow. The figures are those of the CUDA C programming guide's table of
 * technical specifications. */
#include "fit.h"

enum { KB = 1024 };

static const struct tb_sm sms[] = {
    {75, 64 * KB, 64 * KB, 0, 48 * KB, 65536, 255, 256, 1024, 1024, 16},
    {80, 164 * KB, 163 * KB, 1 * KB, 48 * KB, 65536, 255, 256, 2048, 1024, 32},
    {86, 100 * KB, 99 * KB, 1 * KB, 48 * KB, 65536, 255, 256, 1536, 1024, 16},
    {87, 164 * KB, 163 * KB, 1 * KB, 48 * KB, 65536, 255, 256, 1536, 1024, 16},
    {89, 100 * KB, 99 * KB, 1 * KB, 48 * KB, 65536, 255, 256, 1536, 1024, 24},
    {90, 228 * KB, 227 * KB, 1 * KB, 48 * KB, 65536, 255, 256, 2048, 1024, 32},
    {100, 228 * KB, 227 * KB, 1 * KB, 48 * KB, 65536, 255, 256, 2048, 1024, 32},
    {120, 100 * KB, 99 * KB, 1 * KB, 48 * KB, 65536, 255, 256, 1536, 1024, 24},
};

const struct tb_sm *fit_sm(int cc)
{
    for (size_t i = 0; i < sizeof sms / sizeof sms[0]; i++)
        if (sms[i].cc == cc)
            return &sms[i];
    return NULL;
}

static struct tb_fit fit_none(enum tb_fit_bound bound)
{
    return (struct tb_fit){.bound = bound};
}

static void fit_lower(struct tb_fit *fit, int blocks, enum tb_fit_bound bound)
{
    if (blocks < fit->blocks) {
        fit->blocks = blocks;
        fit->bound = bound;
    }
}

/* Registers are given to a warp in whole units. */
static int fit_registers(const struct tb_sm *sm, const struct tb_need *need)
{
    const int warps = (need->threads + 31) / 32;
    const int of_warp =
        (need->registers * 32 + sm->register_unit - 1) / sm->register_unit * sm->register_unit;
    return warps * of_warp;
}

struct tb_fit fit_block(const struct tb_sm *sm, const struct tb_need *need)
{
    const long long smem = (long long)need->smem_static + need->smem_dynamic;
    const int registers = fit_registers(sm, need), threads = (need->threads + 31) / 32 * 32;
    if (need->threads < 1 || need->threads > sm->threads_block)
        return fit_none(TB_FIT_THREADS);
    if (need->registers > sm->registers_thread || registers > sm->registers)
        return fit_none(TB_FIT_REGISTERS);
    if (need->smem_static > sm->smem_static)
        return fit_none(TB_FIT_STATIC);
    if (smem > sm->smem_block)
        return fit_none(TB_FIT_SMEM);
    struct tb_fit fit = {.blocks = sm->blocks, .bound = TB_FIT_BLOCKS};
    fit_lower(&fit, sm->threads / threads, TB_FIT_THREADS);
    if (registers > 0)
        fit_lower(&fit, sm->registers / registers, TB_FIT_REGISTERS);
    if (smem + sm->smem_reserve > 0)
        fit_lower(&fit, (int)(sm->smem_sm / (smem + sm->smem_reserve)), TB_FIT_SMEM);
    fit.occupancy = (double)fit.blocks * threads / sm->threads;
    return fit;
}

const char *fit_bound_text(enum tb_fit_bound bound)
{
    static const char *const text[] = {[TB_FIT_SMEM] = "shared memory",
                                       [TB_FIT_REGISTERS] = "registers",
                                       [TB_FIT_THREADS] = "threads",
                                       [TB_FIT_BLOCKS] = "blocks",
                                       [TB_FIT_STATIC] = "static shared memory"};
    return text[bound];
}

long long fit_ring_bytes(int bm, int bn, int bk, int stages, int element_bytes)
{
    return ((long long)bm + bn) * bk * stages * element_bytes;
}
