/* SPDX-License-Identifier: BSD-3-Clause
 * Puts the fatbins into the library as they are, one per row of images.def, visible inside of it only.
 * The assembler finds NAME.fatbin in the directories given by -I. */
#define IMAGE(NAME)                                                            \
    .global tb_image_##NAME;                                                   \
    .hidden tb_image_##NAME;                                                   \
    .global tb_image_##NAME##_end;                                             \
    .hidden tb_image_##NAME##_end;                                             \
    .balign 64;                                                                \
    tb_image_##NAME: .incbin TB_FATBIN(NAME);                                  \
    tb_image_##NAME##_end: .byte 0;
#define TB_FATBIN(NAME) TB_QUOTE(NAME.fatbin)
#define TB_QUOTE(FILE) #FILE

    .section .rodata
#include "images.def"
    .section .note.GNU-stack, "", @progbits
