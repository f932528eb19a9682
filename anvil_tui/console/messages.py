"""What can happen in the console beside keys: threads tell it with these messages, in this order of birth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from textual.message import Message

from anvil_tui.console.snapshot import Desk, GpuSnapshot, LogSnapshot


class _Newest(Message):
    """A snapshot replaces an older one of its kind that still waits."""

    def can_replace(self, message: Message) -> bool:
        return type(message) is type(self)


@dataclass
class DeskRead(_Newest):
    """Lanes and campaigns were read."""

    desk: Desk


@dataclass
class GpusRead(_Newest):
    """GPU samples came, or stopped coming."""

    gpus: GpuSnapshot


@dataclass
class LogRead(_Newest):
    """The shown log grew, or another one is shown."""

    log: LogSnapshot


@dataclass
class SourceFailed(Message):
    """A reading thread met a fault of ours; it goes on after a pause."""

    source: str
    words: str


@dataclass
class ActDone(Message):
    """Something that the operator asked for is done, or was refused: then `error` says why. `done` takes it up."""

    act: str
    done: Done
    value: Any = None
    error: str | None = None


@dataclass
class TerminalLost(Message):
    """Nobody sees the screen any more."""


Done = Callable[[ActDone], None]
"""Takes up the outcome of an act, on the event loop."""
