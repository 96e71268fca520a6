# SPDX-License-Identifier: BSD-3-Clause
"""A plain Triton matrix product (one fixed tile, no tuning): the bench's provider "triton". perf/triton.c starts it and
   speaks with it, a line each way: "case ROUTINE TF32 TRANS M N K", "run TF32 CALLS" (milliseconds of one), "check TF32"
   (largest error, sum of squares, entries, entries that are not numbers). Matrices are column-major, as everywhere in the bench."""
import os
import sys

speak = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)  # whatever libraries print goes elsewhere


def answer(text):
    speak.write(text.replace("\n", " ")[:180] + "\n")


try:
    import torch
    import triton
    import triton.language as tl
    if not torch.cuda.is_available():
        raise ImportError("no GPU for torch")
except ImportError as error:
    sys.stdin.readline()
    answer(f"missing {error}")
    sys.exit(0)


@triton.jit
def product(x, y, z, k, sxm, sxk, syk, syn, szm, precision: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
            BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(0, k, BK):
        u = tl.load(x + rows[:, None] * sxm + (step + inner)[None, :] * sxk)
        v = tl.load(y + (step + inner)[:, None] * syk + cols[None, :] * syn)
        total = tl.dot(u, v, total, input_precision=precision)
    tl.store(z + rows[:, None] * szm + cols[None, :], total.to(z.dtype.element_ty))


class Case:
    TYPES = {"sgemm": (torch.float32, torch.float32), "hgemm": (torch.float16, torch.float16),
             "bgemm": (torch.bfloat16, torch.bfloat16), "shgemm": (torch.float16, torch.float32),
             "sbgemm": (torch.bfloat16, torch.float32)}

    def __init__(self, routine, tf32, trans, m, n, k):
        """C as it lies in memory is a row-major n x m: its transpose is op(B)' op(A)'."""
        self.ab, self.c = self.TYPES[routine]
        self.precision = "tf32" if tf32 else "ieee"
        self.tile = (64, 64, 32) if self.ab is torch.float32 else (128, 128, 64)
        self.m, self.n, self.k = n, m, k
        bm, bn, bk = self.tile
        if n % bm or m % bn or k % bk:
            raise ValueError(f"whole tiles of {self.tile} only")
        self.grid = (n // bm, m // bn)
        one = (m * k + k * n) * self.ab.itemsize + m * n * self.c.itemsize
        sets = min(16, 2 * torch.cuda.get_device_properties(0).L2_cache_size // one + 1)
        make = lambda rows, cols, turned: [self.random(rows, cols, turned) for _ in range(sets)]
        self.x, self.y = make(n, k, trans[1] != "n"), make(k, m, trans[0] != "n")
        self.z = [torch.empty(n, m, device="cuda", dtype=self.c) for _ in range(sets)]
        self.at = 0

    def random(self, rows, cols, turned):
        shape = (cols, rows) if turned else (rows, cols)
        data = (torch.rand(*shape, device="cuda") * 2 - 1).to(self.ab)
        return data.t() if turned else data

    def call(self, i):
        x, y, z = self.x[i], self.y[i], self.z[i]
        product[self.grid](x, y, z, self.k, x.stride(0), x.stride(1), y.stride(0), y.stride(1), z.stride(0),
                           self.precision, *self.tile, num_warps=8 if self.tile[0] > 64 else 4)

    def run(self, calls):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(calls):
            self.call(self.at)
            self.at = (self.at + 1) % len(self.x)
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / calls

    def check(self):
        self.z[0].fill_(float("nan"))
        self.call(0)
        some = torch.randperm(self.m, device="cuda")[:24]
        x, y = self.x[0][some].double(), self.y[0].double()
        error = (self.z[0][some].double() - x @ y).abs() / (x.abs() @ y.abs())
        good = error[torch.isfinite(error)]
        return good.max().item() if good.numel() else 0.0, (good**2).sum().item(), error.numel(), error.numel() - good.numel()


cases, shape = {}, None  # one product in FP32 by TF32 and one by IEEE arithmetic may be underway at a time
for line in sys.stdin:
    words = line.split()
    try:
        if words[0] == "case":
            if words[1:2] + words[3:] != shape:
                cases.clear()  # their memory goes first
                torch.cuda.empty_cache()
                shape = words[1:2] + words[3:]
            cases[words[2]] = Case(words[1], words[2] == "1", words[3], *map(int, words[4:7]))
            answer(f"ok tile {'x'.join(map(str, cases[words[2]].tile))}")
        elif words[0] == "run":
            answer(f"ok {cases[words[1]].run(int(words[2])):.9g}")
        else:
            answer("ok %.9g %.9g %d %d" % cases[words[1]].check())
    except ValueError as error:
        answer(f"absent {error}")
    except Exception as error:  # a row that says so, and on with the next
        answer(f"failed {type(error).__name__}: {error}")
