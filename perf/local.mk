# The measuring programs: built by `make perf` only, never installed, no part of the library. Of all this
# `make check` builds only the bench, to see that it compiles and that the case files parse.
perf_common = perf/perf.h perf/data.c perf/gpu.c perf/table.c perf/cublas.c perf/limits.c
perf_cases = perf/cases/crossover.txt perf/cases/host.txt perf/cases/kernel.txt \
	perf/cases/quick-cpu.txt perf/cases/quick-gpu.txt
perf_scripts = perf/compare.py perf/ladder-table.py perf/report.py perf/timeline.py perf/triton-matmul.py perf/quick.sh

EXTRA_PROGRAMS = perf/accuracy perf/choice perf/ladder perf/sweep perf/tune
check_PROGRAMS += perf/bench
perf_bench_SOURCES = perf/bench.c perf/cases.c perf/host.c perf/kernel.c perf/triton.c $(perf_common)
perf_bench_CFLAGS = $(strict_cflags)
perf_bench_LDADD = libtbwhole.la -lm
perf_accuracy_SOURCES = perf/accuracy.c $(perf_common)
perf_accuracy_CFLAGS = $(strict_cflags)
perf_accuracy_LDADD = libtbwhole.la -lm
perf_tune_SOURCES = perf/tune.c perf/cases.c perf/kernel.c perf/triton.c $(perf_common)
perf_tune_CFLAGS = $(strict_cflags)
perf_tune_LDADD = libtbwhole.la -lm
perf_choice_SOURCES = perf/choice.c tools/rank.c tools/rank.h
perf_choice_CFLAGS = $(strict_cflags)
perf_choice_LDADD = libtbwhole.la -lm
perf_sweep_SOURCES = perf/sweep.c
perf_sweep_CFLAGS = $(strict_cflags)
perf_sweep_LDADD = -lm
perf_ladder_SOURCES = perf/ladder.c $(perf_common)
perf_ladder_CFLAGS = $(strict_cflags)
perf_ladder_LDADD = libtbwhole.la -lm

TESTS += perf/check.sh
# Built by hand on a GPU host (NOTES.md has the commands).
EXTRA_DIST += perf/NOTES.md perf/bench_cu.h perf/bench_gemm16.c perf/bench_gemm64.c perf/bench_sgemm.c perf/check_gemm16.cu \
	perf/check_sgemm.cu perf/clock.cu perf/probe_rounding.cu
EXTRA_DIST += perf/README.md kernels/ladder/README.md perf/check.sh perf/check.csv $(perf_cases) $(perf_scripts) $(ladder_sources)

ladder_sources = kernels/ladder/ladder.cu kernels/ladder/ladder.cuh kernels/ladder/limits.cu \
	kernels/ladder/rungs.def kernels/ladder/micro.cu \
	kernels/ladder/f32_1_naive.cu kernels/ladder/f32_2_block.cu kernels/ladder/f32_3_register.cu \
	kernels/ladder/f32_4_swap.cu kernels/ladder/f32_5_warp.cu kernels/ladder/f32_6_async.cu \
	kernels/ladder/f32_7_swizzle.cu kernels/ladder/f32_8_group.cu \
	kernels/ladder/f16_1_naive.cu kernels/ladder/f16_2_block.cu kernels/ladder/f16_3_register.cu \
	kernels/ladder/f16_4_swap.cu kernels/ladder/f16_5_mma.cu kernels/ladder/f16_6_async.cu \
	kernels/ladder/f16_7_swizzle.cu kernels/ladder/f16_8_group.cu kernels/ladder/f16_9_wgmma.cu \
	kernels/ladder/transpose_1_naive.cu kernels/ladder/transpose_2_tiled.cu \
	kernels/ladder/transpose_3_padded.cu kernels/ladder/transpose_4_swizzled.cu kernels/ladder/transpose_5_bands.cu \
	kernels/ladder/transpose_6_ahead.cu kernels/ladder/transpose_7_vector.cu \
	kernels/ladder/reduce_1_tree.cu kernels/ladder/reduce_2_shuffle.cu \
	kernels/ladder/stencil_1_naive.cu kernels/ladder/stencil_2_halo.cu \
	kernels/ladder/conv_1_naive.cu kernels/ladder/conv_2_halo.cu

perf_programs = perf/bench perf/accuracy perf/choice perf/ladder perf/sweep perf/tune
if HAVE_CUDA
perf_fatbins = perf/limits.fatbin perf/ladder.fatbin
CLEANFILES += $(perf_fatbins)
# The rungs use cp.async and the tensor cores: no image older than sm_80.
$(perf_fatbins): $(ladder_sources)
	$(AM_V_GEN)$(MKDIR_P) perf && $(NVCC) -std=c++17 $(NVCCFLAGS) \
	  $$(echo '$(TB_GENCODE)' | sed 's/-gencode arch=compute_75,code=compute_75//') -fatbin -o $@ \
	  $(srcdir)/kernels/ladder/$(basename $(@F)).cu
endif

# Everything in perf/ of the build folder; the sources of the rungs lie beside it, to count their lines.
perf: all $(perf_programs) $(perf_fatbins)
	$(AM_V_at)$(MKDIR_P) perf/rungs && cp -p $(srcdir)/kernels/ladder/*.cu perf/rungs/ && \
	  cp -p $(srcdir)/perf/triton-matmul.py perf/rungs/
# A few minutes on a GPU host, under two without a GPU. Says nothing about speed: only that all of it works.
perf-quick: perf
	/bin/bash $(srcdir)/perf/quick.sh '$(abs_top_srcdir)' '$(abs_top_builddir)'
# One HTML page out of the newest results.
perf-report: perf
	python3 $(srcdir)/perf/report.py -o perf/report.html perf/*.csv
.PHONY: perf perf-quick perf-report

CLEANFILES += perf/accuracy perf/choice perf/ladder perf/sweep perf/tune perf/report.html
clean-perf:
	rm -rf perf/rungs perf/quick*.csv
.PHONY: clean-perf
