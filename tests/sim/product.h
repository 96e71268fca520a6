/* SPDX-License-Identifier: BSD-3-Clause
 * A call to be tried, of any level-3 routine: operands between guard pages, filled with small whole
 * numbers so that every order of summation gives the same bits, and a plain reference. What a
 * routine must not read is NaN: the other triangle, a diagonal that is one, the imaginary part of
 * one that is real. A system of equations is made from its solution. */
#ifndef TB_TEST_PRODUCT_H
#define TB_TEST_PRODUCT_H

#include "../../src/call.h"
#include <stdbool.h>

struct spec {
    enum tb_op op; /* TB_GEMM, if not said */
    enum tb_type ab, c;
    char ta, tb;
    char side, uplo, diag;
    int64_t m, n, k; /* rank-k forms and gemmt: m as n */
    int64_t gap; /* rows between the columns that belong to nobody */
    double alpha, beta;
    double alpha_im; /* complex types, where alpha is not real by definition */
    int64_t batch; /* 0 and 1: one product */
    bool lists;    /* matrices of a batch by list, else by stride */
    bool share_a;  /* one A for the whole batch */
    bool nan_c;    /* C full of NaN; beta must be 0 */
    unsigned seed;
    enum tb_where where[3]; /* of A, B, C: the matrices lie there, `data` is a
                               mirror */
};

struct product {
    struct spec spec;
    struct tb_call call;
    struct matrix {
        char *map, *data, *copy; /* mapping with guards; first byte; what it held at the start */
        size_t map_bytes, bytes;
        int64_t ld, rows, cols, stride;
        char part;       /* 'L', 'U': only that triangle counts */
        bool unit, real; /* the diagonal is one, or real */
        const void **list;
        char *far; /* the program's memory on the device, or NULL */
    } x[3];        /* A, B, C */
};

void product_open(struct product *p, const struct spec *spec);
void product_close(struct product *p);
void product_pull(struct product *p); /* the mirrors are as the device has it */
void product_push(struct product *p);
void product_reset(struct product *p); /* C as it was */
/* Computes a rectangle of C as a CPU BLAS would, from what C holds now. */
void product_rect(struct product *p, const struct tb_rect *rect);
/* C is right to the last bit, nothing else was written. Prints the first
 * difference. */
bool product_right(struct product *p);

#endif
