#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The test of the tests: every client test must fail, for the right reason, when one entry of dgemm's
# result is wrong (all of them), when something prints on stdout, and when nothing is caught (one each
# of those that look). A client that is not installed counts for nothing; if none is, this skips.

here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/client.sh"

need_sim
make_work
compile_shared "$here/spoil.c" "$work/spoil.so"
: >"$work/empty.c"
compile_shared "$work/empty.c" "$work/empty.so"
TB_BLAS_TYPES=d
TB_LAPACK_TYPES=d
TB_TIMEOUT=300
export TB_BLAS_TYPES TB_LAPACK_TYPES TB_TIMEOUT
tried=0
missed=

# must_fail REASON WHAT SCRIPT [ARGUMENT]: status 1, and the text of its complaint.
must_fail() {
    reason=$1
    what=$2
    shift 2
    script=$1
    shift
    sh "$here/$script" "$@" >"$work/out" 2>&1
    status=$?
    name=$(basename "${1:-$script}")
    if [ $status -eq 77 ]; then
        echo "  $what: $name: not installed"
        return
    fi
    tried=$((tried + 1))
    if [ $status -eq 1 ] && grep -Eq "$reason" "$work/out"; then
        echo "  $what: $name: found"
    else
        echo "  $what: $name: NOT FOUND, status $status"
        tail -5 "$work/out"
        missed="$missed $name"
    fi
}

TB_SPOIL=$work/spoil.so
TB_SPOIL_HOW=entry
export TB_SPOIL TB_SPOIL_HOW
for program in numpy-ops.py scipy-ops.py octave-ops.m r-ops.R; do
    must_fail 'FAILED:.* results' 'wrong entry' run-client.sh "$here/$program"
done
must_fail 'of 12 lines|SUSPECT|FATAL' 'wrong entry' blas-testers.sh
must_fail 'numerical errors, without us' 'wrong entry' lapack-testers.sh
must_fail 'FAILED' 'wrong entry' hpcc.sh
must_fail 'FAILED:.* results' 'wrong entry' wheel.sh

TB_SPOIL_HOW=stdout
must_fail 'FAILED:.* stdout' 'noise on stdout' run-client.sh "$here/numpy-ops.py"

TB_SPOIL=
TB_SIM=$work/empty.so
export TB_SIM
must_fail 'dgemm-not-caught' 'nothing caught' run-client.sh "$here/numpy-ops.py"
must_fail 'dgemm never reached the device' 'nothing caught' blas-testers.sh
must_fail 'no call reached the device' 'nothing caught' lapack-testers.sh
must_fail 'never reached the device' 'nothing caught' hpcc.sh

[ $tried -gt 0 ] || skip "no client is installed"
[ -z "$missed" ] || fail "not found by:$missed"
echo "$me: passed: $tried faults found"
