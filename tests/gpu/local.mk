# Tests on a real GPU, apart from `make check`: `make check-gpu` here, or check.sh over a staged folder elsewhere.
EXTRA_DIST += tests/gpu/check.sh tests/gpu/wheels.py tests/gpu/kernels.c tests/gpu/device.c tests/gpu/together.c tests/gpu/operands.c
if HAVE_CUDA
check_PROGRAMS += tests/gpu/kernels
tests_gpu_kernels_CPPFLAGS = $(AM_CPPFLAGS) -isystem $(CUDA_INCLUDE)
tests_gpu_kernels_LDADD = libtbwhole.la -lm
if HAVE_OPENBLAS
check_PROGRAMS += tests/gpu/edge
tests_gpu_edge_SOURCES = tests/abi/edge.c tests/abi/ref.h
tests_gpu_edge_LDADD = -lopenblas -lm
check_PROGRAMS += tests/gpu/together
tests_gpu_together_LDADD = -lopenblas
check_PROGRAMS += tests/gpu/operands
tests_gpu_operands_LDADD = -lopenblas -lm
endif
endif
check-gpu: all $(check_PROGRAMS)
	$(srcdir)/tests/gpu/check.sh $(abs_builddir)
