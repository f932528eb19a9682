"""A line to type into, with its label. What is pasted is outside text too."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.events import Key
from textual.widgets import Input, Label, Select

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

    async def _on_key(self, event: Key) -> None:
        if event.key != "enter":
            await super()._on_key(event)
            return
        # At once, not by a binding that bubbles first: letters typed meanwhile would still come here.
        event.stop()
        event.prevent_default()
        await self.action_submit()


class LabelledField(Horizontal):
    """A field or a choice behind its label; a mark says which one has the focus, not a colour alone."""

    def __init__(self, label: str, field: Field | Select[str]) -> None:
        super().__init__(classes="field")
        self._label, self._field = label, field

    def compose(self) -> ComposeResult:
        yield Label(Content(f"  {self._label}"))
        yield self._field

    def on_descendant_focus(self) -> None:
        self.query_one(Label).update(Content(f"▸ {self._label}"))

    def on_descendant_blur(self) -> None:
        self.query_one(Label).update(Content(f"  {self._label}"))
