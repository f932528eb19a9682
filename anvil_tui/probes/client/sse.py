"""Server-sent events from bytes, by the rules of the WHATWG, in any chunking.

https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
Lines end at LF, CR or CRLF only: text may hold U+2028 and the like, which `splitlines` would cut.
"""

from __future__ import annotations

from msgspec import Struct

EVENT_LIMIT = 16 * 1024 * 1024
"""Bytes of one event that are accepted."""


class EventTooLarge(Exception):
    """A server sent an event of more than EVENT_LIMIT bytes."""


class SseEvent(Struct, frozen=True, gc=False):
    """One event. `at_ns` is when the read came in that ended its last data line."""

    data: bytes
    at_ns: int
    name: bytes = b""


class SseReader:
    """Feed it reads, get whole events. Bounded: raises EventTooLarge past EVENT_LIMIT."""

    def __init__(self) -> None:
        self.comments = 0
        """Comment lines so far; servers send them to keep a connection open."""
        self._pending: list[bytes] = []
        self._pending_size = 0
        self._skip_lf = False
        self._first_line = True
        self._data: list[bytes] = []
        self._data_size = 0
        self._data_ns = 0
        self._name = b""

    def feed(self, read: bytes, at_ns: int) -> list[SseEvent]:
        """The events that `read` completes, in order."""
        if self._is_one_event(read):
            return [SseEvent(read[6:-2], at_ns)]
        if self._skip_lf and read:
            self._skip_lf = False
            read = read.removeprefix(b"\n")
        if b"\r" in read:
            self._skip_lf = read.endswith(b"\r")
            read = read.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, newline, rest = read.partition(b"\n")
        self._pending.append(first)
        self._pending_size += len(first)
        if self._pending_size + self._data_size > EVENT_LIMIT:
            raise EventTooLarge(f"an event of more than {EVENT_LIMIT >> 20} MiB")
        if not newline:
            return []
        lines = rest.split(b"\n")
        lines.insert(0, b"".join(self._pending))
        last = lines.pop()
        self._pending = [last]
        self._pending_size = len(last)
        return [event for line in lines if (event := self._line(line, at_ns)) is not None]

    def _is_one_event(self, read: bytes) -> bool:
        """The common read: nothing is pending, and it is `data: …` with a blank line and nothing else."""
        return (
            read.startswith(b"data: ")
            and read.find(b"\n") == len(read) - 2
            and read.endswith(b"\n\n")
            and b"\r" not in read
            and not (self._pending_size or self._data or self._name or self._skip_lf or self._first_line)
        )

    def close(self, at_ns: int) -> SseEvent | None:
        """What was left unfinished when the stream ended: an event without its blank line, as some servers end.

        The standard drops it; a measurement would lose the last tokens. None where nothing was left.
        """
        line = b"".join(self._pending)
        self._pending, self._pending_size = [], 0
        if line:
            self._line(line, at_ns)
        return self._line(b"", at_ns)

    def _line(self, line: bytes, at_ns: int) -> SseEvent | None:
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
            self._data_size += len(value)
            self._data_ns = at_ns
        elif not field:
            self.comments += 1
        elif field == b"event":
            self._name = value
        return None

    def _dispatch(self) -> SseEvent | None:
        name, data = self._name, self._data
        self._name = b""
        if not data:
            return None
        self._data, self._data_size = [], 0
        return SseEvent(b"\n".join(data) if len(data) > 1 else data[0], self._data_ns, name)
