# SPDX-License-Identifier: BSD-3-Clause
# overflow.c without us, preloaded and on the simulated device.
. "$TB_SRCDIR/tests/abi/lib.sh" || exit 99
skip_if_sanitized
need_openblas
build overflow "$here/overflow.c" -Wl,--no-as-needed -lopenblas -ldl

check() {
    timeout 120 env "$@" > out 2> err
    local status=$?
    [ $status -eq 77 ] && skip "$(cat out)"
    [ $status -eq 0 ] || fail "$*: status $status: $(head -5 out err)"
}
check ./overflow
check LD_PRELOAD="$preload" ./overflow
grep -q '^11 values' out || fail "not every case was tried: $(cat out)"
[ -e "$sim" ] && check TILEBLAS_ROUTE=gpu TILEBLAS_SIM_TILE=8 LD_PRELOAD="$sim" ./overflow
finish
