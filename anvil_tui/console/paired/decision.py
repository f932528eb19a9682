"""The decision: a text to edit, saved into the campaign before it is sealed."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Static, TextArea
from textual.widgets.text_area import Edit, EditResult

from anvil_tui.console.messages import Done
from anvil_tui.console.paired.acts import Draft
from anvil_tui.console.screens.act_form import ActForm
from anvil_tui.console.views.figures import STYLES, outside
from anvil_tui.console.widgets.answer_button import AnswerButton
from anvil_tui.text import sanitise

Save = Callable[[str, Done], None]
_LINE = 20_000
"""Characters of one line that are taken."""


def plain(text: str) -> str:
    """Text of several lines without anything that a terminal could obey."""
    return "\n".join(sanitise(line, _LINE) for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))


class DecisionText(TextArea):
    """Takes plain text only; what is pasted is outside text too."""

    def edit(self, edit: Edit) -> EditResult:
        edit.text = plain(edit.text)
        return super().edit(edit)


class DecisionScreen(ActForm):
    """Its result is the sentence about the saved decision, None where the operator left."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # No priority: they wait for their turn behind what was typed before them.
        Binding("ctrl+s", "save", show=False),
        Binding("escape", "close", show=False),
    ]

    def __init__(self, draft: Draft, campaign: str, save: Save) -> None:
        """`save` puts the text into the campaign in a thread and calls back."""
        super().__init__()
        self._draft, self._campaign, self._save = draft, campaign, save
        self._begun = plain(draft.text)
        self._warned = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -list -decision") as dialog:
            dialog.border_title = Content(f"Decision on {outside(self._campaign, 90)}")
            dialog.border_subtitle = "ctrl+s: save    tab: buttons    esc: leave"
            yield Static(
                Content.styled(f"begun with {outside(self._draft.origin, 80)}; it is sealed with the campaign", "dim"),
                markup=False,
            )
            text = DecisionText(self._begun, id="decision", compact=True, highlight_cursor_line=False)
            text.cursor_blink = False
            yield text
            yield Static("", classes="error", id="error", markup=False)
            with Horizontal(classes="buttons"):
                yield AnswerButton("Cancel", id="cancel")
                yield AnswerButton("Save", id="save", variant="primary")

    def on_mount(self) -> None:
        text = self.query_one(DecisionText)
        text.focus()
        text.move_cursor(text.document.end)

    @on(TextArea.Changed)
    def forget_warning(self) -> None:
        self._warned = False

    @on(Button.Pressed, "#save")
    def action_save(self) -> None:
        """Save what stands there."""
        text = self.query_one(DecisionText).text
        self.act("saving …", lambda done: self._save(text, done), STYLES["info"])

    @on(Button.Pressed, "#cancel")
    def action_close(self) -> None:
        """Leave; a text that was changed is thrown away on the second press only."""
        if self.query_one(DecisionText).text != self._begun and not self._warned:
            self._warned = True
            self.say("not saved: once more throws the changes away, ctrl+s saves them", STYLES["warn"])
            return
        self.dismiss(None)

    def refused(self, reason: str) -> None:
        self.say(reason, STYLES["bad"])
