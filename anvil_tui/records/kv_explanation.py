"""What an engine reported of its KV cache, and the arithmetic behind it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class KvReport(Struct, frozen=True, kw_only=True):
    """KV figures of one start as the engine told them. GiB = 2**30 bytes; null is not said."""

    path: str
    source: Literal["metrics", "log"]
    engine: str | None = None
    engine_version: str | None = None
    model: str | None = None
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    speculation: str | None = None
    """The method; empty where the start says that there is none, null where it says nothing."""
    async_scheduling: bool | None = None
    pipeline_parallel_size: int | None = None
    context_parallel_size: int | None = None
    """Ranks that share the context of one request (vLLM's decode context parallelism)."""
    available_gib: float | None = None
    """Of the smallest rank, rounded by the engine to 0.01."""
    tokens: int | None = None
    concurrency: float | None = None
    """Exact from metrics, rounded to 0.01 in a log."""
    num_blocks: int | None = None
    block_size: int | None = None


class KvCheck(Struct, frozen=True, kw_only=True):
    """A sum that the reported figures must satisfy."""

    rule: str
    holds: bool
    words: str


class KvPrediction(Struct, frozen=True, kw_only=True):
    """What the same KV memory would report at another context length."""

    max_model_len: int
    tokens: int
    concurrency: float
    blocks_per_request: int


class KvExplanation(Struct, frozen=True, kw_only=True):
    """The report of one start explained, or not. `blocks` × full lengths / `blocks_per_request` = reported tokens."""

    report: KvReport
    status: Literal["explained", "not explained"]
    formula: str
    geometry: str | None = None
    inferred: tuple[str, ...] = ()
    """What the start does not tell and only the fit says."""
    blocks: int | None = None
    blocks_per_request: int | None = None
    max_num_batched_tokens: int | None = None
    in_flight: int | None = None
    """Tokens that may be scheduled at once."""
    bytes_per_block: int | None = None
    groups: dict[str, int] = {}
    """Blocks that one full-length request may hold, by cache group, before the build's own scale."""
    context_blocks: int | None = None
    """Those of them that hold the request's context; the rest is reserved for tokens in flight."""
    kv_gib: float | None = None
    """blocks × bytes per block."""
    gib_per_full_request: float | None = None
    chance: float | None = None
    """How likely a random token count would fit as well."""
    checks: tuple[KvCheck, ...] = ()
    prediction: KvPrediction | None = None
    words: str = ""


class KvFactor(Struct, frozen=True, kw_only=True):
    """One cause of a change and what it did."""

    cause: str
    factor: float
    words: str


class KvChange(Struct, frozen=True, kw_only=True):
    """Why one start reports other tokens than another: factors whose product is the ratio of the reports."""

    baseline: str
    candidate: str
    status: Literal["explained", "split", "not explained"]
    """`split`: without block counts, divided into bytes and reservation by rounded GiB."""
    tokens_percent: float | None
    gib_percent: float | None
    factors: tuple[KvFactor, ...]
    words: str
