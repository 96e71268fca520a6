/* SPDX-License-Identifier: BSD-3-Clause
 * Rows are timed by timers of the device around launches in a row, in turns, the least of a few
 * rounds each. A row is kept for a class only if it beats what the estimate takes at every shape
 * that stands for the class, and does so again when the two are timed once more. */
#include "rank.h"

#include <math.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include "../src/log.h"
#include "../src/plan.h"

enum { BLOCK = 4 << 20, INNER_MAX = 200, ROUNDS = 3, ROUNDS_AGAIN = 5 };

/* Beyond these a candidate is given up: by the estimate, and by the first shape. */
#define HOPELESS_ESTIMATE 2.5
#define HOPELESS_TIME     1.4

/* A launch this long is a sample alone; classes with longer ones are left to the estimate, which
 * knows large products best. */
#define LONG_NS           3e6
#define TOO_LONG_NS       3e7

/* Under it there is little to gain, and the host is much of what is measured. */
#define SHORT_NS          2e4

/* --- Operands ---
 */

/* The high byte of an element decides its size. */
void rank_fill(char *to, size_t bytes, enum tb_type type)
{
    const size_t size = call_elem_bytes(type) / (call_is_complex(type) ? 2 : 1);
    uint64_t state = 88172645463325252u;
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        memcpy(to + i, &state, 8);
    }
    for (size_t i = size - 1; i < bytes; i += size) {
        const unsigned char sign = (unsigned char)to[i] & 0x80;
        to[i] = (char)(sign | (type == TB_F16 ? 0x38 : 0x3f));
        if (size > 2 || type == TB_BF16)
            to[i - 1] = (char)((unsigned char)to[i - 1] & 0x7f);
    }
}

static bool settle(struct rank *rank)
{
    return rank->dev->record(rank->timer[1], rank->lane) == TB_OK &&
           rank->dev->sync(rank->timer[1]) == TB_OK;
}

static void free_operands(struct rank *rank)
{
    /* Launches may be underway where a later one failed. */
    if (rank->at[0] != 0 && !settle(rank))
        (void)settle(rank);
    for (int i = 0; i < RANK_AREAS; i++) {
        if (rank->at[i] != 0)
            rank->dev->free(rank->at[i]);
        rank->at[i] = 0;
        rank->bytes[i] = 0;
    }
}

bool rank_open(struct rank *rank, const struct tb_dev_ops *dev, const struct tb_caps *caps)
{
    *rank = (struct rank){.dev = dev, .caps = *caps, .rounds_ns = 4e5};
    rank->caps.tuned = NULL;
    rank->caps.strict = false;
    void *const host =
        mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (host == MAP_FAILED)
        return false;
    rank->host = host;
    rank->pinned = dev->bind() == TB_OK && dev->pin(host, BLOCK) == TB_OK;
    if (rank->pinned && dev->lane_open(&rank->lane, false) == TB_OK &&
        dev->timer_open(&rank->timer[0]) == TB_OK && dev->timer_open(&rank->timer[1]) == TB_OK)
        return true;
    rank_close(rank);
    return false;
}

void rank_close(struct rank *rank)
{
    free_operands(rank);
    for (int i = 0; i < 2; i++)
        if (rank->timer[i] != NULL)
            rank->dev->event_close(rank->timer[i]);
    if (rank->lane != NULL)
        rank->dev->lane_close(rank->lane);
    /* Memory that cannot be let go of stays ours. */
    if (!rank->pinned || rank->dev->unpin(rank->host) == TB_OK)
        munmap(rank->host, BLOCK);
}

/* The bytes of an operand in any layout, with room for whole pitches. */
static size_t operand_bytes(int64_t rows, int64_t cols, enum tb_type type)
{
    const size_t elem = call_elem_bytes(type);
    const size_t one = plan_pitch(rows, elem) * (size_t)cols;
    const size_t turned = plan_pitch(cols, elem) * (size_t)rows;
    return one > turned ? one : turned;
}

static size_t area_bytes(const struct rank *rank, const struct tb_kernel *row,
                         const struct tb_extent *x)
{
    const struct tb_gemm_params params = {.m = x->m, .n = x->n, .k = x->k, .batch = 1};
    return kernel_scratch(row, &rank->caps, &params);
}

/* For any of the rows that the device may have. */
static void all_bytes(const struct rank *rank, enum tb_type ab, enum tb_type c,
                      const struct tb_extent *x, size_t out[RANK_AREAS])
{
    out[0] = operand_bytes(x->m, x->k, ab);
    out[1] = operand_bytes(x->k, x->n, ab);
    out[2] = operand_bytes(x->m, x->n, c);
    out[3] = 0;
    for (int i = 0; i < kernel_count(); i++) {
        const struct tb_kernel *const row = kernel_row(i);
        const bool asks = row->ab == ab && row->c == c && !kernel_why_not(&rank->caps, i, x);
        const size_t bytes = asks ? area_bytes(rank, row, x) : 0;
        out[3] = bytes > out[3] ? bytes : out[3];
    }
}

static bool get_operands(struct rank *rank, const size_t bytes[RANK_AREAS])
{
    free_operands(rank);
    for (int i = 0; i < RANK_AREAS; i++) {
        if (bytes[i] > 0 && rank->dev->alloc(bytes[i], &rank->at[i]) != TB_OK) {
            rank->at[i] = 0;
            free_operands(rank);
            return false;
        }
        rank->bytes[i] = bytes[i];
    }
    return true;
}

/* The same block over and over. */
static bool fill_operands(struct rank *rank, enum tb_type type)
{
    rank_fill(rank->host, BLOCK, type);
    for (int i = 0; i < 2; i++)
        for (size_t done = 0; done < rank->bytes[i]; done += BLOCK) {
            const size_t left = rank->bytes[i] - done, part = left < BLOCK ? left : BLOCK;
            const struct tb_copy shape = {part, 1, part, part};
            if (rank->dev->h2d(rank->lane, rank->at[i] + done, rank->host, shape) != TB_OK)
                return false;
        }
    return settle(rank);
}

bool rank_place(struct rank *rank, enum tb_type ab, enum tb_type c, const struct tb_extent *most)
{
    size_t bytes[RANK_AREAS];
    all_bytes(rank, ab, c, most, bytes);
    return get_operands(rank, bytes) && fill_operands(rank, ab);
}

/* --- Times ---
 */

static struct tb_gemm_params params_of(const struct rank *rank, const struct tb_kernel *row,
                                       struct tb_block_order order, const struct tb_extent *x)
{
    const size_t ab = call_elem_bytes(row->ab), c = call_elem_bytes(row->c);
    const int64_t rows_a = row->ta ? x->k : x->m, rows_b = row->tb ? x->n : x->k;
    return (struct tb_gemm_params){.a = rank->at[0],
                                   .b = rank->at[1],
                                   .c = rank->at[2],
                                   .m = x->m,
                                   .n = x->n,
                                   .k = x->k,
                                   .lda = (int64_t)(plan_pitch(rows_a, ab) / ab),
                                   .ldb = (int64_t)(plan_pitch(rows_b, ab) / ab),
                                   .ldc = (int64_t)(plan_pitch(x->m, c) / c),
                                   .batch = 1,
                                   .alpha = {1, 0},
                                   .op_a = row->ta ? TB_KOP_T : TB_KOP_N,
                                   .op_b = row->tb ? TB_KOP_T : TB_KOP_N,
                                   .beta_zero = 1,
                                   .scratch = rank->at[3],
                                   .band = order.band,
                                   .hint = order.hint};
}

/* Of one of `count` launches; 0: it failed. */
static double launches_ns(struct rank *rank, int row, const struct tb_gemm_params *params,
                          int count)
{
    double ns = 0;
    if (rank->dev->record(rank->timer[0], rank->lane) != TB_OK)
        return 0;
    for (int i = 0; i < count; i++)
        if (rank->dev->launch(rank->lane, row, params) != TB_OK)
            return 0;
    if (!settle(rank) || rank->dev->elapsed(rank->timer[0], rank->timer[1], &ns) != TB_OK)
        return 0;
    return ns / count;
}

/* What a candidate is launched with; inner 0: it is out. */
struct runner {
    struct tb_gemm_params params;
    double ns;
    int inner;
};

static bool has_room(const struct rank *rank, const struct tb_kernel *row,
                     const struct tb_extent *x)
{
    return rank->at[0] != 0 && operand_bytes(x->m, x->k, row->ab) <= rank->bytes[0] &&
           operand_bytes(x->k, x->n, row->ab) <= rank->bytes[1] &&
           operand_bytes(x->m, x->n, row->c) <= rank->bytes[2] &&
           area_bytes(rank, row, x) <= rank->bytes[3];
}

/* Loads the code, and learns how long a launch takes. */
static struct runner ready(struct rank *rank, int row, struct tb_block_order order,
                           const struct tb_extent *x)
{
    const struct tb_kernel *const kernel = kernel_row(row);
    struct runner runner = {.inner = 0};
    if (!has_room(rank, kernel, x))
        return runner;
    runner.params = params_of(rank, kernel, order, x);
    if (!kernel_accepts(kernel, &runner.params))
        return runner;
    double ns = launches_ns(rank, row, &runner.params, 1);
    if (ns > 0 && ns < LONG_NS)
        ns = launches_ns(rank, row, &runner.params, 1);
    runner.ns = ns;
    if (ns > 0)
        runner.inner =
            ns * INNER_MAX < rank->rounds_ns ? INNER_MAX : 1 + (int)(rank->rounds_ns / ns);
    return runner;
}

double rank_ns(struct rank *rank, int row, struct tb_block_order order, const struct tb_extent *x,
               int rounds)
{
    const struct runner runner = ready(rank, row, order, x);
    double least = 0;
    for (int i = 0; i < rounds && runner.inner > 0; i++) {
        const double ns = launches_ns(rank, row, &runner.params, runner.inner);
        if (ns <= 0)
            return 0;
        least = least <= 0 || ns < least ? ns : least;
    }
    return least;
}

/* One shape, the candidates in turns. Who failed at an earlier one is left out. */
static void time_sample(struct rank *rank, struct rank_times *times, int sample,
                        const struct tb_extent *x, int rounds)
{
    struct runner runner[RANK_ROWS];
    for (int i = 0; i < times->count; i++) {
        runner[i].inner = 0;
        if (sample == 0 || times->ns[i][sample - 1] > 0)
            runner[i] = ready(rank, times->row[i], times->order[i], x);
        if (runner[i].inner > 0 && runner[i].ns > TOO_LONG_NS)
            runner[i].inner = 0;
        times->ns[i][sample] = 0;
    }
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < times->count; i++) {
            double *const least = &times->ns[i][sample];
            if (runner[i].inner == 0 || (round > 1 && *least > LONG_NS))
                continue;
            const double ns = launches_ns(rank, times->row[i], &runner[i].params, runner[i].inner);
            if (ns <= 0)
                runner[i].inner = 0;
            *least = ns > 0 && *least > 0 && *least < ns ? *least : ns;
        }
}

/* --- Judgement ---
 */

/* The time of a candidate over what the estimate takes; infinite where it failed. */
static double mean_ratio(const struct rank_times *times, int i, double *worst)
{
    double sum = 0;
    *worst = 0;
    for (int s = 0; s < TB_SAMPLES; s++) {
        const double other = times->ns[times->estimate[s]][s];
        if (times->ns[i][s] <= 0 || other <= 0)
            return *worst = HUGE_VAL;
        const double ratio = times->ns[i][s] / other;
        *worst = ratio > *worst ? ratio : *worst;
        sum += log(ratio);
    }
    return exp(sum / TB_SAMPLES);
}

int rank_judge(const struct rank_times *times, double *gain)
{
    int best = -1;
    *gain = TB_TUNED_GAIN;
    for (int i = 0; i < times->count; i++) {
        double worst;
        const double mean = mean_ratio(times, i, &worst);
        if (worst <= RANK_LOSS && (best < 0 ? mean <= *gain : mean < *gain)) {
            best = i;
            *gain = mean;
        }
    }
    return best;
}

/* --- A class ---
 */

static const struct tb_block_order own = {0, TB_KHINT_OWN};

static int candidate(struct rank_times *times, int row, struct tb_block_order order)
{
    for (int i = 0; i < times->count; i++)
        if (times->row[i] == row && times->order[i].band == order.band &&
            times->order[i].hint == order.hint)
            return i;
    if (times->count == RANK_ROWS)
        return -1;
    times->row[times->count] = row;
    times->order[times->count] = order;
    return times->count++;
}

/* Bands of half and of double height, where C has more rows than a band of the row's own and its
 * operands do not lie in the L2 cache anyway; and for a row that fetches by maps, other hints. */
static void add_orders(struct rank_times *times, int row, int class)
{
    const struct tb_kernel *const kernel = kernel_row(row);
    const struct tb_extent x = tuned_sample(class, 0);
    const int band = kernel_band(kernel);
    if (x.m <= 2048 || x.n <= 2048)
        return;
    if (x.m > (int64_t)band * kernel->bm) {
        candidate(times, row, (struct tb_block_order){(int16_t)(band / 2), TB_KHINT_OWN});
        candidate(times, row, (struct tb_block_order){(int16_t)(band * 2), TB_KHINT_OWN});
    }
    if (kernel->family == TB_SM90) {
        candidate(times, row, (struct tb_block_order){0, TB_KHINT_NONE});
        candidate(times, row, (struct tb_block_order){0, TB_KHINT_128});
    }
}

/* The rows that may be the best of the class; false: the estimate's own are not all among them. */
static bool find_candidates(const struct rank *rank, enum tb_type ab, enum tb_type c, int layout,
                            int class, struct rank_times *times)
{
    const bool ta = layout & 1, tb = layout >> 1;
    times->count = 0;
    for (int s = 0; s < TB_SAMPLES; s++) {
        const struct tb_extent x = tuned_sample(class, s);
        const int row = kernel_estimated(&rank->caps, ab, c, ta, tb, &x);
        times->estimate[s] = row < 0 ? -1 : candidate(times, row, own);
        if (row < 0)
            return false;
    }
    for (int s = 0; s < TB_SAMPLES; s++) {
        const struct tb_extent x = tuned_sample(class, s);
        const double least = kernel_estimate(&rank->caps, times->row[times->estimate[s]], &x);
        for (int i = 0; i < kernel_count(); i++) {
            const struct tb_kernel *const row = kernel_row(i);
            if (row->ab == ab && row->c == c && row->ta == ta && row->tb == tb &&
                kernel_why_not(&rank->caps, i, &x) == NULL &&
                kernel_estimate(&rank->caps, i, &x) < HOPELESS_ESTIMATE * least)
                candidate(times, i, own);
        }
    }
    for (int s = 0; s < TB_SAMPLES; s++)
        add_orders(times, times->row[times->estimate[s]], class);
    return true;
}

/* At shapes that take next to no time nobody is faster. */
static void level(struct rank_times *times, int sample)
{
    const double estimate = times->ns[times->estimate[sample]][sample];
    for (int i = 0; i < times->count && estimate < SHORT_NS; i++)
        if (times->ns[i][sample] > 0 && times->ns[i][sample] < estimate)
            times->ns[i][sample] = estimate;
}

/* After the first shape: whoever is far behind does not come back, but for what the estimate takes.
 */
static void give_up_hopeless(struct rank_times *times)
{
    double least = 0;
    for (int i = 0; i < times->count; i++)
        if (times->ns[i][0] > 0 && (least <= 0 || times->ns[i][0] < least))
            least = times->ns[i][0];
    for (int i = 0; i < times->count; i++) {
        bool needed = false;
        for (int s = 0; s < TB_SAMPLES; s++)
            needed = needed || times->estimate[s] == i;
        if (!needed && times->ns[i][0] > HOPELESS_TIME * least)
            times->ns[i][0] = 0;
    }
}

/* Once more, with what the estimate takes alone for company. */
static bool wins_again(struct rank *rank, const struct rank_times *times, int best, int class,
                       double *gain)
{
    struct rank_times two = {.count = 0};
    const int same = candidate(&two, times->row[best], times->order[best]);
    for (int s = 0; s < TB_SAMPLES; s++)
        two.estimate[s] = candidate(&two, times->row[times->estimate[s]], own);
    for (int s = 0; s < TB_SAMPLES; s++) {
        const struct tb_extent x = tuned_sample(class, s);
        time_sample(rank, &two, s, &x, ROUNDS_AGAIN);
        level(&two, s);
    }
    double worst;
    *gain = mean_ratio(&two, same, &worst);
    return worst <= RANK_LOSS && *gain <= TB_TUNED_GAIN;
}

static double rate_of(const struct rank_times *times, int i, int class, enum tb_type ab)
{
    double sum = 0;
    for (int s = 0; s < TB_SAMPLES; s++) {
        const struct tb_extent x = tuned_sample(class, s);
        const double flops = (call_is_complex(ab) ? 8.0 : 2.0) * (double)x.m * (double)x.n *
                             (double)x.k * (double)x.batch;
        sum += log(flops / times->ns[i][s]);
    }
    return exp(sum / TB_SAMPLES);
}

static bool is_estimate(const struct rank_times *times, int i)
{
    for (int s = 0; s < TB_SAMPLES; s++)
        if (times->estimate[s] == i)
            return true;
    return false;
}

/* `best` is the one that won the first turn, -1: none did. */
static const char *verdict(const struct rank_times *times, int i, int best, bool again)
{
    double worst;
    const double mean = mean_ratio(times, i, &worst);
    if (worst == HUGE_VAL)
        return "it failed, or is far behind";
    if (i == best)
        return again ? "saved" : "not so in a second turn";
    if (is_estimate(times, i))
        return "the estimate takes it";
    if (mean > TB_TUNED_GAIN)
        return "not clearly faster";
    return worst > RANK_LOSS ? "slower at one of the shapes" : "another one is faster";
}

static void tell_candidates(const struct rank_times *times, int layout, int class, int best,
                            bool again)
{
    char name[TB_CLASS_NAME];
    double worst;
    if (!log_wants(3))
        return;
    shape_class_name(class, name);
    log_line(3, "class %s, %c%c, time over that of the estimate's choice:", name,
             layout & 1 ? 'T' : 'N', layout & 2 ? 'T' : 'N');
    for (int i = 0; i < times->count; i++)
        log_line(3, "  %s, band %d, hint %d: %.3f: %s", kernel_row(times->row[i])->name,
                 times->order[i].band, times->order[i].hint, mean_ratio(times, i, &worst),
                 verdict(times, i, best, again));
}

/* False: it could not be measured, for lack of memory or of a working device, or it takes too long.
 */
static bool rank_class(struct rank *rank, int pair, int layout, int class, struct tb_tuned_row *out)
{
    struct rank_times times;
    enum tb_type ab, c;
    double gain;
    shape_pair_types(pair, &ab, &c);
    if (!find_candidates(rank, ab, c, layout, class, &times))
        return false;
    if (times.count < 2) /* a choice of one */
        return true;
    for (int s = 0; s < TB_SAMPLES; s++) {
        const struct tb_extent x = tuned_sample(class, s);
        time_sample(rank, &times, s, &x, ROUNDS);
        level(&times, s);
        if (times.ns[times.estimate[s]][s] <= 0)
            return false;
        if (s == 0)
            give_up_hopeless(&times);
    }
    const int best = rank_judge(&times, &gain);
    const bool again = best >= 0 && wins_again(rank, &times, best, class, &gain);
    tell_candidates(&times, layout, class, best, again);
    if (again)
        *out = (struct tb_tuned_row){(int16_t)(times.row[best] + 1),
                                     times.order[best].band,
                                     times.order[best].hint,
                                     (float)rate_of(&times, best, class, ab),
                                     (float)gain,
                                     tuned_lead(&rank->caps, times.row[best], class)};
    return true;
}

/* --- A pair of types ---
 */

static bool class_fits(const struct rank_limits *limits, int class)
{
    for (int s = 0; s < TB_SAMPLES; s++) {
        const struct tb_extent x = tuned_sample(class, s);
        if ((double)x.m * (double)x.n * (double)x.k > limits->multiplies)
            return false;
    }
    return true;
}

/* Room for every shape of the classes; half of it where the device is short of memory, and half
 * again. */
static bool place_all(struct rank *rank, int pair, const struct rank_limits *limits)
{
    size_t most[RANK_AREAS] = {0}, bytes[RANK_AREAS];
    enum tb_type ab, c;
    shape_pair_types(pair, &ab, &c);
    for (int class = 0; class < TB_SHAPE_CLASSES; class ++)
        for (int s = 0; s < TB_SAMPLES && class_fits(limits, class); s++) {
            const struct tb_extent x = tuned_sample(class, s);
            all_bytes(rank, ab, c, &x, bytes);
            for (int i = 0; i < RANK_AREAS; i++)
                most[i] = bytes[i] > most[i] ? bytes[i] : most[i];
        }
    while (!get_operands(rank, most))
        for (int i = 0; i < RANK_AREAS; i++) {
            if (i < 3 && most[i] < 1 << 16)
                return false;
            most[i] /= 2;
        }
    return fill_operands(rank, ab);
}

/* Loads the code of all rows, so that no sample is as long as that. */
static void load_rows(struct rank *rank, int pair)
{
    static const struct tb_extent little = {16, 16, 256, 1};
    enum tb_type ab, c;
    shape_pair_types(pair, &ab, &c);
    for (int i = 0; i < kernel_count(); i++) {
        const char *const why = kernel_why_not(&rank->caps, i, NULL);
        if (kernel_row(i)->ab != ab || kernel_row(i)->c != c)
            continue;
        if (why == NULL)
            (void)ready(rank, i, own, &little);
        else if (kernel_row(i)->family != TB_TRI)
            log_line(3, "%s: infeasible: %s", kernel_row(i)->name, why);
    }
}

struct rank_outcome rank_pair(struct rank *rank, int pair, const struct rank_limits *limits,
                              struct tb_tuned *out)
{
    const uint64_t from = log_now_ns();
    struct rank_outcome outcome = {.gain = 0};
    memset(out->at[pair], 0, sizeof out->at[pair]);
    const bool placed = place_all(rank, pair, limits);
    if (placed)
        load_rows(rank, pair);
    for (int class = 0; class < TB_SHAPE_CLASSES; class ++) {
        if (limits->tell != NULL)
            limits->tell(pair, class, limits->arg);
        for (int layout = 0; layout < TB_LAYOUTS; layout++) {
            struct tb_tuned_row *const entry = &out->at[pair][layout][class];
            outcome.classes++;
            if (!placed || !class_fits(limits, class) ||
                (double)(log_now_ns() - from) > limits->seconds * 1e9)
                continue;
            outcome.measured += rank_class(rank, pair, layout, class, entry);
            outcome.kept += entry->row > 0;
            outcome.gain += entry->row > 0 ? log((double)entry->gain) : 0;
        }
    }
    outcome.gain = outcome.kept > 0 ? exp(outcome.gain / outcome.kept) : 1;
    outcome.seconds = (double)(log_now_ns() - from) * 1e-9;
    return outcome;
}
