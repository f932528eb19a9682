"""Questions to an arm: its scored runs, their loads, their figures. Pure, and the same for ours and imported runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from msgspec.structs import replace

from anvil_tui.evidence.run_metrics import COMPLETED, run_metrics
from anvil_tui.records.arm import Arm, MeasuredRun
from anvil_tui.records.lane import RehearsalLaunch
from anvil_tui.records.run_metrics import Clock

HIGHER_IS_BETTER = {
    "decode_tok_s_p50": True,
    "throughput_tok_s": True,
    "time_to_first_output_p50_ms": False,
    "ttft_p50_ms": False,
    "effective_prefill_tok_s_p50": True,
    "generation_p50_ms": False,
    "e2e_p50_ms": False,
}
"""The metrics of a comparison, in the order of the documents."""

Protocol = tuple[int | None, int | None]
"""Labelled prompt tokens and concurrency: runs compare within one protocol only."""


@dataclass(frozen=True)
class RunValue:
    """A metric of one run, and whether it was recomputed from its requests."""

    value: float | None
    recomputed: bool


def is_rehearsal(arm: Arm) -> bool:
    """Whether anything of the arm comes from a simulated engine."""
    return (
        any(run.rehearsal for run in arm.runs)
        or any(gate.rehearsal for gate in arm.gates)
        or any(isinstance(one.profile.launch, RehearsalLaunch) for one in arm.profiles)
    )


def scored(arm: Arm) -> tuple[MeasuredRun, ...]:
    """Runs that count: passed, whole, in the order of time."""
    return tuple(run for run in arm.runs if run.passed and not run.interrupted)


def unscored(arm: Arm) -> tuple[MeasuredRun, ...]:
    """Failed and interrupted runs: retained, never averaged in."""
    return tuple(run for run in arm.runs if not run.passed or run.interrupted)


def protocols(runs: Iterable[MeasuredRun]) -> dict[Protocol, tuple[MeasuredRun, ...]]:
    """The runs by protocol, in the order in which each first occurs."""
    groups: dict[Protocol, tuple[MeasuredRun, ...]] = {}
    for run in runs:
        key = (run.label_tokens, run.concurrency)
        groups[key] = (*groups.get(key, ()), run)
    return groups


def compared_runs(baseline: Arm, candidate: Arm) -> tuple[Arm, Arm]:
    """Both arms with the runs of protocols that both ran; the arms as they are where there is none in common."""
    common = protocols(baseline.runs).keys() & protocols(candidate.runs).keys()
    if not common:
        return baseline, candidate
    labels = {label for label, _ in common}

    def compared(run: MeasuredRun) -> bool:
        """A failed run may not tell its concurrency; its label is enough."""
        return (run.label_tokens, run.concurrency) in common or (not run.passed and run.label_tokens in labels)

    first, second = (replace(arm, runs=tuple(filter(compared, arm.runs))) for arm in (baseline, candidate))
    return first, second


def common_clock(arms: Iterable[Arm]) -> Clock:
    """The clock that every run can give: with the time to connect where an imported run has it inside."""
    return "connect" if any(run.clock == "connect" for arm in arms for run in arm.runs) else "sent"


def run_value(run: MeasuredRun, metric: str, clock: Clock) -> RunValue:
    """A metric of a run: from its request records, else as its file states it by its own clock."""
    if run.requests:
        computed = run_metrics(run.requests, wall_ms=run.wall_ms, clock=clock)
        value: float | None = getattr(computed, metric, None)
        if value is not None:
            return RunValue(value, True)
    return RunValue(run.reported.get(metric) if clock == run.clock or not run.requests else None, False)


def loads(runs: Iterable[MeasuredRun]) -> tuple[tuple[MeasuredRun, ...], ...]:
    """The runs by load, loads in the order of time. Runs that do not name a load count as one."""
    groups: dict[str | None, tuple[MeasuredRun, ...]] = {}
    for run in runs:
        groups[run.load_id] = (*groups.get(run.load_id, ()), run)
    return tuple(groups.values())


def blocks(
    baseline: Iterable[MeasuredRun], candidate: Iterable[MeasuredRun], metric: str, clock: Clock
) -> tuple[tuple[float, float], ...]:
    """Pairs of (baseline, candidate): the median over the runs of one load of each, loads paired in time.

    A pair in which a load has no value is left out; loads without a partner too.
    """
    pairs = zip(loads(baseline), loads(candidate), strict=False)
    medians = ((_median(old, metric, clock), _median(new, metric, clock)) for old, new in pairs)
    return tuple((old, new) for old, new in medians if old is not None and new is not None)


def _median(runs: Iterable[MeasuredRun], metric: str, clock: Clock) -> float | None:
    known = [value for run in runs if (value := run_value(run, metric, clock).value) is not None]
    return median(known) if known else None


def output_lengths(run: MeasuredRun) -> tuple[int, ...]:
    """Output tokens of each successful request whose usage is known."""
    good = [record for record in run.requests if record.outcome in COMPLETED]
    return tuple(one.output_tokens for one in good if one.output_tokens is not None) or run.output_lengths


def prompt_lengths(run: MeasuredRun) -> tuple[int, ...]:
    """Prompt tokens by the API's count of each successful request."""
    good = [record for record in run.requests if record.outcome in COMPLETED]
    return tuple(one.prompt_tokens for one in good if one.prompt_tokens is not None) or run.prompt_lengths


def cached_share(run: MeasuredRun) -> float | None:
    """Mean share of prompt tokens that came from the prefix cache; None where the server did not tell."""
    return run_value(run, "prefix_cache_hit_avg", run.clock).value


def definitions(runs: Iterable[MeasuredRun], metric: str) -> frozenset[str]:
    """What these runs mean by a metric; an empty text is our definition."""
    return frozenset(run.definitions.get(metric, "") for run in runs)


def one_value(values: Iterable[object]) -> object | None:
    """The one value that all known ones agree on; None where none is known or they differ."""
    known = {value for value in values if value is not None}
    return next(iter(known)) if len(known) == 1 else None


def paths(runs: Sequence[MeasuredRun]) -> tuple[str, ...]:
    """Their artifacts, each once."""
    return tuple(dict.fromkeys(run.path for run in runs))
