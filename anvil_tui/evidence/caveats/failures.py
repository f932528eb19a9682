"""Caveats about runs: failures left out of a median, files that contradict themselves, a host that paused."""

from __future__ import annotations

from collections.abc import Iterator

from anvil_tui.evidence.arms.runs import HIGHER_IS_BETTER, paths, run_value, scored, unscored
from anvil_tui.records.arm import Arm, MeasuredRun
from anvil_tui.records.comparison import Caveat

_AGREEMENT = 1e-6


def loads_failed(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """A lane that did not come up, or that died: what was planned for it was not done."""
    for arm in (baseline, candidate):
        if arm.load_failures:
            words = "; ".join(one.partition(": ")[2] for one in arm.load_failures)
            yield Caveat(
                rule="loads_failed",
                text=f"{arm.name}: not every load was done: {words}.",
                evidence=tuple(path for path in arm.hashes if path.endswith("journal.jsonl")),
            )


def failures_excluded(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """Medians hold given success; a run that failed may well have been the slow one."""
    for arm in (baseline, candidate):
        failed = unscored(arm)
        if failed:
            yield Caveat(
                rule="failures_excluded",
                text=f"{arm.name}: {len(failed)} of {len(arm.runs)} runs failed or were interrupted and are outside "
                "the medians, which hold given success.",
                evidence=paths(failed),
            )


def metrics_disagree(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """An imported file whose stated metrics do not follow from its own rows."""
    for arm in (baseline, candidate):
        for run in arm.runs:
            wrong = [metric for metric in HIGHER_IS_BETTER if _disagrees(run, metric)]
            if wrong:
                yield Caveat(
                    rule="metrics_disagree",
                    text=f"{arm.name}: {run.run} states {', '.join(wrong)} otherwise than its request rows give.",
                    evidence=(run.path,),
                )


def _disagrees(run: MeasuredRun, metric: str) -> bool:
    found, stated = run_value(run, metric, run.clock), run.reported.get(metric)
    if not found.recomputed or found.value is None or stated is None:
        return False
    return abs(found.value - stated) > _AGREEMENT * abs(stated)


def metrics_not_recomputed(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """Figures that rest on the file's own word."""
    for arm in (baseline, candidate):
        silent = [run for run in scored(arm) if not run.requests]
        if silent:
            yield Caveat(
                rule="metrics_not_recomputed",
                text=f"{arm.name}: {len(silent)} runs hold no request rows; their metrics stand as the files state "
                "them.",
                evidence=paths(silent),
            )


def host_pauses(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """Time that the host took, not the engine."""
    for arm in (baseline, candidate):
        paused = [run for run in scored(arm) if any(record.host_pauses for record in run.requests)]
        if paused:
            yield Caveat(
                rule="host_pauses",
                text=f"{arm.name}: the host paused during {len(paused)} runs; their latencies hold time that is not "
                "the engine's.",
                evidence=paths(paused),
            )
