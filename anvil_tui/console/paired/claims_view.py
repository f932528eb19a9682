"""What a pair proves and what it does not, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from anvil_tui.console.paired.comparison import Claim, Comparison
from anvil_tui.console.paired.words import MUTED, paragraph, title, wrapped
from anvil_tui.console.snapshot import Level
from anvil_tui.console.views.figures import STYLES


def claims(comparison: Comparison, width: int) -> list[Content]:
    """KV tokens explained, claims proven and not proven, caveats."""
    found = comparison.conclusions
    if found.refused:
        return paragraph(f"no comparison can be made: {found.refused}", width, STYLES["bad"])
    if comparison.baseline is None:
        return [Content("one arm alone: it ends in its acceptance conditions, not in a comparison")]
    if not found.proven and not found.not_proven and not found.caveats:
        return [Content.styled("nothing to compare yet: both arms need a run that was kept", MUTED)]
    shown: list[Content] = []
    for head, texts in (("Reported KV tokens", found.kv), ("Violated invariants", found.violated)):
        shown += _section(head, [Claim(text) for text in texts], width)
    shown += _section(f"Proven  {len(found.proven)}", found.proven, width, "good")
    shown += _section(f"Not proven  {len(found.not_proven)}", found.not_proven, width, "warn")
    shown += _section(f"Caveats  {len(found.caveats)}", [Claim(text) for text in found.caveats], width)
    if found.decision:
        shown += _section("Decision text of the document", [Claim(found.decision)], width)
    return shown


def _section(head: str, claims: Sequence[Claim], width: int, level: Level = "info") -> list[Content]:
    if not claims:
        return []
    shown = [title(head)]
    for claim in claims:
        first, *rest = wrapped(claim.text, width - 2) or [""]
        shown.append(Content.assemble(("· ", STYLES[level]), first))
        shown += [Content(f"  {line}") for line in rest]
        if claim.missing:
            shown += paragraph(f"missing: {claim.missing}", width, MUTED, "  ")
    return [*shown, Content("")]
