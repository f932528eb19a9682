"""Verdict words by rules that were set before the run."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anvil_tui.evidence.verdicts import effect
from anvil_tui.records.comparison import Effect, VerdictRule

RULE = VerdictRule()


def judged(
    baseline: list[float], candidate: list[float], *, higher: bool = True, invalid: str = "", confounded: str = ""
) -> Effect:
    return effect(
        list(zip(baseline, candidate, strict=False)),
        baseline,
        candidate,
        higher_is_better=higher,
        rule=RULE,
        invalid=invalid,
        confounded=confounded,
    )


STEADY = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2]


@pytest.mark.parametrize(
    ("factor", "higher", "verdict"),
    [
        (1.10, True, "faster"),
        (0.90, True, "slower"),
        (1.10, False, "slower"),
        (0.90, False, "faster"),
        (1.005, True, "equivalent within 2 %"),
    ],
)
def test_six_blocks_decide(factor: float, higher: bool, verdict: str) -> None:
    found = judged(STEADY, [value * factor for value in STEADY], higher=higher)
    assert found.verdict == verdict
    assert found.blocks == 6
    assert found.method.startswith("Hodges-Lehmann")
    assert found.estimate_percent == pytest.approx((factor - 1) * 100)
    assert found.level == 0.96875
    assert found.p_value == 0.03125


def test_an_interval_over_zero_is_inconclusive_with_the_smallest_p() -> None:
    found = judged(STEADY, [110, 90, 105, 97, 95, 104])
    assert found.verdict.startswith("inconclusive (interval ")
    assert "smallest p of 6 blocks: 0.0312" in found.verdict


def test_three_blocks_assume_normal() -> None:
    found = judged(STEADY[:3], [value * factor for value, factor in zip(STEADY, (1.10, 1.11, 1.09), strict=False)])
    assert found.method == "Student's t on log ratios (assumes normal)"
    assert found.verdict == "faster"


@pytest.mark.parametrize("blocks", [1, 2])
def test_below_three_blocks_only_the_range_is_told(blocks: int) -> None:
    found = judged(STEADY[:blocks], [value * 2 for value in STEADY[:blocks]])
    assert "observed, variation between loads not measured" in found.words
    assert found.verdict.startswith(f"inconclusive ({blocks} block")
    assert found.level is None
    assert found.low_percent is not None and found.high_percent is not None
    assert found.low_percent <= 100 <= found.high_percent + 1e-9


def test_reasons_come_before_verdicts() -> None:
    doubled = [value * 2 for value in STEADY]
    assert judged(STEADY, doubled, invalid="other prompts").verdict == "invalid (other prompts)"
    assert judged(STEADY, doubled, confounded="answers differ").verdict == "inconclusive (answers differ)"
    assert judged([], doubled).verdict == "inconclusive (no value in one of the arms)"


def test_an_arm_against_itself_never_wins() -> None:
    assert judged(STEADY, list(STEADY)).verdict.startswith("equivalent")


positive = st.lists(st.floats(1, 1000), min_size=1, max_size=9)


@settings(max_examples=80, deadline=None)
@given(positive, positive, st.sampled_from([0.25, 2.0, 1024.0]))
def test_the_scale_of_the_clock_changes_no_verdict(old: list[float], new: list[float], scale: float) -> None:
    first = judged(old, new)
    second = judged([value * scale for value in old], [value * scale for value in new])
    assert first.verdict == second.verdict
    for name in ("estimate_percent", "low_percent", "high_percent"):
        a, b = getattr(first, name), getattr(second, name)
        assert a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
