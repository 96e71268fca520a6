# SPDX-License-Identifier: BSD-3-Clause
# TILEBLAS_TRACE: what is written parses, nests and lasts, also from a process that leaves by _exit or forks.
python=/usr/bin/python3
[ -x $python ] || exit 77
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
program=$TB_BUILDDIR/tests/sim/test_trace
for end in return exit _exit fork; do
    # The leak checker of a child looks for the threads of the parent and cannot stop them.
    [ $end = fork ] && export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
    TILEBLAS_TRACE="$work/$end-%p.json" "$program" $end || exit 1
    $python "$TB_SRCDIR/tests/sim/timeline.py" $end "$work/$end"-*.json || exit 1
done
# Two processes, one file: both append.
for i in 1 2; do
    TILEBLAS_TRACE="$work/both.json" "$program" return || exit 1
done
$python "$TB_SRCDIR/tests/sim/timeline.py" both "$work/both.json" || exit 1
[ -z "$(TILEBLAS_TRACE=/nonexistent/x.json "$program" return 2>&1)" ] || exit 1
# Nobody reads the FIFO: the program does not wait for somebody who might.
mkfifo "$work/fifo" && TILEBLAS_TRACE="$work/fifo" timeout 60 "$program" return || exit 1
