/* SPDX-License-Identifier: BSD-3-Clause
 * The columns of src/routines.def: for each row of types the element types of A and B, of C, of
 * alpha and of beta, and how CBLAS passes the two scalars. */
#ifndef TB_SHIM_TYPES_H
#define TB_SHIM_TYPES_H

#include "../src/call.h"

/* Element types: A and B, C, alpha, beta. */
#define TB_TYPES_S    TB_F32, TB_F32, TB_F32, TB_F32
#define TB_TYPES_D    TB_F64, TB_F64, TB_F64, TB_F64
#define TB_TYPES_C    TB_C32, TB_C32, TB_C32, TB_C32
#define TB_TYPES_Z    TB_C64, TB_C64, TB_C64, TB_C64
#define TB_TYPES_CS   TB_C32, TB_C32, TB_F32, TB_F32 /* herk */
#define TB_TYPES_ZD   TB_C64, TB_C64, TB_F64, TB_F64
#define TB_TYPES_CR   TB_C32, TB_C32, TB_C32, TB_F32 /* her2k */
#define TB_TYPES_ZR   TB_C64, TB_C64, TB_C64, TB_F64
#define TB_TYPES_HHH  TB_F16, TB_F16, TB_F16, TB_F16
#define TB_TYPES_BBB  TB_BF16, TB_BF16, TB_BF16, TB_BF16
#define TB_TYPES_HS   TB_F16, TB_F32, TB_F32, TB_F32
#define TB_TYPES_BS   TB_BF16, TB_F32, TB_F32, TB_F32

/* CBLAS: the C type of the parameter, and the address of the scalar behind it. */
#define TB_ALPHA_S    float
#define TB_ALPHA_D    double
#define TB_ALPHA_C    const void *
#define TB_ALPHA_Z    const void *
#define TB_ALPHA_CS   float
#define TB_ALPHA_ZD   double
#define TB_ALPHA_CR   const void *
#define TB_ALPHA_ZR   const void *
#define TB_ALPHA_HHH  uint16_t
#define TB_ALPHA_BBB  uint16_t
#define TB_ALPHA_HS   float
#define TB_ALPHA_BS   float

#define TB_BETA_S     float
#define TB_BETA_D     double
#define TB_BETA_C     const void *
#define TB_BETA_Z     const void *
#define TB_BETA_CS    float
#define TB_BETA_ZD    double
#define TB_BETA_CR    float
#define TB_BETA_ZR    double
#define TB_BETA_HHH   uint16_t
#define TB_BETA_BBB   uint16_t
#define TB_BETA_HS    float
#define TB_BETA_BS    float

/* Selected by the parameter's own type: pointers are the address, values have one. */
#define TB_ADDRESS(X) _Generic((X), const void * : (X), default : (const void *)&(X))

/* Constant after inlining: the type is known at every door. */
static inline union tb_scalar scalar_read(enum tb_type type, const void *at)
{
    union tb_scalar s = {.d = {0, 0}};
    switch (type) {
    case TB_F16:
    case TB_BF16:
        s.h = *(const uint16_t *)at;
        break;
    case TB_C32:
        s.f[1] = ((const float *)at)[1];
        s.f[0] = ((const float *)at)[0];
        break;
    case TB_F32:
        s.f[0] = *(const float *)at;
        break;
    case TB_C64:
        s.d[1] = ((const double *)at)[1];
        s.d[0] = ((const double *)at)[0];
        break;
    case TB_F64:
    case TB_TYPES:
        s.d[0] = *(const double *)at;
        break;
    }
    return s;
}

/* The part of a descriptor that follows from the row of the table and the spelling alone. */
static inline struct tb_call call_head(const char *name, const struct tb_cpu *cpu, enum tb_op op,
                                       bool cblas, bool wide, enum tb_type ab, enum tb_type c,
                                       enum tb_type alpha, enum tb_type beta)
{
    return (struct tb_call){.name = name,
                            .cpu = cpu,
                            .op = op,
                            .ab = ab,
                            .c_type = c,
                            .alpha_type = alpha,
                            .beta_type = beta,
                            .cblas = cblas,
                            .wide = wide,
                            .batch = 1};
}

/* OpenBLAS reads A and B of a small sgemm or dgemm even where alpha = 0; such calls are looked at.
 */
static inline bool alpha_needs_look(enum tb_op op, enum tb_type alpha_type, const void *alpha)
{
    if (op != TB_GEMM && op != TB_GEMMT)
        return false;
    return alpha_type == TB_F32   ? *(const float *)alpha == 0
           : alpha_type == TB_F64 ? *(const double *)alpha == 0
                                  : false;
}

#endif
