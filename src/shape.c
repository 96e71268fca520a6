/* SPDX-License-Identifier: BSD-3-Clause
 * Classes of shapes: where they end, and their names. Pure arithmetic; what is best for a class is
 * told by tuned.c. */
#include "shape.h"

static const struct {
    enum tb_type ab, c;
} pairs[TB_PAIRS] = {{TB_F32, TB_F32}, {TB_F64, TB_F64}, {TB_C32, TB_C32},   {TB_C64, TB_C64},
                     {TB_F16, TB_F16}, {TB_F16, TB_F32}, {TB_BF16, TB_BF16}, {TB_BF16, TB_F32}};

int shape_pair(enum tb_type ab, enum tb_type c)
{
    for (int i = 0; i < TB_PAIRS; i++)
        if (pairs[i].ab == ab && pairs[i].c == c)
            return i;
    return -1;
}

void shape_pair_types(int pair, enum tb_type *ab, enum tb_type *c)
{
    *ab = pairs[pair].ab;
    *c = pairs[pair].c;
}

/* Where classes end; 0: nowhere. */
static const int wide_side[8] = {512, 724, 1024, 1448, 2048, 2896, 4096, 0},
                 wide_k[3] = {256, 2048}, narrow_side[4] = {32, 64, 128, 256},
                 long_side[2] = {2048}, long_k[2] = {512}, small_k[2] = {1024};

static int bucket(double x, const int *ends, int count)
{
    int i = 0;
    while (i < count - 1 && x > ends[i])
        i++;
    return i;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* What tiles of 128 lose at the edge of a side, for the sides that have more than one. */
static double waste(int64_t side)
{
    return side <= 128 ? 1 : (double)ceil_div(side, 128) * 128 / (double)side;
}

static int class_of_thin(int base, int64_t narrow, int64_t other, int64_t k)
{
    return base +
           (bucket((double)narrow, narrow_side, 4) * 2 + bucket((double)other, long_side, 2)) * 2 +
           bucket((double)k, long_k, 2);
}

int shape_class(const struct tb_extent *x)
{
    const double area = (double)x->m * (double)x->n * (double)x->batch;
    const bool flat = x->m <= 256, tall = x->n <= 256;
    if (x->m < 1 || x->n < 1 || x->batch < 1 || x->batch > 4 || x->k < 64 ||
        waste(x->m) * waste(x->n) > 1.25)
        return -1;
    if (flat && tall)
        return TB_CLASS_SMALL + bucket((double)(x->m > x->n ? x->m : x->n), narrow_side, 4) * 2 +
               bucket((double)x->k, small_k, 2);
    if (flat)
        return class_of_thin(TB_CLASS_FLAT, x->m, x->n, x->k);
    if (tall)
        return class_of_thin(TB_CLASS_TALL, x->n, x->m, x->k);
    int size = 0;
    while (size < 7 && area > (double)wide_side[size] * wide_side[size])
        size++;
    return TB_CLASS_WIDE + size * 3 + bucket((double)x->k, wide_k, 3);
}

static void put_text(char *out, int *used, const char *text)
{
    while (*text != '\0' && *used < TB_CLASS_NAME - 1)
        out[(*used)++] = *text++;
    out[*used] = '\0';
}

/* ":" and where the class ends. */
static void put_end(char *out, int *used, int end)
{
    char digits[12];
    int at = (int)sizeof digits - 1;
    digits[at] = '\0';
    for (; end > 0; end /= 10)
        digits[--at] = (char)('0' + end % 10);
    put_text(out, used, ":");
    put_text(out, used, digits[at] != '\0' ? digits + at : "max");
}

void shape_class_name(int class, char out[TB_CLASS_NAME])
{
    const bool wide = class < TB_CLASS_FLAT, small = class >= TB_CLASS_SMALL;
    const bool tall = class >= TB_CLASS_TALL;
    int used = 0;
    put_text(out, &used, wide ? "wide" : small ? "small" : tall ? "tall" : "flat");
    if (wide) {
        put_end(out, &used, wide_side[class / 3]);
        put_end(out, &used, wide_k[class % 3]);
    } else if (small) {
        put_end(out, &used, narrow_side[(class - TB_CLASS_SMALL) / 2]);
        put_end(out, &used, small_k[class % 2]);
    } else {
        const int i = class - (tall ? TB_CLASS_TALL : TB_CLASS_FLAT);
        put_end(out, &used, narrow_side[i / 4]);
        put_end(out, &used, long_side[i / 2 % 2]);
        put_end(out, &used, long_k[i % 2]);
    }
}
