"""What counts of a paired campaign that was interrupted and went on."""

from __future__ import annotations

from pathlib import Path

import pytest

from anvil_tui.campaigns.pairs.facts import counted_loads, gather
from anvil_tui.campaigns.pairs.watched import changed
from anvil_tui.records.events import (
    BlockInterrupted,
    BlockLoadBegun,
    BlockLoadEnded,
    Event,
    LoadFailed,
    LoadReady,
    LoadStarted,
    WatchHashed,
)


def _load(load: str, number: int) -> list[Event]:
    return [
        BlockLoadBegun(number=number, block=1, arm="candidate", lane="two", replay=False),
        LoadStarted(lane="two", load_id=load, launch="rehearsal", pid=1),
    ]


def _ready(load: str) -> LoadReady:
    return LoadReady(
        lane="two", load_id=load, startup_seconds=1.0, served_name="two", max_model_len=1, engine_version=None
    )


def _died(load: str) -> LoadFailed:
    return LoadFailed(lane="two", load_id=load, words="gone")


REDONE = BlockInterrupted(block=1, words="the runner was killed")


@pytest.mark.parametrize(
    ("events", "starts"),
    [
        ([*_load("a", 1), _ready("a")], [True]),
        ([*_load("a", 1), _died("a")], [False]),
        ([*_load("a", 1), _ready("a"), _died("a")], [True]),
        ([*_load("a", 1), _ready("a"), REDONE, *_load("b", 1), _ready("b")], [True]),
        ([*_load("a", 1), _died("a"), REDONE, *_load("b", 1), _ready("b")], [True]),
        ([*_load("a", 1), _ready("a"), REDONE, *_load("b", 1), _died("b")], [False]),
    ],
)
def test_a_load_that_was_put_aside_is_no_start(events: list[Event], starts: list[bool], tmp_path: Path) -> None:
    facts = gather(tmp_path, events, (), finished=True)
    assert [known.value for known in facts.candidate.starts] == starts
    assert facts.baseline.starts == ()


def _ended(load: str | None) -> BlockLoadEnded:
    return BlockLoadEnded(
        number=1,
        block=1,
        arm="candidate",
        load_id=load,
        whole=load is not None,
        health="healthy",
        shared_memory_reclaimable_bytes=None,
        words="",
    )


@pytest.mark.parametrize(
    ("events", "counted"),
    [
        ([*_load("a", 1), _ready("a"), _ended("a")], {"candidate": frozenset("a")}),
        ([*_load("a", 1), _died("a"), _ended(None)], {"candidate": frozenset("a")}),
        ([*_load("a", 1), _died("a"), REDONE, *_load("b", 1), _died("b"), _ended(None)], {"candidate": frozenset("b")}),
        ([*_load("a", 1), _died("a"), _ended(None), REDONE], {}),
        ([_died("z"), *_load("a", 1), _ended(None)], {}),
    ],
)
def test_a_load_that_did_not_come_up_counts_for_its_arm(
    events: list[Event], counted: dict[str, frozenset[str]]
) -> None:
    assert counted_loads(events) == counted


@pytest.mark.parametrize(
    ("hashed", "verdict"),
    [
        ("", None),
        ("b1", None),
        ("b1 a1", False),
        ("b1 a2", True),
        ("b1 a?", None),
        ("b? a1", None),
        ("b1 a1 b1", None),
        ("b1 a1 b1 a1", False),
        ("b1 b2 a2", True),
        ("b1 a1 b2", True),
        ("b1 a2 b?", True),
    ],
)
def test_what_is_watched_changed_since_it_was_first_hashed(hashed: str, verdict: bool | None) -> None:
    events = [
        WatchHashed(
            phase="before" if one[0] == "b" else "after",
            means="route",
            target="routes.toml",
            sha256=None if one[1] == "?" else one[1] * 64,
        )
        for one in hashed.split()
    ]
    assert changed("route", events) is verdict
    assert changed("promotion", events) is None
