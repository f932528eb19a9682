"""How work of our own and looks at the sockets take turns, so that neither holds up what comes in.

A loop with many sockets looks a little less often: each look costs more than the read it finds.

The kernel stamps what comes in when it comes in, so a look that is late moves no figure; only chunks of one stream that
come within NAP_S of each other share a stamp.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections import deque
from collections.abc import Callable

MANY = 16
"""Sockets from which on the loop is patient; with fewer a look costs next to nothing."""
NAP_S = 0.003
BATCH_S = 0.075
"""How long a read may wait to be taken apart together with those after it."""


class Batches:
    """Work that may wait a moment, in the order in which it came: one piece between any two looks at the sockets.

    So many streams that end at once do not hold up the first token of another.
    """

    def __init__(self) -> None:
        self._queue: deque[tuple[float, Callable[[], None]]] = deque()
        self._next: asyncio.Handle | None = None

    def later(self, work: Callable[[], None]) -> None:
        """Do `work` when more of its kind may have come."""
        loop = asyncio.get_running_loop()
        self._queue.append((loop.time() + BATCH_S, work))
        if self._next is None:
            self._next = loop.call_at(self._queue[0][0], self._work)

    def soon(self, work: Callable[[], None]) -> None:
        """Do `work` before all that waits."""
        self._queue.appendleft((0.0, work))
        if self._next is not None:
            self._next.cancel()
        self._next = asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        loop = asyncio.get_running_loop()
        due, work = self._queue[0]
        if due > loop.time():
            self._next = loop.call_at(due, self._work)
            return
        self._queue.popleft()
        # In the next turn of the loop, not in this one: it looks at the sockets in between.
        self._next = loop.call_soon(self._work) if self._queue else None
        work()


class PatientSelector(selectors.DefaultSelector):
    """Waits NAP_S before each look while MANY sockets are open."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if len(self.get_map()) > MANY and (timeout is None or timeout > 0):
            nap_s = NAP_S if timeout is None else min(NAP_S, timeout)
            time.sleep(nap_s)
            timeout = None if timeout is None else timeout - nap_s
        return super().select(timeout)


def patient_loop() -> asyncio.AbstractEventLoop:
    """A new loop of this kind."""
    return asyncio.SelectorEventLoop(PatientSelector())
