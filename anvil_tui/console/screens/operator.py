"""What the operator does with lanes, campaigns and bundles: each key asks, then acts in a thread."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from textual.content import Content
from textual.screen import Screen

from anvil_tui.console import acts
from anvil_tui.console.messages import ActDone, Done
from anvil_tui.console.refusals import refusals
from anvil_tui.console.screens.confirm import Answer, ConfirmScreen
from anvil_tui.console.screens.picker import PickerScreen
from anvil_tui.console.screens.text import TextScreen
from anvil_tui.console.snapshot import CampaignRow, Choice, Desk, LaneRow, Level, Note, Rung
from anvil_tui.console.stopping import StopAsked, patience_s, stop_question
from anvil_tui.console.views import history_view, startup_view
from anvil_tui.console.views.figures import outside
from anvil_tui.console.views.top_view import about

if TYPE_CHECKING:
    from anvil_tui.console.app import ConsoleApp
    from anvil_tui.console.views.measure_view import Measure
    from anvil_tui.records.events import Ask
    from anvil_tui.records.plan import MeasurePlan

_OWN_NOTES = 100


class OperatorScreen(Screen[None]):
    """The desk as it was read last, and the keys that act on it. The live screen paints it."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk(unread=True)
        self.own_notes: list[Note] = []
        self._stop = StopAsked()

    @property
    def console_app(self) -> ConsoleApp:
        """The app, by its own type."""
        return cast("ConsoleApp", self.app)

    def note(self, words: str, level: Level = "info") -> None:
        """Tell the operator something that the console itself did or could not do."""
        self.own_notes = [*self.own_notes[-_OWN_NOTES:], Note(self.console_app.now(), words, level)]
        self.paint_notes()

    def paint_notes(self) -> None:
        """Show the notes; the live screen knows where."""

    @property
    def refusals(self) -> dict[str, str]:
        """By the id of a key why it does nothing now."""
        return refusals(self.desk, read_only=self.console_app.read_only)

    def refused(self, id: str) -> bool:
        """Whether a key does nothing now; it says why."""
        why = self.refusals.get(id)
        if why is not None:
            self.note(why)
        return why is not None

    def _told(self, done: ActDone) -> None:
        """The outcome of an act that has no screen of its own."""
        self.note(done.error or str(done.value), "bad" if done.error else "good")
        self.console_app.desk.poke()

    def _past(self, lane: LaneRow | None) -> tuple[Rung, ...]:
        """Rungs that were measured with this lane's profile, outside the shown campaign."""
        if lane is None or lane.lane is None:
            return ()
        return self.desk.past.get(f"{lane.name} {lane.lane.sha256}", ())

    # Leaving.

    def action_leave(self) -> None:
        """Quit. A run is left alone unless the operator says otherwise."""
        if self.desk.running is None and not self.console_app.acts.open:
            self.app.exit(return_code=0)
            return
        self.console_app.acts.start("look at the hold", acts.hold_words, self._ask_leave)

    def _ask_leave(self, done: ActDone) -> None:
        running, busy = self.desk.running, self.console_app.acts.open
        lines = []
        if running is not None:
            where = f"The {about(running)} goes on without this screen"
            lines.append(Content(f"{where}; started again, the console finds it."))
        if words := done.error or done.value:
            lines.append(Content.styled(outside(words), "$text-warning"))
        if busy:
            lines.append(Content.styled(f"Not done yet: {', '.join(sorted(busy))}.", "$text-warning"))
        label = "Leave it running" if running is not None else "Leave"
        answers = [Answer("leave", label, "y", "primary"), Answer("cancel", "Cancel", "n")]
        if running is not None and not self.console_app.read_only:
            answers.insert(1, Answer("stop", "Stop it and leave", "s", "error"))
        question = ConfirmScreen("Leave the console?", Content("\n").join(lines), tuple(answers), escape="cancel")
        self.app.push_screen(question, lambda answer: self._leave(running, answer))

    def _leave(self, running: CampaignRow | None, answer: str | None) -> None:
        if answer == "leave":
            self.app.exit(return_code=0)
        elif answer == "stop" and running is not None:
            self.note("the runner is asked to stop; the console leaves when it has")
            self._stop = StopAsked(leave=True)
            self._ask_stop(running, "stop_now")

    # Keys: lanes and campaigns.

    def action_lanes(self) -> None:
        """Pick a lane: one that is down is started, another one is shown; read-only every one is shown."""
        if self.desk.unread:
            self.note("the lanes are being read")
            return
        lanes, now_us, starts = self.desk.lanes, self.console_app.now_us(), not self.console_app.read_only
        by_name = {lane.name: lane for lane in lanes}
        picker = PickerScreen(
            "Lanes",
            lambda width: history_view.lane_rows(lanes, now_us, width),
            lambda name, width: history_view.lane_facts(by_name[name], width, starts=starts),
            "enter: start or show    esc: leave" if starts else "enter: show    esc: leave",
            self.desk.lane.name if self.desk.lane is not None else None,
        )
        self.app.push_screen(picker, self._use_lane)

    def _use_lane(self, name: str | None) -> None:
        row = self.desk.row(name or "")
        if row is None:
            return
        if row.lane is None:
            self.note(f"{row.name}: its profile is refused: {row.words}", "bad")
            return
        self.console_app.desk.choose(Choice(lane=row.name))
        if row.living or row.lane.kind == "attach":
            return
        if self.console_app.read_only:
            self.note(f"READ ONLY: {row.name} is shown, not started")
            return
        self.note(f"starting {row.name}")
        self.console_app.acts.start(f"start {row.name}", acts.begin_startup(row.lane), self._begun)

    def _begun(self, done: ActDone) -> None:
        if done.error is not None:
            self.note(done.error, "bad")
            return
        self.console_app.desk.choose(Choice(campaign=done.value))

    def action_campaigns(self) -> None:
        """Pick a campaign of the history."""
        campaigns = self.desk.campaigns
        if self.refused("campaign.pick"):
            return
        by_id = {row.folder.id: row for row in campaigns}
        picker = PickerScreen(
            "Campaigns",
            lambda width: history_view.campaign_rows(campaigns, width),
            lambda id, width: history_view.campaign_facts(by_id[id], width),
            "enter: show    esc: leave",
            self.desk.shown.row.folder.id if self.desk.shown is not None else None,
        )
        self.app.push_screen(picker, self._show_campaign)

    def _show_campaign(self, id: str | None) -> None:
        if id is not None:
            self.console_app.desk.choose(Choice(campaign=id))

    def action_ladder(self) -> None:
        from anvil_tui.console.views.ladder_view import LADDER

        self._measure("run.ladder", LADDER)

    def action_gate(self) -> None:
        from anvil_tui.console.views.gate_view import GATE

        self._measure("run.gate", GATE)

    def action_capacity(self) -> None:
        from anvil_tui.console.views.capacity_view import CAPACITY

        self._measure("run.capacity", CAPACITY)

    def _measure(self, key: str, measure: Measure) -> None:
        """Ask by a form what is to be measured on the lane that is shown."""
        lane = self.desk.lane
        if self.refused(key) or lane is None or lane.lane is None:
            return
        from anvil_tui.console.screens.measure_form import MeasureScreen

        profile = lane.lane

        def begin(plan: MeasurePlan, up: bool, done: Done) -> None:
            self.console_app.acts.start(measure.act, acts.begin_measuring(profile, plan, up=up), done)

        form = measure.first_form(lane, self.desk.campaigns)
        screen = MeasureScreen(measure, form, lane, self._past(lane), begin)
        self.app.push_screen(screen, self._show_campaign)

    def action_stop_lane(self) -> None:
        lane = self.desk.lane
        if self.refused("lane.stop") or lane is None:
            return
        state = startup_view.lane_words(lane, self.console_app.now_us())
        words = [Content(f"{outside(f'{lane.name}, load {lane.load_id}', 200)}: {state}.")]
        running = self.desk.running
        if running is not None and running.lane == lane.name:
            words.append(
                Content.styled("A campaign measures it now: its open run fails when the lane dies.", "$text-warning")
            )
        answers = (Answer("cancel", "Cancel", "n"), Answer("stop", "Stop the lane", "y", "error"))

        def act(answer: str | None) -> None:
            if answer == "stop":
                self.note(f"stopping {lane.name}")
                self.console_app.acts.start(f"stop {lane.name}", acts.stop_lane(lane.name), self._told)

        self.app.push_screen(ConfirmScreen("Stop the lane?", Content("\n").join(words), answers), act)

    # Keys: the run.

    def action_stop_run(self) -> None:
        """Ask, then SIGTERM, then SIGKILL: each only when the one before was not heard."""
        row = self.desk.running
        if self.refused("run.stop") or row is None:
            return
        if self._stop.campaign != row.folder.id:
            self._stop = StopAsked()
        title, words, answers = stop_question(row, self._stop, self.console_app.now_us())
        self.app.push_screen(ConfirmScreen(title, words, answers), lambda answer: self._do_stop(row, answer))

    def _do_stop(self, row: CampaignRow, answer: str | None) -> None:
        match answer:
            case "stop_now" | "stop_after_request" | "skip_rung":
                self._ask_stop(row, answer)
            case "term" | "kill":
                number = signal.SIGTERM if answer == "term" else signal.SIGKILL
                self._stop = replace(self._stop, termed_us=self.console_app.now_us())
                self.console_app.acts.start(
                    f"{number.name} to the runner", acts.signal_runner(row.folder, number), self._told
                )

    def _ask_stop(self, row: CampaignRow, what: Ask) -> None:
        def asked(done: ActDone) -> None:
            if done.error is not None:
                self.note(done.error, "bad")
                return
            self._stop = StopAsked(row.folder.id, done.value, self.console_app.now_us(), leave=self._stop.leave)

        self.console_app.acts.start("ask the runner", acts.ask(row.folder, what), asked)

    def _watch_stop(self) -> None:
        """Say once when the runner does not take a request, and leave when a stop for that is done."""
        stop, shown = self._stop, self.desk.shown
        if not stop.campaign or shown is None or shown.row.folder.id != stop.campaign:
            return
        if not shown.row.running:
            if stop.leave:
                self.app.exit(return_code=0)
            self._stop = StopAsked()
        elif stop.request in shown.asked and not stop.heard:
            self._stop = replace(stop, heard=True)
        elif not stop.heard and not stop.told and stop.step(self.console_app.now_us()) == "term":
            self.note(f"the runner has not answered for {patience_s():g} s: x offers SIGTERM", "bad")
            self._stop = replace(stop, told=True)

    def action_resume(self) -> None:
        row = self.desk.shown.row if self.desk.shown is not None else None
        if self.refused("run.resume") or row is None:
            return
        words = (
            "its open block is redone whole; blocks that are done stay"
            if row.paired
            else "it goes on with its next run; nothing that was measured is measured again"
        )
        words = f"{outside(row.folder.id, 200)}: {words}."
        answers = (Answer("cancel", "Cancel", "n"), Answer("resume", "Go on", "y", "primary"))

        def act(answer: str | None) -> None:
            if answer == "resume":
                self.console_app.acts.start("resume", acts.resume(row.folder), self._begun)

        self.app.push_screen(ConfirmScreen("Resume the campaign?", words, answers), act)

    def action_acknowledge(self) -> None:
        row = self.desk.running
        if self.refused("alarm.acknowledge") or row is None:
            return
        self.console_app.acts.start(
            "acknowledge",
            acts.ask(row.folder, "acknowledge_alarm"),
            lambda done: self.note(done.error, "bad") if done.error else None,
        )

    # Keys: the bundle.

    def action_seal(self) -> None:
        row = self.desk.shown.row if self.desk.shown is not None else None
        if self.refused("bundle.make") or row is None:
            return

        def ask(done: ActDone) -> None:
            if done.error is not None:
                self.note(done.error, "bad")
                return
            from anvil_tui.console.screens.seal import SealScreen

            found: acts.Signing = done.value

            def sign(principal: str, passphrase: bytes | None, then: Done) -> None:
                self.console_app.acts.start(
                    "seal and sign", acts.seal_and_sign(row.folder, principal, passphrase), then
                )

            screen = SealScreen(row, found.key, found.principal, found.decided, sign)
            self.app.push_screen(screen, lambda words: self._signed(words))

        self.console_app.acts.start("look at the keys", acts.signing(row.folder), ask)

    def _signed(self, words: str | None) -> None:
        if words is not None:
            self.note(words, "good")
        self.console_app.desk.poke()

    def action_verify(self) -> None:
        row = self.desk.shown.row if self.desk.shown is not None else None
        if self.refused("bundle.verify") or row is None:
            return

        def tell(done: ActDone) -> None:
            if done.error is not None:
                self.note(done.error, "bad")
                return
            from anvil_tui.console.views import bundle_view

            self.app.push_screen(TextScreen("Verification", bundle_view.verification_lines(done.value)))

        self.console_app.acts.start("verify", acts.verify_bundle(row.folder), tell)
