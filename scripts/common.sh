# SPDX-License-Identifier: BSD-3-Clause
# Sourced by scripts/check and scripts/demo (and .ci/run): where the tree is, what has to be installed,
# configure and make out of tree. Decides nothing about what is built or run.

root=$(cd "$(dirname "$0")/.." && pwd) || exit 1

say() {
    echo "==> $*"
}

die() {
    echo "$(basename "$0"): FAILED: $*" >&2
    exit 1
}

have() {
    command -v "$1" >/dev/null 2>&1
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif have sudo; then
        sudo "$@"
    else
        die "not root and no sudo; as root: $*"
    fi
}

# is_there PACKAGE[:COMMAND]: installed by dpkg, or the command is there from somewhere else.
is_there() {
    case $1 in
    *:*) have "${1#*:}" && return 0 ;;
    esac
    [ "$(dpkg-query -W -f='${db:Status-Status}' "${1%%:*}" 2>/dev/null)" = installed ]
}

# need PACKAGE[:COMMAND]...: installs what is missing with apt-get, and nothing else.
need() {
    if ! have dpkg-query || ! have apt-get; then
        say "no apt-get here: taking it that all of these are installed: $*"
        return 0
    fi
    missing=
    for package in "$@"; do
        is_there "$package" || missing="$missing ${package%%:*}"
    done
    if [ -z "$missing" ]; then
        say "nothing to install"
        return 0
    fi
    say "installing:$missing"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update ||
        say "apt-get update failed; going on with the package lists at hand"
    # shellcheck disable=SC2086
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
        $missing >"${TMPDIR:-/tmp}/tileblas-apt.$$" 2>&1 || {
        tail -20 "${TMPDIR:-/tmp}/tileblas-apt.$$" >&2
        rm -f "${TMPDIR:-/tmp}/tileblas-apt.$$"
        die "apt-get could not install:$missing"
    }
    rm -f "${TMPDIR:-/tmp}/tileblas-apt.$$"
}

# Prints the CUDA Toolkit's directory; status 1 if there is no nvcc.
cuda_home() {
    if have nvcc; then
        (cd "$(dirname "$(command -v nvcc)")/.." && pwd)
    elif [ -x /usr/local/cuda/bin/nvcc ]; then
        echo /usr/local/cuda
    else
        return 1
    fi
}

# -j for every processor we may use, unless the caller's MAKEFLAGS say something about jobs.
jobs() {
    case " ${MAKEFLAGS:-}" in
    *" -j"* | *" j"* | *--jobs*) ;;
    *) echo "-j$(nproc 2>/dev/null || echo 2)" ;;
    esac
}

# configure_in DIRECTORY OPTION...: below the root of the tree; again only if the options changed.
configure_in() {
    build=$root/$1
    shift
    [ ! -e "$root/config.status" ] ||
        die "the source tree itself is configured; first: make -C $root distclean"
    if [ ! -x "$root/configure" ]; then
        say "autoreconf"
        (cd "$root" && autoreconf -fi) >"${TMPDIR:-/tmp}/tileblas-autoreconf.$$" 2>&1 || {
            cat "${TMPDIR:-/tmp}/tileblas-autoreconf.$$" >&2
            rm -f "${TMPDIR:-/tmp}/tileblas-autoreconf.$$"
            die "autoreconf -fi in $root"
        }
        rm -f "${TMPDIR:-/tmp}/tileblas-autoreconf.$$"
    fi
    mkdir -p "$build" || die "cannot make $build"
    if [ -e "$build/Makefile" ] && [ "$(cat "$build/.configured-with" 2>/dev/null)" = "$*" ]; then
        say "$build is configured: $*"
        return 0
    fi
    say "configure in $build: $*"
    (cd "$build" && "$root/configure" "$@") >"$build/configure.out" 2>&1 || {
        tail -20 "$build/configure.out" >&2
        die "configure; all of it: $build/configure.out and $build/config.log"
    }
    sed -n '/^libtileblas /,$p' "$build/configure.out"
    echo "$*" >"$build/.configured-with"
}

# make_in DIRECTORY TARGET...
make_in() {
    build=$root/$1
    shift
    say "make $* in $build"
    # shellcheck disable=SC2046
    make -C "$build" $(jobs) "$@"
}

# show_failures DIRECTORY: of the log of every test that failed there, what it says of failures and its end.
show_failures() {
    find "$root/$1" -name '*.trs' -exec grep -lE '^:test-result: (FAIL|XPASS|ERROR)' {} + |
        while read -r result; do
            echo "--- ${result%.trs}.log"
            head -n -40 "${result%.trs}.log" | grep -E -A6 'FAIL|not ok|does not hold' | head -60
            tail -40 "${result%.trs}.log"
        done
}
