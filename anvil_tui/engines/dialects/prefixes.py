"""What stands before a message, whatever the engine: ANSI codes, Docker and compose stamps, progress bars."""

from __future__ import annotations

import re
from typing import Any

import msgspec

ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")

# `docker logs -t` (up to nine fractional digits), CRI's `stdout F` behind such a stamp, compose's `service-1  | `,
# mpirun's `[1,0]<stdout>:`, in any order.
_OUTER = re.compile(
    r"(?:(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d))(?: std(?:out|err) [FP])?(?: |$)"
    r"|[\w./-]{1,60}-\d{1,4} +\| ?"
    r"|\[\d+,\d+\]<std(?:out|err)>: ?)"
)
_BAR = re.compile(r"\d%(?:\||\s+Completed \|)|\b\d+/\d+ \[\d\d:\d\d")


def plain(raw: bytes) -> str:
    """The text of a line without escape sequences; bytes that are no UTF-8 become U+FFFD."""
    text = raw.decode("utf-8", "replace")
    return ANSI.sub("", text) if "\x1b" in text else text


def outer(text: str) -> tuple[str | None, str]:
    """What a container runtime or a launcher put around: its time stamp, if any, and the text itself."""
    at = None
    if text.startswith('{"log":') and (found := json_record(text)) is not None:  # Docker's own json-file
        at, text = str(found.get("time") or "") or None, str(found["log"]).rstrip("\r\n")
    end = 0
    while match := _OUTER.match(text, end):
        at, end = match["at"] or at, match.end()
    return at, text[end:]


def is_bar(text: str) -> bool:
    """Whether the text is a tqdm progress bar."""
    return _BAR.search(text) is not None


def json_record(text: str) -> dict[str, Any] | None:
    """The object on a line of a JSON log, or None."""
    if not (text.startswith("{") and text.endswith("}")):
        return None
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
