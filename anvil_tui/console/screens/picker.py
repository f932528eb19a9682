"""Picking one row of a list, with the facts of the row under the cursor below."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from anvil_tui.console.views.figures import Row
from anvil_tui.console.widgets.line import Line
from anvil_tui.console.widgets.row_list import RowList


class PickerScreen(ModalScreen[str | None]):
    """Its result is the id of the chosen row, None where the operator left."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", show=False),
        Binding("j", "move(1)", show=False),
        Binding("k", "move(-1)", show=False),
    ]

    def __init__(
        self,
        title: str,
        rows: Callable[[int], tuple[Row, ...]],
        facts: Callable[[str, int], Content],
        hint: str,
        at: str | None = None,
    ) -> None:
        """`rows` and `facts` (below the list, of the row under the cursor) are made for a width; `at` is the first."""
        super().__init__()
        self._title, self._rows, self._facts, self._hint, self._at = title, rows, facts, hint, at

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -list -picker") as dialog:
            dialog.border_title = Content(self._title)
            dialog.border_subtitle = Content(self._hint)
            yield RowList("choices")
            yield Line("facts")

    def on_mount(self) -> None:
        self.query_one(RowList).focus()
        self.call_after_refresh(self._fill)

    def _fill(self) -> None:
        rows = self.query_one(RowList)
        shown = self._rows(rows.row_width)
        rows.show_rows(shown)
        ids = [row.id for row in shown]
        if ids:
            rows.highlighted = ids.index(self._at) if self._at in ids else 0

    @on(RowList.Pointed)
    def tell_facts(self, event: RowList.Pointed) -> None:
        width = self.query_one(RowList).row_width
        self.query_one("#facts", Line).update(self._facts(event.row.id, width))

    @on(RowList.Chosen)
    def choose(self, event: RowList.Chosen) -> None:
        self.dismiss(event.row.id)

    def action_move(self, by: int) -> None:
        """Move the cursor as the arrow keys do."""
        rows = self.query_one(RowList)
        rows.action_cursor_down() if by > 0 else rows.action_cursor_up()

    def action_close(self) -> None:
        self.dismiss(None)
