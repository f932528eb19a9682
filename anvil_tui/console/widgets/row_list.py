"""A list of rows with a cursor, fed anew as often as one likes: the cursor and the place stay. A sign tells it too."""

from __future__ import annotations

from dataclasses import dataclass

from rich.segment import Segment
from textual import on
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from anvil_tui.console.views.figures import Row

_SIGN = 1
"""Cells before each row, for the sign of the cursor."""


class RowList(OptionList):
    """Rows of the live screen and of the pickers. Their ids are ours to look after: two rows may bear the same one."""

    @dataclass
    class Chosen(Message):
        """Enter was pressed on a row, or it was clicked."""

        list_id: str
        row: Row

    @dataclass
    class Pointed(Message):
        """The cursor came to a row."""

        row: Row

    def __init__(self, id: str) -> None:
        super().__init__(id=id, markup=False, compact=True)
        self._rows: tuple[Row, ...] = ()

    def show_rows(self, rows: tuple[Row, ...], *, seen: str | None = None) -> None:
        """Show these rows; only what changed is painted. Row `seen` is kept in sight while nobody uses the list."""
        old, self._rows = self._rows, rows
        if [(row.id, row.choice) for row in rows] != [(row.id, row.choice) for row in old]:
            at = self.highlighted
            chosen = old[at].id if at is not None and at < len(old) else None
            self.set_options(Option(row.content, disabled=not row.choice) for row in rows)
            self.highlighted = next((place for place, row in enumerate(rows) if row.id == chosen), None)
            old = rows
        for place, (new, was) in enumerate(zip(rows, old, strict=True)):
            if not new.content.is_same(was.content):
                self.replace_option_prompt_at_index(place, new.content)
        if not self.has_focus:
            place = next((place for place, row in enumerate(rows) if row.id == seen), 0)
            self.scroll_to_region(Region(0, place, 1, 1), animate=False)

    @property
    def row_width(self) -> int:
        """Cells that a row may fill."""
        return max(0, self.scrollable_content_region.width - _SIGN)

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        at = self.scroll_offset.y + y
        sign = "▸" if self.has_focus and at == self.highlighted else " "
        look = next((segment.style for segment in strip), None)
        return Strip([Segment(sign, look), *strip]).crop(0, self.scrollable_content_region.width)

    def _get_left_gutter_width(self) -> int:
        return _SIGN

    @on(OptionList.OptionSelected)
    def tell_choice(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.post_message(self.Chosen(self.id or "", self._rows[event.option_index]))

    @on(OptionList.OptionHighlighted)
    def tell_cursor(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self.post_message(self.Pointed(self._rows[event.option_index]))
