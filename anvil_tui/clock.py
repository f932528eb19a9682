"""Time and the identity of processes.

Durations come from the monotonic clock only; it compares within one boot id. Wall-clock time is a label.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path


def utc_now() -> str:
    """Wall-clock time as RFC 3339 with milliseconds, `2026-12-01T03:23:55.123Z`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def utc_basic() -> str:
    """Wall-clock time as it stands in campaign and load ids, `20261201T032355Z`."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")


def mono_us() -> int:
    """CLOCK_MONOTONIC in microseconds; the same for every process of one boot."""
    return time.monotonic_ns() // 1000


@cache
def boot_id() -> str:
    """Identifies this boot of the kernel; monotonic times of other boots do not compare."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int | None:
    """Start time of process `pid` in clock ticks since boot; None where no such process runs.

    A zombie counts as gone: it holds nothing and answers nothing.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    return None if fields[0] == b"Z" else int(fields[19])


@dataclass(frozen=True)
class ProcessIdentity:
    """A process that cannot be confused with a later one of the same pid."""

    boot: str
    pid: int
    ticks: int

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """Identity of running process `pid`, None where it is gone."""
        ticks = start_ticks(pid)
        return None if ticks is None else cls(boot_id(), pid, ticks)

    @classmethod
    def own(cls) -> ProcessIdentity:
        identity = cls.of(os.getpid())
        assert identity is not None, "this process runs"
        return identity

    def alive(self) -> bool:
        return self.boot == boot_id() and start_ticks(self.pid) == self.ticks
