"""The compare screen: two arms side by side while they are measured, and afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from anvil_tui.console.messages import SourceFailed
from anvil_tui.console.paired import compare_view
from anvil_tui.console.paired.comparison import CompareRead, Comparison
from anvil_tui.console.snapshot import Note
from anvil_tui.console.sources.source import Post, Source
from anvil_tui.console.views import keys_view, notes_view
from anvil_tui.console.views.figures import STYLES, outside
from anvil_tui.console.widgets.line import Line

if TYPE_CHECKING:
    from anvil_tui.console.app import ConsoleApp

_KEYS = (
    ("1-4", "Tab", ""),
    ("j k", "Scroll", ""),
    ("d", "Decide", "campaign.decide"),
    ("r", "Resume", "run.resume"),
    ("b", "Seal", "bundle.make"),
    ("v", "Verify", "bundle.verify"),
    ("o", "Report", "campaign.report"),
    ("esc", "Back", ""),
)
"""Each with its word, and with the id of the live screen's key that it is."""


class CompareScreen(Screen[None]):
    """Shows what its own thread reads of one campaign; the thread lives as long as the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,C", "app.pop_screen", show=False),
        Binding("1", "tab('overview')", show=False),
        Binding("2", "tab('figures')", show=False),
        Binding("3", "tab('claims')", show=False),
        Binding("4", "tab('plots')", show=False),
        Binding("tab,right", "next(1)", show=False),
        Binding("shift+tab,left", "next(-1)", show=False),
        Binding("j,down", "scroll('down')", show=False),
        Binding("k,up", "scroll('up')", show=False),
        Binding("pagedown,space", "scroll('page_down')", show=False),
        Binding("pageup", "scroll('page_up')", show=False),
        Binding("g,home", "scroll('home')", show=False),
        Binding("G,end", "scroll('end')", show=False),
        *(Binding(key, f"act('{action}')", show=False) for key, action in (
            ("d", "decide"), ("r", "resume"), ("b", "seal"), ("v", "verify"), ("o", "report"),
            ("question_mark,f1", "help"),
        )),
    ]  # fmt: skip

    def __init__(self, act: Callable[[str], None], newest: Callable[[], Note | None], read: Callable[[Post], Source]):
        """`act` does an action of the live screen; `newest` is its newest note; `read` makes the thread that reads."""
        super().__init__()
        self._act, self._newest = act, newest
        self._source = read(self.post_message)
        self._comparison: Comparison | None = None
        self._fault = ""
        self._lines = Content("")
        self._tab: compare_view.Tab = "overview"

    def compose(self) -> ComposeResult:
        yield Line("compare-head")
        yield Line("compare-tabs")
        with VerticalScroll(id="compare-body", can_focus=True):
            yield Static("", id="compare-lines", markup=False)
        yield Line("compare-note")
        yield Line("compare-keys")

    def on_mount(self) -> None:
        self.query_one("#compare-body").focus()
        self._source.start()
        self.set_interval(0.5, self.paint)
        self.paint()

    def on_unmount(self) -> None:
        self._source.stop()

    def on_resize(self) -> None:
        self.call_after_refresh(self.paint)

    @on(CompareRead)
    def take(self, message: CompareRead) -> None:
        new = self._comparison is None
        self._comparison, self._fault = message.comparison, ""
        if new:
            self.paint()

    @on(SourceFailed)
    def tell_fault(self, message: SourceFailed) -> None:
        self._fault = message.words
        self.paint()

    def paint(self) -> None:
        """Paint what was read last; only what changed is drawn."""
        if not self.is_mounted:
            return
        app = cast("ConsoleApp", self.app)
        width = self.size.width
        body = self.query_one("#compare-body", VerticalScroll)
        room = max(20, body.size.width - 3)
        if self._comparison is not None:
            self.query_one("#compare-head", Line).say(compare_view.head(self._comparison, app.time(), width))
            lines = compare_view.lines(self._comparison, self._tab, app.now_us(), room)
        else:
            lines = [Content("reading the campaign …")]
        if self._fault:
            lines = [Content.styled(f"STALE: {outside(self._fault, 1000)}", STYLES["bad"]), *lines]
        self.query_one("#compare-tabs", Line).say(compare_view.tab_line(self._tab))
        content = Content("\n").join(lines)
        if not content.is_same(self._lines):
            self._lines = content
            self.query_one("#compare-lines", Static).update(content)
        note = self._newest()
        self.query_one("#compare-note", Line).say(notes_view.note_line(note, width - 2) if note else Content(""))
        off = app.refusals
        parts = [part for key, word, id in _KEYS for part in keys_view.key_words(key, word, off=id in off)]
        self.query_one("#compare-keys", Line).say(Content.assemble(*parts))

    def action_tab(self, tab: compare_view.Tab) -> None:
        """Show a tab from its top."""
        self._tab = tab
        self.query_one("#compare-body", VerticalScroll).scroll_home(animate=False)
        self.paint()

    def action_next(self, by: int) -> None:
        """The tab beside this one."""
        names = [name for name, _ in compare_view.TABS]
        self.action_tab(names[(names.index(self._tab) + by) % len(names)])

    def action_scroll(self, where: str) -> None:
        """Move by a line, a page or to an end."""
        getattr(self.query_one("#compare-body", VerticalScroll), f"scroll_{where}")(animate=False)

    def action_act(self, action: str) -> None:
        """Do what the live screen does with this key."""
        self._act(action)
