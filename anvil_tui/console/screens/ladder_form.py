"""The ladder form: what is typed on top, what exactly will run below, and nothing runs before Start."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, cast, get_args

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Input, Select, Static

from anvil_tui.console.messages import Done
from anvil_tui.console.screens.act_form import ActForm
from anvil_tui.console.snapshot import LadderForm, LaneRow, Rung
from anvil_tui.console.views.figures import outside
from anvil_tui.console.views.ladder_view import Review, review
from anvil_tui.console.widgets.answer_button import AnswerButton
from anvil_tui.console.widgets.field import Field, LabelledField
from anvil_tui.records.lane import Effort
from anvil_tui.records.plan import LadderPlan

Begin = Callable[[LadderPlan, bool, Done], None]


class LadderScreen(ActForm):
    """Its result is the id of the campaign that was begun, None where the operator left."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", show=False),
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]

    def __init__(self, form: LadderForm, lane: LaneRow, past: tuple[Rung, ...], begin: Begin) -> None:
        """`begin` checks and starts a plan in a thread and calls back."""
        super().__init__()
        self._form, self._lane, self._past, self._begin = form, lane, past, begin
        self._review: Review = review(form, lane, past)

    def compose(self) -> ComposeResult:
        efforts: list[tuple[str, str]] = [(effort, effort) for effort in get_args(Effort)]
        with VerticalScroll(classes="dialog", can_focus=False) as dialog:
            dialog.border_title = Content(f"Ladder on {outside(self._lane.name, 64)}")
            dialog.border_subtitle = "enter: next, then Start    esc: leave"
            yield LabelledField("Targets (tokens)", Field(self._form.targets, id="targets"))
            yield LabelledField("Max tokens", Field(self._form.max_tokens, id="max-tokens"))
            yield LabelledField("Margin (tokens)", Field(self._form.margin, id="margin"))
            default, value = "the engine's default", self._form.effort or Select.NULL
            choice = Select(efforts, value=value, prompt=default, compact=True, id="effort")
            yield LabelledField("Reasoning effort", choice)
            yield Static("", classes="words", id="review", markup=False)
            yield Static("", classes="error", id="error", markup=False)
            with Horizontal(classes="buttons"):
                yield AnswerButton("Cancel", id="cancel")
                yield AnswerButton("Start", id="start", variant="primary")

    def on_mount(self) -> None:
        self.query_one("#targets", Input).focus()
        self._tell()

    @on(Input.Changed)
    @on(Select.Changed)
    def review_again(self) -> None:
        effort = self.query_one("#effort", Select).value
        self._form = LadderForm(
            targets=self.query_one("#targets", Input).value,
            max_tokens=self.query_one("#max-tokens", Input).value,
            margin=self.query_one("#margin", Input).value,
            effort=None if effort is Select.NULL else cast(Effort, effort),
        )
        self._review = review(self._form, self._lane, self._past)
        self._tell()

    @on(Input.Submitted)
    def go_to_start(self) -> None:
        self.query_one("#start").focus()

    @on(Button.Pressed, "#start")
    def start(self) -> None:
        if (plan := self._review.plan) is not None:
            self.act("checking the lane …", lambda done: self._begin(plan, self._review.starts_lane, done))

    @on(Button.Pressed, "#cancel")
    def action_close(self) -> None:
        # What is being started cannot be left untold: the answer comes within a moment.
        if not self.acting:
            self.dismiss(None)

    def refused(self, reason: str) -> None:
        super().refused(reason)
        self.query_one("#start").focus()

    def _tell(self) -> None:
        self.query_one("#review", Static).update(Content("\n").join([Content(""), *self._review.lines]))
        self.say("")
        self.query_one("#start", Button).disabled = self._review.plan is None
