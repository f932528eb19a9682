"""Keys of the log: its filter, its cursor, marks, wrapped lines, and what is copied or saved of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.widgets import Input

from anvil_tui.console import clipboard
from anvil_tui.console.keys import KEYS
from anvil_tui.console.messages import LogRead
from anvil_tui.console.screens.text import TextScreen
from anvil_tui.console.snapshot import LogLine
from anvil_tui.console.views.log_window import Fold, in_sight, top_above, without_time
from anvil_tui.console.widgets.log_pane import LogPane
from tests.unit.console import scenes
from tests.unit.console.still import acts_done, live_of, settle, show, still, text_of

MANY = scenes.log(*(f"line {number}" for number in range(200)))
LOUD = scenes.log(*(f"ERROR {number}" if number in (20, 100, 102) else f"line {number}" for number in range(200)))


@pytest.mark.anyio
async def test_filter_asks_the_log_thread_and_escape_clears_it(tmp_path: Path) -> None:
    async with still(tmp_path) as (app, pilot):
        await show(app, pilot, scenes.ladder_desk(), None, MANY)
        letters = [one for key in KEYS for one in key.keys.split(",") if len(one) == 1]
        typed = "".join(letters) + " !?:/'"
        assert len(letters) > 30
        await pilot.press("slash", *typed)
        await pilot.pause()
        assert app.log_source._filter == typed, "letters are typed, not keys, while the filter has the focus"
        assert app.screen is live_of(app) and app.has_mouse and not app.acts.open
        await pilot.press("enter")
        assert app.focused is live_of(app).query_one(LogPane)
        assert live_of(app).query_one("#filter", Input).has_class("-open"), "a filter that is on stays visible"
        await pilot.press("escape")
        await pilot.pause()
        assert app.log_source._filter == ""
        assert not live_of(app).query_one("#filter", Input).has_class("-open")


@pytest.mark.anyio
async def test_the_log_keeps_your_place_and_follows_again(tmp_path: Path) -> None:
    async with still(tmp_path) as (app, pilot):
        live = live_of(app)
        await show(app, pilot, scenes.ladder_desk(), None, MANY)
        pane = live.query_one(LogPane)
        assert pane.follow and "line 199" in text_of(app)
        await pilot.press("pageup")
        await settle(app, pilot)
        assert not pane.follow
        top = MANY.lines[pane.top].text
        grown = dataclasses.replace(MANY, lines=scenes.log(*(f"line {n}" for n in range(260))).lines[40:])
        live.post_message(LogRead(grown))
        await settle(app, pilot)
        assert grown.lines[pane.top].text == top, "what was pruned above and what came below moves nothing"
        assert "held, +" in text_of(app)
        await pilot.press("G")
        await settle(app, pilot)
        assert pane.follow and "line 259" in text_of(app)
        await pilot.press("g")
        await settle(app, pilot)
        assert pane.top == 0 and not pane.follow
        await pilot.press("f")
        await settle(app, pilot)
        assert pane.follow


@pytest.mark.anyio
async def test_the_errors_and_hits_are_gone_through_both_ways_and_round(tmp_path: Path) -> None:
    async with still(tmp_path) as (app, pilot):
        await show(app, pilot, scenes.ladder_desk(), None, LOUD)
        pane = live_of(app).query_one(LogPane)

        async def go(keys: str) -> list[str]:
            met = []
            for key in keys:
                await pilot.press(key)
                await settle(app, pilot)
                assert not pane.follow and pane.current is not None and pane.current in pane.seen
                met.append(pane.current.text)
            return met

        assert await go("EEEEeee") == [f"ERROR {n}" for n in (102, 100, 20, 102, 20, 100, 102)]
        assert await go("ge") == ["line 0", "ERROR 20"], "the next one, seen from the cursor"
        lines = tuple(line for line in MANY.lines if "line 1" in line.text)
        await pilot.press("f")
        live_of(app).post_message(LogRead(dataclasses.replace(MANY, lines=lines, filter="line 1")))
        await settle(app, pilot)
        assert await go("gnnNNN") == ["line 1", "line 10", "line 11", "line 10", "line 1", "line 199"]
        # Without the filter the cursor stays on its line; around a jump all are shown, and hits are those that match.
        live_of(app).post_message(LogRead(MANY))
        await settle(app, pilot)
        assert pane.current is not None and pane.current.text == "line 199" and not pane.follow
        live_of(app).post_message(LogRead(dataclasses.replace(MANY, page=MANY.lines[20].offset, filter="line 3")))
        await settle(app, pilot)
        assert await go("n") == ["line 30"]
        live_of(app).post_message(LogRead(dataclasses.replace(MANY, filter="(", fault="filter: missing )")))
        await settle(app, pilot)
        await pilot.press("n")
        assert "filter: missing )" in text_of(app)


@pytest.mark.anyio
async def test_the_cursor_goes_by_lines_and_below_the_last_one_follows(tmp_path: Path) -> None:
    async with still(tmp_path) as (app, pilot):
        await show(app, pilot, scenes.ladder_desk(), None, MANY)
        pane = live_of(app).query_one(LogPane)
        assert "▸line 199" in text_of(app)
        await pilot.press("k", "up", "k")
        await settle(app, pilot)
        assert "▸line 196" in text_of(app) and "held, +0 lines below" in text_of(app)
        grown = dataclasses.replace(MANY, lines=scenes.log(*(f"line {n}" for n in range(260))).lines[40:])
        live_of(app).post_message(LogRead(grown))
        await settle(app, pilot)
        assert "▸line 196" in text_of(app), "it stays on its line while the log grows and is cut above"
        await pilot.press(*["j"] * 20)
        await settle(app, pilot)
        assert "▸line 216" in text_of(app) and pane.seen[-1].text == "line 216", "it moves the view as little as can be"
        top = pane.seen[0]
        await pilot.press("pageup")
        await settle(app, pilot)
        assert pane.seen[-1] is top and pane.current is top, "a page up; the cursor stays in sight"
        await pilot.click(LogPane, offset=(5, 2))
        assert pane.current is pane.seen[2] and not pane.follow
        await pilot.press(*["pagedown"] * 8)
        await settle(app, pilot)
        assert pane.follow and "▸line 259" in text_of(app)
        await pilot.press("k", "j", "j")
        assert pane.follow, "below the last line there is only to follow"
        # What moves the log moves the focused list where one has the focus.
        await pilot.press("2", "j", "j")
        await settle(app, pilot)
        assert "▸ 118,500" in text_of(app) and pane.follow


@pytest.mark.anyio
async def test_marks_are_kept_by_their_bytes_and_gone_back_to(tmp_path: Path) -> None:
    async with still(tmp_path) as (app, pilot):
        await show(app, pilot, scenes.ladder_desk(), None, LOUD)
        pane = live_of(app).query_one(LogPane)
        await pilot.press("E", "m", "E", "E", "m", "f")
        await settle(app, pilot)
        assert "2 marks" in text_of(app) and pane.follow
        places = []
        for _ in range(3):
            await pilot.press("apostrophe")
            await settle(app, pilot)
            assert pane.current is not None
            places.append(pane.current.number)
        assert places == [20, 102, 20] and "*▸ERROR 20" in text_of(app)
        # One that is no longer kept, or that the filter hides, is read from the log again.
        await pilot.press("f")
        live_of(app).post_message(LogRead(dataclasses.replace(LOUD, lines=LOUD.lines[150:])))
        await settle(app, pilot)
        await pilot.press("apostrophe")
        assert app.log_source._jump == LOUD.lines[20].offset
        live_of(app).post_message(LogRead(dataclasses.replace(LOUD, page=LOUD.lines[20].offset)))
        await settle(app, pilot)
        assert "*▸ERROR 20" in text_of(app)
        await pilot.press("m")
        await settle(app, pilot)
        assert "1 mark" in text_of(app) and "*▸" not in text_of(app)
        live_of(app).post_message(LogRead(dataclasses.replace(MANY, path=Path("/state/other.log"))))
        await settle(app, pilot)
        assert not pane.marks, "another log has other bytes"


HEAD, WORDS = "(EngineCore pid=2) INFO 08-10 12:00:{n:02d} [core.py:58] line {n} ", "long " * 60
LONG = scenes.log(*(HEAD.format(n=number) + WORDS + f"end {number}" for number in range(30)))


@pytest.mark.anyio
async def test_lines_wrap_lose_their_times_and_open_whole(tmp_path: Path) -> None:
    async with still(tmp_path, (80, 24)) as (app, pilot):
        await show(app, pilot, scenes.ladder_desk(), None, LONG)
        pane = live_of(app).query_one(LogPane)
        assert "line 29 " in text_of(app) and "end 29" not in text_of(app)
        await pilot.press("w", "t")
        await settle(app, pilot)
        shown = text_of(app)
        assert "end 29" in shown and "▸(EngineCore pid=2) INFO [core.py:58] line 29" in shown and "12:00:" not in shown
        assert "wrap  no times" in shown and pane.follow
        await pilot.press("k")
        await settle(app, pilot)
        assert "▸(EngineCore pid=2) INFO [core.py:58] line 28" in text_of(app) and "end 28" in text_of(app)
        await pilot.press("g", "j", "j")
        await settle(app, pilot)
        assert "line 2 " in text_of(app) and "end 2" in text_of(app), "all of the cursor's line is in sight"
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, TextScreen) and "12:00:02" in text_of(app)
        await pilot.press("escape", "w", "t", "right", "right")
        await settle(app, pilot)
        assert "*" not in text_of(app) and "core.py:58] line 2 long" in text_of(app)


def test_a_window_of_wrapped_lines() -> None:
    texts = ("short", "x" * 25, "日本語" * 5, "")
    lines = [LogLine(number, number * 100, text) for number, text in enumerate(texts)]
    fold = Fold(10, wrap=True)
    rows = in_sight(lines, fold, 0, 100)
    assert [place for place, _ in rows] == [0, 1, 1, 1, 2, 2, 2, 3]
    assert all(cell_len(row) <= 10 for _, row in rows)
    assert ["".join(row for place, row in rows if place == at) for at in range(4)] == list(texts), "nothing is lost"
    assert in_sight(lines, fold, 2, 5) == [(1, "x" * 5), *rows[4:]][-5:], "above the end stands what was before it"
    assert in_sight(lines, fold, 1, 2) == [(1, "x" * 10), (1, "x" * 10)]
    assert top_above(lines, fold, 3, 4) == 2 and top_above(lines, fold, 3, 3) == 3 and top_above(lines, fold, 2, 2) == 2
    assert top_above(lines, Fold(10), 3, 3) == 1 and top_above(lines, fold, 3, 100) == 0


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("(EngineCore pid=2) INFO 08-10 12:00:03 [core.py:58] a", "(EngineCore pid=2) INFO [core.py:58] a"),
        ("INFO 08-10 12:00:03.123 [core.py:58] at 12:00:03", "INFO [core.py:58] at 12:00:03"),
        ("2026-12-01T12:00:03.123456789Z INFO 08-10 12:00:03 [core.py:58] a", "INFO [core.py:58] a"),
        ("2026-12-01T12:00:03+01:00 INFO:     Started", "INFO:     Started"),
        ("[2026-08-10 12:00:03 TP0 EP1] a", "[TP0 EP1] a"),
        ("[2026-08-10 12:00:03] a", "a"),
        ("[08/10/2026-12:00:03] [TRT-LLM] [I] a", "[TRT-LLM] [I] a"),
        ("0.00.123.456 I a", "I a"),
        ("INFO:     127.0.0.1:60842 - GET", "INFO:     127.0.0.1:60842 - GET"),
        ("a 2026-08-10 12:00:03 b", "a 2026-08-10 12:00:03 b"),
        ("", ""),
    ],
)  # fmt: skip
def test_only_a_stamp_at_the_head_is_hidden(text: str, shown: str) -> None:
    assert without_time(text) == shown


@pytest.mark.anyio
async def test_lines_are_copied_and_saved_and_no_more_is_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clipboard, "look", lambda _: clipboard.Seat())
    monkeypatch.setenv("HOME", str(tmp_path))
    async with still(tmp_path) as (app, pilot):
        await show(app, pilot, scenes.ladder_desk(), None, LOUD)
        pane = live_of(app).query_one(LogPane)
        for keys, text in (
            ("y", "line 199"),
            ("Ey", "ERROR 102"),
            ("Y", "\n".join(line.text for line in pane.seen)),
        ):
            await pilot.press(*keys)
            text = "\n".join(line.text for line in pane.seen) if keys == "Y" else text
            await acts_done(app, pilot)
            assert app.clipboard == text
        assert "1 log line: sent to the terminal's clipboard (9 characters)" in text_of(app)
        app.copy("x" * 70_000, "the selection")
        await acts_done(app, pilot)
        (copied,) = (tmp_path / "state").glob("copy-*.txt")
        assert copied.read_text() == "x" * 70_000 and app.clipboard != "x" * 70_000
        assert f"the selection: in ~/state/{copied.name}, not on a clipboard: 70,000 bytes" in text_of(app)
        await pilot.press("slash", *"word", "shift+home", "ctrl+c")
        await acts_done(app, pilot)
        assert app.clipboard == "word" and app.screen is live_of(app), "what is selected in a field goes first"
        await pilot.press("escape")
        few = dataclasses.replace(LOUD, lines=LOUD.lines[100:103], filter="10")
        live_of(app).post_message(LogRead(few))
        await settle(app, pilot)
        for _ in range(2):
            await pilot.press("ctrl+s")
            await acts_done(app, pilot)
        saved = sorted((tmp_path / "state").glob("log-*.txt"))
        assert len(saved) == 2, "no file is written over another, within one second either"
        for path in saved:
            assert path.read_text() == "ERROR 100\nline 101\nERROR 102\n" and path.stat().st_mode & 0o777 == 0o600
        assert f"3 log lines of the filter in ~/state/{saved[0].name}" in text_of(app)
