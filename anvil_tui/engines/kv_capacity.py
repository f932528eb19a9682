"""What a vLLM build means by "GPU KV cache size: N tokens", by version and cache geometry.

Until 0.20 the figure is a pool size. From 0.21 on it is admission capacity: how many full-length requests fit, times
the full length, `int(blocks / reservation × max_model_len)`. The reservation is what one full-length request may hold
over all cache groups, tokens in flight included, so it depends on `max_num_batched_tokens`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Accounting = Literal["pool", "grouped pool", "admission"]

FORMULAS: dict[Accounting, str] = {
    "pool": "tokens = blocks × block size (vLLM before 0.9.1)",
    "grouped pool": "tokens = blocks // groups × block size (vLLM 0.9.1 to 0.20)",
    "admission": "tokens = int(blocks / blocks per full-length request × max_model_len) (vLLM 0.21 and later)",
}

GIB = 1 << 30


@dataclass(frozen=True)
class KvGroup:
    """Layers that share block tables. `window` is 0 for full attention."""

    name: str
    block_size: int
    window: int = 0

    def blocks(self, max_model_len: int, in_flight: int, sharing: int = 1) -> int:
        """Blocks that one full-length request may hold in this group while `in_flight` tokens are scheduled and
        `sharing` ranks share the context."""
        if not self.window:
            return math.ceil(max_model_len / sharing / self.block_size)
        return math.ceil(min(self.window - 1 + in_flight, max_model_len) / self.block_size) + 1


@dataclass(frozen=True)
class KvGeometry:
    """The cache of one model family in one line of builds."""

    name: str
    model: re.Pattern[str]
    build: str
    speculation: bool | None
    """Whether it holds with or without a draft model; None for both."""
    groups: tuple[KvGroup, ...]
    bytes_per_block: int
    scale: Fraction = Fraction(1)
    """What these builds multiply the reservation by, rounded up."""

    def group_blocks(self, max_model_len: int, in_flight: int, sharing: int = 1) -> dict[str, int]:
        """Blocks of one full-length request by group."""
        return {group.name: group.blocks(max_model_len, in_flight, sharing) for group in self.groups}

    def blocks_per_request(self, max_model_len: int, in_flight: int, sharing: int = 1) -> int:
        """The reservation of one full-length request, in blocks."""
        return math.ceil(sum(self.group_blocks(max_model_len, in_flight, sharing).values()) * self.scale)

    def context_blocks(self, max_model_len: int, sharing: int = 1) -> int:
        """Blocks that hold the context itself: those of the groups with full attention."""
        return sum(group.blocks(max_model_len, 0, sharing) for group in self.groups if not group.window)


_DEEPSEEK_V4 = re.compile(r"deepseek[-_ ]?v4|ds4", re.IGNORECASE)
_DEEPSEEK_V4_GROUPS = (
    KvGroup("MLA and indexer", 256),
    KvGroup("sliding window a", 64, 128),
    KvGroup("sliding window b", 64, 128),
    KvGroup("C4 state", 4, 8),
    KvGroup("C128 state", 8, 128),
)

GEOMETRIES: tuple[KvGeometry, ...] = (
    KvGeometry(
        name="DeepSeek-V4 in builds r16 to r33, no speculation",
        model=_DEEPSEEK_V4,
        build="r16 to r33",
        speculation=False,
        groups=_DEEPSEEK_V4_GROUPS,
        bytes_per_block=22 * 37440 + 21 * 8640 + 20 * 1728,
        scale=Fraction(47808 * 22, 22 * 37440 + 21 * 8640 + 20 * 1728),
    ),
    KvGeometry(
        name="DeepSeek-V4 in builds r16 to r33, with DSpark",
        model=_DEEPSEEK_V4,
        build="r16 to r33",
        speculation=True,
        groups=_DEEPSEEK_V4_GROUPS,
        bytes_per_block=23 * 37440 + 21 * 8640 + 20 * 1728,
        scale=Fraction(47808 * 23, 23 * 37440 + 21 * 8640 + 20 * 1728),
    ),
    KvGeometry(
        name="DeepSeek-V4 in vLLM 0.26 and later",
        model=_DEEPSEEK_V4,
        build="0.26 and later",
        speculation=None,
        groups=_DEEPSEEK_V4_GROUPS,
        bytes_per_block=1002240,
    ),
)


USUAL_BATCHES = (1024, 2048, 4096, 8192, 16384, 32768)
"""Values of max_num_batched_tokens that occur where a start does not tell it."""


def tokens_in_flight(max_num_batched_tokens: int, async_scheduling: bool | None = None) -> int:
    """Tokens that may be scheduled at once: two batches, one where asynchronous scheduling is known to be off.

    Source: `max_in_flight_tokens` since 2026-07; the builds that the geometries name all count so.
    """
    return max_num_batched_tokens * (1 if async_scheduling is False else 2)


def reported_tokens(blocks: int, blocks_per_request: int, max_model_len: int) -> int:
    """The engine's own figure, in the engine's own floating point."""
    return int(blocks / blocks_per_request * max_model_len)


def matching_blocks(tokens: int, blocks_per_request: int, max_model_len: int) -> int | None:
    """The whole number of blocks that reports exactly `tokens`, or None; a random count fits with chance R / length."""
    near = tokens * blocks_per_request // max_model_len
    fits = [
        blocks
        for blocks in range(max(1, near - 1), near + 3)
        if reported_tokens(blocks, blocks_per_request, max_model_len) == tokens
    ]
    return fits[0] if fits else None


def build_line(version: str | None) -> str | None:
    """The line of builds that a geometry is keyed by; None where the version tells none."""
    if version is None:
        return None
    if "infernal" in version.lower():
        return "0.26 and later"
    if re.search(r"(?<![A-Za-z0-9])r(1[6-9]|2\d|3[0-3])(?![A-Za-z0-9])", version):
        return "r16 to r33"
    number = _number(version)
    return "0.26 and later" if number is not None and number >= (0, 26, 0) else None


def accounting(version: str | None) -> Accounting | None:
    """What this version's token count means; None where the version is unknown."""
    if build_line(version) is not None:
        return "admission"
    number = _number(version) if version else None
    if number is None:
        return None
    return "pool" if number < (0, 9, 1) else "grouped pool" if number < (0, 21, 0) else "admission"


def known_geometries(model: str | None, version: str | None, speculation: bool | None) -> tuple[KvGeometry, ...]:
    """Geometries that may hold for this start; what is not told is left open, the model included."""
    line = build_line(version)
    return tuple(
        one
        for one in GEOMETRIES
        if (model is None or one.model.search(model))
        and (line == one.build or version is None)
        and (speculation is None or one.speculation in (None, speculation))
    )


def _number(version: str) -> tuple[int, int, int] | None:
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None
