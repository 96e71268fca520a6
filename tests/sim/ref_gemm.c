/* SPDX-License-Identifier: BSD-3-Clause
 * The products of the simulated device: plain loops, every type pair, the
 * contract of kparams.h. Single precision is summed in double and rounded once: what
 * a client program then finds wrong is the engine's doing, not the rounding of some
 * order of summation. Also the conversions of the 16-bit types, in software:
 * to nearest, ties to even. */
#pragma GCC optimize("O3") /* client programs compute megabytes with these loops */
#include "dev_sim.h"

#include <stdlib.h>
#include <string.h>

static uint32_t float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float bits_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

float sim_half_to_float(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    const int exponent = h >> 10 & 31;
    const uint32_t fraction = h & 1023;
    if (exponent == 31)
        return bits_float(sign | 0x7f800000 | fraction << 13);
    if (exponent == 0)
        return bits_float(sign | float_bits((float)fraction * 0x1p-24f));
    return bits_float(sign | (uint32_t)(exponent + 112) << 23 | fraction << 13);
}

uint16_t sim_float_to_half(float x)
{
    const uint32_t bits = float_bits(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (size >= 0x477ff000) /* 65520 and more */
        return (uint16_t)(sign | 0x7c00);
    if (size < 0x38800000) { /* below 2^-14: units of 2^-24; the addition rounds */
        const float units = bits_float(size) * 0x1p24f + 0x1p23f;
        return (uint16_t)(sign | (float_bits(units) & 0x7fffff));
    }
    const uint32_t odd = size >> 13 & 1;
    return (uint16_t)(sign | (size - 0x38000000 + 0xfff + odd) >> 13);
}

float sim_bf16_to_float(uint16_t bits)
{
    return bits_float((uint32_t)bits << 16);
}

uint16_t sim_float_to_bf16(float x)
{
    const uint32_t bits = float_bits(x);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

struct c32 {
    float re, im;
};
struct c64 {
    double re, im;
};

static struct c64 c32_widen(struct c32 x, bool conj)
{
    return (struct c64){(double)x.re, conj ? -(double)x.im : (double)x.im};
}

static struct c32 c64_round(struct c64 x)
{
    return (struct c32){(float)x.re, (float)x.im};
}

static struct c64 c64_conj(struct c64 x, bool conj)
{
    return (struct c64){x.re, conj ? -x.im : x.im};
}

/* As the kernels do: a scalar that is real by value scales both parts apart. */
static struct c64 c64_scale(const double s[2], struct c64 x)
{
    if (s[1] == 0)
        return (struct c64){s[0] * x.re, s[0] * x.im};
    return (struct c64){s[0] * x.re - s[1] * x.im, s[0] * x.im + s[1] * x.re};
}

static struct c64 c64_plus(struct c64 x, struct c64 y)
{
    return (struct c64){x.re + y.re, x.im + y.im};
}

static bool in_triangle(const struct tb_gemm_params *p, int64_t i, int64_t j)
{
    const int side = p->uplo & TB_KUPLO_SIDE;
    return side == TB_KUPLO_LOWER ? i >= j : side != TB_KUPLO_UPPER || i <= j;
}

#define SAME(x)                 (x)
#define REAL(x, conj)           ((void)(conj), (x))
#define REAL_PRODUCT(sum, x, y) ((sum) += (x) * (y))
#define REAL_PLUS(x, y)         ((x) + (y))
#define FLOAT_SCALE(s, x)       ((float)(s)[0] * (x))
#define DOUBLE_SCALE(s, x)      ((s)[0] * (x))
#define HALF(x, conj)           ((void)(conj), sim_half_to_float(x))
#define BF16(x, conj)           ((void)(conj), sim_bf16_to_float(x))
#define COMPLEX_PRODUCT(sum, x, y)                                                                 \
    do {                                                                                           \
        const __typeof__(y) left = (x), right = (y);                                               \
        (sum).re += left.re * right.re - left.im * right.im;                                       \
        (sum).im += left.re * right.im + left.im * right.re;                                       \
    } while (0)

#define NAME              gemm_f32
#define IN                float
#define OUT               float
#define NUM               double
#define LOAD              REAL
#define LOAD_OUT          SAME
#define STORE             SAME
#define ZERO              0
#define ADD_PRODUCT       REAL_PRODUCT
#define SCALE             DOUBLE_SCALE
#define PLUS              REAL_PLUS
#define DROP_IMAGINARY(x) ((void)(x))
#include "ref_gemm.inc"

#define NAME              gemm_f64
#define IN                double
#define OUT               double
#define NUM               double
#define LOAD              REAL
#define LOAD_OUT          SAME
#define STORE             SAME
#define ZERO              0
#define ADD_PRODUCT       REAL_PRODUCT
#define SCALE             DOUBLE_SCALE
#define PLUS              REAL_PLUS
#define DROP_IMAGINARY(x) ((void)(x))
#include "ref_gemm.inc"

#define NAME              gemm_c32
#define IN                struct c32
#define OUT               struct c32
#define NUM               struct c64
#define LOAD              c32_widen
#define LOAD_OUT(x)       c32_widen(x, false)
#define STORE             c64_round
#define ZERO              ((struct c64){0, 0})
#define ADD_PRODUCT       COMPLEX_PRODUCT
#define SCALE             c64_scale
#define PLUS              c64_plus
#define DROP_IMAGINARY(x) ((x).im = 0)
#include "ref_gemm.inc"

#define NAME              gemm_c64
#define IN                struct c64
#define OUT               struct c64
#define NUM               struct c64
#define LOAD              c64_conj
#define LOAD_OUT          SAME
#define STORE             SAME
#define ZERO              ((struct c64){0, 0})
#define ADD_PRODUCT       COMPLEX_PRODUCT
#define SCALE             c64_scale
#define PLUS              c64_plus
#define DROP_IMAGINARY(x) ((x).im = 0)
#include "ref_gemm.inc"

#define NAME              gemm_f16
#define IN                uint16_t
#define OUT               uint16_t
#define NUM               float
#define LOAD              HALF
#define LOAD_OUT          sim_half_to_float
#define STORE             sim_float_to_half
#define ZERO              0
#define ADD_PRODUCT       REAL_PRODUCT
#define SCALE             FLOAT_SCALE
#define PLUS              REAL_PLUS
#define DROP_IMAGINARY(x) ((void)(x))
#include "ref_gemm.inc"

#define NAME              gemm_f16_f32
#define IN                uint16_t
#define OUT               float
#define NUM               float
#define LOAD              HALF
#define LOAD_OUT          SAME
#define STORE             SAME
#define ZERO              0
#define ADD_PRODUCT       REAL_PRODUCT
#define SCALE             FLOAT_SCALE
#define PLUS              REAL_PLUS
#define DROP_IMAGINARY(x) ((void)(x))
#include "ref_gemm.inc"

#define NAME              gemm_bf16
#define IN                uint16_t
#define OUT               uint16_t
#define NUM               float
#define LOAD              BF16
#define LOAD_OUT          sim_bf16_to_float
#define STORE             sim_float_to_bf16
#define ZERO              0
#define ADD_PRODUCT       REAL_PRODUCT
#define SCALE             FLOAT_SCALE
#define PLUS              REAL_PLUS
#define DROP_IMAGINARY(x) ((void)(x))
#include "ref_gemm.inc"

#define NAME              gemm_bf16_f32
#define IN                uint16_t
#define OUT               float
#define NUM               float
#define LOAD              BF16
#define LOAD_OUT          SAME
#define STORE             SAME
#define ZERO              0
#define ADD_PRODUCT       REAL_PRODUCT
#define SCALE             FLOAT_SCALE
#define PLUS              REAL_PLUS
#define DROP_IMAGINARY(x) ((void)(x))
#include "ref_gemm.inc"

void sim_gemm(enum tb_type ab, enum tb_type c, const struct tb_gemm_params *p, const void *a,
              const void *b, void *out)
{
    double small[512];
    const size_t bytes = (size_t)p->k * sizeof(struct c64);
    void *room = bytes <= sizeof small ? small : malloc(bytes);
    if (!room)
        abort();
    switch (ab) {
    case TB_F16:
        if (c == TB_F32)
            gemm_f16_f32(p, a, b, out, room);
        else
            gemm_f16(p, a, b, out, room);
        break;
    case TB_BF16:
        if (c == TB_F32)
            gemm_bf16_f32(p, a, b, out, room);
        else
            gemm_bf16(p, a, b, out, room);
        break;
    case TB_F32:
        gemm_f32(p, a, b, out, room);
        break;
    case TB_F64:
        gemm_f64(p, a, b, out, room);
        break;
    case TB_C32:
        gemm_c32(p, a, b, out, room);
        break;
    case TB_C64:
        gemm_c64(p, a, b, out, room);
        break;
    case TB_TYPES:
        break;
    }
    if (room != small)
        free(room);
}
