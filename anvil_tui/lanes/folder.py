"""The lane folder: `STATE/lanes/<lane>/<load id>/`, one folder a load, everything in it 0600."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from anvil_tui import clock
from anvil_tui.clock import ProcessIdentity
from anvil_tui.files import write_atomic
from anvil_tui.records.load import Exited, Launched, Ready, Refused, Started, StopAsked
from anvil_tui.records.startup_report import StartupReport

R = TypeVar("R", Launched, Refused, Started, Exited, StopAsked, Ready, StartupReport)

_LAUNCH_SECONDS = 30.0

LoadState = Literal["launching", "starting", "up", "attached", "stopped", "exited", "gone"]


@dataclass(frozen=True)
class LaneFolder:
    """One load on disk. Records that are not there yet read as None."""

    path: Path

    @classmethod
    def create(cls, lanes: Path, lane: str) -> LaneFolder:
        """A new folder for a new load of `lane`."""
        path = lanes / lane / f"{clock.utc_basic()}-{secrets.token_hex(3)}"
        path.mkdir(parents=True, mode=0o700)
        return cls(path)

    @property
    def load_id(self) -> str:
        return self.path.name

    @property
    def lane(self) -> str:
        return self.path.parent.name

    @property
    def log(self) -> Path | None:
        """The lane's log; null where it has none that we can read."""
        launched = self.launched()
        return None if launched is None or launched.log is None else self.path / launched.log

    def launched(self) -> Launched | None:
        return self._read("launch.json", Launched)

    def refused(self) -> Refused | None:
        return self._read("refused.json", Refused)

    def started(self) -> Started | None:
        return self._read("started.json", Started)

    def ready(self) -> Ready | None:
        return self._read("ready.json", Ready)

    def exited(self) -> Exited | None:
        return self._read("exit.json", Exited)

    def stop_asked(self) -> StopAsked | None:
        return self._read("stop_asked.json", StopAsked)

    def report(self) -> StartupReport | None:
        return self._read("startup_report.json", StartupReport)

    def write(self, record: Launched | Refused | Ready | StartupReport) -> None:
        """Write one record, atomically."""
        name = {
            Launched: "launch.json",
            Refused: "refused.json",
            Ready: "ready.json",
            StartupReport: "startup_report.json",
        }[type(record)]
        write_atomic(self.path / name, msgspec.json.format(msgspec.json.encode(record)) + b"\n")

    def ask_stop(self) -> None:
        """Say that the end is asked for, before any signal: engines exit 0 when they die."""
        record = StopAsked(at=clock.utc_now(), by_pid=os.getpid())
        write_atomic(self.path / "stop_asked.json", msgspec.json.encode(record) + b"\n")

    def process(self) -> ProcessIdentity | None:
        """The lane's process, once started; it may be gone by now."""
        started = self.started()
        return ProcessIdentity(started.boot_id, started.pid, started.start_ticks) if started else None

    def state(self) -> LoadState:
        """What this load is now, from its files and its process."""
        launched = self.launched()
        if launched is not None and launched.kind == "attach":
            return "attached"
        process = self.process()
        if process is None:
            return "launching" if launched is not None and self.refused() is None and _fresh(launched) else "gone"
        if process.alive():
            return "up" if self.ready() else "starting"
        if self.stop_asked():
            return "stopped"
        return "exited" if self.exited() else "gone"

    def _read(self, name: str, record: type[R]) -> R | None:
        try:
            raw = (self.path / name).read_bytes()
        except FileNotFoundError:
            return None
        try:
            return msgspec.json.decode(raw, type=record)
        except msgspec.MsgspecError:
            return None


def _fresh(launched: Launched) -> bool:
    """Whether a launch was so short ago that its holder may still be about to start it."""
    return launched.boot_id == clock.boot_id() and clock.mono_us() - launched.mono_us < _LAUNCH_SECONDS * 1e6


def loads(lanes: Path, lane: str) -> list[LaneFolder]:
    """Every load of a lane, oldest first; none where it was never launched."""
    folder = lanes / lane
    if not folder.is_dir():
        return []
    return [LaneFolder(path) for path in sorted(folder.iterdir()) if path.is_dir()]


def living_load(lanes: Path, lane: str) -> LaneFolder | None:
    """The load of a process lane that runs now, newest first."""
    return next((load for load in reversed(loads(lanes, lane)) if load.state() in ("starting", "up")), None)


def exit_words(load: LaneFolder) -> str:
    """How a load ended, as a sentence for the operator."""
    exited, asked, refused = load.exited(), load.stop_asked(), load.refused()
    if refused is not None:
        return f"it could not start: {refused.words}"
    if exited is None:
        return "it is gone and its exit is unknown: its holder was killed"
    how = f"signal {exited.signal}" if exited.signal is not None else f"exit code {exited.code}"
    return f"it was stopped ({how})" if asked else f"it ended by itself with {how} at {exited.at}"
