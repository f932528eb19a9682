"""The reading half of an exchange: reads go into the stream, until the end of the answer or a deadline ends it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from time import perf_counter_ns

from anvil_tui.probes.client.errors import BODY_LIMIT, http_error, no_answer, shown
from anvil_tui.probes.client.http1 import HttpError, HttpReader
from anvil_tui.probes.client.patience import Batches
from anvil_tui.probes.client.sse import EVENT_LIMIT, EventTooLarge, SseReader
from anvil_tui.probes.client.stream import End, EndKind, Stream
from anvil_tui.probes.client.transport import Connection
from anvil_tui.records.probe import Deadlines
from anvil_tui.records.request import RequestError, TimeoutKind

GRACE_S = 2.0
"""How long a stream that gave its finish_reason or an error may stay silent before it is taken as ended."""

_KEPT_BYTES = 256 * 1024
_SHOWN_BYTES = 200

Watcher = Callable[[Stream, int], None]
"""Called when a request is sent, with the stream that fills up and the moment of sending."""


class Reading:
    """One exchange on an open connection."""

    def __init__(self, connection: Connection, stream: Stream, deadlines: Deadlines, batches: Batches) -> None:
        self.headers_ns: int | None = None
        """When the head of the response was whole."""
        self._connection = connection
        self._stream = stream
        self._deadlines = deadlines
        self._http = HttpReader()
        self._events = SseReader()
        self._is_events = False
        self._reads: list[tuple[bytes, int]] = []
        self._kept = 0
        self._waits = False
        """Whether a drain is due."""
        self._batches = batches
        self._beginning = b""
        """The body's first bytes, until an event came."""
        self._whole = bytearray()
        """The body where it is no event stream."""
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[End] = self._loop.create_future()
        self._started_s = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._checked = self._stage

    async def run(self, request: bytes, started: Watcher | None) -> End:
        """Send `request`; how the exchange ended. A cancelled task gets its End too and goes on."""
        if started is not None:
            started(self._stream, perf_counter_ns())
        self._connection.listen(self._read, self._closed)
        self._check()
        sending = asyncio.create_task(self._connection.send(request))
        try:
            return await self._ended
        except asyncio.CancelledError:
            spared()
            return End(how="cancelled", at_ns=perf_counter_ns())
        finally:
            self._drain()
            sending.cancel()
            if self._timer is not None:
                self._timer.cancel()

    # What the connection hands on

    def _read(self, data: bytes, at_ns: int) -> None:
        """Keep a read; take it apart a moment later with those that follow, so that reading itself stays cheap."""
        self._reads.append((data, at_ns))
        self._kept += len(data)
        if self.headers_ns is None or self._kept > _KEPT_BYTES:
            self._drain()
        elif b"[DONE]" in data:
            self._waits = True
            self._batches.soon(self._drain)
        elif not self._waits:
            self._waits = True
            self._batches.later(self._drain)

    def _closed(self, words: str | None, at_ns: int) -> None:
        self._drain()
        try:
            if words is not None:
                raise HttpError(words)
            self._http.close()
            self._finish(at_ns)
        except HttpError as error:
            if self._http.status in (None, 200):
                self._break(error, at_ns)
            else:
                self._finish(at_ns)

    def _drain(self) -> None:
        """Take apart the reads kept so far."""
        self._waits = False
        reads, self._reads, self._kept = self._reads, [], 0
        for data, at_ns in reads:
            try:
                body = self._http.feed(data)
                if self._http.status is not None and not self._ended.done():
                    self._take(body, at_ns)
            except (HttpError, EventTooLarge) as error:
                self._break(error, at_ns)
            except BaseException as error:
                if not self._ended.done():
                    self._ended.set_exception(error)
                raise

    def _take(self, body: bytes, at_ns: int) -> None:
        if self.headers_ns is None:
            self.headers_ns = at_ns
            kind = self._http.headers.get("content-type", "").partition(";")[0].strip().lower()
            self._is_events = self._http.status == 200 and kind != "application/json"
        if self._is_events:
            if not self._stream.events:
                self._beginning = (self._beginning + body)[:_SHOWN_BYTES]
            for event in self._events.feed(body, at_ns):
                self._stream.take(event)
                if self._stream.done:
                    self._end("done", event.at_ns)
                    return
            if self._stage != self._checked:
                self._check()
        else:
            self._whole += body
        enough = EVENT_LIMIT if self._http.status == 200 else BODY_LIMIT
        if self._http.complete or len(self._whole) >= enough:
            self._finish(at_ns)

    # How it ends

    def _finish(self, at_ns: int) -> None:
        """The body is whole, or as much of it as is wanted."""
        status = self._http.status
        if status is not None and status != 200:
            self._end("http_error", at_ns, error=http_error(status, bytes(self._whole), self._http.headers))
            return
        if not self._is_events:
            self._stream.take_whole(bytes(self._whole), at_ns)
        elif (last := self._events.close(at_ns)) is not None:
            self._stream.take(last)
        beginning = self._beginning if self._is_events else bytes(self._whole[:_SHOWN_BYTES])
        nothing = not (self._stream.events or self._stream.began)
        error = no_answer(beginning, self._http.headers) if nothing else None
        self._end("done" if self._stream.done else "eof", at_ns, error=error)

    def _break(self, error: Exception, at_ns: int) -> None:
        kind = "too_large" if isinstance(error, EventTooLarge) else None
        self._end("disconnected", at_ns, error=RequestError(message=shown(str(error)), type=kind))

    def _end(
        self, how: EndKind, at_ns: int, *, timeout: TimeoutKind | None = None, error: RequestError | None = None
    ) -> None:
        if not self._ended.done():
            self._ended.set_result(End(how=how, at_ns=at_ns, timeout=timeout, error=error))

    # Deadlines

    @property
    def _stage(self) -> tuple[bool, bool]:
        """Which deadline applies: before the first token, between tokens, or after all was said."""
        return self._stream.last_token_ns is not None, bool(self._stream.finish_reason or self._stream.error)

    def _check(self) -> None:
        """End the exchange where a deadline has passed; else come back when the next one may have.

        Tokens only move a deadline away: it is enough to look when it would have struck, or when another applies.
        """
        self._drain()
        self._checked = self._stage
        if self._timer is not None:
            self._timer.cancel()
        when, which = self._deadline()
        now = time.monotonic()
        if when is None:
            return
        if now < when:
            self._timer = self._loop.call_later(when - now, self._check)
        elif which is None:
            self._end("grace", self._stream.last_event_ns or perf_counter_ns())
        else:
            words = f"the {which} deadline struck"
            self._end("timeout", perf_counter_ns(), timeout=which, error=RequestError(message=words))

    def _deadline(self) -> tuple[float | None, TimeoutKind | None]:
        """The deadline that comes first, in monotonic seconds; the grace after the end has no name."""
        stream, deadlines = self._stream, self._deadlines
        limits: list[tuple[float, TimeoutKind | None]] = []
        if deadlines.total_s is not None:
            limits.append((self._started_s + deadlines.total_s, "total"))
        began, said = self._stage
        if said and stream.last_event_ns is not None:
            limits.append((stream.last_event_ns / 1e9 + GRACE_S, None))
        elif began and stream.last_token_ns is not None:
            if deadlines.between_tokens_s is not None:
                limits.append((stream.last_token_ns / 1e9 + deadlines.between_tokens_s, "between_tokens"))
        elif deadlines.first_token_s is not None:
            limits.append((self._started_s + deadlines.first_token_s, "first_token"))
        return min(limits, key=lambda limit: limit[0], default=(None, None))


def spared() -> None:
    """Called where a cancellation was caught: its task goes on, since the record of what was cancelled is wanted."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
