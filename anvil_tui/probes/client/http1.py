"""HTTP/1.1 as one exchange needs it: the request's bytes, and a reader of the response that takes any chunking.

h11 reads the head. The body is unframed here: it comes in thousands of small chunks, and h11 spends five times as long.
"""

from __future__ import annotations

import h11
import httpx

_LINE_LIMIT = 4096
_HEAD_LIMIT = 256 * 1024
_ANY_REQUEST = h11.Request(method="POST", target="/", headers=[("Host", "x")])
"""h11 reads a response only after a request; what it said does not matter."""


class HttpError(Exception):
    """The server did not speak HTTP/1.1, or its message was cut short; the text says which."""


def post(url: httpx.URL, body: bytes, headers: dict[str, str]) -> bytes:
    """The bytes of a POST request with a JSON body."""
    lines = [
        (b"Host", url.netloc),
        (b"User-Agent", b"anvil-tui"),
        (b"Accept", b"text/event-stream, application/json"),
        (b"Accept-Encoding", b"identity"),
        (b"Content-Type", b"application/json"),
        (b"Content-Length", b"%d" % len(body)),
        *((name.encode(), value.encode()) for name, value in headers.items()),
    ]
    writer = h11.Connection(our_role=h11.CLIENT)
    head = writer.send(h11.Request(method="POST", target=url.raw_path, headers=lines))
    assert head is not None, "a request has bytes"
    return head + body


class HttpReader:
    """Feed it the reads of a connection; it gives the body's bytes."""

    def __init__(self) -> None:
        self.status: int | None = None
        """Null until the head is whole."""
        self.headers: dict[str, str] = {}
        """Names in lower case."""
        self.complete = False
        self._head = h11.Connection(our_role=h11.CLIENT, max_incomplete_event_size=_HEAD_LIMIT)
        self._head.send(_ANY_REQUEST)
        self._head.send(h11.EndOfMessage())
        self._chunked = False
        self._left: int | None = None
        """Bytes until the end of the chunk or of the body; null in a body that ends with its connection."""
        self._line = b""
        self._trailer = False

    def feed(self, data: bytes) -> bytes:
        """The part of the body in `data`. Raises HttpError where it is not HTTP."""
        if data and self.status is None:
            data = self._feed_head(data)
        if not data or self.complete:
            return b""
        if self._chunked:
            return self._feed_chunked(data)
        if self._left is None:
            return data
        body = data[: self._left]
        self._left -= len(body)
        self.complete = self._left == 0
        return body

    def close(self) -> None:
        """The connection ended. Raises HttpError where something was still to come."""
        if self.status is None:
            raise HttpError("the connection ended before a response")
        if not self.complete and (self._chunked or self._left):
            raise HttpError("the connection ended in the middle of the body")
        self.complete = True

    def _feed_head(self, data: bytes) -> bytes:
        """Take bytes of the head; what follows it is returned."""
        try:
            self._head.receive_data(data)
            event = self._head.next_event()
            while isinstance(event, h11.InformationalResponse):
                event = self._head.next_event()
        except h11.RemoteProtocolError as error:
            raise HttpError(str(error)) from None
        if not isinstance(event, h11.Response):
            return b""
        self.status = event.status_code
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
        self._chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        if self._chunked:
            self._left = 0
        elif self.status in (204, 304) or "content-length" in self.headers:
            self._left = int(self.headers.get("content-length", "0"))
            self.complete = self._left == 0
        rest, _ = self._head.trailing_data
        return rest

    def _feed_chunked(self, data: bytes) -> bytes:
        """Unframe: size line, bytes, line end, again; a size of 0 ends it, after trailers if there are any."""
        assert self._left is not None
        if not (self._left or self._line or self._trailer):
            head = data.find(b"\r\n") + 2
            size = len(data) - head - 2
            # The common read: one whole chunk and nothing else.
            if size > 0 and data.endswith(b"\r\n") and data.startswith((b"%x\r\n" % size, b"%X\r\n" % size)):
                return data[head:-2]
        parts: list[bytes] = []
        at, end = 0, len(data)
        while at < end:
            if self._left:
                part = data[at : at + self._left]
                parts.append(part)
                at += len(part)
                self._left -= len(part)
                continue
            stop = data.find(b"\n", at)
            if stop < 0:
                self._line += data[at:]
                if len(self._line) > _LINE_LIMIT:
                    raise HttpError("a chunk header without end")
                break
            line = (self._line + data[at:stop]).rstrip(b"\r")
            self._line = b""
            at = stop + 1
            if self._trailer:
                if not line:
                    self.complete = True
                    break
            elif line:
                self._left = _chunk_size(line)
                self._trailer = self._left == 0
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _chunk_size(line: bytes) -> int:
    """The size in a chunk's first line, its extensions passed over. Raises HttpError where it is none."""
    size = line.partition(b";")[0].strip()
    try:
        if size[:1] in b"+-" or b"_" in size:
            raise ValueError
        return int(size, 16)
    except ValueError:
        raise HttpError(f"{size[:40]!r} is no chunk size") from None
