"""Files that the operator saves: screenshots, log lines, what no clipboard takes. 0600, and never one over another."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from anvil_tui import clock
from anvil_tui.files import write_new
from anvil_tui.locations import Locations


def save(locations: Locations, what: str, suffix: str, data: bytes) -> Path:
    """Write `WHAT-TIME.SUFFIX`, numbered where that stands already, into the state folder; its path.

    Raises OSError where it cannot be written.
    """
    locations.state.mkdir(parents=True, mode=0o700, exist_ok=True)
    stem = f"{what}-{clock.utc_basic()}"
    for number in count(1):
        path = locations.state / f"{stem}{f'-{number}' if number > 1 else ''}.{suffix}"
        try:
            write_new(path, data)
        except FileExistsError:
            continue
        return path
    raise AssertionError("numbers do not end")


def told(path: Path) -> str:
    """A path as short as it can be told: a message has one line, and what is cut is not told."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
