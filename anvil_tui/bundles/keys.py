"""The operator's signing keys: one of our own, those under ~/.ssh, those that a running ssh-agent holds."""

from __future__ import annotations

import base64
import binascii
import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils

from anvil_tui.bundles.refused import Refused
from anvil_tui.bundles.ssh import agent
from anvil_tui.bundles.ssh.public_key import PublicKey, Wire, packed, parse_line, supported
from anvil_tui.bundles.trust import Trusted, check_principal, named
from anvil_tui.errors import CannotRun
from anvil_tui.files import sync_dir, write_all, write_atomic
from anvil_tui.records.bundle import SigningKey
from anvil_tui.text import sanitise

OWN_NAME = "signing_ed25519"
_MAX_BYTES = 64 * 1024
_BEGIN = b"-----BEGIN OPENSSH PRIVATE KEY-----"
_END = b"-----END OPENSSH PRIVATE KEY-----"
_MAGIC = b"openssh-key-v1\0"


class KeyRefused(CannotRun):
    """A private key cannot be made or used.

    `code`: KEY_EXISTS, KEY_FS_NO_MODES, KEY_UNWRITABLE, KEY_UNREADABLE, KEY_TOO_OPEN, KEY_PASSPHRASE, KEY_UNSUPPORTED,
    KEY_WEAK or AGENT_REFUSED.
    """

    def __init__(self, code: str, words: str) -> None:
        self.code = code
        super().__init__(words)


class Signer(Protocol):
    """Something that signs bytes with one key."""

    @property
    def key(self) -> PublicKey: ...

    def sign(self, data: bytes) -> bytes:
        """The SSH signature field, `string(algorithm)` and what follows it. Raises KeyRefused."""


@dataclass(frozen=True)
class FileSigner:
    """A private key that was loaded from a file."""

    key: PublicKey
    _private: ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

    def sign(self, data: bytes) -> bytes:
        match self._private:
            case ed25519.Ed25519PrivateKey():
                return packed(b"ssh-ed25519") + packed(self._private.sign(data))
            case rsa.RSAPrivateKey():
                signature = self._private.sign(data, padding.PKCS1v15(), hashes.SHA512())
                return packed(b"rsa-sha2-512") + packed(signature)
            case ec.EllipticCurvePrivateKey():
                digest = {256: hashes.SHA256(), 384: hashes.SHA384(), 521: hashes.SHA512()}[self._private.key_size]
                r, s = utils.decode_dss_signature(self._private.sign(data, ec.ECDSA(digest)))
                return packed(self.key.type.encode()) + packed(packed(_mpint(r)) + packed(_mpint(s)))


@dataclass(frozen=True)
class AgentSigner:
    """A key that the running ssh-agent holds; nothing secret enters this process."""

    key: PublicKey

    def sign(self, data: bytes) -> bytes:
        try:
            return agent.sign(self.key, data)
        except agent.AgentError as error:
            raise KeyRefused("AGENT_REFUSED", f"the ssh-agent did not sign: {error}") from None


def create(folder: Path, principal: str, passphrase: bytes | None) -> SigningKey:
    """Create the operator's own Ed25519 key, `signing_ed25519` and `.pub`, in `folder` (0700, the key 0600).

    The format is OpenSSH's, so that ssh-keygen and ssh-agent take it too. Raises BadInput for a bad principal,
    KeyRefused KEY_EXISTS (a key is never replaced), KEY_FS_NO_MODES or KEY_UNWRITABLE.
    """
    check_principal(principal)
    path = folder / OWN_NAME
    private = ed25519.Ed25519PrivateKey.generate()
    encryption = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    pem = private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, encryption)
    key = PublicKey(packed(b"ssh-ed25519") + packed(private.public_key().public_bytes_raw()))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_private(path, pem)
        write_atomic(path.with_name(f"{OWN_NAME}.pub"), f"{key.line} {principal}\n".encode(), mode=0o644)
    except OSError as error:
        raise KeyRefused("KEY_UNWRITABLE", f"{path} cannot be written: {error.strerror}") from None
    return _described(key, principal, own=True, held=False, path=path, encrypted=bool(passphrase), trusted=())


def usable(folder: Path, trusted: tuple[Trusted, ...] = (), ssh: Path | None = None) -> tuple[SigningKey, ...]:
    """Every key that can sign here: our own first, then `~/.ssh/*.pub`, then what else the agent holds.

    `folder` is where `create` puts our own; `ssh` stands for `~/.ssh`. A public key without its private part is left
    out. Never raises for a key file that is odd: that key is not usable.
    """
    held = {key: comment for key, comment in agent.held() if supported(key)}
    found: dict[PublicKey, SigningKey] = {}
    ssh = Path.home() / ".ssh" if ssh is None else ssh
    for own, path in [(True, folder / OWN_NAME), *((False, pub.with_suffix("")) for pub in _public_files(ssh))]:
        try:
            key, comment, encrypted = _survey(path)
        except Refused:
            continue
        # The private file of a FIDO key only points at the authenticator; the agent knows how to ask that.
        private = path if path.is_file() and not key.type.startswith("sk-") else None
        if key not in found and supported(key) and (private is not None or key in held):
            found[key] = _described(
                key, comment, own=own, held=key in held, path=private, encrypted=encrypted, trusted=trusted
            )
    for key, comment in held.items():
        if key not in found:
            found[key] = _described(key, comment, own=False, held=True, path=None, encrypted=None, trusted=trusted)
    return tuple(found.values())


def signer(key: SigningKey, passphrase: bytes | None = None) -> Signer:
    """What signs with `key`: the agent where it holds the key, else its file. Raises KeyRefused."""
    if key.agent:
        return AgentSigner(parse_line(key.public)[0])
    if key.path is None:
        raise KeyRefused("KEY_UNREADABLE", f"no file and no agent has the private part of {key.fingerprint}")
    return load(Path(key.path), passphrase)


def load(path: Path, passphrase: bytes | None = None) -> FileSigner:
    """Load a private key file in OpenSSH's format. Raises KeyRefused.

    The file's owner and mode are read from the descriptor that its bytes are read from.
    """
    raw = _read_private(path)
    try:
        key, encrypted = _header(raw)
    except Refused as refused:
        raise KeyRefused("KEY_UNSUPPORTED", f"{path}: {refused.words}") from None
    if encrypted and not passphrase:
        raise KeyRefused("KEY_PASSPHRASE", f"{path} needs its passphrase")
    try:
        private = serialization.load_ssh_private_key(raw, passphrase if encrypted else None)
    except UnsupportedAlgorithm as error:
        raise KeyRefused("KEY_UNSUPPORTED", f"{path}: {error}; use it through ssh-agent") from None
    except (ValueError, TypeError) as error:
        if encrypted:
            raise KeyRefused("KEY_PASSPHRASE", f"{path}: wrong passphrase, or the file is damaged") from None
        raise KeyRefused("KEY_UNSUPPORTED", f"{path} is damaged: {error}") from None
    if not isinstance(private, ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise KeyRefused("KEY_UNSUPPORTED", f"{path}: keys of type {key.type} cannot sign; use Ed25519")
    return FileSigner(key, private)


def _write_private(path: Path, pem: bytes) -> None:
    """Write a private key that nobody else may read, whole or not at all.

    Whether the file system keeps modes is tried out on the file itself: some (drvfs without metadata) show everything
    as 0777 whatever was asked.
    """
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with contextlib.closing(os.fdopen(fd, "wb", buffering=0)):
            os.fchmod(fd, 0o600)
            if stat.S_IMODE(os.fstat(fd).st_mode) != 0o600:
                raise KeyRefused(
                    "KEY_FS_NO_MODES",
                    f"{path.parent} lies on a file system without file modes, where everyone may read a key; "
                    "use a folder on Linux's own file system",
                )
            write_all(fd, pem)
            os.fsync(fd)
        os.link(aside, path)
    except FileExistsError:
        raise KeyRefused("KEY_EXISTS", f"{path} exists; a key is never replaced") from None
    finally:
        aside.unlink(missing_ok=True)
    sync_dir(path.parent)


def _read_private(path: Path) -> bytes:
    try:
        found, raw = _read(path)
    except OSError as error:
        raise KeyRefused("KEY_UNREADABLE", f"{path}: {error.strerror}") from None
    if found.st_mode & 0o077 or found.st_uid != os.geteuid():
        raise KeyRefused(
            "KEY_TOO_OPEN",
            f"{path} is open to others (mode {stat.S_IMODE(found.st_mode):04o}, owner {found.st_uid}); "
            "it must be yours with mode 0600: chmod 600, and chown if it is not yours",
        )
    return raw


def _read(path: Path) -> tuple[os.stat_result, bytes]:
    """The status and the bytes of one small regular file, both from one descriptor. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_BYTES:
            raise OSError(errno.EINVAL, "not a key file", str(path))
        return found, os.read(fd, _MAX_BYTES)
    finally:
        os.close(fd)


def _header(raw: bytes) -> tuple[PublicKey, bool]:
    """The public key and whether a passphrase protects the rest: what an OpenSSH private key file tells everyone."""
    body = raw.strip()
    if not body.startswith(_BEGIN) or not body.endswith(_END):
        raise Refused("KEY_UNSUPPORTED", "not in OpenSSH's own format; `ssh-keygen -p -f FILE` converts it")
    try:
        wire = Wire(
            base64.b64decode(b"".join(body[len(_BEGIN) : -len(_END)].split()), validate=True), "KEY_UNSUPPORTED"
        )
    except binascii.Error:
        raise Refused("KEY_UNSUPPORTED", "damaged: not base64") from None
    if wire.take(len(_MAGIC)) != _MAGIC:
        raise Refused("KEY_UNSUPPORTED", "damaged: the magic of OpenSSH's format is missing")
    cipher = wire.name()
    wire.string()  # the KDF
    wire.string()  # its options
    if wire.number() != 1:
        raise Refused("KEY_UNSUPPORTED", "it holds more than one key")
    return PublicKey(wire.string()), cipher != "none"


def _survey(path: Path) -> tuple[PublicKey, str, bool | None]:
    """Key, comment and whether it is encrypted, of a private key file and the `.pub` beside it. Raises Refused.

    The private file's own word counts; the `.pub` file is asked where it is in another format or not there.
    """
    comment = ""
    from_pub: PublicKey | None = None
    with contextlib.suppress(Refused, OSError, UnicodeDecodeError):
        from_pub, comment = parse_line(_read(path.with_name(f"{path.name}.pub"))[1].decode("utf-8"))
    try:
        key, encrypted = _header(_read(path)[1])
    except (Refused, OSError):
        if from_pub is None:
            raise Refused("KEY_UNSUPPORTED", "neither a private key nor its .pub can be read") from None
        return from_pub, comment, None
    return key, comment if key == from_pub else "", encrypted


def _public_files(ssh: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from sorted(ssh.glob("*.pub"))


def _described(
    key: PublicKey,
    comment: str,
    *,
    own: bool,
    held: bool,
    path: Path | None,
    encrypted: bool | None,
    trusted: tuple[Trusted, ...],
) -> SigningKey:
    lines = named(trusted, key)
    return SigningKey(
        public=key.line,
        key_type=key.type,
        fingerprint=key.fingerprint,
        comment=sanitise(comment, 200),
        own=own,
        agent=held,
        path=None if path is None else str(path),
        needs_passphrase=encrypted,
        principal=lines[0].principal if lines else None,
    )


def _mpint(number: int) -> bytes:
    return number.to_bytes(number.bit_length() // 8 + 1, "big")
