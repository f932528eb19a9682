"""The form of what is measured on one lane: typed on top, what exactly will run below, nothing before Start."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Input, Select, Static

from anvil_tui.console.messages import Done
from anvil_tui.console.screens.act_form import ActForm
from anvil_tui.console.snapshot import LaneRow, MeasureForm, Rung
from anvil_tui.console.views.figures import outside
from anvil_tui.console.views.measure_view import Line, Measure, Review
from anvil_tui.console.widgets.answer_button import AnswerButton
from anvil_tui.console.widgets.field import Field, LabelledField
from anvil_tui.records.plan import MeasurePlan

Begin = Callable[[MeasurePlan, bool, Done], None]


class MeasureScreen(ActForm):
    """Its result is the id of the campaign that was begun, None where the operator left."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", show=False),
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]

    def __init__(
        self, measure: Measure, form: MeasureForm, lane: LaneRow, past: tuple[Rung, ...], begin: Begin
    ) -> None:
        """`begin` checks and starts a plan in a thread and calls back."""
        super().__init__()
        self._measure, self._form, self._lane, self._past, self._begin = measure, form, lane, past, begin
        self._review: Review = measure.review(form, lane, past)

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog", can_focus=False) as dialog:
            dialog.border_title = Content(f"{self._measure.title} on {outside(self._lane.name, 64)}")
            dialog.border_subtitle = "enter: next, then Start    esc: leave"
            for line in self._measure.lines:
                yield LabelledField(line.label, self._field(line))
            yield Static("", classes="words", id="review", markup=False)
            yield Static("", classes="error", id="error", markup=False)
            with Horizontal(classes="buttons"):
                yield AnswerButton("Cancel", id="cancel")
                yield AnswerButton("Start", id="start", variant="primary")

    def _field(self, line: Line) -> Field | Select[str]:
        value = self._form[line.name]
        if not line.choices:
            return Field(value, id=line.name)
        return Select(
            [(choice, choice) for choice in line.choices],
            value=value or Select.NULL,
            prompt=line.unset,
            allow_blank=bool(line.unset),
            compact=True,
            id=line.name,
        )

    def on_mount(self) -> None:
        self.query_one(f"#{self._measure.lines[0].name}", Input).focus()
        self._tell()

    @on(Input.Changed)
    @on(Select.Changed)
    def review_again(self) -> None:
        self._form = MeasureForm({line.name: self._typed(line) for line in self._measure.lines})
        self._review = self._measure.review(self._form, self._lane, self._past)
        self._tell()

    def _typed(self, line: Line) -> str:
        if not line.choices:
            return self.query_one(f"#{line.name}", Input).value
        chosen = self.query_one(f"#{line.name}", Select).value
        return "" if chosen is Select.NULL else str(chosen)

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
