"""SSH public keys as raw blobs (RFC 4253 and 5656, OpenSSH PROTOCOL.u2f): their names and their signatures.

A key is its blob. It is never re-serialised before it is compared, since that loses the application of a FIDO key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils

from anvil_tui.bundles.refused import Refused

MIN_RSA_BITS = 2048
MAX_RSA_BITS = 16384

_CURVES: dict[str, tuple[ec.EllipticCurve, hashes.HashAlgorithm]] = {
    "nistp256": (ec.SECP256R1(), hashes.SHA256()),
    "nistp384": (ec.SECP384R1(), hashes.SHA384()),
    "nistp521": (ec.SECP521R1(), hashes.SHA512()),
}
_RSA_HASHES: dict[str, hashes.HashAlgorithm] = {
    "rsa-sha2-512": hashes.SHA512(),
    "rsa-sha2-256": hashes.SHA256(),
}
_ECDSA = "ecdsa-sha2-"
_SK_ED25519 = "sk-ssh-ed25519@openssh.com"
_SK_ECDSA = "sk-ecdsa-sha2-nistp256@openssh.com"
_USER_PRESENT = 0x01


def packed(data: bytes) -> bytes:
    """`data` as an SSH string: its length in four bytes, big-endian, then its bytes."""
    return struct.pack(">I", len(data)) + data


class Wire:
    """A cursor over SSH wire bytes. Every method raises Refused with `code` where the bytes run out or are odd."""

    def __init__(self, data: bytes, code: str) -> None:
        self._data = data
        self._at = 0
        self._code = code

    def refuse(self, words: str) -> Refused:
        return Refused(self._code, words)

    def take(self, count: int) -> bytes:
        if count > len(self._data) - self._at:
            raise self.refuse(f"{count} bytes are announced at byte {self._at}, {len(self._data) - self._at} are there")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self) -> int:
        """An unsigned 32-bit number."""
        return int.from_bytes(self.take(4), "big")

    def string(self) -> bytes:
        return self.take(self.number())

    def name(self) -> str:
        """A string of printable ASCII, as algorithm names are."""
        raw = self.string()
        if not raw.isascii() or not raw.decode("ascii").isprintable():
            raise self.refuse("a name is not printable ASCII")
        return raw.decode("ascii")

    def mpint(self) -> int:
        """A positive integer in its shortest form."""
        raw = self.string()
        if not raw or raw[0] & 0x80 or (raw[0] == 0 and (len(raw) == 1 or not raw[1] & 0x80)):
            raise self.refuse("a number is not a positive one in its shortest form")
        return int.from_bytes(raw, "big")

    def end(self) -> None:
        if self._at != len(self._data):
            raise self.refuse(f"{len(self._data) - self._at} bytes too many")


@dataclass(frozen=True)
class PublicKey:
    """A public key, known by its blob."""

    blob: bytes

    @property
    def type(self) -> str:
        """`ssh-ed25519`, `ssh-rsa` …; Refused KEY_UNSUPPORTED where the blob does not even name one."""
        return Wire(self.blob, "KEY_UNSUPPORTED").name()

    @property
    def fingerprint(self) -> str:
        """As OpenSSH prints it, `SHA256:…`."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.blob).digest()).rstrip(b"=").decode()

    @property
    def line(self) -> str:
        """The key as a `.pub` file has it, without a comment."""
        return f"{self.type} {base64.b64encode(self.blob).decode()}"

    def verify(self, algorithm: str, signature: Wire, message: bytes) -> None:
        """Check a signature of `algorithm` over `message`; `signature` stands behind the algorithm's name.

        Raises Refused: KEY_UNSUPPORTED, KEY_WEAK, SIG_ALG, SIG_MALFORMED, SK_NO_TOUCH or SIG_BAD.
        """
        wire = Wire(self.blob, "KEY_UNSUPPORTED")
        kind = wire.name()
        check = _CHECKS.get(kind)
        if check is None:
            raise wire.refuse(f"keys of type {kind} are not supported")
        if algorithm != kind and kind != "ssh-rsa":
            raise Refused("SIG_ALG", f"a {kind} key cannot make a {algorithm} signature")
        try:
            check(algorithm, wire, signature, message)
        except InvalidSignature:
            raise Refused("SIG_BAD", "the signature does not belong to these bytes and this key") from None
        except ValueError as error:  # a point off the curve, an impossible modulus
            raise Refused("KEY_UNSUPPORTED", f"the key is not a usable {kind} key: {error}") from None


def supported(key: PublicKey) -> bool:
    """Whether signatures of this type of key can be verified."""
    try:
        return key.type in _CHECKS
    except Refused:
        return False


def parse_line(text: str) -> tuple[PublicKey, str]:
    """A key and its comment from a `.pub` line. Raises Refused KEY_UNSUPPORTED where it is none."""
    kind, _, rest = text.strip().partition(" ")
    encoded, _, comment = rest.partition(" ")
    try:
        key = PublicKey(base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError):
        raise Refused("KEY_UNSUPPORTED", "not a public key line (type, base64, comment)") from None
    if key.line != f"{kind} {encoded}":
        raise Refused("KEY_UNSUPPORTED", f"the key says of itself that it is {key.type!r}, the line says {kind!r}")
    return key, comment.strip()


def _ed25519_key(wire: Wire) -> ed25519.Ed25519PublicKey:
    raw = wire.string()
    if len(raw) != 32:
        raise wire.refuse(f"an Ed25519 key has 32 bytes, this one {len(raw)}")
    return ed25519.Ed25519PublicKey.from_public_bytes(raw)


def _ed25519_signature(signature: Wire) -> bytes:
    raw = signature.string()
    if len(raw) != 64:
        raise signature.refuse(f"an Ed25519 signature has 64 bytes, this one {len(raw)}")
    return raw


def _verify_ed25519(_algorithm: str, wire: Wire, signature: Wire, message: bytes) -> None:
    key = _ed25519_key(wire)
    wire.end()
    raw = _ed25519_signature(signature)
    signature.end()
    key.verify(raw, message)


def _sk_message(application: bytes, signature: Wire, message: bytes) -> bytes:
    """What a FIDO authenticator signs (PROTOCOL.u2f). Raises Refused SK_NO_TOUCH where nobody touched it."""
    flags = signature.take(1)
    counter = signature.take(4)
    signature.end()
    if not flags[0] & _USER_PRESENT:
        raise Refused("SK_NO_TOUCH", "the authenticator signed without a touch")
    return hashlib.sha256(application).digest() + flags + counter + hashlib.sha256(message).digest()


def _verify_sk_ed25519(_algorithm: str, wire: Wire, signature: Wire, message: bytes) -> None:
    key = _ed25519_key(wire)
    application = wire.string()
    wire.end()
    raw = _ed25519_signature(signature)
    key.verify(raw, _sk_message(application, signature, message))


def _ecdsa_key(curve_name: str, wire: Wire) -> tuple[ec.EllipticCurvePublicKey, hashes.HashAlgorithm]:
    found = wire.name()
    if found != curve_name:
        raise wire.refuse(f"a key of the curve {curve_name} names the curve {found}")
    curve, digest = _CURVES[curve_name]
    point = wire.string()
    if point[:1] != b"\x04":
        raise wire.refuse("the point of the key is not in its uncompressed form")
    return ec.EllipticCurvePublicKey.from_encoded_point(curve, point), digest


def _ecdsa_signature(signature: Wire) -> bytes:
    """The DER form of an SSH ECDSA signature."""
    inner = Wire(signature.string(), "SIG_MALFORMED")
    r, s = inner.mpint(), inner.mpint()
    inner.end()
    return utils.encode_dss_signature(r, s)


def _verify_ecdsa(algorithm: str, wire: Wire, signature: Wire, message: bytes) -> None:
    key, digest = _ecdsa_key(algorithm.removeprefix(_ECDSA), wire)
    wire.end()
    der = _ecdsa_signature(signature)
    signature.end()
    key.verify(der, message, ec.ECDSA(digest))


def _verify_sk_ecdsa(_algorithm: str, wire: Wire, signature: Wire, message: bytes) -> None:
    key, digest = _ecdsa_key("nistp256", wire)
    application = wire.string()
    wire.end()
    der = _ecdsa_signature(signature)
    key.verify(der, _sk_message(application, signature, message), ec.ECDSA(digest))


def _verify_rsa(algorithm: str, wire: Wire, signature: Wire, message: bytes) -> None:
    exponent, modulus = wire.mpint(), wire.mpint()
    wire.end()
    bits = modulus.bit_length()
    if bits < MIN_RSA_BITS:
        raise Refused("KEY_WEAK", f"an RSA key needs {MIN_RSA_BITS} bits, this one has {bits}")
    if bits > MAX_RSA_BITS or exponent.bit_length() > 64:
        raise Refused("KEY_UNSUPPORTED", f"an RSA key of {bits} bits and a {exponent.bit_length()}-bit exponent")
    digest = _RSA_HASHES.get(algorithm)
    if digest is None:
        raise Refused("SIG_ALG", f"{algorithm} is not accepted; {' or '.join(_RSA_HASHES)} is")
    raw = signature.string()
    signature.end()
    key = rsa.RSAPublicNumbers(exponent, modulus).public_key()
    key.verify(raw, message, padding.PKCS1v15(), digest)


_CHECKS: dict[str, Callable[[str, Wire, Wire, bytes], None]] = {
    "ssh-ed25519": _verify_ed25519,
    "ssh-rsa": _verify_rsa,
    _SK_ED25519: _verify_sk_ed25519,
    _SK_ECDSA: _verify_sk_ecdsa,
    **{_ECDSA + curve: _verify_ecdsa for curve in _CURVES},
}
"""By key type. Each takes the algorithm, what follows the type in the blob, what follows the algorithm, the message."""
