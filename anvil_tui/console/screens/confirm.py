"""One question with a few answers; the harmless one has the focus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from anvil_tui.console.widgets.answer_button import AnswerButton, Variant


@dataclass(frozen=True)
class Answer:
    """One answer: what it is called, and the key that gives it."""

    value: str
    label: str
    key: str
    style: Variant = "default"


class ConfirmScreen(ModalScreen[str]):
    """Asks; its result is the value of the answer. The first answer has the focus, and escape gives it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,up", "app.focus_previous", show=False),
        Binding("right,down", "app.focus_next", show=False),
        Binding("escape", "first", show=False),
    ]

    def __init__(
        self, title: str, words: str | Content, answers: tuple[Answer, ...], escape: str | None = None
    ) -> None:
        """`escape` is the answer that the escape key gives; the first one where it is None."""
        super().__init__()
        self._title = title
        self._words = Content(words) if isinstance(words, str) else words
        self._answers = answers
        self._escape = answers[0].value if escape is None else escape

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog", can_focus=False) as dialog:
            dialog.border_title = Content(self._title)
            yield Static(self._words, classes="words", markup=False)
            with Horizontal(classes="buttons"):
                for answer in self._answers:
                    label = Content.assemble(answer.label, (f" ({answer.key})", "dim"))
                    yield AnswerButton(label, id=f"answer-{answer.value}", variant=answer.style)

    def on_mount(self) -> None:
        self.query(Button).first().focus()

    def on_key(self, event: Key) -> None:
        for answer in self._answers:
            if event.character == answer.key:
                # Else the live screen below would take the same key for one of its own.
                event.stop()
                event.prevent_default()
                self.dismiss(answer.value)

    @on(Button.Pressed)
    def give_answer(self, event: Button.Pressed) -> None:
        self.dismiss((event.button.id or "").removeprefix("answer-"))

    def action_first(self) -> None:
        self.dismiss(self._escape)
