# SPDX-License-Identifier: BSD-3-Clause
# What the scripts of this folder share: where the libraries are, a scratch directory that goes away, building a
# client, one way to fail. Sourced with the environment of tests/local.mk; never run alone.

set -u
here=$TB_SRCDIR/tests/abi
libs=$TB_BUILDDIR/.libs
preload=$libs/libtileblas-preload.so
full=$libs/libtileblas.so.0
sim=$libs/libtileblas-sim.so
failures=0

unset LD_PRELOAD TILEBLAS_ROUTE TILEBLAS_MATH TILEBLAS_CPU_BLAS TILEBLAS_DEVICES TILEBLAS_MEMORY TILEBLAS_START \
      TILEBLAS_THREADS TILEBLAS_RESIDENCY TILEBLAS_VERIFY TILEBLAS_VERBOSE TILEBLAS_LOG TILEBLAS_TRACE \
      TILEBLAS_PROFILE TILEBLAS_SIM_TILE TILEBLAS_SIM_SEED
export LC_ALL=C

work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 99
[ -e "$preload" ] && [ -e "$full" ] || { echo "the libraries are not built"; exit 99; }

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}
skip() {
    echo "skipped: $*"
    exit 77
}
finish() {
    if [ "$failures" -eq 0 ]; then echo "ok"; exit 0; fi
    echo "$failures failures"
    exit 1
}

# A library that is preloaded into a plain program cannot bring a sanitizer's run-time library along.
skip_if_sanitized() {
    [ -z "${TB_SANITIZE:-}" ] || skip "preloaded clients run in the plain build only"
}
need() {
    command -v "$1" > /dev/null || skip "no $1 (Debian package $2)"
}
need_openblas() {
    echo 'int main(void) { return 0; }' > openblas_there.c
    $CC -o openblas_there openblas_there.c -lopenblas 2> /dev/null || skip "no OpenBLAS (Debian package libopenblas-dev)"
}

# build OUT SOURCE FLAGS...: a client in the scratch directory.
build() {
    local out=$1 source=$2
    shift 2
    # shellcheck disable=SC2086
    $CC ${TB_SANITIZE:-} -std=gnu11 -O1 -g -Wall -Wextra -I"$TB_SRCDIR/shim" -o "$out" "$source" "$@" || {
        echo "FAILED: $source does not build"
        exit 1
    }
}

# The doors, one "SHAPE TYPES SPELLED INT STYLE" a line; the other names of OpenBLAS, one a line.
list_doors() {
    printf '%s\n' '#define DOOR(SHAPE, OP, NAME, TYPES, SPELLED, I, STYLE) @SHAPE TYPES SPELLED I STYLE@' \
        '#include "doors.def"' |
        $CC -E -P -I"$TB_SRCDIR/shim" -x c - | tr '@' '\n' | awk 'NF == 5'
}
list_others() {
    printf '%s\n' '#define NAME(N) @N@' '#include "openblas.def"' |
        $CC -E -P -I"$TB_SRCDIR/shim" -x c - | tr '@' '\n' | awk 'NF == 1'
}
