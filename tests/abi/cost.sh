# SPDX-License-Identifier: BSD-3-Clause
# What a small call costs on its way through: instructions of a 4 x 4 product with us less without us, by the
# difference of two loop counts under callgrind. At most 150.
. "$TB_SRCDIR/tests/abi/lib.sh" || exit 99
skip_if_sanitized
need_openblas
need valgrind valgrind
build cost "$here/cost.c" -lopenblas
# valgrind knows no AVX-512; one thread, so that nothing else runs.
export OPENBLAS_CORETYPE=Haswell OPENBLAS_NUM_THREADS=1

# instructions FORM COUNT: of the whole run.
instructions() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null ./cost "$1" "$2" 2> err > /dev/null ||
        { cat err >&2; return 1; }
    sed -n 's/^==.*Collected : \([0-9]*\).*/\1/p' err
}
# per_call FORM: instructions of one call.
per_call() {
    local few many
    few=$(instructions "$1" 1000) && many=$(instructions "$1" 5000) || return 1
    echo $(((many - few) / 4000))
}
for form in fortran cblas; do
    bare=$(per_call $form) || { fail "callgrind, $form"; continue; }
    with=$(LD_PRELOAD=$preload; export LD_PRELOAD; per_call $form) || { fail "callgrind under preload, $form"; continue; }
    echo "$form: $bare instructions direct, $with through us: $((with - bare)) more"
    [ "$bare" -gt 50 ] || fail "$form: $bare instructions for a product cannot be"
    [ $((with - bare)) -le 150 ] || fail "$form: a small call costs $((with - bare)) instructions"
    [ $((with - bare)) -ge 3 ] || fail "$form: nothing was preloaded"
done
finish
