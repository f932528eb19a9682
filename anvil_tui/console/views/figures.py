"""Figures and outside texts as they stand on the screen. What is unknown is a dash, never a zero."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len
from textual.content import Content

from anvil_tui.console.snapshot import Level
from anvil_tui.records.vram import MIB, Verdict
from anvil_tui.text import sanitise

DASH = "–"
STYLES: dict[Level, str] = {"info": "", "good": "$text-success", "warn": "$text-warning", "bad": "bold $text-error"}


@dataclass(frozen=True)
class Row:
    """One line of a list: what it is known by, and how it reads. A row that is no choice cannot be chosen."""

    id: str
    content: Content
    choice: bool = True


def outside(text: str, limit: int = 400) -> str:
    """Outside text as one line that is safe to show."""
    return " ".join(sanitise(text, limit).split("\n")).expandtabs(4)


def fit(text: str, width: int) -> str:
    """Text cut to `width` cells, with an ellipsis where something is missing."""
    if width <= 0:
        return ""
    if cell_len(text) <= width:
        return text
    kept = text[:width]
    while kept and cell_len(kept) > width - 1:
        kept = kept[:-1]
    return kept + "…"


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Text in exactly `width` cells."""
    shown = fit(text, width)
    blank = " " * (width - cell_len(shown))
    return blank + shown if right else shown + blank


def count(value: float | int | None) -> str:
    """A whole number with thousands apart."""
    return DASH if value is None else f"{value:,.0f}"


def mib(size: int | None) -> str:
    """Bytes as whole MiB, rounded down: what is short of a limit never looks as if it met it."""
    return DASH if size is None else f"{size // MIB:,}"


def signed_mib(size: int | None) -> str:
    """A margin in MiB with its sign."""
    if size is None:
        return DASH
    return f"+{size // MIB:,}" if size >= 0 else f"−{-(size // MIB):,}"


def rate(value: float | None) -> str:
    """Tokens a second: one decimal below a thousand."""
    if value is None:
        return DASH
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def span(seconds: float | None) -> str:
    """A length of time: `4.1 s`, `4m27s`, `2h05m`, `3d04h`."""
    if seconds is None:
        return DASH
    if seconds < 60:
        return f"{max(0.0, seconds):.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours < 24 else f"{hours // 24}d{hours % 24:02d}h"


def clock_of(at: str | None) -> str:
    """The time of day of an RFC 3339 stamp."""
    return outside(at[11:19], 8) if at is not None and len(at) >= 19 else DASH


VERDICTS: dict[Verdict, tuple[str, Level]] = {
    "PASS": ("PASS", "good"),
    "PASS (spill not checked)": ("PASS, spill?", "good"),
    "FAIL": ("FAIL", "bad"),
    "INCOMPLETE": ("INCOMPLETE", "warn"),
    "UNKNOWN": ("UNKNOWN", "warn"),
}
"""Short words of a reserve verdict, and how it is coloured."""
