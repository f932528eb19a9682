"""Sign a sealed bundle. Signing only adds a file under `signatures/`, and happens in a child process.

The child, `python -m anvil_tui.bundles.signer`, reads the passphrase from its standard input: it stands in no argument,
in no environment and not in the memory of a console that lives on. It hashes everything again before it signs, since a
file that was edited since would be signed under a list that is no longer true.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from anvil_tui import exit_codes
from anvil_tui.bundles import contents, sums, tree, verify
from anvil_tui.bundles.keys import KeyRefused, Signer
from anvil_tui.bundles.refused import Refused
from anvil_tui.bundles.ssh import sshsig
from anvil_tui.bundles.ssh.public_key import PublicKey
from anvil_tui.errors import CannotRun, CheckFailed
from anvil_tui.files import sync_dir, write_new
from anvil_tui.records.bundle import SigningKey, SignReport
from anvil_tui.text import sanitise

CHILD_TIMEOUT_S = 300.0
_FIRST_NAME = "operator"


class SignerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The child's one line: a report, or the words of what was refused. `code` is set where a key was."""

    report: SignReport | None = None
    words: str = ""
    code: str | None = None
    exit_code: int = exit_codes.GOOD


def choose(keys: Iterable[SigningKey], *, unattended: bool = False) -> SigningKey | None:
    """The key to sign with: one that this machine's trust store names, our own before others; None where none is.

    `unattended` asks for one that signs without a passphrase: held by the agent, or in a file without one.
    """
    fit = [
        key
        for key in keys
        if key.principal is not None and (not unattended or key.agent or key.needs_passphrase is False)
    ]
    return next((key for key in fit if key.own), fit[0] if fit else None)


def sign(bundle: Path, key: SigningKey, passphrase: bytes | None = None) -> SignReport:
    """Sign the bundle in folder `bundle` with `key`, in a child process.

    Raises KeyRefused (wrong passphrase, refused by the agent …), CannotRun (not sealed, signed by this key already)
    or CheckFailed (the files are not those that were sealed). The bundle is then as it was.
    """
    argv = [sys.executable, "-P", "-m", "anvil_tui.bundles.signer"]
    argv += [str(bundle.absolute()), msgspec.json.encode(key).decode()]
    try:
        child = subprocess.run(argv, input=passphrase or b"", capture_output=True, timeout=CHILD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise CannotRun(f"nothing was signed within {CHILD_TIMEOUT_S:.0f} s") from None
    try:
        answer = msgspec.json.decode(child.stdout, type=SignerAnswer)
    except (msgspec.MsgspecError, ValueError):
        last = sanitise(child.stderr.strip().rsplit(b"\n", 1)[-1], 200)
        raise CannotRun(f"the signing process ended with {child.returncode} and no answer: {last}") from None
    if answer.report is not None:
        return answer.report
    if answer.code is not None:
        raise KeyRefused(answer.code, answer.words)
    if answer.exit_code == exit_codes.CHECK_FAILED:
        raise CheckFailed(answer.words)
    raise CannotRun(answer.words)


def add_signature(bundle: Path, signer: Signer) -> SignReport:
    """Hash the bundle again, sign its list and add the signature; the work of the child.

    Raises CannotRun, CheckFailed, KeyRefused and BadInput. Nothing that exists is overwritten.
    """
    with tree.opened(bundle) as root:
        try:
            raw, present = _intact(bundle, root)
        except Refused as refused:
            error = CannotRun if refused.code == "NOT_A_BUNDLE" else CheckFailed
            raise error(f"{bundle}: {refused.words}") from None
    for file, key in present.items():
        if key == signer.key:
            raise CannotRun(f"{bundle} is signed by {key.fingerprint} already, in {file}")
    signature = sshsig.Signature(signer.key, sshsig.NAMESPACE, "sha512", signer.sign(sshsig.signed_data(raw)))
    try:
        sshsig.check(signature, raw)
    except Refused as refused:
        raise KeyRefused(refused.code, f"the signature would not verify: {refused.words}") from None
    file = next(name for name in _names() if name not in present)
    try:
        bundle.joinpath(sums.SIGNATURES).mkdir(mode=0o700, exist_ok=True)
        sync_dir(bundle)
        write_new(bundle / file, sshsig.write(signature))
    except OSError as error:
        raise CannotRun(f"{bundle / file} cannot be written: {error.strerror}") from None
    return SignReport(
        bundle=str(bundle),
        root=sums.digest(raw),
        file=file,
        key_type=signer.key.type,
        fingerprint=signer.key.fingerprint,
    )


def _intact(bundle: Path, root: int) -> tuple[bytes, dict[str, PublicKey]]:
    """The list of a bundle in which everything is as sealed, and the keys of the signatures that it has already.

    What a signing that was cut off left behind is removed first. Raises Refused and CheckFailed.
    """
    raw = verify.read_list(root)
    entries = []
    for entry in tree.walk(root):
        if entry.kind == "file" and contents.is_cut_off_signing(entry.path):
            bundle.joinpath(entry.path).unlink(missing_ok=True)
        else:
            entries.append(entry)
    examination = contents.examine(root, tuple(entries), sums.parse(raw))
    if examination.findings:
        lines = [f"  {one.code} {one.path or ''}: {one.words}" for one in examination.findings]
        raise CheckFailed("\n".join([f"{bundle} is not signed, it is not as it was sealed:", *lines]))
    present: dict[str, PublicKey] = {}
    for file in contents.signature_files(tuple(entries)):
        signature = sshsig.parse(tree.read(root, file, keep=True, limit=sshsig.MAX_BYTES).data or b"")
        sshsig.check(signature, raw)
        present[file] = signature.key
    return raw, present


def _names() -> Iterator[str]:
    """`signatures/operator.sig`, then `operator-2.sig` …"""
    yield f"{sums.SIGNATURES}/{_FIRST_NAME}.sig"
    for number in itertools.count(2):
        yield f"{sums.SIGNATURES}/{_FIRST_NAME}-{number}.sig"
