"""An arm of a comparison: everything that the artifacts given for it tell, ours or imported, in one form."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from anvil_tui.records.artifact import Check, Counters
from anvil_tui.records.lane import LaneProfile
from anvil_tui.records.request import RequestRecord
from anvil_tui.records.run_metrics import Clock
from anvil_tui.records.startup_report import StartupReport
from anvil_tui.records.vram import ReserveVerdict


class MeasuredRun(Struct, frozen=True, kw_only=True):
    """One run as conclusions see it. `path` names its artifact among the inputs. Null is unknown."""

    path: str
    format: str
    run: str
    what: Literal["rung", "gate", "capacity"]
    passed: bool
    requests: tuple[RequestRecord, ...] = ()
    completed: int
    failed: int
    failures: tuple[str, ...] = ()
    """What failed requests said."""
    interrupted: bool = False
    rehearsal: bool = False

    lane: str | None = None
    load_id: str | None = None
    served_name: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    hardware: str | None = None
    base_url: str | None = None
    started_at: str | None = None
    finished_at: str | None = None

    label_tokens: int | None = None
    """What the prompt was meant to hold: target of a rung, context of a capacity run."""
    concurrency: int | None = None
    max_tokens: int | None = None
    margin_tokens: int | None = None
    reasoning_effort: str | None = None
    max_model_len: int | None = None
    """The served context as the run saw it."""
    warm_up: bool | None = None
    """Whether something unscored ran first on this load."""

    output_lengths: tuple[int, ...] = ()
    """Output tokens of each successful request, where a file holds them but no request records."""
    prompt_lengths: tuple[int, ...] = ()
    clock: Clock = "sent"
    wall_ms: float | None = None
    reported: dict[str, float | None] = {}
    """Metrics as an imported file states them."""
    definitions: dict[str, str] = {}
    """Metrics that mean something else than ours, and what."""
    counters_before: Counters | None = None
    counters_after: Counters | None = None
    reserve: ReserveVerdict | None = None
    checks: tuple[Check, ...] = ()


class GateOutcome(Struct, frozen=True, kw_only=True):
    """A functional gate and its checks."""

    path: str
    passed: bool
    checks: tuple[Check, ...]
    tool_batch: tuple[int, int] | None = None
    """Tool calls that passed, of how many made at once."""
    reasoning_effort: str | None = None
    reasoning_evidence: str | None = None
    """What the policy asked for: any, required or forbidden."""
    reasoning_seen: bool | None = None
    finished_at: str | None = None
    rehearsal: bool = False


class LoadStart(Struct, frozen=True, kw_only=True):
    """One start of a lane: its report and how long it took."""

    path: str
    report: StartupReport
    load_id: str | None = None
    startup_seconds: float | None = None


class GpuMemory(Struct, frozen=True, kw_only=True):
    """Memory of one GPU in MiB: a snapshot, or the worst moment of a window."""

    gpu: str
    free_mib: float | None
    total_mib: float | None = None
    reserved_mib: float | None = None


class MemoryWindow(Struct, frozen=True, kw_only=True):
    """When GPU memory was looked at and what it was."""

    path: str
    phase: str
    in_request: bool
    gpus: tuple[GpuMemory, ...]
    reserve_mib: int | None = None


class DraftCounters(Struct, frozen=True, kw_only=True):
    """Speculative decoding: counter values over a scope."""

    path: str
    scope: str
    drafts: float | None
    draft_tokens: float
    accepted_tokens: float
    accepted_per_position: tuple[float, ...] = ()


class NamedProfile(Struct, frozen=True, kw_only=True):
    """A lane profile and where it stood."""

    path: str
    lane: str
    profile: LaneProfile


class Arm(Struct, frozen=True, kw_only=True):
    """All that is known of one arm, in the order of time."""

    name: str
    runs: tuple[MeasuredRun, ...] = ()
    gates: tuple[GateOutcome, ...] = ()
    starts: tuple[LoadStart, ...] = ()
    profiles: tuple[NamedProfile, ...] = ()
    memory: tuple[MemoryWindow, ...] = ()
    drafts: tuple[DraftCounters, ...] = ()
    load_failures: tuple[str, ...] = ()
    """What the journal says of loads that failed or died, each after its lane and a colon."""
    hashes: dict[str, str] = {}
    """SHA-256 of each input file by its path."""
