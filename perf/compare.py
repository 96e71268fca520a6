#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Two CSV files of the bench: what got faster, slower, wrong or lost.
   compare.py OLD.csv NEW.csv [-p PROVIDER] [-n PERCENT]
A change counts where the ranges min to max of the two do not touch AND the medians differ by more than the noise
(default 3%). Where both files have a peer for the same case (OpenBLAS at host level, cuBLAS at kernel level), times are
first divided by its drift: another machine, or a busy one, is no regression. Exit 1: something is slower, wrong or lost."""
import argparse
import csv
import sys

KEYS = ("level", "routine", "trans", "m", "n", "k", "alpha", "beta", "dist", "memory")


def read(path):
    with open(path, newline="") as file:
        rows = {}
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            if "rung" in row:  # a file of the ladder
                row.update(level="ladder", routine=row["rung"], provider="ours")
            rows[tuple(row.get(k, "") for k in KEYS), row["provider"]] = row
        return rows


def drift(old, new, case):
    peer = {"host": "openblas", "kernel": "cublas"}.get(case[0])
    a, b = old.get((case, peer)), new.get((case, peer))
    if a and b and a["status"] == b["status"] == "ok":
        return float(b["ms"]) / float(a["ms"])
    return 1.0


def judge(a, b, scale, noise):
    if a["status"] != "ok":
        return ("fixed" if b["status"] == "ok" else "same"), None
    if b["status"] != "ok":
        return ("lost" if b["status"] in ("missing", "not run", "absent") else b["status"]), None
    old = [float(a[x]) * scale for x in ("ms", "ms_min", "ms_max")]
    now = [float(b[x]) for x in ("ms", "ms_min", "ms_max")]
    ratio = old[0] / now[0]
    apart = now[2] < old[1] or now[1] > old[2]
    if not apart or abs(ratio - 1) <= noise / 100:
        return "same", ratio
    return ("faster" if ratio > 1 else "slower"), ratio


def main():
    options = argparse.ArgumentParser()
    options.add_argument("old")
    options.add_argument("new")
    options.add_argument("-p", "--provider", default="ours", help="whose rows; rows of its kernels ours:NAME count too")
    options.add_argument("-n", "--noise", type=float, default=3.0)
    args = options.parse_args()
    old, new = read(args.old), read(args.new)
    count = {}
    for (case, provider), a in old.items():
        if provider != args.provider and not provider.startswith(args.provider + ":"):
            continue
        if case[0] == "limit":
            continue
        b = new.get((case, provider))
        scale = drift(old, new, case) if provider not in ("openblas", "cublas") else 1.0
        verdict, ratio = judge(a, b, scale, args.noise) if b else ("lost", None)
        count[verdict] = count.get(verdict, 0) + 1
        if verdict != "same":
            change = f"{ratio:6.3f}x" if ratio else "       "
            print(f"{verdict:7} {change}  {' '.join(x for x in case if x)} {provider}")
    for (case, provider) in new.keys() - old.keys():
        if provider == args.provider:
            count["new"] = count.get("new", 0) + 1
    print(", ".join(f"{n} {what}" for what, n in sorted(count.items())) or f"no rows of {args.provider} in {args.old}")
    return 0 if count and not set(count) & {"slower", "lost", "wrong", "failed"} else 1


if __name__ == "__main__":
    sys.exit(main())
