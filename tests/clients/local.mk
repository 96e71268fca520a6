# Unmodified programs under libtileblas-sim.so, the preload library on the simulated device. Every test
# exits 77 where its program is not installed. Plain builds only: a sanitizer's run-time library would
# have to be preloaded into programs that were built without it.
# The scripts find the library as $TB_SIM, else as $TB_BUILDDIR/.libs/libtileblas-sim.so.
TEST_EXTENSIONS += .py .R .m
PY_LOG_COMPILER = /bin/sh $(srcdir)/tests/clients/run-client.sh
R_LOG_COMPILER = $(PY_LOG_COMPILER)
M_LOG_COMPILER = $(PY_LOG_COMPILER)

client_tests = \
	tests/clients/blas-testers.sh \
	tests/clients/hpcc.sh \
	tests/clients/lapack-testers.sh \
	tests/clients/numpy-ops.py \
	tests/clients/octave-ops.m \
	tests/clients/r-ops.R \
	tests/clients/scipy-ops.py \
	tests/clients/wheel.sh

if !SANITIZE
TESTS += $(client_tests)
endif

EXTRA_DIST += $(client_tests) \
	tests/clients/compare.awk tests/clients/run-client.sh \
	tests/clients/spoil.c tests/clients/spoil.sh tests/clients/stub.c \
	tests/lib/client.sh \
	scripts/check scripts/common.sh scripts/demo scripts/demo.py .ci/run

# The test of these tests; minutes, so not a part of `make check`.
check-spoil: libtileblas-sim.la
	CC='$(CC)' TB_BUILDDIR='$(abs_top_builddir)' /bin/sh $(srcdir)/tests/clients/spoil.sh
# The whole LAPACK suite.
check-lapack: libtileblas-sim.la
	CC='$(CC)' TB_BUILDDIR='$(abs_top_builddir)' /bin/sh $(srcdir)/tests/clients/lapack-testers.sh --all
