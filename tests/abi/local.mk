# What programs see of the two libraries: names, argument lists, linking, preloading, errors, edge rules. The scripts
# build their clients themselves, as a user would.
abi_tests = \
	tests/abi/cost.sh tests/abi/edge.sh tests/abi/exports.sh tests/abi/fork.sh tests/abi/includes.sh \
	tests/abi/link.sh tests/abi/overflow.sh tests/abi/preload.sh tests/abi/prototypes.sh tests/abi/report.sh \
	tests/abi/signatures.sh tests/abi/threads.sh tests/abi/tune.sh tests/abi/wide.sh tests/abi/xerbla.sh
TESTS += $(abi_tests)
EXTRA_DIST += $(abi_tests) tests/abi/lib.sh tests/abi/ref.h \
	tests/abi/cost.c tests/abi/edge.c tests/abi/fork.c tests/abi/link.c tests/abi/link.f90 \
	tests/abi/overflow.c tests/abi/plugin.c tests/abi/preload.c tests/abi/prototypes.c \
	tests/abi/signatures.c tests/abi/threads.c tests/abi/wide.c tests/abi/wide_blas.c tests/abi/xerbla.c
