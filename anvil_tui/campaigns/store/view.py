"""A campaign at a glance: one frozen value, folded from the events of its journal."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from anvil_tui.campaigns.store.folder import CampaignFolder, Standing
from anvil_tui.campaigns.store.journal import JournalReader
from anvil_tui.records.acceptance import ArmRole
from anvil_tui.records.events import (
    AlarmRaised,
    BlockInterrupted,
    BlockLoadBegun,
    BlockLoadEnded,
    CampaignPlanned,
    Envelope,
    Event,
    LoadAdopted,
    LoadFailed,
    LoadReady,
    LoadStarted,
    PhaseReached,
    PlanRefused,
    RunFinished,
    RunInterrupted,
    RunnerEnded,
    RunnerStarted,
    RunSkipped,
    RunStarted,
    Sealed,
    StartupReported,
)
from anvil_tui.records.vram import Verdict

RunState = Literal["running", "passed", "failed", "interrupted", "skipped"]
LoadState = Literal["open", "whole", "cut short", "put aside"]
"""`put aside`: its block is redone whole, so nothing that was measured on it counts."""


@dataclass(frozen=True)
class RunView:
    """One run as the journal tells it; a skipped one has no name."""

    run: str | None
    what: str
    target_tokens: int | None
    state: RunState
    words: str = ""
    path: str | None = None
    reserve: Verdict | None = None
    load: int | None = None
    """Of a paired campaign: the place among the loads so far of the one that it ran on."""


@dataclass(frozen=True)
class LoadView:
    """One load of a paired campaign as the journal tells it."""

    number: int
    block: int
    arm: ArmRole
    lane: str
    replay: bool
    state: LoadState = "open"
    load_id: str | None = None
    startup_seconds: float | None = None
    report: str | None = None
    """Path of its start-up report in the folder."""
    words: str = ""


@dataclass(frozen=True)
class CampaignView:
    """All that an operator needs to know of a campaign."""

    id: str
    kind: str = ""
    lanes: tuple[str, ...] = ()
    rehearsal: bool = False
    began_at: str | None = None
    ended_at: str | None = None
    runner_boot: str | None = None
    lane: str | None = None
    """Whose turn it is: the lane of the newest load."""
    load_id: str | None = None
    startup_seconds: float | None = None
    max_model_len: int | None = None
    engine_version: str | None = None
    phase: str | None = None
    report: str | None = None
    """Path of the newest start-up report in the folder."""
    loads: tuple[LoadView, ...] = ()
    """Of a paired campaign: every load that was begun, in order; one that is redone stands there twice."""
    runs: tuple[RunView, ...] = ()
    alarms: tuple[str, ...] = ()
    words: str = ""
    """The last sentence of the campaign for the operator."""
    ending: str | None = None
    exit_code: int | None = None
    sealed: bool = False
    unknown: dict[str, int] = field(default_factory=dict)

    def standing(self, *, running: bool) -> Standing:
        """What the campaign is; `running` says whether a writer holds its journal."""
        if self.sealed:
            return "sealed"
        if running and self.ending is None:
            return "running"
        match self.ending:
            case "complete" | "stopped" | "failed":
                return self.ending
        return "interrupted"


def fold(view: CampaignView, envelope: Envelope, event: Event | None) -> CampaignView:
    """The view after one more event."""
    match event:
        case RunnerStarted():
            began = view.began_at or envelope.t
            return replace(view, began_at=began, runner_boot=event.boot_id, ending=None, ended_at=None, exit_code=None)
        case CampaignPlanned():
            return replace(view, kind=event.campaign_kind, lanes=event.lanes, rehearsal=event.rehearsal)
        case BlockLoadBegun():
            load = LoadView(event.number, event.block, event.arm, event.lane, event.replay)
            begun = replace(view, lane=event.lane, loads=(*view.loads, load))
            return replace(begun, load_id=None, startup_seconds=None, max_model_len=None, phase=None, report=None)
        case LoadStarted() | LoadAdopted():
            return replace(_newest(view, load_id=event.load_id), lane=event.lane, load_id=event.load_id)
        case PhaseReached():
            return replace(view, phase=event.phase)
        case LoadReady():
            return replace(
                _newest(view, startup_seconds=event.startup_seconds),
                phase="ready",
                startup_seconds=event.startup_seconds,
                max_model_len=event.max_model_len,
                engine_version=event.engine_version,
            )
        case LoadFailed():
            words = f"{event.words}; {event.cause}" if event.cause else event.words
            return replace(_newest(view, words=words), phase="failed", words=words)
        case StartupReported():
            return replace(_newest(view, report=event.path), report=event.path)
        case BlockLoadEnded():
            # What failed on it may have a cause, which the end of the load does not tell again.
            told = view.loads[-1].words if view.loads else ""
            words = told if told.startswith(event.words) else event.words
            return _newest(view, state="whole" if event.whole else "cut short", words=words)
        case BlockInterrupted():
            return replace(view, loads=tuple(_put_aside(one, event.block) for one in view.loads))
        case PlanRefused():
            return replace(view, words=event.words)
        case RunStarted():
            run = RunView(event.run, event.what, event.target_tokens, "running", load=_load_of_now(view))
            return replace(view, runs=(*view.runs, run))
        case RunFinished():
            state: RunState = "passed" if event.passed else "failed"
            return _settle(view, event.run, state, event.words, event.path, event.reserve)
        case RunInterrupted():
            return _settle(view, event.run, "interrupted", event.words, event.path, None)
        case RunSkipped():
            skipped = RunView(None, event.what, event.target_tokens, "skipped", event.words, load=_load_of_now(view))
            return replace(view, runs=(*view.runs, skipped))
        case AlarmRaised():
            return replace(view, alarms=(*view.alarms, event.words))
        case RunnerEnded():
            return replace(view, ending=event.ending, words=event.words, exit_code=event.exit_code, ended_at=envelope.t)
        case Sealed():
            return replace(view, sealed=True)
    return view


def _newest(view: CampaignView, **changes: Any) -> CampaignView:
    """The view with the newest load of a paired campaign changed; other campaigns have none."""
    return replace(view, loads=(*view.loads[:-1], replace(view.loads[-1], **changes))) if view.loads else view


def _load_of_now(view: CampaignView) -> int | None:
    return len(view.loads) - 1 if view.loads else None


def _put_aside(load: LoadView, block: int) -> LoadView:
    return replace(load, state="put aside") if load.block == block else load


def _settle(
    view: CampaignView, run: str, state: RunState, words: str, path: str | None, reserve: Verdict | None
) -> CampaignView:
    runs = tuple(
        replace(one, state=state, words=words, path=path, reserve=reserve) if one.run == run else one
        for one in view.runs
    )
    return replace(view, runs=runs)


class CampaignReader:
    """Reads a campaign as it grows: the view so far, and the events since the last look."""

    def __init__(self, folder: CampaignFolder) -> None:
        self.folder = folder
        self.view = CampaignView(folder.id)
        self._journal = JournalReader(folder.journal)

    @property
    def broken(self) -> str | None:
        """Where the journal's chain does not hold, if it does not."""
        return self._journal.broken

    def new(self) -> list[tuple[Envelope, Event | None]]:
        """The events since the last call; the view follows."""
        events = list(self._journal.new())
        for envelope, event in events:
            self.view = fold(self.view, envelope, event)
        if self._journal.unknown:
            self.view = replace(self.view, unknown=dict(self._journal.unknown))
        return events

    def standing(self) -> Standing:
        """What the campaign is now. Look at the lock before the journal: a runner writes its end while it holds it."""
        running = self.folder.running()
        self.new()
        return self.view.standing(running=running)


def read_view(folder: CampaignFolder) -> tuple[CampaignView, Standing]:
    """The view of a campaign and what it is now."""
    reader = CampaignReader(folder)
    standing = reader.standing()
    return reader.view, standing
