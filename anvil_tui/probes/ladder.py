"""Which prompt lengths a ladder tries: pure plans. A limit found by bisection holds to a tolerance in tokens."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from anvil_tui.errors import BadInput, Fault


def geometric(first: int, last: int, factor: float = 2.0) -> tuple[int, ...]:
    """Rungs in tokens from `first`, each `factor` times the one before, and `last` itself as the end.

    Raises BadInput where first < 1, last < first, or factor ≤ 1.
    """
    faults = []
    if first < 1:
        faults.append(Fault("first", str(first), "at least 1 token"))
    if last < first:
        faults.append(Fault("last", str(last), f"at least the first rung, {first:,} tokens"))
    if not factor > 1:
        faults.append(Fault("factor", f"{factor:g}", "more than 1"))
    if faults:
        raise BadInput("geometric ladder", *faults)
    rungs: list[int] = []
    size = float(first)
    while round(size) < last:
        if not rungs or round(size) > rungs[-1]:
            rungs.append(round(size))
        size *= factor
    return (*rungs, last)


def ascending(targets: Iterable[int]) -> tuple[int, ...]:
    """The targets in rising order, each once, so that a lane meets the longest prompts last."""
    return tuple(sorted(set(targets)))


class Bisection(Struct, frozen=True, kw_only=True):
    """The search for the longest prompt that a lane serves.

    It climbs from `low`, doubling, since a prompt far too long may kill the engine; after the first failure it halves
    the open interval until `tolerance` tokens are left of it. `high` is the longest prompt that may be tried.
    """

    low: int
    high: int
    tolerance: int = 256
    passed: int | None = None
    """The longest prompt that was served."""
    failed: int | None = None
    """The shortest prompt that was not."""

    @property
    def next(self) -> int | None:
        """The next length to try; None when the search is over."""
        if self.failed is None:
            if self.passed is None:
                return min(self.low, self.high)
            return None if self.passed >= self.high else min(2 * self.passed, self.high)
        below = self.passed or 0
        if self.failed - below <= max(1, self.tolerance):
            return None
        return (below + self.failed) // 2

    def tried(self, tokens: int, *, served: bool) -> Bisection:
        """The search after a prompt of `tokens` was tried."""
        if served:
            return replace(self, passed=tokens if self.passed is None else max(self.passed, tokens))
        return replace(self, failed=tokens if self.failed is None else min(self.failed, tokens))

    @property
    def words(self) -> str:
        """What the search knows, in a sentence."""
        if self.passed is None:
            return "nothing was served" if self.failed else "nothing was tried"
        if self.failed is None:
            reached = ", the longest that may be tried" if self.passed >= self.high else ""
            return f"{self.passed:,} tokens were served{reached}"
        return f"{self.passed:,} tokens were served, {self.failed:,} were not"
