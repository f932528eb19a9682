"""Caveats about how the runs were laid out in time: warm-up, order, distance, number."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from statistics import median

from anvil_tui.evidence.arms.runs import loads, paths, scored
from anvil_tui.evidence.statistics import smallest_p
from anvil_tui.evidence.verdicts import RANK_BLOCKS
from anvil_tui.records.arm import Arm, MeasuredRun
from anvil_tui.records.comparison import Caveat

_APART_MINUTES = 5.0


def no_warm_up(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """The first request on a load pays for compilation, cold caches and clocks that still rise."""
    for arm in (baseline, candidate):
        for load in loads(scored(arm)):
            if any(run.warm_up for run in load) or not load:
                continue
            known = "no warm-up ran" if load[0].warm_up is False else "no warm-up is recorded"
            yield Caveat(
                rule="no_warm_up",
                text=f"{arm.name}: {known} before {load[0].run}{_first_against_rest(load)}.",
                evidence=(load[0].path,),
            )


def _first_against_rest(load: tuple[MeasuredRun, ...]) -> str:
    """How the first request of a load stands out, where its requests are known."""
    times = [
        record.time_to_first_output_ms
        for run in load
        for record in run.requests
        if record.time_to_first_output_ms is not None
    ]
    if len(times) < 2:
        return ""
    return f"; its first request took {times[0]:,.0f} ms to the first output, the others {median(times[1:]):,.0f} ms"


def not_interleaved(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """All of one arm before all of the other: drift of temperature, host or day cannot be told from the change."""
    old, new = _span(baseline), _span(candidate)
    if old is None or new is None:
        return
    first, second = sorted([(*old, baseline), (*new, candidate)], key=lambda one: one[0])
    if first[1] > second[0]:
        return
    apart = (second[0] - first[1]).total_seconds() / 60
    yield Caveat(
        rule="not_interleaved",
        text=f"The arms are not interleaved: every run of {first[2].name} ended before {second[2].name} began, "
        f"{apart:.1f} minutes later.",
        evidence=paths([*scored(baseline), *scored(candidate)]),
    )


def far_apart(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """Arms far apart in time meet another machine."""
    old, new = _span(baseline), _span(candidate)
    if old is None or new is None:
        return
    apart = max((new[0] - old[1]).total_seconds(), (old[0] - new[1]).total_seconds()) / 60
    if apart > _APART_MINUTES:
        yield Caveat(
            rule="far_apart",
            text=f"The arms lie {apart:.0f} minutes apart.",
            evidence=paths([*scored(baseline), *scored(candidate)]),
        )


def too_few_blocks(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """The unit of replication is the load: runs and requests of one load do not show how loads vary."""
    old, new = loads(scored(baseline)), loads(scored(candidate))
    blocks = min(len(old), len(new))
    if blocks >= RANK_BLOCKS:
        return
    runs = f"{len(scored(baseline))} and {len(scored(candidate))} runs on {len(old)} and {len(new)} loads"
    unnamed = any(run.load_id is None for run in (*scored(baseline), *scored(candidate)))
    least = f"the smallest two-sided p that {blocks} {'block' if blocks == 1 else 'blocks'} can give is "
    least = f"{least}{smallest_p(blocks):.3g}" if blocks else "an arm without a scored run compares with nothing"
    yield Caveat(
        rule="too_few_blocks",
        text=f"n is too small: {runs}{' (loads are not named and count as one)' if unnamed else ''}; {least}.",
        evidence=paths([*scored(baseline), *scored(candidate)]),
    )


def _span(arm: Arm) -> tuple[datetime, datetime] | None:
    """Start of the first and end of the last scored run; None where times are unknown."""
    starts = [moment(run.started_at) for run in scored(arm)]
    ends = [moment(run.finished_at or run.started_at) for run in scored(arm)]
    known = [one for one in starts if one is not None], [one for one in ends if one is not None]
    return (min(known[0]), max(known[1])) if known[0] and known[1] else None


def moment(text: str | None) -> datetime | None:
    """A wall-clock time stamp as UTC; None where it cannot be read."""
    if text is None:
        return None
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    return read if read.tzinfo else read.replace(tzinfo=UTC)
