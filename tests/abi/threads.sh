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
check ./linked
[ -z "${TB_SANITIZE:-}" ] || finish
build threads "$here/threads.c" -lopenblas -pthread
check LD_PRELOAD="$preload" ./threads
check TILEBLAS_VERBOSE=2 TILEBLAS_LOG="$work/log" LD_PRELOAD="$preload" ./threads
# Each call was counted once: 2 x 16 threads x 18 products.
[ "$(grep -c 'gemm.*: CPU' log)" -eq 576 ] || fail "$(grep -c 'gemm.*: CPU' log) calls logged, not 576"
[ -e "$sim" ] && check TILEBLAS_ROUTE=gpu TILEBLAS_SIM_TILE=16 LD_PRELOAD="$sim" ./threads

# Small stacks. OpenBLAS itself needs some, and its thread-local storage is taken from the stack where the program
# is linked to it: ours may need 8 KiB more than it does alone.
for least in $(seq 16 8 256); do
    ./threads $least > /dev/null 2>&1 && break
done 2> /dev/null
echo "OpenBLAS alone runs on stacks of $least KiB"
check LD_PRELOAD="$preload" ./threads $((least + 8))
if [ -e "$sim" ]; then
    check TILEBLAS_ROUTE=gpu TILEBLAS_SIM_TILE=16 LD_PRELOAD="$sim" ./threads $((least + 8))
    # Where nothing is computed on the caller's stack it may be smaller than any CPU BLAS could bear. No more
    # threads than are served at once: a call that has waited for 2 s, on a busy machine, goes to the CPU.
    check TILEBLAS_ROUTE=gpu TILEBLAS_SIM_TILE=16 LD_PRELOAD="$sim" ./linked 16 4
fi
finish
