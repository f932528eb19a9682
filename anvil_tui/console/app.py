"""The console: the live screen, the threads that read for it, and an end that leaves the terminal as it was."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
import termios
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen

from anvil_tui import clock, exit_codes
from anvil_tui.console import clipboard
from anvil_tui.console.acts import Acts, hold_open, warm_up
from anvil_tui.console.keys import KEYS
from anvil_tui.console.messages import ActDone, TerminalLost
from anvil_tui.console.mouse import report_mouse
from anvil_tui.console.saved import save, told
from anvil_tui.console.screens.live import LiveScreen
from anvil_tui.console.snapshot import Desk
from anvil_tui.console.views.figures import outside
from anvil_tui.locations import Locations
from anvil_tui.text import redact, sanitise

if TYPE_CHECKING:
    from anvil_tui.console.sources.desk_source import DeskSource
    from anvil_tui.console.sources.gpu_source import GpuSource
    from anvil_tui.console.sources.log_source import LogSource
    from anvil_tui.console.sources.source import Source

_NO_TERMINAL = "anvil-tui opens a screen and needs a terminal; its verbs do without: anvil-tui --help lists them"
_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_JOIN_SECONDS = 2.0
_TWICE_SECONDS = 2.0
_WARM_UP_SECONDS = 1.0
_THEMES = ("textual-dark", "textual-light", "nord", "gruvbox", "solarized-dark", "solarized-light")


class ConsoleApp(App[None]):
    """Starts the threads, hands what they post to the live screen, and ends them."""

    CSS_PATH: ClassVar[list[str | PurePath]] = [
        Path(__file__).with_name("console.tcss"),
        Path(__file__).parent / "paired" / "paired.tcss",
    ]
    TITLE = "anvil-tui"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", show=False, priority=True, id="app.interrupt"),
        Binding("ctrl+z", "no_suspend", show=False, priority=True),
    ]

    def __init__(self, locations: Locations, *, read_only: bool = False) -> None:
        """`read_only`: nothing is started, stopped or written but what the operator saves."""
        super().__init__()
        self.locations = locations
        self.read_only = read_only
        self.has_mouse = True
        """Whether the mouse is the console's, and not the terminal's."""
        self.crash_report: Path | None = None
        """Where the traceback of a fault of ours went."""
        self.crash_text = b""
        self.acts = Acts(locations, self._deliver)
        self._reading: tuple[Source, ...] = ()
        self._live = LiveScreen()
        self._interrupted_at: float | None = None

    def get_default_screen(self) -> Screen[None]:
        return self._live

    def on_mount(self) -> None:
        self.animation_level = "none"
        loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                loop.add_signal_handler(number, self.end_by, number)
        self.call_after_refresh(self._begin_reading)
        self.set_timer(_WARM_UP_SECONDS, warm_up)

    def _begin_reading(self) -> None:
        """The frame stands: only now is loaded what fills it, the threads and the rooms that they read with."""
        from anvil_tui.campaigns import hold

        self._reading = self._sources
        for source in self._reading:
            source.start()
        if not gc.isenabled():
            # The start went without; what it loaded stays, and is never looked through again.
            gc.freeze()
            gc.enable()
        if hold.applies() and not self.read_only:
            self.acts.start("hold the WSL distro open", hold_open, self._tell_hold)

    @cached_property
    def desk(self) -> DeskSource:
        """Reads lanes and campaigns."""
        from anvil_tui.console.sources.desk_source import DeskSource

        return DeskSource(self.locations, self._deliver, self._point)

    @cached_property
    def gpu_source(self) -> GpuSource:
        """Reads samples of the GPUs."""
        from anvil_tui.console.sources.gpu_source import GpuSource

        return GpuSource(self.locations, self._deliver)

    @cached_property
    def log_source(self) -> LogSource:
        """Reads the shown log."""
        from anvil_tui.console.sources.log_source import LogSource

        return LogSource(self._deliver)

    def _tell_hold(self, done: ActDone) -> None:
        if done.error is not None:
            self._live.note(done.error, "warn")

    def on_unmount(self) -> None:
        for source in self._reading:
            source.stop()

    @property
    def _sources(self) -> tuple[Source, ...]:
        return self.desk, self.gpu_source, self.log_source

    def join_sources(self) -> None:
        """Wait a moment for the threads; what they held is given back then."""
        deadline = time.monotonic() + _JOIN_SECONDS
        for source in self._reading:
            if source.is_alive():
                source.join(max(0.0, deadline - time.monotonic()))

    def end_by(self, number: signal.Signals) -> None:
        """End on a signal, with the terminal as it was."""
        self.exit(return_code=exit_codes.by_signal(number))

    def poke(self) -> None:
        """Read everything now."""
        for source in self._reading:
            source.poke()

    def now_us(self) -> int:
        """The monotonic clock that ages are told by."""
        return clock.mono_us()

    def now(self) -> str:
        """The wall-clock stamp of a note."""
        return clock.utc_now()

    def time(self) -> str:
        """Time of day for the top bar."""
        return datetime.now().strftime("%H:%M:%S")

    def save_picture(self) -> None:
        """Write the screen as SVG into the state folder, in a thread."""
        svg = self.export_screenshot(title="anvil-tui")

        def write(locations: Locations) -> str:
            return f"screenshot: {told(save(locations, 'screen', 'svg', svg.encode()))}"

        self.acts.start("screenshot", write, lambda done: self._live.note(done.error or done.value))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every key of the live screen by its title, with the reason where it does nothing now."""
        refusals = self.refusals
        for key in KEYS if screen is self._live else ():
            if key.palette and not (key.acts and self.read_only):
                # Textual reads this as markup, and a reason may name a lane: without this bracket nothing is markup.
                off = f"    (off: {outside(refusals[key.id]).replace('[', '(')})" if key.id in refusals else ""
                yield SystemCommand(key.title, f"key {key.label}    {key.id}{off}", self._runner(key.action))

    def _runner(self, action: str) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            await self.run_action(action, self._live)

        return run

    def action_interrupt(self) -> None:
        """ctrl+c: copy what is selected, else stop the run, else quit when pressed twice."""
        selected = self.screen.get_selected_text() or self._selected_in_field()
        if selected:
            self.copy(selected, "the selection")
            self.screen.clear_selection()
            return
        if self.screen is self._live and self._live.desk.running is not None and not self.read_only:
            self._live.action_stop_run()
            return
        now = time.monotonic()
        if self._interrupted_at is not None and now - self._interrupted_at < _TWICE_SECONDS:
            self.exit(return_code=0)
            return
        self._interrupted_at = now
        self._live.note("ctrl+c again quits")

    def _selected_in_field(self) -> str:
        """What is selected in the field that has the focus; never of a password."""
        field = self.focused
        return "" if getattr(field, "password", False) else str(getattr(field, "selected_text", ""))

    def copy(self, text: str, what: str) -> None:
        """Send a text to a clipboard, or into a file, and note where it went."""

        def tell(done: ActDone) -> None:
            if done.error is not None:
                self._live.note(done.error, "bad")
                return
            sent: clipboard.Sent = done.value
            if sent.by_terminal:
                self.copy_to_clipboard(text)
            self._live.note(f"{what}: {sent.words}")

        self.acts.start("copy", lambda locations: clipboard.send(text, locations), tell)

    def toggle_mouse(self) -> bool:
        """Give the mouse to the terminal, or take it back; whether the console has it now."""
        self.has_mouse = not self.has_mouse
        report_mouse(self._driver, self.has_mouse)
        return self.has_mouse

    @property
    def refusals(self) -> dict[str, str]:
        """By the id of a key of the live screen why it does nothing now."""
        return self._live.refusals

    def next_theme(self) -> str:
        """Go to the next theme; returns its name. The colours of every screen are the theme's."""
        at = _THEMES.index(self.theme) if self.theme in _THEMES else -1
        self.theme = _THEMES[(at + 1) % len(_THEMES)]
        return self.theme

    def action_no_suspend(self) -> None:
        self._live.note("ctrl+z is off here: a stopped screen would hold its terminal; q quits and leaves a run alone")

    def action_command_palette(self) -> None:
        """Commands act on the live screen: they are offered there only."""
        if self.screen is self._live:
            super().action_command_palette()

    def on_act_done(self, message: ActDone) -> None:
        message.done(message)

    def on_terminal_lost(self, _: TerminalLost) -> None:
        self.exit(return_code=exit_codes.by_signal(signal.SIGHUP))

    def _deliver(self, message: Message) -> None:
        """From a thread: acts go to the app, snapshots to the live screen, whatever screen lies over it."""
        target = self if isinstance(message, ActDone | TerminalLost) else self._live
        if target.is_running:
            target.post_message(message)

    def _point(self, desk: Desk) -> None:
        """In the desk's thread: point the other two threads at what is shown."""
        self.gpu_source.follow(desk)
        self.log_source.follow(desk)

    def _fatal_error(self) -> None:
        """A fault of ours: the traceback goes to a file, without the values of variables; two lines tell of it."""
        error = self._exception
        text = "".join(traceback.format_exception(error)) if error is not None else traceback.format_exc()
        self.crash_text = redact(text.encode("utf-8", "replace"))[0]
        if not self.read_only:
            with contextlib.suppress(OSError):
                self.crash_report = save(self.locations, "console-crash", "log", self.crash_text)
        self._close_messages_no_wait()


def run_console(locations: Locations, *, read_only: bool = False) -> int:
    """Open the console; returns the process's exit code. Without a terminal it says so and returns BAD_INPUT."""
    # All three: with its output in a file Textual takes another size for the terminal's and lays out without end.
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        sys.stderr.write(f"anvil-tui: {_NO_TERMINAL}\n")
        return exit_codes.BAD_INPUT
    app = ConsoleApp(locations, read_only=read_only)
    watch = threading.Thread(target=_watch_terminal, args=(app, sys.stdin.fileno()), name="terminal", daemon=True)
    watch.start()
    app.run()
    app.join_sources()
    if app._exception is not None:
        where = f"its traceback is in {app.crash_report}" if app.crash_report else "its traceback is in no file"
        kind = type(app._exception).__name__
        sys.stderr.write(f"anvil-tui: the console met a fault of its own ({kind}); a run goes on.\n")
        sys.stderr.write(f"anvil-tui: {where}\n")
        if app.crash_report is None:
            # What a fault says may quote a log or a model: never raw onto the terminal.
            lines = app.crash_text.decode("utf-8", "replace").split("\n")
            sys.stderr.write("\n".join(sanitise(line) for line in lines))
        return exit_codes.CHECK_FAILED
    return app.return_code or 0


def _watch_terminal(app: ConsoleApp, fd: int) -> None:
    """End the process when its terminal is gone: nobody could see it, and writing to it would block the loop."""
    while True:
        time.sleep(0.5)
        try:
            termios.tcgetattr(fd)
        except termios.error:
            app._deliver(TerminalLost())
            time.sleep(_JOIN_SECONDS)
            os._exit(exit_codes.by_signal(signal.SIGHUP))
