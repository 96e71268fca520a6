/* SPDX-License-Identifier: BSD-3-Clause
 * The report of `tileblas info PROG`. An object's dependencies are opened breadth first, which is
 * the order in which the dynamic linker searches them for a name; so the first that exports a name
 * is the one that serves it. What a program opens later (dlopen) is out of sight, and the report
 * says so. */
#include "scan.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "doors.h"
#include "libpath.h"

#define MARKER "tileblas_marker" /* what tells our libraries from all others */

enum { OBJECTS_MAX = 1024, NAMES_SHOWN = 8 };

struct use {
    const char *name;
    unsigned use; /* enum binary_use */
    bool bare;
};

struct object {
    const char *asked; /* the name it was asked for by */
    char *path;        /* owned; NULL: not found */
    struct binary file;
    struct libpath_loader loader;
    int parent; /* -1: the root */
    struct use *uses;
    size_t use_count;
    bool loads_more, closed_lapack, ours;
};

struct scan {
    struct object *objects;
    int count;
    bool program; /* the root is a program, not a library */
};

/* How the calls of one object end. */
struct tally {
    int caught, own, symbolic, private, bare;
    const char *names[NAMES_SHOWN];
    int shown;
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static bool is_program(const struct binary *file)
{
    return file->kind == BINARY_OBJECT &&
           (file->interp != NULL || file->pie || !file->library_type) && file->soname == NULL;
}

const char *scan_no_preload(const char *path, const struct binary *file)
{
    struct stat status;
    if (file->kind == BINARY_FOREIGN)
        return "it is not an x86-64 program";
    if (file->kind == BINARY_OBJECT && file->interp == NULL && is_program(file))
        return "it is statically linked: no dynamic linker runs";
    if (stat(path, &status) != 0 || file->kind == BINARY_SCRIPT)
        return NULL; /* Linux ignores the set-uid bit of scripts */
    if ((status.st_mode & S_ISUID) != 0 && status.st_uid != getuid())
        return "it is set-uid: the dynamic linker ignores preloaded paths";
    if ((status.st_mode & S_ISGID) != 0 && (status.st_mode & S_IXGRP) != 0 &&
        status.st_gid != getgid())
        return "it is set-gid: the dynamic linker ignores preloaded paths";
    if (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
        return "it has file capabilities: the dynamic linker ignores preloaded paths";
    return NULL;
}

char *scan_find_program(const char *name)
{
    const char *list = getenv("PATH");
    if (strchr(name, '/') != NULL)
        return strdup(name);
    if (list == NULL)
        list = "/bin:/usr/bin";
    while (name[0] != '\0') {
        struct stat status;
        char *path = NULL;
        size_t length = strcspn(list, ":");
        if (asprintf(&path, "%.*s%s%s", (int)length, list, length != 0 ? "/" : "./", name) < 0)
            return NULL;
        if (access(path, X_OK) == 0 && stat(path, &status) == 0 && S_ISREG(status.st_mode))
            return path;
        free(path);
        if (list[length] == '\0')
            break;
        list += length + 1;
    }
    return NULL;
}

/* Kind of BLAS by the name of a library, for people; NULL if it is none. */
static const char *blas_kind(const char *name)
{
    static const struct {
        const char *part, *kind;
    } known[] = {
        {"libtileblas", "libtileblas"}, {"openblas", "OpenBLAS"},
        {"libmkl", "oneMKL"},           {"libblis", "BLIS"},
        {"libflexiblas", "FlexiBLAS"},  {"libatlas", "ATLAS"},
        {"libsatlas", "ATLAS"},         {"libtatlas", "ATLAS"},
        {"libgslcblas", "GSL CBLAS"},   {"libnvblas", "NVBLAS"},
        {"libblas64", "64-bit BLAS"},   {"libblas", "BLAS"},
        {"libcblas", "CBLAS"},          {"liblapack", "LAPACK"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(base_name(name), known[i].part) != NULL)
            return known[i].kind;
    return NULL;
}

static void collect(void *context, const char *name, unsigned use)
{
    struct object *object = context;
    struct door door;
    if ((use & BINARY_IMPORTED) != 0 &&
        (strcmp(name, "dlopen") == 0 || strcmp(name, "dlmopen") == 0))
        object->loads_more = true;
    if ((use & BINARY_IMPORTED) != 0 && door_is_closed_lapack(name))
        object->closed_lapack = true;
    if ((use & BINARY_EXPORTED) != 0 && strcmp(name, MARKER) == 0)
        object->ours = true;
    if (!door_parse(name, &door))
        return;
    for (size_t i = 0; i < object->use_count; i++)
        if (strcmp(object->uses[i].name, name) == 0) {
            object->uses[i].use |= use;
            return;
        }
    struct use *more = realloc(object->uses, (object->use_count + 1) * sizeof *more);
    if (more == NULL)
        return;
    object->uses = more;
    object->uses[object->use_count++] = (struct use){.name = name, .use = use, .bare = door.bare};
}

static bool exports_use(const struct object *object, const char *name)
{
    for (size_t i = 0; i < object->use_count; i++)
        if ((object->uses[i].use & BINARY_EXPORTED) != 0 && strcmp(object->uses[i].name, name) == 0)
            return true;
    return false;
}

/* The object that serves `name` without us: the first in search order that exports it. */
static const struct object *server(const struct scan *scan, const char *name)
{
    for (int i = 0; i < scan->count; i++)
        if (exports_use(&scan->objects[i], name))
            return &scan->objects[i];
    return NULL;
}

static bool already_open(const struct scan *scan, const char *name)
{
    for (int i = 1; i < scan->count; i++) {
        const struct object *object = &scan->objects[i];
        if (strcmp(object->asked, name) == 0 ||
            (object->file.soname != NULL && strcmp(object->file.soname, name) == 0))
            return true;
    }
    return false;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct use *)a)->name, ((const struct use *)b)->name);
}

/* Reads the symbols of an object into its sorted list of uses. */
static void uses_take(struct object *object)
{
    binary_symbols(&object->file, collect, object);
    if (object->use_count != 0)
        qsort(object->uses, object->use_count, sizeof *object->uses, by_name);
}

static void object_add(struct scan *scan, const char *asked, int parent, char *path,
                       const struct binary *file)
{
    struct object *object = &scan->objects[scan->count];
    *object = (struct object){.asked = asked, .path = path, .file = *file, .parent = parent};
    object->loader = (struct libpath_loader){
        .path = path != NULL ? path : asked,
        .file = &object->file,
        .loader = parent >= 0 ? &scan->objects[parent].loader : NULL,
    };
    scan->count++;
    uses_take(object);
}

/* Opens the root (taking over `path` and `file`) and everything it needs. */
static bool scan_open(struct scan *scan, char *path, const struct binary *file)
{
    *scan = (struct scan){.objects = calloc(OBJECTS_MAX, sizeof *scan->objects)};
    if (scan->objects == NULL)
        return false;
    scan->program = is_program(file);
    object_add(scan, path, -1, path, file);
    for (int i = 0; i < scan->count; i++) {
        const struct object *by = &scan->objects[i];
        for (size_t n = 0; n < by->file.needed_count; n++) {
            struct binary found;
            if (scan->count == OBJECTS_MAX || already_open(scan, by->file.needed[n]))
                continue;
            char *at = libpath_open(by->file.needed[n], &by->loader, &found);
            object_add(scan, by->file.needed[n], i, at, &found);
        }
    }
    return true;
}

static void scan_close(struct scan *scan)
{
    for (int i = scan->count - 1; i >= 0; i--) {
        free(scan->objects[i].uses);
        free(scan->objects[i].path);
        binary_close(&scan->objects[i].file);
    }
    free(scan->objects);
}

static struct tally tally_take(const struct scan *scan, const struct object *object)
{
    struct tally tally = {0};
    const struct object *root = &scan->objects[0];
    for (size_t i = 0; i < object->use_count; i++) {
        const struct use *use = &object->uses[i];
        bool inside = (use->use & BINARY_EXPORTED) != 0;
        if ((use->use & (BINARY_IMPORTED | BINARY_EXPORTED)) == 0)
            tally.private ++;
        else if (scan->program && exports_use(root, use->name))
            tally.own++;
        else if (inside && object->file.symbolic)
            tally.symbolic++;
        else if (inside && (use->use & BINARY_BY_NAME) == 0)
            continue; /* only offered to others */
        else if (use->bare)
            tally.bare++;
        else
            tally.caught++;
        if (tally.shown < NAMES_SHOWN)
            tally.names[tally.shown++] = use->name;
    }
    return tally;
}

static int tally_sum(const struct tally *tally)
{
    return tally->caught + tally->own + tally->symbolic + tally->private + tally->bare;
}

static void print_names(const struct tally *tally)
{
    for (int i = 0; i < tally->shown; i++)
        printf("%s%s", i != 0 ? " " : "", tally->names[i]);
    if (tally_sum(tally) > tally->shown)
        printf(" and %d more", tally_sum(tally) - tally->shown);
}

/* One word list: what becomes of the calls. */
static void print_fate(const struct tally *tally)
{
    const char *comma = "";
    const struct {
        int count;
        const char *text;
    } fates[] = {
        {tally->caught, "reach a preloaded library"},
        {tally->own, "defined in the program itself, not caught"},
        {tally->symbolic, "bound inside the library (-Bsymbolic), not caught"},
        {tally->private, "private copy inside (a static BLAS), not caught"},
        {tally->bare, "without underscore, caught only above oneMKL"},
    };
    for (size_t i = 0; i < sizeof fates / sizeof *fates; i++)
        if (fates[i].count != 0) {
            printf("%s%d %s", comma, fates[i].count, fates[i].text);
            comma = "; ";
        }
}

static int depth_of(const struct scan *scan, const struct object *object)
{
    int depth = 0;
    for (int at = object->parent; at >= 0; at = scan->objects[at].parent)
        depth++;
    return depth;
}

/* The dependencies as a tree; an object stands below the first that asked for it. */
static void print_tree(const struct scan *scan, int parent)
{
    for (int i = 1; i < scan->count; i++) {
        const struct object *object = &scan->objects[i];
        if (object->parent != parent)
            continue;
        const char *kind = blas_kind(object->asked);
        printf("%*s%s => %s%s%s%s\n", 2 * depth_of(scan, object), "", object->asked,
               object->path != NULL ? object->path : "not found", kind != NULL ? "  [" : "",
               kind != NULL ? kind : "", kind != NULL ? "]" : "");
        print_tree(scan, i);
    }
}

static void print_calls(const struct scan *scan, struct tally *total)
{
    bool any = false;
    for (int i = 0; i < scan->count; i++) {
        const struct object *object = &scan->objects[i];
        struct tally tally = tally_take(scan, object);
        if (object->ours || tally_sum(&tally) == 0)
            continue;
        if (!any)
            printf("calls of level-3 BLAS:\n");
        any = true;
        printf("  %s: ", base_name(object->path != NULL ? object->path : object->asked));
        print_names(&tally);
        const struct object *by = server(scan, tally.names[0]);
        if (by != NULL && by != object)
            printf(" (%s served by %s)", tally.names[0], base_name(by->asked));
        printf("\n    ");
        print_fate(&tally);
        printf("\n");
        total->caught += tally.caught;
        total->own += tally.own;
        total->symbolic += tally.symbolic;
        total->private += tally.private;
        total->bare += tally.bare;
    }
    if (!any)
        printf("calls of level-3 BLAS: none by name\n");
}

/* Linked with us: do we come first? Returns the object that comes before us, or NULL. */
static const struct object *before_us(const struct scan *scan, bool *linked)
{
    *linked = false;
    const struct object *ours = NULL, *other = NULL;
    for (int i = 1; i < scan->count && ours == NULL; i++) {
        if (scan->objects[i].ours)
            ours = &scan->objects[i];
        else if (other == NULL && (exports_use(&scan->objects[i], "dgemm_") ||
                                   exports_use(&scan->objects[i], "cblas_dgemm")))
            other = &scan->objects[i];
    }
    *linked = ours != NULL;
    return ours != NULL ? other : NULL;
}

static void print_verdict(const struct scan *scan, const struct tally *total)
{
    const struct object *root = &scan->objects[0];
    const char *refused = scan_no_preload(root->path, &root->file);
    const char *what = scan->program ? "program" : "library";
    bool linked;
    const struct object *before = before_us(scan, &linked);
    if (root->ours)
        printf("verdict: this is libtileblas itself\n");
    else if (linked && before == NULL && total->own == 0)
        printf("verdict: caught: linked with libtileblas, no preload needed\n");
    else if (refused != NULL)
        printf("verdict: not caught: %s\n", refused);
    else if (linked && before != NULL)
        printf("verdict: not caught by the link: %s comes before libtileblas (wrong order: give "
               "-ltileblas in place of the other BLAS); caught under `tileblas run`\n",
               before->asked);
    else if (total->caught != 0)
        printf("verdict: caught %s `tileblas run` (LD_PRELOAD)%s\n",
               scan->program ? "under" : "in a program under",
               total->own + total->symbolic + total->private != 0 ? ", but not all: see above"
                                                                  : "");
    else if (total->own + total->symbolic + total->private != 0)
        printf("verdict: not caught: the %s brings its own BLAS\n", what);
    else if (total->bare != 0)
        printf("verdict: caught under `tileblas run` only where oneMKL serves these names\n");
    else
        printf("verdict: nothing to catch in this %s itself\n", what);
}

static void print_notes(const struct scan *scan)
{
    bool loads = false, closed = false, openblas = false, missing = false;
    for (int i = 0; i < scan->count; i++) {
        const struct object *object = &scan->objects[i];
        const char *kind = blas_kind(object->asked);
        bool blas = kind != NULL;
        loads = loads || (object->loads_more && !blas && strncmp(object->asked, "libc.", 5) != 0);
        closed = closed || (object->closed_lapack && !blas);
        openblas = openblas || (blas && strcmp(kind, "OpenBLAS") == 0);
        missing = missing || object->path == NULL;
    }
    if (missing)
        printf(
            "note: a library was not found; the search here leaves out paths that only the running "
            "program knows\n");
    if (loads)
        printf(
            "note: it can open more libraries while it runs; name such a library or its folder to "
            "see its calls. They are caught too, unless opened with RTLD_DEEPBIND or looked up "
            "in a handle (dlsym), which cannot be seen from here\n");
    if (closed && openblas)
        printf(
            "note: LU and Cholesky (getrf, gesv, potrf and relatives) are computed inside OpenBLAS "
            "without a BLAS call that can be caught\n");
}

static int report_object(char *path, const struct binary *file)
{
    struct scan scan;
    struct tally total = {0};
    if (!scan_open(&scan, path, file)) {
        fprintf(stderr, "tileblas: out of memory\n");
        return 1;
    }
    const struct object *root = &scan.objects[0];
    printf("%s: %s, %s\n", root->path, scan.program ? "program" : "shared library",
           root->file.dynamic && (root->file.interp != NULL || !scan.program) ? "dynamic"
                                                                              : "static");
    if (scan.program && root->file.interp != NULL && strstr(root->file.interp, "ld-linux") == NULL)
        printf("note: its dynamic linker is %s, not glibc's\n", root->file.interp);
    if (scan.count > 1)
        printf("libraries:\n");
    print_tree(&scan, 0);
    print_calls(&scan, &total);
    print_verdict(&scan, &total);
    print_notes(&scan);
    scan_close(&scan);
    return 0;
}

/* The program a #! line runs; with env, the one env would find. To be freed. */
static char *script_program(const char *line)
{
    char word[256], next[256] = "";
    if (sscanf(line, "%255s %255s", word, next) < 1)
        return NULL;
    bool env = strcmp(base_name(word), "env") == 0 && next[0] != '\0' && next[0] != '-' &&
               strchr(next, '=') == NULL;
    return env ? scan_find_program(next) : strdup(word);
}

static int report_script(const char *path, const struct binary *script)
{
    struct binary file;
    char *program = script_program(script->script);
    printf("%s: script, run by %s\n", path, program != NULL ? program : script->script);
    if (program == NULL) {
        fprintf(stderr, "tileblas: %s: its interpreter was not found\n", path);
        return 1;
    }
    binary_open(&file, program);
    if (file.kind == BINARY_OBJECT)
        return report_object(program, &file);
    printf("verdict: unknown: the interpreter is not an x86-64 program%s\n",
           file.kind == BINARY_SCRIPT ? " but a script itself" : "");
    binary_close(&file);
    free(program);
    return 0;
}

/* nftw() hands no context on. */
static struct {
    int seen, calling;
    size_t skip;
} walk;

static int walk_file(const char *path, const struct stat *status, int type, struct FTW *position)
{
    struct object object = {.asked = path};
    (void)status;
    (void)position;
    if (type != FTW_F)
        return 0;
    binary_open(&object.file, path);
    if (object.file.kind == BINARY_OBJECT) {
        struct scan scan = {.objects = &object, .count = 1, .program = is_program(&object.file)};
        uses_take(&object);
        struct tally tally = tally_take(&scan, &object);
        walk.seen++;
        if (tally_sum(&tally) != 0) {
            walk.calling++;
            printf("  %s: ", path + walk.skip);
            print_names(&tally);
            printf("\n    ");
            print_fate(&tally);
            printf("\n");
        }
        free(object.uses);
    }
    binary_close(&object.file);
    return 0;
}

static int report_folder(const char *path)
{
    walk.seen = walk.calling = 0;
    walk.skip = strlen(path);
    while (walk.skip > 1 && path[walk.skip - 1] == '/')
        walk.skip--;
    walk.skip += path[walk.skip] == '/';
    walk.skip += path[walk.skip] == '\0' && path[walk.skip - (walk.skip != 0)] != '/';
    printf("%s: folder\n", path);
    if (nftw(path, walk_file, 32, FTW_PHYS) != 0) {
        fprintf(stderr, "tileblas: %s: %s\n", path, strerror(errno));
        return 1;
    }
    printf("%d programs and libraries, %d of them with level-3 BLAS calls; name one for details\n",
           walk.seen, walk.calling);
    return 0;
}

int scan_report(const char *argument)
{
    struct stat status;
    struct binary file;
    char *path = scan_find_program(argument);
    if (path == NULL)
        path = strdup(argument);
    if (path == NULL || stat(path, &status) != 0) {
        fprintf(stderr, "tileblas: %s: %s\n", argument, strerror(errno));
        free(path);
        return 1;
    }
    if (S_ISDIR(status.st_mode)) {
        int result = report_folder(path);
        free(path);
        return result;
    }
    binary_open(&file, path);
    if (file.kind == BINARY_OBJECT)
        return report_object(path, &file);
    int result = 1;
    if (file.kind == BINARY_SCRIPT)
        result = report_script(path, &file);
    else if (file.kind == BINARY_UNREADABLE)
        fprintf(stderr, "tileblas: %s: cannot be read\n", argument);
    else
        fprintf(stderr, "tileblas: %s: %s\n", argument,
                file.kind == BINARY_FOREIGN  ? "not an x86-64 program"
                : file.kind == BINARY_BROKEN ? "damaged ELF file"
                                             : "neither program, library, script nor folder");
    binary_close(&file);
    free(path);
    return result;
}
