"""Our own artifacts as conclusions see them: runs, gates, memory and draft counters of an arm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import to_builtins
from msgspec.structs import replace

from anvil_tui.engines.metrics import difference
from anvil_tui.evidence.run_metrics import COMPLETED, observed_concurrency, wall_time_ms
from anvil_tui.records.arm import DraftCounters, GateOutcome, GpuMemory, MeasuredRun, MemoryWindow
from anvil_tui.records.artifact import Check, RunArtifact
from anvil_tui.records.request import RequestRecord
from anvil_tui.records.vram import MIB, GpuReading, VramSample
from anvil_tui.text import sanitise

FORMAT = "anvil-run/v1"


def measured_run(artifact: RunArtifact, path: str) -> MeasuredRun:
    """A rung or capacity run. `path` names the artifact among the inputs."""
    requests, plan = artifact.requests, artifact.capacity
    completed = sum(record.outcome in COMPLETED for record in requests)
    asked = requests[0] if requests else None
    stated = to_builtins(artifact.metrics) if artifact.metrics is not None else {}
    max_tokens = asked.max_tokens if asked else plan.max_tokens if plan else None
    return MeasuredRun(
        path=path,
        format=FORMAT,
        run=artifact.run,
        what=artifact.what,
        passed=artifact.passed,
        requests=tuple(sorted(requests, key=lambda record: record.request_index)),
        completed=completed,
        failed=len(requests) - completed,
        failures=tuple(_failures(artifact)),
        interrupted=artifact.interrupted,
        rehearsal=artifact.rehearsal,
        lane=artifact.lane.lane,
        load_id=artifact.lane.load_id,
        served_name=artifact.lane.served_name,
        engine=artifact.lane.engine,
        engine_version=artifact.lane.engine_version,
        started_at=artifact.started_at,
        finished_at=artifact.finished_at,
        label_tokens=artifact.target_tokens if plan is None else plan.context_tokens,
        concurrency=observed_concurrency(requests) if plan is None else plan.concurrency,
        max_tokens=max_tokens,
        margin_tokens=_margin(artifact, max_tokens),
        reasoning_effort=asked.reasoning_effort if asked else None,
        max_model_len=artifact.lane.max_model_len,
        warm_up=True if artifact.warmup else False if plan is not None else None,
        wall_ms=artifact.wall_clock_ms if artifact.wall_clock_ms is not None else wall_time_ms(requests),
        reported={name: value for name, value in stated.items() if isinstance(value, int | float)},
        counters_before=artifact.counters_before,
        counters_after=artifact.counters_after,
        reserve=artifact.reserve,
        checks=artifact.checks,
    )


def _margin(artifact: RunArtifact, max_tokens: int | None) -> int | None:
    """As the artifact says, else what its limit leaves of the served length."""
    if artifact.margin_tokens is not None:
        return artifact.margin_tokens
    length, limit = artifact.lane.max_model_len, artifact.limit_tokens
    if length is None or limit is None or max_tokens is None:
        return None
    return length - max_tokens - limit


def _failures(artifact: RunArtifact) -> Iterator[str]:
    for record in artifact.requests:
        if record.outcome not in COMPLETED:
            yield sanitise(f"{record.outcome}: {record.error.message}" if record.error else record.outcome)
    if not artifact.passed:
        yield from (sanitise(f"{check.name}: {check.words}") for check in artifact.checks if check.passed is False)


def gate_outcome(artifact: RunArtifact, path: str) -> GateOutcome:
    """The functional gate of an artifact whose `what` is `gate`."""
    gate = artifact.gate
    told = GateOutcome(
        path=path,
        passed=artifact.passed,
        checks=artifact.checks,
        reasoning_effort=artifact.requests[0].reasoning_effort if artifact.requests else None,
        reasoning_seen=any(map(_reasoned, artifact.requests)) if artifact.requests else None,
        finished_at=artifact.finished_at,
        rehearsal=artifact.rehearsal,
    )
    if gate is None:
        return told
    tools = [one.passed for one in gate.observations if one.check == "tools"]
    return replace(
        told,
        checks=tuple(Check(name=one.name, passed=one.passed, words=one.words) for one in gate.checks),
        tool_batch=(sum(tools), len(tools)) if tools else None,
        reasoning_effort=gate.reasoning_effort,
        reasoning_evidence=gate.policy.reasoning,
        reasoning_seen=any(one.reasoning_chars for one in gate.observations) if gate.observations else None,
    )


def _reasoned(record: RequestRecord) -> bool:
    return bool(record.reasoning_chunks or record.reasoning_tokens or record.reasoning)


def run_memory(artifact: RunArtifact, path: str) -> Iterator[MemoryWindow]:
    """The worst moment of each GPU while the run's requests were in flight."""
    reserve = artifact.reserve
    if reserve is None or not reserve.gpus:
        return
    yield MemoryWindow(
        path=path,
        phase="in request",
        in_request=True,
        gpus=tuple(
            GpuMemory(
                gpu=gpu.uuid,
                free_mib=_mib(gpu.min_free_bytes),
                total_mib=_mib(gpu.total_bytes),
                reserved_mib=_mib(gpu.reserved_bytes),
            )
            for gpu in sorted(reserve.gpus, key=lambda one: one.uuid)
        ),
        reserve_mib=reserve.reserve_mib,
    )


def idle_memory(samples: Sequence[VramSample], artifacts: Sequence[RunArtifact], path: str) -> Iterator[MemoryWindow]:
    """The first sample after the last request of these runs; none where they span two boots or nothing followed."""
    ends = [record.ended_us for artifact in artifacts for record in artifact.requests if record.ended_us is not None]
    if not ends or len({artifact.boot_id for artifact in artifacts}) != 1:
        return
    after = min((one for one in samples if one.mono_us > max(ends)), key=lambda one: one.mono_us, default=None)
    if after is None:
        return
    used = {gpu.uuid for artifact in artifacts if artifact.reserve for gpu in artifact.reserve.gpus}
    gpus = [reading for reading in after.gpus if not used or reading.uuid in used]
    yield MemoryWindow(
        path=f"{path}/vram",
        phase="idle immediately after the last request",
        in_request=False,
        gpus=tuple(map(_snapshot, sorted(gpus, key=lambda one: one.uuid))),
    )


def _snapshot(reading: GpuReading) -> GpuMemory:
    return GpuMemory(
        gpu=reading.uuid,
        free_mib=_mib(reading.free),
        total_mib=_mib(reading.total),
        reserved_mib=_mib(reading.reserved),
    )


def run_drafts(artifact: RunArtifact, path: str) -> Iterator[DraftCounters]:
    """What speculation drafted and had accepted during the run, from counter differences; never since start."""
    before, after = artifact.counters_before, artifact.counters_after
    gained = difference(before, after) if before is not None and after is not None else None
    if before is None or after is None or gained is None or not gained.get("spec_draft_tokens"):
        return
    positions = zip(after.accepted_per_position, before.accepted_per_position, strict=False)
    yield DraftCounters(
        path=path,
        scope="run",
        drafts=gained.get("spec_drafts"),
        draft_tokens=gained["spec_draft_tokens"],
        accepted_tokens=gained.get("spec_accepted_tokens", 0.0),
        accepted_per_position=tuple(late - early for late, early in positions),
    )


def _mib(size: int | None) -> float | None:
    return size / MIB if size is not None else None
