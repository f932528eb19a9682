"""The probe child: asks come in as JSON lines, records and progress go out; nothing else runs in this process."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import queue
import sys
import threading
from collections.abc import AsyncIterator
from functools import partial
from typing import BinaryIO

import msgspec

from anvil_tui import __version__
from anvil_tui.errors import AnvilError
from anvil_tui.probes.capacity import measure_capacity
from anvil_tui.probes.client.patience import patient_loop
from anvil_tui.probes.client.pauses import HostWatch
from anvil_tui.probes.gate import measure_gate
from anvil_tui.probes.progress import Progress, RequestProgress, RunProgress, Write
from anvil_tui.probes.rung import measure_rung, probe_url
from anvil_tui.records.probe import (
    CancelProbe,
    MeasureCapacity,
    MeasureGate,
    MeasureRung,
    ProbeAsk,
    ProbeFinished,
    ProbeGated,
    ProbeLine,
    ProbeObserved,
    ProbeReady,
    ProbeRefused,
    ProbeUrl,
)
from anvil_tui.text import sanitise

_PARENT_S = 0.5
_ASK = msgspec.json.Decoder(ProbeAsk)

Measurement = MeasureRung | ProbeUrl | MeasureGate | MeasureCapacity


class Child:
    """Takes asks until they end; then ends what is still open."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._progress: dict[str, Progress] = {}

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        """Serve the asks of `lines`. Returns when they end, with every open connection closed."""
        self._write(ProbeReady(tool_version=__version__, pid=os.getpid()))
        async with HostWatch(self._tick) as watch:
            try:
                async for line in lines:
                    if line.strip():
                        self._take(line, watch)
            finally:
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
            task = self._tasks[ask.id] = asyncio.create_task(self._measure(ask, watch))
            task.add_done_callback(partial(self._forget, ask.id))

    async def _measure(self, ask: Measurement, watch: HostWatch) -> None:
        try:
            self._write(await self._measured(ask, watch))
        except AnvilError as error:
            self._write(ProbeRefused(id=ask.id, words=str(error)))
        except Exception as error:
            logging.exception("ask %s", ask.id)
            self._write(ProbeRefused(id=ask.id, words=f"a fault in the probe child: {error!r}"))

    def _forget(self, ask_id: str, task: asyncio.Task[None]) -> None:
        del self._tasks[ask_id]
        self._progress.pop(ask_id, None)
        if task.cancelled():
            self._write(ProbeRefused(id=ask_id, words="cancelled before it began"))

    async def _measured(self, ask: Measurement, watch: HostWatch) -> ProbeLine:
        """The last line of an ask."""
        match ask:
            case MeasureGate():
                result = await measure_gate(
                    ask, watch, lambda observation: self._write(ProbeObserved(id=ask.id, observation=observation))
                )
                return ProbeGated(id=ask.id, result=result)
            case MeasureCapacity():
                run = self._progress[ask.id] = RunProgress(ask.id, self._write)
                return await measure_capacity(ask, watch, run)
            case _:
                request = self._progress[ask.id] = RequestProgress(ask.id, self._write)
                measure = (
                    measure_rung(ask, watch, request)
                    if isinstance(ask, MeasureRung)
                    else probe_url(ask, watch, request)
                )
                return ProbeFinished(id=ask.id, record=await measure)

    def _tick(self) -> None:
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
    with asyncio.Runner(loop_factory=patient_loop) as runner:
        runner.run(Child(writer.write).run(lines_of(sys.stdin.buffer)))
    writer.close()
    sys.stdout.flush()
    os._exit(0)
