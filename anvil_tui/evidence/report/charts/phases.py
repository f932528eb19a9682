"""A start-up as bars: each phase from when the log first spoke of it to when it first spoke of the next."""

from __future__ import annotations

from typing import Any

from anvil_tui.evidence.report.charts.theme import BAD, INK, SERIES, WIDTH, chart, elapsed
from anvil_tui.evidence.report.story import LoadStory
from anvil_tui.text import sanitise


def phases_chart(load: LoadStory, *, rehearsal: bool) -> dict[str, Any] | None:
    """Phases of a load over the time since its launch. None where this campaign did not see the lane start.

    The phase that was open when the load failed is marked; one that never ended has no bar, only its begin.
    """
    if load.started_us is None or not load.phases:
        return None
    begins = [at_us for _, at_us in load.phases]
    ends: list[int | None] = [*begins[1:], load.ended_us]
    last = max(one for one in (*begins, *ends) if one is not None)
    unit_s, unit = elapsed((last - load.started_us) / 1e6)

    def at(mono_us: int) -> float:
        assert load.started_us is not None, "looked at above"
        return round((mono_us - load.started_us) / 1e6 / unit_s, 3)

    rows = [
        {
            "phase": f"{number}. {sanitise(name)}",
            "from": at(begin),
            "failed": load.failed is not None and number == len(load.phases),
            **({} if end is None else {"to": at(end), "words": f"{(end - begin) / 1e6:.1f} s"}),
        }
        for number, ((name, begin), end) in enumerate(zip(load.phases, ends, strict=True), 1)
        if name != "ready"
    ]
    order = [row["phase"] for row in rows]
    whole = [row for row in rows if "to" in row]
    x = {
        "field": "from",
        "type": "quantitative",
        "title": f"{unit} since the launch",
        "scale": {"domain": [0, at(last)]},
    }
    y = {"field": "phase", "type": "nominal", "sort": order, "title": None, "scale": {"domain": order}}
    color = {"condition": {"test": "datum.failed", "value": BAD}, "value": SERIES[0]}
    return chart(
        {
            "width": WIDTH - 110,
            "height": {"step": 19},
            "layer": [
                {
                    "data": {"values": whole},
                    "mark": {"type": "bar", "height": 11, "cornerRadius": 1},
                    "encoding": {"x": x, "x2": {"field": "to"}, "y": y, "color": color},
                },
                {
                    "data": {"values": rows},
                    "mark": {"type": "tick", "thickness": 2, "height": 13},
                    "encoding": {"x": x, "y": y, "color": color},
                },
                {
                    "data": {"values": whole},
                    "mark": {"type": "text", "align": "left", "dx": 5, "fontSize": 10, "color": INK},
                    "encoding": {"x": {**x, "field": "to"}, "y": y, "text": {"field": "words"}},
                },
            ],
        },
        description=f"Start-up phases of {load.lane}, load {load.load_id}",
        rehearsal=rehearsal,
    )
