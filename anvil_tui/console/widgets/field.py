"""A line to type into. What is pasted is outside text too."""

from __future__ import annotations

from textual.widgets import Input

from anvil_tui.console.views.figures import outside

_LONGEST = 4000


class Field(Input):
    """An input that shows only what is safe to show; a password, never shown, is left as it was typed."""

    def __init__(self, value: str = "", *, id: str, password: bool = False, placeholder: str = "") -> None:
        super().__init__(value, id=id, password=password, placeholder=placeholder, compact=True)
        self.cursor_blink = False

    def validate_value(self, value: str) -> str:
        """What may stand in the line."""
        return value if self.password else outside(value, _LONGEST)
