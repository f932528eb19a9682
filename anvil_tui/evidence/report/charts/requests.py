"""Where the time of each request went: to the first output, to the first visible token, to the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from anvil_tui.evidence.report.charts.theme import BAD, INK, LINE, SERIES, WIDTH, chart
from anvil_tui.evidence.run_metrics import COMPLETED
from anvil_tui.records.artifact import RunArtifact
from anvil_tui.records.request import RequestRecord
from anvil_tui.text import sanitise

BARS = 60
"""Requests that get a bar each; more are drawn as ticks, one row a run."""
_TICK_STEPS = 400
"""Ticks of a row that fall on the same of so many places are one."""
_PARTS = ("to first output", "reasoning until visible", "visible answer", "first output not known", "failed")
_COLORS = (SERIES[0], SERIES[2], SERIES[1], "var(--muted)", BAD)


def requests_chart(runs: Sequence[RunArtifact], *, rehearsal: bool) -> dict[str, Any] | None:
    """Scored requests of these runs in their order, in ms from the first byte sent; warm-up is left out.

    A request whose first output is not known is one bar. None where no request tells its length.
    """
    sent = [(run, record) for run in runs for record in run.requests]
    if len(sent) > BARS:
        return _ticks(runs, rehearsal)
    labels = _labels(sent)
    rows = [row for (_, record), label in zip(sent, labels, strict=True) for row in _parts(record, label)]
    if not rows:
        return None
    order = [label for label in labels if any(row["request"] == label for row in rows)]
    present = [part for part in _PARTS if any(row["part"] == part for row in rows)]
    totals = [
        {"request": label, "end": max(row["to"] for row in rows if row["request"] == label)}
        | {"words": f"{max(row['to'] for row in rows if row['request'] == label):,.0f} ms"}
        for label in order
    ]
    x = {"field": "from", "type": "quantitative", "title": "ms since the first byte sent", "axis": {"format": ",.0f"}}
    y = {
        "field": "request",
        "type": "nominal",
        "sort": order,
        "title": None,
        "scale": {"domain": order},
        "axis": {"labelLimit": 150},
    }
    return chart(
        {
            "width": WIDTH - 110,
            "height": {"step": 15},
            "layer": [
                {
                    "data": {"values": rows},
                    "mark": {"type": "bar", "height": 9},
                    "encoding": {"x": x, "x2": {"field": "to"}, "y": y, "color": _color(present)},
                },
                {
                    "data": {"values": totals},
                    "mark": {"type": "text", "align": "left", "dx": 5, "fontSize": 10, "color": INK},
                    "encoding": {"x": {**x, "field": "end"}, "y": y, "text": {"field": "words"}},
                },
            ],
        },
        description="Timing of each request",
        rehearsal=rehearsal,
    )


def _labels(sent: Sequence[tuple[RunArtifact, RequestRecord]]) -> list[str]:
    """`r2 #1`, or `r1 tools #3` for a gate, each once."""
    several = len({run.lane.lane for run, _ in sent}) > 1
    labels = []
    for run, record in sent:
        name = sanitise(run.run if several else run.run.rpartition("-")[2])
        check = f"{one} " if (one := check_of(run, record)) else ""
        labels.append(f"{name} {check}#{record.request_index + 1}" if check or len(run.requests) > 1 else name)
    return [label if labels.count(label) == 1 else f"{label} ({place + 1})" for place, label in enumerate(labels)]


def check_of(run: RunArtifact, record: RequestRecord) -> str:
    """The gate check that a request belongs to; empty where it belongs to none."""
    observations = run.gate.observations if run.gate is not None else ()
    return next((one.check for one in observations if one.record == record), "")


def _parts(record: RequestRecord, label: str) -> Iterator[dict[str, Any]]:
    """The bars of one request; nothing where its end is not known."""
    first, visible, end = record.time_to_first_output_ms, record.ttft_ms, record.e2e_ms
    if end is None and record.sent_us is not None and record.ended_us is not None:
        end = (record.ended_us - record.sent_us) / 1000
    if end is None:
        return
    if record.outcome not in COMPLETED:
        edges: list[tuple[str, float]] = [("failed", end)]
    elif first is None:
        edges = [("first output not known", end)]
    elif visible is None:
        edges = [("to first output", first), ("reasoning until visible", end)]
    else:
        edges = [("to first output", first), ("reasoning until visible", visible), ("visible answer", end)]
    begin = 0.0
    for part, to in edges:
        if to > begin:
            yield {"request": label, "part": part, "from": round(begin, 3), "to": round(to, 3)}
            begin = to


def _color(parts: Sequence[str]) -> dict[str, Any]:
    return {
        "field": "part",
        "type": "nominal",
        "scale": {"domain": list(parts), "range": [_COLORS[_PARTS.index(part)] for part in parts]},
        "legend": {"title": None},
    }


def _ticks(runs: Sequence[RunArtifact], rehearsal: bool) -> dict[str, Any] | None:
    """One row a run: a tick at the first output and one at the end of each request."""
    names = {"first output": "time_to_first_output_ms", "end": "e2e_ms"}
    told = [
        (sanitise(run.run), name, value)
        for run in runs
        for record in run.requests
        if record.outcome in COMPLETED
        for name, field in names.items()
        if (value := getattr(record, field)) is not None
    ]
    if not told:
        return None
    step = max(value for _, _, value in told) / _TICK_STEPS or 1.0
    rows = sorted({(run, name, round(round(value / step) * step, 3)) for run, name, value in told})
    order = list(dict.fromkeys(run for run, _, _ in told))
    return chart(
        {
            "width": WIDTH - 110,
            "height": {"step": 24},
            "data": {"values": [{"run": run, "part": name, "ms": value} for run, name, value in rows]},
            "mark": {"type": "tick", "thickness": 1.2, "height": 15, "opacity": 0.6},
            "encoding": {
                "x": {"field": "ms", "type": "quantitative", "title": "ms since the first byte sent"},
                "y": {"field": "run", "type": "nominal", "sort": order, "title": None, "axis": {"gridColor": LINE}},
                "color": {
                    "field": "part",
                    "type": "nominal",
                    "scale": {"domain": list(names), "range": [SERIES[0], SERIES[1]]},
                    "legend": {"title": None},
                },
            },
        },
        description="Timings of all requests, a row a run",
        rehearsal=rehearsal,
    )
