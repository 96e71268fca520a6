/* SPDX-License-Identifier: BSD-3-Clause
 * Finds libtileblas-preload.so for `tileblas run` and `tileblas info`: in the build tree the
 * command runs from, else at the place it was configured for, seen from where the command lies now
 * (an installation may be moved or staged), else at that place itself. */
#include "library.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libtileblas-preload.so"

static char *readable(char *path)
{
    if (path != NULL && access(path, R_OK) == 0)
        return path;
    free(path);
    return NULL;
}

static char *format_path(const char *folder, const char *below)
{
    char *path = NULL;
    if (asprintf(&path, "%s%s%s/" LIBRARY, folder, below[0] != '\0' ? "/" : "", below) < 0)
        return NULL;
    char *real = realpath(path, NULL); /* no .. in what the user sees, and none to be moved later */
    free(path);
    return readable(real);
}

/* TB_LIBDIR seen from TB_BINDIR, such as ../lib/x86_64-linux-gnu. */
static void relative_libdir(char *out, size_t size)
{
    const char *bin = TB_BINDIR, *lib = TB_LIBDIR;
    size_t common = 0, used = 0;
    for (size_t i = 0; bin[i] != '\0' && bin[i] == lib[i]; i++)
        if (bin[i] == '/')
            common = i;
    for (const char *at = bin + common; (at = strchr(at, '/')) != NULL && at[1] != '\0'; at++)
        used += (size_t)snprintf(out + used, size - used, "../");
    snprintf(out + used, size - used, "%s", lib + common + 1);
}

char *library_preload(void)
{
    static const char *const built[] = {".", ".libs", "../.libs", "../shim/.libs"};
    char self[PATH_MAX], below[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    char *found = NULL;
    if (length > 0) {
        self[length] = '\0';
        char *slash = strrchr(self, '/');
        if (slash != NULL)
            *slash = '\0';
        for (size_t i = 0; found == NULL && i < sizeof built / sizeof *built; i++)
            found = format_path(self, built[i]);
        if (found == NULL && sizeof TB_BINDIR * 2 + sizeof TB_LIBDIR < sizeof below) {
            relative_libdir(below, sizeof below);
            found = format_path(self, below);
        }
    }
    return found != NULL ? found : format_path(TB_LIBDIR, "");
}
