# SPDX-License-Identifier: BSD-3-Clause
# `tileblas report`: a page out of the log of a real run and out of a timeline that was cut short; a file that is
# neither is named and fails.
. "$TB_SRCDIR/tests/abi/lib.sh" || exit 99
skip_if_sanitized
need python3 python3
need_openblas
tool=$TB_BUILDDIR/tools/tileblas
tmp=$work

cat >"$tmp/prog.c" <<'END'
#include <stdlib.h>
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *,
            const double *, const int *, const double *, double *, const int *);
int main(void)
{
    const int n = 700;
    const double one = 1, zero = 0;
    double *a = calloc(n * n, 8), *c = calloc(n * n, 8);
    for (int i = 0; i < 3; i++)
        dgemm_("N", "T", &n, &n, &n, &one, a, &n, a, &n, &zero, c, &n);
    return 0;
}
END
$CC -o "$tmp/prog" "$tmp/prog.c" -lopenblas || fail "the program does not build"
"$tool" run --verbose=2 --log="$tmp/log" --route=cpu "$tmp/prog" || fail "the program ends with $?"
"$tool" report -o "$tmp/page.html" "$tmp/log" >"$tmp/out" || fail "report ends with $?: $(cat "$tmp/out" "$tmp/log")"
grep -q '3 calls, 0 spans' "$tmp/page.html" || fail "not three calls: $(cat "$tmp/log")"
grep -q '<td>dgemm_ on the CPU (forced)</td><td>3</td>' "$tmp/page.html" || fail "no sum of three calls"
grep -q 'm=700 n=700 k=700' "$tmp/page.html" || fail "no line for a call"

# Two kernels of 1 ms in 3 ms that overlap by half: busy for 1.5 ms, half of the time. The last event is cut.
cat >"$tmp/trace.json" <<'END'
[
{"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"name":"tileblas"}},
{"ph":"X","name":"dgemm","cat":"caller","pid":1,"tid":1,"ts":1000.0,"dur":3000.0,"args":{"what":""}},
{"ph":"X","name":"k","cat":"kernel","pid":1,"tid":5001000,"ts":1000.0,"dur":1000.0,"args":{"what":""}},
{"ph":"X","name":"k","cat":"kernel","pid":1,"tid":5001001,"ts":1500.0,"dur":1000.0,"args":{"what":""}},
{"ph":"X","name":"k","cat":"ker
END
"$tool" report -o "$tmp/page.html" "$tmp/trace.json" "$tmp/log" >"$tmp/out" || fail "report of a timeline ends with $?"
grep -q '3 calls, 3 spans' "$tmp/page.html" || fail "a cut timeline is not read to its last whole span"
grep -q '<td>kernel</td><td>2</td><td>1.5</td><td>50.0%</td>' "$tmp/page.html" || fail "busy time: $(grep -o '<td>kernel.*' "$tmp/page.html")"

echo 'nothing of ours' >"$tmp/other"
"$tool" report -o "$tmp/page2.html" "$tmp/other" 2>"$tmp/err" && fail "a file that is neither passes"
grep -q "$tmp/other" "$tmp/err" || fail "the file is not named"
[ ! -e "$tmp/page2.html" ] || fail "an empty page is written"
"$tool" report "$tmp/nothing" 2>/dev/null && fail "a missing file passes"
finish
