"""One measured HTTP exchange on a connection of its own; every socket read is stamped before anything parses it.

This file alone knows HTTP. `connect` opens the connection, TLS included, so that the clock of a request starts on an
open one. `perf_counter_ns` is CLOCK_MONOTONIC here, so that stamps compare with those of other processes.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator
from time import perf_counter_ns

import httpcore
import httpx
from msgspec import Struct

_USER_AGENT = b"anvil-tui"


class TransportError(Exception):
    """The connection could not be opened, broke, or spoke no HTTP; the text says which."""


class Response(Struct, frozen=True, kw_only=True):
    """Status and headers; names in lower case."""

    status: int
    headers: dict[str, str]
    headers_ns: int
    """When the read that completed the headers came in."""


class _Socket(asyncio.Protocol, httpcore.AsyncNetworkStream):
    """The byte stream that httpcore reads: each read of the socket keeps the moment at which it came in."""

    def __init__(self) -> None:
        self.first_write_ns: int | None = None
        self.read_ns = 0
        """Stamp of the latest read handed on."""
        self._loop = asyncio.get_running_loop()
        self._reads: deque[tuple[int, bytes]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._closed = False
        self._error: Exception | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._reads.append((perf_counter_ns(), data))
        self._wake()

    def eof_received(self) -> None:
        self._closed = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        self._error = self._error or exc
        self._writable.set()
        self._wake()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        assert timeout is None, "the caller of the exchange sets the deadlines"
        while not self._reads:
            if self._error is not None:
                raise httpcore.ReadError(str(self._error) or type(self._error).__name__) from self._error
            if self._closed:
                self.read_ns = perf_counter_ns()
                return b""
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        self.read_ns, data = self._reads.popleft()
        if len(data) > max_bytes:
            self._reads.appendleft((self.read_ns, data[max_bytes:]))
            data = data[:max_bytes]
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        assert timeout is None, "the caller of the exchange sets the deadlines"
        if self.first_write_ns is None:
            self.first_write_ns = perf_counter_ns()
        if self._transport is None or self._transport.is_closing():
            raise httpcore.WriteError("the connection is closed")
        self._transport.write(buffer)
        await self._writable.wait()

    async def aclose(self) -> None:
        self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class Connection:
    """An open connection for one request. `abort` it when done, whatever happened."""

    def __init__(self, url: httpx.URL, socket: _Socket, connect_ns: int) -> None:
        self.connect_ns = connect_ns
        """How long opening took, TLS included."""
        self._url = url
        self._socket = socket
        self._http = httpcore.AsyncHTTP11Connection(_core_url(url).origin, socket)
        self._response: httpcore.Response | None = None

    @property
    def sent_ns(self) -> int | None:
        """The moment before the first byte of the request was written; None before."""
        return self._socket.first_write_ns

    @property
    def read_ns(self) -> int:
        """When the latest read came in that was handed on: the arrival of what `body` just yielded."""
        return self._socket.read_ns

    async def post(self, body: bytes, headers: dict[str, str]) -> Response:
        """Send a POST with a JSON body and wait for the headers of its answer. Raises TransportError."""
        lines = [
            (b"Host", self._url.netloc),
            (b"User-Agent", _USER_AGENT),
            (b"Accept", b"text/event-stream, application/json"),
            (b"Accept-Encoding", b"identity"),
            (b"Content-Type", b"application/json"),
            (b"Content-Length", str(len(body)).encode()),
            *((name.encode(), value.encode()) for name, value in headers.items()),
        ]
        request = httpcore.Request("POST", _core_url(self._url), headers=lines, content=_whole(body))
        try:
            self._response = await self._http.handle_async_request(request)
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise TransportError(_words(error)) from None
        return Response(
            status=self._response.status,
            headers={name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self._response.headers},
            headers_ns=self._socket.read_ns,
        )

    async def body(self) -> AsyncIterator[bytes]:
        """The body as it comes, transfer encoding removed. Raises TransportError where it is cut short."""
        assert self._response is not None, "a body follows its headers"
        try:
            async for part in self._response.aiter_stream():
                yield part
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise TransportError(_words(error)) from None

    def abort(self) -> None:
        """Close at once: the engine sees that nobody listens."""
        self._socket.abort()


async def connect(url: httpx.URL, tls: ssl.SSLContext | None = None) -> Connection:
    """Open a connection to the host of `url`. Raises TransportError where that fails; the caller sets the deadline.

    `tls` is the context of an https URL; without it the system's certificates are trusted.
    """
    if url.scheme not in ("http", "https") or not url.host:
        raise TransportError(f"{url} is no http or https URL")
    secure = (tls or ssl.create_default_context()) if url.scheme == "https" else None
    started = perf_counter_ns()
    try:
        _, socket = await asyncio.get_running_loop().create_connection(
            _Socket, url.host, _core_url(url).origin.port, ssl=secure
        )
    except (OSError, ssl.SSLError, UnicodeError) as error:
        raise TransportError(f"cannot connect to {url.host}: {_words(error)}") from None
    return Connection(url, socket, perf_counter_ns() - started)


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _core_url(url: httpx.URL) -> httpcore.URL:
    return httpcore.URL(
        scheme=url.raw_scheme,
        host=url.raw_host,
        port=url.port or (443 if url.scheme == "https" else 80),
        target=url.raw_path,
    )


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
