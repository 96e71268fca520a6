/* SPDX-License-Identifier: BSD-3-Clause
 * The reader of ELF files and the list of names behind `tileblas info`: the names are those of the
 * shim, neither more nor fewer, and no damaged file brings the reader down. */
#include <criterion/criterion.h>
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "../../tools/binary.h"
#include "../../tools/doors.h"

static const struct {
    const char *name;
    unsigned bytes;
    const char *style;
} shim_doors[] = {
#define DOOR(SHAPE, OP, NAME, TYPES, SPELLED, I, STYLE) {#SPELLED, (unsigned)sizeof(I), #STYLE},
#include "../../shim/doors.def"
#undef DOOR
};

Test(tools, every_door_is_known_with_its_width)
{
    for (size_t i = 0; i < sizeof shim_doors / sizeof *shim_doors; i++) {
        struct door door = {0};
        const char *name = shim_doors[i].name;
        cr_assert(door_parse(name, &door), "%s", name);
        cr_assert_eq(door.wide, shim_doors[i].bytes == 8, "%s", name);
        const bool bare =
            strcmp(shim_doors[i].style, "FORTRAN") == 0 && name[strlen(name) - 1] != '_';
        cr_assert_eq(door.bare, bare, "%s", name);
    }
}

/* Every string of prefix, letters and suffix in use that is accepted must be a door. */
Test(tools, no_other_name_is_taken_for_a_door)
{
    static const char *const prefixes[] = {"", "cblas_", "scipy_", "scipy_cblas_", "lapacke_"};
    static const char *const suffixes[] = {"", "_", "64", "64_", "_64", "_64_", "__", "_65_"};
    static const char *const types[] = {"", "s", "d", "c", "z", "h", "b", "sb", "sh", "q"};
    static const char *const routines[] = {"gemm",
                                           "symm",
                                           "hemm",
                                           "syrk",
                                           "herk",
                                           "syr2k",
                                           "her2k",
                                           "trmm",
                                           "trsm",
                                           "gemm3m",
                                           "gemmt",
                                           "gemmtr",
                                           "gemv",
                                           "gemm_batch",
                                           "gemm_batch_strided",
                                           "gemm_f16f16f32",
                                           "gemm_bf16bf16f32",
                                           "potrf"};
    size_t accepted = 0;
    for (size_t p = 0; p < sizeof prefixes / sizeof *prefixes; p++)
        for (size_t s = 0; s < sizeof suffixes / sizeof *suffixes; s++)
            for (size_t t = 0; t < sizeof types / sizeof *types; t++)
                for (size_t r = 0; r < sizeof routines / sizeof *routines; r++) {
                    char name[64];
                    snprintf(name, sizeof name, "%s%s%s%s", prefixes[p], types[t], routines[r],
                             suffixes[s]);
                    accepted += door_parse(name, NULL);
                }
    cr_assert_eq(accepted, sizeof shim_doors / sizeof *shim_doors, "%zu accepted", accepted);
    cr_assert_not(door_parse("", NULL));
    cr_assert_not(door_parse("_", NULL));
    cr_assert_not(door_parse("scipy_cblas_64_", NULL));
}

Test(tools, factorizations_inside_openblas)
{
    cr_assert(door_is_closed_lapack("dgetrf_"));
    cr_assert(door_is_closed_lapack("zpotrf_"));
    cr_assert_not(door_is_closed_lapack("dgeev_"));
    cr_assert_not(door_is_closed_lapack("getrf_"));
    cr_assert_not(door_is_closed_lapack(""));
}

static void count_symbols(void *context, const char *name, unsigned use)
{
    size_t *count = context;
    cr_assert(use != 0 && name[0] != '\0');
    *count += strlen(name);
}

static void read_all(const char *path, enum binary_kind *kind, size_t *count)
{
    struct binary file;
    *count = 0;
    binary_open(&file, path);
    *kind = file.kind;
    for (size_t i = 0; i < file.needed_count; i++)
        *count += strlen(file.needed[i]);
    binary_symbols(&file, count_symbols, count);
    binary_exports(&file, "dgemm_");
    binary_close(&file);
}

static int copy_of_self(char path[64], size_t *size)
{
    char block[65536];
    ssize_t got;
    const int from = open("/proc/self/exe", O_RDONLY);
    const int to = memfd_create("elf", 0);
    cr_assert(from >= 0 && to >= 0);
    *size = 0;
    while ((got = read(from, block, sizeof block)) > 0) {
        cr_assert_eq(write(to, block, (size_t)got), got);
        *size += (size_t)got;
    }
    close(from);
    snprintf(path, 64, "/proc/self/fd/%d", to);
    return to;
}

Test(tools, reads_a_sound_file)
{
    struct binary file;
    binary_open(&file, "/proc/self/exe");
    cr_assert_eq(file.kind, BINARY_OBJECT);
    cr_assert(file.dynamic && file.interp != NULL && file.needed_count > 0);
    binary_close(&file);
    enum binary_kind kind;
    size_t count;
    read_all("/proc/self/exe", &kind, &count);
    cr_assert_gt(count, 100);
    read_all("/nonexistent", &kind, &count);
    cr_assert_eq(kind, BINARY_UNREADABLE);
    read_all("/", &kind, &count);
    cr_assert_eq(kind, BINARY_OTHER);
    read_all("/dev/null", &kind, &count);
    cr_assert_eq(kind, BINARY_OTHER);
}

Test(tools, survives_truncation, .timeout = 120)
{
    char path[64];
    size_t size, count;
    enum binary_kind kind;
    const int fd = copy_of_self(path, &size);
    for (size_t length = size; length > 0; length -= length > 2048 ? 701 : 1) {
        cr_assert_eq(ftruncate(fd, (off_t)length), 0);
        read_all(path, &kind, &count);
    }
    close(fd);
}

/* Overwrites single fields of the header, the segment and section tables, the dynamic section and
 * what lies around them by values that are likely to lead out of the file. */
Test(tools, survives_damage, .timeout = 120)
{
    static const uint64_t values[] = {0,          1,          0xff,       0xffff,
                                      0x7fffffff, 0xffffffff, UINT64_MAX, UINT64_MAX - 7};
    char path[64];
    size_t size, count;
    enum binary_kind kind;
    const int fd = copy_of_self(path, &size);
    Elf64_Ehdr head;
    cr_assert_eq(pread(fd, &head, sizeof head, 0), (ssize_t)sizeof head);
    srand(1);
    for (int round = 0; round < 6000; round++) {
        const size_t bytes = (size_t)1 << (rand() % 4);
        size_t at = round % 3 == 0   ? (size_t)rand() % 1024
                    : round % 3 == 1 ? head.e_shoff + (size_t)rand() % (head.e_shnum * 64u)
                                     : (size_t)rand() % size;
        if (at + bytes > size)
            at = size - bytes;
        unsigned char before[8];
        const uint64_t value = values[rand() % 8];
        cr_assert_eq(pread(fd, before, bytes, (off_t)at), (ssize_t)bytes);
        cr_assert_eq(pwrite(fd, &value, bytes, (off_t)at), (ssize_t)bytes);
        read_all(path, &kind, &count);
        cr_assert_eq(pwrite(fd, before, bytes, (off_t)at), (ssize_t)bytes);
    }
    read_all(path, &kind, &count);
    cr_assert_eq(kind, BINARY_OBJECT);
    close(fd);
}
