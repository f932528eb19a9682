"""What a campaign takes along of its lanes when it ends: the logs of its window, secrets redacted and counted."""

from __future__ import annotations

import hashlib
import os

from anvil_tui.campaigns.running.session import Session
from anvil_tui.campaigns.steps.load import Load
from anvil_tui.files import sync_dir, write_all
from anvil_tui.records.events import LogCopied
from anvil_tui.text import redact

_CHUNK = 4 << 20
_STARTUP_LIMIT = 64 << 20
"""Bytes of a start-up log that are copied at most; what is beyond stays in the lane folder."""


def copy_logs(session: Session, load: Load, startup_bytes: int | None) -> None:
    """Copy the start-up part of the lane's log and the window of this campaign, where the lane has a log.

    `startup_bytes` is where the start-up ended; null where this campaign did not see it.
    """
    path = load.folder.log
    if path is None or not path.exists():
        return
    size = path.stat().st_size
    if startup_bytes:
        _copy(session, load, 0, min(startup_bytes, _STARTUP_LIMIT), "startup")
    begin = startup_bytes if startup_bytes is not None else load.log_from
    if size > begin:
        _copy(session, load, begin, size, "window")


def _copy(session: Session, load: Load, begin: int, end: int, what: str) -> None:
    source = load.folder.log
    assert source is not None, "the caller looked"
    name = session.free_name(f"logs/{load.lane.name}-{load.folder.load_id}-{what}.log")
    target = session.folder.path / name
    counts: dict[str, int] = {}
    digest, written = hashlib.sha256(), 0
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with source.open("rb") as file:
            file.seek(begin)
            pending = b""
            while begin < end and (chunk := file.read(min(_CHUNK, end - begin))):
                begin += len(chunk)
                # A secret must not hide across two chunks: only whole lines are redacted, the rest waits.
                pending += chunk
                whole = len(pending) if begin >= end else pending.rfind(b"\n") + 1
                clean, struck = redact(pending[:whole])
                pending = pending[whole:]
                write_all(fd, clean)
                digest.update(clean)
                written += len(clean)
                for rule, count in struck.items():
                    counts[rule] = counts.get(rule, 0) + count
        os.fsync(fd)
    finally:
        os.close(fd)
    sync_dir(target.parent)
    session.event(
        LogCopied(lane=load.lane.name, path=name, sha256=digest.hexdigest(), bytes=written, redactions=counts)
    )
