"""`seal`, `sign`, `verify`, `keys`."""

from __future__ import annotations

import getpass
import sys
from argparse import Namespace

import msgspec

from anvil_tui import exit_codes
from anvil_tui.bundles import keys as signing
from anvil_tui.bundles import trust
from anvil_tui.bundles.ssh.public_key import parse_line
from anvil_tui.bundles.verify import verify as verify_bundle
from anvil_tui.campaigns import sealing
from anvil_tui.campaigns.store.folder import find_campaign
from anvil_tui.cli.output import Output, table
from anvil_tui.errors import BadInput, CannotRun, Fault
from anvil_tui.locations import Locations
from anvil_tui.records.bundle import SigningKey, Verification


def seal(arguments: Namespace, locations: Locations, output: Output) -> int:
    """Seal a campaign; it is signed by `sign`."""
    folder = find_campaign(locations.campaigns, arguments.campaign)
    report = sealing.seal_campaign(folder)
    label = "REHEARSAL, never evidence: " if report.rehearsal else ""
    output.line(f"{label}sealed {report.files} files, {report.bytes:,} bytes, {len(report.private)} of them private")
    output.line(f"root {report.root}")
    output.line(str(folder.path))
    output.document(report.schema, report)
    return exit_codes.GOOD


def sign(arguments: Namespace, locations: Locations, output: Output) -> int:
    """Sign a sealed campaign. Where there is no key yet, one is created first, with the operator's consent."""
    folder = find_campaign(locations.campaigns, arguments.campaign)
    if not folder.sealed:
        raise CannotRun(f"{folder.id} is not sealed; `anvil-tui seal {folder.id}` comes first")
    key = _first_key(locations, output)
    passphrase = None
    if key.needs_passphrase and not key.agent:
        if not sys.stdin.isatty():
            passphrase = sys.stdin.buffer.readline().rstrip(b"\r\n")
        else:
            passphrase = getpass.getpass(f"passphrase of {key.path}: ").encode()
    report = sealing.sign_campaign(folder, key, passphrase)
    output.line(f"signed as {key.principal} with {report.key_type} {report.fingerprint}: {report.file}")
    output.line(str(folder.path))
    output.document(report.schema, report)
    return exit_codes.GOOD


def verify(arguments: Namespace, locations: Locations, output: Output) -> int:
    """Verify a bundle against the signers that this machine trusts."""
    if not arguments.bundle.exists() and (arguments.bundle.name == str(arguments.bundle)):
        bundle = find_campaign(locations.campaigns, str(arguments.bundle)).path
    else:
        bundle = arguments.bundle
    trusted = trust.read(locations.allowed_signers)
    found = verify_bundle(bundle, trusted, published=arguments.published)
    for line in _verification_lines(found):
        output.line(line)
    output.document(found.schema, found)
    return found.exit_code


def keys(arguments: Namespace, locations: Locations, output: Output) -> int:
    """Show what can sign here and who is trusted; with --create make the operator's own key."""
    if arguments.create:
        key = _create(locations, arguments.create, ask=not arguments.no_passphrase)
        output.line(f"created {key.path} for {key.principal}: {key.fingerprint}")
        output.line(f"publish the fingerprint where readers of your bundles will look, and this line: {_line(key)}")
        output.document("anvil-cli-keys/v1", {"created": key})
        return exit_codes.GOOD
    found = sealing.signing_keys(locations)
    trusted = trust.read(locations.allowed_signers)
    rows = [
        (key.principal or "not trusted", key.key_type, key.fingerprint, _kind(key), key.path or key.comment)
        for key in found
    ]
    for line in table(("PRINCIPAL", "TYPE", "FINGERPRINT", "KIND", "WHERE"), rows):
        output.line(line)
    if not found:
        output.line("no key yet: anvil-tui keys --create YOU@LAB")
    output.line(f"trusted signers ({locations.allowed_signers}):")
    for one in trusted:
        output.line(f"  {one.principal}  {one.key.fingerprint}")
    document = {
        "keys": msgspec.to_builtins(found),
        "trusted": [{"principal": one.principal, "fingerprint": one.key.fingerprint} for one in trusted],
        "allowed_signers": str(locations.allowed_signers),
    }
    output.document("anvil-cli-keys/v1", document)
    return exit_codes.GOOD


def _first_key(locations: Locations, output: Output) -> SigningKey:
    """The key to sign with; created now where there is none and someone is there to be asked."""
    try:
        return sealing.choose_key(locations)
    except CannotRun:
        if output.json or not sys.stdin.isatty():
            raise
    principal = trust.default_principal()
    answer = input(f"You have no signing key yet. Create one for {principal}? [Y/n, or another name] ").strip()
    if answer.lower() in ("n", "no"):
        raise CannotRun("not signed: there is no key")
    return _create(locations, principal if answer.lower() in ("", "y", "yes") else answer, ask=True)


def _create(locations: Locations, principal: str, *, ask: bool) -> SigningKey:
    """Create the operator's key and trust it."""
    trust.check_principal(principal)
    passphrase = _new_passphrase() if ask else None
    key = signing.create(locations.keys, principal, passphrase)
    public, _ = parse_line(key.public)
    trust.add(locations.allowed_signers, trust.Trusted(principal=principal, key=public))
    return msgspec.structs.replace(key, principal=principal)


def _new_passphrase() -> bytes | None:
    if not sys.stdin.isatty():
        raise BadInput(
            "keys --create", Fault("passphrase", "no terminal to type it on", "a terminal, or --no-passphrase")
        )
    first = getpass.getpass("new passphrase (empty for none: anyone who reads the file can sign as you): ")
    if first != getpass.getpass("once more: "):
        raise BadInput("keys --create", Fault("passphrase", "the two differ", "the same passphrase twice"))
    return first.encode() or None


def _kind(key: SigningKey) -> str:
    held = "agent" if key.agent else "passphrase" if key.needs_passphrase else "open"
    return f"own, {held}" if key.own else held


def _line(key: SigningKey) -> str:
    public, _ = parse_line(key.public)
    return trust.Trusted(principal=key.principal or key.comment, key=public).line


def _verification_lines(found: Verification) -> list[str]:
    """What a person reads of a verification; no good word unless someone trusted signed it."""
    words = {
        exit_codes.GOOD: "VALID: intact and signed by a trusted key",
        exit_codes.CHECK_FAILED: "INVALID",
        exit_codes.BAD_INPUT: "NOT CHECKED",
        exit_codes.NO_TRUSTED_SIGNER: "NOT TRUSTED: the files are intact, but nobody whom you trust signed them",
    }
    lines = [f"{one.code} {one.path or ''}: {one.words}" for one in (*found.errors, *found.notes)]
    for signer in found.signers:
        lines.append(f"signed by {signer.principal or 'an unknown key'}: {signer.key_type} {signer.fingerprint}")
    if found.rehearsal:
        lines.append("REHEARSAL: simulated; never evidence")
    if found.withheld:
        lines.append(f"{len(found.withheld)} private files are withheld: {', '.join(found.withheld)}")
    if found.root:
        lines.append(f"root {found.root}, {found.files} files, {found.bytes:,} bytes")
    return [*lines, words[found.exit_code]]
