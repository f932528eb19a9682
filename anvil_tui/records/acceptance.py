"""Conditions that a result must meet, the facts that they are judged by, and how they stand."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from msgspec import Meta, Struct

from anvil_tui.records.vram import Verdict

ArmRole = Literal["baseline", "candidate"]
Whole = Annotated[int, Meta(ge=0)]


class HealthyStart(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="what", tag="healthy_start"
):
    """Every load of the arm came up and answered with its served name."""

    arm: ArmRole = "candidate"
    words: str = ""


class ReportedKvTokens(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="what", tag="reported_kv_tokens"
):
    """The start-up log of every load reports at least so many KV tokens."""

    at_least: Whole
    arm: ArmRole = "candidate"
    words: str = ""


class ActualPromptTokens(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="what", tag="actual_prompt_tokens"
):
    """A run that passed had a prompt above so many tokens, by the API's own count."""

    above: Whole
    arm: ArmRole = "candidate"
    words: str = ""


class GatePassed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="what", tag="gate"):
    """The functional gate before the probes passed on every load of the arm."""

    arm: ArmRole = "candidate"
    words: str = ""


class PostProbeGate(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="what", tag="post_probe_gate"
):
    """The functional gate after the last probe passed on every load of the arm."""

    arm: ArmRole = "candidate"
    words: str = ""


class NoRouteChange(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="what", tag="no_route_change"
):
    """What the campaign watches as the route is byte for byte the same before and after."""

    words: str = ""


class NoPromotionChange(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="what", tag="no_promotion_change"
):
    """The same of what it watches as the promotion."""

    words: str = ""


class MetricLimit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="what", tag="metric"):
    """A metric of the arm, median over its scored runs, lies within a limit. At least one of the two is set."""

    metric: str
    at_least: float | None = None
    at_most: float | None = None
    arm: ArmRole = "candidate"
    words: str = ""


class ReservePassed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="what", tag="reserve"):
    """The memory reserve of every GPU held in every run of the arm, whatever its policy."""

    arm: ArmRole = "candidate"
    words: str = ""


Condition = (
    HealthyStart
    | ReportedKvTokens
    | ActualPromptTokens
    | GatePassed
    | PostProbeGate
    | NoRouteChange
    | NoPromotionChange
    | MetricLimit
    | ReservePassed
)
"""`words` replaces the sentence that follows from the condition itself."""

V = TypeVar("V")


class Known(Struct, Generic[V], frozen=True, kw_only=True):
    """One fact and the artifacts of the campaign that tell it."""

    value: V
    evidence: tuple[str, ...]


class ArmFacts(Struct, frozen=True, kw_only=True):
    """What is known of an arm so far, in the order of time. An empty tuple: nothing yet."""

    starts: tuple[Known[bool], ...] = ()
    """One a load: whether it came up."""
    kv_tokens: tuple[Known[int], ...] = ()
    """As each start-up log reports them; a start that says none adds none."""
    prompt_tokens: tuple[Known[int], ...] = ()
    """API-counted prompt tokens of requests in runs that passed."""
    gates: tuple[Known[bool], ...] = ()
    post_gates: tuple[Known[bool], ...] = ()
    metrics: dict[str, Known[float]] = {}
    """Median over the scored runs so far, by the name of the run metric."""
    reserves: tuple[Known[Verdict], ...] = ()
    """One a run."""


class AcceptanceFacts(Struct, frozen=True, kw_only=True):
    """What is known of a campaign so far; its runner fills this."""

    baseline: ArmFacts = ArmFacts()
    candidate: ArmFacts = ArmFacts()
    route_changed: Known[bool] | None = None
    """Known once what is watched was hashed again at the end."""
    promotion_changed: Known[bool] | None = None
    finished: bool = False
    """Nothing more comes: what was not reached by now is not met."""


class ConditionState(Struct, frozen=True, kw_only=True):
    """How one condition stands, and what it rests on."""

    what: str
    """Its kind."""
    text: str
    state: Literal["met", "not met", "not yet known"]
    words: str
    """Why it stands so, with figures."""
    evidence: tuple[str, ...]


class AcceptanceDocument(Struct, frozen=True, kw_only=True):
    """`documents/acceptance.json`: how the conditions stood when the campaign ended."""

    schema: Literal["anvil-acceptance/v1"] = "anvil-acceptance/v1"
    campaign: str
    rehearsal: bool
    conditions: tuple[ConditionState, ...]
    comparison_refused: str | None = None
    """Why no comparison of the arms could be made."""
