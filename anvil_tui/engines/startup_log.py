"""Reads an engine's start-up log as it grows: bytes in, start-up reports out.

Only few lines of a log say anything. They are found by a handful of words in the raw bytes; all else is only counted.
"""

from __future__ import annotations

from codecs import BOM_UTF16_BE, BOM_UTF16_LE, IncrementalDecoder, getincrementaldecoder
from collections import deque

from anvil_tui.engines.attempt import Attempt
from anvil_tui.engines.dialects import llamacpp, sglang, trtllm, vllm
from anvil_tui.engines.dialects.prefixes import spoken
from anvil_tui.engines.dialects.shapes import Dialect, Line, Record
from anvil_tui.records.startup_report import StartupReport

LINE_LIMIT = 65536
"""Bytes of a line that are read; the rest is only counted."""
KEPT_ATTEMPTS = 64
"""Reports of earlier attempts that are kept: the last ones. Their numbers go on."""

DIALECTS: dict[str, Dialect] = {
    dialect.engine: dialect for dialect in (trtllm.DIALECT, sglang.DIALECT, llamacpp.DIALECT, vllm.DIALECT)
}

_LF = 0x0A


class StartupLog:
    """A log that is fed in pieces of any size. Without an engine's name it is recognised from the log itself."""

    def __init__(self, engine: str | None = None) -> None:
        """`engine` is a key of DIALECTS. Raises KeyError for any other name."""
        dialects = DIALECTS.values() if engine is None else (DIALECTS[engine],)
        self._readers = [_Reader(dialect) for dialect in dialects]
        self._words = tuple(dict.fromkeys(word for dialect in dialects for word in dialect.words))
        self._recognised = engine is not None
        self._head: bytearray | None = bytearray()
        self._utf16: IncrementalDecoder | None = None
        self._tail = bytearray()
        self._tail_offset = 0
        self._line = 1
        self._offset = 0

    def feed(self, chunk: bytes) -> None:
        """Read the next bytes of the log. A line without its end waits for it, or for `finish`.

        A file in UTF-16, as PowerShell writes what it redirects, is read as the UTF-8 that it would be.
        """
        if self._head is not None:
            self._head += chunk
            if len(self._head) < len(BOM_UTF16_LE) + 2:
                return
            chunk, self._head = bytes(self._head), None
            if name := _utf16(chunk):
                chunk, self._utf16 = chunk[len(BOM_UTF16_LE) :], getincrementaldecoder(name)("replace")
        self._take(self._utf16.decode(chunk).encode("utf-8", "replace") if self._utf16 else chunk)

    def _take(self, chunk: bytes) -> None:
        base, self._offset = self._offset, self._offset + len(chunk)
        start = 0
        if self._tail_offset < base:
            start = _first_end(chunk) + 1
            self._keep(chunk[: start - 1] if start else chunk)
            if not start:
                return
            self._tail_read()
            self._line += chunk[start - 1] == _LF
        end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"), start - 1) + 1
        self._block(chunk, start, end, base)
        self._tail_offset = base + end
        self._keep(chunk[end:])

    def finish(self) -> None:
        """The log has ended, for now or for good: its last line is read too, even without a newline."""
        if self._head is not None:
            head, self._head = bytes(self._head), None
            self._take(head)
        self._tail_read()
        for reader in self._readers:
            reader.attempt.finish()

    def exited(self, code: int | None, *, asked: bool) -> None:
        """The engine's process is gone, with this exit code (negative for a signal, None where nobody knows it)."""
        self.finish()
        for reader in self._readers:
            reader.attempt.exited(code, asked)

    def report(self) -> StartupReport:
        """The report of the last attempt. Its engine is `unknown` where no dialect knows the log."""
        if not self._recognised:
            return StartupReport(engine="unknown", lines=self._lines(), bytes=self._offset)
        return self._readers[0].report(self._lines(), self._offset)

    def attempts(self) -> tuple[StartupReport, ...]:
        """One report for each attempt to start, in order, the last KEPT_ATTEMPTS + 1 of them; none of no engine."""
        return (*self._readers[0].earlier, self.report()) if self._recognised else ()

    def _lines(self) -> int:
        return self._line - (self._tail_offset >= self._offset)

    def _keep(self, rest: bytes) -> None:
        self._tail += rest[: LINE_LIMIT - len(self._tail)]

    def _tail_read(self) -> None:
        if self._tail:
            self._segment(bytes(self._tail), self._tail_offset)
            self._tail.clear()

    def _block(self, chunk: bytes, start: int, end: int, base: int) -> None:
        """Read the whole lines in `chunk[start:end]`: those with a word of a dialect, and those that continue one."""
        at = start
        for line_start in (*_lines_with(self._words, chunk, start, end), end):
            while at < line_start and self._waiting():
                at = self._whole_line(chunk, at, end, base)
            if line_start > at:
                self._line += chunk.count(b"\n", at, line_start)
                at = line_start
            if at == line_start < end:
                at = self._whole_line(chunk, at, end, base)

    def _whole_line(self, chunk: bytes, start: int, end: int, base: int) -> int:
        """Read the line at `start`, each part between carriage returns for itself; where the next line starts."""
        stop = chunk.find(b"\n", start, end)
        after = end if stop < 0 else stop + 1
        offset = start
        for part in chunk[start : after - (stop >= 0)].split(b"\r"):
            if part:
                self._segment(part[:LINE_LIMIT], base + offset)
            offset += len(part) + 1
        self._line += stop >= 0
        return after

    def _waiting(self) -> bool:
        return any(reader.attempt.waits_for_more for reader in self._readers)

    def _segment(self, raw: bytes, offset: int) -> None:
        if not self._waiting() and not any(word in raw for word in self._words):
            return
        line = Line(self._line, offset, raw)
        for said in spoken(raw):
            if not self._recognised:
                self._recognise(said.text)
            for reader in self._readers:
                for record in reader.dialect.read(said):
                    reader.take(record, line)

    def _recognise(self, text: str) -> None:
        for reader in self._readers:
            if reader.dialect.hallmark.search(text):
                self._readers, self._words, self._recognised = [reader], reader.dialect.words, True
                return


class _Reader:
    """One dialect's view of a log: its attempts, the last of them open."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.attempt = Attempt(dialect, 1)
        self.earlier: deque[StartupReport] = deque(maxlen=KEPT_ATTEMPTS)
        self._first_line, self._first_offset = 1, 0

    def take(self, record: Record, line: Line) -> None:
        if self.attempt.opens(record):
            self.attempt.supersede()
            self.earlier.append(self.report(line.number - 1, line.offset))
            self.attempt = Attempt(self.dialect, self.attempt.number + 1)
            self._first_line, self._first_offset = line.number, line.offset
        self.attempt.take(record, line)

    def report(self, lines: int, size: int) -> StartupReport:
        """The open attempt's report, where the log has `lines` and `size` bytes so far."""
        return self.attempt.report(lines - self._first_line + 1, size - self._first_offset)


def _utf16(start: bytes) -> str | None:
    """The codec of a text that starts with UTF-16's byte-order mark and a character of ASCII."""
    if start.startswith(BOM_UTF16_LE) and start[3] == 0:
        return "utf-16-le"
    return "utf-16-be" if start.startswith(BOM_UTF16_BE) and start[2] == 0 else None


def _first_end(chunk: bytes) -> int:
    """Where the first line feed or carriage return stands, or -1."""
    feed = chunk.find(b"\n")
    turn = chunk.find(b"\r", 0, feed if feed >= 0 else len(chunk))
    return turn if turn >= 0 else feed


def _lines_with(words: tuple[bytes, ...], chunk: bytes, start: int, end: int) -> list[int]:
    """Where the lines start that hold one of the words."""
    found: set[int] = set()
    for word in words:
        at = chunk.find(word, start, end)
        while at >= 0:
            found.add(max(chunk.rfind(b"\n", start, at) + 1, start))
            following = chunk.find(b"\n", at, end)
            at = chunk.find(word, following, end) if following >= 0 else -1
    return sorted(found)
