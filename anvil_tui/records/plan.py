"""What a campaign will do, fixed and hashed before the first load."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from anvil_tui.records.lane import Effort, Positive

CampaignKind = Literal["startup", "gate", "capacity", "ladder", "paired"]


class LadderPlan(Struct, frozen=True, kw_only=True):
    """Rungs in tokens, in the order in which they run. One streamed request a rung."""

    targets: tuple[Positive, ...]
    max_tokens: Positive
    margin: Annotated[int, Meta(ge=0)]
    reasoning_effort: Effort | None
    repetitions: Positive = 1


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
    ladder: LadderPlan | None = None
    seal: bool = False
    """Seal and sign at the end, with an agent or a key that needs no passphrase."""
    lane_sha256: dict[str, str] = {}
    """Hash of each lane profile as it was loaded."""
    created_at: str
    tool_version: str
