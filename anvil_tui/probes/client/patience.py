"""An event loop that looks at many sockets a little less often: each look costs more than the read it finds.

The kernel stamps what comes in when it comes in, so a look that is late moves no figure; only chunks of one stream that
come within NAP_S of each other share a stamp.
"""

from __future__ import annotations

import asyncio
import selectors
import time

MANY = 16
"""Sockets from which on the loop is patient; with fewer a look costs next to nothing."""
NAP_S = 0.003


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
