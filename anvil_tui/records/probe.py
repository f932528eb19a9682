"""What the runner asks of the probe child on its stdin, and what comes back on its stdout; one JSON line each."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from anvil_tui.records.lane import Effort, Positive
from anvil_tui.records.live import RequestPhase
from anvil_tui.records.request import OutputLength, RequestRecord, Sizing


class Target(Struct, frozen=True, kw_only=True):
    """Where requests go. The key itself never crosses: the child reads it from its environment."""

    base_url: str
    """Without `/v1`."""
    model: str
    api_key_env: str | None = None


class Deadlines(Struct, frozen=True, kw_only=True):
    """Seconds; null means none. Each one that strikes is named in the record."""

    connect_s: float | None = 10.0
    first_token_s: float | None = None
    between_tokens_s: float | None = 120.0
    total_s: float | None = None


class MeasureRung(Struct, frozen=True, kw_only=True, tag_field="do", tag="measure_rung"):
    """Size a prompt to `target_tokens` and send it once, streamed."""

    id: str
    target: Target
    request_index: int
    target_tokens: Positive
    max_tokens: Positive
    limit_tokens: int | None
    """Prompts above it are not sent; null is unknown."""
    reasoning_effort: Effort | None = None
    output_length: OutputLength = "natural"
    nonce: Annotated[str, Meta(min_length=1)]
    cache_salt: bool = True
    needle_depth: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Hide a code at this depth of the prompt, 0 (start) to 1 (end), and ask for it; null asks about the text."""
    deadlines: Deadlines = Deadlines()


class ProbeUrl(Struct, frozen=True, kw_only=True, tag_field="do", tag="probe_url"):
    """One measured request to any OpenAI-compatible server, which needs nothing but chat completions.

    Without `prompt_tokens` the prompt is a short question whose length nobody sized.
    """

    id: str
    target: Target
    prompt_tokens: Positive | None = None
    max_tokens: Positive = 256
    reasoning_effort: Effort | None = None
    output_length: OutputLength = "natural"
    nonce: Annotated[str, Meta(min_length=1)]
    deadlines: Deadlines = Deadlines()


class CancelProbe(Struct, frozen=True, kw_only=True, tag_field="do", tag="cancel"):
    """Close the connection of request `id` now; its record comes back as `cancelled`."""

    id: str


ProbeAsk = MeasureRung | ProbeUrl | CancelProbe


class ProbeReady(Struct, frozen=True, kw_only=True, tag_field="kind", tag="ready"):
    """First line: everything is imported."""

    tool_version: str
    pid: int


class ProbeSized(Struct, frozen=True, kw_only=True, tag_field="kind", tag="sized"):
    """The prompt of request `id` has its length, or could not get it."""

    id: str
    sizing: Sizing


class ProbeProgress(Struct, frozen=True, kw_only=True, tag_field="kind", tag="progress"):
    """Where request `id` stands; at most ten a second."""

    id: str
    phase: RequestPhase
    mono_us: int
    sent_us: int | None = None
    tokens: int | None = None


class ProbeFinished(Struct, frozen=True, kw_only=True, tag_field="kind", tag="finished"):
    """The record of request `id`, whatever its outcome."""

    id: str
    record: RequestRecord


class ProbeRefused(Struct, frozen=True, kw_only=True, tag_field="kind", tag="refused"):
    """An ask that could not be read or is not known; `words` says why."""

    id: str | None
    words: str


ProbeLine = ProbeReady | ProbeSized | ProbeProgress | ProbeFinished | ProbeRefused
