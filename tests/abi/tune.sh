# SPDX-License-Identifier: BSD-3-Clause
# The machine profile: `tileblas tune` without a GPU measures the CPU and says so, replaces nothing but plain files,
# and saves nowhere else than it says; a program takes a profile that fits, one line and its built-in figures where
# the file is spoiled, nothing at all where it is of another machine, and never waits for a file.
. "$TB_SRCDIR/tests/abi/lib.sh" || exit 99
skip_if_sanitized
need_openblas
tool=$TB_BUILDDIR/tools/tileblas
simtool=$TB_BUILDDIR/tests/sim/tileblas-sim
unset XDG_CACHE_HOME
export HOME=$work/home
mkdir "$HOME"

cat > client.c <<'C'
#include <stdlib.h>
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *,
            const int *, const double *, const int *, const double *, double *, const int *);
int main(void)
{
    const double one = 1, zero = 0;
    for (int n = 200; n <= 500; n += 150) {
        double *a = calloc((size_t)n * n, sizeof *a), *c = calloc((size_t)n * n, sizeof *c);
        dgemm_("N", "N", &n, &n, &n, &one, a, &n, a, &n, &zero, c, &n);
        free(a);
        free(c);
    }
    return 0;
}
C
build client client.c -lopenblas

# run NAME VARIABLES...: the client on the simulated device; its log in out.NAME
run() {
    local name=$1
    shift
    (export TILEBLAS_START=wait TILEBLAS_VERBOSE=3
     env "$@" LD_PRELOAD="$sim" timeout 120 ./client > stdout 2> "out.$name") ||
        fail "$name: the client ended with $? ($(tail -1 "out.$name"))"
    [ -s stdout ] && fail "$name: something on stdout"
}
logged() {
    grep -qF -- "$2" "out.$1" || fail "$1: no '$2' in: $(grep -i profile "out.$1")"
}
log_has_not() {
    ! grep -qF -- "$2" "out.$1" || fail "$1: '$2' in the log"
}

# Without a GPU there is nothing to measure for: a word, and no file.
TILEBLAS_DEVICES=none "$tool" tune --quick > out 2> err
[ $? = 1 ] || fail "tune without a GPU: status is not 1: $(cat out err)"
grep -q '^tileblas: no GPU (TILEBLAS_DEVICES=none.*nothing was measured or saved' err ||
    grep -q '^tileblas: no GPU (built without.*nothing was measured or saved' err ||
    fail "tune does not say that there was no GPU: $(cat err)"
[ "$(find "$HOME" -type f | wc -l)" = 0 ] || fail "saved without a GPU: $(find "$HOME" -type f)"

# On the simulated device: kernels whose name begins with the word are fast there.
export TILEBLAS_SIM_MEMORY=900000000
tune() {
    TILEBLAS_SIM_PACE=f64_64x32 "$simtool" tune "$@"
}
tune --quick > out 2> err || fail "tune ended with $?: $(cat err)"
[ -s err ] && fail "tune without a terminal writes on stderr: $(cat err)"
saved=$(sed -n 's/^saved: //p' out)
case $saved in "$HOME"/.cache/tileblas/simulated-device_*.profile) ;; *) fail "saved as '$saved'" ;; esac
[ -f "$saved" ] || { fail "nothing was saved"; finish; }
[ "$(find "$HOME" -type f | wc -l)" = 1 ] || fail "more than one file: $(find "$HOME" -type f)"
[ "$(sed -n 1p "$saved")" = "tileblas-profile 4" ] || fail "the first line is $(sed -n 1p "$saved")"
[ "$(grep -c '^cpu ' "$saved")" = 12 ] || fail "not all CPU rates"
[ "$(tail -1 "$saved")" = end ] || fail "the last line is $(tail -1 "$saved")"

# Where it may be saved; and beside a CPU BLAS that takes a hundred times as long.
reference=$(ls /usr/lib/x86_64-linux-gnu/blas/libblas.so.3 2> /dev/null)
XDG_CACHE_HOME=$work/cache TILEBLAS_CPU_BLAS=$reference tune --quick > out 2>&1 || fail "XDG_CACHE_HOME: $(cat out)"
[ "$(find "$work/cache" -name '*.profile' | wc -l)" = 1 ] || fail "nothing in XDG_CACHE_HOME"
# refused WHY VARIABLES...
refused() {
    local why=$1
    shift
    env "$@" "$simtool" tune --quick > out 2> err
    [ $? = 1 ] || fail "$why: status is not 1: $(cat out err)"
    grep -q '^tileblas: ' err || fail "$why: no word on stderr"
    grep -q '^saved' out && fail "$why: saved"
}
refused "no home" -u HOME
refused "a relative home" HOME=home XDG_CACHE_HOME=cache
touch plain
refused "a file for a home" HOME="$work/plain"
mkfifo fifo
refused "a FIFO" TILEBLAS_PROFILE="$work/fifo"
[ -p fifo ] || fail "the FIFO was replaced"
mkdir folder
refused "a folder" TILEBLAS_PROFILE="$work/folder"
[ -d folder ] || fail "the folder was replaced"
ln -s plain link
refused "a link" TILEBLAS_PROFILE="$work/link"
[ -L link ] || fail "the link was replaced"
[ -s plain ] && fail "a file behind a link was written"
for bad in --slow --kernels=0 --kernels=61 --kernels= --kernels=x --kernels=1e1; do
    "$tool" tune $bad > out 2> err
    [ $? = 2 ] || fail "$bad is not a usage error"
done
unset TILEBLAS_SIM_MEMORY

# A profile that fits, by its name and in its place.
run place
logged place "machine profile: $saved"
mv "$saved" fits
run fits TILEBLAS_PROFILE="$work/fits"
logged fits "machine profile: $work/fits"
# The same choices and estimates in every run.
run again TILEBLAS_PROFILE="$work/fits"
estimates() {
    sed -n 's/.*dgemm_ NN \(.*\): \([CG]PU ([a-z]*)\).*estimated \(.*\)/\1 \2 \3/p' "$1"
}
[ "$(estimates out.fits | wc -l)" = 3 ] || fail "not three estimates: $(cat out.fits)"
[ "$(estimates out.fits)" = "$(estimates out.again)" ] || fail "other choices in another run"
# It is what is decided by: a CPU that does nothing in reasonable time leaves everything to the device.
sed 's/^\(cpu f64 [a-z]*\) .*/\1 0.001 0.001 0.001 0.001 0.001 0.001/' fits > slow
run slow TILEBLAS_PROFILE="$work/slow"
[ "$(grep -c 'dgemm_.*GPU (faster)' out.slow)" = 3 ] || fail "the profile decides nothing: $(cat out.slow)"

# Spoiled: one line, whatever the level, and the built-in figures.
run builtin
sed 's/^cpus .*/cpus many/' fits > spoiled
sed 's/^tileblas-profile 4/tileblas-profile 9/' fits > newer
head -c 300 fits > cut
head -c 100000 /dev/zero | tr '\0' 'x' > noise
: > empty
for file in spoiled newer cut noise empty; do
    run $file TILEBLAS_PROFILE="$work/$file"
    [ "$(grep -c "$work/$file is not used as machine profile: " out.$file)" = 1 ] || fail "$file: not one line"
    run quiet TILEBLAS_PROFILE="$work/$file" TILEBLAS_VERBOSE=0
    [ "$(wc -l < out.quiet)" = 1 ] || fail "$file: $(wc -l < out.quiet) lines where one is due"
done
logged newer "another version"
# Of another machine: nothing but a line at the highest level.
sed 's/^gpu .*/gpu another device/' fits > foreign
run foreign TILEBLAS_PROFILE="$work/foreign"
logged foreign "another machine"
log_has_not foreign "machine profile: $work"
run quiet TILEBLAS_PROFILE="$work/foreign" TILEBLAS_VERBOSE=0
[ -s out.quiet ] && fail "a foreign profile is reported: $(cat out.quiet)"
# No file, no home, nothing to read from, nothing that ends.
for odd in "$work/none" "$work/fifo" "$work/folder" /dev/null; do
    run odd TILEBLAS_PROFILE="$odd" TILEBLAS_VERBOSE=0
    [ "$(wc -l < out.odd)" -le 1 ] || fail "$odd: $(cat out.odd)"
done
run homeless -u HOME
log_has_not homeless "is not used"
run relative HOME=home XDG_CACHE_HOME=cache
log_has_not relative "is not used"
[ "$(find "$HOME" -type f | wc -l)" = 0 ] || fail "a program wrote a profile"

# The version before, which had no kernels.
sed '1s/4/3/' fits > older
run older TILEBLAS_PROFILE="$work/older"
logged older "machine profile: $work/older"

# The kernels: the profile keeps its machine, and gets what was faster. A second turn in the time left over.
cp fits kernels
TILEBLAS_PROFILE=$work/kernels TILEBLAS_SIM_MEMORY=50000000 tune --kernels=1 > out 2> err || fail "--kernels: $(cat err)"
[ -s err ] && fail "--kernels without a terminal writes on stderr: $(cat err)"
[ "$(grep -c ' of 256 classes and layouts measured' out)" = 8 ] || fail "--kernels did not say what it found: $(cat out)"
[ "$(sed '/^end$/q' kernels)" = "$(cat fits)" ] || fail "--kernels changed what is known of the machine"
grep -q '^kernels 2 ' kernels || fail "no kernels in the profile"
# How much it finds in a second hangs on how busy this machine is: from here on it has found just two.
{ sed '/^end$/q' kernels
  sed -n 's/^kernels /&/p' kernels
  echo 'kernel f64_dmma_32x32_nn wide:512:2048 8 0 100 200'
  echo 'kernel f32_64x64_tn flat:32:max:max 0 0 100 500'
  echo end; } > two
mv two kernels
# Measuring the machine again keeps them.
cp kernels again
TILEBLAS_PROFILE=$work/again TILEBLAS_SIM_MEMORY=900000000 tune --quick > out 2> err || fail "tune again: $(cat err)"
[ "$(grep '^kernel' again | sort)" = "$(grep '^kernel' kernels | sort)" ] || fail "tune lost the kernels"

TILEBLAS_PROFILE=$work/kernels "$simtool" info > out 2>&1
grep -q '^ *2 measured choices of kernels$' out || fail "info does not count the choices: $(cat out)"
# Taken, and told of once for each class. A start launches nothing but the products of the calls.
run kernels TILEBLAS_PROFILE="$work/kernels" TILEBLAS_ROUTE=gpu
logged kernels "machine profile: $(grep -c '^kernel ' kernels) measured choices"
logged kernels "class wide:512:2048:"
logged kernels "f64_dmma_32x32_nn: measured in this class, taken for it in bands of 8 rows of tiles (16 by itself): "
logged kernels "f64_dmma_64x64_nn: estimated at 1.00 of the least"
[ "$(grep -c 'kernels for products such as' out.kernels)" -le 3 ] || fail "candidates more than once: $(cat out.kernels)"
run estimate TILEBLAS_PROFILE="$work/fits" TILEBLAS_ROUTE=gpu
log_has_not estimate "measured in this class"
logged estimate "f64_dmma_64x64_nn: estimated at 1.00 of the least, taken for it"

# Spoiled entries cost a line in all, a spoiled section too, and the estimate chooses; the machine is known.
sed 's/^kernel f64_dmma_32x32_nn .*/kernel of nothing/' kernels > entry
sed '/^kernels/,${/^end$/d}' kernels > endless
for file in entry endless; do
    run $file TILEBLAS_PROFILE="$work/$file" TILEBLAS_ROUTE=gpu
    logged $file "machine profile: $work/$file"
    log_has_not $file "measured in this class"
    run quiet TILEBLAS_PROFILE="$work/$file" TILEBLAS_VERBOSE=0 TILEBLAS_ROUTE=gpu
    [ "$(wc -l < out.quiet)" = 1 ] || fail "$file: $(wc -l < out.quiet) lines where one is due: $(cat out.quiet)"
done
# Of another version or device: a line for who asks, and the estimate.
sed 's/^kernels 2 .*/kernels 2 0.0.9 90 4 0123456789abcdef/' kernels > version
run version TILEBLAS_PROFILE="$work/version" TILEBLAS_ROUTE=gpu TILEBLAS_VERBOSE=1
[ "$(grep -c 'of another version or device' out.version)" = 1 ] || fail "version: $(cat out.version)"
run version TILEBLAS_PROFILE="$work/version" TILEBLAS_ROUTE=gpu
log_has_not version "measured in this class"
run quiet TILEBLAS_PROFILE="$work/version" TILEBLAS_VERBOSE=0
[ -s out.quiet ] && fail "kernels of another version are reported: $(cat out.quiet)"

# A relative path is one of the folder of the first call, wherever the program has gone when the device starts.
cat > moves.c <<'C'
#include <stdlib.h>
#include <unistd.h>
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *,
            const int *, const double *, const int *, const double *, double *, const int *);
int main(void)
{
    const double one = 1, zero = 0;
    for (int n = 2; n <= 602; n += 600) {
        double *a = calloc((size_t)n * n, sizeof *a), *c = calloc((size_t)n * n, sizeof *c);
        dgemm_("N", "N", &n, &n, &n, &one, a, &n, a, &n, &zero, c, &n);
        free(a);
        free(c);
        if (chdir("/") != 0)
            return 1;
    }
    sleep(1);
    return 0;
}
C
build moves moves.c -lopenblas
TILEBLAS_PROFILE=slow TILEBLAS_VERBOSE=3 LD_PRELOAD=$sim timeout 120 ./moves 2> out.moves || fail "moves ended with $?"
logged moves "machine profile: $work/slow"

# The device starts for a call that was too short to wait for it, beside it or after it, and serves the next one.
cat > twice.c <<'C'
#include <stdlib.h>
#include <unistd.h>
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *,
            const int *, const double *, const int *, const double *, double *, const int *);
int main(void)
{
    const int n = 600;
    const double one = 1, zero = 0;
    double *a = calloc((size_t)n * n, sizeof *a), *c = calloc((size_t)n * n, sizeof *c);
    for (int i = 0; i < 2; i++) {
        dgemm_("N", "N", &n, &n, &n, &one, a, &n, a, &n, &zero, c, &n);
        if (i == 0)
            sleep(3);
    }
    return 0;
}
C
build twice twice.c -lopenblas
for threads in 1 64; do
    # The CPU of that profile is slow, so that the second choice does not hang on how busy this machine is.
    OPENBLAS_NUM_THREADS=$threads TILEBLAS_PROFILE="$work/slow" TILEBLAS_VERBOSE=2 LD_PRELOAD=$sim timeout 120 ./twice 2> out.twice
    sides=$(sed -n 's/.*dgemm_ .*: \([CG]PU ([a-z-]*)\).*/\1/p' out.twice | tr '\n' ' ')
    [ "$sides" = "CPU (device-starting) GPU (faster) " ] || fail "$threads threads: $sides"
done

# What info says.
TILEBLAS_DEVICES=none "$tool" info > out 2>&1
grep -q '^profile:   built in' out || fail "info does not show the profile: $(cat out)"
finish
