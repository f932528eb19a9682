from __future__ import annotations

import h11
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anvil_tui.probes.client.http1 import HttpError, HttpReader, post

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def read(*parts: bytes) -> tuple[HttpReader, bytes]:
    reader = HttpReader()
    return reader, b"".join(reader.feed(part) for part in parts)


@pytest.mark.parametrize(
    ("raw", "body", "complete"),
    [
        (CHUNKED + b"3\r\nabc\r\n0\r\n\r\n", b"abc", True),
        (CHUNKED + b"3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n", b"abc0123456789", True),
        (CHUNKED + b"3\nabc\n0\n\n", b"abc", True),
        (CHUNKED + b"3\r\nab", b"ab", False),
        (CHUNKED, b"", False),
        (HEAD + b"Content-Length: 3\r\n\r\nabcdef", b"abc", True),
        (HEAD + b"Content-Length: 0\r\n\r\n", b"", True),
        (HEAD + b"\r\nuntil the end", b"until the end", False),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", b"", True),
    ],
)
def test_bodies(raw: bytes, body: bytes, complete: bool) -> None:
    for parts in ([raw], [raw[index : index + 1] for index in range(len(raw))]):
        reader, got = read(*parts)
        assert got == body
        assert reader.complete is complete
        assert reader.status in (200, 204)


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        CHUNKED + b"xyz\r\n",
        CHUNKED + b"-5\r\n",
        CHUNKED + b"1_0\r\n",
        CHUNKED + b"1" * 5000,
    ],
)
def test_what_is_no_http(raw: bytes) -> None:
    with pytest.raises(HttpError):
        read(raw)


@pytest.mark.parametrize(
    ("raw", "cut"),
    [
        (b"", True),
        (HEAD, True),
        (CHUNKED + b"3\r\nabc\r\n", True),
        (HEAD + b"Content-Length: 9\r\n\r\nabc", True),
        (HEAD + b"\r\nabc", False),
        (CHUNKED + b"0\r\n\r\n", False),
    ],
)
def test_an_end_too_early(raw: bytes, cut: bool) -> None:
    reader, _ = read(raw)
    if cut:
        with pytest.raises(HttpError):
            reader.close()
    else:
        reader.close()
        assert reader.complete


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=50), max_size=8), st.lists(st.integers(1, 30), min_size=1, max_size=40))
def test_any_chunks_in_any_reads(chunks: list[bytes], sizes: list[int]) -> None:
    server = h11.Connection(our_role=h11.SERVER)
    server.receive_data(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    server.next_event()
    server.next_event()
    raw = server.send(h11.Response(status_code=200, headers=[("Transfer-Encoding", "chunked")])) or b""
    raw += b"".join(server.send(h11.Data(data=chunk)) or b"" for chunk in chunks)
    raw += server.send(h11.EndOfMessage(headers=[("X-Trailer", "y")])) or b""
    parts = []
    while raw:
        size = sizes[len(parts) % len(sizes)]
        parts.append(raw[:size])
        raw = raw[size:]
    reader, got = read(*parts)
    assert got == b"".join(chunks)
    assert reader.complete


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_break_it(raw: bytes, headed: bool) -> None:
    try:
        reader, _ = read(CHUNKED + raw if headed else raw)
        reader.close()
    except HttpError:
        pass


def test_a_request() -> None:
    raw = post(httpx.URL("http://127.0.0.1:8000/v1/chat/completions"), b"{}", {"Authorization": "Bearer x"})
    head, _, body = raw.partition(b"\r\n\r\n")
    assert body == b"{}"
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /v1/chat/completions HTTP/1.1"
    assert {b"Host: 127.0.0.1:8000", b"Content-Length: 2", b"Authorization: Bearer x"} <= set(lines)
    assert b"Accept-Encoding: identity" in lines
