# SPDX-License-Identifier: BSD-3-Clause
# Our CBLAS argument lists are those of every <cblas.h> here and of tileblas.h; tileblas.h compiles alone and
# beside them, in C and in C++.
. "$TB_SRCDIR/tests/abi/lib.sh" || exit 99
CXX=${CXX:-g++}

compiles() {
    local what=$1
    shift
    "$@" -fsyntax-only > out 2>&1 || fail "$what: $(grep -m3 error out)"
}
lists="$CC -std=gnu11 -Wall -Wno-redundant-decls -I$TB_SRCDIR/shim $here/prototypes.c"
# shellcheck disable=SC2086
compiles "prototypes of tileblas.h" $lists
headers=0
for header in cblas.h cblas-openblas.h cblas-netlib.h openblas-pthread/cblas.h; do
    echo "#include <$header>" > probe.c
    $CC -fsyntax-only probe.c 2> /dev/null || continue
    headers=$((headers + 1))
    # shellcheck disable=SC2086
    compiles "prototypes of $header" $lists "-DTB_CBLAS_H=<$header>"
    for language in c c++; do
        for switch in -DPLAIN -DTILEBLAS_CBLAS_NAMES -DTILEBLAS_NO_CBLAS_NAMES -DTILEBLAS_NO_FORTRAN_NAMES; do
            printf '#include <%s>\n#include "tileblas.h"\n#include "tileblas.h"\n' "$header" > beside.c
            compiles "tileblas.h after $header, $language, $switch" \
                "$CC" -x "$language" $switch -Wall -Wextra -Werror -I"$TB_SRCDIR/shim" beside.c
        done
    done
done
echo "$headers headers compared"

echo '#include "tileblas.h"' > alone.c
for standard in c99 c11 c17 c++98 c++11 c++17; do
    compiler=$CC
    [ "${standard#c++}" = "$standard" ] || compiler=$CXX
    command -v "${compiler%% *}" > /dev/null || continue
    extra=-Wpedantic
    [ $standard = c++98 ] && extra=-Wno-long-long
    # shellcheck disable=SC2086
    compiles "tileblas.h alone, $standard" $compiler -x "${standard%%[0-9]*}" -std=$standard -Wall -Wextra -Werror $extra \
        -I"$TB_SRCDIR/shim" alone.c
done

# A prototype that is wrong must be noticed: the same with one argument list broken.
sed 's/^#define AL_D .*/#define AL_D  float/' "$here/prototypes.c" | sed "s#\.\./\.\./#$TB_SRCDIR/#" > broken.c
if $CC -std=gnu11 -fsyntax-only -I"$TB_SRCDIR/shim" broken.c 2> /dev/null; then
    fail "a wrong prototype compiles"
fi
[ $headers -gt 0 ] || [ $failures -gt 0 ] || skip "no <cblas.h> (Debian package libopenblas-dev); tileblas.h alone is fine"
finish
