# The simulated device, and the engine on it. The device takes the place of libtbdev.la: as a library for
# unmodified programs (libtileblas-sim.so, the preload library otherwise), and in test programs.
check_LTLIBRARIES += libtbsimdev.la libtbsim.la libtileblas-sim.la
libtbsimdev_la_CFLAGS = $(AM_CFLAGS)
libtbsimdev_la_SOURCES = tests/sim/dev_sim.c tests/sim/dev_sim.h tests/sim/ref_gemm.c tests/sim/ref_gemm.inc \
	tests/sim/ref_triangle.c
libtbsim_la_SOURCES =
libtbsim_la_LIBADD = libtbcore.la libtbsimdev.la

libtileblas_sim_la_SOURCES = shim/trampolines_preload.S
libtileblas_sim_la_LIBADD = libtbshim.la libtbcore.la libtbsimdev.la
libtileblas_sim_la_LDFLAGS = $(door_ldflags) -module -avoid-version -rpath /nowhere \
	-Wl,--version-script=shim/preload.map
EXTRA_libtileblas_sim_la_DEPENDENCIES = shim/preload.map

sim_libs = libtbsim.la -lm

# The command, on the simulated device.
check_PROGRAMS += tests/sim/tileblas-sim
tests_sim_tileblas_sim_SOURCES = $(tools_tileblas_SOURCES)
tests_sim_tileblas_sim_CPPFLAGS = $(tools_tileblas_CPPFLAGS)
tests_sim_tileblas_sim_CFLAGS = $(AM_CFLAGS)
tests_sim_tileblas_sim_LDADD = $(sim_libs)

sim_support = tests/sim/product.c tests/sim/product.h

check_PROGRAMS += tests/sim/test_exec_threads tests/sim/test_pointers tests/sim/test_verify tests/sim/test_trace \
	tests/sim/test_clock
TESTS += tests/sim/test_exec_threads tests/sim/test_clock tests/sim/pointers.sh tests/sim/verify.sh tests/sim/trace.sh
tests_sim_test_exec_threads_SOURCES = tests/sim/test_exec_threads.c $(sim_support)
tests_sim_test_exec_threads_LDADD = $(sim_libs)

tests_sim_test_pointers_LDADD = $(sim_libs)
tests_sim_test_verify_LDADD = $(sim_libs)
tests_sim_test_trace_LDADD = $(sim_libs)
check_PROGRAMS += tests/sim/test_projection tests/sim/test_shortage
TESTS += tests/sim/test_projection tests/sim/test_shortage
tests_sim_test_projection_LDADD = $(sim_libs)
tests_sim_test_shortage_SOURCES = tests/sim/test_shortage.c $(sim_support)
tests_sim_test_shortage_LDADD = $(sim_libs)
wrap = -Wl,--wrap=
tests_sim_test_shortage_LDFLAGS = $(wrap)malloc $(wrap)calloc $(wrap)realloc $(wrap)free $(wrap)strdup $(wrap)mmap \
	$(wrap)pthread_create $(wrap)fopen $(wrap)opendir $(wrap)aligned_alloc
tests_sim_test_clock_SOURCES = tests/sim/test_clock.c tests/sim/clock.c tests/sim/clock.h
tests_sim_test_clock_LDADD = $(sim_libs)

if HAVE_CRITERION
sim_tests = tests/unit/test_plan tests/sim/test_exec tests/sim/test_detectors tests/sim/test_level3 tests/sim/test_rank
check_PROGRAMS += $(sim_tests)
TESTS += $(sim_tests)
tests_unit_test_plan_CFLAGS = $(test_cflags)
tests_unit_test_plan_LDADD = $(test_libs)
tests_sim_test_exec_SOURCES = tests/sim/test_exec.c $(sim_support)
tests_sim_test_exec_CFLAGS = $(test_cflags)
tests_sim_test_exec_LDADD = $(sim_libs) $(CRITERION_LIBS)
tests_sim_test_level3_SOURCES = tests/sim/test_level3.c $(sim_support)
tests_sim_test_level3_CFLAGS = $(test_cflags)
tests_sim_test_level3_LDADD = $(sim_libs) $(CRITERION_LIBS)
tests_sim_test_detectors_SOURCES = tests/sim/test_detectors.c $(sim_support)
tests_sim_test_detectors_CFLAGS = $(test_cflags)
tests_sim_test_detectors_LDADD = $(sim_libs) $(CRITERION_LIBS)
tests_sim_test_rank_SOURCES = tests/sim/test_rank.c tools/rank.c tools/rank.h
tests_sim_test_rank_CFLAGS = $(test_cflags)
tests_sim_test_rank_LDADD = $(sim_libs) $(CRITERION_LIBS)
endif
EXTRA_DIST += tests/sim/pointers.sh tests/sim/verify.sh tests/sim/trace.sh tests/sim/timeline.py \
	tests/sim/test_exec.c tests/sim/test_detectors.c tests/sim/test_level3.c tests/sim/test_rank.c $(sim_support)
