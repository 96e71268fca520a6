#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The ladder as a table in Markdown: ladder.csv, and the counters of `ncu --csv` where given.
   ladder-table.py ladder.csv [counters.csv]"""
import csv
import sys

WORK = {"gemm-f32": lambda n: 2 * n**3, "gemm-f16": lambda n: 2 * n**3, "convolution": lambda n: 162 * n**2}
UNITS = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "%": 1, "": 1}


def counters(path):
    lines = [line for line in open(path, newline="") if line.startswith('"')]
    found = {}
    for row in csv.DictReader(lines):
        value = row["Metric Value"].replace(",", "")
        try:
            number = float(value) * UNITS.get(row["Metric Unit"], 1)
        except ValueError:
            continue
        kernel = row["Kernel Name"].split("(")[0]
        found.setdefault(kernel, {}).setdefault(row["Metric Name"], number)
    return found


def cell(found, name, metric, form, scale=1.0):
    value = found.get(name, {}).get(metric)
    return form.format(value * scale) if value is not None else ""


rows = [r for r in csv.DictReader(open(sys.argv[1], newline=""))]
ncu = counters(sys.argv[2]) if len(sys.argv) > 2 else {}
print("| rung | ms | rate | % of peak | of cuBLAS | DRAM GB | flop/byte | regs | smem KB | blocks/SM | occup. | "
      "barriers/step | conflicts | L2 hit % | tensor % | lines |")
print("|" + "---|" * 16)
for r in rows:
    name = r["rung"]
    if r["status"] != "ok":
        print(f"| {name} | {r['status']}: {r['note']} |" + " |" * 14)
        continue
    read = ncu.get(name, {}).get("dram__bytes_read.sum")
    write = ncu.get(name, {}).get("dram__bytes_write.sum")
    moved = (read or 0) + (write or 0)
    work = WORK.get(r["kind"], lambda n: 0)(int(r["n"]))
    rate = float(r["rate"])
    rate = f"{rate / 1e3:.1f} TF" if r["unit"] == "GFLOP/s" else f"{rate:.0f} GB/s"
    cublas = float(r["vs_cublas"])
    ours = int(r["registers"]) > 0
    print("| " + " | ".join([
        name, f"{float(r['ms']):.3f}", rate, f"{100 * float(r['share_of_peak']):.0f}" if float(r["share_of_peak"]) else "",
        f"{cublas:.2f}" if cublas else "", f"{moved / 1e9:.2f}" if moved else "",
        f"{work / moved:.0f}" if moved and work else "", r["registers"] if ours else "",
        f"{int(r['smem_bytes']) / 1024:.1f}" if ours else "", r["blocks_sm"] if ours else "",
        f"{100 * float(r['occupancy']):.0f}%" if ours else "", f"{float(r['barriers_per_k']):.0f}" if ours else "",
        cell(ncu, name, "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "{:.2g}"),
        cell(ncu, name, "lts__t_sector_hit_rate.pct", "{:.0f}"),
        cell(ncu, name, "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active", "{:.0f}"),
        r["lines"] if r["lines"] != "0" else ""]) + " |")
