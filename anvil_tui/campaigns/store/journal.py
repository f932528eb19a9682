"""The journal: append-only, hash-chained, one event a line, one writer."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec import Raw

from anvil_tui import clock
from anvil_tui.errors import CannotRun
from anvil_tui.files import sync_dir, write_all, write_new
from anvil_tui.records import events
from anvil_tui.records.events import Envelope, Event

GENESIS = "0" * 64
"""`prev` of the first line."""
_LOOKER_SECONDS = 0.1


@dataclass(frozen=True)
class Torn:
    """What a dead writer left behind its last whole line."""

    bytes: int
    sha256: str
    kept_as: str


class Journal:
    """The one writer of a journal. It holds the file's flock from taking to closing."""

    def __init__(self, path: Path, fd: int) -> None:
        """Write to `path` through `fd`, on which this process holds the lock; an unfinished tail is mended first."""
        self.path = path
        self._fd = fd
        self.torn = _mend(path, fd)
        lines = path.read_bytes().split(b"\n")[:-1]
        self._seq = len(lines)
        self._prev = hashlib.sha256(lines[-1]).hexdigest() if lines else GENESIS

    @classmethod
    def take(cls, path: Path) -> Journal:
        """Take the journal. Raises CannotRun where another writer holds it."""
        return cls(path, take_lock(path))

    def append(self, event: Event, *, durable: bool = True) -> Envelope:
        """Write one event; it is on disk when this returns, unless told that it need not be."""
        envelope = Envelope(
            seq=self._seq,
            prev=self._prev,
            t=clock.utc_now(),
            mono_us=clock.mono_us(),
            kind=events.kind_of(type(event)),
            body=Raw(msgspec.json.encode(event)),
        )
        line = msgspec.json.encode(envelope)
        write_all(self._fd, line + b"\n")
        if durable:
            os.fsync(self._fd)
        self._seq += 1
        self._prev = hashlib.sha256(line).hexdigest()
        return envelope

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def take_lock(path: Path) -> int:
    """A descriptor of the journal with its lock held. Raises CannotRun where another writer holds it.

    A child that inherits the descriptor holds the lock too: so a runner owns the journal before it has started.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    # A reader that only looks whether the lock is held has it for microseconds: that is no writer.
    deadline = time.monotonic() + _LOOKER_SECONDS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(_LOOKER_SECONDS / 20)
                continue
            os.close(fd)
            raise CannotRun(
                f"{path.parent.name}: another process writes this campaign; watch it or ask it to stop"
            ) from None
        return fd


def _mend(path: Path, fd: int) -> Torn | None:
    """Cut what stands behind the last LF, keeping it aside; never append onto an unfinished line."""
    raw = path.read_bytes()
    whole = raw.rfind(b"\n") + 1
    tail = raw[whole:]
    if not tail:
        return None
    kept = path.with_name(f"journal.torn.{raw.count(bytes([10]))}")
    if not kept.exists():
        write_new(kept, tail)
    os.ftruncate(fd, whole)
    os.fsync(fd)
    sync_dir(path.parent)
    return Torn(bytes=len(tail), sha256=hashlib.sha256(tail).hexdigest(), kept_as=kept.name)


@dataclass
class JournalReader:
    """Reads a journal as it grows. `broken` names the first line whose chain does not hold."""

    path: Path
    offset: int = 0
    seq: int = 0
    prev: str = GENESIS
    broken: str | None = None
    unknown: dict[str, int] = field(default_factory=dict)
    """Kinds that this version does not know, and how often they stood there."""

    def new(self) -> Iterator[tuple[Envelope, Event | None]]:
        """The whole lines written since the last call; an unknown kind comes with None."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                grown = file.read()
        except FileNotFoundError:
            return
        whole = grown[: grown.rfind(b"\n") + 1]
        self.offset += len(whole)
        for line in whole.split(b"\n")[:-1]:
            try:
                envelope = msgspec.json.decode(line, type=Envelope)
            except msgspec.MsgspecError as error:
                self._break(f"line {self.seq + 1}: {error}")
                self._step(line)
                continue
            if envelope.prev != self.prev or envelope.seq != self.seq:
                self._break(f"line {self.seq + 1}: it does not follow the line before")
            self._step(line)
            event = events.body(envelope)
            if event is None:
                self.unknown[envelope.kind] = self.unknown.get(envelope.kind, 0) + 1
            yield envelope, event

    def _step(self, line: bytes) -> None:
        self.seq += 1
        self.prev = hashlib.sha256(line).hexdigest()

    def _break(self, words: str) -> None:
        self.broken = self.broken or words


def read_journal(path: Path) -> list[tuple[Envelope, Event | None]]:
    """Every whole line of a journal. Raises CannotRun where the chain does not hold."""
    reader = JournalReader(path)
    lines = list(reader.new())
    if reader.broken:
        raise CannotRun(f"{path}: {reader.broken}")
    return lines
