# SPDX-License-Identifier: BSD-3-Clause
# What the two libraries export and need: exactly the table, functions only, nothing but libc; flags of the objects.
. "$TB_SRCDIR/tests/abi/lib.sh" || exit 99
need nm binutils
need readelf binutils

list_doors | awk '{print $3}' > doors
list_others > others
[ "$(wc -l < doors)" -ge 600 ] || fail "the table has only $(wc -l < doors) doors"
[ "$(wc -l < others)" -ge 2290 ] || fail "the table has only $(wc -l < others) other names"
sort doors others | uniq -d > twice
[ -s twice ] && fail "named twice: $(tr '\n' ' ' < twice)"

# check LIBRARY NAMES...: compares what is exported with the files of names.
check() {
    local lib=$1
    shift
    { cat "$@"; echo tileblas_marker; } | sort > expected
    nm -D --defined-only "$lib" > symbols
    awk '{print $NF}' symbols | sort > exported
    diff expected exported > difference || fail "$lib exports other names than the table: $(head -5 difference | tr '\n' ' ')"
    awk '$2 != "T" && !($2 == "W" && $3 == "xerbla_")' symbols > data
    [ -s data ] && fail "$lib exports other things than functions: $(head -3 data)"
    # .dynsym's own type: a symbol without @function cannot be told from data by a debugger or by ld.
    readelf -W --dyn-syms "$lib" | awk '$7 != "UND" && $5 != "LOCAL" && $4 != "FUNC" && NR > 3 && $1 ~ /:$/' > untyped
    [ -s untyped ] && fail "$lib: not marked as functions: $(head -3 untyped)"
    readelf -W -V "$lib" | grep -q 'Version definition section' && fail "$lib defines symbol versions"

    readelf -W -d "$lib" > dynamic
    sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' dynamic > needed
    local allowed='^(libc\.so\.6|libdl\.so\.2|libpthread\.so\.0|ld-linux-x86-64\.so\.2)$'
    [ -n "${TB_SANITIZE:-}" ] && allowed="$allowed|lib(asan|tsan|ubsan|gcc_s|m|stdc\+\+)\.so"
    grep -Ev "$allowed" needed > foreign && fail "$lib needs $(tr '\n' ' ' < foreign)"
    grep -q 'NODELETE' dynamic || fail "$lib can be unloaded (no -z nodelete)"
    grep -q 'TEXTREL' dynamic && fail "$lib has text relocations"
    grep -Eq 'R(UN)?PATH' dynamic && fail "$lib has a run path"
    readelf -W -l "$lib" | awk '$1 == "GNU_STACK"' > stack
    grep -q . stack || fail "$lib does not say what stack it wants"
    grep -q 'RWE' stack && fail "$lib asks for an executable stack"
    # One destructor (the summary), no constructor of ours: those of the C run-time files are frame_dummy and its pair.
    # A sanitizer brings its own.
    if [ -z "${TB_SANITIZE:-}" ]; then
        local arrays
        arrays=$(readelf -W -S "$lib" | awk '{for (i = 1; i < NF; i++) if ($i ~ /^\.(init|fini)_array$/) print $i, $(i + 4)}' | tr '\n' ' ')
        [ "$arrays" = ".init_array 000008 .fini_array 000010 " ] || fail "$lib: constructors or destructors were added: $arrays"
    fi
}
check "$preload" doors
check "$full" doors others
[ -e "$sim" ] && { nm -D --defined-only "$sim" | awk '{print $NF}' | sort > exported
    { cat doors; echo tileblas_marker; } | sort | diff - exported > difference || fail "$sim exports other names: $(head -5 difference)"; }

soname=$(readelf -W -d "$full" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
[ "$soname" = libtileblas.so.0 ] || fail "soname is '$soname'"

# Every public name of the installed OpenBLAS has an exported name of ours.
openblas=$(ldconfig -p 2> /dev/null | awk '$1 == "libopenblas.so.0" {print $NF; exit}')
if [ -n "$openblas" ]; then
    nm -D --defined-only "$openblas" | awk '$2 ~ /[TWi]/ {print $NF}' | sort -u > theirs
    cat doors others | sort > ours
    # Fortran and CBLAS names and the controls; everything else it exports is kernels and internals.
    grep -E '^[a-z][a-z0-9_]*_$|^(cblas|openblas|goto)_|^__la_xisnan_MOD_' theirs |
        grep -vx 'blas_thread_shutdown_' > public
    [ "$(wc -l < public)" -ge 2000 ] || fail "only $(wc -l < public) public names seen in $openblas"
    comm -23 public ours > missing
    [ -s missing ] && fail "public in $openblas, not exported: $(wc -l < missing): $(head -20 missing | tr '\n' ' ')"
    echo "OpenBLAS's public names checked: $(wc -l < public)"
else
    echo "no libopenblas.so.0 here: its names were not compared"
fi
finish
