"""A visit to a lane: its load taken or brought up, measured, watched, and left with its logs copied."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

from anvil_tui.campaigns.running.session import Session
from anvil_tui.campaigns.running.vram import VramWatch
from anvil_tui.campaigns.steps import closeout
from anvil_tui.campaigns.steps.load import take_load, watch_load
from anvil_tui.campaigns.steps.measuring import Measuring
from anvil_tui.errors import CannotRun
from anvil_tui.files import Lock
from anvil_tui.lanes import locks
from anvil_tui.lanes.profile import Lane
from anvil_tui.records.plan import PlannedLoad


@contextlib.asynccontextmanager
async def visit(
    session: Session, lane: Lane, vram: VramWatch | None, number: int, planned: PlannedLoad | None = None
) -> AsyncIterator[Measuring]:
    """The runs of one load, numbered from `number` + 1. Nobody else measures it meanwhile.

    Raises CannotRun where another campaign does, or where the lane is down and may not be started; CheckFailed where it
    did not come up; Interrupt.
    """
    held = Lock.take(locks.measuring_lock(lane), session.plan.campaign_id)
    if held is None:
        raise CannotRun(f"another campaign measures {lane.name}")
    try:
        load = await take_load(session, lane, vram, os.environ)
        startup_bytes = _log_size(load.folder.log) if load.log_from == 0 else None
        measuring = Measuring(session, load, vram, number, planned)
        watching = asyncio.create_task(watch_load(session, load))
        try:
            yield measuring
        finally:
            await measuring.prober.end()
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
            session.step = f"closing {lane.name}"
            await asyncio.to_thread(closeout.copy_logs, session, load, startup_bytes)
            await load.endpoint.__aexit__()
    finally:
        held.release()


def _log_size(path: Path | None) -> int | None:
    return path.stat().st_size if path is not None and path.exists() else None
