"""Caveats about starts: compile caches and page caches that were not alike."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from anvil_tui.records.arm import Arm
from anvil_tui.records.comparison import Caveat

_RATIO = 1.5
_SECONDS = 5.0


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
