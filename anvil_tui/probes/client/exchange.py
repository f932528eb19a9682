"""One measured chat completion: connect, start the clock, send, read, and say what it was."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import Any

import httpx
import msgspec
from msgspec import Struct

from anvil_tui.clock import utc_now
from anvil_tui.engines.endpoint import EndpointClient, EndpointError, api_base, auth_headers
from anvil_tui.engines.metrics import gauges
from anvil_tui.probes.client import pauses
from anvil_tui.probes.client.answer import Answer
from anvil_tui.probes.client.sse import EVENT_LIMIT, EventTooLarge, SseReader
from anvil_tui.probes.client.stream import BODY_LIMIT, Asked, End, Stream, http_error, shown
from anvil_tui.probes.client.transport import Connection, Response, TransportError, connect
from anvil_tui.records.probe import Deadlines, Target
from anvil_tui.records.request import RequestError, RequestRecord, TimeoutKind

GRACE_S = 2.0
"""How long a stream that gave its finish_reason or an error may stay silent before it is taken as ended."""

OPTIONAL = ("cache_salt", "continuous_usage_stats", "stream_options")
"""Fields that a strict server may refuse; the request is then sent again without the one it named."""


class ChatRequest(Struct, frozen=True, kw_only=True):
    """A request body and what is known about it beforehand."""

    target: Target
    body: Mapping[str, Any]
    base: RequestRecord
    """The record so far: what is asked. Its outcome is overwritten."""
    deadlines: Deadlines = Deadlines()


class Exchanged(Struct, frozen=True, kw_only=True):
    """What became of it: the record, and the answer as it came, neither cut nor sanitised."""

    record: RequestRecord
    answer: Answer
    events: int = 0
    """Server-sent events."""


Watcher = Callable[[Stream, int], None]
"""Called once the request is sent, with the stream that fills up and the moment of sending."""


def chat_request(
    target: Target,
    messages: Sequence[Mapping[str, Any]],
    base: RequestRecord,
    deadlines: Deadlines,
    *,
    cache_salt: str | None = None,
    stream: bool = True,
    extra: Mapping[str, Any] | None = None,
) -> ChatRequest:
    """The request that `base` describes: a completion at temperature 0, streamed with usage counted as it streams.

    Fixed output length forces exactly `max_tokens` tokens; `extra` holds further fields such as tools.
    """
    body: dict[str, Any] = {
        "model": target.model,
        "messages": messages,
        "max_tokens": base.max_tokens,
        "temperature": 0,
    }
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    if base.output_length == "fixed":
        body |= {"min_tokens": base.max_tokens, "ignore_eos": True}
    if base.reasoning_effort is not None:
        body["reasoning_effort"] = base.reasoning_effort
    if cache_salt is not None:
        body["cache_salt"] = cache_salt
    return ChatRequest(target=target, body=body | dict(extra or {}), base=base, deadlines=deadlines)


def salt_of(nonce: str) -> str:
    """The cache salt that goes with a nonce."""
    return hashlib.sha256(f"salt/{nonce}".encode()).hexdigest()[:32]


async def exchange(request: ChatRequest, watch: pauses.HostWatch, started: Watcher | None = None) -> Exchanged:
    """Send `request` and measure the answer. Never raises for what a server does: that is the record's outcome.

    A cancelled task still gets its record, with outcome `cancelled`. Raises CannotRun where the API key is not set.
    """
    body, warnings = dict(request.body), list(request.base.warnings)
    while True:
        base = msgspec.structs.replace(request.base, warnings=tuple(warnings))
        exchanged = await _once(request, body, base, watch, started)
        refused = refused_field(exchanged.record.error, body)
        if refused is None:
            return exchanged
        body = without(body, refused)
        warnings.append(f"{refused}_refused")


def refused_field(error: RequestError | None, body: Mapping[str, Any]) -> str | None:
    """The optional field of `body` that a 400 or 422 names, if it names one."""
    if error is None or error.status not in (400, 422):
        return None
    text = f"{error.param} {error.message} {error.body}"
    if "max_completion_tokens" in text and "max_tokens" in body:
        return "max_tokens"
    present = set(body) | set(body.get("stream_options") or ())
    return next((name for name in OPTIONAL if name in text and name in present), None)


def without(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    """`body` without optional field `name`; `max_tokens` takes its newer name instead."""
    rest = {key: value for key, value in body.items() if key != name}
    if name == "max_tokens":
        rest["max_completion_tokens"] = body["max_tokens"]
    elif name == "continuous_usage_stats":
        rest["stream_options"] = {key: value for key, value in body["stream_options"].items() if key != name}
    return rest


async def _once(
    request: ChatRequest, body: dict[str, Any], base: RequestRecord, watch: pauses.HostWatch, started: Watcher | None
) -> Exchanged:
    raw = msgspec.json.encode(body)
    base = msgspec.structs.replace(
        base, body_sha256=hashlib.sha256(raw).hexdigest(), cache_salt=body.get("cache_salt") is not None
    )
    asked = Asked(max_tokens=base.max_tokens, output_length=base.output_length, streamed=bool(body.get("stream")))
    stream = Stream(asked)
    url = httpx.URL(api_base(request.target.base_url) + "/v1/chat/completions")
    headers = auth_headers(request.target.api_key_env)
    sent_at = utc_now()
    opened = await _open(url, request.deadlines.connect_s)
    if isinstance(opened, End):
        return Exchanged(record=stream.record(base, opened, None), answer=stream.answer)
    reading = _Reading(opened, stream, request.deadlines)
    try:
        end = await reading.run(raw, headers, started)
    finally:
        opened.abort()
    if end.how == "timeout" and end.timeout == "first_token" and await _never_admitted(request.target):
        end = msgspec.structs.replace(end, timeout="not_admitted")
    sent_ns = opened.sent_ns
    record = stream.record(base, end, sent_ns)
    if sent_ns is None:
        return Exchanged(record=record, answer=stream.answer, events=stream.events)
    stood_still = watch.between(sent_ns, end.at_ns)
    warnings = {
        "host_pause" if any(one.end_ns > start and one.start_ns < stop for one in stood_still) else "server_stall"
        for start, stop in stream.stalls()
    }
    if stood_still:
        warnings.add("clock_step" if any(one.step_ns for one in stood_still) else "host_pause")
    record = msgspec.structs.replace(
        record,
        sent_at=sent_at,
        connect_ms=opened.connect_ns / 1e6,
        headers_ms=None if reading.headers_ns is None else (reading.headers_ns - sent_ns) / 1e6,
        warnings=(*record.warnings, *sorted(warnings - set(record.warnings))),
        host_pauses=tuple(pauses.words(one, sent_ns) for one in stood_still),
    )
    return Exchanged(record=record, answer=stream.answer, events=stream.events)


async def _open(url: httpx.URL, connect_s: float | None) -> Connection | End:
    try:
        tls = ssl.create_default_context() if url.scheme == "https" else None
        async with asyncio.timeout(connect_s):
            return await connect(url, tls)
    except TimeoutError:
        words = f"no connection to {url.host} within {connect_s:g} s"
        return _end("timeout", timeout="connect", error=RequestError(message=words))
    except TransportError as error:
        return _end("disconnected", error=RequestError(message=shown(str(error)), type="connect"))
    except asyncio.CancelledError:
        return _cancelled()


class _Reading:
    """One exchange on an open connection: reads the answer into `stream` under the deadlines."""

    def __init__(self, connection: Connection, stream: Stream, deadlines: Deadlines) -> None:
        self.headers_ns: int | None = None
        self._connection = connection
        self._stream = stream
        self._deadlines = deadlines
        self._started_s = time.monotonic()
        self._strikes: TimeoutKind | None = None

    async def run(self, raw: bytes, headers: dict[str, str], started: Watcher | None) -> End:
        """How the exchange ended."""
        if started is not None:
            started(self._stream, perf_counter_ns())
        try:
            async with asyncio.timeout(None) as timer:
                self._arm(timer)
                response = await self._connection.post(raw, headers)
                self.headers_ns = response.headers_ns
                if response.status != 200:
                    return await self._refusal(response)
                if response.headers.get("content-type", "").partition(";")[0].strip() == "application/json":
                    return await self._whole()
                return await self._events(timer)
        except TimeoutError:
            if self._strikes is None:
                return _end("grace", at_ns=self._stream.last_event_ns)
            words = f"the {self._strikes} deadline struck"
            return _end("timeout", timeout=self._strikes, error=RequestError(message=words))
        except TransportError as error:
            return _end("disconnected", error=RequestError(message=shown(str(error))))
        except EventTooLarge as error:
            return _end("disconnected", error=RequestError(message=str(error), type="too_large"))
        except asyncio.CancelledError:
            return _cancelled()

    async def _events(self, timer: asyncio.Timeout) -> End:
        reader, stream, connection = SseReader(), self._stream, self._connection
        async for part in connection.body():
            for event in reader.feed(part, connection.read_ns):
                stream.take(event)
                if stream.done:
                    return _end("done", at_ns=event.at_ns)
            self._arm(timer)
        last = reader.close(connection.read_ns)
        if last is not None:
            stream.take(last)
        return _end("done" if stream.done else "eof", at_ns=connection.read_ns)

    async def _whole(self) -> End:
        body = await self._bounded(EVENT_LIMIT)
        at_ns = self._connection.read_ns
        self._stream.take_whole(body, at_ns)
        return _end("eof", at_ns=at_ns)

    async def _refusal(self, response: Response) -> End:
        try:
            body = await self._bounded(BODY_LIMIT)
        except TransportError:
            body = b""
        return _end("http_error", at_ns=self._connection.read_ns, error=http_error(response.status, body))

    async def _bounded(self, limit: int) -> bytes:
        body = bytearray()
        async for part in self._connection.body():
            body += part
            if len(body) >= limit:
                break
        return bytes(body[:limit])

    def _arm(self, timer: asyncio.Timeout) -> None:
        """Set the timer to whichever deadline comes first."""
        stream, deadlines = self._stream, self._deadlines
        limits: list[tuple[float, TimeoutKind | None]] = []
        if deadlines.total_s is not None:
            limits.append((self._started_s + deadlines.total_s, "total"))
        if stream.last_event_ns is not None and (stream.finish_reason or stream.error):
            limits.append((stream.last_event_ns / 1e9 + GRACE_S, None))
        elif stream.last_token_ns is not None:
            if deadlines.between_tokens_s is not None:
                limits.append((stream.last_token_ns / 1e9 + deadlines.between_tokens_s, "between_tokens"))
        elif deadlines.first_token_s is not None:
            limits.append((self._started_s + deadlines.first_token_s, "first_token"))
        if not limits:
            timer.reschedule(None)
            return
        when, self._strikes = min(limits, key=lambda limit: limit[0])
        timer.reschedule(when)


async def _never_admitted(target: Target) -> bool:
    """Whether the engine says that it runs nothing and lets requests wait. False where it does not say."""
    try:
        async with EndpointClient(target.base_url, api_key_env=target.api_key_env, timeout_s=2.0) as endpoint:
            now = gauges(await endpoint.metrics())
    except EndpointError:
        return False
    return now.running == 0 and bool(now.waiting)


def _end(
    how: Any, *, at_ns: int | None = None, timeout: TimeoutKind | None = None, error: RequestError | None = None
) -> End:
    return End(how=how, at_ns=perf_counter_ns() if at_ns is None else at_ns, timeout=timeout, error=error)


def _cancelled() -> End:
    spared()
    return _end("cancelled")


def spared() -> None:
    """Called where a cancellation was caught: its task goes on, since the record of what was cancelled is wanted."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
