"""A button of a dialog; a mark says which one has the focus, not a colour alone."""

from __future__ import annotations

from typing import Literal

from textual.content import Content
from textual.widgets import Button

Variant = Literal["default", "primary", "success", "warning", "error"]


class AnswerButton(Button):
    """A button in one line."""

    def __init__(self, words: str | Content, *, id: str, variant: Variant = "default") -> None:
        self._words = Content(words) if isinstance(words, str) else words
        super().__init__(Content.assemble("  ", self._words), id=id, variant=variant)
        # While its effect lasts, a button takes no second press: what is refused can be tried again at once.
        self.active_effect_duration = 0

    def on_focus(self) -> None:
        self.label = Content.assemble("▸ ", self._words)

    def on_blur(self) -> None:
        self.label = Content.assemble("  ", self._words)
