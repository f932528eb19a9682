"""The form of a paired campaign: what it will do, whole, and nothing runs before Start."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Input, Static

from anvil_tui.campaigns.pairs.outlook import DifferenceOutlook, describe
from anvil_tui.console.messages import Done
from anvil_tui.console.paired.acts import Prospect
from anvil_tui.console.paired.outlook_view import outlook_lines, seal_line, why_label
from anvil_tui.console.screens.act_form import ActForm
from anvil_tui.console.views.figures import STYLES, outside
from anvil_tui.console.widgets.answer_button import AnswerButton
from anvil_tui.console.widgets.field import Field
from anvil_tui.records.campaign_file import NamedDifference

Begin = Callable[[tuple[NamedDifference, ...], bool, Done], None]
"""Named differences, whether to seal at the end, and what is called back."""
_WIDTH = 108
_AROUND = 9
"""Lines of the dialog around the outlook: frame, padding, how it is sealed, an error, buttons."""


class PairedScreen(ActForm):
    """Its result is the id of the campaign that was begun, None where the operator left."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", show=False),
        Binding("down", "scroll('down')", show=False, priority=True),
        Binding("up", "scroll('up')", show=False, priority=True),
        Binding("pagedown", "scroll('page_down')", show=False, priority=True),
        Binding("pageup", "scroll('page_up')", show=False, priority=True),
    ]

    def __init__(self, prospect: Prospect, begin: Begin) -> None:
        """`begin` checks and starts the campaign in a thread and calls back."""
        super().__init__()
        self._prospect, self._begin = prospect, begin
        shown = describe(prospect.campaign, prospect.past)
        self._open: tuple[DifferenceOutlook, ...] = tuple(
            one for one in shown.differences if one.standing == "undeclared"
        )

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -list -outlook") as dialog:
            dialog.border_title = Content(outside(self._prospect.campaign.file.name, 100))
            dialog.border_subtitle = "↑ ↓ read    tab: next    esc: leave"
            with VerticalScroll(id="outlook", can_focus=False):
                yield Static("", id="outlook-lines", markup=False)
            with VerticalScroll(id="whys", can_focus=False):
                for number, one in enumerate(self._open):
                    yield Static(why_label(one, _WIDTH - 8), classes="why", markup=False)
                    yield Field(id=f"why-{number}", placeholder="a sentence; it stands in the document")
            yield Static(seal_line(self._prospect.sealer), classes="sealing", markup=False)
            yield Static("", classes="error", id="error", markup=False)
            with Horizontal(classes="buttons"):
                yield AnswerButton("Cancel", id="cancel")
                yield AnswerButton("Start", id="start", variant="primary")
                if self._prospect.sealer is not None:
                    yield AnswerButton("Start and seal", id="start-seal")

    def on_mount(self) -> None:
        (self.query_one("#why-0") if self._open else self.query_one("#start")).focus()
        self.call_after_refresh(self._tell)

    def on_resize(self) -> None:
        # What is read scrolls, so that what is typed and the buttons are always seen.
        lines = int(self.size.height * 0.9) - _AROUND
        whys = min(3 * len(self._open), lines // 2)
        self.query_one("#whys").styles.max_height = whys
        self.query_one("#outlook").styles.max_height = max(3, lines - whys)
        self.call_after_refresh(self._tell)

    @property
    def named(self) -> tuple[NamedDifference, ...]:
        """The undeclared differences for which a why was typed."""
        fields = [self.query_one(f"#why-{number}", Input).value.strip() for number in range(len(self._open))]
        pairs = zip(self._open, fields, strict=True)
        return tuple(NamedDifference(field=one.difference.field, why=why) for one, why in pairs if why)

    @on(Input.Changed)
    def tell_again(self) -> None:
        self.say("")
        self._tell()

    @on(Input.Submitted)
    def go_on(self, event: Input.Submitted) -> None:
        """The next field, then Start."""
        fields = list(self.query(Input))
        later = fields[fields.index(event.input) + 1 :]
        (later[0] if later else self.query_one("#start")).focus()

    @on(Button.Pressed, "#start")
    def start(self) -> None:
        self._start(seal=False)

    @on(Button.Pressed, "#start-seal")
    def start_and_seal(self) -> None:
        self._start(seal=True)

    def _start(self, *, seal: bool) -> None:
        told = {one.field for one in self.named}
        missing = [number for number, one in enumerate(self._open) if one.difference.field not in told]
        if missing:
            fields = ", ".join(outside(self._open[number].difference.field, 100) for number in missing)
            self.say(f"refused: nobody declared {fields}; say why it may differ")
            self.query_one(f"#why-{missing[0]}").focus()
            return
        self.act("checking the lanes …", lambda done: self._begin(self.named, seal, done), STYLES["info"])

    @on(Button.Pressed, "#cancel")
    def action_close(self) -> None:
        # What is being started cannot be left untold: the answer comes within a moment.
        if not self.acting:
            self.dismiss(None)

    def action_scroll(self, where: str) -> None:
        """Read on or back."""
        getattr(self.query_one("#outlook", VerticalScroll), f"scroll_{where}")(animate=False)

    def _tell(self) -> None:
        """Show the campaign as it stands with what was typed."""
        if not self.is_attached:
            return
        width = max(20, self.query_one("#outlook").size.width - 2)
        outlook = describe(self._prospect.campaign, self._prospect.past, self.named)
        self.query_one("#outlook-lines", Static).update(Content("\n").join(outlook_lines(outlook, width)))
