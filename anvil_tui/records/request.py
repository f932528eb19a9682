"""One measured request: what was asked, what came back and when. Yielded by `probes`, aggregated in `evidence`."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Outcome = Literal[
    "ok",
    "no_visible_content",
    "truncated",
    "error_in_stream",
    "empty_stream",
    "no_finish_reason",
    "disconnected",
    "timeout",
    "http_error",
    "rejected_too_long",
    "cancelled",
    "not_sent",
]
TimeoutKind = Literal["connect", "not_admitted", "first_token", "between_tokens", "total"]
OutputLength = Literal["natural", "fixed"]


class SizingAttempt(Struct, frozen=True, kw_only=True):
    """One call that sized a prompt: characters tried, tokens counted."""

    characters: int
    tokens: int


class Sizing(Struct, frozen=True, kw_only=True):
    """How a prompt got its length. `tolerance` is 0 with the engine's own tokenizer."""

    target_tokens: int
    counted_tokens: int | None
    method: Literal["tokenizer", "calibrated", "none"]
    tolerance: int
    attempts: tuple[SizingAttempt, ...] = ()
    error: str | None = None


class Needle(Struct, frozen=True, kw_only=True):
    """A code hidden in the prompt, and whether the visible answer held it; null where no whole answer came."""

    depth: float
    code: str
    found: bool | None


class RequestError(Struct, frozen=True, kw_only=True):
    """What a server or the transport said when a request failed. Texts are bounded to 4 KiB and sanitised."""

    message: str
    type: str | None = None
    param: str | None = None
    code: str | None = None
    status: int | None = None
    body: str | None = None


class RequestRecord(Struct, frozen=True, kw_only=True):
    """Everything that a client can know of one streamed request.

    Durations are milliseconds from `sent`, the moment before the first byte of the request was written on an open
    connection; `connect_ms` stands apart (the seeds' clock = ours + connect). Null is unknown, never zero.
    """

    request_index: int
    outcome: Outcome
    timeout: TimeoutKind | None = None
    error: RequestError | None = None
    warnings: tuple[str, ...] = ()
    """Words from a closed list, such as `not_smooth`, `max_tokens_clamped`, `short_output`, `repeated_output`."""

    # What was asked
    model: str
    max_tokens: int
    output_length: OutputLength = "natural"
    reasoning_effort: str | None = None
    nonce: str | None = None
    cache_salt: bool = False
    """Whether the request carried a cache salt of its own."""
    sizing: Sizing | None = None
    needle: Needle | None = None
    body_sha256: str | None = None
    request_id: str | None = None

    # When, all from the monotonic clock of this boot
    sent_at: str | None = None
    sent_us: int | None = None
    ended_us: int | None = None
    connect_ms: float | None = None
    headers_ms: float | None = None
    first_chunk_ms: float | None = None
    time_to_first_output_ms: float | None = None
    """First reasoning, content, refusal or tool delta."""
    ttft_ms: float | None = None
    """First visible content."""
    last_token_ms: float | None = None
    e2e_ms: float | None = None
    """End of the stream, usage chunk and terminator included, as in the seeds."""
    max_gap_ms: float | None = None
    arrivals_us: tuple[int, ...] = ()
    """Arrival of each event with output, as differences to the one before; the first counts from `sent`."""
    smooth: bool | None = None
    """False where tokens came in a burst: its rate says nothing."""

    # What came
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    """`usage.completion_tokens`: reasoning included."""
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    accepted_draft_tokens: int | None = None
    first_count: int | None = None
    """Completion tokens that the first output chunk already carried, where the engine says so."""
    reasoning_chunks: int = 0
    content_chunks: int = 0
    tool_chunks: int = 0
    finish_reason: str | None = None
    saw_done: bool = False
    content: str | None = None
    """Visible answer, sanitised and bounded; kept private."""
    reasoning: str | None = None

    # Rates of this one request
    generation_ms: float | None = None
    visible_generation_ms: float | None = None
    effective_prefill_tok_s: float | None = None
    decode_tok_s: float | None = None
    """(last count − first count) / (last − first token time) where the engine counts as it streams, else as seeds."""
    decode_tok_s_seed: float | None = None
    """(completion tokens − 1) / (E2E − first output), as in the seeds."""
    mean_inter_token_latency_ms: float | None = None

    # Around it
    host_pauses: tuple[str, ...] = ()
