"""The log pane: paints only the rows that are seen, from one frozen snapshot; your place stays while the log grows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import ClassVar, Literal

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.events import Click
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from anvil_tui.console.snapshot import LogLine, LogSnapshot
from anvil_tui.console.sources.log_rows import level_of
from anvil_tui.console.views import log_view
from anvil_tui.console.views.log_window import Fold, in_sight, top_above

Way = Literal["before", "after"]
_SIGNS = 2
"""Cells before each row: one for a mark, one for the cursor."""


class LogPane(ScrollView, can_focus=True):
    """A window on the rows of the shown log, with a cursor on one of its lines. It scrolls by lines, wrapped or not."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"log-pane--error", "log-pane--warning", "log-pane--cursor"}

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._log = LogSnapshot(unread=True)
        self._widest = 0
        self._rows: list[tuple[int, str]] = []
        self._place = 0
        """Where the cursor's line stands among those that are shown."""
        self._placing = False
        self.follow = True
        """Whether the end of the log is kept in sight; the cursor is at the newest line then."""
        self.marks: frozenset[int] = frozenset()
        """Offsets of the marked lines."""
        self.wrap, self.times = False, True

    def show_log(self, log: LogSnapshot) -> None:
        """Show this snapshot: at its end when following, else with the same row on top as before."""
        old, here = self._log, self.current
        top = old.lines[min(self.top, len(old.lines) - 1)].number if old.lines else 0
        self._log = log
        other = log.path != old.path
        if other:
            self.marks = frozenset()
        if other or log.page != old.page:
            self.follow = log.page is None
        if other or log.page != old.page or log.filter != old.filter:
            self._widest = 0
        self._measure()
        if self.follow or not log.lines:
            self._end()
        elif other or log.page != old.page:
            self._go(next((at for at, line in enumerate(log.lines) if line.offset == log.page), 0))
        else:
            self._place = self._nearest(here.number if here is not None else 0)
            if log.filter == old.filter:
                self._show_row(self._nearest(top))
            else:
                self._go(self._place)
        self.refresh()

    @property
    def top(self) -> int:
        """The place of the line at the top of the pane."""
        return max(0, self.scroll_offset.y)

    @property
    def below(self) -> int:
        """How many lines lie below what is seen."""
        return len(self._log.lines) - 1 - self._lowest

    @property
    def seen(self) -> tuple[LogLine, ...]:
        """The lines that are in sight, top first."""
        rows = in_sight(self._log.lines, self._fold, self.top, self._height)
        return self._log.lines[rows[0][0] : rows[-1][0] + 1] if rows else ()

    @property
    def current(self) -> LogLine | None:
        """The line under the cursor."""
        return self._log.lines[self._place] if self._place < len(self._log.lines) else None

    def go_end(self) -> None:
        """Go to the end and stay there."""
        self.follow = True
        self._end()

    def go_top(self) -> None:
        self._go(0)

    def go_match(self, wanted: Callable[[str], bool], way: Way) -> bool:
        """Go to the next line that is wanted, seen from the cursor; past the last one, to the one at the other end.

        While the end is followed it begins behind the newest line. Returns whether there is one.
        """
        places = [place for place, line in enumerate(self._log.lines) if wanted(line.text)]
        if not places:
            return False
        here = len(self._log.lines) if self.follow else self._place
        if way == "before":
            place = max((place for place in places if place < here), default=places[-1])
        else:
            place = min((place for place in places if place > here), default=places[0])
        self._go(place)
        return True

    def go_offset(self, offset: int) -> bool:
        """Go to the line that begins at this byte of the log; False where it is not among those that are shown."""
        place = next((place for place, line in enumerate(self._log.lines) if line.offset == offset), None)
        if place is not None:
            self._go(place)
        return place is not None

    def toggle_mark(self) -> None:
        """Mark the cursor's line, or take its mark away."""
        if self.current is not None:
            self.marks ^= {self.current.offset}
            self.refresh()

    def fold(self, *, wrap: bool | None = None, times: bool | None = None) -> None:
        """Show lines wrapped or not, with their time stamps or without."""
        self.wrap = self.wrap if wrap is None else wrap
        self.times = self.times if times is None else times
        self._widest = 0
        self.scroll_to(x=0, animate=False, immediate=True, force=True)
        self._measure()
        self._end() if self.follow else self._go(self._place)

    def on_click(self, event: Click) -> None:
        """Put the cursor on the line that was clicked."""
        at = event.get_content_offset(self)
        if at is not None and at.y < len(self._rows):
            self._go(self._rows[at.y][0])

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self._placing or not self._log.lines:
            return
        if new_value > old_value and new_value >= self.max_scroll_y and self._log.page is None:
            self.go_end()
        elif not self.follow:
            self._keep_cursor_in_sight()

    def on_mouse_scroll_up(self) -> None:
        self.follow = False

    def on_scroll_to(self) -> None:
        self.follow = False

    def action_scroll_up(self) -> None:
        self._go(max(0, self._place - 1))

    def action_scroll_down(self) -> None:
        """Down a line; below the last one there is only to follow."""
        if self._place + 1 < len(self._log.lines):
            self._go(self._place + 1)
        elif self._log.page is None:
            self.go_end()

    def action_page_up(self) -> None:
        if self.top == 0:
            self._go(0)
            return
        self.follow = False
        self._show_row(top_above(self._log.lines, self._fold, self.top, self._height))
        self._keep_cursor_in_sight()

    def action_page_down(self) -> None:
        """Down a page; where the end is in sight there is only to follow."""
        if self.below <= 0:
            self._go(len(self._log.lines) - 1) if self._log.page is not None else self.go_end()
            return
        self.follow = False
        self._show_row(max(self.top + 1, self._lowest))
        self._keep_cursor_in_sight()

    def action_scroll_home(self) -> None:
        self.go_top()

    def action_scroll_end(self) -> None:
        self.go_end()

    def on_resize(self) -> None:
        self._measure()
        self._end() if self.follow else self._go(self._place)

    def render_lines(self, crop: Region) -> list[Strip]:
        self._rows = in_sight(self._log.lines, self._fold, self.top, self._height)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        width, look = self.scrollable_content_region.width, self.rich_style
        if y >= len(self._rows):
            text = log_view.empty_words(self._log) if not self._log.lines and y == 0 else ""
            return Strip([Segment(" " * _SIGNS + text, look)]).crop(0, width).extend_cell_length(width, look)
        place, text = self._rows[y]
        line = self._log.lines[place]
        first = y == 0 or self._rows[y - 1][0] != place
        if level := level_of(line.text):
            look = self.get_component_rich_style(f"log-pane--{level}")
        if place == self._place and not self.follow:
            under = self.get_component_rich_style("log-pane--cursor")
            look += Style(bgcolor=under.bgcolor, bold=True)
        signs = ("*" if line.offset in self.marks else " ") + ("▸" if place == self._place else " ")
        left = self.scroll_offset.x
        shown = Strip([Segment(text, look)]).crop(left, left + width - _SIGNS)
        return Strip([Segment(signs if first else " " * _SIGNS, look), *shown]).extend_cell_length(width, look)

    @property
    def _height(self) -> int:
        return max(1, self.scrollable_content_region.height)

    @property
    def _fold(self) -> Fold:
        return Fold(self.scrollable_content_region.width - _SIGNS, self.wrap, self.times)

    @property
    def _lowest(self) -> int:
        """The place of the lowest line in sight; one above the first where nothing is."""
        rows = in_sight(self._log.lines, self._fold, self.top, self._height)
        return rows[-1][0] if rows else -1

    def _nearest(self, number: int) -> int:
        """The place of the line of this number, or of the next one that is shown."""
        lines = self._log.lines
        return min(bisect_left(lines, number, key=lambda line: line.number), max(0, len(lines) - 1))

    def _end(self) -> None:
        self._place = max(0, len(self._log.lines) - 1)
        self._show_row(len(self._log.lines))
        self.refresh()

    def _go(self, place: int) -> None:
        """Put the cursor at a place and hold it there, in sight; far from what is seen, with some lines above it."""
        self.follow = False
        self._place = place
        if self._log.lines:
            least = top_above(self._log.lines, self._fold, place, self._height)
            near = self.top - 1 <= place <= self._lowest + 1
            self._show_row(min(place, max(least, self.top if near else place - self._height // 3)))
        self.refresh()

    def _keep_cursor_in_sight(self) -> None:
        self._place = min(max(self._place, self.top), max(self.top, self._lowest))
        self.refresh()

    def _measure(self) -> None:
        lines, fold, height = self._log.lines, self._fold, self._height
        self._placing = True
        if self.wrap:
            last = top_above(lines, fold, len(lines) - 1, height) if lines else 0
            self.virtual_size = Size(0, last + height)
        else:
            seen = lines[self.top : self.top + height] + lines[-height:]
            self._widest = max([self._widest, *(cell_len(fold.text(line)) for line in seen)])
            self.virtual_size = Size(self._widest + _SIGNS, len(lines))
        self._placing = False

    def _show_row(self, row: int) -> None:
        """Bring this line to the top, as far as the log reaches below it."""
        last = max(0, self.virtual_size.height - self._height)
        self._placing = True
        self.scroll_to(y=min(row, last), animate=False, immediate=True, force=True)
        self._placing = False
