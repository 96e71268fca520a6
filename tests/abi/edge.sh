# SPDX-License-Identifier: BSD-3-Clause
# edge.c without us, under a preload, linked to us, and on the simulated device with small tiles.
. "$TB_SRCDIR/tests/abi/lib.sh" || exit 99
need_openblas
build edge "$here/edge.c" -O2 -I"$here" -Wl,--no-as-needed -lopenblas -ldl -lm
build linked "$here/edge.c" -O2 -I"$here" -L"$libs" -Wl,--no-as-needed -ltileblas -Wl,-rpath,"$libs" -ldl -lm

check() {
    local what=$1
    shift
    timeout 280 env "$@" > out 2> err
    local status=$?
    [ $status -eq 0 ] || fail "$what: status $status"
    [ -s err ] && fail "$what: on stderr: $(head -3 err)"
    echo "$what: $(tail -1 out)"
    [ $status -eq 0 ] || head -30 out
}
check "linked" ./linked
[ -z "${TB_SANITIZE:-}" ] || finish
check "without us" ./edge
check "without us, big" ./edge big
check "preloaded" LD_PRELOAD="$preload" ./edge
check "preloaded, big" LD_PRELOAD="$preload" ./edge big
if [ -e "$sim" ]; then
    for setting in "8 1" "16 20" "16 333"; do
        check "simulated device, tile and seed $setting" LD_PRELOAD="$sim" TILEBLAS_ROUTE=gpu \
            TILEBLAS_SIM_TILE="${setting% *}" TILEBLAS_SIM_SEED="${setting#* }" \
            TILEBLAS_VERBOSE=1 TILEBLAS_LOG="$work/log" ./edge
    done
    check "simulated device, big" LD_PRELOAD="$sim" TILEBLAS_ROUTE=gpu TILEBLAS_SIM_TILE=16 ./edge big
    # The device did take part, in most of what is not empty.
    grep 'caught' log
    [ "$(sed -n 's/.*caught: \([0-9]*\) on the GPU.*/\1/p' log | sort -n | head -1)" -gt 5000 ] ||
        fail "little went to the simulated device"
else
    echo "no simulated device in this build"
fi
finish
