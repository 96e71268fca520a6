/* SPDX-License-Identifier: BSD-3-Clause
 * The search order of ld.so(8), without glibc-hwcaps folders and without what only the running
 * process knows (paths set by the program, a dlopen'ed caller). `ldd` is no help here: it may run
 * the program. */
#include "libpath.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const standard[] = {"/lib/x86_64-linux-gnu",
                                       "/usr/lib/x86_64-linux-gnu",
                                       "/lib64",
                                       "/usr/lib64",
                                       "/lib",
                                       "/usr/lib"};

/* Takes the path if it is an x86-64 library; frees it if not. */
static char *accept(char *path, struct binary *file)
{
    if (path == NULL)
        return NULL;
    binary_open(file, path);
    if (file->kind == BINARY_OBJECT)
        return path;
    binary_close(file);
    free(path);
    return NULL;
}

static char *join(const char *folder, size_t length, const char *name)
{
    char *path = NULL;
    if (length == 0) /* an empty entry is the current folder */
        return strdup(name);
    return asprintf(&path, "%.*s/%s", (int)length, folder, name) >= 0 ? path : NULL;
}

/* Expands $ORIGIN, $LIB and $PLATFORM, with or without braces. The result is to be freed. */
static char *expand(const char *text, size_t length, const char *object)
{
    static const char *const names[] = {"ORIGIN", "LIB", "PLATFORM"};
    const char *slash = strrchr(object, '/');
    char *out = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&out, &size);
    if (stream == NULL)
        return NULL;
    for (size_t i = 0; i < length; i++) {
        size_t skip = 0, which = 0, brace = i + 1 < length && text[i + 1] == '{';
        for (size_t n = 0; text[i] == '$' && n < 3 && skip == 0; n++) {
            size_t word = strlen(names[n]);
            if (i + 1 + brace + word + brace <= length &&
                memcmp(text + i + 1 + brace, names[n], word) == 0 &&
                (!brace || text[i + 1 + brace + word] == '}')) {
                skip = word + 2 * brace;
                which = n;
            }
        }
        if (skip == 0)
            fputc(text[i], stream);
        else if (which == 0)
            fprintf(stream, "%.*s", slash != NULL ? (int)(slash - object) : 1,
                    slash != NULL ? object : ".");
        else if (which == 1)
            fputs(access("/lib/x86_64-linux-gnu", F_OK) == 0 ? "lib/x86_64-linux-gnu" : "lib64",
                  stream);
        else
            fputs("x86_64", stream);
        i += skip;
    }
    return fclose(stream) == 0 ? out : NULL;
}

/* Tries every folder of a list separated by colons (`also`: or by that). */
static char *in_list(const char *list, char also, const char *name, const char *object,
                     struct binary *file)
{
    while (list != NULL) {
        size_t length = 0;
        while (list[length] != '\0' && list[length] != ':' && list[length] != also)
            length++;
        char *folder = expand(list, length, object);
        char *found = folder != NULL ? accept(join(folder, strlen(folder), name), file) : NULL;
        free(folder);
        if (found != NULL)
            return found;
        list = list[length] != '\0' ? list + length + 1 : NULL;
    }
    return NULL;
}

/* The file of ldconfig, format "glibc-ld.so.cache1.1": a head, entries, then their strings. */
struct cache_head {
    char magic[20];
    uint32_t entries, strings;
    uint32_t unused[5];
};
struct cache_entry {
    int32_t flags;
    uint32_t key, value, os_version;
    uint64_t hwcap;
};
enum { CACHE_X86_64_LIBC6 = 0x0303 };

static const char *cache_text(const char *cache, size_t size, uint32_t offset)
{
    return offset < size && memchr(cache + offset, 0, size - offset) != NULL ? cache + offset
                                                                             : NULL;
}

static char *cache_lookup(const char *cache, size_t size, const char *name)
{
    struct cache_head head;
    if (size < sizeof head)
        return NULL;
    memcpy(&head, cache, sizeof head);
    if (memcmp(head.magic, "glibc-ld.so.cache1.1", sizeof head.magic) != 0 ||
        head.entries > (size - sizeof head) / sizeof(struct cache_entry))
        return NULL;
    for (size_t i = 0; i < head.entries; i++) {
        struct cache_entry entry;
        memcpy(&entry, cache + sizeof head + i * sizeof entry, sizeof entry);
        const char *key = cache_text(cache, size, entry.key);
        const char *value = cache_text(cache, size, entry.value);
        if (entry.flags == CACHE_X86_64_LIBC6 && entry.hwcap == 0 && key != NULL && value != NULL &&
            strcmp(key, name) == 0)
            return strdup(value);
    }
    return NULL;
}

static char *in_cache(const char *name, struct binary *file)
{
    struct stat status;
    char *found = NULL;
    int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &status) == 0 && status.st_size > 0) {
        size_t size = (size_t)status.st_size;
        void *at = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (at != MAP_FAILED) {
            found = cache_lookup(at, size, name);
            munmap(at, size);
        }
    }
    close(fd);
    return accept(found, file);
}

char *libpath_open(const char *name, const struct libpath_loader *by, struct binary *file)
{
    char *found = NULL;
    if (strchr(name, '/') != NULL)
        return accept(expand(name, strlen(name), by->path), file);
    if (by->file->runpath == NULL)
        for (const struct libpath_loader *at = by; found == NULL && at != NULL; at = at->loader)
            if (at->file->runpath == NULL)
                found = in_list(at->file->rpath, ':', name, at->path, file);
    if (found == NULL)
        found = in_list(getenv("LD_LIBRARY_PATH"), ';', name, by->path, file);
    if (found == NULL)
        found = in_list(by->file->runpath, ':', name, by->path, file);
    if (found == NULL)
        found = in_cache(name, file);
    for (size_t i = 0; found == NULL && i < sizeof standard / sizeof *standard; i++)
        found = accept(join(standard[i], strlen(standard[i]), name), file);
    return found;
}
