"""One measured HTTP exchange on a connection of its own; every socket read is stamped before anything parses it.

The stamp of a read is when the kernel took the bytes in, where it says so (SO_TIMESTAMPNS, plain TCP on Linux): that
does not depend on how busy this process is. Else it is when they were read. Both are in the time of `perf_counter_ns`,
which is CLOCK_MONOTONIC here, so that they compare with those of other processes. `connect` opens the connection, TLS
included, so that the clock of a request starts on an open one.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Callable
from time import perf_counter_ns, time_ns
from typing import Any, Protocol

import httpx

_READ_BYTES = 64 * 1024
"""Read into a buffer that stays: one made for each read costs more than the read itself."""
SO_TIMESTAMPNS = 35
"""Stamp what comes in. The kernel begins a moment after a socket asks; until then a stamp is that of the read."""
_TIMESPEC = struct.Struct("qq")
_APART_NS = 20_000
_LOOKS = 8
_LATE_NS = 60_000_000_000
"""A read that the kernel took in longer ago than this was not: the wall clock stepped."""

OnRead = Callable[[bytes, int], None]
"""Bytes of one socket read and when they came in."""
OnEnd = Callable[[str | None, int], None]
"""The connection ended: in order (null), or broken in words; and when."""


class TransportError(Exception):
    """The connection could not be opened; the text says why."""


class Connection(Protocol):
    """An open connection for one request. `abort` it when done, whatever happened."""

    connect_ns: int
    """How long opening took, TLS included."""
    sent_ns: int | None
    """The moment before the first byte of the request was written; null before."""

    def listen(self, on_read: OnRead, on_end: OnEnd) -> None:
        """From now on hand each read to `on_read`, and the end to `on_end`."""

    async def send(self, data: bytes) -> None:
        """Write all of `data`. Returns early where the connection breaks: `on_end` tells."""

    def abort(self) -> None:
        """Close at once: the engine sees that nobody listens."""


class _Plain:
    """TCP on a bare socket, whose reads the kernel stamps."""

    def __init__(self, sock: socket.socket, connect_ns: int) -> None:
        self.connect_ns = connect_ns
        self.sent_ns: int | None = None
        self._loop = asyncio.get_running_loop()
        self._socket = sock
        self._into = [memoryview(bytearray(_READ_BYTES))]
        self._on_read: OnRead | None = None
        self._on_end: OnEnd | None = None

    def listen(self, on_read: OnRead, on_end: OnEnd) -> None:
        self._on_read, self._on_end = on_read, on_end
        self._loop.add_reader(self._socket.fileno(), self._readable)

    async def send(self, data: bytes) -> None:
        self.sent_ns = self.sent_ns or perf_counter_ns()
        with contextlib.suppress(OSError):
            await self._loop.sock_sendall(self._socket, data)

    def abort(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
        # Whoever listens knows this connection too: without a ring both are freed at once.
        self._on_read = self._on_end = None

    def _readable(self) -> None:
        assert self._on_read is not None and self._on_end is not None
        try:
            size, notes, _, _ = self._socket.recvmsg_into(self._into, 64)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._loop.remove_reader(self._socket.fileno())
            self._on_end(_words(error), perf_counter_ns())
            return
        at_ns, wall_ns = _both_clocks()
        if not size:
            self._loop.remove_reader(self._socket.fileno())
            self._on_end(None, at_ns)
            return
        for level, kind, raw in notes:
            if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
                seconds, nanoseconds = _TIMESPEC.unpack(raw[: _TIMESPEC.size])
                ago_ns = wall_ns - (seconds * 1_000_000_000 + nanoseconds)
                at_ns -= ago_ns if 0 <= ago_ns < _LATE_NS else 0
        self._on_read(bytes(self._into[0][:size]), at_ns)


def _both_clocks() -> tuple[int, int]:
    """The monotonic and the wall clock at one moment: read again where this process was interrupted in between."""
    for _ in range(_LOOKS):
        at_ns, wall_ns = perf_counter_ns(), time_ns()
        if perf_counter_ns() - at_ns < _APART_NS:
            break
    return at_ns, wall_ns


class _Tls(asyncio.Protocol):
    """TLS over asyncio's own transport; reads are stamped when their plain text comes out."""

    def __init__(self) -> None:
        self.connect_ns = 0
        self.sent_ns: int | None = None
        self._on_read: OnRead | None = None
        self._on_end: OnEnd | None = None
        self._ended = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._on_read is not None:
            self._on_read(data, perf_counter_ns())

    def eof_received(self) -> None:
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._writable.set()
        self._end(None if exc is None else _words(exc))

    def _end(self, words: str | None) -> None:
        if not self._ended and self._on_end is not None:
            self._ended = True
            self._on_end(words, perf_counter_ns())

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def listen(self, on_read: OnRead, on_end: OnEnd) -> None:
        self._on_read, self._on_end = on_read, on_end

    async def send(self, data: bytes) -> None:
        assert self._transport is not None
        self.sent_ns = self.sent_ns or perf_counter_ns()
        self._transport.write(data)
        await self._writable.wait()

    def abort(self) -> None:
        self._ended = True
        self._on_read = self._on_end = None
        if self._transport is not None:
            self._transport.abort()


async def connect(url: httpx.URL, tls: ssl.SSLContext | None = None) -> Connection:
    """Open a connection to the host of `url`. Raises TransportError where that fails; the caller sets the deadline.

    `tls` is the context of an https URL; without it the system's certificates are trusted.
    """
    if url.scheme not in ("http", "https") or not url.host:
        raise TransportError(f"{url} is no http or https URL")
    started = perf_counter_ns()
    try:
        if url.scheme == "http":
            sock = await _connected(url.host, url.port or 80)
            return _Plain(sock, perf_counter_ns() - started)
        loop = asyncio.get_running_loop()
        context = tls or ssl.create_default_context()
        _, secure = await loop.create_connection(_Tls, url.host, url.port or 443, ssl=context)
    except (OSError, UnicodeError) as error:
        raise TransportError(f"cannot connect to {url.host}: {_words(error)}") from None
    secure.connect_ns = perf_counter_ns() - started
    return secure


async def _connected(host: str, port: int) -> socket.socket:
    """A socket to the first address of `host` that answers. Raises OSError."""
    loop = asyncio.get_running_loop()
    failed: OSError | None = None
    for family, kind, protocol, _, address in await _addresses(host, port):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            failed = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failed or OSError(f"{host} has no address")


async def _addresses(host: str, port: int) -> list[Any]:
    """What getaddrinfo says of `host`; an address in figures needs no thread for that."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
