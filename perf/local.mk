# The measuring programs: built by `make perf` only, never installed. `make check` compiles nothing of them but
# `bench`, to see that the case files parse.
perf_programs = perf/bench perf/accuracy perf/ladder
EXTRA_PROGRAMS = $(perf_programs)
perf_common = perf/perf.h perf/data.c perf/gpu.c perf/table.c perf/cublas.c perf/limits.c
perf_bench_SOURCES = perf/bench.c perf/cases.c perf/host.c perf/kernel.c $(perf_common)
perf_bench_CFLAGS = $(strict_cflags)
perf_bench_LDADD = libtbwhole.la -lm
perf_accuracy_SOURCES = perf/accuracy.c $(perf_common)
perf_accuracy_CFLAGS = $(strict_cflags)
perf_accuracy_LDADD = libtbwhole.la -lm
perf_ladder_SOURCES = perf/ladder.c $(perf_common) kernels/ladder/rungs.def
perf_ladder_CFLAGS = $(strict_cflags)
perf_ladder_LDADD = libtbwhole.la -lm
