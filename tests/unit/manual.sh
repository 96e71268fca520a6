#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The manual says all that the tables say: every variable with its default, every reason, every option of
# the command; the pages are free of mandoc's errors and warnings where mandoc is installed.
set -u
src=${TB_SRCDIR:-.}
page=$src/man/libtileblas.7
failures=0

fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

# The tables as the compiler sees them. name<TAB>default<TAB>help of each row of conf.def:
preprocess() {
    ${CC:-cc} -E -P -I"$src" - | tr '\n' ' ' | grep -o '@[^@]*@' | tr -d '@'
}
rows=$(preprocess <<'END' | sed -E 's/^ *"([^"]*)" "([^"]*)" (.*)$/\1\t\2\t\3/'
#define CONF(KIND, FIELD, NAME, DEFAULT, HELP) @ NAME DEFAULT HELP @
#include "src/conf.def"
END
)
[ "$(wc -l <<<"$rows")" -ge 10 ] || fail "conf.def was not understood"
[ "$(wc -l <<<"$rows")" -eq "$(grep -c '^CONF(' "$src/src/conf.def")" ] || fail "rows of conf.def lost"
while read -r row; do
    name=$(cut -f1 <<<"$row") default=$(cut -f2 <<<"$row")
    if [ -n "$default" ]; then
        line=".It Ev $name Pq default: Cm $default"
    else
        line=".It Ev $name Pq default: not set"
    fi
    grep -qxF -- "$line" "$page" || fail "libtileblas.7 lacks: $line"
    grep -qF -- "\`$name\`" "$src/README.md" || fail "README.md lacks $name"
done <<<"$rows"

# No variable in the manual that the table does not have.
while read -r name; do
    grep -q "^$name"$'\t' <<<"$rows" || fail "libtileblas.7 has $name, conf.def does not"
done < <(sed -nE 's/^\.It Ev (TILEBLAS_[A-Z_]+) Pq default.*/\1/p' "$page")

# A variable without effect is documented as such.
while read -r name; do
    sed -n "/^\.It Ev $name Pq/,/^\.It Ev\|^\.El/p" "$page" | tr '\n' ' ' | grep -q 'No effect in this version' ||
        fail "libtileblas.7 does not say that $name has no effect"
done < <(grep 'no effect yet' <<<"$rows" | cut -f1)

reasons=$(preprocess <<'END' | sed -E 's/^ *"([^"]*)" *$/\1/'
#include "src/route.h"
#define REASON(NAME, TEXT) @ TEXT @
TB_REASON_LIST(REASON)
END
)
[ "$(wc -l <<<"$reasons")" -eq "$(grep -c 'TB_WHY_' "$src/src/route.h")" ] || fail "reasons of route.h lost"
while read -r reason; do
    grep -qxF ".It Cm $reason" "$page" || fail "libtileblas.7 lacks the reason $reason"
done <<<"$reasons"

# Options of `tileblas run`, in the manual without their first dash (Fl writes it).
while read -r option; do
    grep -q "^\.It Fl -${option#--} Ns" "$src/man/tileblas.1" || fail "tileblas.1 lacks $option"
done < <(sed -nE 's/^ *\{"(--[a-z-]+)".*/\1/p' "$src/tools/tileblas.c")

if command -v mandoc >/dev/null; then
    for at in "$page" "$src/man/tileblas.1"; do
        bad=$(mandoc -T lint -W warning "$at" 2>/dev/null) || true
        [ -z "$bad" ] || fail "$bad"
    done
fi

[ "$failures" -eq 0 ] && echo "the manual agrees with the tables"
exit $((failures != 0))
