"""Whether this process, or the whole host, stood still while it measured: a clock that ticks beside the requests."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Self

from msgspec import Struct

from anvil_tui.probes.client.patience import Batches

TICK_S = 0.1
_LATE_NS = 250_000_000
_STEP_NS = 100_000_000
_KEPT = 1000


class Pause(Struct, frozen=True):
    """A stretch of monotonic time in which nothing ran here, or at whose end the wall clock had jumped by `step_ns`."""

    start_ns: int
    end_ns: int
    step_ns: int = 0


class HostWatch:
    """`async with HostWatch() as watch`: ticks ten times a second and keeps the ticks that came late.

    `on_tick` is called with each tick, so that a process needs to wake up for one clock only.
    """

    def __init__(self, on_tick: Callable[[], None] | None = None) -> None:
        self._turn = asyncio.Lock()
        self.batches = Batches()
        self._on_tick = on_tick
        self._pauses: list[Pause] = []
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._tick())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Hold this for each piece of work of our own, so that the sockets are looked at between any two of them."""
        async with self._turn:
            yield

    async def _tick(self) -> None:
        last_ns, last_wall_ns = time.perf_counter_ns(), time.time_ns()
        while True:
            await asyncio.sleep(TICK_S)
            now_ns, wall_ns = time.perf_counter_ns(), time.time_ns()
            self.note(last_ns, now_ns, wall_ns - last_wall_ns)
            last_ns, last_wall_ns = now_ns, wall_ns
            if self._on_tick is not None:
                self._on_tick()

    def note(self, last_ns: int, now_ns: int, wall_passed_ns: int) -> None:
        """Judge one tick: from `last_ns` to `now_ns` by the monotonic clock, `wall_passed_ns` by the wall clock."""
        step = wall_passed_ns - (now_ns - last_ns)
        stepped = step if abs(step) > _STEP_NS else 0
        if stepped or now_ns - last_ns > _LATE_NS + int(TICK_S * 1e9):
            self._pauses.append(Pause(last_ns, now_ns, stepped))
            del self._pauses[:-_KEPT]

    def between(self, start_ns: int, end_ns: int) -> list[Pause]:
        """The pauses that touch the stretch from `start_ns` to `end_ns`."""
        return [one for one in self._pauses if one.end_ns > start_ns and one.start_ns < end_ns]


def words(pause: Pause, sent_ns: int) -> str:
    """One pause in words, placed by the clock of a request."""
    at_s = (pause.start_ns - sent_ns) / 1e9
    if pause.step_ns:
        return f"wall clock stepped by {pause.step_ns / 1e9:+.3f} s at {at_s:.3f} s"
    return f"nothing ran here for {(pause.end_ns - pause.start_ns) / 1e9:.3f} s at {at_s:.3f} s"
