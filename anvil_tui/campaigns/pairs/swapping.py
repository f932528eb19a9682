"""Swapping exclusive lanes on the same GPUs: the one is stopped, its memory comes back, the next one starts."""

from __future__ import annotations

import asyncio

from anvil_tui.campaigns.running.session import Session
from anvil_tui.campaigns.running.vram import VramWatch
from anvil_tui.errors import CheckFailed
from anvil_tui.lanes import stop
from anvil_tui.lanes.folder import LaneFolder
from anvil_tui.records.events import LoadStopped, MemoryReturned
from anvil_tui.records.vram import MIB

TOLERANCE_BYTES = 256 * MIB
"""How much less may be free than before the first load: the host's desktop draws on the GPUs too."""
PATIENCE_SECONDS = 60.0


async def stop_load(session: Session, folder: LaneFolder) -> None:
    """Stop a load of this campaign. Raises CheckFailed where something of it stays."""
    session.step = f"stopping {folder.lane}"
    gone = await asyncio.to_thread(stop.stop, folder)
    session.event(LoadStopped(lane=folder.lane, load_id=folder.load_id, gone=gone))
    if not gone:
        raise CheckFailed(f"{folder.lane} did not end; the next lane cannot start on its GPUs")


async def await_memory(session: Session, vram: VramWatch, baseline: dict[str, int]) -> None:
    """Wait until every GPU has free again what it had before the first load. Raises CheckFailed where it does not."""
    session.step = "waiting for GPU memory to come back"
    waited = 0.0
    while short := _short(vram.free_now(), baseline):
        if waited >= PATIENCE_SECONDS:
            session.event(MemoryReturned(returned=False, words=short))
            raise CheckFailed(f"GPU memory did not come back within {PATIENCE_SECONDS:.0f} s: {short}")
        session.step = f"waiting {waited:.0f} of {PATIENCE_SECONDS:.0f} s for GPU memory to come back: {short}"
        await asyncio.sleep(0.25)
        waited += 0.25
    session.event(MemoryReturned(returned=True, words=f"every GPU has what it had, after {waited:.1f} s"))


def _short(free: dict[str, int], baseline: dict[str, int]) -> str:
    """Which GPUs lack how much; empty where none does."""
    lacking = []
    for uuid, before in baseline.items():
        now = free.get(uuid)
        if now is None:
            lacking.append(f"{uuid}: no figure")
        elif now < before - TOLERANCE_BYTES:
            lacking.append(f"{uuid}: {(before - now) / MIB:,.0f} MiB less free than before the first load")
    return "; ".join(lacking)
