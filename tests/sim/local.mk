# The simulated device, and the tests that run the real plan, pool and execution on it. libtbsim.la takes the
# place of the device of this build: it defines tb_dev().
check_LTLIBRARIES += libtbsim.la
libtbsim_la_CFLAGS = $(AM_CFLAGS)
libtbsim_la_SOURCES = tests/sim/dev_sim.c tests/sim/dev_sim.h tests/sim/ref_gemm.c tests/sim/ref_gemm.inc

sim_support = tests/sim/product.c tests/sim/product.h
sim_libs = libtbcore.la libtbsim.la

check_PROGRAMS += tests/sim/test_exec_threads
TESTS += tests/sim/test_exec_threads
tests_sim_test_exec_threads_SOURCES = tests/sim/test_exec_threads.c $(sim_support)
tests_sim_test_exec_threads_LDADD = $(sim_libs) -lm

if HAVE_CRITERION
sim_tests = tests/unit/test_plan tests/sim/test_exec tests/sim/test_detectors
check_PROGRAMS += $(sim_tests)
TESTS += $(sim_tests)
tests_unit_test_plan_CFLAGS = $(test_cflags)
tests_unit_test_plan_LDADD = $(test_libs)
tests_sim_test_exec_SOURCES = tests/sim/test_exec.c $(sim_support)
tests_sim_test_exec_CFLAGS = $(test_cflags)
tests_sim_test_exec_LDADD = $(sim_libs) $(CRITERION_LIBS) -lm
tests_sim_test_detectors_SOURCES = tests/sim/test_detectors.c $(sim_support)
tests_sim_test_detectors_CFLAGS = $(test_cflags)
tests_sim_test_detectors_LDADD = $(sim_libs) $(CRITERION_LIBS) -lm
endif
