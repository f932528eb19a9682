"""The functional gate: what was asked of a lane, what each answer was, and whether it passed."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from anvil_tui.records.request import RequestRecord

GateCheckName = Literal["smoke", "json", "tools", "streaming-tools", "tool-result", "responses", "needle"]
SEED_CHECKS: tuple[GateCheckName, ...] = ("smoke", "json", "tools", "streaming-tools", "tool-result", "responses")
"""The six checks of the seeds, in their order."""
ReasoningEvidence = Literal["any", "required", "forbidden"]


class EvidencePolicy(Struct, frozen=True, kw_only=True):
    """What the observations must show beyond their checks."""

    reasoning: ReasoningEvidence = "any"
    reasoning_scope: Literal["gate", "check"] = "gate"
    """`gate`, as in the seeds: one observation with reasoning suffices; `check`: each check needs one."""
    allowed_finish_reasons: tuple[str, ...] = ("stop", "tool_calls")


class ToolCallSeen(Struct, frozen=True, kw_only=True):
    """A tool call as it came; texts bounded and sanitised."""

    name: str
    arguments: str


class GateObservation(Struct, frozen=True, kw_only=True):
    """One request of the gate. Kept also where it failed or raised."""

    check: GateCheckName
    request_index: int
    passed: bool
    words: str
    """Why it passed or failed."""
    record: RequestRecord | None
    """Null where nothing was sent."""
    tool_calls: tuple[ToolCallSeen, ...] = ()
    reasoning_chars: int = 0
    events: int | None = None
    """Server-sent events, of a streamed answer."""
    response_status: str | None = None
    """`status` of a `/responses` answer."""


class GateCheck(Struct, frozen=True, kw_only=True):
    """One check: all of its observations passed."""

    name: GateCheckName
    passed: bool
    words: str


class GateBudget(Struct, frozen=True, kw_only=True):
    """The completion budget of each request: visible answer plus room to reason."""

    visible_answer_tokens: int = 256
    reasoning_headroom_tokens: int = 0

    @property
    def max_tokens(self) -> int:
        return self.visible_answer_tokens + self.reasoning_headroom_tokens


class GateResult(Struct, frozen=True, kw_only=True):
    """The whole gate. It passes when every check passes and no policy was broken."""

    started_at: str
    finished_at: str
    model: str
    reasoning_effort: str | None
    budget: GateBudget
    tool_batch: int
    policy: EvidencePolicy
    checks: tuple[GateCheck, ...]
    observations: tuple[GateObservation, ...]
    policy_errors: tuple[str, ...]
    passed: bool
    interrupted: bool = False
