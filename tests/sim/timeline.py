# SPDX-License-Identifier: BSD-3-Clause
# Reads timelines of test_trace: usage timeline.py KIND FILE...
import json
import sys

kind, files = sys.argv[1], sys.argv[2:]
assert len(files) == (2 if kind == "fork" else 1), files
for path in files:
    with open(path) as file:
        events = json.loads(file.read() + "]")  # the bracket is left out, nothing else
    spans = [e for e in events if e["ph"] == "X"]
    names = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    assert len({e["pid"] for e in events}) == (2 if kind == "both" else 1)
    assert {(e["pid"], e["tid"]) for e in spans} <= names, "a track without a name"
    assert all(e["dur"] > 0 for e in spans)
    for track in names:
        open_until = []
        for e in sorted((e for e in spans if (e["pid"], e["tid"]) == track), key=lambda e: (e["ts"], -e["dur"])):
            while open_until and open_until[-1] <= e["ts"] + 0.0015:
                open_until.pop()
            end = e["ts"] + e["dur"]
            assert not open_until or end <= open_until[-1] + 0.0015, ("overlap", e, open_until)
            open_until.append(end)
    categories = {e["cat"] for e in spans}
    child = kind == "fork" and not {"H2D"} & categories
    if not child:
        assert categories == {"caller", "copier", "H2D", "kernel", "D2H"}, categories
        calls = [e for e in spans if e["name"] == "test"]
        assert len(calls) == (8 if kind == "both" else 4)
        for e in spans:  # what the device did lies within a call
            if e["cat"] in ("H2D", "kernel", "D2H"):
                assert any(c["ts"] <= e["ts"] and e["ts"] + e["dur"] <= c["ts"] + c["dur"] for c in calls), e
        assert any(e["name"] == "CPU tile" for e in spans)
if kind == "fork":
    assert len({json.dumps(sorted({e["cat"] for e in json.loads(open(f).read() + "]") if e["ph"] == "X"})) for f in files}) == 2
