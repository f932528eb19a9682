"""The ladder form: what was typed as a plan, and in words what exactly will run before anything does."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from anvil_tui.console.snapshot import CampaignRow, LaneRow, MeasureForm, Rung
from anvil_tui.console.views.figures import STYLES, count, span
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
from anvil_tui.console.views.rungs_view import estimate_seconds
from anvil_tui.records.plan import GatePlan, LadderPlan

_ROUND = 500
_TOLERANCE = 256
THESE, SEARCH = "these, one after another", "search the longest from the first"
NO, YES = "no", "yes, after the longest rung"


def first_form(lane: LaneRow, campaigns: Sequence[CampaignRow]) -> MeasureForm:
    """The newest ladder on this lane again, else the profile's defaults and a few targets."""
    assert lane.lane is not None, "a refused profile has no form"
    defaults = lane.lane.profile.endpoint
    before = [row.plan.ladder for row in campaigns if row.lane == lane.name and row.plan and row.plan.ladder]
    plan = before[-1] if before else None
    max_tokens = plan.max_tokens if plan else defaults.max_tokens
    margin = plan.margin if plan else defaults.margin
    length = model_length(lane)[0]
    targets = plan.targets if plan else suggested(None if length is None else length - max_tokens - margin)
    return MeasureForm(
        {
            "targets": ", ".join(str(target) for target in targets),
            "how": SEARCH if plan and plan.bisect_tolerance is not None else THESE,
            "needle": ", ".join(f"{depth:g}" for depth in plan.needle_depths) if plan else "",
            "gate": YES if plan and plan.post_gate is not None else NO,
            "max_tokens": str(max_tokens),
            "margin": str(margin),
            "effort": (plan.reasoning_effort if plan else defaults.reasoning_effort) or "",
        }
    )


def suggested(limit: int | None) -> tuple[int, ...]:
    """Three targets where none was ever measured: a short one, half the limit, the limit itself, rounded down."""
    if limit is None or limit < 4 * _ROUND:
        return (1000,)
    return (2000, limit // 2 // _ROUND * _ROUND, limit // _ROUND * _ROUND)


def review(form: MeasureForm, lane: LaneRow, past: Sequence[Rung]) -> Review:
    """What will run, in words; the plan is None while something is wrong."""
    try:
        plan = parsed(form)
    except Mistyped as mistyped:
        return refused(str(mistyped))
    limit, limit_words = limit_line(lane, plan.max_tokens, plan.margin)
    above = [target for target in plan.targets if limit is not None and target > limit]
    if above:
        words = f"above it: {', '.join(count(one) for one in above)}; nothing would be sent"
        return Review(None, (limit_words, Content.styled(words, STYLES["bad"])))
    effort = f", reasoning effort {plan.reasoning_effort}" if plan.reasoning_effort else ""
    lines = [
        limit_words,
        *start_lines(lane),
        Content(rung_words(plan)),
        Content(f"answers up to {count(plan.max_tokens)} tokens{effort}; {reserve_words(lane)}"),
        *([Content("then the functional gate once more")] if plan.post_gate is not None else []),
        Content(expected_words(plan, past)),
    ]
    return Review(plan, tuple(lines), starts_lane=starts_lane(lane))


def rung_words(plan: LadderPlan) -> str:
    """Which prompts are sent."""
    if plan.bisect_tolerance is not None:
        longest = f"until the longest that is served is known to {count(plan.bisect_tolerance)} tokens"
        return f"one rung after another from {count(plan.targets[0])}, {longest}"
    rungs = " → ".join(count(target) for target in plan.targets)
    each = "one streamed request each"
    if plan.needle_depths:
        depths = ", ".join(f"{depth:.0%}" for depth in plan.needle_depths)
        each += f", and one with a needle at {depths}"
    return f"{len(plan.targets)} rungs, {each}: {rungs}"


def expected_words(plan: LadderPlan, past: Sequence[Rung]) -> str:
    """How long it should take, by the rungs of before."""
    if plan.bisect_tolerance is not None or plan.needle_depths or plan.post_gate is not None:
        return "expected time: not known for searches, needles and gates"
    each = [estimate_seconds(target, past) for target in plan.targets]
    known = [seconds for seconds in each if seconds is not None]
    if len(known) < len(each):
        return "expected time: not known, no rung was measured with this profile yet"
    return f"expected time: about {span(sum(known))}, by {len(past)} rungs measured with this profile"


def parsed(form: MeasureForm) -> LadderPlan:
    """The plan that was typed. Raises Mistyped."""
    try:
        targets = tuple(int(part.replace("_", "")) for part in form["targets"].replace(" ", "").split(",") if part)
    except ValueError:
        raise Mistyped("targets: whole numbers with commas between, such as 2000, 60000") from None
    if not targets or min(targets) < 1:
        raise Mistyped("targets: at least one whole number from 1")
    search = form["how"] == SEARCH
    if search and len(targets) > 1:
        raise Mistyped("targets: one to begin with, where the longest is searched")
    effort = effort_of(form)
    return LadderPlan(
        targets=targets,
        max_tokens=whole(form, "max_tokens", "max tokens", 1),
        margin=whole(form, "margin", "margin", 0),
        reasoning_effort=effort,
        bisect_tolerance=_TOLERANCE if search else None,
        needle_depths=_depths(form["needle"]),
        post_gate=GatePlan(reasoning_effort=effort) if form["gate"] == YES else None,
    )


def _depths(text: str) -> tuple[float, ...]:
    try:
        depths = tuple(float(part) for part in text.replace(" ", "").split(",") if part)
    except ValueError:
        depths = (-1.0,)
    if not all(0 <= depth <= 1 for depth in depths):
        raise Mistyped("needle depths: numbers from 0 to 1 with commas between, such as 0.1, 0.5; none sends no needle")
    return depths


LADDER = Measure(
    title="Ladder",
    act="begin the ladder",
    lines=(
        Line("targets", "Targets (tokens)"),
        Line("how", "Prompts", (THESE, SEARCH)),
        Line("needle", "Needle depths"),
        Line("gate", "Then the gate", (NO, YES)),
        Line("max_tokens", "Max tokens"),
        Line("margin", "Margin (tokens)"),
        EFFORT,
    ),
    first_form=first_form,
    review=review,
)
