"""Caveats about what came back: lengths of answers, bursts, cut answers."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from anvil_tui.evidence.arms.runs import output_lengths, paths, scored
from anvil_tui.evidence.run_metrics import request_timing
from anvil_tui.records.arm import Arm
from anvil_tui.records.comparison import Caveat
from anvil_tui.records.request import RequestRecord

_LENGTH_TOLERANCE = 0.05
_SHORTEST_DECODE_MS = 50.0
"""A rate over less than this says nothing."""


def median_output(arm: Arm) -> float | None:
    """The median output length over all requests of an arm's scored runs, in tokens."""
    lengths = [length for run in scored(arm) for length in output_lengths(run)]
    return median(lengths) if lengths else None


def lengths_differ(baseline: Arm, candidate: Arm) -> bool:
    """Whether the arms' median answers differ in length by more than 5 %."""
    old, new = median_output(baseline), median_output(candidate)
    return old is not None and new is not None and abs(new - old) > _LENGTH_TOLERANCE * min(old, new)


def unequal_output_lengths(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """Latency grows with the answer: E2E, generation and TTFT after reasoning compare at equal lengths only."""
    if not lengths_differ(baseline, candidate):
        return
    words = "; ".join(
        f"{arm.name}: {', '.join(f'{sum(output_lengths(run)):,}' for run in scored(arm))} output tokens a run, "
        f"median {median_output(arm):g} a request"
        for arm in (baseline, candidate)
    )
    yield Caveat(
        rule="unequal_output_lengths",
        text=f"The answers differ in length ({words}): latency differences are also differences of length.",
        evidence=paths([*scored(baseline), *scored(candidate)]),
    )


def rate_from_a_burst(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """Tokens that arrive together give no decode rate."""
    for arm in (baseline, candidate):
        runs = [
            (run, sum(record.smooth is False or _too_short(record) for record in run.requests)) for run in scored(arm)
        ]
        bursts = [(run, count) for run, count in runs if count]
        if bursts:
            yield Caveat(
                rule="rate_from_a_burst",
                text=f"{arm.name}: {sum(count for _, count in bursts)} answers came in a burst or within "
                f"{_SHORTEST_DECODE_MS:g} ms; their decode rate says nothing.",
                evidence=paths([run for run, _ in bursts]),
            )


def _too_short(record: RequestRecord) -> bool:
    span = request_timing(record).generation_ms
    return span is not None and 0 < span < _SHORTEST_DECODE_MS and (record.output_tokens or 0) > 1


def cut_answers(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """An answer cut at max_tokens is shorter than it wanted to be."""
    for arm in (baseline, candidate):
        cut = [run for run in scored(arm) if any(record.outcome == "truncated" for record in run.requests)]
        if cut:
            yield Caveat(
                rule="cut_answers",
                text=f"{arm.name}: {len(cut)} runs hold answers that were cut at max_tokens.",
                evidence=paths(cut),
            )
