/* SPDX-License-Identifier: BSD-3-Clause
 * Products whose operands lie anywhere on a real GPU, with the library preloaded: host memory,
 * pinned, half pinned, managed, on the device, in a context of the program's own. Every kind of
 * place for each of A, B and C, four types, small and large, against long double; padding compared
 * bit by bit. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../abi/ref.h"
#include <dlfcn.h>

enum place { PLAIN, PINNED, HALF, MANAGED, DEVICE, OWN, PLACES };
static const char *const place_names[] = {"plain",   "pinned", "half pinned",
                                          "managed", "device", "own context"};

static struct {
    int (*init)(unsigned), (*retain)(void **, int), (*push)(void *), (*pop)(void **),
        (*current)(void *);
    int (*create)(void **, void *, unsigned, int), (*sync)(void);
    int (*alloc)(uint64_t *, size_t), (*managed)(uint64_t *, size_t, unsigned), (*free)(uint64_t);
    int (*pinned)(void **, size_t), (*unpinned)(void *), (*pin)(void *, size_t, unsigned),
        (*unpin)(void *);
    int (*copy)(uint64_t, uint64_t, size_t);
} cu;
static void *primary, *own;
static int cases, failures;

static bool driver(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return false;
#define GET(FIELD, NAME) *(void **)&cu.FIELD = dlsym(handle, NAME)
    GET(init, "cuInit");
    GET(retain, "cuDevicePrimaryCtxRetain");
    GET(push, "cuCtxPushCurrent_v2");
    GET(pop, "cuCtxPopCurrent_v2");
    GET(current, "cuCtxSetCurrent");
    GET(create, "cuCtxCreate_v4");
    GET(sync, "cuCtxSynchronize");
    GET(alloc, "cuMemAlloc_v2");
    GET(managed, "cuMemAllocManaged");
    GET(free, "cuMemFree_v2");
    GET(pinned, "cuMemAllocHost_v2");
    GET(unpinned, "cuMemFreeHost");
    GET(pin, "cuMemHostRegister_v2");
    GET(unpin, "cuMemHostUnregister");
    GET(copy, "cuMemcpy");
#undef GET
    return cu.init(0) == 0 && cu.retain(&primary, 0) == 0 && cu.create(&own, NULL, 0, 0) == 0 &&
           cu.current(primary) == 0;
}

struct operand {
    enum place place;
    enum elem t;
    int64_t rows, cols, ld;
    size_t bytes;
    char *at, *host; /* where the call finds it; what it holds */
};

/* Errors here are of the test's machine, and end it. */
static void must(int status, const char *what)
{
    if (status != 0) {
        printf("%s: error %d\n", what, status);
        exit(1);
    }
}

static void operand_make(struct operand *x)
{
    uint64_t ptr = 0;
    void *host = NULL;
    x->bytes = (size_t)(x->ld * x->cols) * elem_bytes(x->t);
    x->host = malloc(x->bytes);
    for (int64_t i = 0; i < x->ld * x->cols; i++)
        elem_put(x->t, x->host, i,
                 (struct value){random_int(-99, 99) / 64.0L, random_int(-99, 99) / 64.0L});
    if (x->place == OWN)
        must(cu.push(own), "push");
    if (x->place == PINNED)
        must(cu.pinned(&host, x->bytes), "pinned memory");
    else if (x->place == MANAGED)
        must(cu.managed(&ptr, x->bytes, 1), "managed memory");
    else if (x->place == DEVICE || x->place == OWN)
        must(cu.alloc(&ptr, x->bytes), "device memory");
    else if (posix_memalign(&host, 4096, x->bytes) != 0)
        must(1, "memory");
    if (x->place == HALF)
        must(cu.pin(host, x->bytes / 2, 0), "register");
    x->at = host ? host : (char *)(uintptr_t)ptr;
    if (host)
        memcpy(host, x->host, x->bytes);
    else
        must(cu.copy(ptr, (uint64_t)(uintptr_t)x->host, x->bytes), "copy there");
    if (x->place == OWN)
        must(cu.pop(&host), "pop");
}

static void operand_read(const struct operand *x, char *to)
{
    void *ignored;
    if (x->place == OWN)
        must(cu.push(own), "push");
    if (x->place == PLAIN || x->place == HALF || x->place == PINNED)
        memcpy(to, x->at, x->bytes);
    else
        must(cu.copy((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)x->at, x->bytes), "copy back");
    if (x->place == OWN)
        must(cu.pop(&ignored), "pop");
}

static void operand_free(struct operand *x)
{
    void *ignored;
    if (x->place == OWN)
        must(cu.push(own), "push");
    if (x->place == HALF)
        must(cu.unpin(x->at), "unregister");
    if (x->place == PINNED)
        must(cu.unpinned(x->at), "free");
    else if (x->place == PLAIN || x->place == HALF)
        free(x->at);
    else
        must(cu.free((uint64_t)(uintptr_t)x->at), "free");
    if (x->place == OWN)
        must(cu.pop(&ignored), "pop");
    free(x->host);
}

struct shape {
    int m, n, k;
};

/* One call; entries of C by sample where it is large. */
static void product(enum elem t, struct shape s, const enum place place[3], bool flip, bool zero)
{
    const bool complex = elem_complex(t);
    struct operand a = {
        place[0], t, flip ? s.k : s.m, flip ? s.m : s.k, (flip ? s.k : s.m) + 3, 0, NULL, NULL};
    struct operand b = {
        place[1], t, flip ? s.n : s.k, flip ? s.k : s.n, (flip ? s.n : s.k) + 1, 0, NULL, NULL};
    struct operand c = {place[2], t, s.m, s.n, s.m + 5, 0, NULL, NULL};
    operand_make(&a);
    operand_make(&b);
    operand_make(&c);
    char name[8], alpha[16], beta[16];
    const struct value va = {1.5L, complex ? -0.5L : 0}, vb = {zero ? 0 : 0.75L, 0};
    const int lda = (int)a.ld, ldb = (int)b.ld, ldc = (int)c.ld;
    snprintf(name, sizeof name, "%cgemm_", "  sdcz"[t]);
    void (*gemm)(const char *, const char *, const int *, const int *, const int *, const void *,
                 const void *, const int *, const void *, const int *, const void *, void *,
                 const int *, size_t, size_t);
    *(void **)&gemm = dlsym(RTLD_DEFAULT, name);
    elem_put(t, alpha, 0, va);
    elem_put(t, beta, 0, vb);
    gemm(flip ? "T" : "N", flip ? "C" : "N", &s.m, &s.n, &s.k, alpha, a.at, &lda, b.at, &ldb, beta,
         c.at, &ldc, 1, 1);
    char *got = malloc(c.bytes);
    operand_read(&c, got);
    const struct view av = {t, a.host, a.ld, false, flip ? 'T' : 'N', 0, 0, 0};
    const struct view bv = {t, b.host, b.ld, false, flip ? 'C' : 'N', 0, 0, 0};
    const struct view old = {t, c.host, c.ld, false, 'N', 0, 0, 0},
                      now = {t, got, c.ld, false, 'N', 0, 0, 0};
    const long double eps = t == E_S || t == E_C ? 0x1p-24L : 0x1p-53L;
    const int64_t step = 1 + (int64_t)s.m * s.n / 600;
    int64_t wrong = 0;
    for (int64_t e = random_int(0, 5) % step; e < (int64_t)s.m * s.n; e += step) {
        long double size = 0;
        const int64_t i = e % s.m, j = e / s.m;
        const struct value dot = ref_dot(&av, &bv, i, j, s.k, &size), was = view_stored(&old, i, j);
        const struct value want = ref_blend(va, dot, true, vb, was, complex),
                           is = view_stored(&now, i, j);
        const struct value gap = {is.re - want.re, is.im - want.im};
        wrong += !(value_abs(gap) <=
                   (s.k + 8) * eps * 4 * (value_abs(va) * size + value_abs(vb) * value_abs(was)));
    }
    for (int64_t j = 0; j < c.cols; j++) /* the padding */
        wrong += memcmp(got + (size_t)(j * c.ld + s.m) * elem_bytes(t),
                        c.host + (size_t)(j * c.ld + s.m) * elem_bytes(t), 5 * elem_bytes(t)) != 0;
    cases++;
    if (wrong && failures++ < 20) {
        printf("%s %d %d %d, A %s, B %s, C %s, %s, beta %s: %lld wrong\n", name, s.m, s.n, s.k,
               place_names[place[0]], place_names[place[1]], place_names[place[2]],
               flip ? "TC" : "NN", zero ? "0" : "0.75", (long long)wrong);
    }
    free(got);
    operand_free(&a);
    operand_free(&b);
    operand_free(&c);
}

int main(void)
{
    static const struct shape shapes[] = {{37, 29, 41}, {700, 600, 333}, {9, 1300, 513}};
    if (!driver()) {
        printf("no CUDA device\n");
        return 77;
    }
    for (int which = 0; which < PLACES * PLACES * PLACES; which++) {
        const enum place place[] = {which % PLACES, which / PLACES % PLACES,
                                    which / PLACES / PLACES};
        for (int t = E_S; t <= E_Z; t++)
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
                product((enum elem)t, shapes[s], place, (which + t) % 2, (which + (int)s) % 3 == 0);
    }
    printf("%d cases, %d failures\n", cases, failures);
    return failures != 0;
}
