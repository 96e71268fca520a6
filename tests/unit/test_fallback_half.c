/* SPDX-License-Identifier: BSD-3-Clause
 * The 16-bit conversions, over all 65536 patterns and all rounding boundaries between them. */
#include "../../fallback/half.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdbool.h>

/* Value of a pattern by definition of the format. */
static double value_of(uint16_t h, int exponent_bits, int fraction_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
    int exponent = h >> fraction_bits & top, fraction = h & ((1 << fraction_bits) - 1);
    double x = exponent == top ? (fraction ? NAN : INFINITY)
               : exponent ? ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits)
                          : ldexp(fraction, 1 - bias - fraction_bits);
    return h & 0x8000 ? -x : x;
}

struct format {
    int exponent_bits, fraction_bits;
    float (*from)(uint16_t);
    uint16_t (*to)(float);
};

static const struct format formats[] = {{5, 10, half_from_f16, half_to_f16},
                                        {8, 7, half_from_bf16, half_to_bf16}};

static void check_pattern(const struct format *f, uint16_t h)
{
    double want = value_of(h, f->exponent_bits, f->fraction_bits);
    float got = f->from(h);
    if (isnan(want)) {
        cr_assert(isnan(got) && isnan(f->from(f->to(got))), "NaN %04x", h);
        return;
    }
    cr_assert_eq((double)got, want, "%04x became %a", h, (double)got);
    cr_assert_eq(!!signbit(got), h >> 15, "sign of %04x", h);
    cr_assert_eq(f->to(got), h, "%04x came back as %04x", h, f->to(got));
}

Test(fallback_half, every_pattern_round_trips)
{
    for (size_t f = 0; f < 2; f++)
        for (unsigned h = 0; h < 65536; h++)
            check_pattern(&formats[f], (uint16_t)h);
}

/* Between neighbours low and high: the middle goes to the even one, its neighbours to the nearer
 * one. */
static void check_gap(const struct format *f, uint16_t low)
{
    uint16_t high = (uint16_t)(low + 1), even = low & 1 ? high : low;
    double top = ldexp(1, 1 << (f->exponent_bits - 1)); /* where Inf would stand */
    double a = (double)f->from(low),
           b = isinf(f->from(high)) ? copysign(top, a) : (double)f->from(high);
    float middle = (float)((a + b) / 2);
    if ((double)middle != (a + b) / 2)
        return; /* not a float: below bfloat16's smallest step there is none */
    float inner = nextafterf(middle, 0),
          outer = nextafterf(middle, signbit(a) ? -INFINITY : INFINITY);
    cr_assert_eq(f->to(middle), even, "middle above %04x became %04x", low, f->to(middle));
    cr_assert_eq(f->to(inner), low, "below the middle above %04x: %04x", low, f->to(inner));
    cr_assert_eq(f->to(outer), high, "above the middle above %04x: %04x", low, f->to(outer));
}

Test(fallback_half, every_gap_rounds_to_nearest_even)
{
    for (size_t f = 0; f < 2; f++) {
        unsigned infinity = ((1U << formats[f].exponent_bits) - 1) << formats[f].fraction_bits;
        for (unsigned h = 0; h < infinity; h++) {
            check_gap(&formats[f], (uint16_t)h);
            check_gap(&formats[f], (uint16_t)(h | 0x8000U));
        }
    }
}

Test(fallback_half, overflow_and_payloads)
{
    cr_assert_eq(half_to_f16(65519.996F), 0x7bff);
    cr_assert_eq(half_to_f16(65520.0F), 0x7c00);
    cr_assert_eq(half_to_f16(-1e30F), 0xfc00);
    cr_assert_eq(half_to_f16(0x1p-25F), 0);
    cr_assert_eq(half_to_f16(0x1.000002p-25F), 1);
    cr_assert_eq(half_to_f16(-0x1p-149F), 0x8000);
    cr_assert_eq(half_to_bf16(3.4e38F), 0x7f80);
    /* A NaN whose payload lies only in the bits that are cut off must not become Inf. */
    union {
        uint32_t bits;
        float x;
    } nan = {0x7f800001};
    cr_assert(isnan(half_from_f16(half_to_f16(nan.x))));
    cr_assert(isnan(half_from_bf16(half_to_bf16(nan.x))));
    nan.bits = 0xffc56000; /* payload in the top bits is kept */
    cr_assert_eq(half_to_f16(nan.x), 0xfe2b);
    cr_assert_eq(half_to_bf16(nan.x), 0xffc5);
}
