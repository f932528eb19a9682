"""A text to read: help, the outcome of a verification, a run in detail, all messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static


class TextScreen(ModalScreen[None]):
    """Shows lines; closes on escape, q, enter or the key that opened it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark,f1,v,5", "close", show=False),
        Binding("j", "scroll('down')", show=False),
        Binding("k", "scroll('up')", show=False),
        Binding("g", "scroll('home')", show=False),
        Binding("G", "scroll('end')", show=False),
    ]

    def __init__(self, title: str, lines: Sequence[Content], *, at_end: bool = False) -> None:
        super().__init__()
        self._title = title
        self._lines = lines
        self._at_end = at_end

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -list -text") as dialog:
            dialog.border_title = Content(self._title)
            dialog.border_subtitle = "esc closes"
            with VerticalScroll():
                yield Static(Content("\n").join(self._lines), markup=False)

    def on_mount(self) -> None:
        scroll = self.query_one(VerticalScroll)
        scroll.focus()
        if self._at_end:
            # Only when it has its height: lines that wrap make it higher than it is at first.
            self.call_after_refresh(scroll.scroll_end, animate=False)

    def action_close(self) -> None:
        self.dismiss()

    def action_scroll(self, where: str) -> None:
        """Move by a line or to an end."""
        getattr(self.query_one(VerticalScroll), f"scroll_{where}")(animate=False)
