"""Following a campaign from outside: events as they come, and the figures of the moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from anvil_tui import clock
from anvil_tui.campaigns.store.folder import CampaignFolder
from anvil_tui.campaigns.store.view import CampaignReader, CampaignView
from anvil_tui.records.events import Envelope, Event
from anvil_tui.records.live import Live

_PERIOD_SECONDS = 0.1
LIVE_HZ = 5.0
"""How often a runner writes its live figures."""
STALE_SECONDS = 3.0
"""Live figures older than this are not shown as live."""


@dataclass(frozen=True)
class Update:
    """What changed since the last look; `live` is None where no runner writes figures now."""

    events: tuple[tuple[Envelope, Event | None], ...]
    view: CampaignView
    live: Live | None
    running: bool


def read_live(folder: CampaignFolder) -> Live | None:
    """The figures of this moment; None where there are none, or none of this boot, or stale ones."""
    try:
        live = msgspec.json.decode(folder.live.read_bytes(), type=Live)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None
    stale = live.boot_id != clock.boot_id() or clock.mono_us() - live.mono_us > STALE_SECONDS * 1e6
    return None if stale else live


def follow(folder: CampaignFolder, alive: Callable[[], bool] = lambda: False) -> Iterator[Update]:
    """Yield ten updates a second until no writer holds the campaign; the last one has `running` false.

    `alive` may say that a runner lives although it does not hold the journal yet.
    """
    reader = CampaignReader(folder)
    while True:
        running = folder.running() or alive()
        events = tuple(reader.new())
        yield Update(events, reader.view, read_live(folder) if running else None, running)
        if not running:
            return
        time.sleep(_PERIOD_SECONDS)
