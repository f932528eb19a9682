"""Free GPU memory over time, with the reserve as a line and the request windows as shade."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from anvil_tui.evidence.report.charts.theme import BAD, INK, SHADE, WIDTH, chart, elapsed, series
from anvil_tui.evidence.report.trace import Trace, spans
from anvil_tui.records.artifact import RunArtifact
from anvil_tui.text import sanitise

COLUMNS = 465
"""Of the plot; each shows the lowest and the highest figure of its samples."""
GIB = 1 << 30
_MIB_PER_GIB = 1024
_NAMED = 0.025
"""Share of the time that a window must fill to be named: names of narrower ones would overlap."""


@dataclass(frozen=True)
class _Drawn:
    """What both panels show: GiB, and units of time since the first sample."""

    values: Sequence[dict[str, Any]]
    windows: Sequence[dict[str, Any]]
    reserves: Sequence[float]
    gpus: Sequence[str]
    x: dict[str, Any]


def memory_chart(
    trace: Trace, runs: Iterable[RunArtifact], reserves_mib: Sequence[int], *, rehearsal: bool
) -> dict[str, Any] | None:
    """Minimum and maximum free GiB of each GPU a column of time; below it the same near the reserve, where that hides.

    `reserves_mib` are those of the lanes that used these GPUs: a line each.
    `runs` are shaded from the first request sent to the last one ended, where they are of the trace's boot. None where
    no sample told anything.
    """
    extent = trace.extent_us
    if extent is None:
        return None
    begin, end = extent
    unit_s, unit = elapsed((end - begin) / 1e6)

    def at(mono_us: int) -> float:
        return round((mono_us - begin) / 1e6 / unit_s, 4)

    names = {uuid: gpu_name(trace, uuid) for uuid in trace.gpus}
    lows_highs = [
        (name, span, round(span.low / GIB, 4), round(span.high / GIB, 4))
        for uuid, name in sorted(names.items(), key=lambda item: item[1])
        for span in spans(trace.gpus[uuid], begin, end, COLUMNS)
    ]
    reserves = sorted({reserve / _MIB_PER_GIB for reserve in reserves_mib})
    highest = max(reserves, default=0.0)
    drawn = _Drawn(
        values=[
            {"gpu": name, "t": at(span.from_us), "low": low, "high": high, "segment": span.segment}
            for name, span, low, high in lows_highs
        ],
        windows=[
            {"from": at(max(begin, first)), "to": at(min(end, last)), "run": sanitise(name.rpartition("-")[2])}
            for name, first, last in _windows(runs, trace.boot_id)
            if first <= end and last >= begin
        ],
        reserves=reserves,
        gpus=sorted(names.values()),
        x={
            "field": "t",
            "type": "quantitative",
            "title": f"{unit} since the first sample",
            "axis": {"tickCount": 12},
            "scale": {"domain": [0, max(at(end), 0.001)], "nice": False},
        },
    )
    top = max(high for _, _, _, high in lows_highs)
    near = 2 * highest
    if 0 < near < 0.6 * top and any(low <= near for _, _, low, _ in lows_highs):
        panels = [
            _panel(drawn, 110, top, "free (GiB)", titled=False),
            _panel(drawn, 170, near, "near the reserve (GiB)"),
        ]
    else:
        panels = [_panel(drawn, 170, max(top, 1.15 * highest), "free (GiB)")]
    return chart(
        {"vconcat": panels, "spacing": 14},
        description="Free GPU memory over time",
        rehearsal=rehearsal,
    )


def gpu_name(trace: Trace, uuid: str) -> str:
    """`GPU0`, as its index was then, else the UUID."""
    known = trace.known.get(uuid)
    return f"GPU{known.index}" if known is not None else sanitise(uuid)


def _windows(runs: Iterable[RunArtifact], boot_id: str | None) -> Iterator[tuple[str, int, int]]:
    """Name, first request sent and last one ended (µs) of each run of this boot."""
    for run in runs:
        sent = [record.sent_us for record in run.requests if record.sent_us is not None]
        ended = [record.ended_us for record in run.requests if record.ended_us is not None]
        if run.boot_id == boot_id and sent and ended:
            yield run.run, min(sent), max(ended)


def _panel(drawn: _Drawn, height: int, top: float, title: str, *, titled: bool = True) -> dict[str, Any]:
    """One view of the whole time, free memory from 0 to `top` GiB; what lies above is cut off."""
    x = drawn.x if titled else {**drawn.x, "title": None}
    y = {"type": "quantitative", "title": title, "scale": {"domain": [0, top], "nice": False}}
    color = {"field": "gpu", "type": "nominal", **series(drawn.gpus)}
    per = {"field": "segment", "type": "nominal"}
    values = {"data": {"values": list(drawn.values)}}
    layers = [*_window_layers(drawn.windows, x)]
    layers += [
        {
            **values,
            "mark": {"type": "area", "opacity": 0.25, "clip": True},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": color, "detail": per},
        },
        {
            **values,
            "mark": {"type": "line", "strokeWidth": 1.4, "clip": True, "interpolate": "step-after"},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "color": color, "detail": per},
        },
    ]
    if drawn.reserves:
        levels = [{"reserve": round(level, 4), "words": f"reserve {level:g} GiB"} for level in drawn.reserves]
        height_of = {**y, "field": "reserve"}
        text = {"type": "text", "align": "right", "baseline": "bottom", "dy": -3, "color": BAD, "fontSize": 11}
        layers += [
            {
                "data": {"values": levels},
                "mark": {"type": "rule", "color": BAD, "strokeDash": [5, 3], "strokeWidth": 1.2},
                "encoding": {"y": height_of},
            },
            {
                "data": {"values": levels},
                "mark": text,
                "encoding": {"x": {"value": WIDTH}, "y": height_of, "text": {"field": "words"}},
            },
        ]
    return {"width": WIDTH, "height": height, "layer": layers}


def _window_layers(windows: Sequence[dict[str, Any]], x: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Shade where requests were in flight, with the run's number where there is room."""
    if not windows:
        return
    begin, data = {**x, "field": "from"}, {"values": list(windows)}
    yield {
        "data": data,
        "mark": {"type": "rect", "color": SHADE},
        "encoding": {"x": begin, "x2": {"field": "to"}},
    }
    extent = x["scale"]["domain"][1]
    named = [window for window in windows if window["to"] - window["from"] >= _NAMED * extent]
    if named:
        yield {
            "data": {"values": named},
            "mark": {"type": "text", "align": "left", "dx": 3, "baseline": "top", "color": INK, "fontSize": 10},
            "encoding": {"x": begin, "y": {"value": 3}, "text": {"field": "run"}},
        }
