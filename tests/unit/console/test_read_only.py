"""A console that only looks: its keys say so, nothing is offered that acts, and no act is begun."""

from __future__ import annotations

from pathlib import Path

import pytest

from anvil_tui.campaigns import hold
from anvil_tui.cli import main
from anvil_tui.console.keys import KEYS
from anvil_tui.console.refusals import READ_ONLY, log_refusals, refusals
from anvil_tui.console.screens.confirm import ConfirmScreen
from anvil_tui.console.screens.picker import PickerScreen
from anvil_tui.console.snapshot import Desk, LogSnapshot
from tests.unit.console import scenes
from tests.unit.console.still import acts_done, live_of, settle, show, still, text_of

ACTING = [key for key in KEYS if key.acts]


@pytest.mark.anyio
async def test_nothing_that_acts_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hold, "applies", lambda: True)
    assert {key.keys for key in ACTING} == set("lFLpxbXrdoa"), "a new key that acts says so in the table"
    async with still(tmp_path, (80, 24), read_only=True) as (app, pilot):
        begun: list[str] = []
        app.acts.start = lambda act, work, done: begun.append(act)  # type: ignore[method-assign]
        desk = scenes.ladder_desk()
        await show(app, pilot, desk, scenes.gpus(), scenes.log())
        assert " READ ONLY " in text_of(app).split("\n")[0] and "(x Stop run)" in text_of(app)
        for key in ACTING:
            live_of(app).own_notes.clear()
            await pilot.press(key.keys)
            await pilot.pause()
            assert app.screen is live_of(app) and live_of(app).own_notes[-1].words == READ_ONLY
        await pilot.press("ctrl+c")
        assert "ctrl+c again quits" in live_of(app).own_notes[-1].words, "the run is not stopped by it either"
        offered = {command.title for command in app.get_system_commands(app.screen)}
        assert offered == {key.title for key in KEYS if key.palette and not key.acts}
        await pilot.press("question_mark")
        await pilot.pause()
        await pilot.press("G", "k")
        assert "READ ONLY" in text_of(app)
        await pilot.press("escape")
        # A lane is shown and not started.
        await show(app, pilot, scenes.sealed_desk(), scenes.gpus(), scenes.log())
        await pilot.press("u")
        await pilot.pause()
        assert isinstance(app.screen, PickerScreen)
        assert "enter shows it" in text_of(app) and "enter: show    esc: leave" in text_of(app)
        await pilot.press("enter")
        await settle(app, pilot)
        assert app.desk._choice.lane == "practice" and "practice is shown, not started" in text_of(app)
        assert begun == [], "no hold, no start, nothing"
        # Leaving does not offer to stop what runs.
        await show(app, pilot, desk)
        del app.acts.start  # type: ignore[method-assign]
        await pilot.press("q")
        await acts_done(app, pilot)
        assert isinstance(app.screen, ConfirmScreen) and "Stop it and leave" not in text_of(app)
        assert not (tmp_path / "state").exists(), "nothing was written"
        await pilot.press("escape", "s")
        await acts_done(app, pilot)
        (picture,) = (tmp_path / "state").iterdir()
        assert picture.suffix == ".svg" and picture.stat().st_mode & 0o777 == 0o600, "but what the operator saves"


@pytest.mark.anyio
async def test_a_fault_of_ours_writes_no_file(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        async with still(tmp_path, read_only=True) as (app, pilot):

            def boom() -> None:
                raise RuntimeError("boom")

            live_of(app).action_help = boom  # type: ignore[method-assign]
            await pilot.press("question_mark")
            await pilot.pause()
    assert not (tmp_path / "state").exists()
    assert b"RuntimeError: boom" in app.crash_text and app.crash_report is None


def test_a_verb_takes_no_read_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--read-only", "lanes"]) == 2
    assert "--read-only is the console's; lanes takes none" in capsys.readouterr().err


def test_keys_that_do_nothing_now_are_told_with_a_reason() -> None:
    ids = {key.id for key in KEYS}
    every = [refusals(desk, read_only=False) for desk in (Desk(), scenes.ladder_desk(), scenes.sealed_desk())]
    every.append(log_refusals(LogSnapshot(), 0))
    assert all(set(found) <= ids and all(found.values()) for found in every)
    nothing, ladder, sealed, log = every
    assert "run.stop" in nothing and "run.stop" not in ladder and sealed["lane.stop"].endswith("nothing to stop")
    assert ladder["campaign.decide"] == "it still runs: a decision follows its end"
    assert not set(log) & set(log_refusals(scenes.log(), 1)) - {"log.hit", "log.hit_before"}
