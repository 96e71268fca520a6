/* SPDX-License-Identifier: BSD-3-Clause
 * Finds the profile of this process. A saved one is read as a stranger's file: a plain file of
 * bounded length, opened without waiting, parsed by profile.c, ignored where it is of another
 * machine. What can be seen in a few milliseconds of the device's start, the link, is measured
 * where nothing was saved. */
#include "calibrate.h"

#include <cpuid.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "conf.h"
#include "log.h"

#define CALIBRATE_SYSTEM "/var/lib/tileblas"

enum { PATH_ROOM = 4096, SMALL = 64 << 10, LARGE = 4 << 20, ROUNDS = 3 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct tb_profile before, settled; /* written before the pointer that shows them */
static struct tb_tuned choices;           /* with `settled` */
static bool chosen;                       /* they hold */
static _Atomic(const struct tb_profile *) current;
static atomic_int cpus_known; /* 0: the CPU side is not known yet */

/* --- What is in force ---
 */

/* By hand: the compiler's own question brings a constructor into the library. */
static bool has_avx512(void)
{
    unsigned a, b = 0, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1u << 16) != 0;
}

void calibrate_builtin(const struct tb_caps *caps, int cpus, struct tb_profile *out)
{
    profile_builtin(caps, cpus, out);
    if (!has_avx512())
        profile_scale_cpu(out, 0.5);
}

/* For the function that runs once, of the thread that runs it. */
static __thread void (*ask_blas)(char *, size_t) __attribute__((tls_model("initial-exec")));
static __thread int (*ask_cpus)(void) __attribute__((tls_model("initial-exec")));

/* "Intel(R) Xeon(R) Processor" and the like; "" where the processor does not say. */
static void processor(char out[49])
{
    unsigned part[12] = {0};
    for (unsigned i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002 + i, &part[4 * i], &part[4 * i + 1], &part[4 * i + 2],
                         &part[4 * i + 3]))
            memset(part, 0, sizeof part);
    memcpy(out, part, 48);
    out[48] = '\0';
}

static void learn_cpu(void)
{
    char library[128] = "", chip[49], raw[256];
    calibrate_builtin(NULL, ask_cpus != NULL ? ask_cpus() : 1, &before);
    if (ask_blas != NULL)
        ask_blas(library, sizeof library);
    processor(chip);
    snprintf(raw, sizeof raw, "%s on %s", library, chip);
    profile_name(raw, before.cpu_blas);
    log_line(3, "CPU side of the machine profile: %s, %d CPUs", before.cpu_blas, before.cpus);
    atomic_store(&current, &before);
    if (ask_cpus != NULL)
        atomic_store(&cpus_known, before.cpus);
}

void calibrate_cpu(void (*name_blas)(char *out, size_t room), int (*count_cpus)(void))
{
    if (atomic_load_explicit(&current, memory_order_acquire) != NULL)
        return;
    ask_blas = name_blas;
    ask_cpus = count_cpus;
    /* It reads files: a thread that were cancelled there would keep the program's own locks. */
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_once(&once, learn_cpu);
    pthread_setcancelstate(cancel, &cancel);
}

int calibrate_cpus(void)
{
    return atomic_load_explicit(&cpus_known, memory_order_acquire);
}

const struct tb_profile *calibrate_get(void)
{
    calibrate_cpu(NULL, NULL);
    return atomic_load_explicit(&current, memory_order_acquire);
}

const struct tb_tuned *calibrate_tuned(void)
{
    return chosen ? &choices : NULL;
}

/* --- Files ---
 */

/* "NVIDIA H200" and so on, as a part of a file name. */
static void plain(const char *text, char *out, size_t room)
{
    size_t used = 0;
    for (; *text != '\0' && used + 1 < room; text++) {
        const char c = *text;
        const bool keep =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.';
        if (keep || (used > 0 && out[used - 1] != '-'))
            out[used++] = keep ? c : '-';
    }
    while (used > 0 && out[used - 1] == '-')
        used--;
    out[used] = '\0';
}

/* The folder of the user's profiles: the cache folder as the XDG specification has it. */
static bool user_folder(char *out, size_t room)
{
    const char *const cache = secure_getenv("XDG_CACHE_HOME"), *const home = secure_getenv("HOME");
    int length = -1;
    if (cache != NULL && cache[0] == '/')
        length = snprintf(out, room, "%s/tileblas", cache);
    else if (home != NULL && home[0] == '/')
        length = snprintf(out, room, "%s/.cache/tileblas", home);
    return length > 0 && (size_t)length < room;
}

bool calibrate_path(int number, const char *gpu, const char *cpu_blas, int cpus, char *out,
                    size_t room)
{
    char folder[PATH_ROOM] = CALIBRATE_SYSTEM, device[64], library[64];
    const char *const asked = conf_get()->profile;
    int length;
    if (asked[0] != '\0') {
        length = number == 0 ? snprintf(out, room, "%s", asked) : -1;
        return length > 0 && (size_t)length < room;
    }
    if (number > 1 || (number == 0 && !user_folder(folder, sizeof folder)))
        return false;
    plain(gpu[0] != '\0' ? gpu : "no GPU", device, sizeof device);
    plain(cpu_blas, library, sizeof library);
    length = snprintf(out, room, "%s/%s_%s_%d.profile", folder, device, library, cpus);
    return length > 0 && (size_t)length < room;
}

/* The bytes of a plain file, at most `room` of them; -1: not there, or not to be had. */
static ssize_t read_file(const char *path, char *out, size_t room)
{
    struct stat facts;
    size_t used = 0;
    /* A FIFO, a terminal, a folder: opened without waiting, then seen to be none. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -1;
    if (fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode))
        for (ssize_t got = 1; got > 0 && used < room;) {
            got = read(fd, out + used, room - used);
            used += got > 0 ? (size_t)got : 0;
        }
    else
        used = 0;
    close(fd);
    return (ssize_t)used;
}

enum { FILE_MAX = TB_PROFILE_BYTES_MAX + TB_TUNED_BYTES_MAX };

/* One file into *out. The bytes of its text; 0: not there, not for this machine, or not a profile.
 */
static size_t load(const char *path, const struct tb_profile *machine, char *text, size_t room,
                   struct tb_profile *out)
{
    const char *why;
    struct tb_profile found;
    const ssize_t length = read_file(path, text, room);
    if (length < 0)
        return 0;
    if (!profile_parse(text, (size_t)length, &found, &why)) {
        log_line(0, "%s is not used as machine profile: %s", path, why);
        return 0;
    }
    if (!profile_fits(&found, machine->gpu, machine->cpu_blas, machine->cpus)) {
        log_line(3, "%s is not used: it is the profile of another machine (%s, %s, %d CPUs)", path,
                 found.gpu, found.cpu_blas, found.cpus);
        return 0;
    }
    log_line(3, "machine profile: %s", path);
    *out = found;
    return (size_t)length;
}

size_t calibrate_saved(const struct tb_profile *machine, char *text, size_t room,
                       struct tb_profile *out)
{
    char path[PATH_ROOM + 256];
    size_t length = 0;
    for (int i = 0; i < 2 && length == 0; i++)
        if (calibrate_path(i, machine->gpu, machine->cpu_blas, machine->cpus, path, sizeof path))
            length = load(path, machine, text, room, out);
    return length;
}

/* What was measured of kernels; whatever is wrong with it costs a line, and the rest holds. */
static void load_choices(const char *text, size_t length, const struct tb_caps *caps)
{
    const char *const section = profile_kernels(text, length);
    int bad = 0;
    if (section == NULL)
        return;
    switch (tuned_parse(section, length - (size_t)(section - text), caps, &choices, &bad)) {
    case TB_TUNED_FITS:
        chosen = true;
        log_line(3, "machine profile: %d measured choices of kernels", tuned_count(&choices, -1));
        if (bad > 0)
            log_line(0,
                     "%d choices of kernels in the machine profile are not understood and left out",
                     bad);
        break;
    case TB_TUNED_FOREIGN:
        log_line(1,
                 "the choices of kernels in the machine profile are of another version or device "
                 "and left out; `tileblas tune --kernels` measures them");
        break;
    case TB_TUNED_SPOILED:
        log_line(0, "the choices of kernels in the machine profile are spoiled and left out");
        break;
    }
}

static bool load_any(const struct tb_profile *machine, const struct tb_caps *caps)
{
    char *const text = malloc(FILE_MAX + 1);
    const size_t length = text != NULL ? calibrate_saved(machine, text, FILE_MAX + 1, &settled) : 0;
    if (length > 0)
        load_choices(text, length, caps);
    free(text);
    return length > 0;
}

/* --- The link ---
 */

/* What a measurement holds. */
struct probe {
    const struct tb_dev_ops *dev;
    void *host;
    bool pinned;
    tb_dptr device;
    struct tb_lane *lane;
    struct tb_event *event;
};

static void probe_close(struct probe *probe)
{
    if (probe->event != NULL)
        probe->dev->event_close(probe->event);
    if (probe->lane != NULL)
        probe->dev->lane_close(probe->lane);
    if (probe->device != 0)
        probe->dev->free(probe->device);
    /* Memory that cannot be let go of stays ours. */
    if (probe->host != NULL && (!probe->pinned || probe->dev->unpin(probe->host) == TB_OK))
        munmap(probe->host, LARGE);
}

static bool probe_open(const struct tb_dev_ops *dev, struct probe *probe)
{
    *probe = (struct probe){.dev = dev};
    void *const host =
        mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (host == MAP_FAILED)
        return false;
    probe->host = host;
    memset(host, 0, LARGE);
    probe->pinned = dev->bind() == TB_OK && dev->pin(host, LARGE) == TB_OK;
    return probe->pinned && dev->alloc(LARGE, &probe->device) == TB_OK &&
           dev->lane_open(&probe->lane, false) == TB_OK && dev->event_open(&probe->event) == TB_OK;
}

/* The least time of a few transfers, in ns; negative: one of them failed. */
static double transfer_ns(const struct probe *probe, bool in, size_t bytes)
{
    const struct tb_copy shape = {bytes, 1, bytes, bytes};
    double least = -1;
    for (int i = 0; i <= ROUNDS; i++) { /* the first is for getting used to it */
        const uint64_t from = log_now_ns();
        enum tb_status status =
            in ? probe->dev->h2d(probe->lane, probe->device, probe->host, shape)
               : probe->dev->d2h(probe->lane, probe->host, probe->device, shape);
        if (status == TB_OK)
            status = probe->dev->record(probe->event, probe->lane);
        if (status != TB_OK || probe->dev->sync(probe->event) != TB_OK)
            return -1;
        const double ns = (double)(log_now_ns() - from);
        if (i > 0 && (least < 0 || ns < least))
            least = ns;
    }
    return least;
}

static bool link_measure(const struct probe *probe, bool in, struct tb_link *out)
{
    const double small = transfer_ns(probe, in, SMALL);
    const double large = small > 0 ? transfer_ns(probe, in, LARGE) : -1;
    if (large <= small)
        return false;
    const double rate = (LARGE - SMALL) / (large - small), wait = small - SMALL / rate;
    if (rate < 0.1 || rate > 5000 || wait > 1e7)
        return false; /* disturbed, or no link */
    *out = (struct tb_link){wait > 0 ? wait : 0, rate};
    return true;
}

bool calibrate_link(const struct tb_dev_ops *dev, struct tb_profile *profile)
{
    struct probe probe;
    struct tb_link in, out;
    const bool done = probe_open(dev, &probe) && link_measure(&probe, true, &in) &&
                      link_measure(&probe, false, &out);
    probe_close(&probe);
    if (!done)
        return false;
    profile->in = in;
    profile->out = out;
    profile->source = TB_PROFILE_MEASURED;
    return true;
}

void calibrate_device(const struct tb_dev_ops *dev, const struct tb_caps *caps)
{
    struct tb_profile machine;
    const int cpus = calibrate_cpus();
    if (atomic_load(&current) == &settled)
        return; /* another start, which only tests make */
    calibrate_builtin(caps, cpus, &machine);
    if (cpus > 0)
        memcpy(machine.cpu_blas, before.cpu_blas, sizeof machine.cpu_blas);
    if (cpus == 0 || !load_any(&machine, caps)) {
        settled = machine;
        if (!calibrate_link(dev, &settled))
            log_line(3, "the link could not be measured: built-in figures");
    }
    if (cpus > 0)
        atomic_store_explicit(&current, &settled, memory_order_release);
}
