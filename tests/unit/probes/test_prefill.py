from __future__ import annotations

import pytest

from anvil_tui.probes.prefill import KvReading, PrefillCurve, deadline_s, estimate, fit, share_per_token

SECOND = 1_000_000


def readings(*usages: float, running: float = 1) -> list[KvReading]:
    return [KvReading(at_us=index * SECOND, usage=usage, running=running) for index, usage in enumerate(usages)]


def test_progress_rate_and_time_left() -> None:
    seen = readings(0.1, 0.15, 0.2, 0.25, 0.3)
    now = estimate(seen, 400_000, 1 / 1_000_000, 4 * SECOND)
    assert now.tokens == pytest.approx(200_000)
    assert now.share == pytest.approx(0.5)
    assert now.tok_s == pytest.approx(50_000)
    assert now.left_s == pytest.approx(4)
    assert now.verdict == "moving"


def test_a_stall_is_told_from_slowness() -> None:
    seen = readings(0.0, 0.1)
    assert estimate(seen, 1000, 1e-4, 29 * SECOND).verdict == "moving"
    assert estimate(seen, 1000, 1e-4, 31 * SECOND).verdict == "stalled"
    idle = readings(0.0, 0.0, running=0)
    assert estimate(idle, 1000, 1e-4, 60 * SECOND).verdict == "unknown"
    waiting = [KvReading(at_us=0, usage=0.0, running=0, waiting=1)]
    assert estimate(waiting, 1000, 1e-4, SECOND).verdict == "waiting"


def test_nothing_is_known_without_readings_or_a_slope() -> None:
    assert estimate([], 1000, 1e-4, 0).verdict == "unknown"
    assert estimate([KvReading(at_us=0, usage=None)], 1000, 1e-4, 0).tokens is None
    without = estimate(readings(0.0, 0.1), 1000, None, SECOND)
    assert (without.tokens, without.share, without.tok_s, without.left_s) == (None, None, None, None)


def test_slope_of_a_finished_rung() -> None:
    assert share_per_token(0.1, 0.5, 100_000) == pytest.approx(4e-6)
    assert share_per_token(0.1, 0.1, 100_000) is None
    assert share_per_token(0.1, 0.5, 0) is None


def test_the_curve_is_found_again() -> None:
    true = PrefillCurve(k=1.2e-4, b=3e-6)
    found = fit([(n, true.seconds(n)) for n in (8_000, 32_000, 128_000)])
    assert found is not None
    assert found.k == pytest.approx(true.k)
    assert found.b == pytest.approx(true.b)
    assert found.seconds(393_216) == pytest.approx(true.seconds(393_216))


def test_few_or_falling_points_give_a_straight_line() -> None:
    assert fit([]) is None
    one = fit([(1000, 0.5)])
    assert one == PrefillCurve(k=0.0005, b=0.0)
    falling = fit([(1000, 1.0), (10_000, 2.0)])
    assert falling is not None
    assert falling.b == 0
    steep = fit([(1000, 0.001), (10_000, 10.0)])
    assert steep is not None
    assert steep.k > 0


def test_deadlines() -> None:
    assert deadline_s(1000, None) is None
    assert deadline_s(1000, PrefillCurve(k=1e-4, b=0)) == 60
    assert deadline_s(1_000_000, PrefillCurve(k=1e-4, b=0)) == pytest.approx(300)
