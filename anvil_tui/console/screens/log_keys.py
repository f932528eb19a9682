"""What the operator does with the log: filter it, go through it, mark lines, copy and save them."""

from __future__ import annotations

from collections.abc import Sequence

from textual import on
from textual.content import Content
from textual.widgets import Input

from anvil_tui.console.messages import ActDone
from anvil_tui.console.paired.keys import PairedOperatorScreen
from anvil_tui.console.refusals import log_refusals
from anvil_tui.console.saved import save, told
from anvil_tui.console.screens.text import TextScreen
from anvil_tui.console.snapshot import LogLine, LogSnapshot
from anvil_tui.console.sources.log_rows import level_of, matcher
from anvil_tui.console.widgets.log_pane import LogPane, Way
from anvil_tui.locations import Locations


class LogScreen(PairedOperatorScreen):
    """The log as it was read last, and its keys, beside those of the operator."""

    def __init__(self) -> None:
        super().__init__()
        self.log_read = LogSnapshot(unread=True)

    @property
    def log_pane(self) -> LogPane:
        """The pane of the log."""
        return self.query_one(LogPane)

    @property
    def refusals(self) -> dict[str, str]:
        return super().refusals | log_refusals(self.log_read, len(self.log_pane.marks))

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
        self.log_pane.go_end()
        self.paint()

    def action_log_end(self) -> None:
        self.action_follow()

    def action_log_top(self) -> None:
        self.log_pane.go_top()
        self.paint()

    def action_log_sideways(self, by: int) -> None:
        """Scroll sideways by a few cells."""
        self.log_pane.scroll_relative(x=8 * by, animate=False)

    def action_log_wrap(self) -> None:
        self.log_pane.fold(wrap=not self.log_pane.wrap)
        self.paint()

    def action_log_times(self) -> None:
        self.log_pane.fold(times=not self.log_pane.times)
        self.paint()

    def action_log_error(self, way: Way) -> None:
        if not self.log_pane.go_match(lambda text: level_of(text) == "error", way):
            self.note("no error line in the lines that are kept")
        self.paint()

    def action_log_hit(self, way: Way) -> None:
        """Go to the next line that the filter matches; around a jump the other lines are shown too."""
        if self.refused("log.hit"):
            return
        if self.log_read.fault is not None:
            self.note(self.log_read.fault, "warn")
            return
        match = matcher(self.log_read.filter)
        if match is None or not self.log_pane.go_match(match, way):
            self.note("no line matches the filter")
        self.paint()

    def action_log_mark(self) -> None:
        if not self.refused("log.mark"):
            self.log_pane.toggle_mark()
            self.paint()

    def action_log_back(self) -> None:
        """Go to the next marked line, round; one that is no longer among the lines shown is read from the log again."""
        if self.refused("log.back"):
            return
        pane = self.log_pane
        here = pane.current.offset if pane.current is not None else -1
        offset = min((one for one in pane.marks if one > here), default=min(pane.marks))
        if not pane.go_offset(offset):
            self.console_app.log_source.jump(offset)
        self.paint()

    def open_log_line(self) -> None:
        """Show the cursor's line whole."""
        line = self.log_pane.current
        if line is not None:
            self.app.push_screen(TextScreen(f"Log line at byte {line.offset:,}", [Content(line.text)]))

    def action_copy_line(self) -> None:
        line = self.log_pane.current
        self._copy("log.copy", () if line is None else (line,))

    def action_copy_seen(self) -> None:
        self._copy("log.copy_seen", self.log_pane.seen)

    def _copy(self, id: str, lines: Sequence[LogLine]) -> None:
        if not self.refused(id):
            self.console_app.copy("\n".join(line.text for line in lines), _count(lines))

    def action_log_save(self) -> None:
        """Save the lines that are shown, those out of sight too, in a thread."""
        if self.refused("log.save"):
            return
        lines, about = self.log_read.lines, _count(self.log_read.lines)
        if self.log_read.filter and self.log_read.page is None:
            about += " of the filter"

        def write(locations: Locations) -> str:
            text = "".join(f"{line.text}\n" for line in lines)
            return f"{about} in {told(save(locations, 'log', 'txt', text.encode('utf-8', 'replace')))}"

        def tell(done: ActDone) -> None:
            self.note(done.error or done.value, "bad" if done.error else "good")

        self.console_app.acts.start("save the log", write, tell)


def _count(lines: Sequence[LogLine]) -> str:
    return f"{len(lines):,} log line{'s' if len(lines) > 1 else ''}"
