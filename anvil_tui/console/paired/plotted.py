"""What the plots of a pair show: from its arms and its journal, before anything is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from anvil_tui.campaigns.store.view import LoadView
from anvil_tui.evidence.arms.runs import run_value, scored
from anvil_tui.evidence.report.story import LoadStory, Story
from anvil_tui.evidence.run_metrics import COMPLETED, request_timing
from anvil_tui.records.acceptance import ArmRole
from anvil_tui.records.arm import Arm
from anvil_tui.records.run_metrics import Clock


@dataclass(frozen=True)
class RungPoint:
    """One request of a rung; null is not told."""

    arm: ArmRole
    tokens: int
    """Prompt tokens by the API's count."""
    ttft_s: float | None
    prefill_tok_s: float | None
    decode_tok_s: float | None


@dataclass(frozen=True)
class FailedRung:
    """A rung without a good answer, at its target."""

    arm: ArmRole
    tokens: int


@dataclass(frozen=True)
class LoadPoint:
    """A metric of one scored run, at the place of its load in the order of all loads, from 1."""

    arm: ArmRole
    place: int
    value: float


@dataclass(frozen=True)
class StartPhases:
    """One start as its phases went: name and seconds, null where a phase never ended."""

    phases: tuple[tuple[str, float | None], ...]
    failed: bool
    """It did not come up: the last phase is where it ended."""


@dataclass(frozen=True)
class Plotted:
    """Everything that is drawn."""

    rungs: tuple[RungPoint, ...] = ()
    failed: tuple[FailedRung, ...] = ()
    metric: str = ""
    by_load: tuple[LoadPoint, ...] = ()
    """The metric of capacity runs."""
    starts: Mapping[ArmRole, StartPhases] = field(default_factory=dict)
    """The newest start of each arm that counts."""


def plotted(
    arms: Mapping[ArmRole, Arm], loads: Sequence[LoadView], story: Story, metric: str | None, clock: Clock
) -> Plotted:
    """Pure. `metric` is the primary one; decode where none is named."""
    metric = metric or "decode_tok_s_p50"
    return Plotted(
        rungs=tuple(point for role, arm in arms.items() for point in _rungs(role, arm)),
        failed=tuple(
            FailedRung(role, run.label_tokens)
            for role, arm in arms.items()
            for run in arm.runs
            if run.what == "rung" and not run.passed and not run.interrupted and run.label_tokens is not None
        ),
        metric=metric,
        by_load=tuple(point for role, arm in arms.items() for point in _by_load(role, arm, loads, metric, clock)),
        starts=dict(_starts(loads, story)),
    )


def _rungs(role: ArmRole, arm: Arm) -> Iterator[RungPoint]:
    for run in arm.runs:
        if run.what != "rung" or run.interrupted:
            continue
        for record in run.requests:
            if record.outcome in COMPLETED and record.prompt_tokens is not None:
                timing = request_timing(record)
                ttft_s = None if timing.ttft_ms is None else timing.ttft_ms / 1000
                yield RungPoint(role, record.prompt_tokens, ttft_s, timing.effective_prefill_tok_s, timing.decode_tok_s)


def _by_load(role: ArmRole, arm: Arm, loads: Sequence[LoadView], metric: str, clock: Clock) -> Iterator[LoadPoint]:
    places = {load.load_id: place for place, load in enumerate(loads, 1) if load.load_id is not None}
    for run in scored(arm):
        value = run_value(run, metric, clock).value if run.what == "capacity" else None
        if value is not None and run.load_id in places:
            yield LoadPoint(role, places[run.load_id], value)


def _starts(loads: Sequence[LoadView], story: Story) -> Iterator[tuple[ArmRole, StartPhases]]:
    """By arm, a later one in the place of an earlier one."""
    for load in loads:
        told = story.load(load.load_id) if load.load_id is not None and load.state != "put aside" else None
        if told is not None and told.started_us is not None and told.phases:
            yield load.arm, _phases(told)


def _phases(load: LoadStory) -> StartPhases:
    begins = [at_us for _, at_us in load.phases]
    ends: list[int | None] = [*begins[1:], load.ended_us]
    phases = tuple(
        (name, None if end is None else max(0.0, (end - begin) / 1e6))
        for (name, begin), end in zip(load.phases, ends, strict=True)
        if name != "ready"
    )
    return StartPhases(phases, load.failed is not None)
