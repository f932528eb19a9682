"""What a paired comparison found: the change of each metric with its interval, around no change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anvil_tui.evidence.report.charts.theme import INK, LINE, MUTED, SERIES, WIDTH, chart
from anvil_tui.records.comparison import Effect
from anvil_tui.text import sanitise


def effects_chart(
    effects: Mapping[str, Effect], candidate: str, baseline: str, *, rehearsal: bool
) -> dict[str, Any] | None:
    """Estimates in percent of the baseline, one row a metric; a range that is no confidence interval is thin.

    A metric without an estimate has no row. None where no metric has one.
    """
    rows = [
        {
            "metric": sanitise(name),
            "estimate": round(one.estimate_percent, 4),
            "interval": one.level is not None,
            **({} if one.low_percent is None or one.high_percent is None else _ends(one.low_percent, one.high_percent)),
            "words": f"{one.estimate_percent:+.1f} %",
        }
        for name, one in effects.items()
        if one.estimate_percent is not None
    ]
    if not rows:
        return None
    order = [row["metric"] for row in rows]
    ranged = [row for row in rows if "low" in row]
    x = {
        "type": "quantitative",
        "title": f"change of {sanitise(candidate)} against {sanitise(baseline)} (%)",
        "axis": {"grid": True, "format": "+~g", "tickCount": 10},
    }
    y = {"field": "metric", "type": "nominal", "sort": order, "title": None, "scale": {"domain": order}}
    thickness = {"condition": {"test": "datum.interval", "value": 3}, "value": 1}
    return chart(
        {
            "width": WIDTH - 190,
            "height": {"step": 24},
            "layer": [
                {
                    "data": {"values": [{"zero": 0}]},
                    "mark": {"type": "rule", "color": MUTED},
                    "encoding": {"x": {**x, "field": "zero"}},
                },
                {
                    "data": {"values": ranged},
                    "mark": {"type": "rule", "color": SERIES[0]},
                    "encoding": {
                        "x": {**x, "field": "low"},
                        "x2": {"field": "high"},
                        "y": y,
                        "strokeWidth": thickness,
                    },
                },
                {
                    "data": {"values": rows},
                    "mark": {
                        "type": "point",
                        "filled": True,
                        "size": 60,
                        "opacity": 1,
                        "color": SERIES[0],
                        "stroke": LINE,
                    },
                    "encoding": {"x": {**x, "field": "estimate"}, "y": y},
                },
                {
                    "data": {"values": rows},
                    "mark": {"type": "text", "dy": -9, "fontSize": 10, "color": INK},
                    "encoding": {"x": {**x, "field": "estimate"}, "y": y, "text": {"field": "words"}},
                },
            ],
        },
        description=f"Change of each metric of {candidate} against {baseline}",
        rehearsal=rehearsal,
    )


def _ends(low: float, high: float) -> dict[str, float]:
    return {"low": round(low, 4), "high": round(high, 4)}
