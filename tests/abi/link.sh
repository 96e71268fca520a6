# SPDX-License-Identifier: BSD-3-Clause
# -ltileblas in place of -lopenblas, alone: C and Fortran, both linkers, the usual flags; and every name of the table.
. "$TB_SRCDIR/tests/abi/lib.sh" || exit 99
need_openblas

# runs PROGRAM CAUGHT: right result, nothing on stderr, that many level-3 calls came to us.
runs() {
    TILEBLAS_VERBOSE=1 TILEBLAS_LOG=$work/log LD_LIBRARY_PATH=$libs "$1" > out 2> err ||
        { fail "$3: status $?: $(head -3 out err)"; return; }
    [ "$(cat out)" = right ] || fail "$3: $(head -3 out)"
    [ -s err ] && fail "$3: on stderr: $(head -3 err)"
    grep -q " $2 level-3 calls caught" log || fail "$3: $2 calls expected, log says: $(head -1 log)"
    rm -f log
}
fortran=$FC
[ -n "${FC:-}" ] && command -v "${FC%% *}" > /dev/null || fortran=
[ -n "$fortran" ] || echo "no Fortran compiler: C only"

for linker in bfd lld; do
    echo 'int main(void) { return 0; }' > probe.c
    $CC -fuse-ld=$linker -o probe probe.c 2> /dev/null || { echo "no ld.$linker"; continue; }
    for flags in -Wl,--no-as-needed -Wl,--as-needed "-Wl,--no-undefined -Wl,--no-allow-shlib-undefined" -Wl,-z,now; do
        # shellcheck disable=SC2086
        if $CC ${TB_SANITIZE:-} -w -fuse-ld=$linker $flags -o c_program "$here/link.c" -L"$libs" -ltileblas 2> err; then
            runs ./c_program 2 "C, $linker, $flags"
        else
            fail "C, $linker, $flags does not link: $(grep -m3 -i -E 'undefined|error' err)"
        fi
        [ -n "$fortran" ] && [ -z "${TB_SANITIZE:-}" ] || continue
        # shellcheck disable=SC2086
        if $fortran -w -fuse-ld=$linker $flags -o f_program "$here/link.f90" -L"$libs" -ltileblas 2> err; then
            runs ./f_program 2 "Fortran, $linker, $flags"
        else
            fail "Fortran, $linker, $flags does not link: $(grep -m3 -i -E 'undefined|error' err)"
        fi
    done
done
# What ends up needed is ours, not OpenBLAS.
readelf -W -d c_program | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' > needed
grep -q 'libtileblas.so.0' needed || fail "libtileblas.so.0 is not needed: $(tr '\n' ' ' < needed)"
grep -q 'openblas' needed && fail "OpenBLAS is needed"

# Our library first, OpenBLAS behind it: as every build system would add it.
# shellcheck disable=SC2086
$CC ${TB_SANITIZE:-} -w -o both "$here/link.c" -L"$libs" -ltileblas -lopenblas && runs ./both 2 "-ltileblas -lopenblas"

if echo 'int LAPACKE_dgesv(); int main(void) { return LAPACKE_dgesv == 0; }' > lapacke.c &&
    $CC -w -o lapacke lapacke.c -llapacke 2> /dev/null; then
    cat > lapacke.c <<'END'
#include <stdio.h>
int LAPACKE_dgesv(int, int, int, double *, int, int *, double *, int);
void cblas_dgemm(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int);
int main(void)
{
    double a[] = {2, 0, 0, 4}, b[] = {2, 8}, c = 0;
    int pivots[2];
    const int info = LAPACKE_dgesv(101, 2, 1, a, 2, pivots, b, 1);
    cblas_dgemm(101, 111, 111, 1, 1, 2, 1, b, 2, b, 1, 0, &c, 1);
    puts(info == 0 && b[0] == 1 && b[1] == 2 && c == 5 ? "right" : "wrong");
    return 0;
}
END
    # shellcheck disable=SC2086
    $CC ${TB_SANITIZE:-} -o lapacke lapacke.c -L"$libs" -ltileblas -llapacke && runs ./lapacke 1 "-ltileblas -llapacke" ||
        fail "-ltileblas -llapacke"
else
    echo "no liblapacke: not tried"
fi

# configure scripts probe like this: a made-up prototype, no call.
for name in dgemm_ cblas_sgemm zheev_ openblas_get_parallel dlamch_ cblas_zdotu_sub; do
    echo "char $name(); int main(void) { return $name == 0; }" > probe.c
    # shellcheck disable=SC2086
    $CC ${TB_SANITIZE:-} -w -o probe probe.c -L"$libs" -ltileblas 2> err || fail "AC_CHECK_LIB would not find $name"
done

# Every name: one program that takes the address of all of them.
{
    echo '#include <stdio.h>'
    { list_doors | awk '{print $3}'; list_others; } > names
    sed 's/.*/void &(void);/' names
    echo 'void (*const all[])(void) = {'
    sed 's/$/,/' names
    echo '};'
    echo 'int main(void) { size_t n = 0; for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) n += all[i] != 0;'
    echo "    puts(n == $(wc -l < names) ? \"right\" : \"wrong\"); return 0; }"
} > every_name.c
for linker in bfd lld; do
    $CC -fuse-ld=$linker -o probe probe.c -L"$libs" -ltileblas 2> /dev/null || continue
    # shellcheck disable=SC2086
    $CC ${TB_SANITIZE:-} -w -fno-builtin -fuse-ld=$linker -o every_name every_name.c -L"$libs" -ltileblas 2> err ||
        { fail "not every name links with $linker: $(grep -m3 -i undefined err)"; continue; }
    runs ./every_name 0 "every name, $linker"
done

# A control newer than the CPU BLAS here: links, and ends as ld.so ends a program if it is called.
openblas=$(ldconfig -p | awk '$1 == "libopenblas.so.0" {print $NF; exit}')
if [ -n "$openblas" ] && ! nm -D --defined-only "$openblas" | grep -q ' openblas_set_threads_callback_function$'; then
    printf '%s\n' '#include <stdio.h>' 'void openblas_set_threads_callback_function(void *);' \
        'int main(int argc, char **argv) { (void)argv; puts("alive"); fflush(stdout);' \
        '    if (argc > 1) { openblas_set_threads_callback_function(0); } return 0; }' > missing.c
    build missing missing.c -L"$libs" -ltileblas
    LD_LIBRARY_PATH=$libs ./missing > out 2> err || fail "a name that is not called ends the program: $(cat err)"
    LD_LIBRARY_PATH=$libs ./missing x > out 2> err
    status=$?
    [ $status -eq 127 ] || fail "missing name: status $status, not 127"
    [ "$(wc -l < err)" -eq 1 ] || fail "missing name: $(wc -l < err) lines on stderr: $(head -3 err)"
    grep -q 'openblas_set_threads_callback_function' err || fail "missing name is not named: $(cat err)"
    [ "$(cat out)" = alive ] || fail "missing name: stdout is $(cat out)"
else
    echo "this OpenBLAS has every name of the table: the missing one was not tried"
fi
finish
