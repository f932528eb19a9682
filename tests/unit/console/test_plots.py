"""Plots in text: where a value stands, what a scale says, and what is drawn of a pair."""

from __future__ import annotations

from typing import Any

import pytest

from anvil_tui.campaigns.store.view import LoadView
from anvil_tui.console.paired.plotted import FailedRung, LoadPoint, RungPoint, StartPhases, plotted
from anvil_tui.console.views.plot import Series, bar, plot, value_scale
from anvil_tui.evidence.report.story import tell
from anvil_tui.records import events
from anvil_tui.records.acceptance import ArmRole
from anvil_tui.records.events import Envelope, Event
from tests.unit.evidence import samples


def drawn(*series: Series, width: int = 29, height: int = 4) -> list[str]:
    shown = plot("rate", series, width, height, lambda value: f"{value:g}", lambda at: f"{at:g}")
    assert all(line.cell_length == width for line in shown)
    return [line.plain for line in shown]


def test_points_stand_where_their_values_are() -> None:
    lines = drawn(Series("A", "", ((0, 0), (10, 100)), line=False), Series("B", "", ((0, 100), (10, 0)), line=False))
    assert lines == [
        "rate                         ",
        "    100 │B                  A",
        "        │                    ",
        "        │                    ",
        "      0 │A                  B",
        "        └────────────────────",
        "         0                 10",
    ]


def test_two_series_at_one_place_are_told_as_both() -> None:
    lines = drawn(Series("A", "", ((1, 5),)), Series("B", "", ((1, 5),)))
    assert sum(line.count("*") for line in lines) == 1
    assert not any("A" in line or "B" in line for line in lines)
    assert lines[-1].index("1") == next(line.index("*") for line in lines if "*" in line), "one end under the point"


def test_a_line_goes_through_the_median_of_each_place() -> None:
    lines = drawn(Series("A", "", ((0, 0), (0, 0), (0, 90), (10, 0))))
    assert sum(line.count("A") for line in lines) == 3, "three points at two places"
    bottom = lines[4].split("│")[1]
    assert bottom.startswith("A") and bottom.endswith("A") and set(bottom[1:-1]) == {"⣀"}
    assert set(lines[2].split("│")[1]) == {" "}


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ((10.0, 100.0), 0.0, 100.0),
        ((99.0, 101.0), 98.8, 101.2),
        ((99.5, 100.0), 0.0, 100.0),
        ((100.0, 100.0), 0.0, 100.0),
        ((0.0, 0.0), 0.0, 0.0),
    ],
)
def test_a_scale_begins_at_0_unless_nothing_would_be_seen(values: Any, low: float, high: float) -> None:
    scale = value_scale(values)
    assert (scale.low, scale.high) == (pytest.approx(low), pytest.approx(high))


def test_a_scale_that_does_not_begin_at_0_says_so() -> None:
    assert "not from 0" in drawn(Series("A", "", ((0, 99), (1, 101))))[0]
    assert drawn() == ["rate: none was told          "]


@pytest.mark.parametrize(("value", "shown"), [(0.0, ""), (0.001, "▏"), (5.0, "██▌"), (10.0, "█████"), (12.0, "█████")])
def test_a_bar(value: float, shown: str) -> None:
    assert bar(value, 10.0, 5) == (shown if value <= 10 else "████…")
    assert bar(1.0, 0.0, 5) == ""


# What is drawn of a pair.


def journal() -> list[tuple[Envelope, Event]]:
    """Two loads: one that came up within 90 s, one that failed in its second phase."""
    told: list[tuple[int, Event]] = [
        (0, events.RunnerStarted(tool_version="0", python="3", pid=1, boot_id="b", resumed=False)),
        (1, events.BlockLoadBegun(number=0, block=1, arm="baseline", lane="old", replay=False)),
        (2, events.LoadStarted(lane="old", load_id="l1", launch="process", pid=1)),
        (10, events.PhaseReached(lane="old", phase="load_weights", line=1)),
        (80, events.PhaseReached(lane="old", phase="compile", line=2)),
        (92, events.PhaseReached(lane="old", phase="ready", line=3)),
        (92, events.LoadReady(lane="old", load_id="l1", startup_seconds=90.0, served_name="m", max_model_len=1,
                              engine_version=None)),
        (100, events.BlockLoadBegun(number=1, block=1, arm="candidate", lane="new", replay=False)),
        (101, events.LoadStarted(lane="new", load_id="l2", launch="process", pid=2)),
        (110, events.PhaseReached(lane="new", phase="load_weights", line=1)),
        (150, events.PhaseReached(lane="new", phase="compile", line=2)),
        (155, events.LoadFailed(lane="new", load_id="l2", words="it died")),
    ]  # fmt: skip
    return [
        (Envelope(seq=0, prev="", t="t", mono_us=at * 1_000_000, kind="k", body=b""), event)  # type: ignore[arg-type]
        for at, event in told
    ]


LOADS = (
    LoadView(0, 1, "baseline", "old", False, "whole", "l1"),
    LoadView(1, 1, "candidate", "new", False, "cut short", "l2"),
)


def test_what_is_drawn_of_a_pair() -> None:
    passed = samples.run("old-r1", (samples.request(0),), what="rung", load_id="l1")
    failed = samples.run("old-r2", (), what="rung", passed=False, label_tokens=2000, load_id="l1")
    cut = samples.run("old-r3", (samples.request(1),), what="rung", interrupted=True, load_id="l1")
    capacity = samples.run("new-r4", what="capacity", load_id="l2")
    elsewhere = samples.run("new-r5", what="capacity", load_id="another")
    arms: dict[ArmRole, Any] = {
        "baseline": samples.arm("old", passed, failed, cut),
        "candidate": samples.arm("new", capacity, elsewhere),
    }
    told = plotted(arms, LOADS, tell(journal()), None, "sent")
    assert told.rungs == (RungPoint("baseline", 1000, 0.5, 5000.0, pytest.approx(100.0)),)
    assert told.failed == (FailedRung("baseline", 2000),)
    assert told.metric == "decode_tok_s_p50"
    assert told.by_load == (LoadPoint("candidate", 2, pytest.approx(100.0)),)
    assert told.starts == {
        "baseline": StartPhases((("load_weights", 70.0), ("compile", 12.0)), failed=False),
        "candidate": StartPhases((("load_weights", 40.0), ("compile", 5.0)), failed=True),
    }
