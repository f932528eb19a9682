"""Reads one paired campaign for the compare screen, for as long as that is open."""

from __future__ import annotations

from anvil_tui import clock
from anvil_tui.campaigns.store.folder import CampaignFolder
from anvil_tui.campaigns.store.follow import read_live
from anvil_tui.campaigns.store.view import CampaignReader, CampaignView
from anvil_tui.console.paired.acceptance import ACCEPTANCE, judge_acceptance, read_acceptance
from anvil_tui.console.paired.comparison import ArmName, CompareRead, Comparison, Conclusions
from anvil_tui.console.sources.source import Post, Source
from anvil_tui.records.acceptance import ArmRole, ConditionState
from anvil_tui.records.campaign_file import CampaignArm, CampaignFile
from anvil_tui.records.events import Decided, DocumentWritten, Event, RunnerStarted
from anvil_tui.records.plan import CampaignPlan
from anvil_tui.records.validation import read_toml

PERIOD_SECONDS = 0.5
LEAST_SECONDS = 3.0
"""While a campaign runs its artifacts are read anew at most this often, and only when one was added."""


class CompareSource(Source):
    """One thread on one campaign folder: the journal and the live figures twice a second, the artifacts when new."""

    def __init__(self, folder: CampaignFolder, post: Post) -> None:
        super().__init__("comparison", PERIOD_SECONDS, post)
        self._folder = folder
        self._reader = CampaignReader(folder)
        self._file: CampaignFile | None = None
        self._plan: CampaignPlan | None = None
        self._documents: dict[str, str] = {}
        self._decided: str | None = None
        self._conclusions = Conclusions()
        self._read_of: object = None
        self._judged: tuple[ConditionState, ...] = ()
        self._judged_of: object = None
        self._read_us: int | None = None

    def look(self) -> None:
        """Read what is new and publish it. Raises BadInput and CannotRun for a folder that holds no paired campaign."""
        if self._file is None or self._plan is None:
            self._plan = self._folder.plan()
            self._file = read_toml(CampaignFile, self._folder.path / "campaign.toml")
        running = self._folder.running()
        for _, event in self._reader.new():
            self._take(event)
        view = self._reader.view
        standing = view.standing(running=running)
        self._conclude(view, self._file, running=standing == "running")
        acceptance = self._acceptance(view, self._file, running=standing == "running")
        live = read_live(self._folder) if standing == "running" else None
        self.publish(
            CompareRead(
                Comparison(
                    view=view,
                    standing=standing,
                    title=self._file.name,
                    arms=arm_names(self._file),
                    planned=self._plan.loads,
                    primary_metric=self._file.primary_metric,
                    live=live,
                    acceptance=live.acceptance if live is not None else acceptance,
                    conclusions=self._conclusions,
                    decided=self._decided,
                )
            )
        )

    def _take(self, event: Event | None) -> None:
        match event:
            case RunnerStarted():
                # What an earlier runner concluded is not what this one will.
                self._documents = {}
            case DocumentWritten():
                self._documents[event.schema] = event.path
            case Decided():
                self._decided = event.path

    def _conclude(self, view: CampaignView, file: CampaignFile, *, running: bool) -> None:
        """Read the artifacts where there are others than the last time."""
        # Only this thread needs them: they are no part of what the first screen waits for.
        from anvil_tui.console.paired.concluding import conclude
        from anvil_tui.evidence.documents import change, paired

        document = self._documents.get(change.SCHEMA) or self._documents.get(paired.SCHEMA)
        settled = tuple(run.path for run in view.runs if run.path is not None)
        there = (settled, tuple((load.report, load.state == "put aside") for load in view.loads), document, view.ending)
        now_us = clock.mono_us()
        too_soon = running and self._read_us is not None and now_us - self._read_us < LEAST_SECONDS * 1e6
        if there == self._read_of or too_soon:
            return
        self._conclusions = conclude(self._folder, view, file, document)
        self._read_of, self._read_us = there, clock.mono_us()

    def _acceptance(self, view: CampaignView, file: CampaignFile, *, running: bool) -> tuple[ConditionState, ...]:
        """Of the document, else judged once for the campaign as it broke off; a runner tells them itself."""
        path = self._documents.get(ACCEPTANCE)
        there = (path, len(view.runs), view.ending)
        if not running and there != self._judged_of:
            self._judged_of = there
            self._judged = judge_acceptance(self._folder, file) if path is None else read_acceptance(self._folder, path)
        return () if running else self._judged


def arm_names(file: CampaignFile) -> dict[ArmRole, ArmName]:
    """The arms of a campaign file, the baseline first."""

    def named(role: ArmRole, arm: CampaignArm) -> ArmName:
        return ArmName(arm.name or role, arm.lane)

    names: dict[ArmRole, ArmName] = {}
    if file.arms.baseline is not None:
        names["baseline"] = named("baseline", file.arms.baseline)
    return names | {"candidate": named("candidate", file.arms.candidate)}
