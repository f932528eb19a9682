"""The form of capacity runs: equal requests, so many at a time, and in words what exactly will run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast, get_args

from textual.content import Content

from anvil_tui.console.snapshot import CampaignRow, LaneRow, MeasureForm, Rung
from anvil_tui.console.views.figures import STYLES, count
from anvil_tui.console.views.measure_view import (
    EFFORT,
    Line,
    Measure,
    Mistyped,
    Review,
    effort_of,
    limit_line,
    model_length,
    refused,
    reserve_words,
    start_lines,
    starts_lane,
    whole,
)
from anvil_tui.records.plan import CapacityPlan
from anvil_tui.records.request import OutputLength

_CONTEXT = 4096
_MOST_AT_ONCE = 256
_MOST_REQUESTS = 10_000
_MOST_WARMUPS = 1_000


def first_form(lane: LaneRow, campaigns: Sequence[CampaignRow]) -> MeasureForm:
    """The newest capacity runs on this lane again, else the profile's defaults."""
    assert lane.lane is not None, "a refused profile has no form"
    before = [row.plan.capacity for row in campaigns if row.lane == lane.name and row.plan and row.plan.capacity]
    plan = before[-1] if before else _default(lane)
    return MeasureForm(
        {
            "context": str(plan.context_tokens),
            "concurrency": str(plan.concurrency),
            "requests": str(plan.requests),
            "runs": str(plan.runs),
            "warmup": str(plan.warmup_requests),
            "shared": str(plan.shared_prefix_tokens),
            "output": plan.output_length,
            "max_tokens": str(plan.max_tokens),
            "margin": str(plan.margin),
            "effort": plan.reasoning_effort or "",
        }
    )


def _default(lane: LaneRow) -> CapacityPlan:
    assert lane.lane is not None, "a refused profile has no form"
    defaults = lane.lane.profile.endpoint
    length = model_length(lane)[0]
    fits = _CONTEXT if length is None else min(_CONTEXT, length - defaults.max_tokens - defaults.margin)
    return CapacityPlan(
        context_tokens=max(1, fits),
        max_tokens=defaults.max_tokens,
        margin=defaults.margin,
        reasoning_effort=defaults.reasoning_effort,
    )


def review(form: MeasureForm, lane: LaneRow, _: Sequence[Rung]) -> Review:
    """What will run, in words; the plan is None while something is wrong."""
    try:
        plan = parsed(form)
    except Mistyped as mistyped:
        return refused(str(mistyped))
    limit, limit_words = limit_line(lane, plan.max_tokens, plan.margin)
    if limit is not None and plan.context_tokens > limit:
        words = f"above it: context {count(plan.context_tokens)}; nothing would be sent"
        return Review(None, (limit_words, Content.styled(words, STYLES["bad"])))
    effort = f", reasoning effort {plan.reasoning_effort}" if plan.reasoning_effort else ""
    answers = "exactly" if plan.output_length == "fixed" else "up to"
    prefix = f", the first {count(plan.shared_prefix_tokens)} shared by all" if plan.shared_prefix_tokens else ", cold"
    warmup = f", {plan.warmup_requests} before it not scored" if plan.warmup_requests else ""
    lines = [
        limit_words,
        *start_lines(lane),
        Content(f"{plan.runs} runs of {plan.requests} requests, {plan.concurrency} at a time{warmup}"),
        Content(f"prompts of {count(plan.context_tokens)} tokens{prefix}"),
        Content(f"answers of {answers} {count(plan.max_tokens)} tokens{effort}; {reserve_words(lane)}"),
        Content(f"a run that fails is kept and replaced, {plan.extra_runs} times at most"),
    ]
    return Review(plan, tuple(lines), starts_lane=starts_lane(lane))


def parsed(form: MeasureForm) -> CapacityPlan:
    """The plan that was typed. Raises Mistyped."""
    context = whole(form, "context", "context", 1)
    shared = whole(form, "shared", "shared prefix", 0)
    if shared >= context:
        raise Mistyped(f"shared prefix: less than the {count(context)} tokens of a prompt")
    return CapacityPlan(
        context_tokens=context,
        concurrency=whole(form, "concurrency", "at a time", 1, _MOST_AT_ONCE),
        requests=whole(form, "requests", "requests a run", 1, _MOST_REQUESTS),
        runs=whole(form, "runs", "runs", 1),
        warmup_requests=whole(form, "warmup", "warm-up", 0, _MOST_WARMUPS),
        prefix="shared" if shared else "nonce",
        shared_prefix_tokens=shared,
        output_length=cast(OutputLength, form["output"]),
        max_tokens=whole(form, "max_tokens", "max tokens", 1),
        margin=whole(form, "margin", "margin", 0),
        reasoning_effort=effort_of(form),
    )


CAPACITY = Measure(
    title="Capacity runs",
    act="begin the capacity runs",
    lines=(
        Line("context", "Context (tokens)"),
        Line("concurrency", "At a time"),
        Line("requests", "Requests a run"),
        Line("runs", "Runs"),
        Line("warmup", "Warm-up requests"),
        Line("shared", "Shared prefix"),
        Line("output", "Output length", get_args(OutputLength)),
        Line("max_tokens", "Max tokens"),
        Line("margin", "Margin (tokens)"),
        EFFORT,
    ),
    first_form=first_form,
    review=review,
)
