"""The figures of this moment, rewritten at 5 Hz beside the journal and never part of a bundle."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from anvil_tui.records.acceptance import ConditionState
from anvil_tui.records.vram import VramSample

RequestPhase = Literal["sizing", "connecting", "prefill", "reasoning", "answer", "finishing"]


class LiveRun(Struct, frozen=True, kw_only=True):
    """The run that is open."""

    run: str
    target_tokens: int | None
    phase: RequestPhase
    since_us: int
    """When the request was sent, or its sizing began."""
    tokens: int | None = None
    words: str | None = None
    """Where a gate or a capacity run stands."""
    prefill_pct: float | None = None
    prefill_tok_s: float | None = None
    left_s: float | None = None
    """Seconds until the first output, as the prefill goes now."""
    still_s: float | None = None
    """Seconds since the engine's KV usage last moved."""
    min_free_bytes: dict[str, int] = {}


class Live(Struct, frozen=True, kw_only=True):
    """`live.json`. Every figure's age is `now − mono_us`, on the same boot."""

    mono_us: int
    at: str
    boot_id: str
    pid: int
    step: str
    """What the runner does, in words."""
    run: LiveRun | None = None
    sample: VramSample | None = None
    alarm: str | None = None
    lane_phase: str | None = None
    log_lines: int | None = None
    acceptance: tuple[ConditionState, ...] = ()
    """How the conditions of a paired campaign stand."""
