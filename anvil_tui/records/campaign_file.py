"""A campaign file: what a paired campaign compares, how, and what it must show. `profiles/campaigns/*.toml`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from anvil_tui.records.acceptance import ArmRole, Condition
from anvil_tui.records.lane import Recipe, Text
from anvil_tui.records.plan import CapacityPlan, GatePlan, LadderPlan

DocumentKind = Literal["paired", "change"]
"""Which document it ends in: `paired-capacity-comparison/v1` or `controlled-change/v1`."""
LoadOrder = Literal["AB", "ABA", "ABBA", "random"]
WatchMeaning = Literal["route", "promotion", "other"]
ApiValue = Literal["max_model_len", "served_name", "engine_version"]


class CampaignArm(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One side: the lane, and what documents call it."""

    lane: Text
    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_]{0,39}$")] | None = None
    """Becomes a part of keys in the document (`<name>_values`); null: the arm's role."""
    recipe: Recipe = Recipe()
    """Settings that the lane must have; whoever writes the lane reads them here."""


class Arms(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two arms, or for a test of one lane the candidate alone."""

    candidate: CampaignArm
    baseline: CampaignArm | None = None


class NamedDifference(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A functional difference that the operator accepts beside the controlled ones."""

    field: Text
    """Key path; it covers all below it."""
    why: Text


class DeclaredInvariant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What must be the same in both arms, and the one thing that checks it."""

    text: Text
    field: Text | None = None
    """Key path in the lane profile: `recipe.…` or `identity.…`."""
    log: Text | None = None
    """A fact or figure of the start-up report: `kv_cache_dtype`."""
    env: Text | None = None
    """A variable of the launch."""
    api: ApiValue | None = None
    declared: bool = False
    """Nothing checks it: it stands in the document as declared."""


class Watched(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file or URL that is hashed before the first load and after the last."""

    means: WatchMeaning
    file: Text | None = None
    """Relative to the folder of the campaign file; may refer to `{site.…}`."""
    url: Annotated[str, Meta(pattern=r"^https?://[^\s]+$")] | None = None


class ExternalDocument(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What others wrote that this campaign builds on."""

    publisher: Text
    kind: Text
    url: Annotated[str, Meta(pattern=r"^https?://[^\s]+$")]
    relevance: Text


class Validation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command that is run at closeout; its output and exit code are kept."""

    name: Text
    command: Annotated[tuple[Text, ...], Meta(min_length=1)]
    """Program and arguments, no shell; may refer to `{site.…}`."""
    directory: Text = "."
    """Relative to the folder of the campaign file; may refer to `{site.…}`."""
    timeout_s: Annotated[float, Meta(gt=0)] = 900.0


class CampaignFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One campaign. `plans` and `run` know it by the stem of its file name."""

    schema: Literal["anvil-campaign/v1"] = "anvil-campaign/v1"
    name: Text
    """What it is called on screens and in reports."""
    about: str = ""
    document: DocumentKind | None = None
    """Null for a test of one lane: it ends in its acceptance conditions."""
    arms: Arms
    same_lane: bool = False
    """Both arms are the same lane: an A/A run that measures noise."""

    controlled_fields: tuple[Text, ...] = ()
    """Key paths that are meant to differ: `recipe.max_num_batched_tokens`."""
    operational_differences: tuple[Text, ...] = ()
    """`port`, `served model name`, `container name`, `log file`: what else differs without deciding behaviour."""
    undeclared_ok: tuple[NamedDifference, ...] = ()
    paired_variable: str | None = None
    invariants: tuple[DeclaredInvariant, ...] = ()

    order: LoadOrder | None = None
    """A is the baseline. Null where there is one arm."""
    seed: Annotated[int, Meta(ge=0)] | None = None
    """Of random order."""
    blocks: Annotated[int, Meta(ge=1, le=100)] = 1
    """A block is one load of each arm."""
    primary_metric: str | None = None
    equivalence_margin_pct: Annotated[float, Meta(gt=0, le=100)] = 2.0

    gate: GatePlan | None = None
    """Before the probes of a load."""
    capacity: CapacityPlan | None = None
    ladder: LadderPlan | None = None
    post_gate: GatePlan | None = None
    """After the last probe of a load."""
    gate_arms: tuple[ArmRole, ...] = ("baseline", "candidate")
    """On whose loads `gate` and `post_gate` run."""

    acceptance: tuple[Condition, ...] = ()
    watch: tuple[Watched, ...] = ()
    external_documentation: tuple[ExternalDocument, ...] = ()
    validation: tuple[Validation, ...] = ()
    qualification_mode: str | None = None
    post_session_owner: str | None = None
