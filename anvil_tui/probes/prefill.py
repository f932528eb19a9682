"""How far a long prompt is while the engine works on it, from its KV usage: pure functions over readings of /metrics.

`prompt_tokens_total` stands still until the first token, but the KV usage grows with every chunk of a prefill. How much
a token adds is learnt from the rung before; the reported pool size only serves until then.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from msgspec import Struct

RATE_WINDOW_S = 5.0
STALL_S = 30.0
SHORTEST_DEADLINE_S = 60.0
DEADLINE_FACTOR = 3.0
_MOVED = 1e-9


class KvReading(Struct, frozen=True):
    """KV usage (0 to 1) and requests running at one moment of the monotonic clock; null is not said."""

    at_us: int
    usage: float | None
    running: float | None = None
    waiting: float | None = None


class Prefill(Struct, frozen=True, kw_only=True):
    """Where a prefill stands; null is unknown."""

    tokens: float | None
    """Prompt tokens in the cache so far."""
    share: float | None
    """0 to 1."""
    tok_s: float | None
    """Over the last seconds."""
    left_s: float | None
    still_s: float
    """Since the KV usage last moved."""
    verdict: str
    """`moving`, `waiting` (not admitted), `stalled`, or `unknown`."""


class PrefillCurve(Struct, frozen=True, kw_only=True):
    """t = k (n + b n²): seconds until the first token of a prompt of n tokens."""

    k: float
    b: float

    def seconds(self, tokens: int) -> float:
        return self.k * (tokens + self.b * tokens * tokens)


def share_per_token(usage_before: float, usage_at_first_token: float, prompt_tokens: int) -> float | None:
    """What share of the KV cache one prompt token took in a finished rung; None where nothing was seen to grow."""
    gained = usage_at_first_token - usage_before
    return gained / prompt_tokens if gained > 0 and prompt_tokens > 0 else None


def estimate(
    readings: Sequence[KvReading], target_tokens: int, per_token: float | None, now_us: int, *, stall_s: float = STALL_S
) -> Prefill:
    """Where the prefill of `target_tokens` stands at `now_us`.

    `readings` in the order of time, the first from before the request; `per_token` is the share of the cache that a
    token takes (`share_per_token` of the rung before, else 1 / pool tokens). A stall is `stall_s` without movement
    while the engine says that it runs something.
    """
    known = [one for one in readings if one.usage is not None]
    if not known:
        return Prefill(tokens=None, share=None, tok_s=None, left_s=None, still_s=0.0, verdict="unknown")
    base = known[0].usage or 0.0
    last = known[-1]
    moved_us = known[0].at_us
    for before, after in itertools.pairwise(known):
        if abs((after.usage or 0.0) - (before.usage or 0.0)) > _MOVED:
            moved_us = after.at_us
    still_s = (now_us - moved_us) / 1e6
    verdict = "moving"
    if last.running == 0 and (last.waiting or 0) > 0:
        verdict = "waiting"
    elif still_s >= stall_s:
        verdict = "stalled" if last.running else "unknown"
    if per_token is None or per_token <= 0:
        return Prefill(tokens=None, share=None, tok_s=None, left_s=None, still_s=still_s, verdict=verdict)

    def tokens_at(reading: KvReading) -> float:
        return min(max(0.0, ((reading.usage or 0.0) - base) / per_token), float(target_tokens))

    tokens = tokens_at(last)
    start = next((one for one in known if last.at_us - one.at_us <= RATE_WINDOW_S * 1e6), last)
    passed_s = (last.at_us - start.at_us) / 1e6
    rate = (tokens - tokens_at(start)) / passed_s if passed_s > 0 else None
    return Prefill(
        tokens=tokens,
        share=tokens / target_tokens,
        tok_s=rate,
        left_s=(target_tokens - tokens) / rate if rate else None,
        still_s=still_s,
        verdict=verdict,
    )


def fit(rungs: Sequence[tuple[int, float]]) -> PrefillCurve | None:
    """The curve through finished rungs, (prompt tokens, seconds to first output); least squares of relative errors.

    One rung, or rungs that fall below a straight line, give b = 0. None without rungs.
    """
    points = [(n, t) for n, t in rungs if n > 0 and t > 0]
    if not points:
        return None
    # t/n = k + c n, weighted by n/t, so that relative errors count alike.
    weights = [(n / t) ** 2 for n, t in points]
    total = sum(weights)
    mean_n = sum(w * n for w, (n, _) in zip(weights, points, strict=True)) / total
    mean_y = sum(w * t / n for w, (n, t) in zip(weights, points, strict=True)) / total
    spread = sum(w * (n - mean_n) ** 2 for w, (n, _) in zip(weights, points, strict=True))
    slope = 0.0
    if spread > 0:
        slope = sum(w * (n - mean_n) * (t / n - mean_y) for w, (n, t) in zip(weights, points, strict=True)) / spread
    if slope <= 0:
        return PrefillCurve(k=mean_y, b=0.0)
    k = max(mean_y - slope * mean_n, mean_y / 1000)
    return PrefillCurve(k=k, b=slope / k)


def deadline_s(tokens: int, curve: PrefillCurve | None) -> float | None:
    """Seconds that the first token of a prompt may take: three times the prediction, at least a minute.

    None without a finished rung to learn from: then only a stall ends the wait.
    """
    return None if curve is None else max(SHORTEST_DEADLINE_S, DEADLINE_FACTOR * curve.seconds(tokens))
