"""What the operator does with the log: filter it, go through it, copy from it."""

from __future__ import annotations

from collections.abc import Sequence

from textual import on
from textual.widgets import Input

from anvil_tui.console.paired.keys import PairedOperatorScreen
from anvil_tui.console.snapshot import LogLine, LogSnapshot
from anvil_tui.console.sources.log_rows import level_of, matcher
from anvil_tui.console.widgets.log_pane import LogPane, Way


class LogScreen(PairedOperatorScreen):
    """The log as it was read last, and its keys, beside those of the operator."""

    def __init__(self) -> None:
        super().__init__()
        self.log_read = LogSnapshot()

    def paint(self) -> None:
        """Show how the log stands; the live screen knows where."""

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

    def action_log_error(self, way: Way) -> None:
        if not self.query_one(LogPane).go_match(lambda text: level_of(text) == "error", way):
            self.note("no error line in the lines that are kept")
        self.paint()

    def action_log_hit(self, way: Way) -> None:
        """Mark the next line that the filter matches; around a jump the other lines are shown too."""
        if self.log_read.fault is not None:
            self.note(self.log_read.fault, "warn")
            return
        match = matcher(self.log_read.filter)
        if match is None:
            self.note("no filter is set: / sets one")
        elif not self.query_one(LogPane).go_match(match, way):
            self.note("no line matches the filter")
        self.paint()

    def action_copy_line(self) -> None:
        line = self.query_one(LogPane).current
        self._copy(() if line is None else (line,))

    def action_copy_seen(self) -> None:
        self._copy(self.query_one(LogPane).seen)

    def _copy(self, lines: Sequence[LogLine]) -> None:
        if not lines:
            self.note("no log line to copy")
            return
        words = self.console_app.send_to_clipboard("\n".join(line.text for line in lines))
        self.note(f"{len(lines)} log line{'s' if len(lines) > 1 else ''}: {words}")
