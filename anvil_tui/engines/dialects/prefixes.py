"""What stands around a message, whatever the engine: ANSI codes, stamps and names of those who kept the log, bars."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")

_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_DATE = rf"\d{{4}}-\d\d-\d\d[T ]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?"
_UNIT = r"[\w.-]{1,255} [\w@./-]{1,100}"
# `docker logs -t` (up to nine fractional digits), `ts`, CRI's `stdout F` behind such a stamp, journald's and syslog's
# `Oct 05 12:00:00 host unit[pid]: `, compose's `service-1  | `, `kubectl logs --prefix`, mpirun's `[1,0]<stdout>:`.
_OUTER = re.compile(
    rf"(?:(?:(?P<at>{_DATE})|\[(?P<boxed>{_DATE})\])(?: std(?:out|err) [FP])?(?: {_UNIT}\[\d{{1,10}}\]:)?(?: |$)"
    rf"|[A-Z][a-z]{{2}} [ \d]\d {_CLOCK} (?:{_UNIT}(?:\[\d{{1,10}}\])?: )?"
    rf"|\d{{10}}\.\d{{3,9}} {_UNIT}\[\d{{1,10}}\]: "
    r"|\w[\w./-]{0,60} +\| ?"
    r"|\[pod/[^\]\s]{1,300}\] "
    r"|\[\d+,\d+\]<std(?:out|err)>: ?)"
)
_TEXTS = ("log", "message", "MESSAGE", "msg", "line", "text")
"""Where a JSON record keeps the text: Docker's json-file, log shippers, journald, llama.cpp's own."""
_TIMES = ("time", "timestamp", "@timestamp", "ts")
_BAR = re.compile(r"\d%(?:\||\s+Completed \|)|\b\d+/\d+ \[\d\d:\d\d")


class Spoken(NamedTuple):
    """What an engine wrote on one line, and when the one who kept the line got it."""

    text: str
    at: str | None = None


def plain(raw: bytes) -> str:
    """The text of a line without escape sequences; bytes that are no UTF-8 become U+FFFD."""
    return _bare(raw.decode("utf-8", "replace"))


def spoken(raw: bytes) -> list[Spoken]:
    """What stands in a line once all that others put around is gone; a JSON record may hold several lines."""
    at, text = _outer(plain(raw))
    found = json_record(text)
    if found is None or "levelname" in found:  # vLLM's own JSON holds more than the text
        return [Spoken(text, at)]
    wrapped = next((found[key] for key in _TEXTS if isinstance(found.get(key), str)), None)
    if wrapped is None:
        return [Spoken(text, at)]
    at = next((str(found[key]) for key in _TIMES if found.get(key)), at)
    inner = [_outer(_bare(line)) for line in wrapped.splitlines() or [""]]
    return [Spoken(line, stamped or at) for stamped, line in inner]


def _bare(text: str) -> str:
    text = ANSI.sub("", text) if "\x1b" in text else text
    return text.lstrip("\0\ufeff").rstrip("\0 \t\r\n")


def _outer(text: str) -> tuple[str | None, str]:
    """The time stamp that a container runtime or a launcher put in front, if any, and the text behind its prefixes."""
    at, end = None, 0
    while match := _OUTER.match(text, end):
        at, end = match["at"] or match["boxed"] or at, match.end()
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
