"""The console's own words and the campaign's events, newest last."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from anvil_tui.console.snapshot import Level, Note
from anvil_tui.console.views.figures import STYLES, clock_of, fit, outside

_SIGNS: dict[Level, str] = {"info": " ", "good": "+", "warn": "!", "bad": "×"}


def merged(campaign: Sequence[Note], own: Sequence[Note]) -> list[Note]:
    """Both by time."""
    return sorted((*campaign, *own), key=lambda note: note.at)


def note_line(note: Note, width: int) -> Content:
    """One note in a line, its level told by a sign and by its colour."""
    room = max(0, width - 11)
    words = fit(outside(note.words, 1000), room)
    return Content.assemble(
        (clock_of(note.at), "$foreground-muted"), " ", (f"{_SIGNS[note.level]} {words}", STYLES[note.level])
    )


def note_lines(notes: Sequence[Note], width: int, height: int) -> Content:
    """The newest notes that fit into a box."""
    return Content("\n").join([note_line(note, width) for note in notes[-height:]]) if height > 0 else Content("")
