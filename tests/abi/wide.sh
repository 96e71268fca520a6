# SPDX-License-Identifier: BSD-3-Clause
# Over a library with 64-bit integers behind plain names every argument passes on whole: what reaches it with us is what
# reaches it without us. The same with a library that only its file name gives away.
. "$TB_SRCDIR/tests/abi/lib.sh" || exit 99
skip_if_sanitized
build libwide.so "$here/wide_blas.c" -shared -fPIC -Wl,-soname,libwide.so
mkdir named
build named/libplain64.so "$here/wide_blas.c" -shared -fPIC -Wl,-soname,libplain64.so -Dopenblas_get_config=another_name
build wide "$here/wide.c" -L. -lwide -Wl,-rpath,"$work"
build wide_named "$here/wide.c" -Lnamed -lplain64 -Wl,-rpath,"$work/named"
./wide > plain || fail "without us: status $?"
grep -q 'dgemm_ NT 4294967298 2 2 2.5 4294967298 2 0 4294967298' plain || fail "the stand-in got $(head -1 plain)"
[ "$(wc -l < plain)" -eq 10 ] || fail "$(wc -l < plain) calls arrived"

for program in wide wide_named; do
    for library in "$preload" $( [ -e "$sim" ] && echo "$sim" ); do
        for route in auto gpu cpu; do
            LD_PRELOAD=$library TILEBLAS_ROUTE=$route timeout 60 ./$program > shown 2> err || fail "$program, $route: status $?"
            cmp -s plain shown || fail "$program, $route, ${library##*/}: $(diff plain shown | head -4 | tr '\n' '|')"
            [ -s err ] && fail "$program, $route: on stderr: $(head -2 err)"
        done
    done
done
# The log says so.
LD_PRELOAD=$preload TILEBLAS_VERBOSE=2 ./wide 2> err > shown
grep -q '64-bit integers behind plain names' err || fail "the log does not name the wide library: $(head -3 err)"
cmp -s plain shown || fail "verbose: other arguments arrived"
finish
