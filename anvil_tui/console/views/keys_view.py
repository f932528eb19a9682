"""The key line and the help, both from the one table of keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from textual.content import Content

from anvil_tui.console.keys import Key
from anvil_tui.console.views.figures import outside


def key_line(keys: Sequence[Key], off: Collection[str], width: int) -> Content:
    """The keys that fit into one line; those that do nothing now are dim and in brackets; the palette stands last."""
    last = [(" ^p", "bold $text-primary"), (" All ", "")]
    room = width - 8
    parts: list[tuple[str, str]] = []
    for key in keys:
        if not key.hint:
            continue
        label = key.label.split()[0]
        if len(label) + len(key.hint) + 3 > room:
            break
        parts += key_words(label, key.hint, off=key.id in off)
        room -= len(label) + len(key.hint) + 3
    return Content.assemble(*parts, *last)


def key_words(label: str, hint: str, *, off: bool = False) -> list[tuple[str, str]]:
    """A key and its word in a key line; one that does nothing now is dim and in brackets."""
    if off:
        return [(f"({label} {hint})", "$foreground-disabled")]
    return [(f" {label}", "bold $text-primary"), (f" {hint} ", "")]


def help_lines(keys: Sequence[Key], refusals: Mapping[str, str], labels: Sequence[str] = ()) -> list[Content]:
    """Every key by area; those that do nothing now are dim and say why. `labels` are those of the top bar."""
    lines: list[Content] = []
    if "READ ONLY" in labels:
        words = "READ ONLY: nothing is started, stopped or written but what you save; u shows a lane and no more"
        lines += [Content(""), Content(words)]
    areas = list(dict.fromkeys(key.title.partition(":")[0] for key in keys))
    for area in areas:
        lines += [Content(""), Content.styled(area.upper(), "bold $text-primary")]
        for key in keys:
            head, _, words = key.title.partition(": ")
            if head != area:
                continue
            label, why = f"  {key.label:<6}", refusals.get(key.id)
            if why is None:
                lines.append(Content.assemble((label, "bold $text-primary"), words))
            else:
                lines.append(Content.styled(f"{label}{words}  (off: {outside(why)})", "$foreground-disabled"))
    lines += [
        Content(""),
        Content.styled("WORDS", "bold $text-primary"),
        Content("  ALARM    free memory is below the reserve; WAIVED where the profile waives it"),
        Content("  NEAR     less than 256 MiB above the reserve"),
        Content("  STALE    the newest sample is older than three periods; its figure is not shown"),
        Content("  worst    least free memory since these samples began"),
        Content("  + ! ×    before a message: it went well, it is a warning, it failed"),
        Content("  * ▸      before a log line: it is marked, the cursor is there; ▸ elsewhere: chosen, or running"),
        Content("  heavy    a pane with a heavy frame has the focus; a key in (brackets) does nothing now"),
        Content("  band     the last 8 GiB: solid to each column's least, shaded to its most, dashes at the reserve"),
    ]
    return lines[1:]
