#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""One self-contained HTML page out of result files: tables, and plots where matplotlib is installed.
   report.py [-o report.html] [-p FOLDER] FILE.csv...
Files of the bench, of accuracy, of tune and of the ladder (and its ncu counters) are told apart by their first line.
Where several have the same case, plots show that of the last file.
-p also writes every plot as a file of its own, SVG and PNG. A plot without data is named in the page, not left out silently."""
import argparse
import csv
import html
import io
import os
import sys

try:
    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3,
                                "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "tileblas"})
    import matplotlib.pyplot as plt
    import matplotlib.ticker
except ImportError:
    plt = None

STYLE = """body{font:15px/1.5 sans-serif;max-width:72em;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;font-size:13px;margin:1em 0}td,th{padding:.15em .6em;border-bottom:1px solid #ddd;
text-align:right}td:first-child,th:first-child{text-align:left}.bad{color:#b00020;font-weight:bold}
.gone{color:#888}svg{max-width:100%;height:auto}h2{margin-top:2em}"""
COLOURS = {"ours": "#c1121f", "ours-gpu": "#f77f00", "openblas": "#555555", "nvblas": "#8ab17d",
           "nvblas-autopin": "#2a9d8f", "cublasxt": "#7b5ea7", "cublas": "#1d70b8", "cublas-tf32": "#7fb3e0",
           "fma-chain": "#bbbbbb", "triton": "#e9a820", "triton-tf32": "#f4d58d"}


def read(paths):
    data = {"bench": [], "accuracy": [], "ladder": [], "counters": [], "tune": []}
    for path in paths:
        with open(path, newline="") as file:
            rows = list(csv.DictReader(line for line in file if not line.startswith(("#", "=="))))
        if not rows:
            print(f"{path}: no rows", file=sys.stderr)
            continue
        kind = ("counters" if "Metric Name" in rows[0] else "ladder" if "rung" in rows[0] else
                "accuracy" if "verdict" in rows[0] else "tune" if "chosen" in rows[0] else "bench" if "level" in rows[0] else None)
        if not kind:
            print(f"{path}: not one of ours", file=sys.stderr)
            continue
        data[kind] += rows
    return data


def number(row, key):
    try:
        return float(row[key])
    except (KeyError, ValueError, TypeError):
        return None


def colour(name):
    return COLOURS.get(name, "#c1121f" if name.startswith("ours") else None)


def plain(axis):
    """Powers of ten and a few between, written as numbers."""
    axis.yaxis.set_major_locator(matplotlib.ticker.LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
    axis.yaxis.set_minor_locator(matplotlib.ticker.NullLocator())


class Page:
    def __init__(self, folder):
        self.parts, self.folder = [], folder

    def add(self, text):
        self.parts.append(text)

    def plot(self, name, figure, why="no data for it in these files"):
        if plt is None or figure is None:
            self.add(f"<p class=gone>Plot “{name}”: {'matplotlib is not installed' if plt is None else why}.</p>")
            return
        figure.tight_layout()
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None}, bbox_inches="tight")
        if self.folder:
            figure.savefig(os.path.join(self.folder, name.replace(" ", "-") + ".png"), dpi=110, bbox_inches="tight")
        plt.close(figure)
        svg = text.getvalue()
        self.add(svg[svg.index("<svg"):])
        if self.folder:
            with open(os.path.join(self.folder, name.replace(" ", "-") + ".svg"), "w") as file:
                file.write(svg)

    def table(self, head, rows):
        cells = lambda row, tag: "".join(f"<{tag}>{x}</{tag}>" for x in row)
        body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
        self.add(f"<table><tr>{cells(head, 'th')}</tr>{body}</table>")


def square(row):
    return row["m"] == row["n"] == row["k"] and int(row["n"]) % 2 == 0 and row["trans"] in ("nn", "ln") and row["dist"] == "signed"


def speed_figure(rows, level, memory):
    rows = [r for r in rows if r["level"] == level and r["memory"] == memory and square(r) and r["status"] == "ok"
            and (level == "host" or not r["provider"].startswith("ours:"))]
    routines = [x for x in dict.fromkeys(r["routine"] for r in rows)
                if len({r["n"] for r in rows if r["routine"] == x}) > 1]
    if not routines or plt is None:
        return None
    wide = min(4, len(routines))
    high = (len(routines) + wide - 1) // wide
    figure, axes = plt.subplots(high, wide, figsize=(3.1 * wide, 2.7 * high), squeeze=False)
    for axis in axes.flat[len(routines):]:
        axis.set_visible(False)
    for axis, routine in zip(axes.flat, routines):
        for provider in dict.fromkeys(r["provider"] for r in rows):
            points = sorted({int(r["n"]): number(r, "rate") / 1e3 for r in rows
                             if r["routine"] == routine and r["provider"] == provider}.items())
            if points:
                axis.plot(*zip(*points), marker="o", ms=3, lw=1.2, label=provider, color=colour(provider))
        axis.set(title=routine, xscale="log", yscale="log")
        ticks = sorted({int(r["n"]) for r in rows if r["routine"] == routine and int(r["n"]).bit_count() == 1})
        axis.set_xticks(ticks, [str(t) for t in ticks], rotation=45)
        axis.minorticks_off()
        plain(axis)
    for axis in axes[:, 0]:
        axis.set_ylabel("TFLOP/s")
    seen = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels()):
            seen.setdefault(label, handle)
    figure.legend(seen.values(), seen.keys(), loc="upper center", ncol=7, fontsize=8, frameon=False,
                  bbox_to_anchor=(0.5, 0.0))
    return figure


def limits(rows):
    return {r["routine"]: number(r, "rate") for r in rows if r["level"] == "limit" and r["status"] == "ok"}


def moved_bytes(counters):
    scale = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
    bytes_of = {}
    for row in counters:
        if row["Metric Name"] in ("dram__bytes_read.sum", "dram__bytes_write.sum"):
            name = row["Kernel Name"].split("(")[0]
            bytes_of[name] = (bytes_of.get(name, 0) +
                              float(row["Metric Value"].replace(",", "")) * scale.get(row["Metric Unit"], 1))
    return bytes_of


def roofline_figure(data):
    peaks, moved = limits(data["bench"]), moved_bytes(data["counters"])
    rungs = [r for r in data["ladder"] if r["kind"].startswith("gemm") and r["rung"] in moved and r["status"] == "ok"]
    if not rungs or plt is None or not {"device-copy", "fma-fp32", "mma-f16"} <= peaks.keys():
        return None
    figure, axes = plt.subplots(1, 2, figsize=(11, 4))
    for axis, kind, peak in ((axes[0], "gemm-f32", "fma-fp32"), (axes[1], "gemm-f16", "mma-f16")):
        x = [4, 2000]
        roof = [min(peaks[peak] / 1e3, peaks["device-copy"] * i / 1e3) for i in
                [4 * 1.05**j for j in range(128)]]
        axis.plot([4 * 1.05**j for j in range(128)], roof, color="#222", lw=1.4)
        axis.text(x[1], peaks[peak] / 1e3 * 1.1, f"{peak} loop, {peaks[peak] / 1e3:.0f} TFLOP/s", ha="right", fontsize=8)
        for at, r in enumerate(r for r in rungs if r["kind"] == kind):
            intensity = 2 * float(r["n"])**3 / moved[r["rung"]]
            rate = number(r, "rate") / 1e3
            axis.plot(intensity, rate, "o", ms=5, color="#c1121f")
            axis.annotate(f"{at + 1} {r['rung'].split('_', 1)[1]}", (intensity, rate), fontsize=8,
                          xytext=((6, -4), (6, 3), (6, -4), (6, 3), (6, -4), (-2, 7), (-50, -4), (6, -9), (6, -4))[at % 9], textcoords="offset points")
        axis.set(xscale="log", yscale="log", title=kind, xlabel="operations per byte of DRAM (counted)",
                 ylabel="TFLOP/s")
        axis.set_ylim(4, 1.5 * peaks[peak] / 1e3)
        plain(axis)
    return figure


def accuracy_figure(rows):
    types = list(dict.fromkeys(r["routine"] for r in rows if r["dist"] == "uniform" and int(r["entries"]) > 0))
    if not types or plt is None:
        return None
    wide = min(4, len(types))
    high = (len(types) + wide - 1) // wide
    figure, axes = plt.subplots(high, wide, figsize=(2.9 * wide, 2.8 * high), squeeze=False)
    for axis in axes.flat[len(types):]:
        axis.set_visible(False)
    for axis, routine in zip(axes.flat, types):
        seen = [r for r in rows if r["routine"] == routine and r["dist"] == "uniform" and int(r["entries"]) > 0]
        names = list(dict.fromkeys(r["provider"] for r in seen))
        names = [n for n in names if not n.startswith("ours:")] + [n for n in names if n.startswith("ours:")][:1]
        for name in names:
            points = sorted({int(r["k"]): number(r, "err_rms_u") for r in seen if r["provider"] == name}.items())
            points = [p for p in points if p[1]]
            if points and name != "cublas-tf32":
                axis.plot(*zip(*points), marker="o", ms=3, lw=1.2, label="ours" if name.startswith("ours") else name,
                          color=colour(name), zorder=3 if name.startswith("ours") else 2)
        axis.set(xscale="log", yscale="log", title=f"{routine}, U(0,1)", xlabel="k")
        axis.set_ylim(0.2, max(5, axis.get_ylim()[1]))
        plain(axis)
        axis.legend(fontsize=7, frameon=False)
    for axis in axes[:, 0]:
        axis.set_ylabel("rms error in u of the type")
    return figure


def crossover_figure(rows):
    found = {}
    for r in rows:
        if r["level"] == "host" and r["status"] == "ok" and r["provider"] in ("openblas", "ours-gpu"):
            found.setdefault((r["routine"], int(r["m"]), int(r["n"]), int(r["k"])), {})[r["provider"]] = number(r, "ms")
    found = {case: x["openblas"] / x["ours-gpu"] for case, x in found.items() if len(x) == 2}
    if len(found) < 4 or plt is None:
        return None
    routines = list(dict.fromkeys(case[0] for case in found))
    figure, axes = plt.subplots(1, len(routines), figsize=(5 * len(routines), 3.6), squeeze=False)
    for axis, routine in zip(axes[0], routines):
        for (name, m, n, k), gain in found.items():
            if name == routine:
                axis.scatter((m * n)**0.5, k, s=60, c="#c1121f" if gain > 1 else "#555555")
                axis.annotate(f"{gain:.2g}", ((m * n)**0.5, k), fontsize=7, xytext=(5, 4), textcoords="offset points")
        axis.set(xscale="log", yscale="log", xlabel="sqrt(m n)", ylabel="k",
                 title=f"{routine}: CPU time / GPU time (red: GPU wins)")
        for of, at in ((axis.xaxis, [(m * n)**0.5 for _, m, n, _ in found]), (axis.yaxis, [k for *_, k in found])):
            of.set_major_locator(matplotlib.ticker.FixedLocator([2**i for i in range(3, 16) if min(at) <= 2**i <= max(at)]))
            of.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%d"))
            of.set_minor_locator(matplotlib.ticker.NullLocator())
    return figure


def share_figure(rows):
    rows = [r for r in rows if r["level"] == "host" and r["provider"] == "ours" and r["status"] == "ok" and
            number(r, "limit_share") and r["trans"] == "nn"]
    if not rows or plt is None:
        return None
    rows = list({(r["routine"], r["memory"], int(r["m"]), int(r["n"]), int(r["k"])): r for r in rows if square(r)}.items())
    rows = [r for _, r in sorted(rows, key=lambda x: x[0])]
    figure, axis = plt.subplots(figsize=(9, 0.26 * len(rows) + 1))
    axis.margins(y=0.01)
    names = [f"{r['routine']} {r['n']} {r['memory']}" for r in rows]
    axis.barh(names, [number(r, "limit_share") for r in rows],
              color=["#1d70b8" if r["limit"].startswith("link") else "#e9a820" for r in rows])
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    axis.set(xlim=(0, 1), xlabel="least possible time / time taken; blue: bound by the link, yellow: by arithmetic")
    return figure


def bench_tables(page, rows):
    keys = ("level", "routine", "trans", "m", "n", "k", "memory", "dist", "beta")
    for level in ("host", "kernel"):
        mine = [r for r in rows if r["level"] == level]
        providers = [p for p in dict.fromkeys(r["provider"] for r in mine) if p != "all"]
        cases = {}
        for r in mine:
            cases.setdefault(tuple(r[k] for k in keys), {})[r["provider"]] = r
        if not cases:
            continue
        page.add(f"<h3>{level} level: ms, and how many times ours is faster</h3>")
        body = []
        for case, found in cases.items():
            name = f"{case[1]} {case[2]} {case[3]}×{case[4]}×{case[5]} {case[6]}" + \
                (f" {case[7]}" if case[7] != "signed" else "") + (f" beta={case[8]}" if case[8] != "0" else "")
            line = [html.escape(name)]
            for p in providers:
                r = found.get(p) or found.get("all")
                if r is None:
                    line.append("")
                elif r["status"] != "ok":
                    kind = "bad" if r["status"] in ("wrong", "failed") else "gone"
                    line.append(f"<span class={kind} title='{html.escape(r['note'], True)}'>{r['status']}</span>")
                else:
                    gain = number(r, "vs_ours")
                    line.append(f"{number(r, 'ms'):.4g}" + (f" ({gain:.2f}×)" if gain and p != "ours" else ""))
            body.append(line)
        page.table(["case", *providers], body)


def accuracy_table(page, rows):
    count = {}
    for r in rows:
        if r["provider"].startswith("ours"):
            count.setdefault((r["routine"], r["provider"]), []).append(r)
    body = []
    for (routine, provider), group in count.items():
        bad = [r for r in group if r["verdict"].startswith("BROKEN")]
        worst = ", ".join(f"{r['dist']} k={r['k']}: max {r['err_max_u']} rms {r['err_rms_u']}" for r in bad[:6])
        body.append([f"{routine} {provider}", len(group), len(group) - len(bad),
                     f"<span class=bad>{html.escape(worst)}</span>" if bad else ""])
    page.table(["kernel", "data sets", "kept", "broken"], body)


def ladder_table(page, data):
    moved = moved_bytes(data["counters"])
    body = []
    for r in data["ladder"]:
        flops = r["unit"] == "GFLOP/s"
        rate = number(r, "rate") or 0
        body.append([r["rung"], r["status"] if r["status"] != "ok" else f"{number(r, 'ms'):.3f}",
                     f"{rate / 1e3:.1f} TF" if flops else f"{rate:.0f} GB/s",
                     f"{100 * (number(r, 'share_of_peak') or 0):.0f}%",
                     f"{number(r, 'vs_cublas'):.2f}" if number(r, "vs_cublas") else "",
                     f"{moved[r['rung']] / 1e9:.2f}" if r["rung"] in moved else "", r["registers"], r["smem_bytes"],
                     f"{100 * (number(r, 'occupancy') or 0):.0f}%", r["lines"]])
    page.table(["rung", "ms", "rate", "of peak", "of cuBLAS", "DRAM GB", "registers", "shared B", "occupancy",
                "lines"], body)


def tune_table(page, rows):
    """Shapes where the library's own choice of a kernel is not the fastest, and how much that costs."""
    cases = {}
    for r in rows:
        if r["status"] == "ok":
            cases.setdefault((r["routine"], r["trans"], r["class"], r["m"], r["n"], r["k"]), []).append(r)
    body, ratios = [], []
    for case, group in cases.items():
        best = next((r for r in group if r["best"] == "1"), None)
        chosen = next((r for r in group if r["chosen"] == "1"), None)
        if best and chosen:
            ratios.append(number(chosen, "ms") / number(best, "ms"))
            if ratios[-1] > 1.02:
                body.append(["{} {} {} {}×{}×{}".format(*case), html.escape(best["kernel"]), html.escape(chosen["kernel"]),
                             f"{ratios[-1]:.2f}"])
    page.add(f"<p>{len(cases)} cases; the choice is within 2% of the best row in {len(ratios) - len(body)}.</p>")
    if body:
        page.table(["case", "best row", "the library's choice", "times slower"], body)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("-o", "--output", default="report.html")
    options.add_argument("-p", "--plots")
    options.add_argument("files", nargs="+")
    args = options.parse_args()
    data = read(args.files)
    if not any(data.values()):
        print("nothing to report", file=sys.stderr)
        return 1
    page = Page(args.plots)
    machines = dict.fromkeys((r["cpu"], r["cpus"], r["gpu"]) for kind in ("bench", "accuracy", "ladder")
                             for r in data[kind])
    dates = sorted(r["date"] for kind in ("bench", "accuracy", "ladder") for r in data[kind])
    page.add(f"<h1>libtileblas, measured</h1><p>{'; '.join(f'{c} × {n}, GPU {g}' for c, n, g in machines)}. "
             f"{dates[0] if dates else ''} to {dates[-1] if dates else ''}.</p>")
    page.add("<h2>Speed through the public symbols</h2>")
    page.plot("host speed", speed_figure(data["bench"], "host", "malloc"))
    page.plot("host share of limit", share_figure(data["bench"]))
    page.plot("crossover", crossover_figure(data["bench"]), "needs a run of cases/crossover.txt")
    page.add("<h2>Speed of the kernels alone</h2>")
    page.plot("kernel speed", speed_figure(data["bench"], "kernel", "device"))
    bench_tables(page, data["bench"])
    page.add("<h2>The machine's limits</h2>")
    page.table(["limit", "value"], [[r["routine"], f"{r['rate']} {r['unit']}" if r["status"] == "ok" else r["status"]]
                                    for r in data["bench"] if r["level"] == "limit"])
    page.add("<h2>Accuracy</h2>")
    page.plot("accuracy", accuracy_figure(data["accuracy"]))
    accuracy_table(page, data["accuracy"])
    page.add("<h2>The ladder</h2>")
    page.plot("roofline", roofline_figure(data), "needs a ladder, its counters, and the limits of a bench file")
    ladder_table(page, data)
    if data["tune"]:
        page.add("<h2>Choice of the kernel</h2>")
        tune_table(page, data["tune"])
    with open(args.output, "w") as file:
        file.write(f"<!doctype html><meta charset=utf-8><title>libtileblas, measured</title><style>{STYLE}</style>"
                   + "\n".join(page.parts))
    print(f"{args.output} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
