/* SPDX-License-Identifier: BSD-3-Clause
 * Pairs of element types, layouts and classes of shapes: what choices among the kernels are
 * measured and saved for (tuned.h). */
#ifndef TB_SHAPE_H
#define TB_SHAPE_H

#include <stdint.h>
#include "call.h"

/* C (m x n) = op(A) op(B) over k; `batch` of them, or as many beside each other. */
struct tb_extent {
    int64_t m, n, k, batch;
};

/* The pairs of element types that products have, and the layouts: op(A) and op(B) transposed. */
enum { TB_PAIRS = 8, TB_LAYOUTS = 4 };
int shape_pair(enum tb_type ab, enum tb_type c); /* -1: no product has these */
void shape_pair_types(int pair, enum tb_type *ab, enum tb_type *c);

/* The class of a shape: shapes of one class are served best by the same row, as far as a class can
 * say so. Whoever measures kernels measures classes. -1: none, only the estimate can tell, since k
 * is under 64, more than four products lie beside each other, or tiles of 128 would be filled
 * badly. Else by the sides: both over 256 ("wide", by the area of all products, 8 of them, and k up
 * to 256, 2048, over), m up to 32, 64, 128, 256 and n over 256 ("flat", n up to 2048 or over, k up
 * to 512 or over), the same with m and n exchanged ("tall"), neither over 256 ("small", by the
 * larger one as before, and k up to 1024 or over). */
enum {
    TB_CLASS_WIDE = 0,
    TB_CLASS_FLAT = TB_CLASS_WIDE + 8 * 3,
    TB_CLASS_TALL = TB_CLASS_FLAT + 4 * 2 * 2,
    TB_CLASS_SMALL = TB_CLASS_TALL + 4 * 2 * 2,
    TB_SHAPE_CLASSES = TB_CLASS_SMALL + 4 * 2
};
int shape_class(const struct tb_extent *x);
enum { TB_CLASS_NAME = 32 };
/* "wide:724:2048": its sides and k go up to these; "max": no limit. */
void shape_class_name(int class, char out[TB_CLASS_NAME]);

#endif
