from __future__ import annotations

import pytest

from anvil_tui.probes.client.pauses import HostWatch, Pause, words
from anvil_tui.probes.client.rates import Arrival, decode, is_smooth, seed_figures, stalls

MS = 1_000_000


def arrivals(*ms: float, counts: list[int] | None = None) -> list[Arrival]:
    return [Arrival(int(at * MS), counts[index] if counts else None) for index, at in enumerate(ms)]


def test_nothing_is_known_of_nothing() -> None:
    rate = decode([], 10)
    assert (rate.tok_s, rate.smooth, rate.first_count) == (None, None, None)
    none = seed_figures(first_output_ms=None, ttft_ms=None, e2e_ms=None, prompt_tokens=None, output_tokens=None)
    assert none.decode_tok_s is None
    one = seed_figures(first_output_ms=10, ttft_ms=10, e2e_ms=20, prompt_tokens=5, output_tokens=1)
    assert one.decode_tok_s is None
    assert one.mean_inter_token_latency_ms is None


def test_a_count_beats_an_estimate() -> None:
    steps = [100 + 40 * n for n in range(10)]
    assert decode(arrivals(*steps, counts=[7 + 4 * n for n in range(10)]), 43).tok_s == pytest.approx(100)
    assert decode(arrivals(*steps), 40).tok_s == pytest.approx(100)
    assert decode(arrivals(*steps), None).tok_s is None
    assert decode(arrivals(*steps), 3).tok_s is None


@pytest.mark.parametrize(
    ("stamps", "smooth"),
    [
        ([0, 10, 20, 30, 40, 50], True),
        ([0, 0.1, 0.2, 50, 50.1, 50.2, 100, 100.1, 100.2], False),
        ([0, 0.3, 0.6, 0.9, 1.2, 1.5], True),
        ([0, 10, 20, 5000, 5010, 5020], True),
        ([0], True),
    ],
)
def test_smooth(stamps: list[float], smooth: bool) -> None:
    assert is_smooth([int(at * MS) for at in stamps]) is smooth


def test_stalls() -> None:
    assert stalls([0, 10 * MS, 20 * MS, 2000 * MS, 2010 * MS]) == [(20 * MS, 2000 * MS)]
    assert stalls([0, 2000 * MS, 4000 * MS]) == []
    assert stalls([5]) == []


def test_pauses_and_clock_steps() -> None:
    watch = HostWatch()
    watch.note(0, 51 * MS, 51 * MS)
    watch.note(51 * MS, 3100 * MS, 3049 * MS)
    watch.note(3100 * MS, 3150 * MS, -2000 * MS)
    assert watch.between(0, 40 * MS) == []
    paused, stepped = watch.between(0, 10_000 * MS)
    assert paused == Pause(51 * MS, 3100 * MS)
    assert stepped.step_ns == -2050 * MS
    assert words(paused, 0) == "nothing ran here for 3.049 s at 0.051 s"
    assert words(stepped, 0) == "wall clock stepped by -2.050 s at 3.100 s"
