"""What the console knows at one moment: frozen values that the reading threads make and the widgets show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    # Only named here: the frame is painted before the rooms are loaded that make these values.
    from anvil_tui.campaigns.store.folder import CampaignFolder, Standing
    from anvil_tui.campaigns.store.view import CampaignView
    from anvil_tui.lanes.folder import LoadState
    from anvil_tui.lanes.profile import Lane
    from anvil_tui.records.acceptance import ConditionState
    from anvil_tui.records.artifact import Check
    from anvil_tui.records.live import Live
    from anvil_tui.records.load import Ready
    from anvil_tui.records.plan import CampaignPlan
    from anvil_tui.records.startup_report import StartupReport
    from anvil_tui.records.vram import Gpu, GpuReading, Policy, Verdict

Level = Literal["info", "good", "warn", "bad"]


@dataclass(frozen=True)
class Choice:
    """What the operator chose to see; None follows what happens."""

    lane: str | None = None
    campaign: str | None = None


@dataclass(frozen=True)
class LaneRow:
    """One lane: its profile, or why it is refused, and its load of now or the newest one."""

    name: str
    lane: Lane | None
    state: LoadState | Literal["down", "refused"] = "down"
    load_id: str | None = None
    launched_us: int | None = None
    """When the load was launched, on this boot's clock; null for a load of another boot."""
    ready: Ready | None = None
    words: str = ""
    """Why the profile is refused, or how the load ended."""

    @property
    def living(self) -> bool:
        return self.state in ("starting", "up")


@dataclass(frozen=True)
class CampaignRow:
    """One campaign of the history."""

    folder: CampaignFolder
    view: CampaignView
    standing: Standing
    plan: CampaignPlan | None
    signed: bool

    @property
    def lane(self) -> str:
        """The lane whose turn it is, or was last; the first one where none was up yet."""
        return self.view.lane or next(iter(self.lanes), "")

    @property
    def lanes(self) -> tuple[str, ...]:
        """Every lane of the campaign: a paired one has two."""
        return self.view.lanes or (self.plan.lanes if self.plan else ())

    @property
    def paired(self) -> bool:
        return self.plan is not None and self.plan.kind == "paired"

    @property
    def measures(self) -> bool:
        """Whether it measures one lane: a ladder, a gate or capacity runs."""
        return self.plan is not None and self.plan.kind in ("ladder", "gate", "capacity")

    @property
    def running(self) -> bool:
        return self.standing == "running"


@dataclass(frozen=True)
class RunFigures:
    """What the artifact of one run says."""

    prompt_tokens: float | None
    ttft_ms: float | None
    prefill_tok_s: float | None
    decode_tok_s: float | None
    e2e_ms: float | None
    output_tokens: int | None
    outcome: str
    reserve: Verdict | None
    policy: Policy | None
    checks: tuple[Check, ...]
    words: str


@dataclass(frozen=True)
class Note:
    """One sentence for the operator, with its wall-clock time."""

    at: str
    words: str
    level: Level = "info"


@dataclass(frozen=True)
class Shown:
    """The campaign that is on the screen."""

    row: CampaignRow
    live: Live | None
    figures: Mapping[str, RunFigures]
    seconds: Mapping[str, float]
    """How long each finished run took, from its start to its artifact, by the journal's monotonic stamps."""
    notes: tuple[Note, ...]
    asked: frozenset[str]
    """Names of the requests that the runner has taken."""
    began_us: int | None
    """When the newest runner began, on this boot's clock."""
    pid: int | None
    """The newest runner's process."""
    broken: str | None = None
    """Where the journal's chain does not hold."""
    acceptance: tuple[ConditionState, ...] = ()
    """How the conditions of a paired campaign stand: now, or at its end."""


@dataclass(frozen=True)
class Rung:
    """A measured rung of the past: what an estimate rests on."""

    target_tokens: int
    seconds: float


@dataclass(frozen=True)
class Desk:
    """Lanes and campaigns of one state folder, and which of them are shown."""

    lanes: tuple[LaneRow, ...] = ()
    campaigns: tuple[CampaignRow, ...] = ()
    """Oldest first."""
    lane: LaneRow | None = None
    shown: Shown | None = None
    report: StartupReport | None = None
    """The start-up report of the load that is shown, from its file; null where none is written yet."""
    log: Path | None = None
    """The log of that load: a figure of the report jumps to a line of it."""
    past: Mapping[str, tuple[Rung, ...]] = field(default_factory=dict)
    """Rungs that passed, by lane and profile hash (`name sha256`), of this state folder."""
    faults: tuple[str, ...] = ()
    """What could not be read."""
    unread: bool = False
    """Nobody has looked yet: what is missing here may be there."""

    @property
    def running(self) -> CampaignRow | None:
        """The campaign with a runner: the one that is shown where it runs, else the newest."""
        if self.shown is not None and self.shown.row.running:
            return self.shown.row
        return next((row for row in reversed(self.campaigns) if row.running), None)

    def row(self, lane: str) -> LaneRow | None:
        """The row of a lane."""
        return next((row for row in self.lanes if row.name == lane), None)


@dataclass(frozen=True)
class Bucket:
    """Free bytes of one GPU within one second."""

    second: int
    low: int
    high: int
    total: int
    count: int

    @property
    def mean(self) -> float:
        return self.total / self.count


@dataclass(frozen=True)
class GpuNow:
    """One GPU: the newest reading with its time, its history by second, its worst point."""

    gpu: Gpu
    reading: GpuReading | None
    at_us: int | None
    history: tuple[Bucket, ...] = ()
    worst: int | None = None
    """Least free bytes since this source of samples began."""
    worst_at: str | None = None


@dataclass(frozen=True)
class GpuSnapshot:
    """What is known of the GPUs. `lane` is whose GPUs these are; its reserve and policy are judged."""

    source: Literal["none", "console", "runner"] = "none"
    period_us: int = 0
    """Time between two samples as they reach the screen."""
    gpus: tuple[GpuNow, ...] = ()
    reserve_mib: int = 0
    policy: Policy = "off"
    rehearsal: bool = False
    failed: str | None = None
    hint: str = ""


class LogLine(NamedTuple):
    """One row of the log: its number since reading began, its place in the file, its sanitised text."""

    number: int
    offset: int
    text: str


@dataclass(frozen=True)
class LogSnapshot:
    """The log pane's content. `lines` are those that pass the filter."""

    path: Path | None = None
    lines: tuple[LogLine, ...] = ()
    kept: int = 0
    """Lines kept, before the filter."""
    size: int = 0
    warnings: int = 0
    errors: int = 0
    filter: str = ""
    fault: str | None = None
    """Why the filter or the file cannot be read."""
    page: int | None = None
    """Offset of the line that was jumped to; null while the end of the log is shown."""
    report: StartupReport | None = None
    """The start-up report as this log tells it so far."""
    grew_us: int | None = None
    """When the log last grew."""
    unread: bool = False
    """It is not known yet which log is shown."""


@dataclass(frozen=True)
class MeasureForm:
    """A form for a ladder, a gate or capacity runs as it was typed or chosen: its lines by name."""

    lines: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        return self.lines[name].strip()
