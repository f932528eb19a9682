"""A sentence of a result and what it rests on."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Claim(Struct, frozen=True, kw_only=True):
    """One claim. A claim without evidence cannot be proven."""

    rule: str
    text: str
    status: Literal["proven", "not proven"]
    evidence: tuple[str, ...]
    """Paths of the artifacts it rests on."""
    missing: str = ""
    """What would be needed to prove it."""
