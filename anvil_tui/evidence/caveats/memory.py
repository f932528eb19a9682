"""Caveats about GPU memory: when it was looked at."""

from __future__ import annotations

from collections.abc import Iterator

from anvil_tui.records.arm import Arm, MemoryWindow
from anvil_tui.records.comparison import Caveat


def memory_phases(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """Snapshots of different phases do not subtract: activation memory comes and goes."""
    old, new = _phases(baseline), _phases(candidate)
    if old == new:
        return
    yield Caveat(
        rule="memory_phases",
        text=f"VRAM was captured in different phases: {baseline.name} {_words(old)}, {candidate.name} {_words(new)}; "
        "no increment can be computed from them.",
        evidence=tuple(dict.fromkeys(window.path for window in (*baseline.memory, *candidate.memory))),
    )


def memory_not_captured(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """Without samples the reserve is unknown."""
    for arm in (baseline, candidate):
        if arm.runs and not any(window.in_request for window in arm.memory):
            yield Caveat(
                rule="memory_not_captured",
                text=f"{arm.name}: VRAM was not sampled while requests were in flight; its reserve is unknown.",
                evidence=tuple(window.path for window in arm.memory) or tuple(run.path for run in arm.runs),
            )


def reserve_not_passed(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """A reserve that is not a plain PASS is said, with its verdict."""
    for arm in (baseline, candidate):
        bad = [run for run in arm.runs if run.reserve is not None and run.reserve.verdict != "PASS"]
        if bad:
            told = ", ".join(sorted({run.reserve.verdict for run in bad if run.reserve is not None}))
            yield Caveat(
                rule="reserve_not_passed",
                text=f"{arm.name}: the VRAM reserve of {len(bad)} runs is {told}.",
                evidence=tuple(dict.fromkeys(run.path for run in bad)),
            )


def _phases(arm: Arm) -> frozenset[str]:
    return frozenset(_kind(window) for window in arm.memory)


def _kind(window: MemoryWindow) -> str:
    return "in request" if window.in_request else window.phase


def _words(phases: frozenset[str]) -> str:
    return " and ".join(sorted(phases)) or "never"
