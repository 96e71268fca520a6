#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The reference BLAS's own test programs, as Debian ships them (24 programs, levels 1 to 3, Fortran and
# CBLAS), with every supported call forced to the simulated device; then level 3 again with N up to 65
# on tiles of 16, so that a matrix spans several tiles and ragged edges. Their exit status lies: a run
# passes on the number of PASSED lines, no line of a failure, and the same report as without us.
# TB_BLAS_TYPES narrows it ("d").

here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/client.sh"

dir=$(debian_dir blas xblat3d) || skip "no libblas-test"
need_sim
make_work
cd "$work" || fail "cannot enter $work"
compile_shared "$here/stub.c" "$work/stub.so"
failures=0

# A report on stdout: unit 7 is opened as /dev/stdout in place of a file in the current directory.
to_stdout() {
    sed "1s|'[^']*'|'/dev/stdout'|; 2s/^6/7/" "$1"
}

# Other values of N, around the edges of the tiles, in place of the six of the file.
sizes() {
    sed 's/^[0-9 ]*[0-9]  *VALUES OF N$/'"$1"' VALUES OF N/'
}

complain() {
    echo "  $name: $1"
    failures=$((failures + 1))
}

# check NAME PATTERN COUNT BAD [END]: judges $work/out.us against what a clean run prints.
check() {
    name=$1
    [ $status1 -eq $status0 ] || complain "exit status $status1, without us $status0"
    passed=$(grep -c "$2" out.us)
    [ "$passed" -eq "$3" ] || complain "$passed of $3 lines '$2'"
    grep -E "$4" out.us >bad && complain "$(head -3 bad)"
    [ -z "${5:-}" ] || grep -q "$5" out.us || complain "no line '$5'"
    same out.plain out.us || complain "another report than without us"
    no_noise err.plain err.us || complain "noise on stderr"
}

# run INPUT PROGRAM VERBOSE: both ways, with a fresh log of our side.
run() {
    rm -f log
    without_us "$dir/$2" <"$1" >out.plain 2>err.plain
    status0=$?
    with_us "$work/log" "$3" "$dir/$2" <"$1" >out.us 2>err.us
    status1=$?
}

# each_on_device: every routine of the type, from the lines of the last run, made with VERBOSE=2.
each_on_device() {
    for routine in gemm symm syrk syr2k trmm trsm $hermitian; do
        calls=$(calls_on_device log "$p$routine")
        echo "  $name: $p$routine: $calls calls on the device"
        [ "$calls" -gt 0 ] || complain "$p$routine never reached the device"
    done
}

# some_on_device: from its summary.
some_on_device() {
    calls=$(all_on_device log)
    echo "  $name: $calls calls on the device"
    [ "$calls" -gt 0 ] || complain "nothing reached the device"
}

bad1='FAIL'
bad='FAILED ON CALL|FATAL ERROR|NOT DETECTED|SUSPECT|ABANDONED|\*{5,}'
for p in ${TB_BLAS_TYPES:-s d c z}; do
    case $p in
    s | d) n1=13 n2=32 n3=12 c2=48 c3=18 hermitian= ;;
    c | z) n1=10 n2=34 n3=18 c2=51 c3=27 hermitian='hemm herk her2k' ;;
    esac
    EXTRA=
    run /dev/null "xblat1$p" 1
    check "xblat1$p" 'PASS -' "$n1" "$bad1"
    to_stdout "$dir/${p}blat2.in" >in
    run in "xblat2$p" 1
    check "xblat2$p" 'PASSED THE' "$n2" "$bad" 'END OF TESTS'
    to_stdout "$dir/${p}blat3.in" >in
    run in "xblat3$p" 2
    check "xblat3$p" 'PASSED THE' "$n3" "$bad" 'END OF TESTS'
    each_on_device

    EXTRA=$work/stub.so
    run /dev/null "x${p}cblat1" 1
    check "x${p}cblat1" 'PASS -' 10 "$bad1"
    run "$dir/${p}in2" "x${p}cblat2" 1
    check "x${p}cblat2" 'PASSED THE' "$c2" "$bad"
    run "$dir/${p}in3" "x${p}cblat3" 2
    check "x${p}cblat3" 'PASSED THE' "$c3" "$bad"
    each_on_device

    TILEBLAS_SIM_TILE=16
    export TILEBLAS_SIM_TILE
    EXTRA=
    to_stdout "$dir/${p}blat3.in" | sizes '0 1 16 17 33 65' >in
    run in "xblat3$p" 1
    check "xblat3$p, N to 65" 'PASSED THE' "$n3" "$bad" 'END OF TESTS'
    some_on_device
    EXTRA=$work/stub.so
    sizes '1 5 16 17 33 65' <"$dir/${p}in3" >in
    run in "x${p}cblat3" 1
    check "x${p}cblat3, N to 65" 'PASSED THE' "$c3" "$bad"
    some_on_device
    unset TILEBLAS_SIM_TILE
done

[ $failures -eq 0 ] || fail "$failures complaints"
echo "$me: passed"
