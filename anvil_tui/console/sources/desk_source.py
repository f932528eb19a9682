"""Reads lanes, campaigns and the figures of the moment, and decides what is shown."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from anvil_tui import clock
from anvil_tui.campaigns.store.folder import CampaignFolder, all_campaigns
from anvil_tui.campaigns.store.follow import read_live
from anvil_tui.campaigns.store.view import CampaignReader
from anvil_tui.campaigns.store.words import event_words
from anvil_tui.console.messages import DeskRead
from anvil_tui.console.paired.acceptance import ACCEPTANCE, read_acceptance
from anvil_tui.console.snapshot import CampaignRow, Choice, Desk, LaneRow, Level, Note, RunFigures, Rung, Shown
from anvil_tui.console.sources.source import Post, Source
from anvil_tui.errors import AnvilError, BadInput
from anvil_tui.lanes.folder import LaneFolder, exit_words, loads
from anvil_tui.lanes.profile import Lane, all_lanes, profile_paths
from anvil_tui.locations import Locations
from anvil_tui.records import events
from anvil_tui.records.acceptance import ConditionState
from anvil_tui.records.artifact import RunArtifact
from anvil_tui.records.events import Envelope, Event
from anvil_tui.records.plan import CampaignPlan
from anvil_tui.records.startup_report import StartupReport

PERIOD_SECONDS = 0.2
_SLOW_LOOKS = 5
"""Lanes and the history change seldom: they are read at each fifth look, or when poked."""
_NOTES = 200


class DeskSource(Source):
    """One thread that reads the state folder five times a second."""

    def __init__(self, locations: Locations, post: Post, on_desk: Callable[[Desk], None] = lambda _: None) -> None:
        """`on_desk` is called in this thread with each new desk, before it is posted."""
        super().__init__("desk", PERIOD_SECONDS, post)
        self._locations = locations
        self._on_desk = on_desk
        self._choice = Choice()
        self._looks = itertools.count()
        self._fresh = True
        self._campaigns: dict[str, _Campaign] = {}
        self._lanes: dict[str, Lane | BadInput] = {}
        self._profile_stamps: tuple[tuple[Path, int | None], ...] = ()
        self._dead_loads: set[str] = set()
        self._desk = Desk()
        self._reports: dict[Path, tuple[int, StartupReport]] = {}

    def choose(self, choice: Choice) -> None:
        """Show this lane or campaign from now on."""
        self._choice = choice
        self.poke()

    def poke(self) -> None:
        self._fresh = True
        super().poke()

    def look(self) -> None:
        slow = next(self._looks) % _SLOW_LOOKS == 0 or self._fresh
        self._fresh = False
        running = [campaign for campaign in self._campaigns.values() if campaign.row.running]
        if not slow and not running:
            return
        desk = self._desk
        if slow:
            desk = self._read_slowly(desk)
        else:
            for campaign in running:
                campaign.read()
            desk = replace(desk, campaigns=tuple(one.row for one in self._campaigns.values()))
        lane, shown = focus(desk, self._choice)
        desk = replace(
            desk,
            lane=lane,
            shown=self._campaigns[shown].shown() if shown else None,
            past=past_rungs(tuple(self._campaigns.values())),
        )
        load = self._load(desk)
        self._desk = replace(desk, report=self._report(desk, load), log=load.log if load is not None else None)
        self._on_desk(self._desk)
        self.publish(DeskRead(self._desk))

    def _read_slowly(self, desk: Desk) -> Desk:
        """Lanes, and the campaigns that came or went."""
        faults: tuple[str, ...] = ()
        try:
            self._read_profiles()
        except BadInput as refused:
            faults = (str(refused),)
        rows = tuple(self._lane_row(name, lane) for name, lane in self._lanes.items())
        found = {folder.id: folder for folder in all_campaigns(self._locations.campaigns)}
        for name in self._campaigns.keys() - found.keys():
            del self._campaigns[name]
        for name, folder in found.items():
            if name not in self._campaigns:
                self._campaigns[name] = _Campaign(folder)
            self._campaigns[name].read()
        self._campaigns = dict(sorted(self._campaigns.items(), key=lambda item: item[1].order))
        campaigns = tuple(one.row for one in self._campaigns.values())
        return replace(desk, lanes=rows, campaigns=campaigns, faults=faults)

    def _read_profiles(self) -> None:
        """Read the profiles where one of their files changed. Raises BadInput for a bad machine file."""
        paths = [path for path, _ in profile_paths(self._locations).values()]
        stamps = tuple((path, _changed(path)) for path in (*paths, self._locations.machine))
        if stamps != self._profile_stamps:
            self._lanes = all_lanes(self._locations)
            self._profile_stamps = stamps

    def _lane_row(self, name: str, lane: Lane | BadInput) -> LaneRow:
        if isinstance(lane, BadInput):
            return LaneRow(name, None, "refused", words=str(lane))
        found = loads(self._locations.lanes, name)
        newest: LaneFolder | None = found[-1] if found else None
        for load in reversed(found):
            if load.load_id in self._dead_loads:
                continue
            match load.state():
                case "starting" | "up":
                    newest = load
                    break
                case "stopped" | "exited" | "gone":
                    self._dead_loads.add(load.load_id)
        if newest is None:
            return LaneRow(name, lane)
        state, launched = newest.state(), newest.launched()
        here = launched is not None and launched.boot_id == clock.boot_id()
        return LaneRow(
            name,
            lane,
            state,
            load_id=newest.load_id,
            launched_us=launched.mono_us if launched is not None and here else None,
            ready=newest.ready(),
            words=exit_words(newest) if state in ("exited", "stopped", "gone") else "",
        )

    def _load(self, desk: Desk) -> LaneFolder | None:
        """The load that is shown: the campaign's, else the lane's newest; none while a campaign has yet to begin it."""
        row = desk.shown.row if desk.shown is not None else None
        load_id = row.view.load_id if row is not None else None
        if load_id is None and desk.lane is not None and (row is None or not row.running):
            load_id = desk.lane.load_id
        return (
            None
            if load_id is None or desk.lane is None
            else LaneFolder(self._locations.lanes / desk.lane.name / load_id)
        )

    def _report(self, desk: Desk, load: LaneFolder | None) -> StartupReport | None:
        """The report of the load that is shown: the lane folder's own, else the campaign's copy."""
        paths = [] if load is None else [load.path / "startup_report.json"]
        if desk.shown is not None and desk.shown.row.view.report is not None:
            paths.append(desk.shown.row.folder.path / desk.shown.row.view.report)
        for path in paths:
            if (report := self._read_report(path)) is not None:
                return report
        return None

    def _read_report(self, path: Path) -> StartupReport | None:
        try:
            changed = path.stat().st_mtime_ns
            known = self._reports.get(path)
            if known is None or known[0] != changed:
                self._reports = {path: (changed, msgspec.json.decode(path.read_bytes(), type=StartupReport))}
        except (OSError, msgspec.MsgspecError):
            return None
        return self._reports[path][1]


class _Campaign:
    """A campaign that is read as it grows; what is over is not read again."""

    def __init__(self, folder: CampaignFolder) -> None:
        self.folder = folder
        self._reader = CampaignReader(folder)
        self._plan: CampaignPlan | None = None
        self._figures: dict[str, RunFigures] = {}
        self._seconds: dict[str, float] = {}
        self._started: dict[str, tuple[int, str | None]] = {}
        self._notes: list[Note] = []
        self._asked: set[str] = set()
        self._acceptance: tuple[ConditionState, ...] = ()
        self._boot: str | None = None
        self._began_us: int | None = None
        self._pid: int | None = None
        self._over = False
        try:
            self._plan = folder.plan()
        except AnvilError as fault:
            self._note(Note(clock.utc_now(), str(fault), "bad"))
        self.row = CampaignRow(folder, self._reader.view, "interrupted", self._plan, signed=False)

    @property
    def order(self) -> str:
        """Campaigns are sorted by the time in their id."""
        return self.folder.id

    def read(self) -> None:
        """Take in what is new."""
        if not self._over:
            running = self.folder.running()
            for envelope, event in self._reader.new():
                self._take(envelope, event)
            standing = self._reader.view.standing(running=running)
            if not running and self.folder.sealed:
                standing, self._over = "sealed", True
            self.row = replace(self.row, view=self._reader.view, standing=standing)
        if self.row.standing == "sealed":
            signatures = self.folder.path / "signatures"
            self.row = replace(self.row, signed=signatures.is_dir() and any(signatures.glob("*.sig")))

    def shown(self) -> Shown:
        """All that the screen tells of it."""
        here = self._boot == clock.boot_id()
        live = read_live(self.folder) if self.row.running else None
        return Shown(
            row=self.row,
            live=live,
            acceptance=live.acceptance if live is not None else self._acceptance,
            figures=dict(self._figures),
            seconds=dict(self._seconds),
            notes=tuple(self._notes),
            asked=frozenset(self._asked),
            began_us=self._began_us if here else None,
            pid=self._pid if here else None,
            broken=self._reader.broken,
        )

    def rungs(self) -> list[Rung]:
        """The rungs that passed, with how long they took."""
        return [
            Rung(run.target_tokens, self._seconds[run.run])
            for run in self.row.view.runs
            if run.run in self._seconds
            and run.what == "rung"
            and run.target_tokens is not None
            and run.state == "passed"
        ]

    @property
    def lane_key(self) -> str | None:
        """Lane and profile hash: rungs of another profile say nothing about this one."""
        if self._plan is None or len(self._plan.lanes) != 1:
            return None
        name = self._plan.lanes[0]
        return f"{name} {self._plan.lane_sha256.get(name, '')}"

    def _take(self, envelope: Envelope, event: Event | None) -> None:
        match event:
            case events.RunnerStarted():
                self._boot, self._pid, self._began_us = event.boot_id, event.pid, envelope.mono_us
                self._acceptance = ()
            case events.DocumentWritten() if event.schema == ACCEPTANCE:
                self._acceptance = read_acceptance(self.folder, event.path)
            case events.RunStarted():
                self._started[event.run] = (envelope.mono_us, self._boot)
            case events.RunFinished() | events.RunInterrupted():
                started = self._started.get(event.run)
                if isinstance(event, events.RunFinished) and started is not None and started[1] == self._boot:
                    self._seconds[event.run] = (envelope.mono_us - started[0]) / 1e6
                if event.path is not None and (figures := self._read_run(event.path)) is not None:
                    self._figures[event.run] = figures
            case events.Asked():
                self._asked.add(event.request)
        if words := event_words(event, envelope.kind):
            self._note(Note(envelope.t, words, note_level(event)))

    def _note(self, note: Note) -> None:
        self._notes = [*self._notes[-_NOTES:], note]

    def _read_run(self, path: str) -> RunFigures | None:
        try:
            artifact = msgspec.json.decode((self.folder.path / path).read_bytes(), type=RunArtifact)
        except (OSError, msgspec.MsgspecError):
            return None
        return run_figures(artifact)


def _changed(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def run_figures(artifact: RunArtifact) -> RunFigures:
    """What the screen tells of a run: its one request, or the medians of a capacity run; a gate leaves both open."""
    request = artifact.requests[0] if len(artifact.requests) == 1 else None
    figures: tuple[float | None, ...] = (None,) * 5
    if artifact.what == "capacity" and (over := artifact.metrics) is not None:
        rates = over.effective_prefill_tok_s_p50, over.decode_tok_s_p50
        figures = over.prompt_tokens_p50, over.ttft_p50_ms, *rates, over.e2e_p50_ms
    elif request is not None:
        rates = request.effective_prefill_tok_s, request.decode_tok_s
        figures = request.prompt_tokens, request.ttft_ms, *rates, request.e2e_ms
    prompt_tokens, ttft_ms, prefill, decode, e2e_ms = figures
    return RunFigures(
        prompt_tokens=prompt_tokens,
        ttft_ms=ttft_ms,
        prefill_tok_s=prefill,
        decode_tok_s=decode,
        e2e_ms=e2e_ms,
        output_tokens=request.output_tokens if request else None,
        outcome=request.outcome if request else "",
        reserve=artifact.reserve.verdict if artifact.reserve else None,
        policy=artifact.reserve.policy if artifact.reserve else None,
        checks=artifact.checks,
        words=artifact.words,
    )


def note_level(event: Event | None) -> Level:
    """How an event is coloured."""
    match event:
        case events.LoadReady() | events.RunFinished(passed=True) | events.RunnerEnded(ending="complete", exit_code=0):
            return "good"
        case events.LoadFailed() | events.RunFinished() | events.AlarmRaised() | events.PlanRefused():
            return "bad"
        case events.RunnerEnded(ending="failed"):
            return "bad"
        case events.RunnerEnded() | events.RunInterrupted() | events.RunSkipped() | events.SamplerFailed() | None:
            return "warn"
        case events.Recovered():
            return "warn"
    return "info"


def past_rungs(campaigns: tuple[_Campaign, ...]) -> dict[str, tuple[Rung, ...]]:
    """Measured rungs by lane and profile."""
    found: dict[str, tuple[Rung, ...]] = {}
    for one in campaigns:
        if one.lane_key is not None and (rungs := one.rungs()):
            found[one.lane_key] = (*found.get(one.lane_key, ()), *rungs)
    return found


def focus(desk: Desk, choice: Choice) -> tuple[LaneRow | None, str | None]:
    """The lane and the campaign to show: those that were chosen, else a run, else a living lane, else the newest."""
    by_id = {row.folder.id: row for row in desk.campaigns}
    chosen = by_id.get(choice.campaign or "")
    if chosen is not None:
        return desk.row(chosen.lane), chosen.folder.id
    lane = desk.row(choice.lane or "")
    if lane is None:
        running = [row for row in desk.campaigns if row.running]
        living = [row for row in desk.lanes if row.living]
        if running:
            return desk.row(running[-1].lane), running[-1].folder.id
        if not living and not desk.campaigns:
            return None, None
        lane = living[0] if living else desk.row(desk.campaigns[-1].lane)
        if lane is None:
            return None, desk.campaigns[-1].folder.id
    of_lane = [row.folder.id for row in desk.campaigns if lane.name in (row.lane, *row.lanes)]
    return lane, of_lane[-1] if of_lane else None
