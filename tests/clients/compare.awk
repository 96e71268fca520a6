# SPDX-License-Identifier: BSD-3-Clause
# awk -f compare.awk REFERENCE OTHER: compares two result files of a client, block by block, in the
# relative Frobenius norm. A block is a line "@ name count eps limit" and then `count` numbers, one a
# line (a complex one is two); it passes if |other - reference| <= limit * eps * |reference|.
# Prints the blocks that fail, and a line with the worst share of its limit. Status 1 on any failure.

function close_block() {
    if (name == "")
        return
    blocks++
    if (got != count)
        complain(name ": " got " of " count " numbers")
    else if (broken)
        complain(name ": a number is not finite")
    else if (!(norm > 0))
        complain(name ": the reference is zero")
    else {
        share = sqrt(diff / norm) / (eps * limit)
        if (share > worst) {
            worst = share
            worst_name = name
        }
        if (!(share <= 1))
            complain(sprintf("%s: relative difference %.3g, allowed %.3g", name, sqrt(diff / norm),
                             eps * limit))
    }
}

function complain(text) {
    print "  " text
    failures++
}

FNR == 1 { file++ }

file == 1 { reference[FNR] = $0; lines = FNR; next }

$1 == "@" {
    close_block()
    if ($0 != reference[FNR])
        complain("other blocks than the reference has: " $0)
    name = $2; count = $3; eps = $4; limit = $5
    got = 0; broken = 0; diff = 0; norm = 0
    next
}

{
    # NaN and Inf, as any language writes them, have no digit.
    if ($0 !~ /[0-9]/ || reference[FNR] !~ /[0-9]/)
        broken = 1
    d = $0 - reference[FNR]
    diff += d * d
    norm += reference[FNR] * reference[FNR]
    got++
}

END {
    close_block()
    if (FNR != lines || file != 2)
        complain("the files differ in length")
    if (blocks == 0)
        complain("no results")
    printf "  %d results compared, worst %.3f of its limit (%s)\n", blocks, worst, worst_name
    exit failures > 0
}
