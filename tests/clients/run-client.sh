#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# run-client.sh PROGRAM.{py,R,m}: runs an unmodified client without the library and with it on the
# simulated device, and asks three things: is stdout the same to the byte, are the results the same
# to the bounds that the program states, did calls of every routine it names reach the device?
# Automake runs it for the extensions .py, .R and .m; wheel.sh runs it with another NumPy.

here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/client.sh"

program=$1
me=$(basename "$program")
need_sim
make_work

case $program in
*.py)
    python=$(python3_path)
    [ -n "$python" ] || skip "no python3"
    modules=$(sed -n 's/^# needs modules: //p' "$program")
    for module in ${modules:-numpy}; do
        (cd "$work" && "$python" -c "import $module") >/dev/null 2>&1 || skip "$python has no $module"
    done
    set -- "$python"
    ;;
*.R)
    have Rscript || skip "no Rscript"
    set -- Rscript --vanilla
    ;;
*.m)
    have octave-cli || skip "no octave-cli"
    set -- octave-cli --quiet --norc --no-history
    ;;
*) fail "no interpreter known for $program" ;;
esac

without_us "$@" "$program" "$work/results.plain" >"$work/out.plain" 2>"$work/err.plain" || {
    cat "$work/out.plain" "$work/err.plain"
    fail "does not run without the library"
}
with_us "$work/log" 2 "$@" "$program" "$work/results.us" >"$work/out.us" 2>"$work/err.us"
status=$?
[ $status -eq 0 ] || {
    tail -20 "$work/out.us" "$work/err.us"
    fail "exit status $status with the library"
}

bad=
same "$work/out.plain" "$work/out.us" || bad="$bad stdout"
no_noise "$work/err.plain" "$work/err.us" || bad="$bad stderr"
awk -f "$here/compare.awk" "$work/results.plain" "$work/results.us" || bad="$bad results"
for routine in $(sed -n 's/^[#%]* *must reach the device: //p' "$program"); do
    calls=$(calls_on_device "$work/log" "$routine")
    echo "  $routine: $calls calls on the device"
    [ "$calls" -gt 0 ] || bad="$bad $routine-not-caught"
done
for spelling in ${MUST_SEE:-}; do
    grep -q "$spelling" "$work/log" || bad="$bad $spelling-not-seen"
done
[ -z "$bad" ] || fail "$bad"
echo "$me: passed"
