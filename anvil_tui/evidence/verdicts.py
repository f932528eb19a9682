"""From blocks to a verdict, by rules that were set before the run. A block is one load of each arm.

From six blocks: Hodges-Lehmann with the exact signed-rank interval. From three: Student's t on log ratios. Below three
the effect is observed, and variation between loads is not measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from statistics import fmean, median

from anvil_tui.evidence.statistics import (
    as_percent,
    hodges_lehmann,
    log_ratio,
    percent_change,
    signed_rank_interval,
    signed_rank_p,
    smallest_p,
    t_interval,
    t_test_p,
)
from anvil_tui.records.comparison import Effect, VerdictRule

RANK_BLOCKS, T_BLOCKS = 6, 3


def effect(
    pairs: Sequence[tuple[float, float]],
    baseline_runs: Sequence[float],
    candidate_runs: Sequence[float],
    *,
    higher_is_better: bool,
    rule: VerdictRule,
    invalid: str = "",
    confounded: str = "",
) -> Effect:
    """Candidate against baseline: `pairs` of (baseline, candidate), one a block, and the values of all runs.

    `invalid` says why the arms must not be compared at all, `confounded` why a difference would say nothing.
    """
    blocks = len(pairs)
    ratios = [log_ratio(new, old) for old, new in pairs if old > 0 and new > 0]
    if blocks < T_BLOCKS or len(ratios) < blocks:
        return _observed(blocks, baseline_runs, candidate_runs, invalid, confounded)
    exact = signed_rank_interval(ratios, rule.level) if len(ratios) >= RANK_BLOCKS else None
    if exact is not None:
        (low, high), level = exact
        centre, p, method = hodges_lehmann(ratios), signed_rank_p(ratios), "Hodges-Lehmann, exact signed-rank interval"
    else:
        (low, high), level = t_interval(ratios, rule.level), rule.level
        centre, p, method = fmean(ratios), t_test_p(ratios), "Student's t on log ratios (assumes normal)"
    bounds = as_percent(low), as_percent(high)
    verdict = _verdict(bounds, higher_is_better, rule, invalid, confounded, blocks)
    return Effect(
        blocks=blocks,
        method=method,
        estimate_percent=as_percent(centre),
        low_percent=bounds[0],
        high_percent=bounds[1],
        level=level,
        p_value=p,
        verdict=verdict,
        words=f"{as_percent(centre):+.1f} % [{bounds[0]:+.1f}, {bounds[1]:+.1f}] at {level:.1%} over {blocks} blocks",
    )


def _verdict(
    bounds: tuple[float, float], higher: bool, rule: VerdictRule, invalid: str, confounded: str, blocks: int
) -> str:
    low, high = bounds
    if invalid:
        return f"invalid ({invalid})"
    if confounded:
        return f"inconclusive ({confounded})"
    if max(abs(low), abs(high)) <= rule.equivalence_percent:
        return f"equivalent within {rule.equivalence_percent:g} %"
    if low > 0 or high < 0:
        return "faster" if (low > 0) == higher else "slower"
    least = f"smallest p of {blocks} blocks: {smallest_p(blocks):.3g}"
    return f"inconclusive (interval {low:+.1f} to {high:+.1f} %; {least})"


def _observed(
    blocks: int,
    baseline_runs: Sequence[float],
    candidate_runs: Sequence[float],
    invalid: str,
    confounded: str,
) -> Effect:
    estimate = low = high = None
    words = "no value in one of the arms"
    if baseline_runs and candidate_runs:
        estimate = percent_change(median(candidate_runs), median(baseline_runs))
        ranges = [percent_change(new, old) for new, old in product(candidate_runs, baseline_runs)]
        known = [one for one in ranges if one is not None]
        words = "observed, variation between loads not measured"
        if estimate is not None and known:
            low, high = min(known), max(known)
            words = f"{estimate:+.1f} %, run against run {low:+.1f} to {high:+.1f} %: {words}"
    plural = "block" if blocks == 1 else "blocks"
    reason = confounded or (f"{blocks} {plural}: variation between loads not measured" if blocks else words)
    return Effect(
        blocks=blocks,
        method="median of run values, range over all pairs of runs",
        estimate_percent=estimate,
        low_percent=low,
        high_percent=high,
        level=None,
        p_value=None,
        verdict=f"invalid ({invalid})" if invalid else f"inconclusive ({reason})",
        words=words,
    )
