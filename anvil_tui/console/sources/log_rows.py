"""A log as rows: the last ones of it, each sanitised, a progress bar kept as one row that moves."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from itertools import accumulate, count

from anvil_tui.console.snapshot import LogLine
from anvil_tui.text import DISPLAY_LIMIT, sanitise

KEPT_LINES = 10_000
_LINE_BYTES = 1 << 16
"""Bytes of one line that are kept; the rest of it is passed over."""
_LOOK_BACK = 8
"""A bar moves its own row when it is among so many last rows: ranks take turns."""

# tqdm: `prefix: 61%|######    | 59/96 [04:27<02:55`, and vLLM's `61% Completed | 59/96 [04:27<02:55, 4.55s/it]`.
_BAR = re.compile(r"^(?P<head>.{0,120}?)\s*\d{1,3}%(?:\||\s+Completed\s*\|)")
_PREFIX_ONLY = re.compile(r"^\([A-Za-z0-9_]+ pid=\d+\)\s*$")
_PREFIX = re.compile(r"^\([A-Za-z0-9_]+ pid=\d+\)\s?")
_WORDS = ("ERROR", "Error:", "CRITICAL", "FATAL", "Traceback", "WARN")
"""A row without one of them has no level. Plain words are looked for first: they cost least."""
_LEVEL = re.compile(r"\b(?:DEBUG|INFO|(?P<warning>WARN(?:ING)?)|(?P<error>ERROR|CRITICAL|FATAL|Traceback))\b|Error:")

_PLAIN = bytes(range(0x20, 0x7F)) + b"\n"
"""Bytes that are shown as they are."""
_NO_ROW = re.compile(r"\) *(?:\n|\Z)")
"""A line that may be nothing but a prefix ends so."""
_FEW_LINES = 32
"""So few lines are read one by one where one of them needs more than to be cut off."""
_row = partial(tuple.__new__, LogLine)


class LogRows:
    """The last KEPT_LINES rows of a log that is fed in pieces of any size."""

    def __init__(self, kept: int = KEPT_LINES) -> None:
        self._rows: deque[LogLine] = deque(maxlen=kept)
        self._matching: deque[LogLine] = deque(maxlen=kept)
        self._match: Callable[[str], bool] | None = None
        self._number = 0
        self._tail = b""
        self._tail_offset = 0
        self._skip = False
        self._moved_rows = False
        """A bar moved while a filter was on: the matching rows are to be found anew."""
        self._whole: tuple[LogLine, ...] | None = None
        self.warnings = 0
        self.errors = 0

    @property
    def kept(self) -> int:
        return len(self._rows)

    def shown(self) -> tuple[LogLine, ...]:
        """The rows that pass the filter, oldest first."""
        if self._moved_rows:
            self.filter(self._match)
        if self._whole is None:
            self._whole = tuple(self._rows if self._match is None else self._matching)
        return self._whole

    def filter(self, match: Callable[[str], bool] | None) -> None:
        """Show only rows whose text matches; None shows all."""
        self._match = match
        self._whole = None
        self._moved_rows = False
        self._matching.clear()
        if match is not None:
            self._matching.extend(row for row in self._rows if match(row.text))

    def cut_first_line(self) -> None:
        """What comes first is the rest of a line whose beginning was not read: it is passed over."""
        self._skip = True

    def feed(self, chunk: bytes, offset: int) -> None:
        """Take the bytes at `offset` of the log. A line shows when its end has come."""
        if self._skip:
            end = chunk.find(b"\n")
            if end < 0:
                return
            chunk, offset, self._skip = chunk[end + 1 :], offset + end + 1, False
        if not self._tail:
            self._tail_offset = offset
        whole, ended, self._tail = (self._tail + chunk).rpartition(b"\n")
        if ended:
            self._lines(whole, self._tail_offset)
            self._tail_offset += len(whole) + 1
        if len(self._tail) > _LINE_BYTES:
            # Only the beginning of such a line is shown, but its end must be found.
            self._line(self._tail, self._tail_offset)
            self._tail = b""
            self._skip = True

    def _lines(self, block: bytes, offset: int) -> None:
        """Take whole lines, the last one without its end: together where all of them are plain, else in halves."""
        if (texts := plain_lines(block)) is not None:
            self._plain(texts, offset)
            return
        ends = block.count(b"\n")
        middle = block.find(b"\n", len(block) // 2) if ends >= _FEW_LINES else -1
        if middle >= 0:
            self._lines(block[:middle], offset)
            self._lines(block[middle + 1 :], offset + middle + 1)
            return
        for line in block.split(b"\n"):
            self._line(line, offset)
            offset += len(line) + 1

    def _plain(self, texts: list[str], offset: int) -> None:
        """Take lines that are shown as they are. No step is taken line by line here: a flood has 50,000 a second."""
        self._whole = None
        offsets = accumulate(map((1).__add__, map(len, texts)), initial=offset)
        shown = list(map(str.rstrip, texts))
        rows = list(map(_row, zip(count(self._number), offsets, shown, strict=False)))
        self._number += len(rows)
        text = "\n".join(shown)
        if any(word in text for word in _WORDS):
            levels = Counter(map(level_of, shown))
            self.warnings += levels["warning"]
            self.errors += levels["error"]
        self._rows.extend(rows)
        if self._match is not None:
            self._matching.extend(row for row in rows if self._match(row.text))
            self._forget()

    def _line(self, raw: bytes, offset: int) -> None:
        self._whole = None
        text = row_text(raw[:_LINE_BYTES])
        if text is None:
            return
        row = LogLine(self._number, offset, text)
        key = bar_key(text)
        if key is not None and (moved := self._moved(key)) is not None:
            row = LogLine(self._rows[moved].number, offset, text)
            self._rows[moved] = row
            self._moved_rows = self._match is not None
            return
        self._number += 1
        level = level_of(text)
        self.warnings += level == "warning"
        self.errors += level == "error"
        self._rows.append(row)
        if self._match is not None:
            if self._match(text):
                self._matching.append(row)
            self._forget()

    def _forget(self) -> None:
        """A matching row goes when the row itself does."""
        while self._matching and self._matching[0].number < self._rows[0].number:
            self._matching.popleft()

    def _moved(self, key: str) -> int | None:
        """Place of the row among the last ones that holds the same bar."""
        for place in range(len(self._rows) - 1, max(-1, len(self._rows) - 1 - _LOOK_BACK), -1):
            if bar_key(self._rows[place].text) == key:
                return place
        return None


def plain_lines(block: bytes) -> list[str] | None:
    """The lines of a block, where each is a row as it stands but for blanks at its end; None where one may not be."""
    if block.translate(None, _PLAIN):
        return None
    text = block.decode("ascii")
    if ("%" in text and "%|" in text) or "Completed" in text or _NO_ROW.search(text):
        return None
    lines = text.split("\n")
    return lines if max(map(len, lines)) <= DISPLAY_LIMIT else None


def row_text(raw: bytes) -> str | None:
    """One line as its row: what carriage returns leave standing, sanitised; None for a line that says nothing.

    vLLM writes the rank's prefix before a bar's carriage return: the prefix stays and the rest is overwritten.
    """
    text = raw.decode("utf-8", "replace").rstrip()
    if text.isascii() and text.isprintable() and len(text) <= DISPLAY_LIMIT:
        # Nearly every line: nothing in it could be unsafe to show.
        return None if text.startswith("(") and _PREFIX_ONLY.match(text) else text
    raw = raw.removesuffix(b"\r")
    if b"\r" in raw:
        parts = [sanitise(part) for part in raw.split(b"\r")]
        prefix = _PREFIX.match(parts[0])
        last = next((part for part in reversed(parts) if part.strip()), "")
        head = prefix.group() if prefix and not last.startswith(prefix.group().strip()) else ""
        text = head + last
    else:
        text = sanitise(raw)
    if text.startswith("(") and _PREFIX_ONLY.match(text):
        return None
    return text.expandtabs(8).rstrip()


def bar_key(text: str) -> str | None:
    """What a progress bar belongs to: its prefix and its words; None where the text is no bar."""
    if "%" not in text:
        return None
    match = _BAR.match(text)
    return match["head"] if match else None


def matcher(pattern: str) -> Callable[[str], bool] | None:
    """The test of a filter as it was typed; None for none. Raises re.error."""
    inverse, bare = pattern.startswith("!"), pattern.removeprefix("!")
    if not bare:
        return None
    if re.escape(bare) == bare:
        word = bare.casefold()
        return lambda text: (word in text.casefold()) != inverse
    search = re.compile(bare, re.IGNORECASE).search
    return lambda text: (search(text) is not None) != inverse


def level_of(text: str) -> str:
    """`error`, `warning` or an empty text: how a row is coloured. The first level that a row names is its own; what
    follows is its words."""
    found = _LEVEL.search(text) if any(word in text for word in _WORDS) else None
    if found is None:
        return ""
    return {"warning": "warning", "error": "error", None: "error" if found[0] == "Error:" else ""}[found.lastgroup]
