# The CPU side is part of the core.
libtbcore_la_SOURCES += \
	fallback/fallback.h fallback/base.h \
	fallback/elf.c fallback/elf.h \
	fallback/find.c \
	fallback/half.c fallback/half.h \
	fallback/object.c fallback/object.h \
	fallback/openblas.c \
	fallback/xerbla.c

if HAVE_CRITERION
fallback_tests = tests/unit/test_fallback_half tests/unit/test_fallback_call
check_PROGRAMS += $(fallback_tests)
TESTS += $(fallback_tests)
tests_unit_test_fallback_half_CFLAGS = $(test_cflags)
tests_unit_test_fallback_half_LDADD = $(test_libs)
tests_unit_test_fallback_call_CFLAGS = $(test_cflags)
tests_unit_test_fallback_call_LDADD = $(test_libs)
# Its xerbla_ is to be found by name.
tests_unit_test_fallback_call_LDFLAGS = $(AM_LDFLAGS) -Wl,--export-dynamic-symbol=xerbla_
endif

# Which CPU BLAS a name leads to: a program, and the stand-in libraries it is run with. These are linked
# here rather than by libtool: they must have just these names, dependencies and nothing of a sanitizer.
EXTRA_DIST += tests/abi/resolve.h tests/abi/stub_blas.c tests/abi/stub_ours.c \
	tests/abi/stub_plugin.c tests/abi/stub_wheel.c
if !SANITIZE
check_PROGRAMS += tests/abi/resolve
TESTS += tests/abi/resolve
tests_abi_resolve_CPPFLAGS = $(AM_CPPFLAGS) -DTB_STUB_DIR='"$(abs_builddir)/tests/abi"'
EXTRA_tests_abi_resolve_DEPENDENCIES = $(resolve_stubs)
CLEANFILES += $(resolve_stubs)

stub = tests/abi/libstub_
resolve_stubs = $(stub)ours.so $(stub)second.so $(stub)wheel.so $(blas_stubs) \
	$(stub)reference_ours.so $(plugin_stubs)
blas_stubs = $(stub)plain.so $(stub)other.so $(stub)reference.so $(stub)both.so $(stub)wide.so \
	$(stub)name64.so $(stub)mkl.so $(stub)version21.so $(stub)version31.so
plugin_stubs = $(stub)plugin.so $(stub)plugin_wide.so $(stub)plugin_ours.so $(stub)constructor.so

stub_source = $(top_srcdir)/tests/abi/stub_
stub_link = $(AM_V_CCLD)$(MKDIR_P) tests/abi && $(CC) $(AM_CPPFLAGS) $(CPPFLAGS) $(AM_CFLAGS) \
	-fvisibility=default $(CFLAGS) -shared -fPIC -Wl,-soname,$(@F) -o $@
stub_near = -Ltests/abi -Wl,-rpath,'$$ORIGIN'

# The archive gives only what find.c needs.
$(stub)ours.so: $(stub_source)ours.c tests/abi/resolve.h libtbcore.la
	$(stub_link) -fvisibility=hidden -Wl,-z,defs -Wl,-z,nodelete $(stub_source)ours.c .libs/libtbcore.a -lm
$(stub)second.so: $(stub_source)ours.c
	$(stub_link) -DSTUB_SECOND $(stub_source)ours.c
$(stub)wheel.so: $(stub_source)wheel.c
	$(stub_link) $(stub_source)wheel.c

$(blas_stubs): $(stub_source)blas.c
	$(stub_link) $(stub_flags) $(stub_source)blas.c
$(stub)plain.so: stub_flags = -DSTUB_PLAIN
$(stub)reference.so: stub_flags = -DSTUB_REFERENCE
$(stub)both.so: stub_flags = -DSTUB_REFERENCE -DSTUB_VERSION='"0.3.21"'
$(stub)wide.so: stub_flags = -DSTUB_WIDE
$(stub)mkl.so: stub_flags = -DSTUB_MKL
$(stub)version21.so: stub_flags = -DSTUB_VERSION='"0.3.21"'
$(stub)version31.so: stub_flags = -DSTUB_VERSION='"0.3.31.dev"'
$(stub)reference_ours.so: $(stub_source)blas.c $(stub)second.so
	$(stub_link) -DSTUB_REFERENCE -DSTUB_OVER_OURS $(stub_source)blas.c $(stub_near) -lstub_second

$(stub)plugin.so: $(stub)plain.so
$(stub)plugin_wide.so: $(stub)wide.so
$(stub)plugin_ours.so: $(stub)second.so
$(stub)constructor.so: $(stub)plain.so
$(plugin_stubs): $(stub_source)plugin.c
	$(stub_link) $(stub_flags) $(stub_source)plugin.c $(stub_near) $(stub_needs)
$(stub)plugin.so: stub_needs = -lstub_plain
$(stub)plugin_wide.so: stub_needs = -lstub_wide
$(stub)plugin_ours.so: stub_needs = -lstub_second
$(stub)constructor.so: stub_needs = -lstub_plain
$(stub)constructor.so: stub_flags = -DSTUB_CONSTRUCTOR
endif
