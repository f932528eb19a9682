"""Which lines of a log are in sight, and in which rows: a line has one row, or wraps into as many as it needs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, chop_cells

from anvil_tui.console.snapshot import LogLine

# Time stamps at the head of a line: Docker's before everything; then the engine's own, behind a prefix or a level and
# perhaps in brackets that hold ranks too. vLLM: `(EngineCore pid=2) INFO 08-10 12:00:03 [core.py:58] …`; SGLang:
# `[2026-08-10 12:00:03 TP0] …`; TensorRT-LLM: `[08/10/2026-12:00:03] [TRT-LLM] …`; llama.cpp: `0.00.123.456 I …`.
_DOCKER = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)(?: |$)")
_STAMPED = re.compile(
    r"(?P<head>(?:\([^()]{1,80}\) ?)?(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):? +)?)(?P<open>\[?)"
    r"(?:(?:\d{4}-)?\d\d-\d\d[ T]\d\d:\d\d:\d\d|\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d|\d{1,4}\.\d\d\.\d{3}\.\d{3}\b)"
    r"(?:[.,]\d{1,9})?(?P<rest>\]? ?)"
)


@dataclass(frozen=True)
class Fold:
    """How lines become rows: cells of a row, whether long lines wrap, whether their time stamps are shown."""

    width: int
    wrap: bool = False
    times: bool = True

    def text(self, line: LogLine) -> str:
        """What is shown of a line."""
        return line.text if self.times else without_time(line.text)

    def rows(self, line: LogLine) -> list[str]:
        """The rows of a line, at least one."""
        text = self.text(line)
        if not self.wrap or len(text) <= self.width // 2:
            return [text]
        width = max(2, self.width)
        if text.isascii():
            return [text[at : at + width] for at in range(0, len(text), width)]
        return chop_cells(text, width) if cell_len(text) > width else [text]


def without_time(text: str) -> str:
    """A line without the time stamps at its head; one without any stays as it is."""
    found = _DOCKER.match(text)
    head, text = "", text[found.end() :] if found else text
    if (found := _STAMPED.match(text)) is not None:
        head, text = found["head"], text[found.end() :]
        if found["open"] and "]" not in found["rest"]:
            # Ranks stand in the same brackets.
            head += "["
    return head + text


def in_sight(lines: Sequence[LogLine], fold: Fold, top: int, height: int) -> list[tuple[int, str]]:
    """The rows that fill a height from the line at place `top` on: the place of the line, and its part.

    Where the log ends before that, the end of what stands above fills it.
    """
    found: list[tuple[int, str]] = []
    for place in range(top, len(lines)):
        if len(found) >= height:
            break
        found += [(place, row) for row in fold.rows(lines[place])]
    while len(found) < height and top > 0:
        top -= 1
        found = [(top, row) for row in fold.rows(lines[top])][len(found) - height :] + found
    return found[:height]


def top_above(lines: Sequence[LogLine], fold: Fold, place: int, height: int) -> int:
    """The first place from which all of the line at `place` is in sight; itself where it fills the height alone."""
    top, room = place, height
    while top >= 0 and (room := room - (len(fold.rows(lines[top])) if fold.wrap else 1)) >= 0:
        top -= 1
    return max(0, min(place, top + 1))
