"""The functional gate on a load: what a lane must be able to do before its figures mean anything."""

from __future__ import annotations

from anvil_tui.campaigns.running.prober import Came
from anvil_tui.campaigns.steps.measuring import Measuring, Planned
from anvil_tui.evidence.run_checks import gate_words, judge_gate
from anvil_tui.records.artifact import Check
from anvil_tui.records.plan import GatePlan
from anvil_tui.records.probe import MeasureGate
from anvil_tui.records.vram import ReserveVerdict


async def run_gate(measuring: Measuring, plan: GatePlan, name: str = "first") -> bool:
    """Run the gate once; returns whether it passed. `name` tells gates of one load apart. Raises Interrupt."""
    measuring.check_interrupts()
    run = measuring.next_run()
    ask = MeasureGate(
        id=run,
        target=measuring.target,
        checks=plan.checks,
        tool_batch=plan.tool_batch,
        budget=plan.budget,
        policy=plan.policy,
        reasoning_effort=plan.reasoning_effort,
        needle_tokens=plan.needle_tokens,
        needle_depths=plan.needle_depths,
        nonce=measuring.nonce(f"gate-{name}"),
    )
    kept = await measuring.measure(Planned(what="gate", ask=ask, judge=_judge, words=_words))
    if kept is not None and kept.fatal is not None:
        await measuring.after_fatal(kept, "gate")
    return kept is not None and kept.passed


def _judge(came: Came, _: ReserveVerdict | None) -> tuple[Check, ...]:
    return judge_gate(came.gate) if came.gate is not None else ()


def _words(_: Came, checks: tuple[Check, ...], __: ReserveVerdict | None) -> str:
    return gate_words(checks)
