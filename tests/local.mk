# Tests. Unit tests are Criterion programs of the same name as the module; tests that Criterion cannot host
# (threads under TSan, fork, exit) are plain main() programs; scripts do the rest. 77 is a skip.
TEST_EXTENSIONS = .sh
SH_LOG_COMPILER = $(LOG_COMPILER) /bin/bash
if SANITIZE
# A finding in a child process of a test must not hide behind the status of its parent.
LOG_COMPILER = /bin/bash $(srcdir)/tests/lib/sanitized.sh
endif
EXTRA_DIST += tests/lib/sanitized.sh
AM_TESTS_ENVIRONMENT = \
	export TB_SRCDIR='$(abs_top_srcdir)' TB_BUILDDIR='$(abs_top_builddir)' CC='$(CC)' FC='$(FC)' \
	  TB_SANITIZE='$(TB_SANITIZE)';

test_cflags = $(AM_CFLAGS) $(CRITERION_CFLAGS)
test_libs = libtbwhole.la $(CRITERION_LIBS) -lm

if HAVE_CRITERION
unit_tests = tests/unit/test_call tests/unit/test_conf tests/unit/test_fit tests/unit/test_kernel \
	tests/unit/test_pace tests/unit/test_profile tests/unit/test_route tests/unit/test_tuned tests/unit/test_x3
check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)
tests_unit_test_call_CFLAGS = $(test_cflags)
tests_unit_test_call_LDADD = $(test_libs)
tests_unit_test_conf_CFLAGS = $(test_cflags)
tests_unit_test_conf_LDADD = $(test_libs)
tests_unit_test_fit_CFLAGS = $(test_cflags)
tests_unit_test_fit_LDADD = $(test_libs)
tests_unit_test_kernel_CFLAGS = $(test_cflags)
tests_unit_test_kernel_LDADD = $(test_libs)
tests_unit_test_pace_CFLAGS = $(test_cflags)
tests_unit_test_pace_LDADD = $(test_libs)
tests_unit_test_profile_CFLAGS = $(test_cflags)
tests_unit_test_profile_LDADD = $(test_libs)
tests_unit_test_route_CFLAGS = $(test_cflags)
tests_unit_test_route_LDADD = $(test_libs)
tests_unit_test_tuned_CFLAGS = $(test_cflags)
tests_unit_test_tuned_LDADD = $(test_libs)
tests_unit_test_x3_SOURCES = tests/unit/test_x3.c tests/lib/x3_model.c tests/lib/x3_model.h
tests_unit_test_x3_CFLAGS = $(test_cflags)
tests_unit_test_x3_LDADD = $(test_libs)
endif

include $(srcdir)/tests/sim/local.mk
include $(srcdir)/tests/device.mk
include $(srcdir)/tests/gpu/local.mk
include $(srcdir)/tests/abi/local.mk
include $(srcdir)/tests/clients/local.mk

# A script and a program of one name would share a log, and one of them would never run.
check-local:
	@twice=`printf '%s\n' $(TEST_LOGS) | sort | uniq -d`; \
	if test -n "$$twice"; then echo "several tests share $$twice"; exit 1; fi
