"""The figures of one request from its time stamps and token counts: pure functions. Null is unknown, never zero."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from msgspec import Struct

BURST_WINDOW_MS = 50.0
"""Tokens that all come within this time say nothing about a rate."""
_MANY = 8
"""So many chunks within the burst window are a burst; fewer are only too short to tell."""


class SeedFigures(Struct, frozen=True, kw_only=True):
    """Rates as the seeds define them (`anvil-serving.benchmark/v1`, capacity-v4-reasoning)."""

    generation_ms: float | None
    visible_generation_ms: float | None
    effective_prefill_tok_s: float | None
    decode_tok_s: float | None
    mean_inter_token_latency_ms: float | None


def seed_figures(
    *,
    first_output_ms: float | None,
    ttft_ms: float | None,
    e2e_ms: float | None,
    prompt_tokens: int | None,
    output_tokens: int | None,
) -> SeedFigures:
    """generation = E2E − first output; decode = (output tokens − 1) / generation; prefill = prompt / first output."""
    generation = _minus(e2e_ms, first_output_ms)
    steps = output_tokens - 1 if output_tokens is not None and output_tokens > 1 else None
    return SeedFigures(
        generation_ms=generation,
        visible_generation_ms=_minus(e2e_ms, ttft_ms),
        effective_prefill_tok_s=_per_second(prompt_tokens, first_output_ms),
        decode_tok_s=_per_second(steps, generation),
        mean_inter_token_latency_ms=generation / steps if generation and steps else None,
    )


class Arrival(Struct, frozen=True, gc=False):
    """A chunk that carried tokens: when, and the completion tokens counted up to it where the engine says so."""

    at_ns: int
    count: int | None = None


class Decode(Struct, frozen=True, kw_only=True):
    """The decode rate of a stream, or why there is none."""

    tok_s: float | None
    smooth: bool | None
    first_count: int | None
    """Tokens in the first chunk, as the engine counted them."""
    estimated: bool = False
    """The first chunk's tokens are taken to be the mean of all chunks."""
    short: bool = False
    """Too short to tell a rate."""


def decode(arrivals: Sequence[Arrival], output_tokens: int | None) -> Decode:
    """Tokens a second from the first chunk with tokens to the last.

    (last count − first count) / (last − first time) where every chunk carries the engine's count. Without counts the
    first of n chunks is taken to hold output_tokens / n of them, which is exact where all chunks hold as many; fewer
    tokens than chunks make no rate.
    """
    if not arrivals:
        return Decode(tok_s=None, smooth=None, first_count=None)
    first, last = arrivals[0], arrivals[-1]
    counted = all(one.count is not None for one in arrivals)
    first_count = first.count if counted else None
    if len(arrivals) == 1:
        many = max(output_tokens or 0, 1 if first_count is None else first_count) >= _MANY
        return Decode(tok_s=None, smooth=False if many else None, first_count=first_count)
    smooth = is_smooth([one.at_ns for one in arrivals])
    window_ms = (last.at_ns - first.at_ns) / 1e6
    if window_ms < BURST_WINDOW_MS:
        many = len(arrivals) >= _MANY
        return Decode(tok_s=None, smooth=False if many else None, first_count=first_count, short=not many)
    if first.count is not None and last.count is not None and counted:
        tokens: float | None = last.count - first.count
        estimated = False
    else:
        n = len(arrivals)
        tokens = None if output_tokens is None or output_tokens < n else output_tokens * (n - 1) / n
        estimated = tokens is not None and output_tokens != n
    rate = _per_second(tokens, window_ms) if smooth else None
    return Decode(tok_s=rate, smooth=smooth, first_count=first_count, estimated=estimated)


def is_smooth(stamps_ns: Sequence[int]) -> bool:
    """Whether at least half of the chunks came at an instant of their own; a burst is not a rate.

    Chunks closer than 1 ms and than a twentieth of the mean gap came at the same instant.
    """
    gaps = [after - before for before, after in pairwise(stamps_ns)]
    if not gaps:
        return True
    same = min(1_000_000.0, sum(gaps) / len(gaps) / 20)
    return 1 + sum(gap > same for gap in gaps) >= len(stamps_ns) / 2


def stalls(stamps_ns: Sequence[int]) -> list[tuple[int, int]]:
    """Gaps of more than a second and of 20 times the median gap, as (start, end) in the stamps' own clock."""
    pairs = list(pairwise(stamps_ns))
    if not pairs:
        return []
    limit = max(1_000_000_000.0, 20 * median(after - before for before, after in pairs))
    return [(before, after) for before, after in pairs if after - before > limit]


def _minus(later: float | None, earlier: float | None) -> float | None:
    return None if later is None or earlier is None else later - earlier


def _per_second(tokens: float | None, ms: float | None) -> float | None:
    """tokens / ms as tokens a second; None where either is unknown or no time passed."""
    return tokens / (ms / 1000) if tokens is not None and ms is not None and ms > 0 else None
