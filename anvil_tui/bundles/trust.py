"""Whom this machine trusts: `allowed_signers`, a strict subset of OpenSSH's file, which the stock tool reads too.

    operator@lab namespaces="bundle@anvil-tui",valid-before="20270101Z" ssh-ed25519 AAAA… comment

One exact principal a line, no pattern; the namespace is mandatory, since a line without it would trust the key for git
and everything else. A key that is found inside a bundle is never trusted by itself.
"""

from __future__ import annotations

import getpass
import re
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from anvil_tui.bundles.refused import Refused
from anvil_tui.bundles.ssh.public_key import PublicKey, parse_line
from anvil_tui.bundles.ssh.sshsig import NAMESPACE
from anvil_tui.errors import BadInput, CannotRun, Fault
from anvil_tui.files import write_atomic
from anvil_tui.text import sanitise

FORM = (
    f'PRINCIPAL namespaces="{NAMESPACE}"[,valid-after="YYYYMMDDZ"][,valid-before="YYYYMMDDZ"] KEY-TYPE BASE64 [comment]'
)

_PRINCIPAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*(?:@[A-Za-z0-9][A-Za-z0-9._+-]*)?")
_OPTION = re.compile(r'([A-Za-z-]+)="([^"]*)"(?:,|$)')
_TIMES = {9: "%Y%m%dZ", 13: "%Y%m%d%H%MZ", 15: "%Y%m%d%H%M%SZ"}


@dataclass(frozen=True)
class Trusted:
    """One line: this key may sign bundles as this principal, within these times."""

    principal: str
    key: PublicKey
    valid_after: datetime | None = None
    valid_before: datetime | None = None

    def valid(self, at: datetime) -> bool:
        """Whether the line holds at time `at`; both ends count as inside, as in OpenSSH."""
        return (self.valid_after is None or at >= self.valid_after) and (
            self.valid_before is None or at <= self.valid_before
        )

    @property
    def line(self) -> str:
        options = [f'namespaces="{NAMESPACE}"']
        for name, moment in (("valid-after", self.valid_after), ("valid-before", self.valid_before)):
            if moment is not None:
                options.append(f'{name}="{moment.astimezone(UTC):%Y%m%d%H%M%S}Z"')
        return f"{self.principal} {','.join(options)} {self.key.line}"


def default_principal() -> str:
    """`USER@HOST` of this machine, in the alphabet of principals."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        user = ""
    parts = [re.sub(r"[^A-Za-z0-9._+-]|^[^A-Za-z0-9]+", "", part) for part in (user, socket.gethostname())]
    return f"{parts[0] or 'operator'}@{parts[1] or 'localhost'}"


def check_principal(principal: str) -> None:
    """Raise BadInput unless `principal` is one exact name, without a pattern."""
    if not _PRINCIPAL.fullmatch(principal):
        raise BadInput(
            "principal",
            Fault("name", repr(sanitise(principal, 80)), "NAME or NAME@HOST of letters, digits and . _ + -"),
        )


def read(path: Path) -> tuple[Trusted, ...]:
    """The trusted signers of the file; empty where there is no file.

    Raises BadInput that names every line outside the subset: a trust store that is half understood is not used.
    """
    return parse(_bytes(path), str(path))


def parse(raw: bytes, source: str) -> tuple[Trusted, ...]:
    """The trusted signers in the bytes of an `allowed_signers` file. Raises BadInput."""
    try:
        text = raw.decode("ascii")
    except UnicodeDecodeError as error:
        raise BadInput(source, Fault(f"byte {error.start}", "not ASCII", FORM)) from None
    trusted: list[Trusted] = []
    faults: list[Fault] = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")
        if not line.strip() or line.startswith("#"):
            continue
        try:
            trusted.append(_entry(line))
        except Refused as refused:
            faults.append(Fault(f"line {number}", sanitise(refused.words, 200), FORM))
    if faults:
        raise BadInput(source, *faults)
    return tuple(trusted)


def add(path: Path, trusted: Trusted) -> None:
    """Trust one more key. Raises BadInput for a bad principal, CannotRun where the file already names this key."""
    check_principal(trusted.principal)
    for known in read(path):
        if known.key == trusted.key:
            raise CannotRun(f"{path} already trusts {trusted.key.fingerprint}, as {known.principal}")
    old = _bytes(path)
    if old and not old.endswith(b"\n"):
        old += b"\n"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(path, old + trusted.line.encode("ascii") + b"\n", mode=0o644)
    except OSError as error:
        raise CannotRun(f"{path} cannot be written: {error.strerror}") from None


def named(trusted: tuple[Trusted, ...], key: PublicKey) -> tuple[Trusted, ...]:
    """The lines that name this key, by its blob."""
    return tuple(line for line in trusted if line.key == key)


def _bytes(path: Path) -> bytes:
    """The bytes of the file, none where there is no file. Raises BadInput where it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise BadInput(str(path), Fault("file", error.strerror or str(error), "a readable file")) from None


def _entry(line: str) -> Trusted:
    principal, _, rest = line.partition(" ")
    if not _PRINCIPAL.fullmatch(principal):
        raise Refused("TRUST", f"the principal {principal!r} is not one exact name")
    options_text, _, key_text = rest.strip(" ").partition(" ")
    options = _options(options_text)
    key, _ = parse_line(key_text)
    return Trusted(principal, key, _moment(options.get("valid-after")), _moment(options.get("valid-before")))


def _options(text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _OPTION.match(text, at)
        if match is None:
            raise Refused("TRUST", f"{text[at : at + 40]!r} is not an option")
        name = match[1].lower()
        if name not in {"namespaces", "valid-after", "valid-before"} or name in options:
            raise Refused("TRUST", f"the option {name!r} is unknown or stands twice")
        options[name] = match[2]
        at = match.end()
    if options.get("namespaces") != NAMESPACE:
        raise Refused("TRUST", f'namespaces="{NAMESPACE}" is missing')
    return options


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    form = _TIMES.get(len(text))
    try:
        if form is None:
            raise ValueError
        return datetime.strptime(text, form).replace(tzinfo=UTC)
    except ValueError:
        raise Refused("TRUST", f"{text!r} is not a time such as 20270101Z or 20270101123000Z") from None
