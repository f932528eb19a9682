"""What sealing will do, and what a verification found."""

from __future__ import annotations

from textual.content import Content

from anvil_tui import exit_codes
from anvil_tui.console.snapshot import CampaignRow
from anvil_tui.console.views.figures import STYLES, count, outside
from anvil_tui.records.bundle import Finding, SigningKey, Verification

_VERDICTS = {
    exit_codes.GOOD: ("VALID: intact and signed by a trusted key", STYLES["good"]),
    exit_codes.CHECK_FAILED: ("INVALID", STYLES["bad"]),
    exit_codes.BAD_INPUT: ("NOT CHECKED", STYLES["warn"]),
    exit_codes.NO_TRUSTED_SIGNER: (
        "NOT TRUSTED: the files are intact, but nobody whom you trust signed them",
        STYLES["warn"],
    ),
}


def seal_words(row: CampaignRow, key: SigningKey | None, *, decided: bool) -> Content:
    """What sealing and signing will do with this campaign."""
    lines = [Content.assemble((outside(row.folder.id, 200), "bold"), f"  {row.standing}")]
    if row.view.rehearsal:
        lines.append(Content.styled("REHEARSAL: the bundle says so everywhere; it is never evidence", STYLES["warn"]))
    if row.standing == "sealed":
        lines.append(Content("It is sealed already: a signature is added, nothing else changes."))
    else:
        lines.append(Content("Sealing is for good: afterwards nothing is added but signatures."))
        lines.append(Content("Private, and withheld from a published copy: logs, raw runs, samples."))
        if not decided:
            lines.append(Content.styled("No decision text stands in it; d writes one, before sealing.", STYLES["warn"]))
    if key is None:
        lines.append(
            Content.styled(
                "You have no signing key yet: it is created now and trusted on this machine.", STYLES["warn"]
            )
        )
    else:
        lines.append(Content(outside(f"Signed as {key.principal} with {key.key_type} {key.fingerprint}")))
    return Content("\n").join(lines)


def verification_lines(found: Verification) -> list[Content]:
    """What a person reads of a verification; no good word unless someone trusted signed it."""
    words, style = _VERDICTS.get(found.exit_code, ("NOT CHECKED", STYLES["warn"]))
    lines = [Content.styled(words, f"bold {style}"), Content("")]
    if found.rehearsal:
        lines.append(Content.styled("REHEARSAL: simulated; never evidence", STYLES["warn"]))
    for signer in found.signers:
        who = outside(signer.principal, 100) if signer.principal else "an unknown key"
        lines.append(Content(f"signed by {who}: {outside(signer.key_type, 40)} {outside(signer.fingerprint, 100)}"))
    for one in found.errors:
        lines.append(Content.styled(_finding(one), STYLES["bad"]))
    for one in found.notes:
        lines.append(Content(_finding(one)))
    if found.withheld:
        lines.append(Content(f"private files withheld: {len(found.withheld)}"))
    if found.root:
        lines += [
            Content(""),
            Content(f"root {outside(found.root, 100)}"),
            Content(f"{count(found.files)} files, {count(found.bytes)} bytes"),
        ]
    lines += [Content(""), Content.styled(outside(found.bundle, 1000), "$foreground-muted")]
    return lines


def _finding(one: Finding) -> str:
    where = f" {outside(one.path)}" if one.path else ""
    return f"{outside(one.code, 60)}{where}: {outside(one.words, 1000)}"
