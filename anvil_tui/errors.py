"""Errors that an operator reads.

    AnvilError                 one sentence, an exit code
    ├── BadInput               the file, the place, what was found, what would be right
    ├── CannotRun              the input is fine, but this machine or this moment is not
    └── CheckFailed            it ran, and the answer is no

Anything else that escapes is a bug of ours and ends as a traceback in a log file.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from anvil_tui import exit_codes


class AnvilError(Exception):
    """Base of all errors that are shown as words, never as a traceback."""

    exit_code = exit_codes.CHECK_FAILED


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with an input.

    `place` is a key path (`gpus.reserve_mib`), a line, or an argument; `found` is the value as it stood there;
    `allowed` says what would be right; `nearest` is the allowed word closest to what was found.
    """

    place: str
    found: str
    allowed: str = ""
    nearest: str = ""

    def __str__(self) -> str:
        words = f"{self.place}: {self.found}"
        if self.allowed:
            words += f"; allowed: {self.allowed}"
        if self.nearest:
            words += f"; did you mean {self.nearest!r}?"
        return words


class BadInput(AnvilError):
    """An input was refused. `source` names the file or the argument list it came from."""

    exit_code = exit_codes.BAD_INPUT

    def __init__(self, source: str, *faults: Fault) -> None:
        self.source = source
        self.faults = faults
        super().__init__("\n".join(f"{source}: {fault}" for fault in faults))


class CannotRun(AnvilError):
    """The request is well formed, but it cannot run here and now."""

    exit_code = exit_codes.BAD_INPUT


class CheckFailed(AnvilError):
    """The work was done and its check failed."""

    exit_code = exit_codes.CHECK_FAILED


def nearest(found: str, allowed: Iterable[str]) -> str:
    """The allowed word closest to `found`, or an empty string where none is close."""
    close = difflib.get_close_matches(found, list(allowed), n=1, cutoff=0.6)
    return close[0] if close else ""
