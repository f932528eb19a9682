"""A console whose clock stands and whose threads do not run: a test posts what they would have read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from anvil_tui.console.app import ConsoleApp
from anvil_tui.console.messages import DeskRead, GpusRead, LogRead
from anvil_tui.console.screens.live import LiveScreen
from anvil_tui.console.snapshot import Desk, GpuSnapshot, LogSnapshot
from anvil_tui.locations import Locations
from tests.unit.console import scenes


class StillApp(ConsoleApp):
    """The real app without its reading threads."""

    @property
    def _sources(self) -> Any:
        return ()

    def now_us(self) -> int:
        return scenes.NOW_US

    def now(self) -> str:
        return scenes.AT

    def time(self) -> str:
        return "12:04:31"


def locations(root: Path) -> Locations:
    return Locations(state=root / "state", profiles=root / "profiles", config=root / "config")


@asynccontextmanager
async def still(
    root: Path, size: tuple[int, int] = (120, 40), *, read_only: bool = False
) -> AsyncIterator[tuple[StillApp, Pilot[None]]]:
    """The app on a screen of this size; its threads have found an empty state folder."""
    app = StillApp(locations(root), read_only=read_only)
    async with app.run_test(size=size) as pilot:
        live_of(app).post_message(DeskRead(Desk()))
        live_of(app).post_message(LogRead(LogSnapshot()))
        await pilot.pause()
        yield app, pilot


async def show(
    app: StillApp, pilot: Pilot[None], desk: Desk, gpus: GpuSnapshot | None = None, log: LogSnapshot | None = None
) -> None:
    """Post what the threads would have read, and let it be painted."""
    live = live_of(app)
    live.post_message(DeskRead(desk))
    live.post_message(GpusRead(gpus or GpuSnapshot()))
    live.post_message(LogRead(log or LogSnapshot()))
    await settle(app, pilot)


async def settle(app: StillApp, pilot: Pilot[None]) -> None:
    """Paint twice: a pane that came needs its size before it can be filled."""
    live = live_of(app)
    for _ in range(2):
        await pilot.pause()
        live.flush()
        live.paint()
    await pilot.pause()


async def acts_done(app: StillApp, pilot: Pilot[None]) -> None:
    """Let the threads of acts end, and their outcomes be taken up and painted."""
    for _ in range(500):
        await pilot.pause(0.01)
        if not app.acts.open:
            break
    await settle(app, pilot)


def live_of(app: StillApp) -> LiveScreen:
    return app._live


def text_of(app: StillApp) -> str:
    """What stands on the screen, as text."""
    height = app.size.height
    lines = ["".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips()]
    return "\n".join(line.rstrip() for line in lines[:height])
