/* SPDX-License-Identifier: BSD-3-Clause
 * 16-bit types on the CPU: panels become float, sgemm sums them in float, and every entry of C is
 * rounded once, at the end. Integer arithmetic decides all roundings, so a program that flushes
 * subnormals (as -ffast-math makes it) changes nothing. Called by openblas.c. */
#include "half.h"
#include "base.h"

#include <stdlib.h>
#include <string.h>

enum { TB_PANEL = 512, TB_PANEL_SMALL = 16 };

/* ---- Conversions ---- */

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

float half_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000U) << 16, rest = h & 0x7fffU;
    if (rest >= 0x7c00U)
        return float_of(sign | 0x7f800000U | rest << 13);
    if (rest >= 0x0400U)
        return float_of(sign | ((rest << 13) + (112U << 23)));
    float x = (float)rest * 0x1p-24F;
    return sign ? -x : x;
}

float half_from_bf16(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

/* Bits of a non-zero number below 2^-14, in units of 2^-24. */
static uint32_t subnormal_f16(uint32_t bits)
{
    uint32_t mantissa = (bits & 0x7fffffU) | 0x800000U, shift = 126 - (bits >> 23);
    if (shift > 24)
        return 0;
    uint32_t rest = mantissa & ((1U << shift) - 1), tie = 1U << (shift - 1);
    mantissa >>= shift;
    return mantissa + (rest > tie || (rest == tie && (mantissa & 1)));
}

uint16_t half_to_f16(float x)
{
    uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000U;
    bits &= 0x7fffffffU;
    if (bits > 0x7f800000U)
        return (uint16_t)(sign | 0x7e00U | (bits >> 13 & 0x3ffU));
    if (bits >= 0x477ff000U) /* 65520, half way to the next power of two, and up */
        return (uint16_t)(sign | 0x7c00U);
    if (bits < 0x38800000U)
        return (uint16_t)(sign | subnormal_f16(bits));
    bits += 0xfffU + (bits >> 13 & 1);
    return (uint16_t)(sign | ((bits >> 13) - (112U << 10)));
}

uint16_t half_to_bf16(float x)
{
    uint32_t bits = bits_of(x);
    if ((bits & 0x7fffffffU) > 0x7f800000U)
        return (uint16_t)(bits >> 16 | 0x40U);
    return (uint16_t)((bits + 0x7fffU + (bits >> 16 & 1)) >> 16);
}

/* ---- Panels ---- */

static const uint16_t *element(const void *base, int64_t row, int64_t col, int64_t ld)
{
    return (const uint16_t *)base + (row + col * ld);
}

static void widen(enum tb_type type, const uint16_t *from, int64_t ld, float *to, int64_t rows,
                  int64_t cols)
{
    for (int64_t j = 0; j < cols; j++, from += ld, to += rows)
        if (type == TB_F16)
            for (int64_t i = 0; i < rows; i++)
                to[i] = half_from_f16(from[i]);
        else
            for (int64_t i = 0; i < rows; i++)
                to[i] = half_from_bf16(from[i]);
}

static float scalar_float(enum tb_type type, const union tb_scalar *s)
{
    double wide[2];
    scalar_widen(type, s, wide);
    return (float)wide[0];
}

static float load_c(enum tb_type type, const void *c)
{
    float x;
    if (type == TB_F16)
        return half_from_f16(*(const uint16_t *)c);
    if (type == TB_BF16)
        return half_from_bf16(*(const uint16_t *)c);
    memcpy(&x, c, sizeof x);
    return x;
}

static void store_c(enum tb_type type, void *c, float x)
{
    if (type == TB_F16)
        *(uint16_t *)c = half_to_f16(x);
    else if (type == TB_BF16)
        *(uint16_t *)c = half_to_bf16(x);
    else
        memcpy(c, &x, sizeof x);
}

/* ---- The product ---- */

struct panels {
    int64_t side;
    float *a, *b, *sum;
};

struct block {
    int64_t i, j, m, n;
};

/* C = alpha sum + beta C over one block. No sum: the product counts as zero. */
static void finish(const struct tb_call *call, const struct block *at, const float *sum)
{
    float alpha = scalar_float(call->alpha_type, &call->alpha);
    float beta = scalar_float(call->beta_type, &call->beta);
    size_t bytes = call_elem_bytes(call->c_type);
    for (int64_t j = 0; j < at->n; j++) {
        char *c = (char *)call->c + (size_t)(at->i + (at->j + j) * call->ldc) * bytes;
        for (int64_t i = 0; i < at->m; i++, c += bytes) {
            float x = sum ? alpha * sum[i + j * at->m] : 0;
            if (beta != 0)
                x = sum ? x + beta * load_c(call->c_type, c) : beta * load_c(call->c_type, c);
            store_c(call->c_type, c, x);
        }
    }
}

/* Adds the part of k from l on to the sum of one block. */
static bool add_product(const struct tb_call *call, const struct block *at, int64_t l, int64_t k,
                        const struct panels *p)
{
    bool na = call->ta == 'N', nb = call->tb == 'N';
    const uint16_t *a =
        na ? element(call->a, at->i, l, call->lda) : element(call->a, l, at->i, call->lda);
    const uint16_t *b =
        nb ? element(call->b, l, at->j, call->ldb) : element(call->b, at->j, l, call->ldb);
    struct tb_call part = {.name = "sgemm",
                           .op = TB_GEMM,
                           .ab = TB_F32,
                           .c_type = TB_F32,
                           .alpha_type = TB_F32,
                           .beta_type = TB_F32,
                           .ta = call->ta,
                           .tb = call->tb,
                           .m = at->m,
                           .n = at->n,
                           .k = k,
                           .alpha.f = {1},
                           .beta.f = {l > 0 ? 1.0F : 0.0F},
                           .a = p->a,
                           .b = p->b,
                           .c = p->sum,
                           .lda = na ? at->m : k,
                           .ldb = nb ? k : at->n,
                           .ldc = at->m,
                           .batch = 1};
    widen(call->ab, a, call->lda, p->a, part.lda, na ? k : at->m);
    widen(call->ab, b, call->ldb, p->b, part.ldb, nb ? at->n : k);
    return base_call(&part);
}

static bool multiply(const struct tb_call *call, const struct panels *p)
{
    bool nothing = call->k <= 0 || scalar_is_zero(call->alpha_type, &call->alpha);
    struct block at;
    for (at.j = 0; at.j < call->n; at.j += p->side) {
        at.n = call->n - at.j < p->side ? call->n - at.j : p->side;
        for (at.i = 0; at.i < call->m; at.i += p->side) {
            at.m = call->m - at.i < p->side ? call->m - at.i : p->side;
            for (int64_t l = 0; !nothing && l < call->k; l += p->side)
                if (!add_product(call, &at, l, call->k - l < p->side ? call->k - l : p->side, p))
                    return false;
            finish(call, &at, nothing ? NULL : p->sum);
        }
    }
    return true;
}

static int64_t largest_side(const struct tb_call *call)
{
    int64_t most = call->m > call->n ? call->m : call->n;
    most = most > call->k ? most : call->k;
    return most < TB_PANEL ? most : TB_PANEL;
}

bool half_gemm(const struct tb_call *call)
{
    float spare[3 * TB_PANEL_SMALL * TB_PANEL_SMALL];
    int64_t side = largest_side(call);
    float *memory =
        side > TB_PANEL_SMALL ? malloc(3 * (size_t)(side * side) * sizeof *memory) : NULL;
    if (!memory)
        side = TB_PANEL_SMALL;
    float *base = memory ? memory : spare;
    struct panels panels = {
        .side = side, .a = base, .b = base + side * side, .sum = base + 2 * side * side};
    bool ok = multiply(call, &panels);
    free(memory);
    return ok;
}
