"""What each screen says at each size, as text and as pictures that were looked at."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from anvil_tui.console.messages import ActDone, Done
from anvil_tui.console.screens.measure_form import MeasureScreen
from anvil_tui.console.screens.seal import SealScreen
from anvil_tui.console.screens.text import TextScreen
from anvil_tui.console.snapshot import Desk, GpuSnapshot, LogSnapshot
from anvil_tui.console.views import bundle_view
from anvil_tui.console.views.ladder_view import LADDER
from anvil_tui.records.bundle import Finding, Signer, Verification
from tests.unit.console import scenes
from tests.unit.console.snapshots import same
from tests.unit.console.still import StillApp, live_of, locations, settle, show, still, text_of

pytestmark = pytest.mark.anyio

SIZES = [(120, 40), (80, 24)]
NO_DRIVER = GpuSnapshot("console", 500_000, (), 3072, "enforce", failed="NVML: no driver")
SCENES: dict[str, tuple[Callable[[], Desk], GpuSnapshot, LogSnapshot]] = {
    "empty": (scenes.empty_desk, GpuSnapshot(), LogSnapshot()),
    "ladder": (scenes.ladder_desk, scenes.gpus(), scenes.log()),
    "starting": (scenes.starting_desk, scenes.gpus((9000, 3187)), scenes.log()),
    "sealed": (scenes.sealed_desk, scenes.gpus((2430, 3041), "waived"), scenes.log()),
    "four-gpus": (scenes.ladder_desk, scenes.gpus((843, 3787, 8191, 96000)), scenes.log()),
    "stale": (scenes.ladder_desk, scenes.gpus(age_us=12_000_000), scenes.log()),
    "no-driver": (scenes.ladder_desk, NO_DRIVER, scenes.log()),
}  # fmt: skip


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("scene", SCENES)
async def test_the_live_screen(scene: str, size: tuple[int, int], tmp_path: Path) -> None:
    desk, gpus, log = SCENES[scene]
    async with still(tmp_path, size) as (app, pilot):
        await show(app, pilot, desk(), gpus, log)
        same(f"live-{scene}-{size[0]}x{size[1]}.txt", text_of(app))


@pytest.mark.parametrize("size", [*SIZES, (50, 12)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_a_picture_of_the_live_screen(size: tuple[int, int], tmp_path: Path) -> None:
    async with still(tmp_path, size) as (app, pilot):
        await show(app, pilot, scenes.ladder_desk(), scenes.gpus(), scenes.log())
        # The ids in an SVG are a hash of its own; they say nothing.
        picture = re.sub(r"terminal-\d+", "terminal", app.export_screenshot(title="anvil-tui"))
        same(f"live-ladder-{size[0]}x{size[1]}.svg", picture)


async def test_the_first_frame_says_nothing_of_what_was_not_read(tmp_path: Path) -> None:
    app = StillApp(locations(tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        for key in ("u", "c"):
            await pilot.press(key)
        await settle(app, pilot)
        text = text_of(app)
        assert "Lanes and campaigns are being read." in text and "READING" in text and "Rungs" in text
        assert "the lanes are being read" in text and "the campaigns are being read" in text
        assert not re.search("Nothing was|no lane|no campaign|no run|IDLE|OK", text)
        await show(app, pilot, scenes.empty_desk())
        assert "Nothing was started here yet." in text_of(app) and "IDLE" in text_of(app)


async def test_a_screen_too_small_says_so_and_recovers(tmp_path: Path) -> None:
    async with still(tmp_path, (50, 12)) as (app, pilot):
        await show(app, pilot, scenes.ladder_desk(), scenes.gpus(), scenes.log())
        assert "have 50x12, need 60x20" in text_of(app)
        await pilot.resize_terminal(120, 40)
        await settle(app, pilot)
        assert "Rungs" in text_of(app)
        await pilot.resize_terminal(80, 24)
        await settle(app, pilot)
        same("live-ladder-80x24.txt", text_of(app))
        await pilot.resize_terminal(1, 1)
        await pilot.pause()
        await pilot.resize_terminal(120, 40)
        await settle(app, pilot)
        same("live-ladder-120x40.txt", text_of(app))


async def _press(app: StillApp, pilot: Pilot[None], key: str) -> None:
    await pilot.press(key)
    await pilot.pause()


async def _seal(app: StillApp, pilot: Pilot[None], _: str) -> None:
    app.push_screen(
        SealScreen(scenes.campaign_row("complete", scenes.RUNS[:2]), None, "op@lab", False, lambda *_: None)
    )
    await pilot.pause()


async def _verify(app: StillApp, pilot: Pilot[None], _: str) -> None:
    app.push_screen(TextScreen("Verification", bundle_view.verification_lines(verification())))
    await pilot.pause()


def verification() -> Verification:
    return Verification(
        bundle="/state/campaigns/" + scenes.CAMPAIGN,
        bundle_id=scenes.CAMPAIGN,
        root="a" * 64,
        rehearsal=True,
        signers=(Signer(file="signatures/a.sig", key_type="ssh-ed25519", fingerprint="SHA256:a", principal="op@lab"),),
        errors=(Finding(code="HASH_MISMATCH", words="the file is not what was sealed", path="runs/practice-r1.json"),),
        notes=(Finding(code="WITHHELD", words="2 private files"),),
        files=16,
        bytes=289209,
        withheld=("logs/a.log",),
        exit_code=1,
    )  # fmt: skip


DIALOGS = {
    "lanes": (_press, "u"),
    "campaigns": (_press, "c"),
    "ladder": (_press, "l"),
    "gate": (_press, "F"),
    "capacity": (_press, "L"),
    "help": (_press, "question_mark"),
    "stop": (_press, "x"),
    "stop-lane": (_press, "X"),
    "messages": (_press, "5"),
    "seal": (_seal, ""),
    "verification": (_verify, ""),
}


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("dialog", DIALOGS)
async def test_a_dialog(dialog: str, size: tuple[int, int], tmp_path: Path) -> None:
    open_it, key = DIALOGS[dialog]
    async with still(tmp_path, size) as (app, pilot):
        await show(app, pilot, scenes.ladder_desk(), scenes.gpus(), scenes.log())
        await open_it(app, pilot, key)
        assert app.screen is not live_of(app)
        same(f"dialog-{dialog}-{size[0]}x{size[1]}.txt", text_of(app))


async def test_enter_while_a_ladder_begins_neither_leaves_the_form_nor_begins_twice(tmp_path: Path) -> None:
    begun: list[Done] = []
    left: list[str | None] = []
    row = scenes.ladder_desk().lane
    assert row is not None
    form = LADDER.first_form(row, ())
    screen = MeasureScreen(LADDER, form, row, (), lambda _plan, _up, done: begun.append(done))
    async with still(tmp_path) as (app, pilot):
        app.push_screen(screen, left.append)
        await pilot.pause()
        await pilot.press("enter", "enter", "enter", "enter", "escape")
        assert app.screen is screen
        (done,) = begun
        done(ActDone("begin the ladder", done, error="the lane is gone"))
        await pilot.pause()
        await pilot.press("enter")
        assert len(begun) == 2
        done(ActDone("begin the ladder", done, value="anvil-1"))
        await pilot.pause()
        assert left == ["anvil-1"]


async def test_enter_while_a_campaign_is_signed_neither_leaves_the_form_nor_signs_twice(tmp_path: Path) -> None:
    begun: list[Done] = []
    row = scenes.campaign_row("complete", scenes.RUNS[:2])
    screen = SealScreen(row, None, "op@lab", False, lambda _name, _word, done: begun.append(done))
    async with still(tmp_path) as (app, pilot):
        app.push_screen(screen)
        await pilot.pause()
        screen.query_one("#sign").focus()
        await pilot.press("enter", "enter", "enter")
        assert app.screen is screen
        (done,) = begun
        done(ActDone("sign", done, error="wrong passphrase"))
        await pilot.pause()
        screen.query_one("#sign").focus()
        await pilot.press("enter")
        assert len(begun) == 2
