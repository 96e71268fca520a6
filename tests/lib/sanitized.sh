# SPDX-License-Identifier: BSD-3-Clause
# Runs a test of a sanitizer build: sanitized.sh COMMAND... Whatever a sanitizer reports, in the test or in any
# process it starts, goes to a file, and any such file fails the test: Criterion's children and forked ones hide
# their exit status.
set -u
logs=$(mktemp -d) || exit 99
trap 'rm -rf "$logs"' EXIT
for kind in ASAN UBSAN LSAN TSAN; do
    declare "options=${kind}_OPTIONS"
    export "$options=${!options:+${!options}:}log_path=$logs/report:print_stacktrace=1"
done
"$@"
status=$?
for report in "$logs"/*; do
    [ -e "$report" ] || continue
    cat "$report"
    status=1
done
exit $status
