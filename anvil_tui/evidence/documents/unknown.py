"""Fields without evidence: null, and why."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


class Unknown:
    """Collects the reason of each field of a document that stays null."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    def note(self, field: str, value: T | None, reason: str) -> T | None:
        """`value` as it is; where it is None, `reason` is kept under `field`."""
        if value is None:
            self.reasons[field] = reason
        return value
