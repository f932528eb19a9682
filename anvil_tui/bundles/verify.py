"""Verify a bundle: who signed which bytes, whether they are all there and nothing else, and whether they hold together.

A signature proves who sealed which bytes, never that the measurement happened as told. The order matters: names first,
then signatures over the list, and nothing of a list is interpreted after a signature that fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from anvil_tui import exit_codes
from anvil_tui.bundles import contents, meaning, sums, tree
from anvil_tui.bundles.refused import Refused, finding
from anvil_tui.bundles.ssh import sshsig
from anvil_tui.bundles.ssh.public_key import PublicKey
from anvil_tui.bundles.trust import Trusted, named
from anvil_tui.records.bundle import Finding, Signer, Verification
from anvil_tui.text import sanitise

NOTES = frozenset({"RENAMED", "SIGNATURE_BY_UNKNOWN_KEY", "UNKNOWN_EVENTS", "JOURNAL_WITHHELD"})
"""Codes that are told and decide nothing."""

NO_TRUSTED_SIGNER = frozenset({"UNSIGNED", "SIGNER_UNKNOWN", "SIGNER_EXPIRED", "TOO_FEW_SIGNERS"})
"""Codes that leave the bytes intact and nobody to vouch for them."""

CANNOT_READ = frozenset({"NOT_A_BUNDLE", "UNREADABLE"})
"""Codes that say that there was nothing to check, or no way to."""


def verify(
    bundle: Path,
    trusted: Sequence[Trusted],
    *,
    published: bool = False,
    threshold: int = 1,
    at: datetime | None = None,
    checks: Iterable[meaning.Check] = meaning.CHECKS,
) -> Verification:
    """Check the bundle in folder `bundle` against the signers that this machine trusts.

    `published` allows private files to be missing; `threshold` is how many distinct trusted keys must have signed; a
    trusted line's times are judged `at` (now). Raises BadInput where `bundle` is not a folder that can be opened.
    """
    with tree.opened(bundle) as root:
        return _verify(bundle, root, tuple(trusted), published, threshold, at or datetime.now(UTC), checks)


def _verify(
    bundle: Path,
    root: int,
    trusted: tuple[Trusted, ...],
    published: bool,
    threshold: int,
    at: datetime,
    checks: Iterable[meaning.Check],
) -> Verification:
    findings: list[Finding] = []
    signers: tuple[Signer, ...] = ()
    raw: bytes | None = None
    examined: contents.Examination | None = None
    try:
        raw = read_list(root)
        entries = tuple(tree.walk(root))
        signers, signing = _signers(root, contents.signature_files(entries), raw, trusted, threshold, at)
        findings += signing
        if not any(_decides(one) for one in signing):
            examined = contents.examine(root, entries, sums.parse(raw), published=published)
            findings += examined.findings
    except Refused as refused:
        findings.append(refused.finding)
    inside = examined.contents if examined else None
    if inside is not None:
        for check in checks:
            findings += check(inside)
        if inside.manifest.bundle_id != bundle.resolve().name:
            findings.append(finding("RENAMED", f"it was sealed as {inside.manifest.bundle_id}"))
    errors = tuple(one for one in findings if one.code not in NOTES)
    return Verification(
        bundle=sanitise(str(bundle)),
        bundle_id=sanitise(inside.manifest.bundle_id, 200) if inside else None,
        root=None if raw is None else sums.digest(raw),
        rehearsal=inside.manifest.rehearsal if inside else None,
        signers=signers,
        errors=errors,
        notes=tuple(one for one in findings if one.code in NOTES),
        files=examined.files if examined else 0,
        bytes=examined.bytes if examined else 0,
        withheld=inside.withheld if inside else (),
        exit_code=_exit_code(errors),
    )


def read_list(root: int) -> bytes:
    """The bytes of SHA256SUMS. Raises Refused: NOT_A_BUNDLE where there is none, else as `tree.read`."""
    try:
        data = tree.read(root, sums.NAME, keep=True, limit=sums.MAX_BYTES).data
    except Refused as refused:
        if refused.code == "VANISHED":
            raise Refused("NOT_A_BUNDLE", f"there is no {sums.NAME}: not sealed, or it was taken away") from None
        raise
    assert data is not None, "it was asked to be kept"
    return data


def _signers(
    root: int, files: tuple[str, ...], raw: bytes, trusted: tuple[Trusted, ...], threshold: int, at: datetime
) -> tuple[tuple[Signer, ...], list[Finding]]:
    """Who signed `raw`, and what is wrong with that. One signature that fails is an error beside any number of good."""
    found: list[Signer] = []
    findings: list[Finding] = []
    good: set[PublicKey] = set()
    strange: list[Finding] = []
    for file in files:
        try:
            data = tree.read(root, file, keep=True, limit=sshsig.MAX_BYTES).data
            signature = sshsig.parse(data or b"")
            sshsig.check(signature, raw)
        except Refused as refused:
            findings.append(finding(refused.code, refused.words, file))
            continue
        key = signature.key
        lines = named(trusted, key)
        valid = [line for line in lines if line.valid(at)]
        if valid:
            good.add(key)
        elif lines:
            words = f"{key.fingerprint} was trusted as {lines[0].principal} at other times only"
            strange.append(finding("SIGNER_EXPIRED", words, file))
        else:
            strange.append(finding("SIGNER_UNKNOWN", f"nobody on this machine knows {key.fingerprint}", file))
        principal = valid[0].principal if valid else None
        found.append(Signer(file=file, key_type=key.type, fingerprint=key.fingerprint, principal=principal))
    if not files:
        findings.append(finding("UNSIGNED", "there is no signature"))
    elif good:
        findings += [finding("SIGNATURE_BY_UNKNOWN_KEY", one.words, one.path) for one in strange]
    else:
        findings += strange
    if good and len(good) < threshold:
        findings.append(finding("TOO_FEW_SIGNERS", f"{len(good)} trusted key(s) signed, {threshold} are asked for"))
    return tuple(found), findings


def _decides(one: Finding) -> bool:
    """Whether a finding of the signatures ends the verification: nothing behind it is vouched for."""
    return one.code not in NOTES and one.code not in NO_TRUSTED_SIGNER


def _exit_code(errors: tuple[Finding, ...]) -> int:
    codes = {one.code for one in errors}
    if codes - NO_TRUSTED_SIGNER - CANNOT_READ:
        return exit_codes.CHECK_FAILED
    if codes & CANNOT_READ:
        return exit_codes.BAD_INPUT
    return exit_codes.NO_TRUSTED_SIGNER if codes else exit_codes.GOOD
