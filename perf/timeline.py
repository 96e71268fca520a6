# SPDX-License-Identifier: BSD-3-Clause
"""Draws the last call of a timeline (TILEBLAS_TRACE): timeline.py TRACE.json OUT.svg|png

A row for each copier, for the way in, each lane of products, and the way back; time from left to right."""
import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

COLOURS = {"stage": "#4c72b0", "unstage": "#c44e52", "H2D": "#4c72b0", "kernel": "#55a868", "D2H": "#c44e52", "CPU tile": "#8172b2"}


def read(path):
    with open(path) as file:
        text = file.read()
    return json.loads(text if text.rstrip().endswith("]") else text + "]")


def kind_of(span):
    return span["name"] if span["cat"] in ("copier", "caller") else span["cat"]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    events = read(sys.argv[1])
    spans = [e for e in events if e["ph"] == "X"]
    call = [e for e in spans if e["cat"] == "caller" and "m=" in e["args"]["what"]][-1]
    begin, length = call["ts"], call["dur"]
    inside = [e for e in spans if e is not call and e["pid"] == call["pid"] and begin - 100 <= e["ts"] <= begin + length]
    order = {"copier": 0, "H2D": 1, "kernel": 2, "D2H": 3, "caller": 4}
    tracks = sorted({(order.get(e["cat"], 5), e["cat"], e["tid"]) for e in inside})
    plt.rcParams["svg.hashsalt"] = "tileblas"
    figure, axes = plt.subplots(figsize=(11, 0.28 * len(tracks) + 1.4))
    labels, copier = [], 0
    for row, (_, category, tid) in enumerate(tracks):
        for kind in COLOURS:
            bars = [((e["ts"] - begin) / 1e3, e["dur"] / 1e3) for e in inside if e["tid"] == tid and e["cat"] == category and kind_of(e) == kind]
            axes.broken_barh(bars, (row - 0.4, 0.8), color=COLOURS[kind], linewidth=0)
        copier += category == "copier"
        labels.append({"H2D": "to the device", "D2H": "back", "kernel": f"lane {tid % 1000 % 4}"}.get(category, f"copier {copier}" if category == "copier" else category))
    axes.set_yticks(range(len(tracks)), labels, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, length / 1e3)
    axes.set_xlabel("ms")
    axes.set_title(f"{call['name']} {call['args']['what']}: {length / 1e3:.1f} ms", fontsize=10)
    shown = [kind for kind in COLOURS if any(kind_of(e) == kind for e in inside)]
    axes.legend([plt.Rectangle((0, 0), 1, 1, color=COLOURS[kind]) for kind in shown], shown, ncol=len(shown), fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.12), frameon=False)
    figure.tight_layout()
    figure.savefig(sys.argv[2], metadata={"Date": None})


if __name__ == "__main__":
    main()
