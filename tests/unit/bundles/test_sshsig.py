"""The signature format: exact forms only, and each refusal by its name."""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings

from anvil_tui.bundles.refused import Refused
from anvil_tui.bundles.ssh import sshsig
from anvil_tui.bundles.ssh.public_key import PublicKey, packed, parse_line, supported

MESSAGE = b"the list\n"
PRIVATE = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
RAW_PUBLIC = PRIVATE.public_key().public_bytes_raw()
KEY = PublicKey(packed(b"ssh-ed25519") + packed(RAW_PUBLIC))
ORDER = 2**252 + 27742317777372353535851937790883648493


def armored(blob: bytes, width: int = 70) -> bytes:
    encoded = base64.b64encode(blob)
    lines = b"".join(encoded[at : at + width] + b"\n" for at in range(0, len(encoded), width))
    return b"-----BEGIN SSH SIGNATURE-----\n" + lines + b"-----END SSH SIGNATURE-----\n"


def blob(
    *,
    magic: bytes = b"SSHSIG",
    version: int = 1,
    key: bytes = KEY.blob,
    namespace: bytes = sshsig.NAMESPACE.encode(),
    reserved: bytes = b"",
    hash_name: bytes = b"sha512",
    field: bytes | None = None,
    tail: bytes = b"",
) -> bytes:
    if field is None:
        field = packed(b"ssh-ed25519") + packed(PRIVATE.sign(sshsig.signed_data(MESSAGE)))
    parts = (packed(key), packed(namespace), packed(reserved), packed(hash_name), packed(field))
    return magic + struct.pack(">I", version) + b"".join(parts) + tail


GOOD = armored(blob())


def outcome(raw: bytes) -> str:
    try:
        sshsig.check(sshsig.parse(raw), MESSAGE)
    except Refused as refused:
        return refused.code
    return "good"


def _malleable() -> bytes:
    """The same signature with S + L: mathematically valid, and refused by everyone who is strict."""
    signature = PRIVATE.sign(sshsig.signed_data(MESSAGE))
    s = int.from_bytes(signature[32:], "little") + ORDER
    return packed(b"ssh-ed25519") + packed(signature[:32] + s.to_bytes(32, "little"))


def _ed25519(tail: bytes = b"", cut: int = 64) -> bytes:
    signature = PRIVATE.sign(sshsig.signed_data(MESSAGE))[:cut]
    return packed(b"ssh-ed25519") + packed(signature) + tail


CASES: list[tuple[str, bytes, str]] = [
    ("as it should be", GOOD, "good"),
    ("without the last LF", GOOD[:-1], "good"),
    ("CRLF", GOOD.replace(b"\n", b"\r\n"), "good"),
    ("64 columns", armored(blob(), 64), "good"),
    ("one CR", GOOD.replace(b"\n", b"\r\n", 1), "SIG_MALFORMED"),
    ("CR alone", GOOD.replace(b"\n", b"\r"), "SIG_MALFORMED"),
    ("empty", b"", "SIG_MALFORMED"),
    ("text before", b"hello\n" + GOOD, "SIG_MALFORMED"),
    ("blank before", b"\n" + GOOD, "SIG_MALFORMED"),
    ("BOM", b"\xef\xbb\xbf" + GOOD, "SIG_MALFORMED"),
    ("text behind", GOOD + b"hello\n", "SIG_MALFORMED"),
    ("blank behind", GOOD + b"\n", "SIG_MALFORMED"),
    ("form feed behind", GOOD + b"\x0c", "SIG_MALFORMED"),
    ("two signatures", GOOD + GOOD, "SIG_MALFORMED"),
    ("no footer", GOOD[:-28], "SIG_MALFORMED"),
    ("not base64", GOOD.replace(b"U1NI", b"U1N!"), "SIG_MALFORMED"),
    ("space inside", GOOD.replace(b"U1NI", b"U1 NI"), "SIG_MALFORMED"),
    ("long line", armored(blob(), 200), "SIG_MALFORMED"),
    ("too big", armored(blob(tail=bytes(20_000))), "SIG_MALFORMED"),
    ("other magic", armored(blob(magic=b"SSHSAG")), "SIG_MALFORMED"),
    ("version 0", armored(blob(version=0)), "SIG_VERSION"),
    ("version 2", armored(blob(version=2)), "SIG_VERSION"),
    ("bytes behind", armored(blob(tail=b"\0")), "SIG_MALFORMED"),
    ("cut", armored(blob()[:-3]), "SIG_MALFORMED"),
    ("announces 4 GiB", armored(b"SSHSIG\0\0\0\1\xff\xff\xff\xff"), "SIG_MALFORMED"),
    ("reserved is filled", armored(blob(reserved=b"x")), "SIG_MALFORMED"),
    ("no namespace", armored(blob(namespace=b"")), "SIG_MALFORMED"),
    ("other namespace", armored(blob(namespace=b"git")), "SIG_NAMESPACE"),
    ("namespace of an escape", armored(blob(namespace=b"\x1b[2J")), "SIG_MALFORMED"),
    ("md5", armored(blob(hash_name=b"md5")), "SIG_HASH"),
    ("sha1", armored(blob(hash_name=b"sha1")), "SIG_HASH"),
    ("SHA512", armored(blob(hash_name=b"SHA512")), "SIG_HASH"),
    ("sha256 over a sha512 signature", armored(blob(hash_name=b"sha256")), "SIG_BAD"),
    ("malleable S + L", armored(blob(field=_malleable())), "SIG_BAD"),
    ("zero signature", armored(blob(field=packed(b"ssh-ed25519") + packed(bytes(64)))), "SIG_BAD"),
    ("short signature", armored(blob(field=_ed25519(cut=63))), "SIG_MALFORMED"),
    ("bytes behind the signature", armored(blob(field=_ed25519(b"\0"))), "SIG_MALFORMED"),
    ("other algorithm", armored(blob(field=packed(b"ssh-rsa") + packed(bytes(64)))), "SIG_ALG"),
    ("short key", armored(blob(key=packed(b"ssh-ed25519") + packed(RAW_PUBLIC[:31]))), "KEY_UNSUPPORTED"),
    ("bytes behind the key", armored(blob(key=KEY.blob + b"\0")), "KEY_UNSUPPORTED"),
    ("empty key", armored(blob(key=b"")), "KEY_UNSUPPORTED"),
    ("composite key type", armored(blob(key=packed(b"ssh-mldsa44-ed25519@openssh.com"))), "KEY_UNSUPPORTED"),
    ("a certificate", armored(blob(key=packed(b"ssh-ed25519-cert-v01@openssh.com") + bytes(40))), "KEY_UNSUPPORTED"),
]


@pytest.mark.parametrize(("name", "raw", "expected"), CASES, ids=[name for name, *_ in CASES])
def test_forms(name: str, raw: bytes, expected: str) -> None:
    assert outcome(raw) == expected


def test_base64_has_one_form() -> None:
    """The bits behind the last byte must be zero, or one signature would have several files."""
    for tail in range(3):
        field = _ed25519() + bytes(tail)
        raw = armored(blob(field=field))
        end = raw.index(b"=\n") if b"=\n" in raw else None
        if end is None:
            continue
        last = raw[end - 1 : end] if raw[end - 1 : end] != b"=" else raw[end - 2 : end - 1]
        alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
        other = alphabet[alphabet.index(last) ^ 1 : (alphabet.index(last) ^ 1) + 1]
        at = raw.rindex(last, 0, end)
        with pytest.raises(Refused, match="canonical"):
            sshsig.parse(raw[:at] + other + raw[at + 1 :])
        return
    raise AssertionError("no blob of the three needed padding")


# Other kinds of keys.


def signed_with(key: bytes, make: Callable[[bytes], bytes], hash_name: str = "sha512") -> bytes:
    data = sshsig.signed_data(MESSAGE, hash_name=hash_name)
    return armored(blob(key=key, field=make(data), hash_name=hash_name.encode()))


def mpint(number: int) -> bytes:
    return packed(number.to_bytes(number.bit_length() // 8 + 1, "big"))


def rsa_blob(key: rsa.RSAPrivateKey) -> bytes:
    numbers = key.public_key().public_numbers()
    return packed(b"ssh-rsa") + mpint(numbers.e) + mpint(numbers.n)


@pytest.fixture(scope="module")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@pytest.mark.parametrize(
    ("algorithm", "digest", "expected"),
    [
        (b"rsa-sha2-512", hashes.SHA512(), "good"),
        (b"rsa-sha2-256", hashes.SHA256(), "good"),
        (b"ssh-rsa", hashes.SHA1(), "SIG_ALG"),
        (b"rsa-sha2-512", hashes.SHA256(), "SIG_BAD"),
        (b"ssh-ed25519", hashes.SHA512(), "SIG_ALG"),
    ],
)
def test_rsa(rsa_key: rsa.RSAPrivateKey, algorithm: bytes, digest: hashes.HashAlgorithm, expected: str) -> None:
    raw = signed_with(
        rsa_blob(rsa_key), lambda data: packed(algorithm) + packed(rsa_key.sign(data, padding.PKCS1v15(), digest))
    )
    assert outcome(raw) == expected


def test_a_small_rsa_key_is_weak() -> None:
    modulus = (1 << 1023) + 1
    key = packed(b"ssh-rsa") + mpint(65537) + mpint(modulus)
    assert outcome(signed_with(key, lambda data: packed(b"rsa-sha2-512") + packed(bytes(128)))) == "KEY_WEAK"


@pytest.mark.parametrize("modulus", [(1 << 20_000) + 1, (1 << 3071) + 2], ids=["huge", "even"])
def test_an_odd_rsa_key_is_refused_quickly(modulus: int) -> None:
    key = packed(b"ssh-rsa") + mpint(65537) + mpint(modulus)
    raw = signed_with(key, lambda data: packed(b"rsa-sha2-512") + packed(bytes(384)))
    assert outcome(raw) in {"KEY_UNSUPPORTED", "SIG_BAD"}


def ec_blob(key: ec.EllipticCurvePrivateKey, name: bytes, kind: bytes = b"ecdsa-sha2-") -> bytes:
    point = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return packed(kind + name) + packed(name) + packed(point)


def ecdsa_field(key: ec.EllipticCurvePrivateKey, data: bytes, digest: hashes.HashAlgorithm) -> bytes:
    r, s = utils.decode_dss_signature(key.sign(data, ec.ECDSA(digest)))
    return packed(mpint(r) + mpint(s))


@pytest.mark.parametrize(
    ("curve", "name", "digest"),
    [
        (ec.SECP256R1(), b"nistp256", hashes.SHA256()),
        (ec.SECP384R1(), b"nistp384", hashes.SHA384()),
        (ec.SECP521R1(), b"nistp521", hashes.SHA512()),
    ],
)
def test_ecdsa(curve: ec.EllipticCurve, name: bytes, digest: hashes.HashAlgorithm) -> None:
    key = ec.generate_private_key(curve)
    kind = b"ecdsa-sha2-" + name
    assert outcome(signed_with(ec_blob(key, name), lambda d: packed(kind) + ecdsa_field(key, d, digest))) == "good"
    other = packed(kind) + packed(b"nistp999") + ec_blob(key, name)[len(packed(kind) + packed(name)) :]
    assert outcome(signed_with(other, lambda d: packed(kind) + ecdsa_field(key, d, digest))) == "KEY_UNSUPPORTED"
    off = packed(kind) + packed(name) + packed(b"\x04" + bytes((curve.key_size + 7) // 8 * 2))
    assert outcome(signed_with(off, lambda d: packed(kind) + ecdsa_field(key, d, digest))) == "KEY_UNSUPPORTED"
    for number in (b"\0\0\1", b"\x80", b"", b"\0"):
        field = packed(kind) + packed(packed(number) + packed(b"\1"))
        assert outcome(armored(blob(key=ec_blob(key, name), field=field))) == "SIG_MALFORMED"


def test_dsa_is_not_supported() -> None:
    key = packed(b"ssh-dss") + mpint(23) + mpint(11) + mpint(4) + mpint(8)
    assert outcome(signed_with(key, lambda data: packed(b"ssh-dss") + packed(bytes(40)))) == "KEY_UNSUPPORTED"
    assert not supported(PublicKey(key))


APPLICATION = b"ssh:"


def sk_message(data: bytes, flags: int) -> tuple[bytes, bytes]:
    tail = bytes([flags]) + struct.pack(">I", 7)
    return hashlib.sha256(APPLICATION).digest() + tail + hashlib.sha256(data).digest(), tail


@pytest.mark.parametrize(("flags", "expected"), [(1, "good"), (5, "good"), (0, "SK_NO_TOUCH"), (4, "SK_NO_TOUCH")])
def test_fido_keys_need_a_touch(flags: int, expected: str) -> None:
    kind = b"sk-ssh-ed25519@openssh.com"

    def sign_ed25519(data: bytes) -> bytes:
        message, tail = sk_message(data, flags)
        return packed(kind) + packed(PRIVATE.sign(message)) + tail

    key = packed(kind) + packed(RAW_PUBLIC) + packed(APPLICATION)
    assert outcome(signed_with(key, sign_ed25519)) == expected
    elsewhere = packed(kind) + packed(RAW_PUBLIC) + packed(b"ssh:elsewhere")
    assert outcome(signed_with(elsewhere, sign_ed25519)) in {"SIG_BAD", "SK_NO_TOUCH"}

    private = ec.generate_private_key(ec.SECP256R1())
    kind_ec = b"sk-ecdsa-sha2-nistp256@openssh.com"

    def sign_ecdsa(data: bytes) -> bytes:
        message, tail = sk_message(data, flags)
        return packed(kind_ec) + ecdsa_field(private, message, hashes.SHA256()) + tail

    point = private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    key = packed(kind_ec) + packed(b"nistp256") + packed(point) + packed(APPLICATION)
    assert outcome(signed_with(key, sign_ecdsa)) == expected
    assert outcome(signed_with(key, lambda d: sign_ecdsa(d) + b"\0")) == "SIG_MALFORMED"


def test_a_fido_key_is_not_the_plain_key_inside_it() -> None:
    fido = PublicKey(packed(b"sk-ssh-ed25519@openssh.com") + packed(RAW_PUBLIC) + packed(APPLICATION))
    assert fido != KEY
    assert parse_line(fido.line)[0] == fido


# Fuzz.


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_no_bytes_crash_it(raw: bytes) -> None:
    assert outcome(raw) == "SIG_MALFORMED"


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(GOOD)), st.integers(0, 3), st.binary(max_size=3))
def test_every_edit_of_the_file_is_refused_or_says_the_same(at: int, cut: int, put: bytes) -> None:
    edited = GOOD[:at] + put + GOOD[at + cut :]
    if outcome(edited) == "good":
        assert sshsig.write(sshsig.parse(edited)) == GOOD


@settings(max_examples=400, deadline=None)
@given(st.integers(0, len(blob())), st.integers(0, 8), st.binary(max_size=8))
def test_every_edit_of_the_blob_is_refused(at: int, cut: int, put: bytes) -> None:
    edited = blob()[:at] + put + blob()[at + cut :]
    if edited != blob():
        assert outcome(armored(edited)) != "good"


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["ssh-rsa", "ssh-ed25519", "ecdsa-sha2-nistp256", "sk-ssh-ed25519@openssh.com", "x", ""]),
    st.binary(max_size=120),
    st.sampled_from(["rsa-sha2-512", "ssh-ed25519", "ecdsa-sha2-nistp256", "sk-ssh-ed25519@openssh.com", "x"]),
    st.binary(max_size=120),
)
def test_no_key_and_no_signature_crash_it(kind: str, key: bytes, algorithm: str, field: bytes) -> None:
    raw = armored(blob(key=packed(kind.encode()) + key, field=packed(algorithm.encode()) + field))
    assert outcome(raw) != "good"


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80))
def test_no_key_line_crashes_it(line: str) -> None:
    with pytest.raises(Refused, match="KEY_UNSUPPORTED"):
        parse_line(line)
    with pytest.raises(Refused, match="KEY_UNSUPPORTED"):
        parse_line(f"ssh-ed25519 {line}")
