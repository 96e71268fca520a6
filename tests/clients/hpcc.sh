#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The HPC Challenge benchmark, one rank and two under mpirun (as root too), small sizes: HPL's residual
# and the DGEMM test must pass, and with the simulated device forced
# the products must have been computed there.

here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/client.sh"

have hpcc || skip "no hpcc"
have mpirun || skip "no mpirun"
need_sim
make_work
OMP_NUM_THREADS=1
OPENBLAS_NUM_THREADS=1
export OMP_NUM_THREADS OPENBLAS_NUM_THREADS
failures=0

complain() {
    echo "  $ranks ranks: $1"
    failures=$((failures + 1))
}

# input N P Q: hpccinf.txt, by line as the benchmark reads it.
input() {
    cat <<EOF
HPLinpack benchmark input file
libtileblas client test
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
$1           Ns
1            # of NBs
64           NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
$2           Ps
$3           Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
EOF
}

for ranks in 1 2; do
    mkdir "$work/$ranks" && cd "$work/$ranks" || fail "cannot enter $work/$ranks"
    input 500 1 "$ranks" >hpccinf.txt
    # The preload reaches the ranks, not mpirun.
    timeout -k 5 600 mpirun -np "$ranks" --oversubscribe env \
        LD_PRELOAD="${TB_SPOIL:+$TB_SPOIL }$TB_SIM" TILEBLAS_ROUTE=gpu TILEBLAS_VERBOSE=2 \
        TILEBLAS_LOG="$work/$ranks/log" hpcc >out 2>err || complain "exit status $?: $(tail -3 err)"
    [ -s out ] && complain "text on stdout: $(head -3 out)"
    grep -q tileblas err && complain "text on stderr: $(grep tileblas err | head -3)"
    [ -r hpccoutf.txt ] || { complain "no report"; continue; }
    grep -q 'End of HPC Challenge tests' hpccoutf.txt || complain "the report has no end"
    grep -q '||Ax-b||.*PASSED' hpccoutf.txt || complain "HPL did not pass"
    grep -E 'FAILED|[1-9][0-9]* tests completed and failed|error[^.]* nan' hpccoutf.txt >bad &&
        complain "$(head -3 bad)"
    sections=$(grep -c 'Node(s) with error' hpccoutf.txt)
    [ "$sections" -eq 10 ] || complain "$sections of 10 sections counted their errors"
    grep 'Node(s) with error' hpccoutf.txt | grep -qv ' 0$' && complain "a node has an error"
    calls=$(calls_on_device log dgemm)
    echo "  $ranks ranks: dgemm: $calls calls on the device"
    [ "$calls" -gt 0 ] || complain "dgemm never reached the device"
done

[ $failures -eq 0 ] || fail "$failures complaints"
echo "$me: passed"
