#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Level 3 beyond the plain product through SciPy's BLAS interface: every flag and type, at the sizes given (default: odd
# ones around 1500), with NaN in the triangle that does not count. A result is right if it agrees with the dense
# product as far as sums of that length do. level3.py [M N K ...] [types]; run it under LD_PRELOAD with
# TILEBLAS_ROUTE=gpu. Status 77 without SciPy.
import itertools
import sys

try:
    import numpy as np
    from scipy.linalg import blas
except ImportError:
    print("no SciPy")
    sys.exit(77)

EPS = {"s": 2.0**-24, "c": 2.0**-24, "d": 2.0**-53, "z": 2.0**-53}
DTYPE = {"s": "float32", "d": "float64", "c": "complex64", "z": "complex128"}
rng = np.random.default_rng(11)
cases = failures = 0


def matrix(t, m, n):
    x = rng.uniform(-1, 1, (m, n))
    if t in "cz":
        x = x + 1j * rng.uniform(-1, 1, (m, n))
    return np.asfortranarray(x.astype(DTYPE[t]))


def wide(x):
    return x.astype("complex128" if np.iscomplexobj(x) else "float64")


def judge(what, t, got, exact, size):
    """got: as computed; exact, size: sum and sum of magnitudes, in double."""
    global cases, failures
    unit = EPS[t]
    error = np.nanmax(abs(wide(got) - exact) / (size + 1e-300)) / unit if got.size else 0
    bad = not np.isfinite(got).all() or not error < 16 + 4 * max(sizes) ** 0.5
    cases += 1
    if bad:
        failures += 1
        print(f"WRONG {what}: {error:.1f} u", flush=True)


def half(x, lower, other=np.nan):
    """x with `other` in the triangle that does not count."""
    x = x.copy(order="F")
    x[np.triu_indices(x.shape[0], 1) if lower else np.tril_indices(x.shape[0], -1)] = other
    return x


def op(x, trans):
    return x if trans == 0 else x.T if trans == 1 else x.conj().T


def rank(t, m, k):
    for lower, trans in itertools.product((0, 1), (0, 1, 2)):
        for name in ("syrk", "herk", "syr2k", "her2k"):
            her, two = name[0] == "h", name[-2:] == "2k"
            if (her and (t in "sd" or trans == 1)) or (not her and trans == 2):
                continue
            shape = (k, m) if trans else (m, k)
            a, b = matrix(t, *shape), matrix(t, *shape)
            full = matrix(t, m, m)
            if her:
                full = full + full.conj().T
            c = half(full, lower)
            alpha, beta = (0.75 - (0.5j if t in "cz" and (not her or two) else 0)), -1.25
            f = getattr(blas, t + name)
            got = f(alpha, a, b, beta=beta, c=c, trans=trans, lower=lower) if two else \
                f(alpha, a, beta=beta, c=c, trans=trans, lower=lower)
            wa, wb = wide(a), wide(b if two else a)
            x, y = (op(wa, trans), op(wb, trans)) if trans else (wa, wb)
            flip = (lambda z: z.conj().T) if her else (lambda z: z.T)
            exact = alpha * (x @ flip(y))
            size = abs(alpha) * (abs(x) @ abs(y).T)
            if two:
                exact = exact + (np.conj(alpha) if her else alpha) * (y @ flip(x))
                size = 2 * size
            exact = exact + beta * wide(full)
            size = size + abs(beta) * abs(full)
            keep = np.tril_indices(m) if lower else np.triu_indices(m)
            rest = np.triu_indices(m, 1) if lower else np.tril_indices(m, -1)
            judge(f"{t}{name} lower {lower} trans {trans} n {m} k {k}", t, got[keep], exact[keep], size[keep])
            if not np.isnan(got[rest]).all():
                judge(f"{t}{name}: the other triangle was written", t, np.array([np.nan]), 0, 1)
            if her and np.any(np.diag(got).imag != 0):
                judge(f"{t}{name}: a diagonal that is not real", t, np.array([np.nan]), 0, 1)


def mirrored(t, m, n):
    for side, lower in itertools.product((0, 1), (0, 1)):
        for name in ("symm", "hemm"):
            if name == "hemm" and t in "sd":
                continue
            order = n if side else m
            a = matrix(t, order, order)
            low = np.tril(wide(a)) if lower else np.triu(wide(a)).T
            full = low + (np.tril(low, -1).conj().T if name == "hemm" else np.tril(low, -1).T)
            if not lower and name == "hemm":
                full = full.conj()
            if name == "hemm":
                full[np.diag_indices(order)] = full[np.diag_indices(order)].real
            b, c = matrix(t, m, n), matrix(t, m, n)
            alpha, beta = (0.75 - (0.5j if t in "cz" else 0)), -1.25
            got = getattr(blas, t + name)(alpha, half(a, lower), b, beta=beta, c=c, side=side, lower=lower)
            x, y = (wide(b), full) if side else (full, wide(b))
            judge(f"{t}{name} side {side} lower {lower} {m} x {n}", t, got, alpha * (x @ y) + beta * wide(c),
                  abs(alpha) * (abs(x) @ abs(y)) + abs(beta) * abs(c))


def triangular(t, m, n):
    for side, lower, trans, unit in itertools.product((0, 1), (0, 1), (0, 1, 2), (0, 1)):
        order = n if side else m
        a = (matrix(t, order, order) / order).astype(DTYPE[t])
        a[np.diag_indices(order)] += 1
        stored = half(a, lower)
        if unit:
            stored[np.diag_indices(order)] = np.nan
        full = np.tril(wide(a)) if lower else np.triu(wide(a))
        if unit:
            full[np.diag_indices(order)] = 1
        w = op(full, trans)
        b = matrix(t, m, n)
        alpha = 0.75 - (0.5j if t in "cz" else 0)
        flags = dict(side=side, lower=lower, trans_a=trans, diag=unit)
        x, y = (wide(b), w) if side else (w, wide(b))
        got = getattr(blas, t + "trmm")(alpha, stored, b, **flags)
        what = f"side {side} lower {lower} trans {trans} unit {unit} {m} x {n}"
        judge(f"{t}trmm {what}", t, got, alpha * (x @ y), abs(alpha) * (abs(x) @ abs(y)))
        got = wide(getattr(blas, t + "trsm")(alpha, stored, b, **flags))
        x, y = (got, w) if side else (w, got)
        judge(f"{t}trsm {what}", t, x @ y, alpha * wide(b), abs(x) @ abs(y) + abs(alpha) * abs(wide(b)))


types = "sdcz"
sizes = [int(x) for x in sys.argv[1:] if x.isdigit()] or [1537, 701, 390]
for word in sys.argv[1:]:
    if not word.isdigit():
        types = word
for at in range(0, len(sizes), 3):
    m, n, k = sizes[at:at + 3]
    for t in types:
        rank(t, m, k)
        mirrored(t, m, n)
        triangular(t, m, n)
# numpy's own way to syrk: a matrix times its transpose.
for t in types:
    a = matrix(t, 1200, 700)
    got, at = a @ a.T, (rng.integers(0, 1200, 64), rng.integers(0, 1200, 64))
    x, y = wide(a[at[0]]), wide(a[at[1]])
    judge(f"{DTYPE[t]} a @ a.T", t, got[at], (x * y).sum(1), (abs(x) * abs(y)).sum(1))
print(f"{cases} results, {failures} wrong")
sys.exit(failures != 0)
