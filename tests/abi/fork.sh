# SPDX-License-Identifier: BSD-3-Clause
# fork.c, preloaded, linked and on the simulated device.
. "$TB_SRCDIR/tests/abi/lib.sh" || exit 99
skip_if_sanitized
need_openblas
build forks "$here/fork.c" -lopenblas
build linked "$here/fork.c" -L"$libs" -ltileblas -Wl,-rpath,"$libs"

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
finish
