"""The context ladder: TTFT, prefill and decode over the prompt tokens that the API counted, every lane a colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from anvil_tui.evidence.report.charts.theme import BAD, WIDTH, chart, series
from anvil_tui.evidence.run_metrics import COMPLETED, request_timing
from anvil_tui.records.artifact import RunArtifact
from anvil_tui.text import sanitise

PANELS = (
    ("ttft_s", "TTFT (s)", ",.3~f"),
    ("prefill_tok_s", "effective prefill (tok/s)", "~s"),
    ("decode_tok_s", "decode (tok/s)", "~s"),
)


def ladder_chart(runs: Sequence[RunArtifact], lanes: Sequence[str], *, rehearsal: bool) -> dict[str, Any] | None:
    """One point a measured request of a rung, lines through the medians; a rung that failed is a cross at its target.

    What a request does not tell has no point in that panel. None where no rung was measured.
    """
    rungs = [run for run in runs if run.what == "rung" and not run.interrupted]
    points = [point for run in rungs for point in _points(run)]
    if not points:
        return None
    failed = [
        {"lane": sanitise(run.lane.lane), "tokens": run.target_tokens, "run": sanitise(run.run)}
        for run in rungs
        if not run.passed and run.target_tokens is not None
    ]
    names = [name for lane in lanes if (name := sanitise(lane)) in {point["lane"] for point in [*points, *failed]}]
    panels = [_panel(panel, points, failed, names) for panel in PANELS]
    return chart(
        {"hconcat": panels, "spacing": 28},
        description="TTFT, effective prefill and decode rate over prompt tokens",
        rehearsal=rehearsal,
    )


def _points(run: RunArtifact) -> Iterator[dict[str, Any]]:
    for record in run.requests:
        if record.outcome not in COMPLETED or record.prompt_tokens is None:
            continue
        timing = request_timing(record)
        told = {
            "ttft_s": None if timing.ttft_ms is None else timing.ttft_ms / 1000,
            "prefill_tok_s": timing.effective_prefill_tok_s,
            "decode_tok_s": timing.decode_tok_s,
        }
        yield {
            "lane": sanitise(run.lane.lane),
            "run": sanitise(run.run),
            "tokens": record.prompt_tokens,
            **{name: round(value, 4) for name, value in told.items() if value is not None},
        }


def _panel(
    panel: tuple[str, str, str],
    points: Sequence[dict[str, Any]],
    failed: Sequence[dict[str, Any]],
    names: Sequence[str],
) -> dict[str, Any]:
    field, title, number = panel
    here = [{name: point[name] for name in ("lane", "run", "tokens", field)} for point in points if field in point]
    x = {
        "field": "tokens",
        "type": "quantitative",
        "title": "prompt tokens",
        "axis": {"format": "~s", "tickCount": 5},
    }
    y = {"field": field, "type": "quantitative", "title": title, "axis": {"format": number}}
    color = {"field": "lane", "type": "nominal", **series(names)}
    layers: list[dict[str, Any]] = [
        {
            "data": {"values": here},
            "mark": {"type": "line", "strokeWidth": 1.5},
            "encoding": {"x": x, "y": {**y, "aggregate": "median"}, "color": color},
        },
        {
            "data": {"values": here},
            "mark": {"type": "point", "filled": True, "size": 42, "opacity": 1},
            "encoding": {"x": x, "y": y, "color": color},
        },
    ]
    if failed:
        layers.append(
            {
                "data": {"values": list(failed)},
                "mark": {"type": "point", "shape": "cross", "filled": True, "size": 70, "angle": 45, "color": BAD},
                "encoding": {"x": x, "y": {"value": 160}, "detail": {"field": "lane", "type": "nominal"}},
            }
        )
    return {"width": (WIDTH - 2 * 62) // 3, "height": 170, "layer": layers}
