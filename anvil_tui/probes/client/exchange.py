"""One measured chat completion: connect, start the clock, send, read, and say what it was."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Mapping, Sequence
from functools import lru_cache
from time import perf_counter_ns
from typing import Any

import httpx
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from anvil_tui.clock import utc_now
from anvil_tui.engines.endpoint import EndpointClient, EndpointError, api_base, auth_headers
from anvil_tui.engines.metrics import gauges
from anvil_tui.probes.client import http1, pauses
from anvil_tui.probes.client.answer import Answer
from anvil_tui.probes.client.errors import shown
from anvil_tui.probes.client.reading import Reading, Watcher, spared
from anvil_tui.probes.client.stream import Asked, End, Stream
from anvil_tui.probes.client.transport import Connection, TransportError, connect
from anvil_tui.records.probe import Deadlines, Target
from anvil_tui.records.request import RequestError, RequestRecord

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


@lru_cache(maxsize=16)
def chat_url(base_url: str) -> httpx.URL:
    """Where a chat completion is posted. Kept: taking a URL apart costs as much as a whole answer's head."""
    return httpx.URL(api_base(base_url) + "/v1/chat/completions")


def salt_of(nonce: str) -> str:
    """The cache salt that goes with a nonce."""
    return hashlib.sha256(f"salt/{nonce}".encode()).hexdigest()[:32]


async def exchange(request: ChatRequest, watch: pauses.HostWatch, started: Watcher | None = None) -> Exchanged:
    """Send `request` and measure the answer. Never raises for what a server does: that is the record's outcome.

    A cancelled task still gets its record, with outcome `cancelled`. Raises CannotRun where the API key is not set.
    """
    body, warnings = dict(request.body), list(request.base.warnings)
    while True:
        base = replace(request.base, warnings=tuple(warnings))
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
    asked = Asked(max_tokens=base.max_tokens, output_length=base.output_length, streamed=bool(body.get("stream")))
    stream = Stream(asked)
    try:
        async with watch.turn():
            raw = msgspec.json.encode(body)
            base = replace(
                base, body_sha256=hashlib.sha256(raw).hexdigest(), cache_salt=body.get("cache_salt") is not None
            )
            url = chat_url(request.target.base_url)
            raw = http1.post(url, raw, auth_headers(request.target.api_key_env))
        opened = await _open(url, request.deadlines.connect_s)
    except asyncio.CancelledError:
        spared()
        opened = End(how="cancelled", at_ns=perf_counter_ns())
    if isinstance(opened, End):
        return Exchanged(record=stream.record(base, opened, None), answer=stream.answer)
    reading = Reading(opened, stream, request.deadlines, watch.batches)
    base = replace(base, sent_at=utc_now(), connect_ms=opened.connect_ns / 1e6)
    try:
        end = await reading.run(raw, started)
    finally:
        opened.abort()
    if end.how == "timeout" and end.timeout == "first_token" and await _never_admitted(request.target):
        end = replace(end, timeout="not_admitted")
    facts = (stream, base, end, opened.sent_ns, reading.headers_ns, watch)
    try:
        async with watch.turn():
            record = _concluded(*facts)
    except asyncio.CancelledError:
        spared()
        record = _concluded(*facts)
    return Exchanged(record=record, answer=stream.answer, events=stream.events)


def _concluded(
    stream: Stream,
    base: RequestRecord,
    end: End,
    sent_ns: int | None,
    headers_ns: int | None,
    watch: pauses.HostWatch,
) -> RequestRecord:
    """The record of what came, with what this host did meanwhile."""
    record = stream.record(base, end, sent_ns)
    if sent_ns is None:
        return record
    stood_still = watch.between(sent_ns, end.at_ns)
    warnings = {
        "host_pause" if any(one.end_ns > start and one.start_ns < stop for one in stood_still) else "server_stall"
        for start, stop in stream.stalls()
    }
    if stood_still:
        warnings.add("clock_step" if any(one.step_ns for one in stood_still) else "host_pause")
    return replace(
        record,
        headers_ms=None if headers_ns is None else (headers_ns - sent_ns) / 1e6,
        warnings=(*record.warnings, *sorted(warnings - set(record.warnings))),
        host_pauses=tuple(pauses.words(one, sent_ns) for one in stood_still),
    )


async def _open(url: httpx.URL, connect_s: float | None) -> Connection | End:
    try:
        tls = ssl.create_default_context() if url.scheme == "https" else None
        async with asyncio.timeout(connect_s):
            return await connect(url, tls)
    except TimeoutError:
        words = f"no connection to {url.host} within {connect_s:g} s"
        return End(how="timeout", at_ns=perf_counter_ns(), timeout="connect", error=RequestError(message=words))
    except TransportError as error:
        failed = RequestError(message=shown(str(error)), type="connect")
        return End(how="disconnected", at_ns=perf_counter_ns(), error=failed)


async def _never_admitted(target: Target) -> bool:
    """Whether the engine says that it runs nothing and lets requests wait. False where it does not say."""
    try:
        async with EndpointClient(target.base_url, api_key_env=target.api_key_env, timeout_s=2.0) as endpoint:
            now = gauges(await endpoint.metrics())
    except EndpointError:
        return False
    return now.running == 0 and bool(now.waiting)
