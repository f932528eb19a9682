"""What may cut a step short: the operator, a dead lane, a dead child, a full disk."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

InterruptKind = Literal["stop_now", "skip_rung", "lane_died", "disk_full"]


@dataclass(eq=False)
class Interrupt(Exception):
    """Why a step was cut short, as a sentence for the operator. Not frozen: raising sets its traceback."""

    kind: InterruptKind
    words: str

    def __str__(self) -> str:
        return self.words


class Interrupts:
    """The interrupt that is pending. `skip_rung` ends with the rung; the others stay."""

    def __init__(self) -> None:
        self.pending: Interrupt | None = None
        self.stop_after_request = False
        self._changed = asyncio.Event()

    def strike(self, interrupt: Interrupt) -> None:
        """Cut the open step short. What is final stays; a skip never replaces it."""
        if self.pending is None or self.pending.kind == "skip_rung":
            self.pending = interrupt
            self._changed.set()

    def clear_skip(self) -> None:
        """A skip that came between rungs skips nothing."""
        if self.pending is not None and self.pending.kind == "skip_rung":
            self.pending = None
            self._changed.clear()

    async def struck(self) -> Interrupt:
        """Wait for an interrupt."""
        await self._changed.wait()
        assert self.pending is not None
        return self.pending

    async def until(self, awaited: asyncio.Future[Any]) -> None:
        """Wait for `awaited`, or raise the Interrupt that comes first; what becomes of `awaited` is the caller's."""
        struck = asyncio.ensure_future(self.struck())
        try:
            await asyncio.wait({awaited, struck}, return_when=asyncio.FIRST_COMPLETED)
            if not awaited.done() and self.pending is not None:
                raise self.pending
        finally:
            struck.cancel()
