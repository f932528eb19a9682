"""Picking one row of a list, with the facts of the row under the cursor below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList

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
        self, title: str, rows: tuple[Row, ...], facts: Mapping[str, Content], hint: str, at: str | None = None
    ) -> None:
        """`facts` stand below the list for the row under the cursor; `at` is the row where the cursor begins."""
        super().__init__()
        self._title, self._rows, self._facts, self._hint, self._at = title, rows, facts, hint, at

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -list") as dialog:
            dialog.border_title = Content(self._title)
            dialog.border_subtitle = Content(self._hint)
            yield RowList("choices")
            yield Line("facts")

    def on_mount(self) -> None:
        rows = self.query_one(RowList)
        rows.show_rows(self._rows)
        ids = [row.id for row in self._rows]
        if ids:
            rows.highlighted = ids.index(self._at) if self._at in ids else 0
        rows.focus()

    @on(OptionList.OptionHighlighted)
    def tell_facts(self, event: OptionList.OptionHighlighted) -> None:
        facts = self.query_one("#facts", Line)
        facts.update(self._facts.get(event.option_id or "", Content("")))

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)

    def action_move(self, by: int) -> None:
        """Move the cursor as the arrow keys do."""
        rows = self.query_one(RowList)
        rows.action_cursor_down() if by > 0 else rows.action_cursor_up()

    def action_close(self) -> None:
        self.dismiss(None)
