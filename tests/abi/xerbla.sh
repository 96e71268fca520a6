# SPDX-License-Identifier: BSD-3-Clause
# Bad arguments: with us a program prints, byte for byte, what it prints without us; its own xerbla is called once, may
# jump away, and later calls do not notice. For names the CPU BLAS lacks the report is ours.
. "$TB_SRCDIR/tests/abi/lib.sh" || exit 99
skip_if_sanitized
need_openblas
build theirs "$here/xerbla.c" -Wl,--no-as-needed -lopenblas -ldl
build own "$here/xerbla.c" -DWITH_XERBLA -rdynamic -Wl,--no-as-needed -lopenblas -ldl
build theirs_linked "$here/xerbla.c" -L"$libs" -Wl,--no-as-needed -ltileblas -Wl,-rpath,"$libs" -ldl
build own_linked "$here/xerbla.c" -DWITH_XERBLA -rdynamic -L"$libs" -Wl,--no-as-needed -ltileblas -Wl,-rpath,"$libs" -ldl

# same PROGRAM MODE ENVIRONMENT... : as the plain program, which is run first.
same() {
    local program=$1 mode=$2 linked=$3
    shift 3
    timeout 60 ./"$program" "$mode" standard > plain 2> plain.err || fail "$program $mode without us: status $?: $(head -3 plain.err)"
    [ "$(grep -c 'bad=' plain)" -ge 500 ] || fail "$program $mode without us: only $(grep -c 'bad=' plain) cases"
    timeout 60 env "$@" ./"$program$linked" "$mode" standard > shown 2> shown.err || fail "$program $mode, $*: status $?: $(head -3 shown.err)"
    cmp plain shown || fail "$program $mode, $*: $(diff plain shown | head -6 | tr '\n' '|')"
    cmp -s plain.err shown.err || fail "$program $mode, $*: stderr $(head -3 shown.err)"
}
for pair in "theirs theirs" "own own" "own jump"; do
    program=${pair% *} mode=${pair#* }
    same "$program" "$mode" "" LD_PRELOAD="$preload"
    same "$program" "$mode" "" LD_PRELOAD="$preload" TILEBLAS_ROUTE=gpu
    same "$program" "$mode" _linked TILEBLAS_ROUTE=auto
    [ -e "$sim" ] && same "$program" "$mode" "" LD_PRELOAD="$sim" TILEBLAS_ROUTE=gpu TILEBLAS_SIM_TILE=8
done
# The default texts are there: comparing two empty files would prove nothing.
grep -q 'illegal value' plain || ./theirs theirs standard 2> /dev/null | grep -q 'parameter number' ||
    fail "OpenBLAS says nothing about bad arguments"

for mode in own jump; do
    for library in "$preload" $( [ -e "$sim" ] && echo "$sim" ); do
        timeout 60 env LD_PRELOAD="$library" ./own $mode lacking > out 2> err || fail "names of ours, $mode, $library: status $?: $(head -20 out)"
    done
done
[ "$(sed -n 's/^\([0-9]*\) names.*/\1/p' err)" -ge 490 ] || fail "names of ours: $(cat err)"

# After a jump the next call is no nested one.
TILEBLAS_VERBOSE=2 LD_PRELOAD=$preload ./own jump standard 2> err > /dev/null
grep -q 'nested' err && fail "calls after a jump count as nested: $(grep -m1 nested err)"
grep -q 'dgemm_ NN m=170 n=170 k=170: CPU' err || fail "the call after the jumps was not seen"
finish
