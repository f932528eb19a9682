from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import socket
import ssl
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from anvil_tui.probes.client.transport import SO_TIMESTAMPNS, Connection, TransportError, connect


class Heard:
    """What a connection hands on."""

    def __init__(self, connection: Connection) -> None:
        self.reads: list[tuple[bytes, int]] = []
        self.end: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        connection.listen(
            lambda data, at_ns: self.reads.append((data, at_ns)), lambda words, _: self.end.set_result(words)
        )

    @property
    def data(self) -> bytes:
        return b"".join(data for data, _ in self.reads)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send back the first 5 MB, then close."""
    writer.write(await reader.readexactly(5_000_000))
    await writer.drain()
    writer.close()


def certificate(folder: Path) -> Path:
    """A self-signed certificate for 127.0.0.1, key included."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "both.pem"
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return path


@pytest.mark.parametrize("secure", [False, True])
def test_bytes_go_both_ways(secure: bool, tmp_path: Path) -> None:
    async def run() -> None:
        own = other = None
        if secure:
            path = certificate(tmp_path)
            own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            own.load_cert_chain(path)
            other = ssl.create_default_context(cafile=str(path))
        server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=own)
        port = server.sockets[0].getsockname()[1]
        connection = await connect(httpx.URL(f"http{'s' if secure else ''}://127.0.0.1:{port}"), other)
        heard = Heard(connection)
        assert connection.sent_ns is None
        before = time.perf_counter_ns()
        await connection.send(b"x" * 5_000_000)
        assert await asyncio.wait_for(heard.end, 10) is None
        assert heard.data == b"x" * 5_000_000
        stamps = [at_ns for _, at_ns in heard.reads]
        assert connection.sent_ns is not None
        assert before <= connection.sent_ns <= stamps[0] <= stamps[-1] <= time.perf_counter_ns()
        assert connection.connect_ns > 0
        connection.abort()
        server.close()

    asyncio.run(run())


def test_an_unknown_certificate_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        own.load_cert_chain(certificate(tmp_path))
        server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=own)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(TransportError, match="certificate"):
            await connect(httpx.URL(f"https://127.0.0.1:{port}"))
        server.close()

    asyncio.run(run())


@contextlib.contextmanager
def kernel_stamps() -> Iterator[None]:
    """The kernel stamps all that comes in: it begins to a moment after the first socket asks, so wait until it does."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        own.bind(("127.0.0.1", 0))
        for _ in range(1_000):
            own.sendto(b"x", own.getsockname())
            time.sleep(0.01)
            _, [(_, _, stamp)], _, _ = own.recvmsg(1, 64)
            seconds, nanoseconds = struct.unpack("qq", stamp[:16])
            if time.time_ns() - (seconds * 1_000_000_000 + nanoseconds) > 5_000_000:
                break
        yield


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's stamps are Linux's")
def test_a_read_is_stamped_when_it_came_in_however_late_it_is_read() -> None:
    async def run() -> None:
        with kernel_stamps(), socket.create_server(("127.0.0.1", 0)) as server:
            connection = await connect(httpx.URL(f"http://127.0.0.1:{server.getsockname()[1]}"))
            heard = Heard(connection)
            peer, _ = server.accept()
            for number in range(3):
                sent_ns = time.perf_counter_ns()
                peer.send(b"%d" % number)
                time.sleep(0.3)
                while len(heard.reads) <= number:
                    await asyncio.sleep(0)
                assert -1_000_000 < heard.reads[number][1] - sent_ns < 100_000_000
            connection.abort()
            peer.close()

    asyncio.run(run())
