"""What the runner asks of the probe child on its stdin, and what comes back on its stdout; one JSON line each."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from anvil_tui.records.artifact import Counters
from anvil_tui.records.gate import SEED_CHECKS, EvidencePolicy, GateBudget, GateCheckName, GateObservation, GateResult
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


class MeasureGate(Struct, frozen=True, kw_only=True, tag_field="do", tag="measure_gate"):
    """Run functional checks, one after another; each observation comes back as it is made, then the result."""

    id: str
    target: Target
    checks: tuple[GateCheckName, ...] = SEED_CHECKS
    tool_batch: Annotated[int, Meta(ge=1, le=128)] = 20
    """How many tool calls the check `tools` makes at once."""
    budget: GateBudget = GateBudget()
    policy: EvidencePolicy = EvidencePolicy()
    reasoning_effort: Effort | None = None
    needle_tokens: Positive | None = None
    """Prompt length of the check `needle`; required with it."""
    needle_depths: tuple[Annotated[float, Meta(ge=0, le=1)], ...] = (0.58,)
    """One request a depth; the seeds hide their code at 58 %."""
    nonce: Annotated[str, Meta(min_length=1)]
    deadlines: Deadlines = Deadlines()


class MeasureCapacity(Struct, frozen=True, kw_only=True, tag_field="do", tag="measure_capacity"):
    """One capacity run: `requests` prompts of `context_tokens` each, `concurrency` at a time, closed loop.

    Warm-up requests go first and are not scored. All prompts are sized before the first request is sent.
    """

    id: str
    target: Target
    requests: Annotated[int, Meta(ge=1, le=10_000)]
    concurrency: Annotated[int, Meta(ge=1, le=256)]
    context_tokens: Positive
    max_tokens: Positive
    limit_tokens: int | None
    """Prompts above it are not sent; null is unknown."""
    warmup_requests: Annotated[int, Meta(ge=0, le=1_000)] = 0
    prefix: Literal["nonce", "shared"] = "nonce"
    """`nonce`: every prompt is cold from its first block on; `shared`: all begin with the same text."""
    shared_prefix_tokens: Annotated[int, Meta(ge=0)] = 0
    """Length of the common text; with prefix `shared`."""
    output_length: OutputLength = "natural"
    reasoning_effort: Effort | None = None
    nonce: Annotated[str, Meta(min_length=1)]
    """The nonce of request i follows from it and i: the same in both arms of a comparison."""
    cache_salt: bool = True
    arrivals_per_s: Annotated[float, Meta(gt=0)] | None = None
    """Open loop: requests start at this rate, at most `concurrency` at a time; null is the closed loop."""
    deadlines: Deadlines = Deadlines()


class CancelProbe(Struct, frozen=True, kw_only=True, tag_field="do", tag="cancel"):
    """Close the connection of request `id` now; its record comes back as `cancelled`."""

    id: str


ProbeAsk = MeasureRung | ProbeUrl | MeasureGate | MeasureCapacity | CancelProbe


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


class ProbeObserved(Struct, frozen=True, kw_only=True, tag_field="kind", tag="observed"):
    """One request of gate `id`, as it was made."""

    id: str
    observation: GateObservation


class ProbeGated(Struct, frozen=True, kw_only=True, tag_field="kind", tag="gated"):
    """Gate `id` ended."""

    id: str
    result: GateResult


class ProbeRunning(Struct, frozen=True, kw_only=True, tag_field="kind", tag="running"):
    """Where capacity run `id` stands; at most ten a second."""

    id: str
    mono_us: int
    step: Literal["sizing", "warm-up", "measuring"]
    finished: int
    failed: int
    open: int
    tokens: int
    """Completion tokens of all requests so far, as far as the engine counts them."""


class ProbeMeasured(Struct, frozen=True, kw_only=True, tag_field="kind", tag="measured"):
    """One request of capacity run `id` ended; `warmup` ones are not scored."""

    id: str
    warmup: bool
    record: RequestRecord


class ProbeCapacity(Struct, frozen=True, kw_only=True, tag_field="kind", tag="capacity"):
    """Capacity run `id` ended: every request has its line. Counters were read around the scored requests alone."""

    id: str
    started_at: str
    finished_at: str
    wall_clock_ms: float | None
    """From the first scored request's start, connecting included, to the last one's end; null where none was sent."""
    counters_before: Counters | None
    counters_after: Counters | None
    cancelled: bool


class ProbeRefused(Struct, frozen=True, kw_only=True, tag_field="kind", tag="refused"):
    """An ask that could not be read or is not known; `words` says why."""

    id: str | None
    words: str


ProbeLine = (
    ProbeReady
    | ProbeSized
    | ProbeProgress
    | ProbeFinished
    | ProbeObserved
    | ProbeGated
    | ProbeRunning
    | ProbeMeasured
    | ProbeCapacity
    | ProbeRefused
)
