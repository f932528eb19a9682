"""The rungs of a ladder's plan: how long they may be, and which they are. Told before anything is measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from anvil_tui.errors import CannotRun
from anvil_tui.records.plan import LadderPlan


def limit_tokens(max_model_len: int | None, max_tokens: int, margin: int) -> int | None:
    """Longest prompt of a plan: observed max_model_len − max_tokens − margin. Null where the length is unknown.

    The KV tokens that an engine reports are never the limit: they count what full-length requests reserve.
    """
    return None if max_model_len is None else max_model_len - max_tokens - margin


def check_targets(lane: str, max_model_len: int | None, targets: tuple[int, ...], plan: LadderPlan, how: str) -> None:
    """Refuse targets above the limit. Raises CannotRun with the arithmetic."""
    limit = limit_tokens(max_model_len, plan.max_tokens, plan.margin)
    above = [target for target in targets if limit is not None and target > limit]
    if above:
        named = ", ".join(f"{target:,}" for target in above)
        raise CannotRun(
            f"{lane}: target {named} is above the limit of {limit:,} tokens = {how} max_model_len {max_model_len:,}"
            f" − max_tokens {plan.max_tokens:,} − margin {plan.margin:,}; nothing was sent"
        )


@dataclass(frozen=True)
class Rung:
    """One planned rung: its number, which decides its nonce, its target and the depth of its needle."""

    number: int
    target_tokens: int
    needle_depth: float | None = None


def rungs_of(plan: LadderPlan) -> tuple[Rung, ...]:
    """The rungs of a plan of fixed targets, in order: each target, repeated, then once for each needle."""
    return tuple(Rung(number, *one) for number, one in enumerate(_each(plan)))


def _each(plan: LadderPlan) -> Iterator[tuple[int, float | None]]:
    for _ in range(plan.repetitions):
        for target in plan.targets:
            yield target, None
            yield from ((target, depth) for depth in plan.needle_depths)
