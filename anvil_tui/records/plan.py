"""What a campaign will do, fixed and hashed before the first load."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from anvil_tui.records.gate import SEED_CHECKS, EvidencePolicy, GateBudget, GateCheckName
from anvil_tui.records.lane import Effort, Positive
from anvil_tui.records.request import OutputLength

Natural = Annotated[int, Meta(ge=0)]
Depth = Annotated[float, Meta(ge=0, le=1)]
"""Place in a prompt, 0 (start) to 1 (end)."""
CampaignKind = Literal["startup", "gate", "capacity", "ladder", "paired"]


class GatePlan(Struct, frozen=True, kw_only=True):
    """The functional checks, and what their answers must show."""

    checks: tuple[GateCheckName, ...] = SEED_CHECKS
    tool_batch: Annotated[int, Meta(ge=1, le=128)] = 20
    budget: GateBudget = GateBudget(visible_answer_tokens=512, reasoning_headroom_tokens=2048)
    policy: EvidencePolicy = EvidencePolicy()
    reasoning_effort: Effort | None = None
    needle_tokens: Positive | None = None
    needle_depths: tuple[Depth, ...] = (0.58,)


class LadderPlan(Struct, frozen=True, kw_only=True):
    """Rungs in tokens, in the order in which they run. One streamed request a rung."""

    targets: tuple[Positive, ...]
    """Fixed targets; with `bisect` the first prompt that is tried."""
    max_tokens: Positive
    margin: Natural
    reasoning_effort: Effort | None = None
    repetitions: Positive = 1
    bisect_tolerance: Positive | None = None
    """Search the longest prompt that is served, to this many tokens; null runs the targets as they stand."""
    needle_depths: tuple[Depth, ...] = ()
    """Hide a code at these depths of each target's prompt and ask for it, one request a depth, scored apart."""
    post_gate: GatePlan | None = None
    """The gate again after the longest rung."""


class CapacityPlan(Struct, frozen=True, kw_only=True):
    """Runs of equal requests, `concurrency` at a time. A run with a failed request is kept and replaced."""

    context_tokens: Positive
    max_tokens: Positive
    margin: Natural
    reasoning_effort: Effort | None = None
    concurrency: Annotated[int, Meta(ge=1, le=256)] = 1
    requests: Annotated[int, Meta(ge=1, le=10_000)] = 3
    runs: Positive = 3
    extra_runs: Natural = 2
    """How many failed runs are replaced at most."""
    warmup_requests: Annotated[int, Meta(ge=0, le=1_000)] = 1
    prefix: Literal["nonce", "shared"] = "nonce"
    shared_prefix_tokens: Natural = 0
    output_length: OutputLength = "natural"
    arrivals_per_s: Annotated[float, Meta(gt=0)] | None = None


MeasurePlan = GatePlan | CapacityPlan | LadderPlan
"""What is measured on one lane."""


class PlannedLoad(Struct, frozen=True, kw_only=True):
    """One load of one arm. `number` counts from 0, `block` from 1; a replay belongs to the block that it brackets."""

    number: int
    block: int
    arm: Literal["baseline", "candidate"]
    lane: str
    replay: bool = False


class CampaignPlan(Struct, frozen=True, kw_only=True):
    """One operator action from start to seal. `plan.json`; its SHA-256 stands in the journal."""

    schema: Literal["anvil-plan/v1"] = "anvil-plan/v1"
    campaign_id: str
    kind: CampaignKind
    lanes: tuple[str, ...]
    up: bool
    """Whether the campaign starts the lane where it is down."""
    rehearsal: bool
    nonce_seed: str
    """32 hex digits; every prompt's nonce follows from it and the request's number."""
    gate: GatePlan | None = None
    capacity: CapacityPlan | None = None
    ladder: LadderPlan | None = None
    loads: tuple[PlannedLoad, ...] = ()
    """Of a paired campaign, in order; what runs on each stands in `campaign.toml`."""
    campaign_sha256: str | None = None
    """Hash of `campaign.toml` as it was loaded."""
    accepted_differences: dict[str, str] = {}
    """Functional differences that the operator named at the start, and why."""
    campaign_name: str | None = None
    """Name of the campaign file, without `.toml`."""
    seal: bool = False
    """Seal and sign at the end, with an agent or a key that needs no passphrase; not what was stopped and can go on."""
    lane_sha256: dict[str, str] = {}
    """Hash of each lane profile as it was loaded."""
    created_at: str
    tool_version: str
