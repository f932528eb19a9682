"""The running ssh-agent (draft-miller-ssh-agent): which keys it holds, and signatures by them."""

from __future__ import annotations

import os
import socket
import struct

from anvil_tui.bundles.refused import Refused
from anvil_tui.bundles.ssh.public_key import PublicKey, Wire, packed

LIST_TIMEOUT_S = 2.0
SIGN_TIMEOUT_S = 120.0
"""Long enough for a touch or a confirmation."""

_REQUEST_IDENTITIES, _IDENTITIES_ANSWER = 11, 12
_SIGN_REQUEST, _SIGN_RESPONSE = 13, 14
_RSA_SHA2_512 = 4
_MAX_ANSWER = 256 * 1024


class AgentError(Exception):
    """No agent, or it refused, or it answered nonsense."""


def held() -> tuple[tuple[PublicKey, str], ...]:
    """The keys of the agent at SSH_AUTH_SOCK with their comments; empty where there is none or it does not answer."""
    try:
        wire = _ask(bytes([_REQUEST_IDENTITIES]), _IDENTITIES_ANSWER, LIST_TIMEOUT_S)
        return tuple((PublicKey(wire.string()), wire.string().decode("utf-8", "replace")) for _ in range(wire.number()))
    except (AgentError, Refused):
        return ()


def sign(key: PublicKey, data: bytes) -> bytes:
    """The signature field over `data`, with SHA-512 for an RSA key. Raises AgentError."""
    flags = _RSA_SHA2_512 if key.type == "ssh-rsa" else 0
    request = bytes([_SIGN_REQUEST]) + packed(key.blob) + packed(data) + struct.pack(">I", flags)
    try:
        wire = _ask(request, _SIGN_RESPONSE, SIGN_TIMEOUT_S)
        return wire.string()
    except Refused as refused:
        raise AgentError(refused.words) from None


def _ask(request: bytes, expected: int, timeout_s: float) -> Wire:
    """Send one request and return what follows the expected message number."""
    address = os.environ.get("SSH_AUTH_SOCK")
    if not address:
        raise AgentError("SSH_AUTH_SOCK names no agent")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            connection.connect(address)
            connection.sendall(packed(request))
            length = int.from_bytes(_received(connection, 4), "big")
            if not 1 <= length <= _MAX_ANSWER:
                raise AgentError(f"an answer of {length} bytes")
            answer = _received(connection, length)
    except OSError as error:
        raise AgentError(error.strerror or str(error)) from None
    if answer[0] != expected:
        raise AgentError("it refused" if answer[0] == 5 else f"message {answer[0]}, not {expected}")
    return Wire(answer[1:], "AGENT_REFUSED")


def _received(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        chunk = connection.recv(count - len(data))
        if not chunk:
            raise AgentError("it closed the connection")
        data += chunk
    return data
