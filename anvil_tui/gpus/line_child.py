"""A child that prints lines for as long as it lives: killed when it falls silent, started again when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Callable, Sequence

from anvil_tui.clock import mono_us
from anvil_tui.text import sanitise

_CHUNK = 1 << 16
_GARBAGE_LIMIT = 1 << 20
"""Bytes without one good line among them after which a child is past hope."""
_GRACE_S = 0.05
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 30.0
_GOOD_LIFE_S = 10.0
"""After a life as long as this the pause before the next one is the first again."""
_DEATH_S = 1.5
_CLOCK_JUMP_S = 2.0


class LineChild:
    """One child at a time, in a session of its own, its stdin held open while it is wanted.

    `on_line` takes each line and says whether it was good; only good lines count as life. `on_end` is told, once for
    each life, why it ended and when its last good line came (monotonic µs; None: none did). Both run on the event loop
    and must not block; neither is called any more once `stop` was.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        on_line: Callable[[bytes], bool],
        on_end: Callable[[str, int | None], None],
        silence_s: float,
        start_s: float,
        stop_s: float = 1.5,
    ) -> None:
        """A child is killed that gives no good line for `silence_s`, or no first one within `start_s`.

        `stop_s` is how long it may take to end after its stdin closed.
        """
        self.argv = tuple(argv)
        self._on_line = on_line
        self._on_end = on_end
        self._silence_s = silence_s
        self._start_s = start_s
        self._stop_s = stop_s
        self._process: Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._last_us: int | None = None
        self._last_garbage = b""

    @property
    def pid(self) -> int | None:
        """The child that runs now; None between two lives."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    def start(self) -> None:
        """Start the child and keep one alive until `stop`."""
        self._keeper = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """Close the child's stdin, kill its session if that does not end it, leave one that is stuck in the kernel.

        Raises what a callback raised, if one did: the child was ended then.
        """
        if self._keeper is None:
            return
        keeper, self._keeper = self._keeper, None
        keeper.cancel()
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await keeper
        finally:
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.close()
                if not await _ended(self._process, self._stop_s):
                    _kill(self._process)
                    await _ended(self._process, _DEATH_S)

    async def _keep(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            began = time.monotonic()
            self._on_end(await self._live(), self._last_us)
            if self._process is not None:
                # One that is stuck in the kernel does not die, and another beside it would get stuck as well.
                await _ended(self._process, None)
            if time.monotonic() - began > _GOOD_LIFE_S:
                pause_s = _FIRST_PAUSE_S
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _live(self) -> str:
        """One life of the child. Returns why it ended; the process is dead or was killed."""
        self._process = None
        self._last_us = None
        self._last_garbage = b""
        try:
            self._process = process = await asyncio.create_subprocess_exec(
                *self.argv, stdin=PIPE, stdout=PIPE, stderr=STDOUT, start_new_session=True
            )
        except OSError as error:
            return f"{self.argv[0]} cannot be started: {error.strerror or error}"
        try:
            fault = await self._read(process)
        except Exception:
            _kill(process)
            raise
        if fault is None:
            await _ended(process, _DEATH_S)
            fault = _how(process.returncode)
        _kill(process)
        return f"{fault}; it said: {sanitise(self._last_garbage, 200)}" if self._last_garbage else fault

    async def _read(self, process: Process) -> str | None:
        """Read lines until the output ends (None) or the child must go, and why."""
        assert process.stdout is not None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._start_s
        clocks = _clock_offsets()
        rest, garbage = b"", 0
        while True:
            chunk = await _read_before(process.stdout, deadline)
            if chunk is None:
                return f"no line for {self._start_s if self._last_us is None else self._silence_s:.1f} s"
            if not chunk:
                return None
            if any(abs(now - then) > _CLOCK_JUMP_S for now, then in zip(_clock_offsets(), clocks, strict=True)):
                return "the clocks jumped: the machine was suspended, or its time was set"
            *lines, rest = (rest + chunk).split(b"\n")
            garbage += len(chunk)
            for line in lines:
                if self._on_line(line):
                    self._last_us, garbage = mono_us(), 0
                    deadline = loop.time() + self._silence_s
                elif line.strip():
                    self._last_garbage = line[:1024]
            if garbage > _GARBAGE_LIMIT:
                return f"{garbage} bytes without one good line"


async def _read_before(stream: asyncio.StreamReader, deadline: float) -> bytes | None:
    """The next bytes, empty at the end; None where `deadline` (loop time) passes without any."""
    for until in (deadline, None):
        # Where this loop itself stood still, the deadline is past though bytes wait: look once more before judging.
        now = asyncio.get_running_loop().time()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(now + _GRACE_S if until is None else until):
                return await stream.read(_CHUNK)
    return None


async def _ended(process: Process, seconds: float | None) -> bool:
    """Wait until the process is dead and its output drained, at most `seconds`; whether it is."""

    async def drain() -> None:
        assert process.stdout is not None
        while await process.stdout.read(_CHUNK):
            pass
        await process.wait()

    try:
        async with asyncio.timeout(seconds):
            await drain()
    except TimeoutError:
        return False
    return True


def _how(code: int | None) -> str:
    """How a child ended, in words."""
    if code is None:
        return "it closed its output"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"signal {-code}"


def _kill(process: Process) -> None:
    """SIGKILL for the child's whole session; what is already gone is fine."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _clock_offsets() -> tuple[float, float]:
    """How far the clocks that run through a suspend are ahead of the monotonic one (s): boot time, wall time."""
    monotonic = time.monotonic()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - monotonic, time.time() - monotonic
