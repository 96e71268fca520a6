/* SPDX-License-Identifier: BSD-3-Clause
 * Every spelling of a routine's name. DOOR(SHAPE, OP, NAME, TYPES, SPELLED, I, STYLE): I is the
 * integer type, STYLE is FORTRAN or CBLAS. Included by C, by the assembler and by the version
 * script alike, so it holds nothing but macros; doors keep the order they have here. */
#ifndef TB_NAMES_H
#define TB_NAMES_H

/* Bare names are oneMKL's; libraries also define a by-value dgemm of their own, see resolve.c. */
#define TB_SPELL_PLAIN(SHAPE, OP, NAME, TYPES)                                                     \
    DOOR(SHAPE, OP, NAME, TYPES, NAME##_, int32_t, FORTRAN)                                        \
    DOOR(SHAPE, OP, NAME, TYPES, NAME##_64_, int64_t, FORTRAN)                                     \
    DOOR(SHAPE, OP, NAME, TYPES, NAME##64_, int64_t, FORTRAN)                                      \
    DOOR(SHAPE, OP, NAME, TYPES, scipy_##NAME##_, int32_t, FORTRAN)                                \
    DOOR(SHAPE, OP, NAME, TYPES, scipy_##NAME##_64_, int64_t, FORTRAN)                             \
    DOOR(SHAPE, OP, NAME, TYPES, cblas_##NAME, int32_t, CBLAS)                                     \
    DOOR(SHAPE, OP, NAME, TYPES, cblas_##NAME##_64, int64_t, CBLAS)                                \
    DOOR(SHAPE, OP, NAME, TYPES, cblas_##NAME##64_, int64_t, CBLAS)                                \
    DOOR(SHAPE, OP, NAME, TYPES, scipy_cblas_##NAME, int32_t, CBLAS)                               \
    DOOR(SHAPE, OP, NAME, TYPES, scipy_cblas_##NAME##64_, int64_t, CBLAS)

#define TB_SPELL_BARE(SHAPE, OP, NAME, TYPES)                                                      \
    DOOR(SHAPE, OP, NAME, TYPES, NAME, int32_t, FORTRAN)                                           \
    DOOR(SHAPE, OP, NAME, TYPES, NAME##_64, int64_t, FORTRAN)

#endif
