"""Caveats about starts: cache states that were not alike, KV figures that do not compare."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from anvil_tui.evidence.arms.starts import last_start
from anvil_tui.evidence.kv.change import explain_change
from anvil_tui.evidence.kv.explanation import explain
from anvil_tui.evidence.kv.reports import report_of_start
from anvil_tui.records.arm import Arm
from anvil_tui.records.comparison import Caveat

_RATIO = 1.5
_SECONDS = 5.0
_FACTOR = 0.005


def unlike_cache_state(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """Start-up times compare only where both arms compiled, or loaded, from the same state."""
    for what, phase in (("compilation", _compile_seconds), ("weight loading", _load_seconds)):
        old, new = phase(baseline), phase(candidate)
        if old is None or new is None:
            continue
        if abs(new - old) > _SECONDS and max(old, new) > _RATIO * min(old, new):
            yield Caveat(
                rule="unlike_cache_state",
                text=f"The starts are of unlike cache state: {what} took {old:.1f} s for {baseline.name} and "
                f"{new:.1f} s for {candidate.name}; start-up times do not compare.",
                evidence=tuple(start.path for start in (*baseline.starts, *candidate.starts)),
            )


def kv_tokens_unlike(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """Reported KV tokens of starts that differ in batch, length, speculation or build are no measure of memory."""
    old, new = last_start(baseline), last_start(candidate)
    if old is None or new is None:
        return
    explained = []
    for arm, start in ((baseline, old), (candidate, new)):
        profile = arm.profiles[0].profile if arm.profiles else None
        explained.append(explain(report_of_start(start.path, start.report, profile)))
    change = explain_change(*explained)
    if any(one.cause != "KV memory" and abs(one.factor - 1) > _FACTOR for one in change.factors):
        yield Caveat(
            rule="kv_tokens_unlike",
            text=f"Reported KV tokens do not compare as memory: {change.words}",
            evidence=(old.path, new.path),
        )


def _compile_seconds(arm: Arm) -> float | None:
    known = [start.report.compile_seconds.value for start in arm.starts if start.report.compile_seconds is not None]
    return median(known) if known else None


def _load_seconds(arm: Arm) -> float | None:
    """The slowest rank of each start."""
    known = [
        max(figure.value for figure in figures.values())
        for start in arm.starts
        if (figures := start.report.weights_load_seconds or start.report.model_load_seconds)
    ]
    return median(known) if known else None
