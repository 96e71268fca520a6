/* SPDX-License-Identifier: BSD-3-Clause
 * Finds report-run.py, beside this command in the build tree or in the library's own folder, and
 * starts it. What a page says is decided there. */
#include "report.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "library.h"

#define SCRIPT "report-run.py"

enum { REPORT_FAILED = 1 };

/* `path` with its last component replaced by `name`; NULL where that is no readable file. */
static char *beside(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    char *found = NULL;
    if (slash == NULL || asprintf(&found, "%.*s/%s", (int)(slash - path), path, name) < 0)
        return NULL;
    if (access(found, R_OK) == 0)
        return found;
    free(found);
    return NULL;
}

static char *find_script(void)
{
    char self[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    char *found = NULL;
    if (length > 0) {
        self[length] = '\0';
        found = beside(self, SCRIPT);
    }
    char *library = found == NULL ? library_preload() : NULL;
    if (library != NULL)
        found = beside(library, "libtileblas/" SCRIPT);
    free(library);
    return found;
}

int report_run(int count, char **words)
{
    char *script = find_script();
    if (script == NULL) {
        fputs("tileblas: " SCRIPT " was not found; is libtileblas installed?\n", stderr);
        return REPORT_FAILED;
    }
    char **args = calloc((size_t)count + 3, sizeof *args);
    if (args != NULL) {
        args[0] = "python3";
        args[1] = script;
        memcpy(args + 2, words, (size_t)count * sizeof *args);
        execvp(args[0], args);
    }
    fprintf(stderr, "tileblas: report needs python3: %s\n", strerror(errno));
    free(args);
    free(script);
    return REPORT_FAILED;
}
