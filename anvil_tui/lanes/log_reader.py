"""The log reader child: follows a lane's log and says what its start-up report has become.

`python -m anvil_tui.lanes.log_reader LOG --engine vllm` prints one JSON line when the report changed, at most five a
second, and ends when its stdin closes. It lives in a process of its own, since reading a log beside the measuring
client costs the client milliseconds.
"""

from __future__ import annotations

import argparse
import os
import select
import sys
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from anvil_tui.engines.startup_log import StartupLog
from anvil_tui.files import write_all
from anvil_tui.records.startup_report import StartupReport

_CHUNK = 1 << 20
_PERIOD_SECONDS = 0.2


class LogRead(Struct, frozen=True, kw_only=True):
    """One line of the child: the report as of `offset` bytes."""

    offset: int
    report: StartupReport


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m anvil_tui.lanes.log_reader")
    parser.add_argument("log", type=Path)
    parser.add_argument("--engine", required=True)
    arguments = parser.parse_args()
    log, told, offset = StartupLog(arguments.engine), None, 0
    while True:
        began = time.monotonic()
        grown = 0
        try:
            with arguments.log.open("rb") as file:
                file.seek(offset)
                while chunk := file.read(_CHUNK):
                    log.feed(chunk)
                    grown += len(chunk)
                    if grown >= 64 * _CHUNK:
                        break
        except FileNotFoundError:
            pass
        offset += grown
        report = log.report()
        if report != told:
            try:
                write_all(sys.stdout.fileno(), msgspec.json.encode(LogRead(offset=offset, report=report)) + b"\n")
            except BrokenPipeError:
                return 0
            told = report
        wait = max(0.0, began + _PERIOD_SECONDS - time.monotonic())
        ready, _, _ = select.select([sys.stdin], [], [], wait)
        if ready and not os.read(sys.stdin.fileno(), 4096):
            return 0


if __name__ == "__main__":
    sys.exit(main())
