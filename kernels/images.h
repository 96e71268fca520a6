/* SPDX-License-Identifier: BSD-3-Clause
 * The fatbins inside the library (images.S), one per row of images.def; only in a build with CUDA.
 * dev_cuda.c loads one when the first kernel of that image is launched. */
#ifndef TB_IMAGES_H
#define TB_IMAGES_H

#define IMAGE(NAME)                                                                                \
    extern const unsigned char tb_image_##NAME[] __attribute__((visibility("hidden")));            \
    extern const unsigned char tb_image_##NAME##_end[] __attribute__((visibility("hidden")));
#include "images.def"
#undef IMAGE

struct tb_image_data {
    const char *name;
    const unsigned char *start, *end;
};

/* In the order of enum tb_image (src/kernel.h). */
static const struct tb_image_data tb_images[] = {
#define IMAGE(NAME) {#NAME, tb_image_##NAME, tb_image_##NAME##_end},
#include "images.def"
#undef IMAGE
};

#endif
