"""Outside text is shown and never obeyed: the standing table goes through every widget of the console.

Every plain text inside the snapshots is replaced by the nasty one, whatever field it stands in, and every widget class
of the console must have been on the screen meanwhile: a new widget that this does not reach fails the test.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import pkgutil
import re
import sys
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget

import anvil_tui.console
from anvil_tui.campaigns.pairs.campaign_file import find_campaign_file
from anvil_tui.campaigns.pairs.pace import Past
from anvil_tui.campaigns.store.folder import CampaignFolder
from anvil_tui.campaigns.store.view import CampaignView, LoadView, RunView
from anvil_tui.console.messages import SourceFailed
from anvil_tui.console.paired import compare_view
from anvil_tui.console.paired.acts import Draft, Prospect
from anvil_tui.console.paired.compare import CompareScreen
from anvil_tui.console.paired.comparison import ArmName, Claim, CompareRead, Comparison, Conclusions, Protocol
from anvil_tui.console.paired.decision import DecisionScreen
from anvil_tui.console.paired.form import PairedScreen
from anvil_tui.console.screens.confirm import Answer, ConfirmScreen
from anvil_tui.console.screens.live import LiveScreen
from anvil_tui.console.screens.seal import SealScreen
from anvil_tui.console.screens.text import TextScreen
from anvil_tui.console.snapshot import Desk, Note
from anvil_tui.console.sources.log_rows import LogRows
from anvil_tui.console.stopping import StopAsked, stop_question
from anvil_tui.console.views import bundle_view, rungs_view
from anvil_tui.evidence.arms.differences import Difference
from anvil_tui.lanes.difference import LaneDifference
from anvil_tui.lanes.profile import Lane
from anvil_tui.locations import Locations
from anvil_tui.records.acceptance import ConditionState
from anvil_tui.records.bundle import SigningKey
from anvil_tui.text import sanitise
from tests.unit.console import scenes
from tests.unit.console.still import StillApp, live_of, show, still, text_of
from tests.unit.console.test_compare import METRIC, Unread
from tests.unit.console.test_screens import verification

T = TypeVar("T")

NASTY = {
    "markup": "[/] [bold red]x[/bold red] [link=http://x]y [@click=app.quit]z[/] [ERROR] [/opt/models] [rank0]:",
    "open markup": "[b",
    "ansi": "\x1b[31mred\x1b[0m \x1b[2J\x1b[1;1H",
    "osc": "\x1b]0;owned\x07\x1b]52;c;aGk=\x07title",
    "osc cut off": "before\x1b]8;;http://x",
    "c1": "\x9b31mred\x9d0;owned\x9c\x85next",
    "bidi": "\u202eevil\u202c\u2066x\u2069",
    "carriage return": "50%\r100%\rdone",
    "nul": "a\x00b\x07c\x0ed",
    "lines": "one\ntwo\u2028three\x0bfour",
    "invalid utf-8": "bad \udcff\udcfe",
    "long": "L" * 1_000_000,
    "wide": "日本語" * 40 + " e\u0301 👩‍👩‍👧",
    "braces": "{recipe.max_model_len} %s %(name)s $text-error $",
    "empty": "",
}

ALL_AT_ONCE = " ".join([*(text for name, text in NASTY.items() if name not in ("long", "osc cut off")), "\x1b]8;;cut"])


def poisoned(value: T, nasty: str) -> T:
    """The value with every plain text in it replaced. Words of closed sets stay: they are ours."""
    return typing.cast("T", _poisoned(value, type(value), nasty))


def _poisoned(value: Any, hint: Any, nasty: str) -> Any:
    if isinstance(value, str):
        return nasty if _plain_text(hint) else value
    if isinstance(value, CampaignFolder):
        return CampaignFolder(Path("/state") / (nasty[:200].replace("/", "_").replace("\0", "_") or "x"))
    if isinstance(value, Path | Lane):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        hints = _hints(type(value))
        return dataclasses.replace(
            value,
            **{f.name: _poisoned(getattr(value, f.name), hints[f.name], nasty) for f in dataclasses.fields(value)},
        )
    if isinstance(value, msgspec.Struct):
        hints = _hints(type(value))
        return msgspec.structs.replace(
            value, **{name: _poisoned(getattr(value, name), hints[name], nasty) for name in value.__struct_fields__}
        )
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return value
    if isinstance(value, tuple):
        inner = get_args(hint)[0] if get_args(hint) else Any
        return tuple(_poisoned(one, inner, nasty) for one in value)
    if isinstance(value, Mapping):
        inner = get_args(hint)[-1] if get_args(hint) else Any
        return {_poisoned(key, str, nasty): _poisoned(one, inner, nasty) for key, one in value.items()}
    return value


def _hints(kind: type) -> dict[str, Any]:
    """The types of a record's fields, also where its module imports them for the type checker only."""
    return get_type_hints(kind, localns=_named_for_types(kind.__module__))


@functools.cache
def _named_for_types(module: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for node in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), module, "exec"), names)
    return names


def _plain_text(hint: Any) -> bool:
    """Whether a field takes any text, and not only words of a closed set."""
    if hint is str or hint is Any:
        return True
    if get_origin(hint) in (Union, types.UnionType):
        return str in get_args(hint)
    return False


_ORDERS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\u2028\u2029]")


def harmless(text: str) -> None:
    """Nothing on the screen can be an order to the terminal."""
    bad = [line for line in text.split("\n") if _ORDERS.search(line)]
    assert not bad, "\n".join(ascii(line) for line in bad)


OWN_TABLES = ("anvil_tui.console.paired",)
"""Rooms whose screens have this test of their own."""


def widget_classes() -> set[type[Widget]]:
    """Every widget and screen that the console defines."""
    found: set[type[Widget]] = set()
    for module in pkgutil.walk_packages(anvil_tui.console.__path__, "anvil_tui.console."):
        if module.name.startswith(OWN_TABLES):
            continue
        loaded = importlib.import_module(module.name)
        for value in vars(loaded).values():
            if isinstance(value, type) and issubclass(value, Widget) and value.__module__ == module.name:
                found.add(value)
    return found


@pytest.mark.anyio
@pytest.mark.parametrize(
    "nasty",
    [
        pytest.param(ALL_AT_ONCE, id="all at once"),
        pytest.param(NASTY["long"], id="long", marks=pytest.mark.slow),
        pytest.param(NASTY["empty"], id="empty", marks=pytest.mark.slow),
    ],
)
async def test_the_standing_table_goes_through_every_widget(nasty: str, tmp_path: Path) -> None:
    seen: set[type[Widget]] = set()
    async with still(tmp_path, (80, 24)) as (app, pilot):
        await _everything(app, pilot, nasty, seen)
    missed = {one for one in widget_classes() if not any(issubclass(other, one) for other in seen)}
    assert not missed, f"no outside text went through {missed}: reach them in this test"


@pytest.mark.anyio
async def test_each_nasty_text_on_the_live_screen(tmp_path: Path) -> None:
    async with still(tmp_path) as (app, pilot):
        for nasty in NASTY.values():
            await _live(app, pilot, nasty)
            harmless(text_of(app))
            if nasty.strip() and nasty.isascii() and nasty.isprintable():
                assert sanitise(nasty)[:20] in text_of(app).replace("\n", " ")


async def _live(app: StillApp, pilot: Any, nasty: str) -> Desk:
    """The live screen full of one nasty text."""
    desk = poisoned(scenes.ladder_desk(), nasty)
    rows = LogRows()
    rows.feed(b"INFO before\n" + nasty.encode("utf-8", "surrogateescape") + b"\nINFO after\n", 0)
    log = dataclasses.replace(scenes.log(), lines=rows.shown(), filter=nasty, fault=nasty)
    await show(app, pilot, desk, poisoned(scenes.gpus(), nasty), log)
    return desk


async def _everything(app: StillApp, pilot: Any, nasty: str, seen: set[type[Widget]]) -> None:
    """Every screen of the console, full of one nasty text."""
    desk = await _live(app, pilot, nasty)
    _look(app, seen)
    failed = dataclasses.replace(scenes.gpus(), gpus=(), failed=nasty, hint=nasty)
    await show(app, pilot, desk, failed)
    _look(app, seen)
    live = live_of(app)
    live.note(nasty, "bad")
    for key in ("u", "c", "l", "F", "L", "question_mark", "x", "X", "5"):
        await pilot.press(key)
        await pilot.pause()
        _look(app, seen)
        if app.screen is not live:
            app.pop_screen()
    shown = desk.shown
    assert shown is not None
    run = RunView("practice-r1", "rung", 1, "failed", nasty)
    key = poisoned(
        SigningKey(
            public="", key_type="", fingerprint="", comment="", own=True, agent=False, path="", needs_passphrase=True,
            principal="",
        ),
        nasty,
    )  # fmt: skip
    title, words, answers = stop_question(shown.row, StopAsked(shown.row.folder.id, "", 0), 10_000_000)
    others: list[Screen[Any]] = [
        SealScreen(shown.row, key, nasty, False, lambda *_: None),
        SealScreen(shown.row, None, nasty, True, lambda *_: None),
        TextScreen("Verification", bundle_view.verification_lines(poisoned(verification(), nasty))),
        TextScreen("Run", rungs_view.run_detail(run, next(iter(shown.figures.values())))),
        ConfirmScreen(title, words, answers),
        ConfirmScreen("Leave?", Content("x"), (Answer("a", "A", "a"),)),
    ]
    others += pair_screens(nasty)
    for screen in others:
        app.push_screen(screen)
        await pilot.pause()
        _look(app, seen)
        app.pop_screen()
    await pilot.pause()
    assert app.screen is live and app._exception is None


def pair_screens(nasty: str) -> list[Screen[Any]]:
    """The screens of a paired campaign, each tab of the compare screen, with one nasty text everywhere."""
    campaign = find_campaign_file("rehearsal-seed004", Locations.default())
    difference = poisoned(LaneDifference((Difference("a", "b", "c"),), (Difference("port", 1, 2),)), nasty)
    told = dataclasses.replace(campaign, file=poisoned(campaign.file, nasty), difference=difference)
    arms = {role: poisoned(ArmName("old", "lane"), nasty) for role in ("baseline", "candidate")}
    comparison = dataclasses.replace(
        poisoned(
            Comparison(
                view=CampaignView("id", words="x", loads=(LoadView(0, 1, "baseline", "lane", False, "cut short"),)),
                standing="complete",
                title="a pair",
                arms={},
                acceptance=(ConditionState(what="x", text="x", state="not met", words="x", evidence=()),),
                conclusions=Conclusions(
                    origin="x", protocols=(Protocol("x", (METRIC,)),), violated=("x",), gates=("x",), kv=("x",),
                    proven=(Claim("x"),), not_proven=(Claim("x", "y"),), caveats=("x",), decision="x",
                ),
                decided="x",
            ),
            nasty,
        ),
        arms=arms,
    )  # fmt: skip
    screens: list[Screen[Any]] = []
    for tab, _ in compare_view.TABS:
        screen = CompareScreen(lambda _: None, lambda: Note(scenes.AT, nasty), Unread)
        screen.take(CompareRead(comparison))
        screen.tell_fault(SourceFailed("comparison", nasty))
        screen._tab = tab
        screens.append(screen)
    return [
        *screens,
        PairedScreen(Prospect(told, Past(), nasty), lambda *_: None),
        DecisionScreen(Draft(nasty, nasty), nasty, lambda *_: None),
    ]


def _look(app: StillApp, seen: set[type[Widget]]) -> None:
    seen.add(type(app.screen))
    seen.update(type(widget) for widget in app.screen.walk_children(Widget))
    harmless(text_of(app))


def test_the_list_of_widgets_is_not_empty() -> None:
    assert LiveScreen in widget_classes() and len(widget_classes()) > 10
