# SPDX-License-Identifier: BSD-3-Clause
# The ways a program gets to us: preloaded, linked, opened, both at once, through plugins; and what must not be
# noticed: silence, start-up cost, files, threads.
. "$TB_SRCDIR/tests/abi/lib.sh" || exit 99
skip_if_sanitized
need_openblas

build plain "$here/preload.c" -ldl -lopenblas
build linked "$here/preload.c" -ldl -L"$libs" -ltileblas -Wl,-rpath,"$libs"
build bare "$here/preload.c" -ldl -DNO_BLAS
build plugin.so "$here/plugin.c" -shared -fPIC -lopenblas
build early.so "$here/plugin.c" -shared -fPIC -DIN_CONSTRUCTOR -lopenblas
build ours.so "$here/plugin.c" -shared -fPIC -L"$libs" -ltileblas -Wl,-rpath,"$libs"
build ours_early.so "$here/plugin.c" -shared -fPIC -DIN_CONSTRUCTOR -L"$libs" -ltileblas -Wl,-rpath,"$libs"

# client WHAT CAUGHT ENVIRONMENT... COMMAND...: right results, both streams empty, that many calls caught by the
# copy that is called (with several copies in the process, every copy reports).
client() {
    local what=$1 caught=$2
    shift 2
    TILEBLAS_VERBOSE=1 TILEBLAS_LOG=$work/log timeout 60 env "$@" > out 2> err || fail "$what: status $?: $(head -3 err)"
    [ -s out ] && fail "$what: on stdout: $(head -3 out)"
    [ -s err ] && fail "$what: on stderr: $(head -3 err)"
    grep -q " $caught level-3 calls caught" log 2> /dev/null || fail "$what: not $caught calls caught: $(grep -h caught log)"
    rm -f log
    timeout 60 env "$@" > out 2> err || fail "$what, quiet: status $?: $(head -3 err)"
    [ -s out ] || [ -s err ] && fail "$what: not silent: $(cat out err | head -3)"
}
client "preloaded" 6 LD_PRELOAD="$preload" ./plain call
client "linked" 6 ./linked call
client "linked and preloaded" 6 LD_PRELOAD="$preload" ./linked call
client "the linkable library preloaded" 6 LD_PRELOAD="$full" ./plain call
client "both preloaded" 6 LD_PRELOAD="$preload $full" ./plain call
client "opened locally" 12 ./bare dlopen "$full"
client "opened locally under a preload" 12 LD_PRELOAD="$preload" ./bare dlopen "$full"
client "the preload library opened" 12 ./bare dlopen "$preload"
client "opened by its development name" 12 ./bare dlopen "$libs/libtileblas.so"
client "plugin over OpenBLAS" 1 LD_PRELOAD="$preload" ./bare plugin ./plugin.so
client "plugin's constructor" 1 LD_PRELOAD="$preload" ./bare plugin ./early.so
client "plugin linked to us" 1 ./bare plugin ./ours.so
client "constructor of a plugin linked to us" 1 ./bare plugin ./ours_early.so
client "plugins of either kind" 2 LD_PRELOAD="$preload" ./bare plugin ./plugin.so ./ours.so
client "plugins of either kind, the other way" 2 LD_PRELOAD="$preload" ./bare plugin ./ours_early.so ./early.so
client "with every route forced" 6 TILEBLAS_ROUTE=gpu LD_PRELOAD="$preload" ./plain call
client "no home, no user, no directories" 6 -u HOME -u USER -u XDG_CACHE_HOME -u TMPDIR PATH= LD_PRELOAD="$preload" ./plain call

# Hostile surroundings: nothing crashes, stdout stays empty, one line at most per bad setting on stderr.
hostile() {
    local what=$1 lines=$2
    shift 2
    timeout 60 env "$@" > out 2> err || fail "$what: status $?: $(head -3 err)"
    [ -s out ] && fail "$what: on stdout: $(head -3 out)"
    grep -v '^tileblas: ' err > foreign && fail "$what: on stderr: $(head -3 foreign)"
    [ "$(wc -l < err)" -le "$lines" ] || fail "$what: $(wc -l < err) lines on stderr: $(head -3 err)"
}
hostile "log in a directory that is not there" 8 TILEBLAS_VERBOSE=1 TILEBLAS_LOG=/nowhere/log LD_PRELOAD="$preload" ./plain call
hostile "log is a directory" 8 TILEBLAS_VERBOSE=1 TILEBLAS_LOG=/ LD_PRELOAD="$preload" ./plain call
hostile "unwritable log, quiet" 0 TILEBLAS_LOG=/nowhere/log LD_PRELOAD="$preload" ./plain call
hostile "bad settings" 2 TILEBLAS_ROUTE=moon TILEBLAS_VERIFY=2 LD_PRELOAD="$preload" ./plain call
[ "$(wc -l < err)" -eq 2 ] || fail "two bad settings give $(wc -l < err) lines"
hostile "every setting bad" 8 TILEBLAS_ROUTE=x TILEBLAS_MATH=x TILEBLAS_MEMORY=x TILEBLAS_START=x TILEBLAS_THREADS=x \
    TILEBLAS_RESIDENCY=x TILEBLAS_VERIFY=x TILEBLAS_VERBOSE=x LD_PRELOAD="$preload" ./plain call
[ "$(wc -l < err)" -eq 8 ] || fail "eight bad settings give $(wc -l < err) lines"
mkfifo fifo
hostile "log is a FIFO without a reader" 8 TILEBLAS_VERBOSE=1 TILEBLAS_LOG="$work/fifo" LD_PRELOAD="$preload" ./plain call
hostile "log on a full disk" 0 TILEBLAS_VERBOSE=1 TILEBLAS_LOG=/dev/full LD_PRELOAD="$preload" ./plain call
hostile "files that may not grow" 0 TILEBLAS_VERBOSE=1 TILEBLAS_LOG="$work/grown" LD_PRELOAD="$preload" \
    bash -c 'ulimit -f 0; exec ./plain call'
# Signals as a program finds them that nobody prepared: the shell of the test may ignore some.
{ (
    sleep 0.3
    env --default-signal=PIPE TILEBLAS_VERBOSE=2 LD_PRELOAD="$preload" ./plain call 2>&1 > out
    echo $? > status
) | true; }
for _ in $(seq 150); do [ -s status ] || sleep 0.2; done
[ "$(cat status)" = 0 ] || fail "the reader of stderr is gone: status $(cat status)"
hostile "closed streams" 0 LD_PRELOAD="$preload" ./plain close
hostile "closed streams, verbose" 0 TILEBLAS_VERBOSE=2 LD_PRELOAD="$preload" ./plain close
TILEBLAS_VERBOSE=3 LD_PRELOAD=$preload ./plain call > out 2>&- || fail "stderr closed by the shell: status $?"
[ -s out ] && fail "stderr closed by the shell: the log went to stdout"
TILEBLAS_VERBOSE=3 LD_PRELOAD=$preload ./plain call 2> err >&- || fail "stdout closed by the shell: status $?"
# A descriptor of the program's own that happens to be number 1 or 2 is not written to, unless it is stderr.
hostile "no descriptors left" 0 LD_PRELOAD="$preload" bash -c 'ulimit -n 16; exec ./plain call'
hostile "no CPU library of that name" 3 TILEBLAS_CPU_BLAS=/nowhere/lib.so LD_PRELOAD="$preload" ./plain call
hostile "the CPU library is ourselves" 3 TILEBLAS_CPU_BLAS="$full" LD_PRELOAD="$preload" ./plain call
hostile "no GPU by configuration" 0 TILEBLAS_DEVICES=none CUDA_VISIBLE_DEVICES= LD_PRELOAD="$preload" ./plain call

# A program that never calls us: nothing happens.
if command -v strace > /dev/null && strace -f -o trace /bin/true 2> /dev/null; then
    LD_PRELOAD=$preload strace -f -E LD_PRELOAD="$preload" -o trace /bin/true
    grep -q 'libtileblas-preload' trace || fail "strace saw no preload"
    grep -E 'openat?\(.*(/dev/|/proc/|/sys/|nvidia|libcuda|blas\.so\.|openblas)' trace > opened && fail "/bin/true opens $(head -3 opened)"
    grep -E '\b(clone|clone3|fork|vfork)\(' trace > started && fail "/bin/true starts a thread: $(head -3 started)"
    grep -E 'write\(|rt_sigaction\(|socket\(' trace > other && fail "/bin/true does $(head -3 other)"
else
    echo "no strace: LD_DEBUG instead"
    LD_DEBUG=files LD_DEBUG_OUTPUT=$work/files LD_PRELOAD=$preload /bin/true
    cat files.* > trace
    grep -E 'calling init:.*(openblas|libcuda|libblas)' trace > opened && fail "/bin/true loads $(head -3 opened)"
fi
# With VERBOSE the summary says that nothing was caught, and that is all.
TILEBLAS_VERBOSE=1 LD_PRELOAD=$preload /bin/true > out 2> err
grep -q ' 0 level-3 calls caught' err || fail "the summary of /bin/true: $(cat err)"
[ -s out ] && fail "the summary is on stdout"

# Nor does it complain of settings that nobody needed.
TILEBLAS_VERBOSE=0 TILEBLAS_ROUTE=moon LD_PRELOAD=$preload /bin/true > out 2> err
[ -s out ] || [ -s err ] && fail "/bin/true reads the configuration: $(cat out err)"

# Start-up: the shortest of 101, bare and preloaded taken in turn; what else the machine does makes none shorter.
cat > startup.c <<'END'
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e3 + t.tv_nsec * 1e-6; }
static int compare(const void *x, const void *y) { const double a = *(const double *)x, b = *(const double *)y; return (a > b) - (a < b); }
int main(int argc, char **argv)
{
    enum { RUNS = 101 };
    static double ms[2][RUNS];
    char *program[] = {"/bin/true", NULL}, *bare[] = {NULL}, *loaded[] = {argv[1], NULL}, **environment[] = {bare, loaded};
    (void)argc;
    for (int i = 0; i < RUNS; i++)
        for (int side = 0; side < 2; side++) {
            const double start = now();
            pid_t pid;
            int status;
            if (posix_spawn(&pid, program[0], NULL, NULL, program, environment[side]) != 0) return 2;
            waitpid(pid, &status, 0);
            ms[side][i] = now() - start;
        }
    for (int side = 0; side < 2; side++) qsort(ms[side], RUNS, sizeof(double), compare);
    printf("/bin/true: %.2f ms bare, %.2f ms preloaded (shortest)\n", ms[0][0], ms[1][0]);
    return ms[1][0] - ms[0][0] >= 1.0;
}
END
build startup startup.c -Wno-misleading-indentation
# A busy machine may disturb one round, not three.
./startup "LD_PRELOAD=$preload" || ./startup "LD_PRELOAD=$preload" || ./startup "LD_PRELOAD=$preload" || fail "start-up costs 1 ms or more"
finish
