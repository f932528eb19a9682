"""Which locks a lane holds while it lives, so that two never share a GPU or an address by accident."""

from __future__ import annotations

import re
from pathlib import Path

from anvil_tui.lanes.profile import Lane
from anvil_tui.locations import runtime_dir


def lane_locks(lane: Lane, gpu_uuids: tuple[str, ...]) -> tuple[str, ...]:
    """The lock files of a lane, sorted: one a GPU, and where it has none, its endpoint's address."""
    folder = runtime_dir()
    if gpu_uuids:
        return tuple(sorted(str(folder / f"gpu-{_safe(uuid)}.lock") for uuid in gpu_uuids))
    return (str(_address_lock("lane", lane)),)


def measuring_lock(lane: Lane) -> Path:
    """Held by the campaign that measures the load behind this endpoint: two never measure one."""
    return _address_lock("measure", lane)


def _address_lock(what: str, lane: Lane) -> Path:
    host, port = lane.address
    return runtime_dir() / f"{what}-{_safe(host)}-{port}.lock"


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)
