"""The live screen: the workstation as it is, and every key that acts on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Resize
from textual.geometry import Size
from textual.widget import Widget

from anvil_tui.console.keys import KEYS, bindings
from anvil_tui.console.messages import DeskRead, GpusRead, LogRead, SourceFailed
from anvil_tui.console.screens.row_keys import RowScreen
from anvil_tui.console.screens.text import TextScreen
from anvil_tui.console.snapshot import Desk, GpuSnapshot
from anvil_tui.console.views import (
    keys_view,
    log_view,
    notes_view,
    rungs_view,
    startup_view,
    top_view,
)
from anvil_tui.console.views.figures import outside
from anvil_tui.console.widgets.box import Box
from anvil_tui.console.widgets.field import Field
from anvil_tui.console.widgets.gpu_row import GpuRow
from anvil_tui.console.widgets.line import Line
from anvil_tui.console.widgets.log_pane import LogPane
from anvil_tui.console.widgets.row_list import RowList

if TYPE_CHECKING:
    from anvil_tui.records.startup_report import StartupReport

LEAST_WIDTH, LEAST_HEIGHT = 60, 20
WIDE = 100
"""From this width the start-up report stands beside the rungs."""
MEDIUM, TALL = 32, 44
"""From these heights on a band is drawn of each GPU, and the lists are longer."""
_FLUSH_SECONDS = 0.5
"""Figures and ages are painted twice a second while something runs, else once; the log as soon as it was read."""
_PANES = {"gpus": "#gpus", "rungs": "#rungs", "startup": "#startup", "log": "#log"}


class LiveScreen(RowScreen):
    """Takes what the threads read, paints it when it is due, and turns keys into acts."""

    BINDINGS: ClassVar[list[BindingType]] = bindings()

    def __init__(self) -> None:
        super().__init__()
        self.gpus = GpuSnapshot()
        self._faults: tuple[str, ...] = ()
        self._flushes = 0
        self._fitted: Size | None = None
        """The size of the terminal for which the panes were chosen."""
        self._paused: int | None = None
        self._zoomed = ""
        self._alarmed = False
        self._focused_before: Widget | None = None

    def compose(self) -> ComposeResult:
        yield Line("too-small")
        with Vertical(id="body"):
            yield Line("top")
            yield GpuRow(id="gpus")
            with Horizontal(id="middle"):
                with Box(id="rungs-box", classes="box"):
                    yield Line("rungs-head")
                    yield RowList("rungs")
                    yield Line("rungs-hint")
                with Box(id="startup-box", classes="box"):
                    yield RowList("startup")
            with Box(id="log-box", classes="box"):
                yield LogPane("log")
                yield Field(id="filter", placeholder="filter: a word or a regular expression, ! inverts")
            yield Line("notes")
            yield Line("keys")

    def on_mount(self) -> None:
        self.query_one("#startup-box", Box).entitle(Content("Start-up"))
        self.set_focus(self.log_pane)
        self.set_interval(_FLUSH_SECONDS, self.flush)
        # The first frame is laid out for its size and says all that can be said before anything is read.
        self._fit(self.app.size)
        self._paint()

    def on_resize(self, event: Resize) -> None:
        if event.size != self._fitted:
            self._fit(event.size)
        self.call_after_refresh(self.paint)

    def _fit(self, size: Size) -> None:
        """Choose what is shown, and how high, by the size of the terminal."""
        self._fitted = size
        width, height = size
        small = width < LEAST_WIDTH or height < LEAST_HEIGHT
        if small and not self.has_class("-too-small"):
            self._focused_before = self.focused
        self.set_class(small, "-too-small")
        self.set_class(width < WIDE, "-narrow")
        self.set_class(height < MEDIUM, "-short")
        self.set_class(height >= TALL, "-tall")
        words = f"Terminal too small: have {width}x{height}, need {LEAST_WIDTH}x{LEAST_HEIGHT} (q quits)"
        self.query_one("#too-small", Line).say(Content(words))
        if not small and self._focused_before is not None:
            # What is hidden loses the focus: it is given back, so that keys go where they went before.
            self.call_after_refresh(self._focused_before.focus)
            self._focused_before = None

    # What the threads read: figures are painted by the next flush, the log and a change of what is shown at once.

    @on(DeskRead)
    def take_desk(self, message: DeskRead) -> None:
        self._hold()
        if self._paused is None:
            for fault in set(message.desk.faults) - set(self.desk.faults):
                self.note(fault, "bad")
            moved = shape(self.desk) != shape(message.desk)
            self.desk = message.desk
            if moved:
                self.paint()
        self._faults = tuple(name for name in self._faults if name != "desk")

    @on(GpusRead)
    def take_gpus(self, message: GpusRead) -> None:
        self._hold()
        if self._paused is None:
            came = len(self.gpus.gpus) != len(message.gpus.gpus)
            self.gpus = message.gpus
            if came:
                self.paint()
        self._faults = tuple(name for name in self._faults if name != "gpus")

    @on(LogRead)
    def take_log(self, message: LogRead) -> None:
        self._hold()
        if self._paused is None:
            self.log_read = message.log
            self.log_pane.show_log(message.log)
        self._faults = tuple(name for name in self._faults if name != "log")

    @on(SourceFailed)
    def tell_fault(self, message: SourceFailed) -> None:
        if message.source not in self._faults:
            self._faults = (*self._faults, message.source)
            self.note(f"reading {message.source} failed: {message.words}", "bad")

    def _hold(self) -> None:
        if self._paused is not None:
            self._paused += 1

    # Painting.

    def flush(self) -> None:
        """Paint figures and ages: each time while something runs, else each second time."""
        self._flushes += 1
        if self.busy or self._flushes % 2 == 1:
            self.paint()
        self._watch_stop()

    @property
    def busy(self) -> bool:
        """Whether a campaign runs or a lane comes up."""
        return self.desk.running is not None or (self.desk.lane is not None and self.desk.lane.state == "starting")

    def paint(self) -> None:
        """Paint all but the log's rows."""
        if self.is_mounted and not self.has_class("-too-small"):
            self._paint()

    def _paint(self) -> None:
        now_us = self.console_app.now_us()
        desk, width = self.desk, self.app.size.width
        with self.app.batch_update():
            self.query_one("#top", Line).say(
                top_view.top_line(
                    desk,
                    self.gpus,
                    now_us=now_us,
                    time=self.console_app.time(),
                    width=width,
                    labels=self._labels,
                    faults=self._faults,
                )
            )
            self.query_one(GpuRow).show_gpus(self.gpus, desk, now_us)
            self._paint_middle(now_us)
            self.paint_notes()
            pane = self.log_pane
            title = log_view.log_title(
                self.log_read,
                follow=pane.follow,
                below=pane.below,
                now_us=now_us,
                width=width - 6,
                modes=log_view.log_modes(wrap=pane.wrap, times=pane.times, marks=len(pane.marks)),
            )
            self.query_one("#log-box", Box).entitle(title, Content(outside(self.log_read.fault or "", 80)))
            self.query_one("#keys", Line).say(keys_view.key_line(KEYS, self.refusals, width))
        self._ring_once()

    def _paint_middle(self, now_us: int) -> None:
        desk, shown = self.desk, self.desk.shown
        starting = desk.lane is not None and desk.lane.state in ("launching", "starting")
        is_pair = shown is not None and shown.row.paired
        is_single = shown is not None and shown.row.measures
        if self._zoomed == "" and not self.query_one("#startup").has_focus:
            self.set_class(starting or (shown is not None and not (is_single or is_pair)), "-startup")
        box = self.query_one("#rungs-box", Box)
        rungs, head = self.query_one("#rungs", RowList), self.query_one("#rungs-head", Line)
        if shown is not None and shown.row.measures:
            past = self._past(desk.lane)
            head.say(rungs_view.header(rungs.row_width))
            newest = next((run.run for run in reversed(shown.row.view.runs) if run.run is not None), None)
            rungs.show_rows(rungs_view.rung_rows(shown, past, now_us, rungs.row_width), seen=newest)
            box.entitle(
                Content(f"{rungs_view.heading(shown)}  {outside(shown.row.folder.id, 80)}"),
                rungs_view.to_go(shown, past, now_us),
            )
        elif shown is not None and is_pair:
            # Only now: most screens show no paired campaign, and its words take as long to load as all the others.
            from anvil_tui.console.paired import loads_view

            head.say(rungs_view.header(rungs.row_width))
            newest = next((run.run for run in reversed(shown.row.view.runs) if run.run is not None), None)
            rows = loads_view.load_rows(shown, now_us, rungs.row_width)
            rungs.show_rows(rows, seen=newest if shown.row.running else None)
            box.entitle(Content(f"Loads  {outside(shown.row.folder.id, 80)}"), loads_view.standing_words(shown))
        else:
            box.entitle(Content("Rungs"))
            looks = Content("READ ONLY: u shows another lane, c a campaign of the history")
            self.query_one("#rungs-hint", Line).say(
                looks if self.console_app.read_only else startup_view.first_step(desk)
            )
        box.set_class(not (is_single or is_pair), "-empty")
        startup = self.query_one("#startup", RowList)
        if not desk.unread:
            startup.show_rows(startup_view.startup_rows(desk.lane, self.report, now_us, startup.row_width))

    def paint_notes(self) -> None:
        if not self.is_mounted:
            return
        notes = notes_view.merged(self.desk.shown.notes if self.desk.shown else (), self.own_notes)
        line = self.query_one("#notes", Line)
        line.say(notes_view.note_lines(notes, self.size.width - 2, line.size.height))

    @property
    def report(self) -> StartupReport | None:
        """The start-up report: the load's own where it is written, else what its log says so far."""
        return self.desk.report if self.desk.report is not None else self.log_read.report

    @property
    def _labels(self) -> tuple[str, ...]:
        """What the top bar says of the console itself."""
        paused = [f"PAUSED +{self._paused}"] if self._paused is not None else []
        mouse = [] if self.console_app.has_mouse else ["MOUSE OFF"]
        return (*paused, *mouse, *(["READ ONLY"] if self.console_app.read_only else []))

    def _ring_once(self) -> None:
        """One bell a crossing of the reserve; the word stays on the screen for as long as the cause lasts."""
        alarm = top_view.worst(self.desk, self.gpus, self.console_app.now_us()).word.startswith("ALARM")
        if alarm and not self._alarmed:
            self.app.bell()
        self._alarmed = alarm

    # Keys: console and panes.

    def action_help(self) -> None:
        self.app.push_screen(TextScreen("Keys", keys_view.help_lines(KEYS, self.refusals, self._labels)))

    def action_palette(self) -> None:
        self.app.action_command_palette()

    def action_redraw(self) -> None:
        self.refresh(repaint=True, layout=True)
        self.app.refresh(repaint=True)

    def action_theme(self) -> None:
        self.note(f"theme: {self.console_app.next_theme()}")

    def action_mouse(self) -> None:
        """Give the mouse to the terminal, or take it back."""
        if self.console_app.toggle_mouse():
            self.note("the mouse is the console's again")
        else:
            self.note("the mouse is the terminal's: its own selection works; M takes it back")
        self.paint()

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
        notes = notes_view.merged(self.desk.shown.notes if self.desk.shown else (), self.own_notes)
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
        self.query_one(GpuRow).zoomed = name == "gpus"
        self.call_after_refresh(self.paint)

    def action_escape(self) -> None:
        """Back: out of the zoom, out of the jump, out of the filter."""
        if self._zoomed:
            self._zoom("")
        elif self.log_read.page is not None:
            self.action_follow()
        else:
            self._close_filter(clear=True)


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
        desk.unread,
    )
