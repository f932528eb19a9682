"""Follows the shown lane's log: bytes become rows, progress bars one row each, and the start-up report grows."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from anvil_tui import clock
from anvil_tui.console.messages import LogRead
from anvil_tui.console.snapshot import Desk, LogLine, LogSnapshot
from anvil_tui.console.sources.log_rows import LogRows, matcher
from anvil_tui.console.sources.source import Post, Source
from anvil_tui.records.startup_report import StartupReport

PERIOD_SECONDS, FLOOD_SECONDS = 0.1, 0.25
"""Time between two looks: of a log that can be read as it comes, and of one that nobody could read."""
_FLOOD_BYTES_PER_S = 256 << 10
_CHUNK = 1 << 20
_TAIL_BYTES = 4 << 20
"""How much of a log that is there already is read for the pane."""
_STARTUP_BYTES = 64 << 20
"""A start-up that says nothing within this much of its log has no report."""
_PAGE_BEFORE, _PAGE_AFTER = 128 << 10, 512 << 10


@dataclass(frozen=True)
class LogWish:
    """Which log is shown, and whether its start-up is still to be read from it."""

    path: Path | None = None
    engine: str | None = None
    wants_report: bool = False


class LogSource(Source):
    """One thread that follows one log. What it is asked for is picked up at its next look."""

    def __init__(self, post: Post) -> None:
        super().__init__("log", PERIOD_SECONDS, post)
        self._wish: LogWish | None = None
        self._filter = ""
        self._jump: int | None = None
        self._shown = LogWish()
        self._applied = ""
        self._page: int | None = None
        self._page_rows: tuple[LogLine, ...] = ()
        self._rows = LogRows()
        self._offset = 0
        self._startup: _Startup | None = None
        self._fault: str | None = None
        self._grew_us: int | None = None

    def follow(self, desk: Desk) -> None:
        """Show the log of the lane that is shown."""
        lane = desk.lane.lane if desk.lane is not None else None
        engine = lane.profile.identity.engine if lane is not None else None
        self.want(LogWish(desk.log, engine, desk.report is None))

    def want(self, wish: LogWish) -> None:
        """Show this log from now on."""
        if wish != self._wish:
            self._wish = wish
            self.poke()

    def filter(self, pattern: str) -> None:
        """Show only lines that match: a regular expression without regard to case; `!` in front inverts it."""
        self._filter = pattern
        self.poke()

    def jump(self, offset: int | None) -> None:
        """Show the lines around this byte of the log; None goes back to its end."""
        self._jump = offset
        self.poke()

    def look(self) -> None:
        wish, pattern, jump = self._wish or LogWish(), self._filter, self._jump
        if wish.path != self._shown.path:
            self._open(wish)
        self._shown = wish
        if pattern != self._applied:
            self._applied = pattern
            self._apply(pattern)
        self._read(wish)
        if jump != self._page:
            self._page = jump
            self._page_rows = () if jump is None or wish.path is None else read_page(wish.path, jump)
        self.publish(LogRead(self._snapshot(wish)))

    def _snapshot(self, wish: LogWish) -> LogSnapshot:
        return LogSnapshot(
            path=wish.path,
            lines=self._rows.shown() if self._page is None else self._page_rows,
            kept=self._rows.kept,
            size=self._offset,
            warnings=self._rows.warnings,
            errors=self._rows.errors,
            filter=self._applied,
            fault=self._fault,
            page=self._page,
            report=self._startup.report if self._startup is not None else None,
            grew_us=self._grew_us,
            unread=self._wish is None,
        )

    def _open(self, wish: LogWish) -> None:
        self._rows = LogRows()
        self._jump = self._page = None
        self._grew_us = None
        self._offset = max(0, _size(wish.path) - _TAIL_BYTES)
        self._startup = None
        if self._offset:
            self._rows.cut_first_line()
        self._apply(self._applied)

    def _apply(self, pattern: str) -> None:
        """Filter the rows anew; a pattern that is none yet shows everything and says why."""
        try:
            match: Callable[[str], bool] | None = matcher(pattern)
            self._fault = None
        except re.error as error:
            match, self._fault = None, f"filter: {error}"
        self._rows.filter(match)

    def _read(self, wish: LogWish) -> None:
        if wish.path is None:
            return
        size = _size(wish.path)
        if size < self._offset:
            # The file was cut or replaced: what was read is of another file.
            self._open(wish)
        flood = size - self._offset > _FLOOD_BYTES_PER_S * self._period_s
        self._period_s = FLOOD_SECONDS if flood else PERIOD_SECONDS
        if size > self._offset:
            self._grew_us = clock.mono_us()
            if size - self._offset > _TAIL_BYTES:
                self._offset = size - _TAIL_BYTES
                self._rows = LogRows()
                self._rows.cut_first_line()
                self._apply(self._applied)
            with wish.path.open("rb") as file:
                file.seek(self._offset)
                while chunk := file.read(min(_CHUNK, size - self._offset)):
                    self._rows.feed(chunk, self._offset)
                    self._offset += len(chunk)
        if size and wish.wants_report and wish.engine is not None:
            if self._startup is None:
                self._startup = _Startup(wish.engine)
            self._startup.read(wish.path)


class _Startup:
    """The start-up report of a log that is still being written, read beside the pane from the log's first byte."""

    def __init__(self, engine: str) -> None:
        # Only now: the dialects take longer to load than all else here, and a load whose report is written needs none.
        from anvil_tui.engines.startup_log import DIALECTS, StartupLog

        self._log = StartupLog(engine) if engine in DIALECTS else None
        self._offset = 0
        self.report: StartupReport | None = None

    def read(self, path: Path) -> None:
        """Read a few MiB more, as long as the start-up goes on."""
        if self._log is None or self._offset >= _STARTUP_BYTES:
            return
        with path.open("rb") as file:
            file.seek(self._offset)
            chunk = file.read(4 * _CHUNK)
        if chunk:
            self._offset += len(chunk)
            self._log.feed(chunk)
            # Counts of lines change all the time; a report that says nothing new is not a new one.
            report = msgspec.structs.replace(self._log.report(), lines=0, bytes=0)
            if report != self.report:
                self.report = report


def read_page(path: Path, offset: int) -> tuple[LogLine, ...]:
    """The rows around a byte of a log; empty where they cannot be read."""
    begin = max(0, offset - _PAGE_BEFORE)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ()
    try:
        raw = os.pread(fd, offset - begin + _PAGE_AFTER, begin)
    finally:
        os.close(fd)
    rows = LogRows(len(raw))
    if begin:
        rows.cut_first_line()
    rows.feed(raw, begin)
    return rows.shown()


def _size(path: Path | None) -> int:
    try:
        return path.stat().st_size if path is not None else 0
    except OSError:
        return 0
