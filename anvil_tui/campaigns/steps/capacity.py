"""Capacity runs on a load: equal requests, so many at a time; a failed run is kept and replaced, up to a limit."""

from __future__ import annotations

from collections.abc import Sequence

from anvil_tui.campaigns.running.prober import Came
from anvil_tui.campaigns.steps.measuring import Measuring, Planned
from anvil_tui.campaigns.steps.rungs import limit_tokens
from anvil_tui.errors import CannotRun
from anvil_tui.evidence.run_checks import capacity_words, judge_capacity
from anvil_tui.evidence.run_metrics import run_metrics
from anvil_tui.records.artifact import Check
from anvil_tui.records.events import PlanRefused
from anvil_tui.records.plan import CapacityPlan
from anvil_tui.records.probe import MeasureCapacity
from anvil_tui.records.vram import ReserveVerdict


def check_context(lane: str, max_model_len: int | None, plan: CapacityPlan, how: str) -> None:
    """Refuse a context that does not fit. Raises CannotRun with the arithmetic."""
    limit = limit_tokens(max_model_len, plan.max_tokens, plan.margin)
    if limit is not None and plan.context_tokens > limit:
        raise CannotRun(
            f"{lane}: context {plan.context_tokens:,} is above the limit of {limit:,} tokens = {how} max_model_len "
            f"{max_model_len:,} − max_tokens {plan.max_tokens:,} − margin {plan.margin:,}; nothing was sent"
        )


async def run_capacity(measuring: Measuring, plan: CapacityPlan, earlier: Sequence[bool] = ()) -> bool:
    """Measure until `runs` of them passed; `earlier` says how those went that were measured before a resume.

    Returns whether there were enough. Raises Interrupt, and CannotRun where the context does not fit.
    """
    try:
        check_context(measuring.load.lane.name, measuring.load.answer.max_model_len, plan, "observed")
    except CannotRun as refused:
        measuring.session.event(PlanRefused(words=str(refused)))
        raise
    good, tried = sum(earlier), len(earlier)
    while good < plan.runs and tried < plan.runs + plan.extra_runs:
        measuring.check_interrupts()
        kept = await measuring.measure(_planned(measuring, plan, tried))
        tried += 1
        good += kept is not None and kept.passed
        if kept is not None and kept.fatal is not None:
            words = await measuring.after_fatal(kept, f"context {plan.context_tokens:,}")
            if "no longer answers" in words:
                measuring.skip("capacity", plan.context_tokens, words)
                return False
    return good >= plan.runs


def _planned(measuring: Measuring, plan: CapacityPlan, number: int) -> Planned:
    limit = limit_tokens(measuring.load.answer.max_model_len, plan.max_tokens, plan.margin)
    ask = MeasureCapacity(
        id=measuring.next_run(),
        target=measuring.target,
        requests=plan.requests,
        concurrency=plan.concurrency,
        context_tokens=plan.context_tokens,
        max_tokens=plan.max_tokens,
        limit_tokens=limit,
        warmup_requests=plan.warmup_requests,
        prefix=plan.prefix,
        shared_prefix_tokens=plan.shared_prefix_tokens,
        output_length=plan.output_length,
        reasoning_effort=plan.reasoning_effort,
        nonce=measuring.nonce(f"capacity-{number}"),
        arrivals_per_s=plan.arrivals_per_s,
    )

    def judge(came: Came, reserve: ReserveVerdict | None) -> tuple[Check, ...]:
        cold = plan.prefix == "nonce"
        return judge_capacity(came.requests, plan.requests, plan.context_tokens, cold=cold, reserve=reserve)

    def words(came: Came, checks: tuple[Check, ...], reserve: ReserveVerdict | None) -> str:
        wall = came.capacity.wall_clock_ms if came.capacity else None
        return capacity_words(run_metrics(came.requests, wall_ms=wall), checks, reserve)

    return Planned(
        what="capacity",
        ask=ask,
        judge=judge,
        words=words,
        target_tokens=plan.context_tokens,
        limit_tokens=limit,
        margin_tokens=plan.margin,
        capacity=plan,
    )
