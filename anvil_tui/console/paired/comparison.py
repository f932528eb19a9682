"""What is known of a paired campaign at one moment: frozen values that a thread reads and the compare screen shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from textual.message import Message

from anvil_tui.campaigns.store.folder import Standing
from anvil_tui.campaigns.store.view import CampaignView
from anvil_tui.console.paired.plotted import Plotted
from anvil_tui.console.paired.reserves import ReserveSoFar
from anvil_tui.records.acceptance import ArmRole, ConditionState
from anvil_tui.records.live import Live
from anvil_tui.records.plan import PlannedLoad

ByLoad = tuple[tuple[float | None, ...], ...]
"""Values of runs, those of one load together, loads in the order of time."""


@dataclass(frozen=True)
class ArmName:
    """One arm: what documents call it, and its lane."""

    name: str
    lane: str


@dataclass(frozen=True)
class StartFigures:
    """What one start reported. Null is not said."""

    kv_tokens: float | None = None
    kv_gib: float | None = None
    """Of the smallest rank."""
    concurrency: float | None = None
    peak_activation_gib: float | None = None
    """Of the largest rank."""
    startup_seconds: float | None = None


@dataclass(frozen=True)
class Metric:
    """One metric of both arms; what only one arm measured has no change."""

    name: str
    baseline: ByLoad
    candidate: ByLoad
    baseline_median: float | None
    candidate_median: float | None
    delta_percent: float | None
    low_percent: float | None
    high_percent: float | None
    level: float | None
    """Confidence of the interval; null where the range is that of run against run."""
    verdict: str
    words: str


@dataclass(frozen=True)
class Protocol:
    """The metrics of runs with the same prompt length and concurrency."""

    name: str
    metrics: tuple[Metric, ...]


@dataclass(frozen=True)
class Claim:
    """A sentence of the result; `missing` says what it lacks to be proven."""

    text: str
    missing: str = ""


@dataclass(frozen=True)
class Conclusions:
    """What follows from the artifacts so far, or what the document says at the end."""

    origin: str = ""
    """Where it is from: the document's path, or how many artifacts; empty where nothing can be compared yet."""
    starts: Mapping[int, StartFigures] = field(default_factory=dict)
    """By the place of the load among those begun."""
    reserves: Mapping[ArmRole, ReserveSoFar] = field(default_factory=dict)
    load_reserves: Mapping[int, ReserveSoFar] = field(default_factory=dict)
    """By the place of the load, as `starts`."""
    plotted: Plotted = field(default_factory=Plotted)
    protocols: tuple[Protocol, ...] = ()
    """The longest prompt first."""
    violated: tuple[str, ...] = ()
    """Invariants that do not hold."""
    gates: tuple[str, ...] = ()
    """How each arm's functional gates came out, in words."""
    kv: tuple[str, ...] = ()
    """What explains the reported KV tokens and their change."""
    proven: tuple[Claim, ...] = ()
    not_proven: tuple[Claim, ...] = ()
    caveats: tuple[str, ...] = ()
    decision: str = ""
    """The decision text that the document proposes."""
    refused: str = ""
    """Why no comparison can be made."""


@dataclass(frozen=True)
class Comparison:
    """A paired campaign as the compare screen shows it."""

    view: CampaignView
    standing: Standing
    title: str
    arms: Mapping[ArmRole, ArmName]
    planned: tuple[PlannedLoad, ...] = ()
    primary_metric: str | None = None
    live: Live | None = None
    acceptance: tuple[ConditionState, ...] = ()
    conclusions: Conclusions = Conclusions()
    decided: str | None = None
    """Name of the newest decision text in the folder."""

    @property
    def baseline(self) -> ArmName | None:
        return self.arms.get("baseline")

    @property
    def candidate(self) -> ArmName:
        return self.arms["candidate"]

    def last_start(self, arm: ArmRole) -> StartFigures | None:
        """The newest start of an arm that counts and reported something."""
        places = [at for at, load in enumerate(self.view.loads) if load.arm == arm and load.state != "put aside"]
        return next((self.conclusions.starts[at] for at in reversed(places) if at in self.conclusions.starts), None)


@dataclass
class CompareRead(Message):
    """The campaign on the compare screen was read."""

    comparison: Comparison

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, CompareRead)
