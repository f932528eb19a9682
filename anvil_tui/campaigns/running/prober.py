"""The runner's side of the probe child: asks go down, what is measured comes up; a dead child is started anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from anvil_tui.campaigns.running.children import JsonLinesChild
from anvil_tui.errors import CannotRun
from anvil_tui.records.gate import GateResult
from anvil_tui.records.probe import (
    CancelProbe,
    MeasureCapacity,
    MeasureGate,
    MeasureRung,
    ProbeCapacity,
    ProbeFinished,
    ProbeGated,
    ProbeLine,
    ProbeMeasured,
    ProbeReady,
    ProbeRefused,
    ProbeUrl,
)
from anvil_tui.records.request import RequestRecord

_READY_SECONDS = 30.0
_LINE = msgspec.json.Decoder(ProbeLine)

Ask = MeasureRung | MeasureGate | MeasureCapacity | ProbeUrl
Progress = Callable[[ProbeLine], None]


class ProbeDied(Exception):
    """The probe child ended while it measured; what it carried is lost."""


@dataclass(frozen=True)
class Came:
    """What came of one ask, as far as it got."""

    requests: tuple[RequestRecord, ...] = ()
    warmup: tuple[RequestRecord, ...] = ()
    gate: GateResult | None = None
    capacity: ProbeCapacity | None = None


class Prober:
    """One probe child at a time, and one ask in it."""

    def __init__(self) -> None:
        self._child: JsonLinesChild | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._ended: asyncio.Future[Came] | None = None
        self._progress: Progress = lambda _: None
        self._scored: list[RequestRecord] = []
        self._warmup: list[RequestRecord] = []

    async def start(self) -> None:
        """Start the child and wait until it has imported everything. Raises CannotRun."""
        self._ready.clear()
        self._child = child = await JsonLinesChild.start("anvil_tui.probes", stderr=2)
        self._reading = asyncio.ensure_future(self._read(child))
        ready = asyncio.ensure_future(self._ready.wait())
        await asyncio.wait({ready, self._reading}, timeout=_READY_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if not self._ready.is_set():
            raise CannotRun("the measuring child did not start; runner.log says why")

    async def measure(self, ask: Ask, progress: Progress) -> Came:
        """Measure what is asked. Raises ProbeDied, and CannotRun where the child refuses."""
        if self._child is None or self._reading is None or self._reading.done():
            await self.start()
        assert self._child is not None
        self._progress = progress
        self._scored.clear()
        self._warmup.clear()
        self._ended = asyncio.get_running_loop().create_future()
        await self._child.send(msgspec.json.encode(ask))
        return await self._ended

    async def cancel(self, id: str, seconds: float = 2.0) -> Came:
        """Cancel ask `id`; what it measured until then, as far as the child still answers."""
        if self._child is not None and self._reading is not None and not self._reading.done():
            self._ended = asyncio.get_running_loop().create_future()
            await self._child.send(msgspec.json.encode(CancelProbe(id=id)))
            try:
                return await asyncio.wait_for(self._ended, seconds)
            except (TimeoutError, ProbeDied, CannotRun):
                pass
        return self._partial()

    def _partial(self) -> Came:
        return Came(requests=tuple(self._scored), warmup=tuple(self._warmup))

    async def end(self) -> None:
        if self._child is not None:
            await self._child.end()
        if self._reading is not None:
            await self._reading

    async def _read(self, child: JsonLinesChild) -> None:
        async for raw in child.lines():
            line = _LINE.decode(raw)
            match line:
                case ProbeReady():
                    self._ready.set()
                case ProbeFinished(record=record):
                    self._settle(Came(requests=(record,)))
                case ProbeGated(result=result):
                    records = tuple(one.record for one in result.observations if one.record is not None)
                    self._settle(Came(requests=records, gate=result))
                case ProbeCapacity():
                    self._settle(Came(requests=tuple(self._scored), warmup=tuple(self._warmup), capacity=line))
                case ProbeRefused(words=words):
                    self._settle(CannotRun(f"the measuring child refused: {words}"))
                case ProbeMeasured():
                    (self._warmup if line.warmup else self._scored).append(line.record)
                    self._progress(line)
                case _:
                    self._progress(line)
        self._settle(ProbeDied(f"the measuring child died ({await child.ended()})"))

    def _settle(self, result: Came | Exception) -> None:
        if self._ended is None or self._ended.done():
            return
        if isinstance(result, Exception):
            self._ended.set_exception(result)
        else:
            self._ended.set_result(result)
