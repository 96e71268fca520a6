/* SPDX-License-Identifier: BSD-3-Clause
 * Reports a wrong argument of a call that no CPU BLAS knows, as the CPU BLAS would: through xerbla_
 * with the Fortran name and number. Calls of other names are forwarded and reported there. */
#include "fallback.h"
#include "object.h"

#include <ctype.h>
#include <dlfcn.h>
#include <string.h>

enum { TB_XERBLA_NAME = 6, TB_XERBLA_MAX = 32 };

static const char *without_prefix(const char *name)
{
    static const char *const prefixes[] = {"scipy_", "cblas_"};
    for (size_t i = 0; i < 2; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            name += strlen(prefixes[i]);
    return name;
}

static size_t without_suffix(const char *name)
{
    static const char *const suffixes[] = {"_64_", "64_", "_64", "_"};
    size_t length = strlen(name);
    for (size_t i = 0; i < 4; i++) {
        size_t n = strlen(suffixes[i]);
        if (length > n && strcmp(name + length - n, suffixes[i]) == 0)
            return length - n;
    }
    return length;
}

/* "DGEMM ", "SBGEMM ", "DGEMMT": padded to six characters, a GEMM by one at least. */
static size_t report_name(const struct tb_call *call, char out[TB_XERBLA_MAX])
{
    const char *name = without_prefix(call->name);
    size_t length = without_suffix(name), most = TB_XERBLA_MAX - 2;
    length = length < most ? length : most;
    for (size_t i = 0; i < length; i++)
        out[i] = (char)toupper((unsigned char)name[i]);
    if (call->op == TB_GEMM || call->op == TB_GEMM3M)
        out[length++] = ' ';
    while (length < TB_XERBLA_NAME)
        out[length++] = ' ';
    out[length] = '\0';
    return length;
}

typedef void tb_xerbla_f(const char *name, const int64_t *info, size_t length);

void fallback_xerbla(const struct tb_call *call, int info)
{
    char name[TB_XERBLA_MAX];
    size_t length = report_name(call, name);
    int64_t wide = info; /* read in the width of the callee */
    tb_xerbla_f *xerbla = (tb_xerbla_f *)dlsym(RTLD_DEFAULT, "xerbla_");
    if (!xerbla || object_is_ours((const void *)(uintptr_t)xerbla))
        xerbla = (tb_xerbla_f *)fallback_find("xerbla_", NULL, false).fn;
    if (xerbla)
        xerbla(name, &wide, length);
}
