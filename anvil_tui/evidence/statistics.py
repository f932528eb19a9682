"""Small-sample statistics, exact by enumeration. Everything takes plain numbers; nothing resamples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, median, stdev

Interval = tuple[float, float]


def nearest_rank(values: Sequence[float], percent: int) -> float | None:
    """The nearest-rank percentile, `sorted[ceil(n × percent / 100) − 1]`; None of nothing.

    Of two values the 50th percentile is the smaller one.
    """
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def percent_change(candidate: float | None, baseline: float | None) -> float | None:
    """(candidate − baseline) / baseline × 100; None where one is unknown or the baseline is 0."""
    return None if candidate is None or not baseline else (candidate - baseline) / baseline * 100.0


def log_ratio(candidate: float, baseline: float) -> float:
    """ln(candidate / baseline) of two positive values."""
    return math.log(candidate / baseline)


def as_percent(log_ratio: float) -> float:
    """A log ratio as percent of the baseline."""
    return math.expm1(log_ratio) * 100.0


def walsh_averages(values: Sequence[float]) -> list[float]:
    """All n(n+1)/2 pairwise means, a value with itself included, sorted."""
    return sorted((a + b) / 2 for i, a in enumerate(values) for b in values[i:])


def hodges_lehmann(values: Sequence[float]) -> float:
    """The median of the Walsh averages: the centre that belongs to the signed-rank test."""
    return median(walsh_averages(values))


def signed_rank_counts(ranks: Sequence[int]) -> list[int]:
    """How many of the 2**n sign patterns give each sum of positive ranks, in whole units of rank."""
    counts = [1] + [0] * sum(ranks)
    for rank in ranks:
        for total in range(len(counts) - 1, rank - 1, -1):
            counts[total] += counts[total - rank]
    return counts


def signed_rank_p(values: Sequence[float]) -> float:
    """Exact two-sided p of the Wilcoxon signed-rank test that `values` centre on 0; zeros dropped, ties at midranks."""
    kept = sorted((value for value in values if value != 0), key=abs)
    if not kept:
        return 1.0
    sizes = [abs(value) for value in kept]
    # Doubled ranks are whole: equal sizes at positions i to j, counted from 0, have midrank (i + j + 2) / 2.
    ranks = [sizes.index(size) + (len(sizes) - sizes[::-1].index(size)) + 1 for size in sizes]
    positive = sum(rank for rank, value in zip(ranks, kept, strict=True) if value > 0)
    counts = signed_rank_counts(ranks)
    low = sum(counts[: positive + 1])
    high = sum(counts[positive:])
    return float(min(1.0, 2 * min(low, high) / 2 ** len(kept)))


def signed_rank_interval(values: Sequence[float], level: float) -> tuple[Interval, float] | None:
    """The exact signed-rank interval of the centre and the level that it really has (at least `level`).

    Its ends are the k-th smallest and largest Walsh average, k the largest with P(W ≤ k − 1) ≤ (1 − level) / 2.
    None where the sample is too small for the level: below six values at 0.95.
    """
    n = len(values)
    counts = signed_rank_counts(range(1, n + 1))
    tail, k = 0, 0
    while (tail + counts[k]) / 2**n <= (1 - level) / 2:
        tail += counts[k]
        k += 1
    if k == 0:
        return None
    averages = walsh_averages(values)
    return (averages[k - 1], averages[-k]), 1 - 2 * tail / 2**n


def smallest_p(blocks: int) -> float:
    """The smallest two-sided p that this many pairs can give in an exact sign-flip test: 2 ** (1 − n)."""
    return float(2.0 ** (1 - blocks))


def t_interval(values: Sequence[float], level: float) -> Interval:
    """Student's interval of the mean of at least two values; assumes that they are normal."""
    half = t_quantile((1 + level) / 2, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    centre = fmean(values)
    return centre - half, centre + half


def t_test_p(values: Sequence[float]) -> float:
    """Two-sided p of Student's test that the mean of at least two values is 0; assumes that they are normal."""
    spread = stdev(values) / math.sqrt(len(values))
    if spread == 0:
        return 1.0 if fmean(values) == 0 else 0.0
    return 2 * (1 - t_cdf(abs(fmean(values)) / spread, len(values) - 1))


def t_cdf(t: float, df: int) -> float:
    """P(T ≤ t) of Student's t with whole `df`, by the finite series in the angle atan(t / √df)."""
    angle = math.atan(t / math.sqrt(df))
    cos2 = math.cos(angle) ** 2
    if df % 2:
        term, total = math.cos(angle), 0.0
        for k in range(1, df - 1, 2):
            total += term
            term *= cos2 * (k + 1) / (k + 2)
        inside = 2 / math.pi * (angle + math.sin(angle) * total)
    else:
        term, total = 1.0, 0.0
        for k in range(0, df, 2):
            total += term
            term *= cos2 * (k + 1) / (k + 2)
        inside = math.sin(angle) * total
    return 0.5 + inside / 2


def t_quantile(p: float, df: int) -> float:
    """The t with P(T ≤ t) = p for p ≥ 0.5."""
    high = 1.0
    while t_cdf(high, df) < p:
        high *= 2
    return _bisect(lambda t: t_cdf(t, df) - p, 0.0, high)


def success_interval(successes: int, trials: int, level: float) -> Interval | None:
    """The exact (Clopper-Pearson) interval of a success rate, from binomial tails; None of no trials."""
    if trials == 0:
        return None
    tail = (1 - level) / 2
    low = 0.0 if successes == 0 else _bisect(lambda p: _at_least(successes, trials, p) - tail, 0.0, 1.0)
    high = 1.0 if successes == trials else _bisect(lambda p: tail - 1 + _at_least(successes + 1, trials, p), 0.0, 1.0)
    return low, high


def _at_least(k: int, n: int, p: float) -> float:
    """P(X ≥ k) of a binomial, 0 < k ≤ n and 0 < p < 1: the tail that falls off is summed, until it adds nothing."""
    odds = p / (1 - p)
    if p * n > k:
        return 1 - _tail((i / (n - i + 1) / odds for i in range(k - 1, 0, -1)), _binomial(k - 1, n, p))
    return _tail(((n - i) / (i + 1) * odds for i in range(k, n)), _binomial(k, n, p))


def _tail(ratios: Iterable[float], term: float) -> float:
    """`term` and what follows it, each by its ratio to the one before."""
    total = term
    for ratio in ratios:
        term *= ratio
        if term <= total * 1e-18:
            break
        total += term
    return total


def _binomial(k: int, n: int, p: float) -> float:
    """P(X = k); by logarithms, since the coefficient of a thousand trials is no float."""
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(ways + k * math.log(p) + (n - k) * math.log1p(-p))


def _bisect(rising: Callable[[float], float], low: float, high: float) -> float:
    """Where a rising function crosses 0, to the last bit."""
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return middle
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
