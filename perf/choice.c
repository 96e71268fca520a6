/* SPDX-License-Identifier: BSD-3-Clause
 * Is a measured choice of kernels any better than the estimate, at shapes that were not measured
 * for it? For 30 shapes of each pair of types, and four others in each class and layout with a
 * choice: the row that the estimate takes beside the one that a saved profile takes, in turns,
 * operands on the device; and the best of all rows. CSV on standard output, one line a pair with
 * geometric mean and worst on standard error. choice PROFILE [LETTERS]: the profile that `tileblas
 * tune --kernels` saved here; letters of s d c z h H b B (H, B: FP32 result). Exit 1: another
 * result, or a choice that is slower (mean over 1.01). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../src/dev.h"
#include "../src/profile.h"
#include "../tools/rank.h"

enum { SHAPES = 30, DRAWN = 4, ROUNDS = 5, PART = 1 << 20 };

/* None of them is one of tuned_sample(). */
static const int shapes[SHAPES][3] = {
    {640, 640, 640},    {900, 900, 900},    {1000, 1000, 1000}, {1152, 1152, 1152},
    {1500, 1500, 1500}, {2000, 2000, 2000}, {2304, 2304, 2304}, {3000, 3000, 3000},
    {4000, 4000, 4000}, {512, 640, 4000},   {768, 3072, 768},   {3072, 768, 3072},
    {1280, 4096, 500},  {4000, 1000, 2500}, {2048, 6000, 300},  {8192, 8192, 100},
    {1024, 1024, 8000}, {24, 5000, 3000},   {48, 2000, 700},    {100, 8000, 2000},
    {240, 3000, 1000},  {5000, 24, 3000},   {2000, 48, 700},    {8000, 100, 2000},
    {3000, 240, 1000},  {30, 30, 5000},     {60, 60, 900},      {120, 110, 3000},
    {256, 256, 10000},  {16, 16000, 400}};

static const char letters[TB_PAIRS + 1] = "sdczhHbB";
static const char *const layouts[TB_LAYOUTS] = {"nn", "tn", "nt", "tt"};

static char *read_all(const char *path, size_t *length)
{
    FILE *const file = fopen(path, "rb");
    const size_t room = TB_PROFILE_BYTES_MAX + TB_TUNED_BYTES_MAX;
    char *const text = malloc(room);
    *length = file != NULL && text != NULL ? fread(text, 1, room, file) : 0;
    if (file != NULL)
        fclose(file);
    return text;
}

/* The last megabyte of C, as bytes. */
static bool fetch(struct rank *rank, const struct tb_extent *x, enum tb_type c, char *out,
                  size_t *bytes)
{
    const size_t all = (size_t)(x->m * x->n) * call_elem_bytes(c);
    *bytes = all < PART ? all : PART;
    const struct tb_copy shape = {*bytes, 1, *bytes, *bytes};
    if (rank->dev->d2h(rank->lane, rank->host, rank->at[2] + (all - *bytes), shape) != TB_OK ||
        rank->dev->record(rank->timer[1], rank->lane) != TB_OK ||
        rank->dev->sync(rank->timer[1]) != TB_OK)
        return false;
    memcpy(out, rank->host, *bytes);
    return true;
}

static double number_at(const char *text, enum tb_type type, size_t i)
{
    uint16_t h;
    uint32_t w;
    float f;
    double d;
    if (type == TB_F64 || type == TB_C64) {
        memcpy(&d, text + 8 * i, 8);
        return d;
    }
    if (type == TB_F32 || type == TB_C32) {
        memcpy(&f, text + 4 * i, 4);
        return (double)f;
    }
    memcpy(&h, text + 2 * i, 2);
    if (type == TB_F16) {
        const int e = h >> 10 & 31;
        const double x = e > 0 ? ldexp((h & 1023) | 1024, e - 25) : ldexp(h & 1023, -24);
        return h & 0x8000 ? -x : x;
    }
    w = (uint32_t)h << 16;
    memcpy(&f, &w, 4);
    return (double)f;
}

/* The largest difference over the largest number: 1 where one of them is no number. */
static double difference(const char *x, const char *y, size_t bytes, enum tb_type type)
{
    const size_t size = call_elem_bytes(type) / (call_is_complex(type) ? 2 : 1);
    double most = 0, apart = 0;
    for (size_t i = 0; i < bytes / size; i++) {
        const double a = number_at(x, type, i), b = number_at(y, type, i);
        most = fabs(a) > most ? fabs(a) : most;
        apart = fabs(a - b) > apart ? fabs(a - b) : apart;
        if (!isfinite(a - b))
            return 1;
    }
    return most > 0 ? apart / most : 1;
}

static double tolerance(enum tb_type c)
{
    return c == TB_BF16 ? 0x1p-6 : c == TB_F16 ? 0x1p-9 : c == TB_F64 || c == TB_C64 ? 1e-11 : 1e-4;
}

static struct {
    struct rank rank;
    struct tb_caps with;
    char *one, *two;
    bool wrong;
} choice;

struct timed {
    int row;
    struct tb_block_order order;
    double ns;
};

static bool result_of(const struct timed *x, const struct tb_extent *e, char *out, size_t *bytes)
{
    return rank_ns(&choice.rank, x->row, x->order, e, 1) > 0 &&
           fetch(&choice.rank, e, kernel_row(x->row)->c, out, bytes);
}

/* The two in turns. */
static void time_two(struct timed *x, struct timed *y, const struct tb_extent *e)
{
    for (int i = 0; i < ROUNDS; i++)
        for (int which = 0; which < 2; which++) {
            struct timed *const z = which ? y : x;
            const double ns = rank_ns(&choice.rank, z->row, z->order, e, 1);
            z->ns = z->ns > 0 && z->ns < ns ? z->ns : ns;
        }
}

static const struct tb_block_order own = {0, 0};

static struct timed best_of_all(const struct timed *known, const struct tb_extent *e)
{
    const struct tb_kernel *const like = kernel_row(known->row);
    struct timed best = *known;
    for (int i = 0; i < kernel_count(); i++) {
        const struct tb_kernel *const row = kernel_row(i);
        if (row->ab != like->ab || row->c != like->c || row->ta != like->ta ||
            row->tb != like->tb || kernel_why_not(&choice.rank.caps, i, e) != NULL ||
            kernel_estimate(&choice.rank.caps, i, e) >
                3 * kernel_estimate(&choice.rank.caps, known->row, e))
            continue;
        const double ns = rank_ns(&choice.rank, i, own, e, 3);
        if (ns > 0 && ns < best.ns)
            best = (struct timed){i, own, ns};
    }
    return best;
}

/* The time of the profile's choice over the estimate's. 0: not measured. */
static double one_shape(int pair, int layout, const struct tb_extent *e, double *regret)
{
    enum tb_type ab, c;
    const bool ta = layout & 1, tb = layout >> 1;
    size_t bytes = 0;
    char class[TB_CLASS_NAME] = "none";
    shape_pair_types(pair, &ab, &c);
    if (!rank_place(&choice.rank, ab, c, e))
        return 0;
    struct timed guess = {.row =
                              kernel_choose(&choice.rank.caps, ab, c, ta, tb, e->m, e->n, e->k, 1)};
    struct timed saved = {.row = kernel_choose(&choice.with, ab, c, ta, tb, e->m, e->n, e->k, 1)};
    if (guess.row < 0 || saved.row < 0)
        return 0;
    saved.order = tuned_order(&choice.with, saved.row, e);
    const bool same = guess.row == saved.row && saved.order.band == 0 && saved.order.hint == 0;
    time_two(&guess, &saved, e);
    if (same)
        guess.ns = saved.ns = guess.ns < saved.ns ? guess.ns : saved.ns;
    const struct timed best = best_of_all(saved.ns < guess.ns ? &saved : &guess, e);
    double apart = 0;
    if (!same)
        apart = result_of(&guess, e, choice.one, &bytes) && result_of(&saved, e, choice.two, &bytes)
                    ? difference(choice.one, choice.two, bytes, c)
                    : 1;
    const bool right = apart <= tolerance(c);
    choice.wrong = choice.wrong || !right;
    if (shape_class(e) >= 0)
        shape_class_name(shape_class(e), class);
    printf("%c,%s,%lld,%lld,%lld,%s,%s,%.5g,%s,%d,%d,%.5g,%.3f,%s,%.5g,%s\n", letters[pair],
           layouts[layout], (long long)e->m, (long long)e->n, (long long)e->k, class,
           kernel_row(guess.row)->name, guess.ns * 1e-6, kernel_row(saved.row)->name,
           saved.order.band, saved.order.hint, saved.ns * 1e-6, saved.ns / guess.ns,
           kernel_row(best.row)->name, best.ns * 1e-6, right ? "ok" : "wrong");
    fflush(stdout);
    *regret = saved.ns / best.ns;
    return saved.ns / guess.ns;
}

struct sums {
    double ratios, regrets, worst, best; /* the first two of logarithms */
    int count, other;
};

static void add_shape(struct sums *sums, int pair, int layout, const struct tb_extent *e)
{
    double regret = 1;
    const double ratio = one_shape(pair, layout, e, &regret);
    if (ratio <= 0)
        return;
    sums->count++;
    sums->ratios += log(ratio);
    sums->regrets += log(regret);
    sums->other += ratio < 1 || ratio > 1;
    sums->worst = ratio > sums->worst ? ratio : sums->worst;
    sums->best = ratio < sums->best ? ratio : sums->best;
}

static bool tell(int pair, const char *what, const struct sums *x)
{
    if (x->count == 0)
        return true;
    const double mean = exp(x->ratios / x->count);
    fprintf(stderr,
            "%c, %s: %d shapes, %d with another row; time over the estimate's choice: mean %.3f, "
            "worst %.3f, best %.3f; over the best of all rows: estimate %.3f, saved %.3f\n",
            letters[pair], what, x->count, x->other, mean, x->worst, x->best,
            exp((x->regrets - x->ratios) / x->count), exp(x->regrets / x->count));
    return mean <= 1.01;
}

/* Any shape of that class. */
static struct tb_extent draw(int class)
{
    static uint64_t state = 88172645463325252u;
    struct tb_extent x = {0, 0, 0, 1};
    int64_t *const side[] = {&x.m, &x.n, &x.k};
    do
        for (int i = 0; i < 3; i++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *side[i] = (int64_t)exp2(13.3 * (double)(state >> 11) * 0x1p-53);
        }
    while (shape_class(&x) != class);
    return x;
}

/* The fixed shapes, the layouts in turns; then those where something was saved. */
static bool one_pair(int pair)
{
    struct sums fixed = {.best = HUGE_VAL}, drawn = {.best = HUGE_VAL};
    for (int i = 0; i < SHAPES; i++) {
        const struct tb_extent e = {shapes[i][0], shapes[i][1], shapes[i][2], 1};
        add_shape(&fixed, pair, i % TB_LAYOUTS, &e);
    }
    for (int layout = 0; layout < TB_LAYOUTS; layout++)
        for (int class = 0; class < TB_SHAPE_CLASSES; class ++)
            for (int i = 0; i < DRAWN && choice.with.tuned->at[pair][layout][class].row > 0; i++) {
                const struct tb_extent e = draw(class);
                add_shape(&drawn, pair, layout, &e);
            }
    const bool good = tell(pair, "fixed", &fixed);
    return tell(pair, "in classes with a choice", &drawn) && good;
}

int main(int argc, char **argv)
{
    static struct tb_tuned tuned;
    struct tb_caps caps;
    size_t length;
    int devices, bad = 0;
    bool good = true;
    if (argc < 2)
        return 2;
    const struct tb_dev_ops *const dev = tb_dev();
    if (dev == NULL || dev->count(&devices) != TB_OK || dev->open(0, &caps) != TB_OK ||
        !rank_open(&choice.rank, dev, &caps)) {
        fprintf(stderr, "choice: no GPU\n");
        return 77;
    }
    char *const text = read_all(argv[1], &length);
    const char *const section = length > 0 ? profile_kernels(text, length) : NULL;
    if (section == NULL || tuned_parse(section, length - (size_t)(section - text), &caps, &tuned,
                                       &bad) != TB_TUNED_FITS) {
        fprintf(stderr, "choice: %s holds no choices for this device\n", argv[1]);
        return 2;
    }
    choice.with = choice.rank.caps;
    choice.with.tuned = &tuned;
    choice.one = malloc(PART);
    choice.two = malloc(PART);
    if (choice.one == NULL || choice.two == NULL)
        return 2;
    puts("type,trans,m,n,k,class,estimate,estimate_ms,saved,band,hint,saved_ms,ratio,best,best_ms,"
         "check");
    for (int pair = 0; pair < TB_PAIRS; pair++)
        if (argc < 3 || strchr(argv[2], letters[pair]) != NULL)
            good = one_pair(pair) && good;
    rank_close(&choice.rank);
    return good && !choice.wrong ? 0 : 1;
}
