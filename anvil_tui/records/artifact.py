"""The JSON file of one run."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from anvil_tui.records.gate import GateResult
from anvil_tui.records.plan import CapacityPlan
from anvil_tui.records.request import RequestRecord
from anvil_tui.records.run_metrics import RunMetrics
from anvil_tui.records.vram import ReserveVerdict


class Check(Struct, frozen=True, kw_only=True):
    """One condition of a run and how it came out; null means that it could not be told."""

    name: str
    passed: bool | None
    words: str


class LaneObserved(Struct, frozen=True, kw_only=True):
    """What was observed of the lane itself when the run began; null is unknown."""

    lane: str
    load_id: str
    model: str
    served_name: str
    max_model_len: int | None
    engine: str
    engine_version: str | None
    rehearsal: bool


class Counters(Struct, frozen=True, kw_only=True):
    """Engine counters read from `/metrics`, by name; summed over engines, `_created` series left out."""

    mono_us: int
    at: str
    values: dict[str, float]
    accepted_per_position: tuple[float, ...] = ()
    process_start: float | None = None


class RunArtifact(Struct, frozen=True, kw_only=True):
    """`runs/<lane>-r<N>.json`. `nonce` keeps a private file from being guessed from its published hash."""

    schema: Literal["anvil-run/v1"] = "anvil-run/v1"
    nonce: str
    rehearsal: bool
    campaign_id: str
    run: str
    what: Literal["rung", "gate", "capacity"]
    lane: LaneObserved
    target_tokens: int | None
    limit_tokens: int | None
    """observed max_model_len − max_tokens − margin."""
    started_at: str
    finished_at: str
    boot_id: str
    passed: bool
    words: str
    checks: tuple[Check, ...]
    requests: tuple[RequestRecord, ...]
    reserve: ReserveVerdict | None
    counters_before: Counters | None
    counters_after: Counters | None
    interrupted: bool = False
    arm: Literal["baseline", "candidate"] | None = None
    """The arm and block of a paired campaign."""
    block: int | None = None
    margin_tokens: int | None = None
    wall_clock_ms: float | None = None
    """First scored request sent to last one ended, of a capacity run."""
    warmup: tuple[RequestRecord, ...] = ()
    """Requests before the scored ones; never counted."""
    capacity: CapacityPlan | None = None
    """The protocol of a capacity run."""
    gate: GateResult | None = None
    metrics: RunMetrics | None = None
    """Computed from `requests`; whoever verifies computes them again."""
