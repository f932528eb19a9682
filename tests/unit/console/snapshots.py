"""Comparing a screen with the one that was looked at and kept: `ANVIL_TUI_UPDATE_SNAPSHOTS=1` keeps new ones."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "data" / "snapshots"
UPDATE = os.environ.get("ANVIL_TUI_UPDATE_SNAPSHOTS") == "1"


def same(name: str, shown: str) -> None:
    """Assert that a screen is as it was kept under this name."""
    path = FOLDER / name
    if UPDATE:
        path.write_text(shown + "\n", encoding="utf-8")
    assert path.exists(), f"no snapshot {name}; ANVIL_TUI_UPDATE_SNAPSHOTS=1 keeps this one:\n{shown}"
    kept = path.read_text(encoding="utf-8").removesuffix("\n")
    assert shown == kept, f"{name} differs from what was kept:\n{shown}"
