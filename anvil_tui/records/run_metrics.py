"""The figures of one run, computed from its request records alone."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Clock = Literal["sent", "connect"]
"""Where a request's clock starts: `sent` on an open connection, or `connect` before it, as in the seeds."""


class RequestTiming(Struct, frozen=True, kw_only=True):
    """What follows from one successful request. Milliseconds and tokens a second; null is unknown."""

    time_to_first_output_ms: float | None
    ttft_ms: float | None
    e2e_ms: float | None
    generation_ms: float | None
    visible_generation_ms: float | None
    effective_prefill_tok_s: float | None
    decode_tok_s: float | None
    mean_inter_token_latency_ms: float | None


class RunMetrics(Struct, frozen=True, kw_only=True):
    """Nearest-rank percentiles over the successful requests of a run; its throughput is over the whole wall time."""

    requests: int
    completed: int
    failed: int
    wall_ms: float | None
    """First byte sent to last stream ended, failed requests included."""
    output_tokens: int | None
    prompt_tokens: int | None
    prompt_tokens_p50: float | None
    prompt_tokens_p95: float | None
    reasoning_chunks: int
    content_chunks: int
    throughput_tok_s: float | None
    prefix_cache_hit_avg: float | None
    """Mean over requests of cached / prompt tokens, where the server told them."""
    time_to_first_output_p50_ms: float | None
    time_to_first_output_p95_ms: float | None
    ttft_p50_ms: float | None
    ttft_p95_ms: float | None
    e2e_p50_ms: float | None
    e2e_p95_ms: float | None
    generation_p50_ms: float | None
    generation_p95_ms: float | None
    effective_prefill_tok_s_p50: float | None
    effective_prefill_tok_s_p95: float | None
    decode_tok_s_p50: float | None
    decode_tok_s_p95: float | None
    mean_inter_token_latency_ms_p50: float | None
    mean_inter_token_latency_ms_p95: float | None
