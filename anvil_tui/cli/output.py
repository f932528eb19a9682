"""What a verb prints: words for a person, or one JSON document; progress only where a terminal is."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from anvil_tui.text import sanitise


class Output:
    """One verb's output. With `json` only the document goes to stdout, and progress goes nowhere."""

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self._terminal = sys.stdout.isatty() and not json
        self._width = 0

    def line(self, text: str) -> None:
        """A line for a person. Outside text in it was sanitised by the caller or is sanitised here, line by line."""
        if self.json:
            return
        self._clear()
        print(sanitise(text, limit=100_000), flush=True)

    def progress(self, text: str) -> None:
        """A line that the next one replaces; only on a terminal."""
        if not self._terminal:
            return
        shown = sanitise(text)[: shutil.get_terminal_size().columns - 1]
        self._clear()
        print(shown, end="", flush=True)
        self._width = len(shown)

    def document(self, schema: str, content: Any) -> None:
        """The answer as JSON, with its schema first; printed only when JSON was asked for."""
        if not self.json:
            return
        body = {"schema": schema} | msgspec.to_builtins(content)
        print(msgspec.json.format(msgspec.json.encode(body), indent=2).decode(), flush=True)

    def error(self, words: str, exit_code: int) -> None:
        """What went wrong: on stderr, and with JSON as a document too."""
        self._clear()
        for line in words.splitlines():
            print(f"anvil-tui: {sanitise(line, limit=100_000)}", file=sys.stderr, flush=True)
        self.document("anvil-error/v1", {"error": words, "exit_code": exit_code})

    def _clear(self) -> None:
        if self._width:
            print("\r" + " " * self._width + "\r", end="")
            self._width = 0


def table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows as aligned columns, two blanks apart."""
    cells = [tuple(sanitise(cell) for cell in row) for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
