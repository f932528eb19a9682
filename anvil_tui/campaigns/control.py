"""Asking a runner: one file a request in `inbox/`, taken, journalled and unlinked by the runner."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import msgspec
from msgspec import Struct

from anvil_tui.files import write_atomic
from anvil_tui.records.events import Ask


class Request(Struct, frozen=True, kw_only=True):
    """What the operator asks for. `text` belongs to a note or names an alarm."""

    ask: Ask
    text: str | None = None


@dataclass(frozen=True)
class Taken:
    """A request and the name that its answer refers to; `request` is None where the file made no sense."""

    name: str
    path: Path
    request: Request | None
    raw: str


def ask(inbox: Path, request: Request) -> str:
    """Drop a request; returns its name, under which `asked` and `answered` appear in the journal."""
    name = f"{time.time_ns()}-{os.getpid()}"
    write_atomic(inbox / f"{name}.json", msgspec.json.encode(request), durable=False)
    return name


def take(inbox: Path) -> list[Taken]:
    """Every waiting request, oldest first. The caller journals each and then unlinks its file."""
    taken = []
    for path in sorted(inbox.glob("[0-9]*.json")):
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            continue
        try:
            request = msgspec.json.decode(raw, type=Request)
        except msgspec.MsgspecError:
            request = None
        taken.append(Taken(path.stem, path, request, raw[:200].decode("utf-8", "replace")))
    return taken


ASKS: tuple[str, ...] = get_args(Ask)
