/* SPDX-License-Identifier: BSD-3-Clause
 * The exported names. Each is one jump through its slot; a slot starts at a stub that names its index to
 * the resolver, which saves every register an argument may be in. Pure tail jumps: stack arguments, hidden
 * lengths, by-value structs and any return value pass through untouched. x86-64, System V calling
 * convention. The including file says with TB_ALL_NAMES whether only doors are exported. */

#define SLOT_BYTES 8

        .macro trampoline name, index
        .text
        .globl  \name
        .type   \name, @function
        .p2align 4
\name:
        endbr64
        jmp     *tb_slots + SLOT_BYTES * \index(%rip)
        .size   \name, . - \name
.Lresolve_\index:
        endbr64
        push    $\index
        jmp     tb_resolver

        .section .data.rel.tb_slots, "aw", @progbits
        .quad   .Lresolve_\index

        .section .rodata.tb_names, "a", @progbits
        .asciz  "\name"
        .endm

        .section .data.rel.tb_slots, "aw", @progbits
        .p2align 6
        .globl  tb_slots
        .hidden tb_slots
        .type   tb_slots, @object
tb_slots:

        .section .rodata.tb_names, "a", @progbits
        .globl  tb_names
        .hidden tb_names
        .type   tb_names, @object
tb_names:

#define DOOR(SHAPE, OP, NAME, TYPES, SPELLED, I, STYLE) trampoline SPELLED, __COUNTER__;
#include "doors.def"
#undef DOOR
#ifdef TB_ALL_NAMES
#define NAME(N) trampoline N, __COUNTER__;
#include "openblas.def"
#undef NAME
        .weak   xerbla_
#endif

        .section .data.rel.tb_slots, "aw", @progbits
        .size   tb_slots, . - tb_slots

        .section .rodata.tb_names, "a", @progbits
        .asciz  ""
        .size   tb_names, . - tb_names
        .globl  tb_doors_only
        .hidden tb_doors_only
        .type   tb_doors_only, @object
        .size   tb_doors_only, 1
tb_doors_only:
#ifdef TB_ALL_NAMES
        .byte   0
#else
        .byte   1
#endif

        .text
        .hidden tb_resolve
        .type   tb_resolver, @function
        .p2align 4
/* On entry: index, return address, stack arguments. */
tb_resolver:
        .cfi_startproc
        .cfi_adjust_cfa_offset 8
        .macro save reg
        push    \reg
        .cfi_adjust_cfa_offset 8
        .endm
        .macro restore reg
        pop     \reg
        .cfi_adjust_cfa_offset -8
        .endm
        save    %rax            /* number of vector registers of a variadic call */
        save    %rdi
        save    %rsi
        save    %rdx
        save    %rcx
        save    %r8
        save    %r9
        save    %r10
        sub     $128, %rsp
        .cfi_adjust_cfa_offset 128
        movups  %xmm0, (%rsp)
        movups  %xmm1, 16(%rsp)
        movups  %xmm2, 32(%rsp)
        movups  %xmm3, 48(%rsp)
        movups  %xmm4, 64(%rsp)
        movups  %xmm5, 80(%rsp)
        movups  %xmm6, 96(%rsp)
        movups  %xmm7, 112(%rsp)
        mov     192(%rsp), %rdi
        mov     200(%rsp), %rsi
        call    tb_resolve
        mov     %rax, %r11
        movups  (%rsp), %xmm0
        movups  16(%rsp), %xmm1
        movups  32(%rsp), %xmm2
        movups  48(%rsp), %xmm3
        movups  64(%rsp), %xmm4
        movups  80(%rsp), %xmm5
        movups  96(%rsp), %xmm6
        movups  112(%rsp), %xmm7
        add     $128, %rsp
        .cfi_adjust_cfa_offset -128
        restore %r10
        restore %r9
        restore %r8
        restore %rcx
        restore %rdx
        restore %rsi
        restore %rdi
        restore %rax
        add     $8, %rsp
        .cfi_adjust_cfa_offset -8
        jmp     *%r11
        .cfi_endproc
        .size   tb_resolver, . - tb_resolver

        .section .note.GNU-stack, "", @progbits
