"""What a comparison of two arms is made of: verdict rule, effects, invariants, caveats."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct


class VerdictRule(Struct, frozen=True, kw_only=True):
    """How verdicts are reached; fixed before the first run."""

    level: Annotated[float, Meta(gt=0.5, lt=1)] = 0.95
    """Confidence level of every interval."""
    equivalence_percent: Annotated[float, Meta(gt=0)] = 2.0
    """An interval that lies within ± this is `equivalent`."""


class Effect(Struct, frozen=True, kw_only=True):
    """Candidate against baseline for one metric, over blocks; a block is one load of each arm. Percent of baseline."""

    blocks: int
    method: str
    estimate_percent: float | None
    low_percent: float | None
    high_percent: float | None
    level: float | None
    """Confidence that the interval really has; exact intervals are at least what was asked."""
    p_value: float | None
    verdict: str
    words: str


class Invariant(Struct, frozen=True, kw_only=True):
    """Something that must be the same in both arms, and how that was established."""

    text: str
    status: Literal["observed", "declared", "violated"]
    baseline: str | None
    candidate: str | None
    evidence: tuple[str, ...]


class Caveat(Struct, frozen=True, kw_only=True):
    """What a reader must know before believing a figure, found by a rule."""

    rule: str
    text: str
    evidence: tuple[str, ...]
