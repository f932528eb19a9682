"""Exact small-sample statistics against tables of scipy 1.17.1, and against scipy itself where it is installed."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anvil_tui.evidence import statistics as ours

SAMPLE = (0.31, -0.12, 0.05, 0.44, 0.27, -0.03, 0.18, 0.09, 0.22, 0.36)


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [((3, 1, 2), 50, 2), ((3, 1, 2), 95, 3), ((2, 1), 50, 1), (tuple(range(1, 17)), 50, 8), ((), 50, None)],
)
def test_nearest_rank(values: tuple[float, ...], percent: int, expected: float | None) -> None:
    assert ours.nearest_rank(values, percent) == expected


@pytest.mark.parametrize(
    ("n", "p"), [(5, 0.0625), (6, 0.03125), (7, 0.109375), (8, 0.078125), (9, 0.0390625), (10, 0.01953125)]
)
def test_signed_rank_p(n: int, p: float) -> None:
    values = {5: (0.31, 0.12, 0.05, 0.44, 0.27), 6: (0.31, 0.12, 0.05, 0.44, 0.27, 0.03)}.get(n, SAMPLE[:n])
    assert ours.signed_rank_p(values) == pytest.approx(p, abs=1e-12)


def test_signed_rank_p_of_ties_and_zeros_is_enumerated() -> None:
    """Sizes 1, 1, 2 (midranks 1.5, 1.5, 3): of 8 patterns, 2 give a sum of at most 0 or at least 6."""
    assert ours.signed_rank_p([1, 1, 2, 0]) == 0.25
    assert ours.signed_rank_p([0, 0]) == 1.0


@pytest.mark.parametrize(
    ("n", "interval", "level"), [(6, (1, 6), 0.96875), (8, (2, 7), 0.9609375), (10, (3, 8), 0.951171875)]
)
def test_signed_rank_interval(n: int, interval: tuple[float, float], level: float) -> None:
    """Tabulated cut-offs: 0 of 21, 3 of 36, 8 of 55."""
    found = ours.signed_rank_interval(list(range(1, n + 1)), 0.95)
    assert found is not None
    assert found[1] == pytest.approx(level)
    counts = ours.signed_rank_counts(range(1, n + 1))
    cut = {6: 0, 8: 3, 10: 8}[n]
    assert 2 * sum(counts[: cut + 1]) / 2**n == pytest.approx(1 - level)
    averages = ours.walsh_averages(range(1, n + 1))
    assert found[0] == (averages[cut], averages[-cut - 1])


def test_five_values_have_no_exact_interval() -> None:
    assert ours.signed_rank_interval([1, 2, 3, 4, 5], 0.95) is None
    assert ours.smallest_p(5) == 0.0625


def test_hodges_lehmann() -> None:
    assert ours.hodges_lehmann([1, 2, 6]) == 2.75
    assert ours.hodges_lehmann([4]) == 4


@pytest.mark.parametrize(
    ("p", "df", "t"),
    [
        (0.975, 1, 12.706204736174694),
        (0.975, 2, 4.302652729749462),
        (0.975, 3, 3.182446305283708),
        (0.975, 4, 2.7764451051977934),
        (0.975, 9, 2.2621571627982044),
        (0.95, 4, 2.131846786326649),
    ],
)
def test_t_quantile(p: float, df: int, t: float) -> None:
    assert ours.t_quantile(p, df) == pytest.approx(t, rel=1e-9)


@pytest.mark.parametrize(
    ("k", "n", "interval"),
    [
        (0, 3, (0.0, 0.7075982261787133)),
        (2, 3, (0.0942993240507130, 0.9915962413403874)),
        (11, 12, (0.6152038348490562, 0.9978924067681384)),
        (9, 9, (0.6637328831200570, 1.0)),
        # more trials than a float has powers of two
        (1000, 2000, (0.4778505542311100, 0.5221494457688900)),
        (9000, 10_000, (0.8939531000964127, 0.9058127882662044)),
        (277_027, 1_000_000, (0.2761500042096328, 0.2779052874691607)),
    ],
)
def test_success_interval(k: int, n: int, interval: tuple[float, float]) -> None:
    assert ours.success_interval(k, n, 0.95) == pytest.approx(interval, abs=1e-9)
    assert ours.success_interval(0, 0, 0.95) is None


floats = st.floats(-3, 3).filter(lambda value: abs(value) > 1e-6)


@settings(max_examples=60, deadline=None)
@given(st.lists(floats, min_size=3, max_size=12, unique_by=abs))
def test_scipy_agrees(values: list[float]) -> None:
    stats = pytest.importorskip("scipy.stats")
    assert ours.signed_rank_p(values) == pytest.approx(stats.wilcoxon(values, method="exact").pvalue, abs=1e-9)
    assert ours.t_test_p(values) == pytest.approx(stats.ttest_1samp(values, 0).pvalue, abs=1e-9)
    interval = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert ours.t_interval(values, 0.9) == pytest.approx((interval.low, interval.high), abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.lists(floats, min_size=6, max_size=10))
def test_interval_holds_the_centre_and_p_agrees_with_it(values: list[float]) -> None:
    """The interval of a level leaves out 0 exactly where the test rejects at that level."""
    found = ours.signed_rank_interval(values, 0.95)
    assert found is not None
    (low, high), level = found
    assert low <= ours.hodges_lehmann(values) <= high
    if len({abs(value) for value in values}) == len(values) and low != 0 and high != 0:
        assert (low > 0 or high < 0) == (ours.signed_rank_p(values) <= 1 - level + 1e-12)


def test_the_exact_interval_covers_what_it_says() -> None:
    generator = random.Random(7)
    hits = 0
    for _ in range(400):
        found = ours.signed_rank_interval([generator.gauss(0.5, 1) for _ in range(6)], 0.95)
        assert found is not None
        hits += found[0][0] <= 0.5 <= found[0][1]
    assert 0.94 <= hits / 400 <= 0.99


def test_percent_and_log_ratio() -> None:
    assert ours.percent_change(110, 100) == pytest.approx(10)
    assert ours.percent_change(None, 100) is None
    assert ours.percent_change(1, 0) is None
    assert ours.as_percent(ours.log_ratio(2, 1)) == pytest.approx(100)
    assert math.isclose(ours.as_percent(0), 0)
