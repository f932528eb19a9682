from __future__ import annotations

import pytest

from anvil_tui.gpus.schedule import Schedule


def test_ticks_lie_on_the_grid_whatever_the_sleep_did() -> None:
    schedule = Schedule(1_000, 50_000)
    now, ticks = 1_000, []
    for late in (0, 900, 49_000, 30):
        due = schedule.next_us(now)
        ticks.append(due)
        now = due + late
    assert ticks == [51_000, 101_000, 151_000, 201_000]


def test_missed_ticks_are_left_out() -> None:
    assert Schedule(0, 50_000).next_us(430_000) == 450_000


@pytest.mark.parametrize(
    ("call_us", "stride"),
    [(10, 1), (999, 1), (1_500, 2), (5_000, 5), (9_900, 10), (15_000, 15), (200_000, 20)],
)
def test_driver_time_stays_within_its_share(call_us: int, stride: int) -> None:
    """2 % of 50 ms is 1 ms; one sample a second is the least."""
    schedule = Schedule(0, 50_000)
    for _ in range(1_500):
        schedule.spent(call_us)
    assert schedule.stride == stride


def test_a_hiccup_does_not_slow_it_down() -> None:
    schedule = Schedule(0, 50_000)
    for _ in range(200):
        schedule.spent(500)
    for _ in range(3):
        schedule.spent(120_000)
    assert schedule.stride == 1


def test_it_gets_faster_again() -> None:
    schedule = Schedule(0, 50_000)
    for _ in range(1_500):
        schedule.spent(8_000)
    assert schedule.stride == 8
    for _ in range(300):
        schedule.spent(300)
    assert schedule.stride == 1
