"""Keys of the live screen: what they do, what they ask, and what they leave alone."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from anvil_tui.console.keys import KEYS
from anvil_tui.console.messages import ActDone, LogRead
from anvil_tui.console.screens.confirm import ConfirmScreen
from anvil_tui.console.screens.measure_form import MeasureScreen
from anvil_tui.console.screens.picker import PickerScreen
from anvil_tui.console.screens.seal import SealScreen
from anvil_tui.console.screens.text import TextScreen
from anvil_tui.records.vram import Policy
from tests.unit.console import scenes
from tests.unit.console.still import live_of, settle, show, still, text_of

pytestmark = pytest.mark.anyio

MANY = scenes.log(*(f"line {number}" for number in range(200)))


def acted(app: Any) -> list[tuple[str, Any]]:
    """Collect the acts that keys start instead of doing them."""
    started: list[tuple[str, Any]] = []
    app.acts.start = lambda act, work, done: started.append((act, done))
    return started


async def test_quit_without_a_run_is_at_once(tmp_path: Path) -> None:
    async with still(tmp_path) as (app, pilot):
        await show(app, pilot, scenes.sealed_desk())
        await pilot.press("q")
        await pilot.pause()
        assert app.return_code == 0


async def test_quit_with_a_run_asks_and_leaves_it_alone(tmp_path: Path) -> None:
    async with still(tmp_path) as (app, pilot):
        await show(app, pilot, scenes.ladder_desk())
        started = acted(app)
        await pilot.press("q")
        (act, done) = started.pop()
        done(ActDone(act, done, "WSL: no hold runs"))
        await pilot.pause()
        assert isinstance(app.screen, ConfirmScreen)
        assert "WSL: no hold runs" in text_of(app)
        assert app.focused is not None and app.focused.id == "answer-leave"
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is live_of(app) and app.is_running
        await pilot.press("q")
        done(ActDone(act, done, ""))
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
        assert app.return_code == 0
        assert not [act for act, _ in started if act == "ask the runner"], "the run was not told anything"


async def test_stop_and_leave_waits_for_the_run(tmp_path: Path) -> None:
    async with still(tmp_path) as (app, pilot):
        desk = scenes.ladder_desk()
        await show(app, pilot, desk)
        started = acted(app)
        await pilot.press("q")
        act, done = started.pop()
        done(ActDone(act, done, ""))
        await pilot.pause()
        await pilot.press("s")
        await pilot.pause()
        act, done = started.pop()
        assert act == "ask the runner"
        done(ActDone(act, done, "request-1"))
        await settle(app, pilot)
        assert app.is_running and app.return_code is None
        assert desk.shown is not None
        row = scenes.campaign_row("stopped", scenes.RUNS)
        await show(
            app, pilot, dataclasses.replace(desk, shown=dataclasses.replace(desk.shown, row=row), campaigns=(row,))
        )
        assert app.return_code == 0


async def test_ctrl_c_stops_a_run_or_quits_when_pressed_twice(tmp_path: Path) -> None:
    async with still(tmp_path) as (app, pilot):
        await show(app, pilot, scenes.ladder_desk())
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert isinstance(app.screen, ConfirmScreen) and "Stop the run?" in text_of(app)
        await pilot.press("escape")
        await show(app, pilot, scenes.sealed_desk())
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert app.is_running and "ctrl+c again quits" in text_of(app)
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert app.return_code == 0


async def test_pause_freezes_the_screen_and_counts(tmp_path: Path) -> None:
    async with still(tmp_path) as (app, pilot):
        await show(app, pilot, scenes.ladder_desk(), scenes.gpus(), scenes.log("before"))
        await pilot.press("space")
        await show(app, pilot, scenes.ladder_desk(), scenes.gpus((5000, 5000)), scenes.log("after"))
        assert "PAUSED +3" in text_of(app)
        assert "before" in text_of(app) and "after" not in text_of(app) and "5,000" not in text_of(app)
        await pilot.press("space")
        await show(app, pilot, scenes.ladder_desk(), scenes.gpus((5000, 5000)), scenes.log("after"))
        assert "PAUSED" not in text_of(app) and "after" in text_of(app)


async def test_ctrl_c_stops_a_run_and_else_quits_when_pressed_twice(tmp_path: Path) -> None:
    async with still(tmp_path) as (app, pilot):
        await show(app, pilot, scenes.ladder_desk())
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert isinstance(app.screen, ConfirmScreen) and app.is_running
        await pilot.press("escape")
        await show(app, pilot, scenes.sealed_desk())
        await pilot.press("ctrl+c", "ctrl+c")
        await pilot.pause()
        assert app.return_code == 0


async def test_themes_go_round_and_every_one_paints(tmp_path: Path) -> None:
    async with still(tmp_path) as (app, pilot):
        await show(app, pilot, scenes.ladder_desk(), scenes.gpus(), scenes.log())
        first, met = app.theme, [""]
        while met[-1] != first:
            await pilot.press("T")
            await settle(app, pilot)
            met.append(app.theme)
            assert f"theme: {app.theme}" in text_of(app)
        assert len(met) == len(set(met)) > 3


async def test_enter_on_a_figure_jumps_to_its_line(tmp_path: Path) -> None:
    async with still(tmp_path) as (app, pilot):
        live = live_of(app)
        await show(app, pilot, scenes.sealed_desk(), None, MANY)
        await pilot.press("3", "down", "enter")
        await pilot.pause()
        assert app.log_source._jump == 4000
        page = dataclasses.replace(MANY, page=MANY.lines[20].offset)
        live.post_message(LogRead(page))
        await settle(app, pilot)
        assert "line 20" in text_of(app) and "at byte" in text_of(app)
        await pilot.press("escape")
        await pilot.pause()
        assert app.log_source._jump is None


@pytest.mark.parametrize("pane", ["1", "2", "3", "4"])
async def test_zoom_gives_one_pane_the_screen(pane: str, tmp_path: Path) -> None:
    async with still(tmp_path, (80, 24)) as (app, pilot):
        await show(app, pilot, scenes.ladder_desk(), scenes.gpus(), scenes.log())
        before = text_of(app)
        await pilot.press(pane, "z")
        await settle(app, pilot)
        zoomed = text_of(app)
        shown = {"1": "GPU 0" in zoomed, "2": "Rungs" in zoomed, "3": "Start-up" in zoomed, "4": "Log  " in zoomed}
        assert [name for name, there in shown.items() if there] == [pane]
        await pilot.press("escape", "2")
        await settle(app, pilot)
        assert text_of(app).split("\n")[1] == before.split("\n")[1]


async def test_enter_on_a_rung_tells_its_checks(tmp_path: Path) -> None:
    async with still(tmp_path) as (app, pilot):
        await show(app, pilot, scenes.ladder_desk())
        await pilot.press("2", "down", "down", "enter")
        await pilot.pause()
        assert isinstance(app.screen, TextScreen)
        assert "FAIL  reserve: 843 MiB free at least" in text_of(app)
        assert "n/a   cold" in text_of(app)


async def test_a_lane_is_started_from_the_list_and_only_when_it_is_down(tmp_path: Path) -> None:
    async with still(tmp_path) as (app, pilot):
        started = acted(app)
        await show(app, pilot, scenes.empty_desk())
        await pilot.press("u")
        await pilot.pause()
        assert isinstance(app.screen, PickerScreen) and "broken.toml: gpus.reserve_mib: -1" in text_of(app)
        await pilot.press("enter")
        await pilot.pause()
        assert not started and "its profile is refused" in text_of(app)
        await pilot.press("u")
        await pilot.pause()
        await pilot.press("down", "enter")
        await pilot.pause()
        assert [act for act, _ in started] == ["start practice"]
        assert app.desk._choice.lane == "practice"
        act, done = started.pop()
        done(ActDone(act, done, error="practice: port 39182 is in use"))
        await pilot.pause()
        assert "port 39182 is in use" in text_of(app)


async def test_a_ladder_starts_with_the_second_enter_and_a_refusal_stays_in_the_form(tmp_path: Path) -> None:
    async with still(tmp_path) as (app, pilot):
        started = acted(app)
        await show(app, pilot, scenes.ladder_desk())
        await pilot.press("l")
        await pilot.pause()
        assert isinstance(app.screen, MeasureScreen)
        await pilot.press("enter")
        await pilot.pause()
        assert not started, "one key after the other: nothing runs yet"
        await pilot.press("enter")
        await pilot.pause()
        act, done = started.pop()
        assert act == "begin the ladder"
        done(ActDone(act, done, error="practice: nobody answers"))
        await pilot.pause()
        assert "nobody answers" in text_of(app) and isinstance(app.screen, MeasureScreen)
        await pilot.press("enter")
        await pilot.pause()
        act, done = started.pop()
        done(ActDone(act, done, "anvil-new"))
        await pilot.pause()
        assert app.screen is live_of(app)
        assert app.desk._choice.campaign == "anvil-new"


async def test_the_gate_and_capacity_runs_start_from_their_forms(tmp_path: Path) -> None:
    async with still(tmp_path) as (app, pilot):
        started = acted(app)
        await show(app, pilot, scenes.ladder_desk())
        for key, begun in (("F", "begin the gate"), ("L", "begin the capacity runs")):
            await pilot.press(key)
            await pilot.pause()
            await pilot.press("enter", "enter")
            await pilot.pause()
            act, done = started.pop()
            assert act == begun
            done(ActDone(act, done, f"anvil-{key}"))
            await pilot.pause()
            assert app.screen is live_of(app)
            assert app.desk._choice.campaign == f"anvil-{key}"


async def test_a_form_with_a_fault_cannot_be_started(tmp_path: Path) -> None:
    async with still(tmp_path) as (app, pilot):
        started = acted(app)
        await show(app, pilot, scenes.ladder_desk())
        await pilot.press("l")
        await pilot.pause()
        await pilot.press(*",999999", "enter", "enter")
        await pilot.pause()
        assert not started and "above it: 999,999" in text_of(app)


async def test_sealing_asks_twice_for_a_new_passphrase_and_never_shows_it(tmp_path: Path) -> None:
    typed: list[tuple[str, bytes | None]] = []
    async with still(tmp_path) as (app, pilot):
        row = scenes.campaign_row("complete", scenes.RUNS[:2])
        screen = SealScreen(row, None, "op@lab", False, lambda name, word, done: typed.append((name, word)))
        app.push_screen(screen)
        await pilot.pause()
        await pilot.press(*"s3cret", "enter", *"other", "enter")
        await pilot.pause()
        assert typed == [] and "the two passphrases differ" in text_of(app)
        assert "s3cret" not in text_of(app)
        again = screen.query_one("#again", Input)
        again.value = "s3cret"
        await pilot.press("enter")
        await pilot.pause()
        assert typed == [("op@lab", b"s3cret")]
        screen.acted(ActDone("seal", lambda _: None, error="wrong passphrase"))
        await pilot.pause()
        assert "wrong passphrase" in text_of(app)
        assert screen.query_one("#passphrase", Input).value == "", "it is forgotten as soon as it was used"


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("x", "no run to stop"),
        ("X", "practice is stopped: nothing to stop"),
        ("r", "only an interrupted or stopped campaign can be resumed"),
        ("a", "no run, so no alarm to acknowledge"),
        ("e", "no error line in the lines that are kept"),
        ("E", "no error line in the lines that are kept"),
        ("n", "no filter is set: / sets one"),
        ("m", "no log line to mark"),
        ("apostrophe", "no line is marked: m marks one"),
        ("ctrl+s", "no log line to save"),
        ("y", "no log line to copy"),
        ("Y", "no log line to copy"),
        ("ctrl+c", "ctrl+c again quits"),
    ],
)
async def test_a_key_that_does_nothing_now_says_why(key: str, words: str, tmp_path: Path) -> None:
    async with still(tmp_path) as (app, pilot):
        await show(app, pilot, scenes.sealed_desk())
        await pilot.press(key)
        await pilot.pause()
        assert app.screen is live_of(app) and words in text_of(app)


@pytest.mark.parametrize(("policy", "rings"), [("enforce", 1), ("waived", 0)])
async def test_an_alarm_rings_once(policy: Policy, rings: int, tmp_path: Path) -> None:
    async with still(tmp_path) as (app, pilot):
        rung: list[int] = []
        app.bell = lambda: rung.append(1)  # type: ignore[method-assign]
        for _ in range(3):
            await show(app, pilot, scenes.ladder_desk(), scenes.gpus(policy=policy))
        assert len(rung) == rings


async def test_the_palette_offers_every_key_and_only_on_the_live_screen(tmp_path: Path) -> None:
    async with still(tmp_path) as (app, pilot):
        desk = scenes.sealed_desk()
        assert desk.lane is not None
        await show(app, pilot, dataclasses.replace(desk, lane=dataclasses.replace(desk.lane, name="[/]x [b")))
        offered = {command.title: command.help for command in app.get_system_commands(app.screen)}
        assert list(offered) == [key.title for key in KEYS if key.palette] and len(offered) == len(KEYS) - 2
        assert offered["lane: Stop the lane"].endswith("(off: (/]x (b is stopped: nothing to stop)")
        await pilot.press("colon", *"stop the lane")
        await pilot.pause(0.3)
        assert "(/]x (b is stopped" in text_of(app), "what a lane is called is no markup"
        await pilot.press("escape", "escape")
        await pilot.press("question_mark")
        await pilot.pause()
        assert list(app.get_system_commands(app.screen)) == []
        await pilot.press("ctrl+p")
        await pilot.pause()
        assert isinstance(app.screen, TextScreen)


async def test_a_fault_of_ours_leaves_a_file_without_values(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        async with still(tmp_path) as (app, pilot):
            secret = "hunter22"

            def boom() -> None:
                held = secret
                raise RuntimeError("boom", len(held))

            live_of(app).action_help = boom  # type: ignore[method-assign]
            await pilot.press("question_mark")
            await pilot.pause()
    (report,) = (tmp_path / "state").glob("console-crash-*.log")
    assert report.stat().st_mode & 0o777 == 0o600
    text = report.read_text()
    assert "RuntimeError: ('boom', 8)" in text and "hunter22" not in text.split("RuntimeError", 1)[1]
