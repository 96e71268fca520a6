# SPDX-License-Identifier: BSD-3-Clause
# fork.c, preloaded, linked and on the simulated device.
. "$TB_SRCDIR/tests/abi/lib.sh" || exit 99
skip_if_sanitized
need_openblas
build forks "$here/fork.c" -lopenblas -lpthread
build linked "$here/fork.c" -L"$libs" -ltileblas -Wl,-rpath,"$libs" -lpthread

check() {
    timeout 150 env "$@" > out 2> err || fail "$*: status $?: $(head -5 err)"
    [ -s out ] && fail "$*: on stdout: $(head -3 out)"
    [ -s err ] && fail "$*: on stderr: $(head -3 err)"
}
for order in parent-first child-first; do
    check LD_PRELOAD="$preload" ./forks $order
    check ./linked $order
    check TILEBLAS_ROUTE=gpu LD_PRELOAD="$preload" ./forks $order
    [ -e "$sim" ] && check TILEBLAS_ROUTE=gpu TILEBLAS_SIM_TILE=16 LD_PRELOAD="$sim" ./forks $order
done
# The log of a child goes to a file of its own where %p asks for it, and _exit() gives no summary.
TILEBLAS_VERBOSE=1 TILEBLAS_LOG=$work/log.%p LD_PRELOAD=$preload ./forks parent-first
[ "$(cat log.* | grep -c caught)" -eq 1 ] || fail "summaries: $(grep -c caught log.*)"
rm -f log.*
# A child tells of its own calls only, in its own file; and does not hang on what another thread held.
read -r parent child < <(TILEBLAS_VERBOSE=1 TILEBLAS_LOG=$work/log.%p LD_PRELOAD=$preload ./forks exit)
grep -q ' 3 level-3 calls caught' "log.$parent" || fail "parent of an exiting child: $(head -1 log.$parent)"
grep -q ' 1 level-3 calls caught' "log.$child" || fail "exiting child: $(head -1 log.$child)"
[ "$(cat log.* | grep -c caught)" -eq 2 ] || fail "summaries of two processes: $(grep -c caught log.*)"
check LD_PRELOAD="$preload" ./forks busy
check TILEBLAS_VERBOSE=1 TILEBLAS_LOG="$work/busy" LD_PRELOAD="$preload" ./forks busy
finish
