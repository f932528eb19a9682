"""The SSHSIG format (OpenSSH PROTOCOL.sshsig, draft-josefsson-sshsig-format): written and read strictly.

    signed data  "SSHSIG" string(namespace) string("") string(hash name) string(H(message))
    blob         "SSHSIG" uint32(1) string(public key) string(namespace) string("") string(hash name) string(signature)
    signature    string(algorithm) and what that algorithm adds

Only exact forms are accepted; stock `ssh-keygen` is more lenient (text after the footer, version 0, a filled reserved
field), and two verifiers may then disagree on what was signed. One leniency is meant: CRLF line ends of the armor.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import struct
from dataclasses import dataclass

from anvil_tui.bundles.refused import Refused
from anvil_tui.bundles.ssh.public_key import PublicKey, Wire, packed

NAMESPACE = "bundle@anvil-tui"
"""Keeps our signatures apart from those of git and files that the same key made."""

MAX_BYTES = 16 * 1024
_MAGIC = b"SSHSIG"
_VERSION = 1
_HASHES = {"sha512": hashlib.sha512, "sha256": hashlib.sha256}
_HEADER = b"-----BEGIN SSH SIGNATURE-----"
_FOOTER = b"-----END SSH SIGNATURE-----"
_WRAP = 70
_ARMOR = re.compile(re.escape(_HEADER) + rb"\n((?:[A-Za-z0-9+/=]{1,76}\n)+)" + re.escape(_FOOTER) + rb"\n?")


@dataclass(frozen=True)
class Signature:
    """A signature as it stands in its file; nothing of it is verified yet."""

    key: PublicKey
    namespace: str
    hash_name: str
    field: bytes
    """`string(algorithm)` and what follows it."""


def signed_data(message: bytes, namespace: str = NAMESPACE, hash_name: str = "sha512") -> bytes:
    """What the key itself signs for `message`."""
    digest = _HASHES[hash_name](message).digest()
    return _MAGIC + packed(namespace.encode()) + packed(b"") + packed(hash_name.encode()) + packed(digest)


def write(signature: Signature) -> bytes:
    """The armored file, byte for byte as `ssh-keygen -Y sign` writes it."""
    blob = (
        _MAGIC
        + struct.pack(">I", _VERSION)
        + packed(signature.key.blob)
        + packed(signature.namespace.encode())
        + packed(b"")
        + packed(signature.hash_name.encode())
        + packed(signature.field)
    )
    encoded = base64.b64encode(blob)
    lines = [encoded[at : at + _WRAP] for at in range(0, len(encoded), _WRAP)]
    return b"\n".join([_HEADER, *lines, _FOOTER, b""])


def parse(armored: bytes) -> Signature:
    """Read a signature file. Raises Refused: SIG_MALFORMED, SIG_VERSION, SIG_HASH or KEY_UNSUPPORTED."""
    wire = Wire(_unarmored(armored), "SIG_MALFORMED")
    if wire.take(len(_MAGIC)) != _MAGIC:
        raise wire.refuse("the armor does not hold an SSH signature")
    version = wire.number()
    if version != _VERSION:
        raise Refused("SIG_VERSION", f"signature version {version} is not {_VERSION}")
    key = PublicKey(wire.string())
    namespace = wire.name()
    reserved = wire.string()
    hash_name = wire.name()
    field = wire.string()
    wire.end()
    if not namespace:
        raise wire.refuse("the namespace is empty")
    if reserved:
        raise wire.refuse("the reserved field is not empty")
    if hash_name not in _HASHES:
        raise Refused("SIG_HASH", f"the hash {hash_name!r} is not accepted; {' or '.join(_HASHES)} is")
    Wire(key.blob, "KEY_UNSUPPORTED").name()
    return Signature(key, namespace, hash_name, field)


def check(signature: Signature, message: bytes, namespace: str = NAMESPACE) -> None:
    """Verify `signature` over `message`. Raises Refused, SIG_NAMESPACE or one of PublicKey.verify's codes."""
    if signature.namespace != namespace:
        raise Refused("SIG_NAMESPACE", f"the signature was made for {signature.namespace!r}, not for {namespace!r}")
    wire = Wire(signature.field, "SIG_MALFORMED")
    signature.key.verify(wire.name(), wire, signed_data(message, namespace, signature.hash_name))


def _unarmored(armored: bytes) -> bytes:
    """The blob inside the armor. Header at byte 0, nothing behind the footer, base64 in its one canonical form."""
    if len(armored) > MAX_BYTES:
        raise Refused("SIG_MALFORMED", f"more than {MAX_BYTES} bytes")
    if b"\r" in armored:
        if armored.count(b"\r\n") != armored.count(b"\n") or armored.count(b"\r") != armored.count(b"\r\n"):
            raise Refused("SIG_MALFORMED", "LF and CRLF line ends are mixed")
        armored = armored.replace(b"\r\n", b"\n")
    match = _ARMOR.fullmatch(armored)
    if match is None:
        raise Refused("SIG_MALFORMED", "not exactly one armored SSH signature")
    encoded = match[1].replace(b"\n", b"")
    try:
        blob = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise Refused("SIG_MALFORMED", f"not base64: {error}") from None
    if base64.b64encode(blob) != encoded:
        raise Refused("SIG_MALFORMED", "not base64 in its canonical form")
    return blob
