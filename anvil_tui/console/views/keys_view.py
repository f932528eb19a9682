"""The key line and the help, both from the one table of keys."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from anvil_tui.console.keys import Key


def key_line(keys: Sequence[Key], dim: frozenset[str], width: int) -> Content:
    """The keys that fit into one line; those that do nothing now are dim, and the palette stands last."""
    last = [(" ^p", "bold $text-primary"), (" All ", "")]
    room = width - 8
    parts: list[tuple[str, str]] = []
    for key in keys:
        if not key.hint:
            continue
        if len(key.label) + len(key.hint) + 3 > room:
            break
        off = key.id in dim
        parts += [(f" {key.label}", "$foreground-disabled" if off else "bold $text-primary")]
        parts += [(f" {key.hint} ", "$foreground-disabled" if off else "")]
        room -= len(key.label) + len(key.hint) + 3
    return Content.assemble(*parts, *last)


def help_lines(keys: Sequence[Key]) -> list[Content]:
    """Every key by area."""
    lines: list[Content] = []
    areas = list(dict.fromkeys(key.title.partition(":")[0] for key in keys))
    for area in areas:
        lines += [Content(""), Content.styled(area.upper(), "bold $text-primary")]
        for key in keys:
            head, _, words = key.title.partition(": ")
            if head == area:
                lines.append(Content.assemble((f"  {key.label:<6}", "bold $text-primary"), words))
    lines += [
        Content(""),
        Content.styled("WORDS", "bold $text-primary"),
        Content("  ALARM    free memory is below the reserve; WAIVED where the profile waives it"),
        Content("  NEAR     less than 256 MiB above the reserve"),
        Content("  STALE    the newest sample is older than three periods; its figure is not shown"),
        Content("  worst    least free memory since these samples began"),
        Content("  band     the last 8 GiB: solid to each column's least, shaded to its most, dashes at the reserve"),
    ]
    return lines[1:]
