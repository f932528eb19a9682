"""Sealing and signing: what it does, and the passphrase; the key is created here where there is none yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Input, Static

from anvil_tui.console.messages import ActDone, Done
from anvil_tui.console.screens.act_form import ActForm
from anvil_tui.console.snapshot import CampaignRow
from anvil_tui.console.views.bundle_view import seal_words
from anvil_tui.console.widgets.answer_button import AnswerButton
from anvil_tui.console.widgets.field import Field, LabelledField
from anvil_tui.records.bundle import SigningKey

Sign = Callable[[str, bytes | None, Done], None]


class SealScreen(ActForm):
    """Its result is the sentence about the signature, None where the operator left."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", show=False),
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]

    def __init__(self, row: CampaignRow, key: SigningKey | None, principal: str, decided: bool, sign: Sign) -> None:
        """`sign` seals and signs in a thread and calls back; `principal` names a key that is still to be created."""
        super().__init__()
        self._row, self._key, self._principal, self._decided, self._sign = row, key, principal, decided, sign

    @property
    def _asks_passphrase(self) -> bool:
        return self._key is None or (bool(self._key.needs_passphrase) and not self._key.agent)

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog", can_focus=False) as dialog:
            dialog.border_title = "Seal and sign"
            yield Static(seal_words(self._row, self._key, decided=self._decided), classes="words", markup=False)
            yield Static("", markup=False)
            if self._key is None:
                yield LabelledField("Your name, you@lab", Field(self._principal, id="principal"))
            if self._asks_passphrase:
                yield LabelledField("Passphrase", Field(password=True, id="passphrase"))
            if self._key is None:
                yield LabelledField("Once more", Field(password=True, id="again"))
                yield Static(
                    Content.styled(
                        "An empty one leaves the key open to anyone who reads its file.", "$foreground-muted"
                    ),
                    markup=False,
                )
            yield Static("", classes="error", id="error", markup=False)
            with Horizontal(classes="buttons"):
                yield AnswerButton("Cancel", id="cancel")
                yield AnswerButton(
                    "Sign" if self._row.standing == "sealed" else "Seal and sign", id="sign", variant="primary"
                )

    def on_mount(self) -> None:
        # Never the name first: what is typed ahead of a focus that moves would stand there to be read.
        (self.query("#passphrase") or self.query("#cancel")).first().focus()

    @on(Input.Submitted)
    def go_on(self, event: Input.Submitted) -> None:
        fields = list(self.query(Input))
        if event.input is fields[-1]:
            self.start()
        else:
            fields[fields.index(event.input) + 1].focus()

    @on(Button.Pressed, "#sign")
    def start(self) -> None:
        typed = self._typed("passphrase")
        if self._key is None and typed != self._typed("again"):
            self.say("the two passphrases differ")
            return
        principal = self._typed("principal")
        self.act("sealing and signing …", lambda done: self._sign(principal, typed.encode() or None, done))

    @on(Button.Pressed, "#cancel")
    def action_close(self) -> None:
        self.dismiss(None)

    def acted(self, done: ActDone) -> None:
        for field in self.query("#passphrase, #again").results(Input):
            field.value = ""
        super().acted(done)

    def refused(self, reason: str) -> None:
        super().refused(reason)
        (self.query("#passphrase") or self.query("#sign")).first().focus()

    def _typed(self, name: str) -> str:
        fields = self.query(f"#{name}").results(Input)
        return next((field.value for field in fields), "")
