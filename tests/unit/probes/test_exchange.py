"""Deadlines, cancelling, refusals and connections, over real sockets."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from anvil_tui.errors import CannotRun
from anvil_tui.probes.client.exchange import Exchanged, chat_request, exchange, refused_field, without
from anvil_tui.probes.client.pauses import HostWatch
from anvil_tui.records.probe import Deadlines, Target
from anvil_tui.records.request import RequestError, RequestRecord
from tests.scripted_server import Script, ScriptedServer, Step
from tests.unit.probes.scenarios import ending, script, sse, tokens

SCRIPTS = {
    "silent": Script(steps=()),
    "no_headers": Script(steps=(), headers_at_us=60_000_000),
    "stops": script(tokens(5)),
    "late": script(tokens(5, start_us=1_500_000), ending(5, 1_600_000)),
    "pings": script([Step(at, "body", b": ping\n\n") for at in range(5_000, 3_000_000, 100_000)], role_us=None),
    "errs_and_hangs": script([Step(5000, "body", sse({"error": {"message": "boom"}}))], role_us=None),
    "huge": script([Step(5000 + n, "body", b"data: " + b"x" * 4_000_000) for n in range(5)], role_us=None),
    "plain": script(tokens(), ending(20, 490_000)),
}
OPTIONS = {"include_usage": True, "continuous_usage_stats": True}
WAITING = "vllm:num_requests_running 0\nvllm:num_requests_waiting 1\n"


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(SCRIPTS) as one:
        yield one


async def send(base_url: str, name: str, deadlines: Deadlines, **how: Any) -> Exchanged:
    base = RequestRecord(request_index=0, outcome="not_sent", model=name, max_tokens=256)
    target = Target(base_url=base_url, model=name, **how)
    request = chat_request(target, [{"role": "user", "content": "hello"}], base, deadlines)
    async with HostWatch() as watch:
        return await exchange(request, watch)


def record(base_url: str, name: str, deadlines: Deadlines | None = None, **how: Any) -> RequestRecord:
    return asyncio.run(send(base_url, name, deadlines or Deadlines(), **how)).record


@pytest.mark.parametrize(
    ("name", "deadlines", "which"),
    [
        ("silent", Deadlines(first_token_s=0.3), "first_token"),
        ("no_headers", Deadlines(first_token_s=0.3), "first_token"),
        ("pings", Deadlines(first_token_s=0.3), "first_token"),
        ("stops", Deadlines(between_tokens_s=0.3), "between_tokens"),
        ("stops", Deadlines(between_tokens_s=5, total_s=0.6), "total"),
        ("silent", Deadlines(total_s=0.3), "total"),
    ],
)
def test_deadlines(server: ScriptedServer, name: str, deadlines: Deadlines, which: str) -> None:
    got = record(server.base_url, name, deadlines)
    assert (got.outcome, got.timeout) == ("timeout", which)
    assert got.error is not None
    assert which in got.error.message
    assert got.content_chunks == (5 if name == "stops" else 0)


def test_a_late_token_is_in_time(server: ScriptedServer) -> None:
    got = record(server.base_url, "late", Deadlines(first_token_s=5, between_tokens_s=1))
    assert got.outcome == "ok"


def test_a_request_that_waits_was_not_admitted() -> None:
    with ScriptedServer(SCRIPTS, routes={"/metrics": (200, "text/plain", WAITING)}) as server:
        got = record(server.base_url, "silent", Deadlines(first_token_s=0.2))
    assert (got.outcome, got.timeout) == ("timeout", "not_admitted")


def test_an_error_ends_the_wait(server: ScriptedServer) -> None:
    started = time.monotonic()
    got = record(server.base_url, "errs_and_hangs", Deadlines(between_tokens_s=60))
    assert got.outcome == "error_in_stream"
    assert time.monotonic() - started < 20


def test_an_event_without_end_is_cut(server: ScriptedServer) -> None:
    got = record(server.base_url, "huge")
    assert got.outcome == "disconnected"
    assert got.error is not None
    assert got.error.type == "too_large"


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        got = record(f"http://127.0.0.1:{taken.getsockname()[1]}", "x")
    assert got.outcome == "disconnected"
    assert got.error is not None
    assert got.error.type == "connect"
    assert got.sent_us is None
    assert got.e2e_ms is None


def test_a_connection_that_never_opens() -> None:
    """A full backlog: connections wait unanswered."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        got = record(f"http://127.0.0.1:{port}", "x", Deadlines(connect_s=0.3))
        for one in waiting:
            one.close()
    assert (got.outcome, got.timeout) == ("timeout", "connect")


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "http://", "127.0.0.1:80"])
def test_urls_that_are_none(url: str) -> None:
    got = record(url, "x")
    assert got.outcome == "disconnected"


@pytest.mark.parametrize("speech", [b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", b""])
def test_no_http(speech: bytes) -> None:
    async def run() -> RequestRecord:
        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(100)
            writer.write(speech)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(speak, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            return (await send(f"http://127.0.0.1:{port}", "x", Deadlines())).record
        finally:
            server.close()

    got = asyncio.run(run())
    assert got.outcome == "disconnected"
    assert got.error is not None


def test_cancelling_closes_the_connection_and_keeps_the_record(server: ScriptedServer) -> None:
    async def run() -> RequestRecord:
        task = asyncio.create_task(send(server.base_url, "stops", Deadlines()))
        await asyncio.sleep(0.6)
        task.cancel()
        return (await task).record

    got = asyncio.run(run())
    assert got.outcome == "cancelled"
    assert got.content_chunks == 5
    deadline = time.monotonic() + 5
    while "closed_ns" not in server.log()[-1]:
        assert time.monotonic() < deadline


def test_connecting_is_outside_the_clock(server: ScriptedServer) -> None:
    got = record(server.base_url, "plain")
    assert got.connect_ms is not None
    assert got.headers_ms is not None
    assert got.first_chunk_ms is not None
    assert got.time_to_first_output_ms is not None
    assert 0 < got.headers_ms < got.first_chunk_ms <= got.time_to_first_output_ms
    assert got.sent_at is not None
    entry = server.log()[-1]
    assert got.body_sha256 is not None
    assert got.sent_us is not None
    assert got.sent_us * 1000 <= entry["received_ns"]


def test_the_key_is_sent_and_never_kept(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CannotRun, match="LANE_KEY"):
        record(server.base_url, "plain", api_key_env="LANE_KEY")
    monkeypatch.setenv("LANE_KEY", "sk-verysecretverysecret")
    got = record(server.base_url, "plain", api_key_env="LANE_KEY")
    assert got.outcome == "ok"
    assert "verysecret" not in repr(got)


def test_a_prompt_of_megabytes_goes_out(server: ScriptedServer) -> None:
    async def run() -> RequestRecord:
        base = RequestRecord(request_index=0, outcome="not_sent", model="plain", max_tokens=256)
        target = Target(base_url=server.base_url, model="plain")
        messages = [{"role": "user", "content": "word " * 1_000_000}]
        async with HostWatch() as watch:
            return (await exchange(chat_request(target, messages, base, Deadlines()), watch)).record

    assert asyncio.run(run()).outcome == "ok"


@pytest.mark.parametrize(
    ("status", "words", "body", "refused"),
    [
        (400, "Unknown parameter: cache_salt", {"cache_salt": "x"}, "cache_salt"),
        (
            422,
            "extra inputs: continuous_usage_stats",
            {"stream_options": {"continuous_usage_stats": True}},
            "continuous_usage_stats",
        ),
        (400, "stream_options is not allowed", {"stream_options": {"include_usage": True}}, "stream_options"),
        (400, "Use max_completion_tokens instead", {"max_tokens": 5}, "max_tokens"),
        (400, "Unknown parameter: cache_salt", {}, None),
        (500, "cache_salt", {"cache_salt": "x"}, None),
        (400, "min_tokens is unknown", {"min_tokens": 5}, None),
    ],
)
def test_refused_fields(status: int, words: str, body: dict[str, Any], refused: str | None) -> None:
    assert refused_field(RequestError(message=words, status=status), body) == refused


def test_without() -> None:
    body = {
        "max_tokens": 5,
        "cache_salt": "x",
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    assert "cache_salt" not in without(body, "cache_salt")
    assert without(body, "continuous_usage_stats")["stream_options"] == {"include_usage": True}
    renamed = without(body, "max_tokens")
    assert "max_tokens" not in renamed
    assert renamed["max_completion_tokens"] == 5
    assert json.dumps(body).count("max_tokens") == 1
