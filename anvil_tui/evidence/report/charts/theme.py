"""What all plots share. Colours are CSS variables, so that one drawing serves light, dark and paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anvil_tui.text import sanitise

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
SERIES = tuple(f"var(--series-{number})" for number in range(1, 7))
INK, MUTED, LINE, SHADE = "var(--ink)", "var(--muted)", "var(--line)", "var(--shade)"
GOOD, BAD = "var(--good)", "var(--bad)"
WIDTH = 930
"""Of a plot that fills the page, in CSS pixels, axes apart."""

_CONFIG: dict[str, Any] = {
    "background": None,
    "font": "sans-serif",
    "padding": 4,
    "view": {"stroke": None},
    "axis": {
        "labelColor": MUTED,
        "titleColor": MUTED,
        "titleFontWeight": "normal",
        "titleFontSize": 11,
        "labelFontSize": 11,
        "gridColor": LINE,
        "domainColor": MUTED,
        "tickColor": MUTED,
        "titlePadding": 8,
    },
    "axisX": {"grid": False},
    "axisY": {"domain": False, "ticks": False, "tickCount": 5},
    "legend": {
        "labelColor": INK,
        "titleColor": MUTED,
        "labelFontSize": 11,
        "orient": "top",
        "labelLimit": 400,
        "symbolOpacity": 1,
    },
    "title": {"color": INK, "anchor": "start", "fontSize": 12, "fontWeight": 600, "offset": 8},
    "header": {"labelColor": INK, "titleColor": MUTED},
}


def chart(body: dict[str, Any], *, description: str, rehearsal: bool) -> dict[str, Any]:
    """A whole Vega-Lite spec. A rehearsal says so inside the drawing, since drawings get cut out."""
    title = {"text": "REHEARSAL: simulated, no evidence", "color": BAD, "anchor": "end", "fontSize": 11, "offset": 2}
    return {
        "$schema": SCHEMA,
        "description": sanitise(description),
        "config": _CONFIG,
        **body,
        **({"title": title} if rehearsal else {}),
    }


def series(names: Sequence[str], **legend: Any) -> dict[str, Any]:
    """The colour of each name, by its place among `names`; without a legend where there is but one."""
    return {
        "scale": {"domain": list(names), "range": [SERIES[place % len(SERIES)] for place in range(len(names))]},
        "legend": {"title": None, **legend} if len(names) > 1 else None,
    }


def elapsed(extent_s: float) -> tuple[float, str]:
    """How many seconds a unit of the time axis has, and its name, for an extent in seconds."""
    if extent_s < 300:
        return 1.0, "s"
    return (60.0, "min") if extent_s < 4 * 3600 else (3600.0, "h")
