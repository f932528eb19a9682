"""The form of the functional gate: which checks, and in words what exactly will run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast, get_args

from textual.content import Content

from anvil_tui.console.snapshot import CampaignRow, LaneRow, MeasureForm, Rung
from anvil_tui.console.views.figures import count
from anvil_tui.console.views.measure_view import (
    EFFORT,
    Line,
    Measure,
    Mistyped,
    Review,
    effort_of,
    refused,
    reserve_words,
    start_lines,
    starts_lane,
    whole,
)
from anvil_tui.records.gate import EvidencePolicy, GateCheckName, ReasoningEvidence
from anvil_tui.records.plan import GatePlan

_MOST_TOOLS = 128


def first_form(lane: LaneRow, campaigns: Sequence[CampaignRow]) -> MeasureForm:
    """The newest gate on this lane again, else the checks of the seeds."""
    assert lane.lane is not None, "a refused profile has no form"
    before = [row.plan.gate for row in campaigns if row.lane == lane.name and row.plan and row.plan.gate]
    plan = before[-1] if before else GatePlan(reasoning_effort=lane.lane.profile.endpoint.reasoning_effort)
    return MeasureForm(
        {
            "checks": ", ".join(plan.checks),
            "tools": str(plan.tool_batch),
            "reasoning": plan.policy.reasoning,
            "needle": str(plan.needle_tokens or ""),
            "effort": plan.reasoning_effort or "",
        }
    )


def review(form: MeasureForm, lane: LaneRow, _: Sequence[Rung]) -> Review:
    """What will run, in words; the plan is None while something is wrong."""
    try:
        plan = parsed(form)
    except Mistyped as mistyped:
        return refused(str(mistyped))
    effort = f", reasoning effort {plan.reasoning_effort}" if plan.reasoning_effort else ""
    needle = f", the needle in {count(plan.needle_tokens)} tokens" if plan.needle_tokens is not None else ""
    lines = [
        *start_lines(lane),
        Content(f"{len(plan.checks)} checks: {', '.join(plan.checks)}"),
        Content(f"{plan.tool_batch} tool calls at once{needle}"),
        Content(f"answers up to {count(plan.budget.max_tokens)} tokens{effort}; {reserve_words(lane)}"),
    ]
    return Review(plan, tuple(lines), starts_lane=starts_lane(lane))


def parsed(form: MeasureForm) -> GatePlan:
    """The plan that was typed. Raises Mistyped."""
    known = get_args(GateCheckName)
    checks = tuple(part for part in form["checks"].replace(",", " ").split() if part)
    unknown = [check for check in checks if check not in known]
    if unknown or not checks:
        raise Mistyped(f"checks: some of {', '.join(known)}")
    if len(set(checks)) < len(checks):
        raise Mistyped("checks: each of them once")
    needle = whole(form, "needle", "needle tokens", 1) if form["needle"] else None
    if needle is None and "needle" in checks:
        raise Mistyped("needle tokens: a whole number from 1, the prompt length of the check needle")
    if needle is not None and "needle" not in checks:
        checks = (*checks, "needle")
    return GatePlan(
        checks=cast("tuple[GateCheckName, ...]", checks),
        tool_batch=whole(form, "tools", "tool calls", 1, _MOST_TOOLS),
        policy=EvidencePolicy(reasoning=cast(ReasoningEvidence, form["reasoning"])),
        reasoning_effort=effort_of(form),
        needle_tokens=needle,
    )


GATE = Measure(
    title="Functional gate",
    act="begin the gate",
    lines=(
        Line("checks", "Checks"),
        Line("tools", "Tool calls at once"),
        Line("reasoning", "Reasoning shown", get_args(ReasoningEvidence)),
        Line("needle", "Needle tokens"),
        EFFORT,
    ),
    first_form=first_form,
    review=review,
)
