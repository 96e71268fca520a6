/* SPDX-License-Identifier: BSD-3-Clause
 * FP32 products on 16-bit planes, on the bit-accurate model: what it assumes of the tensor core,
 * what the guard decides, and that whichever way it decides for, the error is at most that of a CPU
 * BLAS. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../lib/x3_model.h"

static uint64_t state;

static uint64_t rnd(void)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

static int pick(int n)
{
    return (int)((rnd() >> 20) % (uint64_t)n);
}

static double uniform(void)
{
    return ((double)(rnd() >> 11) + 0.5) * 0x1p-53;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

/* --- the tensor core, as the probe on the device printed it (perf/results) --- */

static double of_small_terms(int count, int exponent, int sign, bool in_sum)
{
    float x[16] = {in_sum ? 0.0f : 1.0f}, y[16] = {1};
    for (int i = 1; i <= count; i++) {
        x[i] = (float)(sign * ldexp(1, 13 - exponent));
        y[i] = 0x1p-13f;
    }
    return ((double)x3_model_step(in_sum ? 1 : 0, x, y, 16) - 1) * 0x1p23;
}

Test(x3, the_model_adds_as_the_tensor_core_was_seen_to)
{
    static const struct {
        int count, exponent, sign;
        double units;
    } seen[] = {{1, 22, 1, 2},      {1, 23, 1, 1},    {1, 24, 1, 0},      {15, 24, 1, 7},
                {15, 25, 1, 3},     {15, 26, 1, 0},   {14, 25, 1, 3},     {14, 24, 1, 7},
                {1, 22, -1, -2},    {1, 24, -1, -.5}, {1, 25, -1, -.5},   {1, 26, -1, 0},
                {15, 24, -1, -7.5}, {15, 25, -1, -4}, {14, 25, -1, -3.5}, {15, 26, -1, 0}};
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++)
        for (int in_sum = 0; in_sum < 2; in_sum++)
            cr_assert_eq(of_small_terms(seen[i].count, seen[i].exponent, seen[i].sign, in_sum),
                         seen[i].units, "%d of 2^-%d", seen[i].count, seen[i].exponent);
}

Test(x3, planes_add_up)
{
    state = 1;
    for (int t = 0; t < 20000; t++) {
        const double x = (double)(float)ldexp(2 * uniform() - 1, 14 - pick(27));
        float cut[TB_X3_PLANES_MAX];
        x3_model_planes(x, t, t % 2, 2, cut);
        cr_assert_leq(fabs((double)cut[0] + (double)cut[1] / (double)TB_X3_LO - x),
                      fmax(fabs(x) * 0x1p-20, 0x1p-35));
        const double wide = ldexp(x, 26 - pick(TB_X3_WIDE - 30));
        x3_model_planes(wide, t, t % 2, 3, cut);
        cr_assert_eq((double)cut[0] + (double)cut[1] + (double)cut[2], wide);
    }
}

/* --- data --- */

enum { SIDE = 20, K_MAX = 1536 };

struct recipe {
    int kind, grade, rows, zeros,
        odd; /* base numbers; binades along k, between rows; % of zeros; outliers */
    double phi, value;
};

static struct recipe random_recipe(void)
{
    struct recipe r = {.kind = pick(8),
                       .value = 1 + (pick(2) ? 0x1p-12 * (1 + pick(7)) : uniform())};
    if (pick(3) == 0)
        r.grade = 1 + pick(60);
    if (pick(3) == 0)
        r.rows = 1 + pick(60);
    if (pick(4) == 0)
        r.zeros = pick(100);
    if (pick(4) == 0)
        r.odd = 1 + pick(4);
    r.phi = pick(2) ? 4 * uniform() : 0;
    return r;
}

static void fill(float *x, int k, const struct recipe *r, bool second)
{
    for (int i = 0; i < SIDE; i++) {
        const int up = r->rows ? pick(2 * r->rows + 1) - r->rows : 0;
        for (int l = 0; l < k; l++, x++) {
            double v = 0;
            switch (r->kind) {
            case 0:
                v = 2 * uniform() - 1;
                break;
            case 1:
                v = uniform();
                break;
            case 2:
                v = normal();
                break;
            case 3:
                v = fabs(normal());
                break;
            case 4:
                v = 1 + 0x1p-12 * pick(8);
                break;
            case 5:
                v = (pick(2) ? 1 : -1) * (1 + 0x1p-10 * uniform());
                break;
            case 6:
                v = r->value;
                break;
            case 7:
                v = l % 2 ? r->value : 2 * r->value - 1;
                break;
            }
            v *= exp(r->phi * normal());
            const double at = 2.0 * l / (k - 1) - 1;
            v = ldexp(v, up + (int)(r->grade * (second ? -at : at)));
            if (pick(100) < r->zeros)
                v = 0;
            if (r->odd && pick(400) == 0)
                v = ldexp(v, r->odd == 1 ? 40 : r->odd == 2 ? -30 : r->odd == 3 ? -60 : 25);
            *x = (float)v;
        }
    }
}

/* --- errors --- */

struct error {
    double worst, squares;
    int count;
};

static void judge(struct error *e, double got, long double want, long double size)
{
    const long double off = fabsl((long double)got - want) - 0x1p-150L;
    const double u = size > 0 && off > 0 ? (double)(off / size * 0x1p24L) : 0;
    e->worst = u > e->worst ? u : e->worst;
    e->squares += u * u;
    e->count++;
}

/* A CPU BLAS: chains over blocks of k, added to C one after the other. */
static float blocked(const float *a, const float *b, int k)
{
    float c = 0;
    for (int l0 = 0; l0 < k; l0 += 384) {
        float sum = 0;
        for (int l = l0; l < l0 + 384 && l < k; l++)
            sum = fmaf(a[l], b[l], sum);
        c += sum;
    }
    return c;
}

static double rms(const struct error *e)
{
    return sqrt(e->squares / e->count);
}

static void compare(const struct x3_problem *p, const float *c, struct error *ours,
                    struct error *cpu)
{
    for (int i = 0; i < p->m; i++)
        for (int j = 0; j < p->n; j++) {
            const float *a = p->a + (size_t)i * (size_t)p->k, *b = p->b + (size_t)j * (size_t)p->k;
            long double want = 0, size = 0;
            for (int l = 0; l < p->k; l++) {
                want += (long double)a[l] * (long double)b[l];
                size += fabsl((long double)a[l] * (long double)b[l]);
            }
            if (size >= FLT_MAX)
                continue;
            judge(ours, (double)c[i * p->n + j], want, size);
            judge(cpu, (double)blocked(a, b, p->k), want, size);
        }
}

/* Products of one recipe, a few at a time, so that the largest errors of both sides can be
 * compared. */
static bool kept(uint64_t seed, bool tell)
{
    static float a[SIDE * K_MAX], b[SIDE * K_MAX], c[SIDE * SIDE];
    struct error ours = {0}, cpu = {0};
    struct tb_x3_guard guard;
    int paths[4] = {0};
    state = seed * 2654435761u + 88172645463325252u;
    const struct recipe ra = random_recipe();
    struct recipe rb = random_recipe();
    const int k = pick(3) ? TB_X3_LEAST + pick(400) : TB_X3_LEAST + pick(K_MAX - TB_X3_LEAST);
    if (pick(2))
        rb = ra;
    for (int t = 0; t < 3; t++) {
        const struct x3_problem p = {SIDE, SIDE, k, a, b};
        fill(a, k, &ra, false);
        fill(b, k, &rb, true);
        const enum tb_x3_path path = x3_model_path(&p, &guard);
        paths[path]++;
        if (path == TB_X3_SIMT)
            continue; /* the plain kernel, with tests of its own */
        x3_model(&p, path, c);
        compare(&p, c, &ours, &cpu);
    }
    if (ours.count == 0)
        return true;
    const bool good = (ours.worst <= 4 || ours.worst <= 1.25 * cpu.worst) &&
                      (rms(&ours) <= 1 || rms(&ours) <= 1.25 * rms(&cpu));
    if (!good || tell)
        fprintf(stderr,
                "seed %llu k %d paths %d/%d/%d kinds %d %d grade %d %d rows %d %d zeros %d %d odd "
                "%d %d phi %.1f %.1f: rms %.2f "
                "max %.2f, blocked rms %.2f max %.2f%s\n",
                (unsigned long long)seed, k, paths[1], paths[2], paths[3], ra.kind, rb.kind,
                ra.grade, rb.grade, ra.rows, rb.rows, ra.zeros, rb.zeros, ra.odd, rb.odd, ra.phi,
                rb.phi, rms(&ours), ours.worst, rms(&cpu), cpu.worst, good ? "" : " BROKEN");
    return good;
}

/* More with TB_X3_SEEDS=first,count in the environment. */
Test(x3, no_error_is_larger_than_that_of_a_cpu_blas)
{
    unsigned long long first = 1, count = 60;
    const char *const more = getenv("TB_X3_SEEDS");
    int broken = 0;
    if (more)
        cr_assert_eq(sscanf(more, "%llu,%llu", &first, &count), 2);
    for (uint64_t seed = first; seed < first + count; seed++)
        broken += !kept(seed, more != NULL);
    cr_assert_eq(broken, 0);
}
