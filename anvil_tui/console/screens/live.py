"""The live screen: the workstation as it is, and every key that acts on it."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Input, OptionList

from anvil_tui import clock
from anvil_tui.campaigns import control
from anvil_tui.console import acts
from anvil_tui.console.keys import KEYS, bindings
from anvil_tui.console.messages import ActDone, DeskRead, GpusRead, LogRead, SourceFailed
from anvil_tui.console.screens.confirm import Answer, ConfirmScreen
from anvil_tui.console.screens.ladder_form import LadderScreen
from anvil_tui.console.screens.picker import PickerScreen
from anvil_tui.console.screens.seal import SealScreen
from anvil_tui.console.screens.text import TextScreen
from anvil_tui.console.snapshot import CampaignRow, Desk, GpuSnapshot, LaneRow, Level, LogSnapshot, Note
from anvil_tui.console.sources.desk_source import Choice
from anvil_tui.console.stopping import StopAsked, stop_question
from anvil_tui.console.views import (
    bundle_view,
    history_view,
    keys_view,
    ladder_view,
    log_view,
    notes_view,
    rungs_view,
    startup_view,
    top_view,
)
from anvil_tui.console.views.figures import outside
from anvil_tui.console.widgets.gpu_row import GpuRow
from anvil_tui.console.widgets.line import Line
from anvil_tui.console.widgets.log_pane import LogPane
from anvil_tui.console.widgets.row_list import RowList

if TYPE_CHECKING:
    from anvil_tui.console.app import ConsoleApp

FLUSH_HZ = 10
LEAST_WIDTH, LEAST_HEIGHT = 60, 20
_BUSY_FLUSHES, _CALM_FLUSHES = 5, 10
"""Figures and ages are painted twice a second while something runs, else once; the log at each flush that brings one."""
_OWN_NOTES = 100
_PANES = {"gpus": "#gpus", "rungs": "#rungs", "startup": "#startup", "log": "#log"}


class LiveScreen(Screen[None]):
    """Takes what the threads read, paints it ten times a second at most, and turns keys into acts."""

    BINDINGS: ClassVar[list[BindingType]] = bindings()
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (32, "-medium"), (44, "-tall")]

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk()
        self.gpus = GpuSnapshot()
        self.log_read = LogSnapshot()
        self._own_notes: list[Note] = []
        self._faults: tuple[str, ...] = ()
        self._log_is_new = False
        self._flushes = 0
        self._paused: int | None = None
        self._zoomed = ""
        self._stop = StopAsked()
        self._alarmed = False

    @property
    def console_app(self) -> ConsoleApp:
        """The app, by its own type."""
        return cast("ConsoleApp", self.app)

    def compose(self) -> ComposeResult:
        yield Line("too-small")
        with Vertical(id="body"):
            yield Line("top")
            yield GpuRow(id="gpus")
            with Horizontal(id="middle"):
                with Vertical(id="rungs-box", classes="box"):
                    yield Line("rungs-head")
                    yield RowList("rungs")
                    yield Line("rungs-hint")
                with Vertical(id="startup-box", classes="box"):
                    yield RowList("startup")
            with Vertical(id="log-box", classes="box"):
                yield LogPane("log")
                yield Input(id="filter", placeholder="filter: a word or a regular expression, ! inverts", compact=True)
            yield Line("notes")
            yield Line("keys")

    def on_mount(self) -> None:
        self.query_one("#filter", Input).cursor_blink = False
        self.query_one("#rungs-box").border_title = "Rungs"
        self.query_one("#startup-box").border_title = "Start-up"
        self.query_one("#log").focus()
        self.set_interval(1 / FLUSH_HZ, self.flush)
        self.flush()

    def on_resize(self, event: Resize) -> None:
        width, height = event.size
        small = width < LEAST_WIDTH or height < LEAST_HEIGHT
        self.set_class(small, "-too-small")
        words = f"Terminal too small: have {width}x{height}, need {LEAST_WIDTH}x{LEAST_HEIGHT} (q quits)"
        self.query_one("#too-small", Line).say(Content(words))
        self.call_after_refresh(self.paint)

    # What the threads read: each is painted by the next flush, and a change of what is shown at once.

    @on(DeskRead)
    def take_desk(self, message: DeskRead) -> None:
        self._hold(message)
        if self._paused is None:
            moved = shape(self.desk) != shape(message.desk)
            self.desk = message.desk
            if moved:
                self._flushes = 0
        self._faults = tuple(name for name in self._faults if name != "desk")

    @on(GpusRead)
    def take_gpus(self, message: GpusRead) -> None:
        self._hold(message)
        if self._paused is None:
            self.gpus = message.gpus
        self._faults = tuple(name for name in self._faults if name != "gpus")

    @on(LogRead)
    def take_log(self, message: LogRead) -> None:
        self._hold(message)
        if self._paused is None:
            self.log_read, self._log_is_new = message.log, True
        self._faults = tuple(name for name in self._faults if name != "log")

    @on(SourceFailed)
    def tell_fault(self, message: SourceFailed) -> None:
        if message.source not in self._faults:
            self._faults = (*self._faults, message.source)
            self.note(f"reading {message.source} failed: {message.words}", "bad")

    def _hold(self, message: object) -> None:
        if self._paused is not None:
            self._paused += 1

    # Painting.

    def flush(self) -> None:
        """Paint what is new; figures and ages twice a second."""
        if self._log_is_new:
            self._log_is_new = False
            self.query_one(LogPane).show_log(self.log_read)
        self._flushes += 1
        if self._flushes % (_BUSY_FLUSHES if self.busy else _CALM_FLUSHES) == 1:
            self.paint()
        self._watch_stop()

    @property
    def busy(self) -> bool:
        """Whether a campaign runs or a lane comes up."""
        return self.desk.running is not None or (self.desk.lane is not None and self.desk.lane.state == "starting")

    def paint(self) -> None:
        """Paint all but the log's rows."""
        if not self.is_mounted or self.has_class("-too-small"):
            return
        now_us = clock.mono_us()
        desk, width = self.desk, self.size.width
        with self.app.batch_update():
            self.query_one("#top", Line).say(
                top_view.top_line(
                    desk,
                    self.gpus,
                    now_us=now_us,
                    time=self.console_app.time(),
                    width=width,
                    paused=self._paused,
                    faults=self._faults,
                )
            )
            self.query_one(GpuRow).show_gpus(self.gpus, desk, now_us)
            self._paint_middle(now_us)
            self._paint_notes(width)
            pane = self.query_one(LogPane)
            self.query_one("#log-box").border_title = log_view.log_title(
                self.log_read, follow=pane.follow, below=pane.below, now_us=now_us, width=width - 6
            )
            self.query_one("#log-box").border_subtitle = Content(outside(self.log_read.fault or "", 80))
            self.query_one("#keys", Line).say(keys_view.key_line(KEYS, self._dim_keys(), width))
        self._ring_once()

    def _paint_middle(self, now_us: int) -> None:
        desk, shown = self.desk, self.desk.shown
        starting = desk.lane is not None and desk.lane.state in ("launching", "starting")
        is_ladder = shown is not None and shown.row.plan is not None and shown.row.plan.ladder is not None
        if self._zoomed == "" and not self.query_one("#startup").has_focus:
            self.set_class(starting or (shown is not None and not is_ladder), "-startup")
        box = self.query_one("#rungs-box")
        rungs, head = self.query_one("#rungs", RowList), self.query_one("#rungs-head", Line)
        if shown is not None and is_ladder:
            past = self._past(desk.lane)
            head.say(rungs_view.header(rungs.row_width))
            newest = next((run.run for run in reversed(shown.row.view.runs) if run.run is not None), None)
            rungs.show_rows(rungs_view.rung_rows(shown, past, now_us, rungs.row_width), seen=newest)
            box.border_title = Content(f"Rungs  {outside(shown.row.folder.id, 80)}")
        else:
            box.border_title = "Rungs"
            self.query_one("#rungs-hint", Line).say(startup_view.first_step(desk))
        box.set_class(not is_ladder, "-empty")
        startup = self.query_one("#startup", RowList)
        startup.show_rows(startup_view.startup_rows(desk.lane, self.report, now_us, startup.row_width))

    def _paint_notes(self, width: int) -> None:
        notes = notes_view.merged(self.desk.shown.notes if self.desk.shown else (), self._own_notes)
        line = self.query_one("#notes", Line)
        line.say(notes_view.note_lines(notes, width - 2, line.size.height))

    @property
    def report(self):  # type: ignore[no-untyped-def]
        """The start-up report: the load's own where it is written, else what its log says so far."""
        return self.desk.report if self.desk.report is not None else self.log_read.report

    def _past(self, lane: LaneRow | None):  # type: ignore[no-untyped-def]
        """Rungs that were measured with this lane's profile, outside the shown campaign."""
        if lane is None or lane.lane is None:
            return ()
        return self.desk.past.get(f"{lane.name} {lane.lane.sha256}", ())

    def _dim_keys(self) -> frozenset[str]:
        """Keys that do nothing now."""
        lane, shown = self.desk.lane, self.desk.shown
        row = shown.row if shown is not None else None
        dim = set()
        if self.desk.running is None:
            dim.add("run.stop")
        if lane is None or not lane.living:
            dim.add("lane.stop")
        if lane is None or lane.lane is None:
            dim.add("run.ladder")
        if row is None or row.running or row.signed:
            dim.add("bundle.make")
        if row is None or row.standing != "sealed":
            dim.add("bundle.verify")
        if row is None or row.standing not in ("interrupted", "stopped"):
            dim.add("run.resume")
        return frozenset(dim)

    def _ring_once(self) -> None:
        """One bell a crossing of the reserve; the word stays on the screen for as long as the cause lasts."""
        alarm = top_view.worst(self.desk, self.gpus, clock.mono_us()).word.startswith("ALARM")
        if alarm and not self._alarmed:
            self.app.bell()
        self._alarmed = alarm

    def note(self, words: str, level: Level = "info") -> None:
        """Tell the operator something that the console itself did or could not do."""
        self._own_notes = [*self._own_notes[-_OWN_NOTES:], Note(clock.utc_now(), words, level)]
        if self.is_mounted:
            self._paint_notes(self.size.width)

    def _told(self, done: ActDone) -> None:
        """The outcome of an act that has no screen of its own."""
        self.note(done.error or str(done.value), "bad" if done.error else "good")
        self.console_app.desk.poke()

    # Keys: console and panes.

    def action_leave(self) -> None:
        """Quit. A run is left alone unless the operator says otherwise."""
        running, busy = self.desk.running, self.console_app.acts.open
        if running is None and not busy:
            self.app.exit(return_code=0)
            return
        lines = []
        if running is not None:
            kind = running.view.kind or "campaign"
            lines.append(
                Content(
                    f"The {kind} on {outside(running.lane, 64)} goes on without this screen; started again, it is found."
                )
            )
            if words := self.console_app.hold_words():
                lines.append(Content.styled(words, "$text-warning"))
        if busy:
            lines.append(Content.styled(f"Not done yet: {', '.join(sorted(busy))}.", "$text-warning"))
        answers = [
            Answer("leave", "Leave it running" if running else "Leave", "y", "primary"),
            Answer("cancel", "Cancel", "n"),
        ]
        if running is not None:
            answers.insert(1, Answer("stop", "Stop it and leave", "s", "error"))
        question = ConfirmScreen("Leave the console?", Content("\n").join(lines), tuple(answers), escape="cancel")

        def leave(answer: str | None) -> None:
            if answer == "leave":
                self.app.exit(return_code=0)
            elif answer == "stop" and running is not None:
                self.note("asked the runner to stop; leaving when it is done")
                self._ask_stop(running, "stop_now")
                self._stop = replace(self._stop, campaign=running.folder.id, asked_us=clock.mono_us(), leave=True)

        self.app.push_screen(question, leave)

    def action_help(self) -> None:
        self.app.push_screen(TextScreen("Keys", keys_view.help_lines(KEYS)))

    def action_palette(self) -> None:
        self.app.action_command_palette()

    def action_redraw(self) -> None:
        self.refresh(repaint=True, layout=True)
        self.app.refresh(repaint=True)

    def action_screenshot(self) -> None:
        self.console_app.save_picture()

    def action_pause(self) -> None:
        """Freeze the display or let it go on."""
        self._paused = 0 if self._paused is None else None
        if self._paused is None:
            self.console_app.poke()
        self.paint()

    def action_pane(self, name: str) -> None:
        """Go to a pane."""
        if self.has_class("-narrow"):
            self.set_class(name == "startup", "-startup") if name in ("startup", "rungs") else None
        if self._zoomed:
            self._zoom(name)
        self.query_one(_PANES[name]).focus()

    def action_notes(self) -> None:
        notes = notes_view.merged(self.desk.shown.notes if self.desk.shown else (), self._own_notes)
        lines = [notes_view.note_line(note, 2000) for note in notes] or [Content("no message yet")]
        self.app.push_screen(TextScreen("Messages", lines, at_end=True))

    def action_zoom(self) -> None:
        """Give the focused pane the screen, or take it back."""
        focused = self.focused
        name = next((name for name, query in _PANES.items() if focused is self.query_one(query)), "")
        self._zoom("" if self._zoomed else name)

    def _zoom(self, name: str) -> None:
        for one in _PANES:
            self.set_class(one == name, f"-zoom-{one}")
        self._zoomed = name
        self.call_after_refresh(self.paint)

    def action_escape(self) -> None:
        """Back: out of the zoom, out of the jump, out of the filter."""
        if self._zoomed:
            self._zoom("")
        elif self.log_read.page is not None:
            self.action_follow()
        else:
            self._close_filter(clear=True)

    # Keys: log.

    def action_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.add_class("-open")
        field.focus()

    @on(Input.Changed, "#filter")
    def filter_log(self, event: Input.Changed) -> None:
        self.console_app.log_source.filter(event.value)

    @on(Input.Submitted, "#filter")
    def keep_filter(self) -> None:
        self._close_filter(clear=False)

    def _close_filter(self, *, clear: bool) -> None:
        field = self.query_one("#filter", Input)
        if clear:
            field.value = ""
        if not field.value:
            field.remove_class("-open")
        self.query_one("#log").focus()

    def action_follow(self) -> None:
        self.console_app.log_source.jump(None)
        self.query_one(LogPane).go_end()
        self.paint()

    def action_log_end(self) -> None:
        self.action_follow()

    def action_log_top(self) -> None:
        self.query_one(LogPane).go_top()
        self.paint()

    def action_log_error(self) -> None:
        if not self.query_one(LogPane).go_error():
            self.note("no error line in the lines that are kept")
        self.paint()

    @on(OptionList.OptionSelected, "#startup")
    def jump_to_line(self, event: OptionList.OptionSelected) -> None:
        offset = startup_view.offset_of(event.option_id or "")
        if offset is None:
            return
        self._close_filter(clear=True)
        self.console_app.log_source.jump(offset)

    @on(OptionList.OptionSelected, "#rungs")
    def show_run(self, event: OptionList.OptionSelected) -> None:
        shown = self.desk.shown
        run = next((run for run in shown.row.view.runs if run.run == event.option_id), None) if shown else None
        if shown is not None and run is not None:
            figures = shown.figures.get(run.run or "")
            self.app.push_screen(TextScreen(outside(run.run or "", 100), rungs_view.run_detail(run, figures)))

    # Keys: lanes and campaigns.

    def action_lanes(self) -> None:
        """Pick a lane: one that is down is started, another one is shown."""
        now_us = clock.mono_us()
        rows = history_view.lane_rows(self.desk.lanes, now_us)
        facts = {lane.name: history_view.lane_facts(lane) for lane in self.desk.lanes}
        at = self.desk.lane.name if self.desk.lane is not None else None
        self.app.push_screen(
            PickerScreen("Lanes", rows, facts, "enter: start or show    esc: leave", at), self._use_lane
        )

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
        self.note(f"starting {row.name}")
        self.console_app.acts.start(f"start {row.name}", acts.begin_startup(row.lane), self._begun)

    def _begun(self, done: ActDone) -> None:
        if done.error is not None:
            self.note(done.error, "bad")
            return
        self.console_app.desk.choose(Choice(campaign=done.value))

    def action_campaigns(self) -> None:
        """Pick a campaign of the history."""
        rows = history_view.campaign_rows(self.desk.campaigns, clock.mono_us())
        if not rows:
            self.note("no campaign yet: u starts a lane, l climbs a ladder")
            return
        facts = {row.folder.id: history_view.campaign_facts(row) for row in self.desk.campaigns}
        at = self.desk.shown.row.folder.id if self.desk.shown is not None else None
        picker = PickerScreen("Campaigns", rows, facts, "enter: show    esc: leave", at)
        self.app.push_screen(picker, lambda id: self.console_app.desk.choose(Choice(campaign=id)) if id else None)

    def action_ladder(self) -> None:
        lane = self.desk.lane
        if lane is None or lane.lane is None:
            self.note("no lane is shown: u picks one")
            return
        profile = lane.lane

        def begin(plan, up, done) -> None:  # type: ignore[no-untyped-def]
            self.console_app.acts.start("begin the ladder", acts.begin_ladder(profile, plan, up=up), done)

        form = ladder_view.first_form(lane, self.desk.campaigns)
        screen = LadderScreen(form, lane, self._past(lane), begin)
        self.app.push_screen(screen, lambda id: self.console_app.desk.choose(Choice(campaign=id)) if id else None)

    def action_stop_lane(self) -> None:
        lane = self.desk.lane
        if lane is None or not lane.living:
            self.note(
                "no lane of this console runs here" if lane is None else f"{lane.name} is {lane.state}: nothing to stop"
            )
            return
        words = [
            Content(f"{outside(lane.name, 64)}, load {lane.load_id}, {startup_view.lane_words(lane, clock.mono_us())}.")
        ]
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
        if row is None:
            self.note("no run to stop")
            return
        if self._stop.campaign != row.folder.id:
            self._stop = StopAsked()
        title, words, answers = stop_question(row, self._stop, clock.mono_us())
        self.app.push_screen(ConfirmScreen(title, words, answers), lambda answer: self._do_stop(row, answer))

    def _do_stop(self, row: CampaignRow, answer: str | None) -> None:
        match answer:
            case "stop_now" | "stop_after_request" | "skip_rung":
                self._ask_stop(row, answer)
            case "term" | "kill":
                number = signal.SIGTERM if answer == "term" else signal.SIGKILL
                self._stop = replace(self._stop, termed_us=clock.mono_us())
                self.console_app.acts.start(
                    f"{number.name} to the runner", acts.signal_runner(row.folder, number), self._told
                )

    def _ask_stop(self, row: CampaignRow, what) -> None:  # type: ignore[no-untyped-def]
        def asked(done: ActDone) -> None:
            if done.error is not None:
                self.note(done.error, "bad")
                return
            self._stop = StopAsked(row.folder.id, done.value, clock.mono_us(), leave=self._stop.leave)

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
        elif not stop.heard and not stop.told and stop.step(clock.mono_us()) == "term":
            self.note(f"the runner has not answered for {control.ANSWER_SECONDS:g} s: x offers SIGTERM", "bad")
            self._stop = replace(stop, told=True)

    def action_resume(self) -> None:
        row = self.desk.shown.row if self.desk.shown is not None else None
        if row is None or row.standing not in ("interrupted", "stopped"):
            self.note("only an interrupted or stopped campaign can be resumed")
            return
        words = f"{outside(row.folder.id, 200)} goes on with its next run; nothing that was measured is measured again."
        answers = (Answer("cancel", "Cancel", "n"), Answer("resume", "Go on", "y", "primary"))

        def act(answer: str | None) -> None:
            if answer == "resume":
                self.console_app.acts.start("resume", acts.resume(row.folder), self._begun)

        self.app.push_screen(ConfirmScreen("Resume the campaign?", words, answers), act)

    def action_acknowledge(self) -> None:
        row = self.desk.running
        if row is None:
            self.note("no run, so no alarm to acknowledge")
            return
        self.console_app.acts.start(
            "acknowledge",
            acts.ask(row.folder, "acknowledge_alarm"),
            lambda done: self.note(done.error, "bad") if done.error else None,
        )

    # Keys: the bundle.

    def action_seal(self) -> None:
        row = self.desk.shown.row if self.desk.shown is not None else None
        if row is None or row.running or row.signed:
            words = (
                "no campaign is shown"
                if row is None
                else "it still runs: x stops it"
                if row.running
                else "it is signed already; v verifies it"
            )
            self.note(words)
            return

        def ask(done: ActDone) -> None:
            if done.error is not None:
                self.note(done.error, "bad")
                return
            found: acts.Signing = done.value

            def sign(principal, passphrase, then) -> None:  # type: ignore[no-untyped-def]
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
        if row is None or row.standing != "sealed":
            self.note("nothing to verify: the shown campaign is not sealed; b seals it")
            return

        def tell(done: ActDone) -> None:
            if done.error is not None:
                self.note(done.error, "bad")
                return
            self.app.push_screen(TextScreen("Verification", bundle_view.verification_lines(done.value)))

        self.console_app.acts.start("verify", acts.verify_bundle(row.folder), tell)


def shape(desk: Desk) -> tuple[object, ...]:
    """What of a desk is worth painting at once: which lane and campaign are shown, and what they are."""
    row = desk.shown.row if desk.shown is not None else None
    lane = desk.lane
    return (
        lane.name if lane else None,
        lane.state if lane else None,
        row.folder.id if row else None,
        row.standing if row else None,
        row.signed if row else None,
        len(desk.shown.notes) if desk.shown else 0,
        len(desk.lanes),
    )
