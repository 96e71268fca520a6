# The device of the process: on a stand-in for the driver (make check), and on a real GPU (tests/gpu/device).
if HAVE_CUDA
fake_cuda = tests/abi/fake/libcuda.so.1
$(fake_cuda): $(srcdir)/tests/abi/fake_cuda.c
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(CC) -std=c11 $(TB_WARNINGS) $(CPPFLAGS) $(CFLAGS) -isystem $(CUDA_INCLUDE) \
	  -shared -fPIC -Wl,-soname,libcuda.so.1 -o $@ $(srcdir)/tests/abi/fake_cuda.c -pthread
CLEANFILES += $(fake_cuda)

check_PROGRAMS += tests/unit/test_device tests/gpu/device
TESTS += tests/unit/test_device
tests_unit_test_device_LDADD = libtbwhole.la -lm
EXTRA_tests_unit_test_device_DEPENDENCIES = $(fake_cuda)
tests_gpu_device_LDADD = libtbwhole.la -lm
endif
EXTRA_DIST += tests/abi/fake_cuda.c
