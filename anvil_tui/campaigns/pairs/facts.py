"""What is known of a paired campaign so far, for its acceptance conditions: from its journal and artifacts alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

import msgspec

from anvil_tui.campaigns.pairs.watched import changed
from anvil_tui.records.acceptance import AcceptanceFacts, ArmFacts, ArmRole, Known
from anvil_tui.records.artifact import RunArtifact
from anvil_tui.records.events import (
    BlockInterrupted,
    BlockLoadBegun,
    BlockLoadEnded,
    Event,
    LoadFailed,
    LoadReady,
    LoadStarted,
    StartupReported,
)
from anvil_tui.records.startup_report import StartupReport

_METRICS = (
    "decode_tok_s_p50", "throughput_tok_s", "time_to_first_output_p50_ms", "ttft_p50_ms", "effective_prefill_tok_s_p50",
    "generation_p50_ms", "e2e_p50_ms",
)  # fmt: skip

Artifacts = Sequence[tuple[str, RunArtifact]]
"""Runs with their paths in the campaign."""
_OfArm = tuple[str | None, Event]
"""An event with the arm whose turn it was."""


def gather(folder: Path, events: Sequence[Event], artifacts: Artifacts, *, finished: bool) -> AcceptanceFacts:
    """The facts; `artifacts` come with their paths in the campaign. Blocks that were redone do not count."""
    redone = {load for event in events if isinstance(event, BlockInterrupted) for load in _loads_before(event, events)}
    counted = [(path, one) for path, one in artifacts if not one.interrupted and one.lane.load_id not in redone]
    lasting = [(arm, event) for arm, event in _arm_of_each(events) if getattr(event, "load_id", None) not in redone]
    route, promotion = changed("route", events), changed("promotion", events)
    return AcceptanceFacts(
        baseline=_arm("baseline", folder, lasting, counted),
        candidate=_arm("candidate", folder, lasting, counted),
        route_changed=None if route is None else Known(value=route, evidence=("journal.jsonl",)),
        promotion_changed=None if promotion is None else Known(value=promotion, evidence=("journal.jsonl",)),
        finished=finished,
    )


def counted_loads(events: Sequence[Event]) -> dict[str, frozenset[str]]:
    """The load ids of each arm that count, the last time where a block was redone; those that did not come up too."""
    loads: dict[tuple[int, int], tuple[str, str]] = {}
    failed: str | None = None
    for event in events:
        if isinstance(event, BlockInterrupted):
            loads = {key: load for key, load in loads.items() if key[0] != event.block}
        elif isinstance(event, BlockLoadBegun):
            failed = None
        elif isinstance(event, LoadFailed):
            failed = event.load_id
        elif isinstance(event, BlockLoadEnded) and (load_id := event.load_id or failed) is not None:
            loads[event.block, event.number] = (event.arm, load_id)
    arms: dict[str, set[str]] = {}
    for arm, load_id in loads.values():
        arms.setdefault(arm, set()).add(load_id)
    return {arm: frozenset(ids) for arm, ids in arms.items()}


def read_artifacts(folder: Path) -> list[tuple[str, RunArtifact]]:
    """Every run of the campaign with its path, in order of number."""
    paths = sorted((folder / "runs").glob("*.json"), key=lambda path: int(path.stem.rpartition("-r")[2]))
    return [(f"runs/{path.name}", msgspec.json.decode(path.read_bytes(), type=RunArtifact)) for path in paths]


def _loads_before(interrupted: BlockInterrupted, events: Sequence[Event]) -> set[str]:
    """The loads of a block up to the moment when it was put aside."""
    found: set[str] = set()
    block: int | None = None
    for event in events:
        if event is interrupted:
            return found
        if isinstance(event, BlockLoadBegun):
            block = event.block
        elif isinstance(event, LoadStarted) and block == interrupted.block:
            found.add(event.load_id)
    return found


def _arm(arm: ArmRole, folder: Path, events: Sequence[_OfArm], counted: Artifacts) -> ArmFacts:
    mine = [(path, one) for path, one in counted if one.arm == arm]
    scored = [(path, one) for path, one in mine if one.what == "capacity" and one.passed and one.metrics]
    gates = [(path, one) for path, one in mine if one.what == "gate"]
    probed_before = {one.run: _probed_before(one, mine) for _, one in gates}
    return ArmFacts(
        starts=tuple(_starts(arm, events)),
        kv_tokens=tuple(_kv_tokens(arm, folder, events)),
        prompt_tokens=tuple(
            Known(value=record.prompt_tokens, evidence=(path,))
            for path, one in mine
            if one.passed
            for record in one.requests
            if record.prompt_tokens is not None
        ),
        gates=tuple(Known(value=one.passed, evidence=(path,)) for path, one in gates if not probed_before[one.run]),
        post_gates=tuple(Known(value=one.passed, evidence=(path,)) for path, one in gates if probed_before[one.run]),
        metrics=dict(_medians(scored)),
        reserves=tuple(Known(value=one.reserve.verdict, evidence=(path,)) for path, one in mine if one.reserve),
    )


def _probed_before(gate: RunArtifact, mine: Artifacts) -> bool:
    """Whether the load was probed before this gate: it is then a post-probe gate."""
    same_load = [one for _, one in mine if one.lane.load_id == gate.lane.load_id]
    return any(one.what != "gate" and one.started_at < gate.started_at for one in same_load)


def _medians(scored: Artifacts) -> Iterable[tuple[str, Known[float]]]:
    for name in _METRICS:
        known = [(path, getattr(one.metrics, name)) for path, one in scored if getattr(one.metrics, name) is not None]
        if known:
            yield name, Known(value=median(value for _, value in known), evidence=tuple(path for path, _ in known))


def _arm_of_each(events: Sequence[Event]) -> Iterable[_OfArm]:
    """Each event with the arm whose turn it was."""
    arm: str | None = None
    for event in events:
        if isinstance(event, BlockLoadBegun):
            arm = event.arm
        yield arm, event


def _starts(arm: str, events: Sequence[_OfArm]) -> Iterable[Known[bool]]:
    up: set[str] = set()
    for whose, event in events:
        if whose == arm and isinstance(event, LoadReady):
            up.add(event.load_id)
            yield Known(value=True, evidence=("journal.jsonl",))
        elif whose == arm and isinstance(event, LoadFailed) and event.load_id not in up:
            yield Known(value=False, evidence=("journal.jsonl",))


def _kv_tokens(arm: str, folder: Path, events: Sequence[_OfArm]) -> Iterable[Known[int]]:
    for whose, event in events:
        if whose == arm and isinstance(event, StartupReported):
            report = msgspec.json.decode((folder / event.path).read_bytes(), type=StartupReport)
            if report.kv_tokens is not None:
                yield Known(value=int(report.kv_tokens.value), evidence=(event.path,))
