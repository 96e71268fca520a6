#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Does the suite itself work, where there is no GPU? Case files parse and a wrong one is refused; a few small calls
# give right answers; a provider that is missing, or answers wrongly, is a row that says so.
set -u
bench=$TB_BUILDDIR/perf/bench
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
failed=0
expect() { # expect MESSAGE COMMAND...
    local message=$1
    shift
    "$@" || { echo "FAIL: $message"; failed=1; }
}

for f in "$TB_SRCDIR"/perf/cases/*.txt; do
    expect "$f does not parse" "$bench" -n "$f"
done
for line in 'level=host routine=sgemm' 'level=host routine=qgemm size=8' 'level=host routine=sgemm size=8x' \
    'level=host routine=sgemm size=8 colour=red' 'level=kernel routine=dtrsm size=8' 'host sgemm 8' \
    'level=host routine=sgemm size=8 trans=n' 'level=host routine=sgemm size=8 dist=odd'; do
    echo "$line" > "$work/wrong.txt"
    expect "accepted: $line" eval '! "$bench" -n "$work/wrong.txt" 2> /dev/null'
done

# A BLAS that computes nothing: its NaN (the poison) must be called wrong.
cat > "$work/idle.c" <<'C'
void sgemm_(void) {}
C
expect "compiler" ${CC:-cc} -shared -fPIC -o "$work/idle.so" "$work/idle.c"
echo 'level=host routine=sgemm size=40x30x20 trans=nt beta=0,0.5' > "$work/one.txt"
"$bench" -o "$work/out.csv" -r 1 -t 1 -p ours,openblas,nvblas -b "$work/idle.so" "$work/one.txt" 2> "$work/log"
expect "an idle BLAS is not called wrong" [ "$(grep -c ',ours,wrong,' "$work/out.csv")" = 2 ]
expect "openblas is neither right nor missing" grep -qE ',openblas,(ok|missing),' "$work/out.csv"
expect "nvblas left no row" grep -q ',nvblas,' "$work/out.csv"
expect "not one row a case and provider" [ "$(wc -l < "$work/out.csv")" -ge 7 ]
# What compares and reports: the same, slower, lost; a page, with a wrong row marked, also without matplotlib.
if command -v python3 > /dev/null; then
    csv=$TB_SRCDIR/perf/check.csv
    awk -F, -v OFS=, '$17 == "ours" { for (i = 20; i <= 22; i++) $i *= 2 } { print }' "$csv" > "$work/slower.csv"
    sed '/dgemm/d' "$csv" > "$work/lost.csv"
    expect "compare: the same is not the same" python3 "$TB_SRCDIR/perf/compare.py" "$csv" "$csv"
    for kind in slower lost; do
        expect "compare: $kind goes unseen" eval \
            '! python3 "$TB_SRCDIR/perf/compare.py" "$csv" "$work/$kind.csv" > "$work/$kind.txt"'
        expect "compare: $kind goes unnamed" grep -q "^$kind" "$work/$kind.txt"
    done
    head='date,cpu,cpus,gpu,sms,driver,routine,trans,class,m,n,k,kernel,status,ms,ms_min,ms_max,best,chosen,note'
    row='2026-01-01T00:00Z,x,1,y,1,1,sgemm,nn,middle,9,9,9'
    printf '%s\n' "$head" "$row,big,ok,1.5,1,2,0,1," "$row,small,ok,1.25,1,2,1,0," > "$work/tune.csv"
    expect "report of tune" python3 "$TB_SRCDIR/perf/report.py" -o "$work/tune.html" "$csv" "$work/tune.csv"
    expect "the report hides a bad choice" grep -q '<td>small</td><td>big</td><td>1.20</td>' "$work/tune.html"
    expect "report" python3 "$TB_SRCDIR/perf/report.py" -o "$work/report.html" "$csv" "$work/out.csv"
    expect "the report lacks a wrong row" grep -q 'class=bad' "$work/report.html"
else
    echo "no python3: compare.py and report.py not tested"
fi
[ $failed = 0 ] || cat "$work/out.csv" "$work/log"
exit $failed
