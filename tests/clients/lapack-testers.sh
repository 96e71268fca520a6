#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# lapack-testers.sh [--all | --some]: LAPACK's own test programs, as Debian ships them, with every
# supported call forced to the simulated device, beside a run of the same programs without us, at the
# same time on the same machine. --some (what `make check` runs): the linear equations in double
# precision. --all: the whole suite. Their exit status lies, and OpenBLAS alone is not clean: the gate
# is nothing beyond the run without us, and no error at all in double precision.
#
# TB_LAPACK_TYPES and TB_LAPACK_TESTS narrow it ("s d", "test sep"); TB_JOBS runs so many pairs at once.

here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/client.sh"

dir=$(debian_dir lapack xlintstd) || skip "no liblapack-test"
need_sim
make_work

eig='nep sep se2 svd ec ed gg gd sb sg bb glm gqr gsv csd lse'
case ${1:---some} in
--some) types=d tests=test ;;
--all) types='s d c z' tests="$eig test mixed rfp" ;;
*) fail "usage: lapack-testers.sh [--some | --all]" ;;
esac
types=${TB_LAPACK_TYPES:-$types}
tests=${TB_LAPACK_TESTS:-$tests}
# One thread each: the matrices are small, and two runs share the machine.
OPENBLAS_NUM_THREADS=1
OMP_NUM_THREADS=1
export OPENBLAS_NUM_THREADS OMP_NUM_THREADS

# program_and_input TYPE TEST: sets $program and $input; fails if there is no such combination.
program_and_input() {
    program=xeigtst$1
    input=$1$2.in
    case $2 in
    nep | sep | se2 | svd | glm | gqr | gsv | csd | lse) input=$2.in ;;
    test) program=xlintst$1 ;;
    rfp) program=xlintstrf$1 input=$1test_rfp.in ;;
    mixed)
        case $1 in
        d) program=xlintstds input=dstest.in ;;
        z) program=xlintstzc input=zctest.in ;;
        *) return 1 ;;
        esac
        ;;
    esac
}

# Runs both sides of one program in $work/TYPE-TEST.
pair() {
    mkdir "$work/$1-$2" && cd "$work/$1-$2" || exit 1
    without_us "$dir/$program" <"$dir/$input" >plain.out 2>plain.err &
    other=$!
    with_us "$work/$1-$2/log" 1 "$dir/$program" <"$dir/$input" >us.out 2>us.err
    echo $? >us.status
    wait $other
    echo $? >plain.status
}

# count REPORT: "tests numerical-errors other-errors finished", as LAPACK's own summary counts them.
count() {
    awk '/run\)/ { for (i = 3; i <= NF; i++) if ($i == "run)") tests += $(i - 2) }
         /out of/ { for (i = 2; i <= NF; i++) if ($i == "out") wrong += $(i - 1) }
         /[Ii]llegal/ { other++ }
         / INFO/ { other++ }
         /^ *End of tests/ { finished++ }
         END { print tests + 0, wrong + 0, other + 0, finished + 0 }' "$1"
}

failures=0
complain() {
    echo "  $pair: $1"
    failures=$((failures + 1))
}

# judge TYPE TEST: compares the two reports; adds up for the table.
judge() {
    pair=$1-$2
    at=$work/$pair
    read -r tests0 wrong0 other0 end0 <<EOF
$(count "$at/plain.out")
EOF
    read -r tests1 wrong1 other1 end1 <<EOF
$(count "$at/us.out")
EOF
    [ "$tests0" -gt 0 ] || complain "the run without us made no tests"
    [ "$tests1" -ge "$tests0" ] || complain "$tests1 tests, without us $tests0"
    [ "$end1" -ge "$end0" ] || complain "did not end: $(tail -1 "$at/us.out")"
    [ "$(cat "$at/us.status")" = "$(cat "$at/plain.status")" ] ||
        complain "exit status $(cat "$at/us.status"), without us $(cat "$at/plain.status")"
    [ "$wrong1" -le "$wrong0" ] || complain "$wrong1 numerical errors, without us $wrong0"
    [ "$other1" -le "$other0" ] || complain "$other1 other errors, without us $other0"
    [ "$1" != d ] || [ $((wrong1 + other1)) -eq 0 ] || complain "errors in double precision"
    no_noise "$at/plain.err" "$at/us.err" || complain "noise on stderr"
    calls=$(all_on_device "$at/log")
    device=$((device + calls))
    echo "$1 $tests0 $wrong0 $other0 $tests1 $wrong1 $other1" >>"$work/table"
}

running=0
for type in $types; do
    for test in $tests; do
        program_and_input "$type" "$test" || continue
        (pair "$type" "$test") &
        running=$((running + 1))
        [ $running -lt "${TB_JOBS:-1}" ] || { wait && running=0; }
    done
done
wait
device=0
for type in $types; do
    for test in $tests; do
        program_and_input "$type" "$test" && judge "$type" "$test"
    done
done

echo "            without us: tests, numerical errors, other    with us"
awk '{ for (i = 2; i <= 7; i++) sum[$1, i] += $i; type[$1] }
     END { for (t in type) printf "  %s %28d %6d %6d %24d %6d %6d\n", t, sum[t, 2], sum[t, 3],
               sum[t, 4], sum[t, 5], sum[t, 6], sum[t, 7] }' "$work/table"
echo "  $device calls on the device"
[ "$device" -gt 0 ] || fail "no call reached the device"
[ $failures -eq 0 ] || fail "$failures complaints"
echo "$me: passed"
