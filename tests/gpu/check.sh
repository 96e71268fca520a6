#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The tests that need a GPU: check.sh [--sanitizer] FOLDER, where FOLDER holds the libraries and the test programs
# (`make stage`, or a build tree through `make check-gpu`). Status 77 without a device, 1 on failure; a line per
# part. With --sanitizer the kernels run under compute-sanitizer too (minutes).
set -u
sanitizer=
[ "${1:-}" = --sanitizer ] && { sanitizer=yes; shift; }
folder=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
[ -d "$folder/.libs" ] && libs=$folder/.libs || libs=$folder
[ -d "$folder/tests/gpu" ] && programs=$folder/tests/gpu || programs=$folder
preload=$libs/libtileblas-preload.so
export LD_LIBRARY_PATH=$libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

part() {
    local name=$1 start=$SECONDS status
    shift
    "$@" > "$work/out" 2>&1
    status=$?
    if [ $status -eq 0 ]; then
        passed=$((passed + 1))
        echo "PASS $name ($((SECONDS - start)) s): $(tail -1 "$work/out")"
    elif [ $status -eq 77 ]; then
        echo "SKIP $name: $(tail -1 "$work/out")"
    else
        failed=$((failed + 1))
        echo "FAIL $name, status $status"
        grep -v ' PASS ' "$work/out" | tail -60
    fi
    return $status
}

# beside NAME COMMAND...: starts it beside others, what it says goes to a file of that name.
jobs=()
beside() {
    local name=$1
    shift
    "$@" > "$work/$name" 2>&1 &
    jobs+=($!)
}

# Waits for those; 1 if one of them failed.
join_all() {
    local job status=0
    for job in "${jobs[@]}"; do
        wait "$job" || status=1
    done
    jobs=()
    return $status
}

# Every row of the kernel table; the host's reference takes most of the time, so the types run side by side.
kernels() {
    local type status halves=() wide=()
    for type in f16 f16_f32 bf16 bf16_f32; do
        halves+=("${type}_1" "${type}_6" "${type}_sm80" "${type}_sm90_1" "${type}_sm90_2" "${type}_sm90_6")
    done
    for type in 128x128 128x64 64x64_ 64x64k 32x32_ 32x32k; do
        wide+=("f64_dmma_$type")
        [[ $type == 128* ]] || wide+=("c64_dmma_$type")
    done
    for type in f32 f64_1 f64_6 c32 c64_6 c64_3 "${wide[@]}" "${halves[@]}"; do
        beside "kernels.$type" "$programs/kernels" --skip-large $type
    done
    join_all
    status=$?
    cat "$work"/kernels.*
    echo "$(cat "$work"/kernels.* | grep -c '^[a-z].* PASS ') rows passed"
    return $status
}

# The other level-3 routines: whole numbers around edges, backward errors; a type beside the other.
level3() {
    local type status
    for type in s d c z; do
        beside "level3.$type" timeout 280 "$programs/level3" $type
    done
    join_all
    status=$?
    cat "$work"/level3.*
    grep -ho '^[0-9]* cases, [0-9]* failures' "$work"/level3.* | paste -sd ';'
    return $status
}

# Operands of every kind of memory, by each route; a route beside the other.
operands() {
    local route status
    for route in gpu cpu auto; do
        beside "operands.$route" timeout 280 env LD_PRELOAD="$preload" TILEBLAS_ROUTE=$route "$programs/operands"
    done
    join_all
    status=$?
    tail -n 20 "$work"/operands.*
    tail -qn 1 "$work"/operands.* | paste -sd ';'
    return $status
}

part device "$programs/device"
[ $? -eq 77 ] && exit 77
part kernels kernels
part level3 level3
# Caught calls of every shape, on both sides of the threshold, all on the device.
forced=(env LD_PRELOAD="$preload" TILEBLAS_ROUTE=gpu)
part edge timeout 280 "${forced[@]}" "$programs/edge"
part edge-big timeout 280 "${forced[@]}" "$programs/edge" big
part edge-small-memory timeout 280 "${forced[@]}" TILEBLAS_MEMORY=64M "$programs/edge" big
part edge-automatic timeout 280 env LD_PRELOAD="$preload" TILEBLAS_START=wait "$programs/edge" big
"${forced[@]}" TILEBLAS_VERBOSE=1 TILEBLAS_LOG="$work/log" "$programs/edge" > /dev/null 2>&1
for what in beside long many asleep reset; do
    part "together-$what" timeout 120 "${forced[@]}" "$programs/together" $what
done
part operands operands
part caught grep -E 'caught: [1-9][0-9]* on the GPU' "$work/log"
# SciPy's BLAS interface, every flag; and again in parts, for want of device memory.
scipy() {
    rm -f "$work/log.scipy"
    "${forced[@]}" TILEBLAS_VERBOSE=1 TILEBLAS_LOG="$work/log.scipy" "$@" || return
    grep -E 'caught: [1-9][0-9]* on the GPU, 0 on the CPU' "$work/log.scipy"
}
part scipy scipy timeout 280 python3 "$here/level3.py"
part scipy-small-memory scipy TILEBLAS_MEMORY=24M timeout 280 python3 "$here/level3.py" 1200 801 390 d
part wheels python3 "$here/wheels.py" "$preload"
# Not the rows of sm_90: the tool reports hazards that are none where the copy engine and warpgroup products
# are used, and can hang on register reallocation. Rows of FP64 tensor cores wait at barriers in shared memory
# and read lines that nobody stored (for sums that nobody stores): memcheck only.
if [ -n "$sanitizer" ]; then
    for tool in memcheck racecheck; do
        part $tool timeout 280 compute-sanitizer --tool $tool --error-exitcode 9 "$programs/kernels" --quick \
            f32_1 f32_6 f32_3 f64_1 f64_6 c32 c64_6 c64_3 f16_1 f16_6 f16_sm80 f16_f32_1 f16_f32_6 f16_f32_sm80 bf16_1 bf16_6 bf16_sm80 \
            bf16_f32_1 bf16_f32_6 bf16_f32_sm80
    done
    part memcheck-fp64 timeout 280 compute-sanitizer --tool memcheck --error-exitcode 9 "$programs/kernels" --quick \
        f64_dmma_{128x128_nn,128x64_nt,64x64_tn,64x64k_tt,32x32_nn,32x32k_nt} c64_dmma_{64x64_tn,64x64k_tt,32x32_nn,32x32k_nt}
fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
