# SPDX-License-Identifier: BSD-3-Clause
# NumPy through its public interface, all four types. Writes results for compare.awk to the file named
# on the command line; prints only what any right BLAS must give exactly. Run by run-client.sh and
# wheel.sh, with and without the library. The next line is read by run-client.sh.
# must reach the device: sgemm dgemm cgemm zgemm
import sys

import numpy as np

TYPES = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}


def emit(out, name, x, limit):
    """One block: numbers in C order, complex ones as pairs."""
    x = np.ascontiguousarray(x)
    flat = x.view(x.real.dtype).ravel().astype(np.float64)
    out.write("@ %s %d %.17g %.17g\n" % (name, flat.size, np.finfo(x.dtype).eps, limit))
    out.write("".join("%.17g\n" % v for v in flat))


def noise(rng, dtype, *shape):
    x = rng.uniform(-1, 1, shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.uniform(-1, 1, shape)
    return x.astype(dtype)


def whole(rng, dtype, *shape):
    """Small integers: products are exact in every type and order of summation."""
    x = rng.randint(-3, 4, shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.randint(-3, 4, shape)
    return x.astype(dtype)


def main(path):
    with open(path, "w") as out:
        for t, dtype in TYPES.items():
            rng = np.random.RandomState(20)
            a, b = whole(rng, dtype, 131, 67), whole(rng, dtype, 67, 45)
            p = a @ b
            print(t, "exact product:", p.shape, p.sum(), p[0, 0], p[-1, -1], abs(p).max())

            n = 120
            # What two careful libraries may differ by; measured differences stay below a quarter of it.
            direct, spectral = n**0.5, n
            a, b = noise(rng, dtype, 150, n), noise(rng, dtype, n, 70)
            emit(out, t + "-product", a @ b, direct)
            emit(out, t + "-product-of-transposed", b.T @ a.T, direct)
            emit(out, t + "-product-of-slices", a[::2, 3:100] @ b[3:100, 5:60], direct)
            emit(out, t + "-stack", noise(rng, dtype, 3, 40, 50) @ noise(rng, dtype, 3, 50, 30), direct)
            emit(out, t + "-gram", a @ a.T, direct)
            emit(out, t + "-hermitian-gram", a @ a.conj().T, direct)

            # Well conditioned, so that the bound needs no condition number beyond a small factor.
            m = noise(rng, dtype, n, n) + np.eye(n, dtype=dtype) * n
            h = noise(rng, dtype, n, n)
            h = ((h + h.conj().T) / 2).astype(dtype)
            emit(out, t + "-solve", np.linalg.solve(m, a.T), direct)
            emit(out, t + "-inverse", np.linalg.inv(m), direct)
            emit(out, t + "-cholesky", np.linalg.cholesky(h + np.eye(n, dtype=dtype) * n), direct)
            # Vectors have a free phase: a function of the matrix that needs them all has none.
            w, v = np.linalg.eigh(h)
            emit(out, t + "-eigenvalues", w, spectral)
            emit(out, t + "-eigenvectors", (v / (1 + w * w)) @ v.conj().T, spectral)
            u, s, vh = np.linalg.svd(m)
            emit(out, t + "-singular-values", s, spectral)
            emit(out, t + "-singular-vectors", u @ vh, spectral)
            q, r = np.linalg.qr(m)
            phase = np.diag(r) / abs(np.diag(r))
            emit(out, t + "-qr-q", q * phase, direct)
            emit(out, t + "-qr-r", phase.conj()[:, None] * r, direct)
    print("done")


main(sys.argv[1])
