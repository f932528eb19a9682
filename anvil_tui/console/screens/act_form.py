"""A form whose answer starts an act in a thread, and that stays with the reason where the act is refused."""

from __future__ import annotations

from collections.abc import Callable

from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from anvil_tui.console.messages import ActDone, Done
from anvil_tui.console.views.figures import outside


class ActForm(ModalScreen[str | None]):
    """Its result is what the act gave, None where the operator left.

    Nothing is disabled while the act runs: the focus would go to Cancel, and a second enter with it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.acting = False

    def act(self, words: str, act: Callable[[Done], None], style: str = "") -> None:
        """Say `words` and start the act, unless one is under way."""
        if self.acting:
            return
        self.acting = True
        self.say(words, style)
        act(self.acted)

    def acted(self, done: ActDone) -> None:
        """The act is done, or it was refused."""
        if not self.is_attached:
            return
        self.acting = False
        if done.error is None:
            self.dismiss(done.value)
            return
        self.refused(outside(done.error, 1000))

    def refused(self, reason: str) -> None:
        """Show why, and put the focus where it is tried again."""
        self.say(reason)

    def say(self, words: str, style: str = "") -> None:
        """Say something in the form's line for it."""
        self.query_one("#error", Static).update(Content.styled(words, style))
