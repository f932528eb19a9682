"""Stopping a load: the whole process group, and whatever else bears its mark, after any crash of ours."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from anvil_tui import clock
from anvil_tui.lanes.folder import LaneFolder
from anvil_tui.lanes.launch import LOAD_MARK

GRACE_SECONDS = 30.0
"""How long a lane may take to end by itself after SIGTERM."""
_KILL_SECONDS = 10.0


def members(load: LaneFolder) -> frozenset[int]:
    """Pids of the load's living processes: those of its session, and those that carry its mark in their environment.

    An engine that renames its processes overwrites its environment, and one that opens sessions leaves ours: each
    of the two signs catches what the other misses.
    """
    started = load.started()
    session = started.pid if started is not None and started.boot_id == clock.boot_id() else None
    mark = f"{LOAD_MARK}={load.load_id}".encode()
    holder = started.holder_pid if started is not None else None
    found = set()
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        pid = int(entry.name)
        if pid in (os.getpid(), holder):
            continue
        in_session = (
            session is not None
            and _session(pid) == session
            and _not_older(pid, started.start_ticks if started else None)
        )
        if in_session or mark in _environment(pid):
            found.add(pid)
    return frozenset(found)


def stop(load: LaneFolder, grace_seconds: float = GRACE_SECONDS) -> bool:
    """End a load: ask, wait, then kill; returns whether nothing of it is left. Its holder ends by itself.

    Blocks up to the grace plus ten seconds; run it outside an event loop.
    """
    load.ask_stop()
    _signal(members(load), signal.SIGTERM)
    if _gone(load, grace_seconds):
        return True
    _signal(members(load), signal.SIGKILL)
    return _gone(load, _KILL_SECONDS)


def _gone(load: LaneFolder, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while members(load):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _signal(pids: frozenset[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid) if clock.start_ticks(pid) is not None else None
    except (ProcessLookupError, PermissionError):
        return None


def _not_older(pid: int, ticks: int | None) -> bool:
    """A member of the session cannot be older than its leader; an older one means that the pid was used before."""
    own = clock.start_ticks(pid)
    return own is not None and ticks is not None and own >= ticks


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if clock.start_ticks(pid) is not None else []
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return []
