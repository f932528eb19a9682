"""The runner's side of the probe child: asks go down, progress and records come up; a dead child is started anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from anvil_tui.campaigns.children import JsonLinesChild
from anvil_tui.errors import CannotRun
from anvil_tui.records.probe import (
    CancelProbe,
    MeasureRung,
    ProbeFinished,
    ProbeLine,
    ProbeProgress,
    ProbeReady,
    ProbeRefused,
    ProbeSized,
)
from anvil_tui.records.request import RequestRecord

_READY_SECONDS = 30.0


class ProbeDied(Exception):
    """The probe child ended while it measured; the request it carried is lost."""


class Prober:
    """One probe child at a time, and at most one request in it."""

    def __init__(self) -> None:
        self._child: JsonLinesChild | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._finished: asyncio.Future[RequestRecord] | None = None
        self._progress: Callable[[ProbeSized | ProbeProgress], None] = lambda _: None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

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

    async def measure(self, ask: MeasureRung, progress: Callable[[ProbeSized | ProbeProgress], None]) -> RequestRecord:
        """Measure one request. Cancelling closes its connection. Raises ProbeDied."""
        if self._child is None or self._reading is None or self._reading.done():
            await self.start()
        assert self._child is not None
        self._progress = progress
        self._finished = asyncio.get_running_loop().create_future()
        await self._child.send(msgspec.json.encode(ask))
        return await self._finished

    async def cancel(self, id: str, seconds: float = 2.0) -> RequestRecord | None:
        """Cancel request `id`; its record as far as it got, or None where the child does not answer."""
        if self._child is None or (self._reading is not None and self._reading.done()):
            return None
        self._finished = asyncio.get_running_loop().create_future()
        await self._child.send(msgspec.json.encode(CancelProbe(id=id)))
        try:
            return await asyncio.wait_for(self._finished, seconds)
        except (TimeoutError, ProbeDied):
            return None

    async def end(self) -> None:
        if self._child is not None:
            await self._child.end()
        if self._reading is not None:
            await self._reading

    async def _read(self, child: JsonLinesChild) -> None:
        async for raw in child.lines():
            match msgspec.json.decode(raw, type=ProbeLine):
                case ProbeReady():
                    self._ready.set()
                case (ProbeSized() | ProbeProgress()) as line:
                    self._progress(line)
                case ProbeFinished(record=record):
                    self._settle(record)
                case ProbeRefused(words=words):
                    self._settle(CannotRun(f"the measuring child refused: {words}"))
        self._settle(ProbeDied(f"the measuring child died ({await child.ended()})"))

    def _settle(self, result: RequestRecord | Exception) -> None:
        if self._finished is None or self._finished.done():
            return
        if isinstance(result, Exception):
            self._finished.set_exception(result)
        else:
            self._finished.set_result(result)
