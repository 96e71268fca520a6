// SPDX-License-Identifier: BSD-3-Clause
// The clock of a multiprocessor as it is now: cycles and nanoseconds that some 20 us take. bench_gemm64 asks after
// each turn, since power decides how fast the device runs.
extern "C" __global__ void spin(long long *out)
{
    long long ns0, ns1;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns0));
    const long long c0 = clock64();
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns1));
    while (ns1 - ns0 < 20000);
    out[0] = clock64() - c0;
    out[1] = ns1 - ns0;
}
