# SPDX-License-Identifier: BSD-3-Clause
# An ordinary NumPy program that knows nothing of libtileblas: matrix products in four types, each
# checked by a random vector. scripts/demo runs it under the preload library.
import sys
import time

import numpy as np

rng = np.random.default_rng(1)


def matrix(n, dtype):
    x = rng.standard_normal((n, n))
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal((n, n))
    return x.astype(dtype)


wrong = 0
for dtype, n in (("float32", 2000), ("float64", 2000), ("complex64", 1200), ("complex128", 1200)):
    a, b = matrix(n, dtype), matrix(n, dtype)
    start = time.perf_counter()
    c = a @ b
    seconds = time.perf_counter() - start
    x = rng.standard_normal(n).astype(dtype)
    expected = a @ (b @ x)
    error = np.linalg.norm(c @ x - expected) / np.linalg.norm(expected)
    right = error < n * np.finfo(dtype).eps
    wrong += not right
    print("%-10s %d x %d: %.3f s, error %.1e: %s" % (dtype, n, n, seconds, error, "right" if right else "WRONG"))
sys.exit(wrong > 0)
