/* SPDX-License-Identifier: BSD-3-Clause
 * When a thread had better be on another CPU, and that it then goes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <criterion/criterion.h>
#include <sched.h>
#include "../../src/pace.h"

enum { MIB = 1 << 20, USUAL = 140000 }; /* ns for a MiB */

static bool judge(struct tb_pace *self, struct tb_pace_usual *usual, size_t bytes, int64_t ns,
                  int cpu)
{
    return pace_judge(self, usual, bytes, ns, cpu);
}

/* Another thread goes on at the usual pace. */
static void others(struct tb_pace_usual *usual)
{
    struct tb_pace other = {0};
    for (int i = 0; i < 6; i++)
        cr_assert_not(judge(&other, usual, 2 * MIB, 2 * USUAL, 9));
}

Test(pace, twice_in_a_row)
{
    struct tb_pace self = {0};
    struct tb_pace_usual usual = {0};
    for (int i = 0; i < 100; i++)
        cr_assert_not(judge(&self, &usual, 2 * MIB, 2 * USUAL, 3));
    cr_assert_not(judge(&self, &usual, 2 * MIB, 20 * USUAL, 3), "once may be anything");
    cr_assert_not(judge(&self, &usual, 2 * MIB, 2 * USUAL, 3));
    cr_assert_not(judge(&self, &usual, 2 * MIB, 20 * USUAL, 3));
    others(&usual);
    cr_assert_not(judge(&self, &usual, 2 * MIB, 20 * USUAL, 4), "two CPUs, once each");
    others(&usual);
    cr_assert(judge(&self, &usual, 2 * MIB, 20 * USUAL, 4));
    others(&usual);
    cr_assert_not(judge(&self, &usual, 2 * MIB, 20 * USUAL, 4), "it is told once");
}

/* Where nobody is faster it is the memory. */
Test(pace, slow_for_all)
{
    struct tb_pace threads[12] = {{0}};
    struct tb_pace_usual usual = {0};
    others(&usual);
    for (int i = 0; i < 1200; i++)
        cr_assert_not(judge(&threads[i % 12], &usual, 2 * MIB, 20 * USUAL, i % 12));
}

Test(pace, what_does_not_count)
{
    struct tb_pace self = {0};
    struct tb_pace_usual usual = {0};
    cr_assert_not(judge(&self, &usual, 2 * MIB, 2 * USUAL, 0));
    for (int i = 0; i < 10; i++) {
        cr_assert_not(judge(&self, &usual, 4096, 20000000, 0), "small pieces");
        cr_assert_not(judge(&self, &usual, MIB / 2, 900000, 0), "less than a millisecond");
        cr_assert_not(judge(&self, &usual, 2 * MIB, 7 * USUAL, 0), "three and a half times");
        cr_assert_not(judge(&self, &usual, 2 * MIB, 20000000, -1), "the CPU is not known");
        cr_assert_not(judge(&self, &usual, 2 * MIB, 2 * USUAL, 0));
    }
}

/* Slow copies do not become the usual ones, and a first slow one is forgotten. */
Test(pace, the_usual)
{
    struct tb_pace self = {0}, other = {0};
    struct tb_pace_usual usual = {0};
    int moved = 0;
    judge(&other, &usual, 2 * MIB, 30 * USUAL, 1);
    for (int i = 0; i < 40; i++)
        cr_assert_not(judge(&self, &usual, 2 * MIB, 2 * USUAL, 0));
    for (int i = 0; i < 24; i++) /* each of twelve threads in turn, one of them slow */
        moved += i % 12 == 5 ? judge(&other, &usual, 2 * MIB, 20 * USUAL, 1)
                             : judge(&self, &usual, 2 * MIB, 2 * USUAL, 0);
    cr_assert_eq(moved, 1);
    /* All slower for good: after a while that is how it is. */
    for (int i = 0; i < 200; i++)
        judge(&self, &usual, 2 * MIB, 12 * USUAL, i % 2);
    cr_assert_not(judge(&self, &usual, 2 * MIB, 12 * USUAL, 0));
    cr_assert_not(judge(&self, &usual, 2 * MIB, 12 * USUAL, 0));
}

/* Where there are CPUs enough the thread leaves; nobody is ever left without half of them. */
Test(pace, goes_elsewhere)
{
    cpu_set_t before, after;
    struct tb_pace self = {0};
    cr_assert_eq(sched_getaffinity(0, sizeof before, &before), 0);
    pace_note(&self, 2 * MIB, 2 * USUAL);
    for (int i = 0; i < 1000; i++) {
        struct tb_pace other = {0};
        for (int j = 0; j < 6; j++)
            pace_note(&other, 2 * MIB, 2 * USUAL);
        pace_note(&self, 2 * MIB, 400 * USUAL);
    }
    cr_assert_eq(sched_getaffinity(0, sizeof after, &after), 0);
    const int had = CPU_COUNT(&before), has = CPU_COUNT(&after);
    if (had < 4)
        cr_assert(CPU_EQUAL(&before, &after));
    else
        cr_assert(has < had && has >= had - (had < 16 ? 1 : had / 8), "%d of %d", has, had);
    pace_forget();
    (void)sched_setaffinity(0, sizeof before, &before);
}
