#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Unmodified wheels on a real GPU: the matrix products of NumPy and of PyTorch's CPU side, caught through the
# symbols they really call, right against a longer type. Starts itself again for each package, under
# LD_PRELOAD=<libtileblas-preload.so given as the argument>. Status 77 where a package is missing.
import os
import re
import subprocess
import sys
import tempfile

N = 4096


def worst_error(np, a, b, c, eps):
    """Largest |c - ref| / (|a||b|) over random entries, in units of eps."""
    rng = np.random.default_rng(7)
    rows, cols = rng.integers(0, N, 256), rng.integers(0, N, 256)
    wide = np.clongdouble if np.iscomplexobj(a) else np.longdouble
    x, y = a[rows].astype(wide), b[:, cols].T.astype(wide)
    ref, scale = (x * y).sum(1), (abs(x) * abs(y)).sum(1)
    return float((abs(c[rows, cols] - ref) / scale).max() / eps)


def numpy_part():
    import numpy as np
    rng = np.random.default_rng(1)
    for name, eps in (("float32", 2**-24), ("float64", 2**-53), ("complex64", 2**-24),
                      ("complex128", 2**-53)):
        a, b = (rng.uniform(-1, 1, (N, N)).astype(name) for _ in range(2))
        if name.startswith("complex"):
            a, b = (x + 1j * rng.uniform(-1, 1, (N, N)).astype(name) for x in (a, b))
            a, b = a.astype(name), b.astype(name)
        for what, x, y in (("a@b", a, b), ("a.T@b", a.T, b), ("a@b.T", a, b.T)):
            error = worst_error(np, x, y, x @ y, eps)
            print(f"numpy {np.__version__} {name} {what}: worst error {error:.2f} u")
            if not error < 4:
                sys.exit(1)


def torch_part():
    import numpy as np
    import torch
    for dtype, eps in ((torch.float32, 2**-24), (torch.float64, 2**-53)):
        a, b = (torch.rand(N, N, dtype=dtype) - 0.5 for _ in range(2))
        error = worst_error(np, a.numpy(), b.numpy(), (a @ b).numpy(), eps)
        print(f"torch {torch.__version__} CPU {dtype}: worst error {error:.2f} u")
        if not error < 4:
            sys.exit(1)


def run_part(part, package, library, symbols):
    if subprocess.run([sys.executable, "-c", "import " + package], stderr=subprocess.DEVNULL).returncode:
        print(f"{package}: not installed, skipped")
        return None
    log = tempfile.mktemp()
    env = dict(os.environ, LD_PRELOAD=library, TILEBLAS_VERBOSE="2", TILEBLAS_LOG=log,
               TILEBLAS_START="wait")
    status = subprocess.run([sys.executable, __file__, part], env=env).returncode
    lines = open(log).read() if os.path.exists(log) else ""
    sys.stdout.write("".join(line + "\n" for line in lines.splitlines() if f"={N} " in line + " "))
    if os.path.exists(log):
        os.unlink(log)
    ok = status == 0
    for symbol in symbols:
        if not re.search(rf"{symbol}\S* .*n={N} .*GPU \(", lines):
            print(f"{package}: {symbol} at {N} did not run on the GPU")
            ok = False
    return ok


if len(sys.argv) > 1 and sys.argv[1] == "numpy":
    numpy_part()
elif len(sys.argv) > 1 and sys.argv[1] == "torch":
    torch_part()
else:
    library = os.path.abspath(sys.argv[1])
    results = [run_part("numpy", "numpy", library, ["scipy_cblas_sgemm64_", "scipy_cblas_dgemm64_",
                                                    "scipy_cblas_cgemm64_", "scipy_cblas_zgemm64_"]),
               run_part("torch", "torch", library, ["sgemm_", "dgemm_"])]
    if False in results:
        sys.exit(1)
    sys.exit(0 if True in results else 77)
