# SPDX-License-Identifier: BSD-3-Clause
# Every door, called with its argument list written out by hand: linked with -ltileblas, under a preloaded copy
# besides, and on the simulated device.
. "$TB_SRCDIR/tests/abi/lib.sh" || exit 99
build signatures "$here/signatures.c" -I"$here" -L"$libs" -ltileblas -Wl,-rpath,"$libs" -lm

check() {
    local what=$1
    shift
    env "$@" > out 2> err || fail "$what: status $?: $(tail -3 out | tr '\n' ' ')"
    [ -s err ] && fail "$what: on stderr: $(head -3 err)"
    grep -v ' 0 wrong$' out | head -20
}
check "linked" ./signatures 6 12
if [ -z "${TB_SANITIZE:-}" ]; then
    check "linked and preloaded" LD_PRELOAD="$preload" ./signatures 9 4
    if [ -e "$sim" ]; then
        check "tiles of 8" LD_PRELOAD="$sim" TILEBLAS_ROUTE=gpu TILEBLAS_SIM_TILE=8 ./signatures 20 4
        check "tiles of 16" LD_PRELOAD="$sim" TILEBLAS_ROUTE=gpu TILEBLAS_SIM_TILE=16 TILEBLAS_SIM_SEED=7 ./signatures 35 2
    fi
fi
finish
