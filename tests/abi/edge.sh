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
check "preloaded, verbose" LD_PRELOAD="$preload" TILEBLAS_VERBOSE=2 TILEBLAS_LOG="$work/log" ./edge
if [ -e "$sim" ]; then
    for setting in "8 1" "16 1" "8 20" "16 333"; do
        check "simulated device, tile and seed $setting" LD_PRELOAD="$sim" TILEBLAS_ROUTE=gpu \
            TILEBLAS_SIM_TILE="${setting% *}" TILEBLAS_SIM_SEED="${setting#* }" ./edge
    done
    check "simulated device, big" LD_PRELOAD="$sim" TILEBLAS_ROUTE=gpu TILEBLAS_SIM_TILE=16 ./edge big
    # The device did take part.
    LD_PRELOAD=$sim TILEBLAS_ROUTE=gpu TILEBLAS_SIM_TILE=8 TILEBLAS_VERBOSE=1 ./edge > out 2> err
    grep -Eq 'caught: [1-9][0-9]* on the GPU' err || fail "nothing went to the simulated device: $(grep caught err)"
else
    echo "no simulated device in this build"
fi
finish
