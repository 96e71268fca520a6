# SPDX-License-Identifier: BSD-3-Clause
# Calls with operands on a device: computed there, by a CPU that was asked for, and without a device of ours.
# The thread sanitizer does not see how the threads of OpenBLAS wait for each other.
export OPENBLAS_NUM_THREADS=1
for mode in gpu cpu none; do
    "$TB_BUILDDIR/tests/sim/test_pointers" $mode || exit 1
done
