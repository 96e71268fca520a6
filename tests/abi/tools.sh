#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The tileblas command from the outside: exit statuses, what `run` hands to the program, and the verdicts
# of `info` on programs built here for each case. Then tileblas.h beside every cblas.h there is.
set -u
src=${TB_SRCDIR:-.}
build=${TB_BUILDDIR:-.}
tool=${TB_TOOL:-$build/tools/tileblas}
cc=${CC:-cc}
failures=0
checks=0
unset LD_PRELOAD LD_LIBRARY_PATH "${!TILEBLAS_@}"

tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
chmod 755 "$tmp"

fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

# expect STATUS COMMAND...: runs it, leaves its streams in $out and $err
expect() {
    local want=$1 got
    shift
    checks=$((checks + 1))
    "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
    out=$(cat "$tmp/out") err=$(cat "$tmp/err")
    [ "$got" -eq "$want" ] || fail "status $got instead of $want: $* [$out] [$err]"
}

# says TEXT: the last output has it;  warns TEXT: the last error stream has it
says() {
    checks=$((checks + 1))
    grep -qF -- "$1" <<<"$out" || fail "no '$1' in: $out"
}
says_not() {
    checks=$((checks + 1))
    ! grep -qF -- "$1" <<<"$out" || fail "'$1' in: $out"
}
warns() {
    checks=$((checks + 1))
    grep -qF -- "$1" <<<"$err" || fail "no '$1' on stderr: $err"
}
quiet() {
    checks=$((checks + 1))
    [ -z "$err" ] || fail "stderr is not empty: $err"
}
is() {
    checks=$((checks + 1))
    [ "$out" = "$1" ] || fail "'$out' instead of '$1'"
}

if [ -n "${TB_SANITIZE:-}" ]; then
    echo "sanitized libraries cannot be preloaded into plain programs: only in the plain build"
    exit 77
fi
[ -x "$tool" ] || { echo "FAIL: no $tool"; exit 1; }

### command line
expect 0 "$tool" --help
says "tileblas run"
says "tileblas report"
says "tileblas tune"
expect 0 "$tool" --version
says "tileblas $(sed -nE 's/^AC_INIT\(\[libtileblas\], \[([0-9.]+)\].*/\1/p' "$src/configure.ac")"
expect 2 "$tool"
is ""
warns "usage:"
expect 2 "$tool" report
is ""
warns "report: wrong number of words"
expect 2 "$tool" tune --nonsense
is ""
warns "bad option --nonsense"
expect 2 "$tool" run
expect 2 "$tool" run --verbose
expect 2 "$tool" run --nonsense true
warns "--nonsense"
expect 2 "$tool" run --route true
expect 2 "$tool" run --route=sideways true
warns "TILEBLAS_ROUTE"
expect 2 "$tool" info a b

### run
preload=$("$tool" run sh -c 'echo "$LD_PRELOAD"')
[[ $preload == /*/libtileblas-preload.so ]] || fail "preloads '$preload'"
expect 0 "$tool" run sh -c 'exit 0'
quiet
is ""
expect 7 "$tool" run sh -c 'exit 7'
expect 7 "$tool" run -- sh -c 'exit 7'
quiet
expect 0 env LD_PRELOAD=libc.so.6 "$tool" run sh -c 'echo "$LD_PRELOAD"'
is "$preload:libc.so.6"
show='echo $TILEBLAS_ROUTE,$TILEBLAS_MATH,$TILEBLAS_VERBOSE,$TILEBLAS_LOG,$TILEBLAS_MEMORY,$TILEBLAS_DEVICES,$TILEBLAS_THREADS,$TILEBLAS_CPU_BLAS'
expect 0 "$tool" run --route=cpu --math=strict --verbose=2 --log="$tmp/log.%p" --memory=1G --devices=0 \
    --threads=3 --cpu-blas=next sh -c "$show"
is "cpu,strict,2,$tmp/log.%p,1G,0,3,next"
expect 0 env TILEBLAS_LOG="$tmp/log" "$tool" run --verbose sh -c "$show"
is ",,1,$tmp/log,,,,"
expect 0 "$tool" run sh -c "$show"
is ",,,,,,,"
expect 0 "$tool" run echo --route=cpu -x
is "--route=cpu -x"
expect 127 "$tool" run "$tmp/nothing"
is ""
warns "nothing"
expect 127 "$tool" run tileblas-no-such-program
touch "$tmp/plain"
expect 126 "$tool" run "$tmp/plain"
warns "plain"
expect 126 "$tool" run "$tmp"
mkdir "$tmp/a b"
cp "$tool" "$tmp/a b/tileblas"
mkdir "$tmp/a b/.libs"
cp "$preload" "$tmp/a b/.libs/"
expect 125 "$tmp/a b/tileblas" run true
warns "space"

### the cases of info
cat >"$tmp/blas.c" <<'END'
void dgemm_(void), dtrsm_(void), cblas_dgemm(void);
void dgemm_(void) {}
void dtrsm_(void) {}
void cblas_dgemm(void) { dgemm_(); }
END
cat >"$tmp/caller.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
void dgemm_(void), cblas_dgemm(void);
int main(void)
{
    const char *mark = getenv("MARK");
    if (mark != NULL) {
        FILE *f = fopen(mark, "w"); /* nobody who only looks may get here */
        if (f != NULL)
            fclose(f);
    }
    dgemm_();
    cblas_dgemm();
    return 0;
}
END
echo 'int main(void) { return 0; }' >"$tmp/empty.c"
echo 'void tileblas_marker(void); void dgemm_(void); void cblas_dgemm(void); void dtrsm_(void);
      void tileblas_marker(void) {} void dgemm_(void) {} void cblas_dgemm(void) {} void dtrsm_(void) {}' >"$tmp/ours.c"
echo 'void dgemm_(void); void use(void); void use(void) { dgemm_(); }' >"$tmp/module.c"
echo 'void dgemm(void); int main(void) { dgemm(); return 0; }' >"$tmp/bare.c"
echo 'void dgemm(void); void dgemm(void) {}' >"$tmp/barelib.c"
compile() {
    # shellcheck disable=SC2086
    $cc -w "$@" || { echo "FAIL: $cc $*"; exit 1; }
}
mkdir "$tmp/lib"
compile -shared -fPIC -Wl,-soname,libopenblas.so.0 -o "$tmp/lib/libopenblas.so.0" "$tmp/blas.c"
compile -shared -fPIC -Wl,-soname,libtileblas.so.0 -o "$tmp/lib/libtileblas.so.0" "$tmp/ours.c"
compile -shared -fPIC -Wl,-Bsymbolic -o "$tmp/lib/libsymbolic.so" "$tmp/blas.c"
compile -shared -fPIC -Wl,-soname,libbare.so -o "$tmp/lib/libbare.so" "$tmp/barelib.c"
ln -s libopenblas.so.0 "$tmp/lib/libopenblas.so"
ln -s libtileblas.so.0 "$tmp/lib/libtileblas.so"
no=-Wl,--no-as-needed
compile $no -o "$tmp/plain_link" "$tmp/caller.c" -L"$tmp/lib" -lopenblas
compile $no -o "$tmp/runpath" "$tmp/caller.c" -L"$tmp/lib" -lopenblas '-Wl,-rpath,$ORIGIN/lib,--enable-new-dtags'
compile $no -o "$tmp/rpath" "$tmp/caller.c" -L"$tmp/lib" -lopenblas '-Wl,-rpath,${ORIGIN}/lib,--disable-new-dtags'
compile $no -o "$tmp/linked" "$tmp/caller.c" -L"$tmp/lib" -ltileblas -lopenblas '-Wl,-rpath,$ORIGIN/lib'
compile $no -o "$tmp/wrong" "$tmp/caller.c" -L"$tmp/lib" -lopenblas -ltileblas '-Wl,-rpath,$ORIGIN/lib'
compile -o "$tmp/own" "$tmp/caller.c" "$tmp/blas.c"
compile -rdynamic -o "$tmp/own_visible" "$tmp/caller.c" "$tmp/blas.c"
compile -no-pie -o "$tmp/bare" "$tmp/bare.c" -L"$tmp/lib" -lbare '-Wl,-rpath,$ORIGIN/lib'
compile -o "$tmp/empty" "$tmp/empty.c"
compile -shared -fPIC -o "$tmp/module.so" "$tmp/module.c"
compile -shared -fPIC -Wl,-soname,libdeep.so -o "$tmp/lib/libdeep.so" "$tmp/module.c" -L"$tmp/lib" -lopenblas
compile -Wl,--allow-shlib-undefined $no -o "$tmp/deep" "$tmp/empty.c" -L"$tmp/lib" -ldeep '-Wl,-rpath,$ORIGIN/lib,--disable-new-dtags'

expect 0 "$tool" info "$tmp/runpath"
quiet
says "libopenblas.so.0 => $tmp/lib/libopenblas.so.0  [OpenBLAS]"
says "cblas_dgemm dgemm_"
says "verdict: caught under"
expect 0 "$tool" info "$tmp/rpath"
says "=> $tmp/lib/libopenblas.so.0"
expect 0 env LD_LIBRARY_PATH="$tmp/lib" "$tool" info "$tmp/plain_link"
says "=> $tmp/lib/libopenblas.so.0"
expect 0 "$tool" info "$tmp/deep" # found through the DT_RPATH of the program that loads the loader
says "=> $tmp/lib/libopenblas.so.0"
says "libdeep.so: dgemm_ (dgemm_ served by libopenblas.so.0)"
expect 0 "$tool" info "$tmp/linked"
says "verdict: caught: linked with libtileblas"
expect 0 "$tool" info "$tmp/wrong"
says "verdict: not caught by the link: libopenblas.so.0 comes before libtileblas"
expect 0 "$tool" info "$tmp/own"
says "verdict: not caught: the program brings its own BLAS"
expect 0 "$tool" info "$tmp/own_visible"
says "verdict: not caught: the program brings its own BLAS"
expect 0 "$tool" info "$tmp/lib/libsymbolic.so"
says "Bsymbolic"
says "verdict: not caught"
expect 0 "$tool" info "$tmp/lib/libopenblas.so.0"
says "verdict: caught in a program"
expect 0 "$tool" info "$tmp/lib/libtileblas.so.0"
says "verdict: this is libtileblas itself"
expect 0 "$tool" info "$tmp/bare"
says "only where oneMKL"
expect 0 "$tool" info "$tmp/empty"
says "calls of level-3 BLAS: none by name"
says "verdict: nothing to catch"
expect 0 "$tool" info "$tmp/module.so"
says "shared library"
says "verdict: caught in a program"
if $cc -w -static -o "$tmp/static" "$tmp/caller.c" "$tmp/blas.c" 2>/dev/null; then
    expect 0 "$tool" info "$tmp/static"
    says "static"
    says "verdict: not caught: it is statically linked"
    expect 0 "$tool" run "$tmp/static"
    is ""
    warns "statically linked"
    [ "$(wc -l <<<"$err")" -eq 1 ] || fail "more than one line: $err"
else
    fail "no static C library (Debian package libc6-dev)"
fi

# The verdicts are those of the dynamic linker itself.
if [ -f "$preload" ]; then
    for program in runpath own own_visible; do
        LD_DEBUG=bindings LD_BIND_NOW=1 LD_PRELOAD=$tmp/lib/libtileblas.so.0 "$tmp/$program" 2>&1 |
            grep -q "$tmp/$program .* to $tmp/lib/libtileblas.so.0 .*symbol .dgemm_'" && caught=yes || caught=no
        checks=$((checks + 1))
        [ "$caught" = "$([ $program = runpath ] && echo yes || echo no)" ] || fail "$program: caught is $caught"
    done
fi

# Only looked at, never run.
expect 0 env MARK="$tmp/mark" "$tool" info "$tmp/runpath"
[ ! -e "$tmp/mark" ] || fail "info ran the program"

### scripts, folders, other files
printf '#!%s -x\n' "$tmp/runpath" >"$tmp/script"
printf '#!/usr/bin/env runpath\n' >"$tmp/env_script"
chmod +x "$tmp/script" "$tmp/env_script"
expect 0 "$tool" info "$tmp/script"
says "script, run by $tmp/runpath"
says "verdict: caught under"
expect 0 env PATH="$tmp:$PATH" "$tool" info "$tmp/env_script"
says "$tmp/runpath"
says "verdict: caught under"
expect 0 env PATH="$tmp:$PATH" "$tool" info runpath
says "$tmp/runpath: program"
expect 0 "$tool" info "$tmp/lib"
says "libsymbolic.so"
says "5 programs and libraries, 3 of them"
printf '\177ELF\001\001\001' >"$tmp/elf32"
head -c 100 /dev/zero >>"$tmp/elf32"
expect 1 "$tool" info "$tmp/elf32"
warns "not an x86-64 program"
expect 1 "$tool" info "$tmp/blas.c"
warns "neither program"
expect 1 "$tool" info "$tmp/nothing"
warns "nothing"
head -c 300 "$tmp/runpath" >"$tmp/cut"
expect 1 "$tool" info "$tmp/cut"
expect 1 bash -c '"$0" info "$1" >/dev/full' "$tool" "$tmp/runpath"

### programs the dynamic linker protects; only root can make one that is not his own
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
    cp "$tmp/runpath" "$tmp/setuid"
    cp "$tmp/empty" "$tmp/setuid_empty"
    chmod 4755 "$tmp/setuid" "$tmp/setuid_empty"
    cp "$tool" "$tmp/tileblas"
    mkdir -p "$tmp/.libs"
    cp "$preload" "$tmp/.libs/"
    other=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    expect 0 "${other[@]}" "$tmp/tileblas" info "$tmp/setuid"
    says "verdict: not caught: it is set-uid"
    expect 0 "${other[@]}" "$tmp/tileblas" run "$tmp/setuid_empty"
    warns "it is set-uid"
    expect 0 "$tool" info "$tmp/setuid"
    says "verdict: caught under"
fi

### info about this machine
expect 0 env TILEBLAS_ROUTE=sideways TILEBLAS_MATHS=x TILEBLAS_MEMORY=1G TILEBLAS_DEVICES=none "$tool" info
for word in library: GPU: "CPU BLAS:" TILEBLAS_MEMORY=1G "unknown: TILEBLAS_MATHS" threshold:; do
    says "$word"
done
says "bad:     TILEBLAS_ROUTE"
expect 0 env TILEBLAS_ROUTE=cpu TILEBLAS_DEVICES=none "$tool" info
says "threshold: every call stays on the CPU"
quiet

### tileblas.h: alone, after each cblas.h, in C and C++; every name is exported
cat >"$tmp/names.c" <<'END'
#ifdef FIRST
#include FIRST
#endif
#include "tileblas.h"
typedef void (*function)(void);
#define ALIAS(NAME, LIST, LIST_64) (function)tileblas_##NAME, (function)tileblas_##NAME##_64,
#define PLAIN(NAME, LIST, LIST_64) (function)cblas_##NAME, (function)cblas_##NAME##_64,
#define FORTRAN(NAME, LIST) (function)NAME##_, (function)NAME##_64_,
extern const function all[];
const function all[] = {
    TILEBLAS_OWN(ALIAS) TILEBLAS_SHARED(ALIAS) TILEBLAS_SHARED_GEMMTR(ALIAS) TILEBLAS_OWN(PLAIN)
#ifndef FIRST
    TILEBLAS_SHARED(PLAIN) TILEBLAS_SHARED_GEMMTR(PLAIN)
#endif
    TILEBLAS_F_ROUTINES(FORTRAN, int)
};
END
cp "$tmp/names.c" "$tmp/names.cpp"
firsts=("")
for header in cblas.h cblas-netlib.h cblas-openblas.h; do
    echo "#include <$header>" | $cc -E - >/dev/null 2>&1 && firsts+=("-DFIRST=<$header>")
done
for first in "${firsts[@]}"; do
    flags=(-I"$src/shim" -Wall -Wextra -Wno-cast-function-type -pedantic -Werror ${first:+"$first"} -c)
    expect 0 $cc -std=c99 "${flags[@]}" -o "$tmp/names.o" "$tmp/names.c"
    expect 0 $cc -std=c11 "${flags[@]}" -o "$tmp/names.o" "$tmp/names.c"
    if command -v c++ >/dev/null; then
        expect 0 c++ "${flags[@]}" -o "$tmp/names.o" "$tmp/names.cpp"
    fi
done
$cc -I"$src/shim" -w -c -o "$tmp/names.o" "$tmp/names.c" || fail "names.c"
for library in libtileblas-preload.so libtileblas.so.0; do
    file=$(dirname "$preload")/$library
    nm -D --defined-only "$file" | awk '{print $3}' | sort -u >"$tmp/exported"
    missing=$(nm -u "$tmp/names.o" | awk '{print $2}' | grep -v GLOBAL_OFFSET | sort -u | comm -23 - "$tmp/exported")
    checks=$((checks + 1))
    [ -z "$missing" ] || fail "$library lacks what tileblas.h declares: $(tr '\n' ' ' <<<"$missing")"
done

echo "$checks checks, $failures failures"
exit $((failures != 0))
