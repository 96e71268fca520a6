#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The NumPy wheel from the registry, which carries an OpenBLAS of its own under other names with 64-bit
# integers (scipy_cblas_dgemm64_): installed into a temporary directory, then numpy-ops.py under
# run-client.sh, which must see those names in the log. Skips where pip is missing or reaches nothing.

here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/client.sh"

need_sim
python=$(python3_path)
[ -n "$python" ] || skip "no python3"
"$python" -m pip --version >/dev/null 2>&1 || skip "$python has no pip"
make_work
HOME=$real_home TMPDIR=$work "$python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps \
    --only-binary=:all: --retries 1 --timeout 10 --target "$work/site" 'numpy>=2' >"$work/pip" 2>&1 ||
    skip "pip installs nothing here: $(tail -1 "$work/pip")"
(cd "$work" && PYTHONPATH=$work/site "$python" -c 'import numpy; print("  numpy", numpy.__version__)') ||
    skip "the wheel does not run here"
ls "$work"/site/numpy.libs/libscipy_openblas64_* >/dev/null 2>&1 ||
    skip "this wheel has no OpenBLAS of its own"

PYTHONPATH=$work/site PYTHONDONTWRITEBYTECODE=1 TB_PYTHON=$python TMPDIR=$work \
    MUST_SEE='scipy_cblas_sgemm64_ scipy_cblas_dgemm64_ scipy_cblas_cgemm64_ scipy_cblas_zgemm64_' \
    sh "$here/run-client.sh" "$here/numpy-ops.py"
status=$?
[ $status -eq 0 ] || exit $status
echo "$me: passed"
