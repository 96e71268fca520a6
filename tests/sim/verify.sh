# SPDX-License-Identifier: BSD-3-Clause
# TILEBLAS_VERIFY: right results pass, a planted wrong one does not, and the log says so.
program=$TB_BUILDDIR/tests/sim/test_verify
export OPENBLAS_NUM_THREADS=1 # the thread sanitizer does not see how OpenBLAS's threads wait for each other
"$program" right || exit 1
for number in 0 1 2 3 4 5 6 7 8 9 12 $(seq 16 51); do
    lines=$(TILEBLAS_VERBOSE=1 "$program" wrong $number 2>&1) || { echo "$lines"; exit 1; }
    for text in 'failed the check' 'GPU switched off'; do
        grep -q "$text" <<< "$lines" || { echo "no line '$text': $lines"; exit 1; }
    done
done
