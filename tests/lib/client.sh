# SPDX-License-Identifier: BSD-3-Clause
# Shell helpers of the client tests: skip and fail, a temporary directory, running a program with and
# without the library, and the one place that knows how the log of TILEBLAS_VERBOSE reads. Sourced by
# tests/clients/*.sh, which find it from their own path; decides nothing about any one client.
#
# TB_SIM is the preload library on the simulated device (absolute path); without it, the one in the build
# tree TB_BUILDDIR. TB_SPOIL, set only by spoil.sh, is preloaded in front of it.

set -u
LC_ALL=C
export LC_ALL
unset LD_PRELOAD
for var in $(env | sed -n 's/^\(TILEBLAS_[A-Z_]*\)=.*/\1/p'); do
    unset "$var"
done

me=$(basename "$0")

skip() {
    echo "$me: skipped: $*"
    exit 77
}

fail() {
    echo "$me: FAILED: $*"
    exit 1
}

have() {
    command -v "$1" >/dev/null 2>&1
}

need_sim() {
    [ -n "${TB_SIM:-}" ] || TB_SIM=${TB_BUILDDIR:+$TB_BUILDDIR/.libs/libtileblas-sim.so}
    [ -n "$TB_SIM" ] || fail "TB_SIM is not set (libtileblas-sim.so, absolute path)"
    [ -r "$TB_SIM" ] || fail "no such library: TB_SIM=$TB_SIM"
}

# Makes $work, removed at exit. HOME points into it: clients write histories and caches there.
make_work() {
    work=$(mktemp -d "${TMPDIR:-/tmp}/tileblas-client.XXXXXX") || fail "no temporary directory"
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM
    real_home=$HOME
    HOME=$work
    OMPI_ALLOW_RUN_AS_ROOT=1
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export HOME OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
}

# with_us LOG VERBOSE COMMAND...: the command alone is preloaded, every supported call is sent to the
# simulated device. EXTRA names further objects to preload, behind ours. A time limit, because a wrong
# product can keep an iteration from ending.
with_us() {
    log=$1
    verbose=$2
    shift 2
    timeout -k 5 "${TB_TIMEOUT:-900}" env \
        LD_PRELOAD="${TB_SPOIL:+$TB_SPOIL }$TB_SIM${EXTRA:+ $EXTRA}" TILEBLAS_ROUTE=gpu \
        TILEBLAS_VERBOSE="$verbose" TILEBLAS_LOG="$log" "$@"
}

# without_us COMMAND...: the same program, as it is.
without_us() {
    timeout -k 5 "${TB_TIMEOUT:-900}" ${EXTRA:+env LD_PRELOAD="$EXTRA"} "$@"
}

# The Debian directory that holds a test program, whatever the machine's multiarch name.
debian_dir() {
    for dir in /usr/lib/*/"$1" /usr/lib/"$1"; do
        if [ -x "$dir/$2" ]; then
            echo "$dir"
            return 0
        fi
    done
    return 1
}

# compile_shared SOURCE OUTPUT
compile_shared() {
    ${CC:-cc} -shared -fPIC -O1 -o "$2" "$1" -ldl || fail "cannot compile $1"
}

python3_path() {
    if [ -n "${TB_PYTHON:-}" ]; then
        echo "$TB_PYTHON"
    elif [ -x /usr/bin/python3 ]; then
        echo /usr/bin/python3
    else
        command -v python3
    fi
}

# same FILE FILE: the two outputs of a client, equal to the byte?
same() {
    cmp -s "$1" "$2" && return 0
    echo "  stdout differs (without, with):"
    diff "$1" "$2" | head -10
    return 1
}

# no_noise PLAIN WITH: did the library make the client print more on stderr than it does anyway?
no_noise() {
    cmp -s "$1" "$2" && return 0
    echo "  stderr differs (without, with):"
    diff "$1" "$2" | head -10
    return 1
}

# calls_on_device LOG ROUTINE: calls of that routine, in any spelling, that were computed there. From
# the lines of TILEBLAS_VERBOSE=2: "tileblas: cblas_dgemm NT m=4 n=5 k=6: GPU (forced) 0.1 ms, ...".
calls_on_device() {
    awk -v name="^((scipy_)?cblas_|scipy_)?$2(64)?_?(64)?_?\$" '
        $1 == "tileblas:" && $2 ~ name && /: GPU \(/ { calls++ }
        END { print calls + 0 }' "$1" 2>/dev/null || echo 0
}

# all_on_device LOG: every call computed there, summed over processes, from the summary at exit:
# "tileblas: 7 level-3 calls caught: 5 on the GPU, 2 on the CPU".
all_on_device() {
    awk '/^tileblas: [0-9]+ level-3 calls caught: / { calls += $6 }
         END { print calls + 0 }' "$1" 2>/dev/null || echo 0
}
