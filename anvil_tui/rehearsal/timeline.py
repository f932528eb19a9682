"""What lanes hold of a simulated GPU: one append-only file a GPU, written by engines, added up by readers.

A lane's latest line says what it holds from then on. Lines of lanes that are gone count for nothing, so a killed
lane's memory comes back and two lanes on one GPU add up.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from anvil_tui.clock import ProcessIdentity, mono_us
from anvil_tui.files import write_all, write_atomic

SIZE_LIMIT = 1 << 20
"""Bytes past which a timeline is rewritten with what still counts."""


class Holding(Struct, frozen=True, kw_only=True):
    """One line: what a lane's process holds from `mono_us` on, in MiB, and how busy it keeps the GPU, in percent."""

    boot: str
    pid: int
    ticks: int
    mono_us: int
    lane: str
    mib: int
    busy_pct: int = 0

    @property
    def process(self) -> ProcessIdentity:
        return ProcessIdentity(self.boot, self.pid, self.ticks)


@dataclass(frozen=True)
class Load:
    """What all living lanes together make of one GPU."""

    mib: int = 0
    busy_pct: int = 0


def timeline_path(folder: Path, uuid: str) -> Path:
    """The timeline file of the GPU `uuid` in `folder`."""
    return folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', uuid)}.jsonl"


def add_up(holdings: dict[ProcessIdentity, Holding]) -> Load:
    """Sum the holdings of the processes that still live."""
    living = [holding for process, holding in holdings.items() if process.alive()]
    return Load(
        mib=sum(holding.mib for holding in living),
        busy_pct=min(100, sum(holding.busy_pct for holding in living)),
    )


class TimelineWriter:
    """One lane's hand on one GPU's timeline."""

    def __init__(self, path: Path, lane: str) -> None:
        self._path = path
        self._lane = lane
        self._process = ProcessIdentity.own()

    def write(self, mib: int, busy_pct: int = 0) -> None:
        """From now on the lane holds `mib` MiB. Rewrites a file that grew past SIZE_LIMIT, keeping who lives."""
        line = self._line(mib, busy_pct)
        with _locked(self._path):
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                size = os.fstat(fd).st_size
                if size > SIZE_LIMIT:
                    write_atomic(self._path, _living_lines(self._path) + line, durable=False)
                    return
                # A writer that was killed may have left half a line: it must not swallow ours.
                torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
                write_all(fd, b"\n" + line if torn else line)
            finally:
                os.close(fd)

    def _line(self, mib: int, busy_pct: int) -> bytes:
        holding = Holding(
            boot=self._process.boot,
            pid=self._process.pid,
            ticks=self._process.ticks,
            mono_us=mono_us(),
            lane=self._lane,
            mib=mib,
            busy_pct=busy_pct,
        )
        return msgspec.json.encode(holding) + b"\n"


class TimelineReader:
    """Follows one GPU's timeline; each look reads only what was appended since the last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: tuple[int, int] | None = None
        self._offset = 0
        self._latest: dict[ProcessIdentity, Holding] = {}

    def load(self) -> Load:
        """What living lanes hold now; nothing where no lane ever wrote."""
        self._catch_up()
        return add_up(self._latest)

    def _catch_up(self) -> None:
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._file, self._offset, self._latest = None, 0, {}
            return
        try:
            found = os.fstat(fd)
            if (found.st_dev, found.st_ino) != self._file or found.st_size < self._offset:
                self._file, self._offset, self._latest = (found.st_dev, found.st_ino), 0, {}
            fresh = os.pread(fd, found.st_size - self._offset, self._offset)
        finally:
            os.close(fd)
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self._offset += len(whole)
        for holding in decode_lines(whole):
            self._latest[holding.process] = holding


def decode_lines(raw: bytes) -> Iterator[Holding]:
    """The holdings in `raw`; a line that a kill tore is passed over."""
    for line in raw.splitlines():
        try:
            yield msgspec.json.decode(line, type=Holding)
        except msgspec.MsgspecError:
            continue


def _living_lines(path: Path) -> bytes:
    latest = {holding.process: holding for holding in decode_lines(path.read_bytes())}
    return b"".join(msgspec.json.encode(one) + b"\n" for process, one in latest.items() if process.alive())


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keeps writers apart while one of them may rewrite the file; held for microseconds, so waiting is right."""
    fd = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
