/* SPDX-License-Identifier: BSD-3-Clause
 * Slow CPUs, as found by timing copies. Decides which CPUs our threads keep off; touches the
 * affinity of threads of ours only. Called by exec.c. */
#include "pace.h"

#include <sched.h>

enum { SHUNNED_MAX = 16, OTHERS = 4 /* copies that were not slow meanwhile */ };
static const int64_t least_ns = 1000000;
static const size_t least_bytes = 256 << 10;

static struct tb_pace_usual usual_here;
static atomic_int shunned[SHUNNED_MAX]; /* CPU + 1 */
static atomic_uint count;               /* of those, never less */

bool pace_judge(struct tb_pace *self, struct tb_pace_usual *usual, size_t bytes, int64_t ns,
                int cpu)
{
    if (bytes < least_bytes || cpu < 0)
        return false;
    const int64_t ps = (int64_t)((double)ns * 1e3 / (double)bytes);
    const int64_t known = atomic_load_explicit(&usual->ps, memory_order_relaxed);
    /* Down fast and up slowly: slow copies do not become the usual ones. Nothing is lost where two
     * threads write at once. */
    const int64_t more = ps - known < known ? ps - known : known;
    const int64_t next = known == 0 ? ps : known + (more < 0 ? more / 4 : more / 32);
    atomic_store_explicit(&usual->ps, next > 0 ? next : 1, memory_order_relaxed);
    if (known == 0 || ps < 4 * known || ns < least_ns) {
        atomic_fetch_add_explicit(&usual->fair, 1, memory_order_relaxed);
        self->slow = false;
        return false;
    }
    const unsigned fair = atomic_load_explicit(&usual->fair, memory_order_relaxed);
    const bool again = self->slow && self->cpu == cpu && fair - self->fair >= OTHERS;
    self->slow = !again;
    self->cpu = cpu;
    self->fair = fair;
    return again;
}

/* Of the CPUs that the thread may use a half at least stays, whoever else keeps it off some. */
void pace_follow(struct tb_pace *self)
{
    const unsigned known = atomic_load_explicit(&count, memory_order_acquire);
    cpu_set_t may;
    if (self->seen == known || sched_getaffinity(0, sizeof may, &may) != 0)
        return;
    const int before = CPU_COUNT(&may);
    for (unsigned i = 0; i < known && i < SHUNNED_MAX; i++) {
        const int cpu = atomic_load(&shunned[i]) - 1;
        if (cpu >= 0)
            CPU_CLR((size_t)cpu, &may);
    }
    self->seen = known;
    if (CPU_COUNT(&may) < before && 2 * CPU_COUNT(&may) >= before)
        (void)sched_setaffinity(0, sizeof may, &may);
}

/* An eighth of the CPUs of this thread at most, and one at least where there are several. */
static void shun(int cpu)
{
    cpu_set_t may;
    if (sched_getaffinity(0, sizeof may, &may) != 0)
        return;
    unsigned known = atomic_load(&count);
    for (unsigned i = 0; i < known && i < SHUNNED_MAX; i++)
        if (atomic_load(&shunned[i]) == cpu + 1)
            return;
    const unsigned cpus = (unsigned)CPU_COUNT(&may) + known;
    const unsigned most = cpus < 4 ? 0 : cpus < 16 ? 1 : cpus / 8;
    if (known < most && known < SHUNNED_MAX &&
        atomic_compare_exchange_strong(&shunned[known], &(int){0}, cpu + 1))
        atomic_store_explicit(&count, known + 1, memory_order_release);
}

void pace_note(struct tb_pace *self, size_t bytes, int64_t ns)
{
    const int cpu = ns >= least_ns ? sched_getcpu() : 0;
    if (pace_judge(self, &usual_here, bytes, ns, cpu))
        shun(cpu);
    pace_follow(self);
}

void pace_forget(void)
{
    for (int i = 0; i < SHUNNED_MAX; i++)
        atomic_store(&shunned[i], 0);
    atomic_store(&count, 0);
    atomic_store(&usual_here.ps, 0);
    atomic_store(&usual_here.fair, 0);
}
