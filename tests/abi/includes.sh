# SPDX-License-Identifier: BSD-3-Clause
# Arrows point one way: which folder and file may include what, cuda.h only beside the driver, no I/O in what is to
# be pure; and every header compiles alone.
. "$TB_SRCDIR/tests/abi/lib.sh" || exit 99

# Headers named by a file, by their last component; a .def counts as a header.
named_by() {
    sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"\([^"]*\)".*/\1/p' "$1" | sed 's#.*/##'
}
system_of() {
    sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*<\([^>]*\)>.*/\1/p' "$1"
}
seen=0
# may FILES... -- HEADERS...: these files include no other header of ours.
may() {
    local files=() file header
    while [ "$1" != -- ]; do
        [ -e "$1" ] && files+=("$1")
        shift
    done
    shift
    for file in "${files[@]}"; do
        seen=$((seen + 1))
        for header in $(named_by "$file"); do
            case " $* " in
                *" $header "*) ;;
                *) fail "${file#"$TB_SRCDIR"/} includes $header" ;;
            esac
        done
    done
}
cd "$TB_SRCDIR" || exit 99
own_shim="doors.h doors.def names.h openblas.def resolve.h fill.h types.h routines.def tileblas.h"
may shim/*.c shim/*.h shim/*.S shim/*.def -- $own_shim call.h run.h fallback.h log.h trace.h conf.h version.h doors.def trampolines.inc.S
may src/run.c src/run.h -- run.h call.h route.h conf.h log.h offload.h oncpu.h place.h trace.h watch.h fallback.h
may src/oncpu.c src/oncpu.h -- oncpu.h call.h log.h place.h fallback.h
may src/watch.c src/watch.h -- watch.h call.h conf.h place.h trace.h verify.h
may src/verify.c src/verify.h -- verify.h call.h
may src/place.c src/place.h -- place.h call.h dev.h
may src/offload.c src/offload.h -- offload.h calibrate.h call.h route.h conf.h device.h kernel.h plan.h exec.h pool.h log.h place.h explain.h
may src/route.c src/route.h -- route.h call.h caps.h conf.h profile.h
may src/profile.c src/profile.h -- profile.h call.h caps.h
may src/calibrate.c src/calibrate.h -- calibrate.h profile.h tuned.h caps.h conf.h dev.h log.h
may src/shape.c src/shape.h -- shape.h call.h
may src/tuned.c src/tuned.h -- tuned.h caps.h shape.h kernel.h version.h
may src/explain.c src/explain.h -- explain.h call.h caps.h fit.h kernel.h log.h tuned.h
may src/plan.c src/plan.h src/plan_*.c -- plan.h plan_strips.h call.h caps.h shape.h conf.h profile.h kernel.h kparams.h tuned.h status.h
may src/call.c src/call.h -- call.h
may src/conf.c src/conf.h -- conf.h conf.def log.h
may src/log.c src/log.h -- log.h conf.h call.h route.h status.h
own_fallback=$(cd fallback && echo *.h)
may fallback/*.c fallback/*.h -- $own_fallback call.h conf.h log.h
[ $seen -ge 20 ] || fail "only $seen files seen"

# Nobody includes shim; cuda.h and the driver's table only beside the driver; the CPU side only from run.
for file in src/*.[ch] src/*.def fallback/*.[ch] kernels/*.h; do
    [ -e "$file" ] || continue
    grep -Hn '^[[:space:]]*#[[:space:]]*include.*shim/' "$file" && fail "$file includes shim"
    case $file in
        src/driver.* | src/dev_cuda.c) ;;
        *) system_of "$file" | grep -x 'cuda\.h\|cuda_runtime.*' > /dev/null && fail "$file includes cuda.h" ;;
    esac
    case $file in
        src/run.c | src/oncpu.c | fallback/*) ;;
        *) named_by "$file" | grep -qx 'fallback.h' && fail "$file includes fallback.h" ;;
    esac
done

# Pure parts: no clocks, locks, threads or files. Printing only in plan_print.
for file in src/call.c src/route.c src/profile.c src/plan.c src/plan_strips.c src/kernel.c src/shape.c src/verify.c; do
    [ -e "$file" ] || continue
    allowed='stdbool\.h|stddef\.h|stdint\.h|string\.h|stdlib\.h|math\.h|limits\.h|float\.h'
    [ $file = src/plan.c ] && allowed="$allowed|stdio\.h"
    for header in $(system_of $file); do
        echo "$header" | grep -Eqx "$allowed" || fail "$file includes <$header>"
    done
    awk '/^[a-z].*\(/ { where = $0 }
         /(^|[^a-z_])(printf|fprintf|fputs|fopen|write|open|getenv|secure_getenv|clock_gettime|time|pthread_[a-z_]*)\(/ &&
         where !~ /^static void [a-z_]*_print\(|^void plan_print\(/ { print FILENAME ": " FNR ": " $0 }' $file > "$work/impure"
    [ -s "$work/impure" ] && fail "not pure: $(head -3 "$work/impure")"
done

# No C++ and no CUDA run-time library in the host code; no exit and no signal handler in the library.
grep -nE '(^|[^a-z_])(abort|exit|assert|signal|sigaction)\(' src/*.c shim/*.c fallback/*.c |
    grep -vE '^[^:]*:[0-9]*: *(/\*|\*|//)' > "$work/stops"
[ -s "$work/stops" ] && fail "the library stops programs: $(head -3 "$work/stops")"
cd "$work" || exit 99

for header in "$TB_SRCDIR"/src/*.h "$TB_SRCDIR"/shim/*.h "$TB_SRCDIR"/fallback/*.h "$TB_SRCDIR"/kernels/kparams.h; do
    case $header in
        */driver.h) [ -n "$(system_of "$header" | grep -x cuda.h)" ] && { echo '#include <cuda.h>' > probe.c
            # shellcheck disable=SC2086
            $CC ${CUDA_INCLUDE:+-I$CUDA_INCLUDE} -fsyntax-only probe.c 2> /dev/null || continue; } ;;
    esac
    printf '#include "%s"\n#include "%s"\nint probe;\n' "$header" "$header" > alone.c
    # shellcheck disable=SC2086
    $CC -std=c11 -D_GNU_SOURCE ${CUDA_INCLUDE:+-I$CUDA_INCLUDE} -Wall -Wextra -Wno-unused-function -Werror \
        -I"$TB_SRCDIR/shim" -I"$TB_BUILDDIR" -fsyntax-only alone.c > out 2>&1 || fail "${header#"$TB_SRCDIR"/} does not compile alone: $(grep -m1 error out)"
done
finish
