#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# quick.sh SOURCE BUILD: a first look in minutes: host and kernel level and the ladder on a GPU host; where there is no
# GPU, the CPU providers only. What hangs is ended in time. Exit 1 where a provider that is there failed or gave a wrong answer.
set -u
source=$1 build=$2
bench=$build/perf/bench
ours=$build/.libs/libtileblas.so.0
status=0
if nvidia-smi > /dev/null 2>&1; then
    timeout -k 5 230 "$bench" -o "$build/perf/quick.csv" -r 7 -t 150 -l 200 -b "$ours" "$source/perf/cases/quick-gpu.txt" || status=1
    timeout -k 5 60 "$build/perf/ladder" -o "$build/perf/quick-ladder.csv" || status=1
else
    timeout -k 5 115 "$bench" -o "$build/perf/quick.csv" -r 3 -t 20 -l 90 -b "$ours" "$source/perf/cases/quick-cpu.txt" || status=1
fi
echo "results: $build/perf/quick*.csv"
if grep -E ',(failed|wrong|not run),' "$build"/perf/quick*.csv; then
    status=1
fi
exit $status
