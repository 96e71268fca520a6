# SPDX-License-Identifier: BSD-3-Clause
# threads.c, preloaded, linked and on the simulated device, with usual and with small stacks. OpenBLAS is held to
# one thread: its own workers are not what is tested.
. "$TB_SRCDIR/tests/abi/lib.sh" || exit 99
need_openblas
export OPENBLAS_NUM_THREADS=1
build linked "$here/threads.c" -L"$libs" -ltileblas -Wl,-rpath,"$libs" -pthread

check() {
    timeout 250 env "$@" > out 2> err || fail "$*: status $?: $(head -20 err)"
    [ -s out ] && fail "$*: on stdout: $(head -3 out)"
    [ -s err ] && fail "$*: on stderr: $(head -3 err)"
}
check ./linked usual
[ -z "${TB_SANITIZE:-}" ] || finish
build threads "$here/threads.c" -lopenblas -pthread
for stack in usual small; do
    check ./threads $stack
    check LD_PRELOAD="$preload" ./threads $stack
    check TILEBLAS_VERBOSE=2 TILEBLAS_LOG="$work/log" LD_PRELOAD="$preload" ./threads $stack
    [ -e "$sim" ] && check TILEBLAS_ROUTE=gpu TILEBLAS_SIM_TILE=16 LD_PRELOAD="$sim" ./threads $stack
done
check ./linked small
# Each call was counted once: 2 x 16 threads x 18 products, twice.
[ "$(grep -c 'gemm.*: CPU' log)" -eq 1152 ] || fail "$(grep -c 'gemm.*: CPU' log) calls logged, not 1152"
finish
