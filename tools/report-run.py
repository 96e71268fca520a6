#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""One self-contained HTML page about a run of a user's own program: tables, and plots where matplotlib is installed.
   report-run.py [-o run.html] FILE...
A FILE is what TILEBLAS_VERBOSE=2 wrote (TILEBLAS_LOG) or a timeline (TILEBLAS_TRACE). `tileblas report` starts it."""
import argparse
import html
import io
import json
import re
import sys

try:
    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3,
                                "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "tileblas"})
    import matplotlib.pyplot as plt
except ImportError:
    plt = None

STYLE = """body{font:15px/1.5 sans-serif;max-width:72em;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;font-size:13px;margin:1em 0}td,th{padding:.15em .6em;border-bottom:1px solid #ddd;
text-align:right}td:first-child,th:first-child{text-align:left}.gone{color:#888}svg{max-width:100%;height:auto}"""
SIDES = {"GPU": "#c1121f", "CPU": "#555555"}
TRACKS = {"caller": "#555555", "copier": "#8ab17d", "H2D": "#1d70b8", "kernel": "#c1121f", "D2H": "#7fb3e0"}
CALL = re.compile(r"^tileblas: (?P<what>[a-z0-9_]+)(?P<shape>[^:]*): (?P<side>GPU|CPU) \((?P<reason>[^)]*)\) "
                  r"(?P<ms>[0-9.]+) ms(?P<rest>.*)$")
LONGEST = 25  # calls that get a line of their own


def read_log(text):
    calls = []
    for line in text.splitlines():
        found = CALL.match(line)
        if not found:
            continue
        call = found.groupdict()
        call["ms"] = float(call["ms"])
        for name, form in (("rate", r", ([0-9.]+) GFLOP/s"), ("mb_in", r", ([0-9.]+) MB in"),
                           ("mb_out", r", ([0-9.]+) MB out"), ("cpu", r"estimated CPU ([0-9.]+) ms"),
                           ("gpu", r"estimated CPU [0-9.]+ ms GPU ([0-9.]+) ms")):
            value = re.search(form, call["rest"])
            call[name] = float(value.group(1)) if value else 0.0
        calls.append(call)
    return calls


def read_trace(text):
    """A timeline may lack its last bracket, or its last event where the program died."""
    text = text.rstrip().rstrip(",")
    for end in ("", "]", None):
        if end is None:
            text = text[:text.rindex(",\n{")]
            end = "]"
        try:
            events = json.loads(text + end)
            break
        except ValueError:
            events = []
    if isinstance(events, dict):
        events = events.get("traceEvents", [])
    return [e for e in events if e.get("ph") == "X"]


def read(paths):
    calls, spans, unknown = [], [], []
    for path in paths:
        with open(path, errors="replace") as file:
            text = file.read()
        found = read_trace(text) if text.lstrip()[:1] in ("[", "{") else None
        if found is None:
            found = read_log(text)
            calls += found
        else:
            spans += found
        if not found:
            unknown.append(path)
    return calls, spans, unknown


def table(head, rows):
    line = lambda cells, tag: "<tr>" + "".join(f"<{tag}>{html.escape(str(c))}</{tag}>" for c in cells) + "</tr>"
    return "<table>" + line(head, "th") + "".join(line(r, "td") for r in rows) + "</table>"


def svg(figure):
    if plt is None or figure is None:
        return "<p class=gone>No plot: matplotlib is not installed.</p>" if plt is None else ""
    figure.tight_layout()
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)
    return text.getvalue()[text.getvalue().index("<svg"):]


def sums(calls):
    groups = {}
    for c in calls:
        g = groups.setdefault((c["what"], c["side"], c["reason"]), [0, 0.0, 0.0, 0.0, 0.0, 0.0])
        for i, x in enumerate((1, c["ms"], c["rate"] * c["ms"] * 1e-3, c["mb_in"], c["mb_out"],
                               c["cpu"] - c["ms"] if c["side"] == "GPU" and c["cpu"] else 0)):
            g[i] += x
    rows = sorted(groups.items(), key=lambda x: -x[1][1])
    return table(["routine, side, reason", "calls", "ms", "GFLOP", "MB in", "MB out", "ms won by estimate"],
                 [["{} on the {} ({})".format(*k), v[0]] + [f"{x:.4g}" for x in v[1:]] for k, v in rows])


def calls_figure(calls):
    shown = [c for c in calls if c["rate"] > 0 and c["ms"] > 0]
    if plt is None or not shown:
        return None
    figure, axes = plt.subplots(1, 2, figsize=(11, 3.8))
    for side, colour in SIDES.items():
        mine = [c for c in shown if c["side"] == side]
        if mine:
            axes[0].scatter([c["rate"] * c["ms"] * 1e-3 for c in mine], [c["rate"] for c in mine], s=14, c=colour, label=side)
        with_estimate = [(c["cpu"] if side == "CPU" else c["gpu"], c["ms"]) for c in mine if c["cpu"] and c["gpu"]]
        if with_estimate:
            axes[1].scatter(*zip(*with_estimate), s=14, c=colour, label=side)
    axes[0].set(xscale="log", yscale="log", xlabel="GFLOP of the call", ylabel="GFLOP/s", title="where calls ran")
    axes[1].set(xscale="log", yscale="log", xlabel="ms as estimated", ylabel="ms", title="estimate and outcome")
    if axes[1].collections:
        ends = [min(axes[1].get_xlim()[0], axes[1].get_ylim()[0]), max(axes[1].get_xlim()[1], axes[1].get_ylim()[1])]
        axes[1].plot(ends, ends, color="#222", lw=0.8)
    axes[0].legend(frameon=False)
    return figure


def tracks_of(spans):
    """A track for each thread or lane, in the order of its first span; busy time counts nested spans once."""
    tracks = {}
    for s in sorted(spans, key=lambda s: s["ts"]):
        tracks.setdefault((s.get("pid"), s.get("tid"), s.get("cat", "")), []).append((s["ts"], s["ts"] + s.get("dur", 0)))
    return tracks


def busy(pairs):
    total, until = 0.0, float("-inf")
    for begin, end in sorted(pairs):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def shares(spans):
    first, last = min(s["ts"] for s in spans), max(s["ts"] + s.get("dur", 0) for s in spans)
    rows = []
    for category in dict.fromkeys(s.get("cat", "") for s in spans):
        mine = [(s["ts"], s["ts"] + s.get("dur", 0)) for s in spans if s.get("cat", "") == category]
        rows.append([category, len(mine), f"{busy(mine) / 1e3:.4g}", f"{100 * busy(mine) / max(last - first, 1e-9):.1f}%"])
    return table(["what", "spans", "ms with at least one", "of the whole"], rows)


def timeline_figure(spans):
    if plt is None:
        return None
    tracks, first = tracks_of(spans), min(s["ts"] for s in spans)
    order = sorted(tracks, key=lambda t: (list(TRACKS).index(t[2]) if t[2] in TRACKS else len(TRACKS), str(t)))[:40]
    figure, axis = plt.subplots(figsize=(11, 0.3 * len(order) + 1.2))
    for y, track in enumerate(order):
        axis.broken_barh([((b - first) / 1e3, max((e - b) / 1e3, 1e-4)) for b, e in tracks[track]], (y - 0.4, 0.8),
                         color=TRACKS.get(track[2], "#888"))
    axis.set_yticks(range(len(order)), [f"{t[2]} {t[1]}" for t in order])
    axis.invert_yaxis()
    axis.set(xlabel="ms since the first span", title="timeline")
    return figure


def main():
    options = argparse.ArgumentParser(prog="tileblas report", description="a page about one run, from its log or timeline")
    options.add_argument("-o", "--output", default="run.html")
    options.add_argument("files", nargs="+")
    args = options.parse_args()
    try:
        calls, spans, unknown = read(args.files)
    except OSError as error:
        print(f"tileblas: {error}", file=sys.stderr)
        return 1
    for path in unknown:
        print(f"tileblas: {path}: neither lines of TILEBLAS_VERBOSE=2 nor a timeline of TILEBLAS_TRACE", file=sys.stderr)
    if not calls and not spans:
        return 1
    parts = [f"<h1>libtileblas in this run</h1><p>{len(calls)} calls, {len(spans)} spans of a timeline.</p>"]
    if calls:
        longest = sorted(calls, key=lambda c: -c["ms"])[:LONGEST]
        parts += ["<h2>Calls</h2>", sums(calls), svg(calls_figure(calls)), f"<h2>The {len(longest)} longest</h2>",
                  table(["call", "side", "reason", "ms", "GFLOP/s", "CPU estimated", "GPU estimated"],
                        [[c["what"] + c["shape"], c["side"], c["reason"], f"{c['ms']:.4g}", f"{c['rate']:.4g}",
                          f"{c['cpu']:.4g}", f"{c['gpu']:.4g}"] for c in longest])]
    if spans:
        parts += ["<h2>Link, kernels and host</h2>", shares(spans), svg(timeline_figure(spans))]
    with open(args.output, "w") as file:
        file.write(f"<!doctype html><meta charset=utf-8><title>libtileblas in this run</title><style>{STYLE}</style>"
                   + "\n".join(parts))
    print(f"{args.output} written")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
