# The tileblas command. It contains the library's own parts, so that `tileblas info` shows what a program
# would get, and is linked with neither of the two libraries.
bin_PROGRAMS += tools/tileblas
tools_tileblas_SOURCES = \
	tools/tileblas.c tools/machine.c tools/machine.h tools/scan.c tools/scan.h \
	tools/binary.c tools/binary.h tools/libpath.c tools/libpath.h tools/doors.c tools/doors.h \
	tools/library.c tools/library.h tools/rank.c tools/rank.h tools/report.c tools/report.h \
	tools/tune.c tools/tune.h
tools_tileblas_CFLAGS = $(strict_cflags)
tools_tileblas_CPPFLAGS = $(AM_CPPFLAGS) \
	-DTB_BINDIR='"$(bindir)"' -DTB_LIBDIR='"$(libdir)"'
tools_tileblas_LDADD = libtbwhole.la -lm

# What `tileblas report` starts; in the build tree it lies beside the command.
reportdir = $(libdir)/libtileblas
dist_report_DATA = tools/report-run.py
all-local:
	@cmp -s $(srcdir)/tools/report-run.py tools/report-run.py || cp $(srcdir)/tools/report-run.py tools/report-run.py
distclean-local:
	test -e Makefile.am || rm -f tools/report-run.py

# Its tests: the reader of files, the manual against the tables, the command from the outside.
EXTRA_DIST += tests/unit/manual.sh tests/abi/tools.sh
TESTS += tests/unit/manual.sh tests/abi/tools.sh
if HAVE_CRITERION
check_PROGRAMS += tests/unit/test_tools
TESTS += tests/unit/test_tools
tests_unit_test_tools_SOURCES = tests/unit/test_tools.c tools/binary.c tools/doors.c
tests_unit_test_tools_CPPFLAGS = $(AM_CPPFLAGS)
tests_unit_test_tools_CFLAGS = $(test_cflags)
tests_unit_test_tools_LDADD = $(CRITERION_LIBS)
endif
