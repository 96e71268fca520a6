# SPDX-License-Identifier: BSD-3-Clause
"""A plain Triton matrix product (one fixed tile, no tuning) beside torch.matmul, as rows for the bench's CSV.
   triton-matmul.py [SIZE...] >> results.csv     Needs torch and triton; where one is missing, a row says so."""
import datetime
import statistics
import sys


def facts():
    cpu, cpus = "unknown", 0
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                cpu, cpus = line.split(":", 1)[1].strip().replace(",", " "), cpus + 1
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%MZ"), cpu, cpus


def row(gpu, sms, routine, n, provider, status, ms=(), err=None, note=""):
    date, cpu, cpus = facts()
    mid, low, high = (statistics.median(ms), min(ms), max(ms)) if ms else ("", "", "")
    rate = f"{2 * n**3 / mid / 1e6:.6g}" if ms else ""
    text = [f"{x:.6g}" if ms else "" for x in (mid, low, high)] if ms else ["", "", ""]
    print(",".join([date, cpu, str(cpus), gpu, str(sms), "", "kernel", routine, "nn", str(n), str(n), str(n), "1", "0",
                    "signed", "device", provider, status, str(len(ms)), *text, rate, "GFLOP/s", "", "", "",
                    f"{err:.4g}" if err is not None else "", "", "0" if err is None else str(n * 64), f'"{note}"']),
          flush=True)


sizes = [int(x) for x in sys.argv[1:]] or [1024, 2048, 4096, 8192]
try:
    import torch
    import triton
    import triton.language as tl
    if not torch.cuda.is_available():
        raise ImportError("no GPU for torch")
except ImportError as error:
    row("none", 0, "hgemm", 0, "triton", "missing", note=str(error))
    sys.exit(0)


@triton.jit
def product(a, b, c, n, precision: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, n, BK):
        x = tl.load(a + rows[:, None] * n + (k + inner)[None, :])
        y = tl.load(b + (k + inner)[:, None] * n + cols[None, :])
        total = tl.dot(x, y, total, input_precision=precision)
    tl.store(c + rows[:, None] * n + cols[None, :], total.to(c.dtype.element_ty))


def measure(routine, dtype, precision, n, gpu, sms):
    unit = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24}[dtype]
    sets = max(2, int(2 * 60e6 / (3 * n * n * dtype.itemsize)) + 1)
    a = [(torch.rand(n, n, device="cuda") * 2 - 1).to(dtype) for _ in range(sets)]
    b = [(torch.rand(n, n, device="cuda") * 2 - 1).to(dtype) for _ in range(sets)]
    c = torch.empty(n, n, device="cuda", dtype=dtype)
    tile = (64, 64, 32) if dtype is torch.float32 else (128, 128, 64)
    grid = (n // tile[0], n // tile[1])
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    calls = {"triton": lambda i: product[grid](a[i], b[i], c, n, precision, *tile, num_warps=8 if tile[0] > 64 else 4),
             "torch": lambda i: torch.matmul(a[i], b[i], out=c)}
    if precision == "tf32":
        calls = {f"{name}-tf32": call for name, call in calls.items()}
    times = {name: [] for name in calls}
    inner = max(1, int(2e12 / (2 * n**3)) // 20)
    at = 0
    for rep in range(-2, 9):
        for name, call in calls.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for _ in range(inner):
                call(at)
                at = (at + 1) % sets
            end.record()
            end.synchronize()
            if rep >= 0:
                times[name].append(start.elapsed_time(end) / inner)
    for name, call in calls.items():
        c.fill_(float("nan"))
        call(0)
        some = torch.randperm(n, device="cuda")[:64]
        want = a[0][some].double() @ b[0].double()
        size = a[0][some].double().abs() @ b[0].double().abs()
        err = ((c[some].double() - want).abs() / size).max().item() / unit
        limit = 2.0**14 if "tf32" in name else 4 + 2 * n**0.5
        row(gpu, sms, routine, n, name, "ok" if err <= limit else "wrong", times[name], err, f"tile {tile}")


device = torch.cuda.get_device_properties(0)
for n in sizes:
    for routine, dtype, precision in (("hgemm", torch.float16, "ieee"), ("bgemm", torch.bfloat16, "ieee"),
                                      ("sgemm", torch.float32, "tf32"), ("sgemm", torch.float32, "ieee")):
        try:
            measure(routine, dtype, precision, n, device.name, device.multi_processor_count)
        except Exception as error:  # a row that says so, and on with the next
            row(device.name, device.multi_processor_count, routine, n, "triton", "failed",
                note=str(error).replace('"', "'").splitlines()[0][:120] if str(error) else type(error).__name__)
