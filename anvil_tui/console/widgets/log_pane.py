"""The log pane: paints only the rows that are seen, from one frozen snapshot; your place stays while the log grows."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

from rich.cells import cell_len
from rich.segment import Segment
from textual.events import Click
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from anvil_tui.console.snapshot import LogLine, LogSnapshot
from anvil_tui.console.sources.log_rows import level_of
from anvil_tui.console.views import log_view

Way = Literal["before", "after"]


class LogPane(ScrollView, can_focus=True):
    """A window on the rows of the shown log."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"log-pane--error", "log-pane--warning", "log-pane--marked"}

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._log = LogSnapshot()
        self._widest = 0
        self.follow = True
        """Whether the end of the log is kept in sight."""
        self._marked: int | None = None
        """Offset of the line that was jumped to or clicked."""

    def show_log(self, log: LogSnapshot) -> None:
        """Show this snapshot: at its end when following, else with the same row on top as before."""
        old, self._log = self._log, log
        top = old.lines[min(self.top, len(old.lines) - 1)].number if old.lines else 0
        if log.path != old.path or log.page != old.page or log.filter != old.filter:
            self._widest = 0
            if log.path != old.path or log.page != old.page:
                self._marked = log.page
            if log.page is None:
                self.follow = True
        self._measure()
        if log.page is not None and log.page != old.page:
            self.follow = False
            self._show_row(max(0, self._place_of_page() - self.scrollable_content_region.height // 3))
        elif self.follow and log.page is None:
            self._show_row(self.virtual_size.height)
        elif log.lines and log.page is None and old.page is None and log.path == old.path:
            shift = next((place for place, line in enumerate(log.lines) if line.number >= top), 0)
            self._show_row(shift)
        self.refresh()

    @property
    def top(self) -> int:
        """The row at the top of the pane."""
        return max(0, self.scroll_offset.y)

    @property
    def below(self) -> int:
        """How many rows lie below what is seen."""
        return max(0, len(self._log.lines) - self.top - self.scrollable_content_region.height)

    @property
    def seen(self) -> tuple[LogLine, ...]:
        """The lines that are in sight, top first."""
        return self._log.lines[self.top : self.top + self.scrollable_content_region.height]

    @property
    def current(self) -> LogLine | None:
        """The marked line where it is in sight, else the lowest in sight."""
        seen = self.seen
        return next((line for line in seen if line.offset == self._marked), seen[-1] if seen else None)

    def go_end(self) -> None:
        """Go to the end and stay there."""
        self.follow = True
        self._marked = None
        self._show_row(self.virtual_size.height)

    def go_top(self) -> None:
        self.follow = False
        self._show_row(0)

    def go_match(self, wanted: Callable[[str], bool], way: Way) -> bool:
        """Mark the next line that is wanted, seen from the marked one, and bring it into sight.

        Without a mark in sight: from the edge of what is seen. Past the last one it begins again at the other end.
        Returns whether there is one.
        """
        lines, top, height = self._log.lines, self.top, self.scrollable_content_region.height
        places = [place for place, line in enumerate(lines) if wanted(line.text)]
        if not places:
            return False
        marked = next((top + at for at, line in enumerate(self.seen) if line.offset == self._marked), None)
        if way == "before":
            edge = top + height if marked is None else marked
            place = max((place for place in places if place < edge), default=places[-1])
        else:
            edge = top - 1 if marked is None else marked
            place = min((place for place in places if place > edge), default=places[0])
        self._marked = lines[place].offset
        if not top <= place < top + height:
            self._show_row(max(0, place - height // 3))
        # Last: scrolling down to the end begins to follow.
        self.follow = False
        self.refresh()
        return True

    def on_click(self, event: Click) -> None:
        """Mark the line that was clicked."""
        at = event.get_content_offset(self)
        if at is not None and at.y < len(self.seen):
            self._marked = self.seen[at.y].offset
            self.follow = False
            self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if new_value > old_value and new_value >= self.max_scroll_y and self._log.page is None:
            self.follow = True

    def on_mouse_scroll_up(self) -> None:
        self.follow = False

    def on_scroll_to(self) -> None:
        self.follow = False

    def action_scroll_up(self) -> None:
        self.follow = False
        super().action_scroll_up()

    def action_page_up(self) -> None:
        self.follow = False
        super().action_page_up()

    def action_scroll_home(self) -> None:
        self.go_top()

    def action_scroll_end(self) -> None:
        self.go_end()

    def on_resize(self) -> None:
        self._measure()
        if self.follow:
            self._show_row(self.virtual_size.height)

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        row, lines = self.scroll_offset.y + y, self._log.lines
        look = self.rich_style
        if row < len(lines):
            text = lines[row].text
            name = "marked" if lines[row].offset == self._marked else level_of(text)
            look = self.get_component_rich_style(f"log-pane--{name}") if name else look
        else:
            text = log_view.empty_words(self._log) if not lines and y == 0 else ""
        left = self.scroll_offset.x
        return Strip([Segment(text, look)]).crop(left, left + width).extend_cell_length(width, look)

    def _measure(self) -> None:
        height = self.scrollable_content_region.height
        seen = self._log.lines[self.top : self.top + max(1, height)] + self._log.lines[-max(1, height) :]
        self._widest = max([self._widest, *(cell_len(line.text) for line in seen)])
        self.virtual_size = Size(self._widest, len(self._log.lines))

    def _show_row(self, row: int) -> None:
        last = max(0, len(self._log.lines) - self.scrollable_content_region.height)
        self.scroll_to(y=min(row, last), animate=False, immediate=True, force=True)

    def _place_of_page(self) -> int:
        return next((at for at, line in enumerate(self._log.lines) if line.offset == self._log.page), 0)
