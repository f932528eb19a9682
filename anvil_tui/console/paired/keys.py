"""What the operator does with paired campaigns: each key reads in a thread, asks, then acts in a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.screen import ModalScreen

from anvil_tui.console.messages import ActDone, Done
from anvil_tui.console.paired import acts
from anvil_tui.console.screens.operator import OperatorScreen
from anvil_tui.console.screens.picker import PickerScreen
from anvil_tui.console.screens.text import TextScreen
from anvil_tui.console.snapshot import CampaignRow, Choice, Note
from anvil_tui.console.views.figures import outside
from anvil_tui.errors import BadInput

if TYPE_CHECKING:
    from anvil_tui.records.campaign_file import NamedDifference


class PairedOperatorScreen(OperatorScreen):
    """The keys of paired campaigns, beside those of the operator."""

    @property
    def _shown_row(self) -> CampaignRow | None:
        return self.desk.shown.row if self.desk.shown is not None else None

    def action_paired(self) -> None:
        """Pick a campaign file."""
        if self.refused("run.paired"):
            return
        self.console_app.acts.start("read the campaign files", acts.read_files, self._pick_file)

    def _pick_file(self, done: ActDone) -> None:
        if done.error is not None:
            self.note(done.error, "bad")
            return
        from anvil_tui.console.paired import outlook_view

        files: acts.CampaignFiles = done.value
        if not files:
            self.note(f"no campaign file in {self.console_app.locations.profiles / 'campaigns'}", "warn")
            return
        picker = PickerScreen(
            "Paired campaigns",
            lambda width: outlook_view.file_rows(files, width),
            lambda name, width: outlook_view.file_facts(files[name], width),
            "enter: see what it does    esc: leave",
        )
        self.app.push_screen(picker, lambda name: self._look_at(files, name))

    def _look_at(self, files: acts.CampaignFiles, name: str | None) -> None:
        if name is None:
            return
        found = files[name]
        if isinstance(found, BadInput):
            lines = [Content(outside(found.source, 1000)), *(Content(outside(str(one), 2000)) for one in found.faults)]
            self.app.push_screen(TextScreen(f"{outside(name, 60)} is not valid here", lines))
            return
        self.console_app.acts.start(f"look at {outside(name, 60)}", acts.prospect(found), self._show_prospect)

    def _show_prospect(self, done: ActDone) -> None:
        if done.error is not None:
            self.note(done.error, "bad")
            return
        from anvil_tui.console.paired.form import PairedScreen

        found: acts.Prospect = done.value
        campaign = found.campaign

        def begin(named: tuple[NamedDifference, ...], seal: bool, then: Done) -> None:
            self.console_app.acts.start("begin the paired campaign", acts.begin(campaign, named, seal=seal), then)

        self.app.push_screen(PairedScreen(found, begin), self._show_campaign)

    def action_compare(self) -> None:
        """Show the arms of the shown campaign side by side."""
        row = self._shown_row
        if self.refused("campaign.compare") or row is None:
            return
        from anvil_tui.console.paired.compare import CompareScreen
        from anvil_tui.console.paired.source import CompareSource

        # What its keys do is done with this campaign, whatever else begins meanwhile.
        self.console_app.desk.choose(Choice(campaign=row.folder.id))
        opened = len(self.own_notes)

        def newest() -> Note | None:
            return self.own_notes[-1] if len(self.own_notes) > opened else None

        screen = CompareScreen(self._act_below, newest, lambda post: CompareSource(row.folder, post))
        self.app.push_screen(screen)

    def _act_below(self, action: str) -> None:
        """An action of this screen for the compare screen that lies over it."""
        getattr(self, f"action_{action}")()

    def action_decide(self) -> None:
        """Edit the decision text of the shown campaign."""
        row = self._shown_row
        if self.refused("campaign.decide") or row is None:
            return

        def save(text: str, then: Done) -> None:
            self.console_app.acts.start("save the decision", acts.decide(row.folder, text), then)

        def edit(done: ActDone) -> None:
            if done.error is not None:
                self.note(done.error, "bad")
                return
            from anvil_tui.console.paired.decision import DecisionScreen

            self.app.push_screen(DecisionScreen(done.value, row.folder.id, save), self._signed)

        self.console_app.acts.start("look at the decision", acts.draft_decision(row.folder), edit)

    def action_report(self) -> None:
        """Tell where the report of the shown campaign is; it is written where there is none."""
        row = self._shown_row
        if self.refused("campaign.report") or row is None:
            return

        def tell(done: ActDone) -> None:
            if done.error is not None:
                self.note(done.error, "bad")
                return
            if isinstance(self.app.screen, ModalScreen):
                # Drawing takes seconds: the operator is at something else by now.
                self.note(f"the report: {done.value}", "good")
                return
            lines = [Content(outside(str(done.value), 2000)), Content("open it in a browser: it needs no network")]
            self.app.push_screen(TextScreen("Report", lines))

        self.note("looking for the report; it is written where there is none, or none with the decision")
        self.console_app.acts.start("the report", acts.report(row.folder), tell)
