"""Asking a runner: one file a request in `inbox/`, taken, journalled and unlinked by the runner.

A runner that does not answer is told by a signal: SIGTERM means stop now and leave a clean folder.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from anvil_tui.campaigns.store.folder import CampaignFolder
from anvil_tui.campaigns.store.journal import JournalReader
from anvil_tui.clock import ProcessIdentity
from anvil_tui.files import write_atomic
from anvil_tui.records.events import Ask, RunnerStarted


class Request(Struct, frozen=True, kw_only=True):
    """What the operator asks for. `text` belongs to a note or names an alarm."""

    ask: Ask
    text: str | None = None


ANSWER_SECONDS = 3.0
"""A runner that has not said `asked` after this long does not answer."""


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


def runner_of(folder: CampaignFolder) -> ProcessIdentity | None:
    """The runner that writes the campaign now; None where none lives."""
    reader = JournalReader(folder.journal)
    started = [event for _, event in reader.new() if isinstance(event, RunnerStarted)]
    if not started or started[-1].start_ticks is None:
        return None
    identity = ProcessIdentity(started[-1].boot_id, started[-1].pid, started[-1].start_ticks)
    return identity if identity.alive() else None


def signal_runner(folder: CampaignFolder, number: signal.Signals) -> bool:
    """Send the runner a signal; returns whether there was one. Its children end with it, the lane does not."""
    identity = runner_of(folder)
    if identity is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(identity.pid, number)
    return True
