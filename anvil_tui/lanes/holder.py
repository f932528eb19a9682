"""The holder of a process lane: starts it, holds its locks, records its exit. Standard library only.

`python -m anvil_tui.lanes.holder FOLDER` reads `launch.json`, takes the locks it names (all or none), opens `lane.log`
for append and starts the lane in a session of its own, with the lock descriptors inherited: the lane keeps its GPUs
locked even when this process is killed. One JSON line on stdout says `started` or `refused`; then it only waits.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from anvil_tui import clock
from anvil_tui.files import Lock, write_atomic


def main(folder: Path) -> int:
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    launched = json.loads((folder / "launch.json").read_bytes())
    holder = f"lane {launched['lane']}, load {launched['load_id']}, since {launched['at']}"
    locks: list[Lock] = []
    for path in sorted(launched["locks"]):
        lock = Lock.take(Path(path), holder)
        if lock is None:
            return _refuse(f"{Path(path).stem.replace('gpu-', '', 1)} is held by {_holder_of(Path(path))}")
        locks.append(lock)
    log = os.open(folder / "lane.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        lane = subprocess.Popen(
            launched["argv"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=launched["cwd"],
            start_new_session=True,
            pass_fds=[lock.fd for lock in locks],
        )
    except OSError as error:
        return _refuse(f"{launched['argv'][0]}: {error.strerror}")
    own, ticks = clock.ProcessIdentity.own(), clock.start_ticks(lane.pid)
    _record(
        folder / "started.json",
        {
            "pid": lane.pid,
            "start_ticks": ticks if ticks is not None else -1,
            "boot_id": own.boot,
            "at": clock.utc_now(),
            "mono_us": clock.mono_us(),
            "holder_pid": own.pid,
            "holder_start_ticks": own.ticks,
        },
    )
    _say({"started": lane.pid})
    sys.stdout.close()
    code = lane.wait()
    ended = {"code": code if code >= 0 else None, "signal": -code if code < 0 else None}
    _record(folder / "exit.json", ended | {"at": clock.utc_now(), "mono_us": clock.mono_us()})
    return 0


def _holder_of(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(errors="replace").strip() or "an unnamed process"
    return "an unnamed process"


def _refuse(words: str) -> int:
    _say({"refused": words})
    return 2


def _say(line: dict[str, object]) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(line), flush=True)  # noqa: T201  the parent reads this line


def _record(path: Path, record: dict[str, object]) -> None:
    write_atomic(path, json.dumps(record, indent=2).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
