"""The probe child: asks come in as JSON lines, records and progress go out; nothing else runs in this process."""

from __future__ import annotations

import asyncio
import gc
import os
import queue
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from typing import BinaryIO

import msgspec

from anvil_tui import __version__
from anvil_tui.clock import mono_us
from anvil_tui.errors import AnvilError
from anvil_tui.probes.pauses import HostWatch
from anvil_tui.probes.rung import measure_rung, probe_url
from anvil_tui.probes.stream import Stream
from anvil_tui.records.live import RequestPhase
from anvil_tui.records.probe import (
    CancelProbe,
    MeasureRung,
    ProbeAsk,
    ProbeFinished,
    ProbeLine,
    ProbeProgress,
    ProbeReady,
    ProbeRefused,
    ProbeSized,
    ProbeUrl,
)
from anvil_tui.records.request import Sizing
from anvil_tui.text import sanitise

_PROGRESS_S = 0.1
_PARENT_S = 0.5
_ASK = msgspec.json.Decoder(ProbeAsk)

Write = Callable[[ProbeLine], None]


class _Progress:
    """Where one ask stands, told at most ten times a second."""

    def __init__(self, ask_id: str, write: Write) -> None:
        self._id = ask_id
        self._write = write
        self._phase: RequestPhase | None = None
        self._stream: Stream | None = None
        self._sent_us: int | None = None
        self._told: tuple[RequestPhase, int | None] | None = None

    def phase(self, phase: RequestPhase) -> None:
        self._phase = phase

    def sized(self, sizing: Sizing) -> None:
        self._write(ProbeSized(id=self._id, sizing=sizing))

    def started(self, stream: Stream, sent_ns: int) -> None:
        self._stream, self._sent_us = stream, sent_ns // 1000

    def tell(self) -> None:
        """Say where it stands, if that is news."""
        phase = self._stream.phase if self._stream is not None else self._phase
        if phase is None:
            return
        now = (phase, self._stream.tokens if self._stream is not None else None)
        if now != self._told:
            self._told = now
            self._write(
                ProbeProgress(id=self._id, phase=phase, mono_us=mono_us(), sent_us=self._sent_us, tokens=now[1])
            )


class Child:
    """Takes asks until they end; then ends what is still open."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._progress: dict[str, _Progress] = {}

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        """Serve the asks of `lines`. Returns when they end, with every open connection closed."""
        self._write(ProbeReady(tool_version=__version__, pid=os.getpid()))
        async with HostWatch() as watch:
            ticker = asyncio.create_task(self._tick())
            try:
                async for line in lines:
                    if line.strip():
                        self._take(line, watch)
            finally:
                ticker.cancel()
                for task in self._tasks.values():
                    task.cancel()
                await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _take(self, line: bytes, watch: HostWatch) -> None:
        try:
            ask = _ASK.decode(line)
        except msgspec.MsgspecError as error:
            self._write(ProbeRefused(id=None, words=f"{sanitise(str(error), 400)}: {sanitise(line, 200)}"))
            return
        if isinstance(ask, CancelProbe):
            task = self._tasks.get(ask.id)
            if task is None:
                self._write(ProbeRefused(id=ask.id, words="no such request is open"))
            else:
                task.cancel()
        elif ask.id in self._tasks:
            self._write(ProbeRefused(id=ask.id, words="a request of this id is open"))
        else:
            progress = self._progress[ask.id] = _Progress(ask.id, self._write)
            task = self._tasks[ask.id] = asyncio.create_task(self._measure(ask, watch, progress))
            task.add_done_callback(lambda _, ask_id=ask.id: self._forget(ask_id))  # type: ignore[misc]

    def _forget(self, ask_id: str) -> None:
        del self._tasks[ask_id], self._progress[ask_id]

    async def _measure(self, ask: MeasureRung | ProbeUrl, watch: HostWatch, progress: _Progress) -> None:
        try:
            if isinstance(ask, MeasureRung):
                record = await measure_rung(ask, watch, progress)
            else:
                record = await probe_url(ask, watch, progress)
        except AnvilError as error:
            self._write(ProbeRefused(id=ask.id, words=str(error)))
        except asyncio.CancelledError:
            self._write(ProbeRefused(id=ask.id, words="cancelled before anything was sent"))
        except Exception as error:  # noqa: BLE001
            traceback.print_exc()
            self._write(ProbeRefused(id=ask.id, words=f"a fault in the probe child: {error!r}"))
        else:
            self._write(ProbeFinished(id=ask.id, record=record))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_PROGRESS_S)
            for progress in self._progress.values():
                progress.tell()


class LineWriter:
    """Writes lines from a thread of its own, so that a reader who stalls never holds up a measurement."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def write(self, line: ProbeLine) -> None:
        self._queue.put(msgspec.json.encode(line) + b"\n")

    def close(self) -> None:
        """Wait a moment until everything is out."""
        self._queue.put(None)
        self._thread.join(timeout=2.0)

    def _run(self) -> None:
        while (line := self._queue.get()) is not None:
            try:
                self._file.write(line)
                self._file.flush()
            except OSError:
                return


async def lines_of(file: BinaryIO) -> AsyncIterator[bytes]:
    """The lines of `file`, read in a thread, until it ends or the parent process has died."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[bytes | None] = asyncio.Queue()
    parent = os.getppid()

    def read() -> None:
        for line in file:
            loop.call_soon_threadsafe(arrived.put_nowait, line)
        loop.call_soon_threadsafe(arrived.put_nowait, None)

    threading.Thread(target=read, daemon=True).start()
    while os.getppid() == parent:
        try:
            async with asyncio.timeout(_PARENT_S):
                line = await arrived.get()
        except TimeoutError:
            continue
        if line is None:
            return
        yield line


def main() -> None:
    """Serve asks on stdin until it closes."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    writer = LineWriter(sys.stdout.buffer)
    asyncio.run(Child(writer.write).run(lines_of(sys.stdin.buffer)))
    writer.close()
    sys.stdout.flush()
    os._exit(0)
