# SPDX-License-Identifier: BSD-3-Clause
# SciPy: the level-3 routines by name through scipy.linalg.blas, and the solvers that call them from
# LAPACK, in all four types. Writes results for compare.awk to the file named on the command line;
# prints only what any right BLAS must give exactly. Run by run-client.sh, which reads two lines:
# needs modules: numpy scipy.linalg
# must reach the device: sgemm dgemm cgemm zgemm
import sys

import numpy as np
from scipy import linalg
from scipy.linalg import blas

TYPES = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}


def emit(out, name, x, limit):
    """One block: numbers in C order, complex ones as pairs."""
    x = np.ascontiguousarray(x)
    flat = x.view(x.real.dtype).ravel().astype(np.float64)
    out.write("@ %s %d %.17g %.17g\n" % (name, flat.size, np.finfo(x.dtype).eps, limit))
    out.write("".join("%.17g\n" % v for v in flat))


def noise(rng, dtype, rows, cols):
    x = rng.uniform(-1, 1, (rows, cols))
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.uniform(-1, 1, (rows, cols))
    return np.asfortranarray(x.astype(dtype))


def routines(out, t, dtype, rng, n, limit):
    """Each routine once, with flags other than the defaults, in the caller's memory."""
    real = np.dtype(dtype).kind != "c"
    a, b = noise(rng, dtype, 70, n), noise(rng, dtype, 70, n)
    c = noise(rng, dtype, 70, 70)
    square, right = noise(rng, dtype, n, n), noise(rng, dtype, n, 50)
    # A triangle that is safe to solve with: a dominant diagonal.
    tri = np.asfortranarray(square + 2 * n * np.eye(n, dtype=dtype))

    def call(name, *args, **kwargs):
        return getattr(blas, t + name)(*args, **kwargs)

    emit(out, t + "gemm", call("gemm", 1.25, a, b, beta=0.5, c=c, trans_b=1 if real else 2), limit)
    emit(out, t + "symm", call("symm", 0.75, square, right, lower=1), limit)
    emit(out, t + "syrk", call("syrk", 1.5, a, beta=0.5, c=c, lower=1), limit)
    emit(out, t + "syr2k", call("syr2k", 1.5, a, b, trans=0), limit)
    emit(out, t + "trmm", call("trmm", 0.75, tri, right, lower=1, trans_a=1), limit)
    emit(out, t + "trsm", call("trsm", 0.75, tri, right, lower=0, diag=0), limit)
    emit(out, t + "trsm-right", call("trsm", 1.0, tri, right.T, side=1, lower=1), limit)
    if not real:
        emit(out, t + "hemm", call("hemm", 0.75, square, right, lower=1), limit)
        emit(out, t + "herk", call("herk", 1.5, a, beta=0.5, c=c, lower=1), limit)
        emit(out, t + "her2k", call("her2k", 1.5, a, b, trans=0), limit)


def solvers(out, t, dtype, rng, n, direct, spectral):
    eye = np.eye(n, dtype=dtype)
    m = noise(rng, dtype, n, n) + n * eye
    h = noise(rng, dtype, n, n)
    h = ((h + h.conj().T) / 2).astype(dtype)
    b = noise(rng, dtype, n, 30)
    emit(out, t + "-solve", linalg.solve(m, b), direct)
    emit(out, t + "-solve-positive", linalg.solve(h + n * eye, b, assume_a="pos"), direct)
    emit(out, t + "-lu", linalg.lu_factor(m)[0], direct)
    emit(out, t + "-cholesky", linalg.cholesky(h + n * eye, lower=True), direct)
    emit(out, t + "-triangle", linalg.solve_triangular(np.triu(m), b), direct)
    # Vectors have a free phase: a function of the matrix that needs them all has none.
    # Divide and conquer: SciPy's default (relatively robust representations) is less orthogonal.
    w, v = linalg.eigh(h, driver="evd")
    emit(out, t + "-eigenvalues", w, spectral)
    emit(out, t + "-eigenvectors", (v / (1 + w * w)) @ v.conj().T, spectral)
    u, s, vh = linalg.svd(m)
    emit(out, t + "-singular-values", s, spectral)
    emit(out, t + "-singular-vectors", u @ vh, spectral)
    q, r = linalg.qr(m)
    phase = np.diag(r) / abs(np.diag(r))
    emit(out, t + "-qr-q", q * phase, direct)
    emit(out, t + "-qr-r", phase.conj()[:, None] * r, direct)


def main(path):
    with open(path, "w") as out:
        for t, dtype in TYPES.items():
            rng = np.random.RandomState(21)
            whole = np.asfortranarray(rng.randint(-3, 4, (90, 90)).astype(dtype))
            p = getattr(blas, t + "gemm")(2.0, whole, whole, beta=-1.0, c=whole, trans_a=1)
            print(t, "exact product:", p.shape, p.sum(), p[0, 0], p[-1, -1], abs(p).max())
            n = 110
            # What two careful libraries may differ by; see numpy-ops.py.
            routines(out, t, dtype, rng, n, n**0.5)
            solvers(out, t, dtype, rng, n, n**0.5, n)
    print("done")


main(sys.argv[1])
