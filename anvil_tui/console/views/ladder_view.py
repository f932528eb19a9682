"""The ladder form: what was typed as a plan, and in words what exactly will run before anything does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content

from anvil_tui.campaigns.steps.ladder import limit_tokens
from anvil_tui.console.snapshot import CampaignRow, LadderForm, LaneRow, Rung
from anvil_tui.console.views.figures import STYLES, count, outside, span
from anvil_tui.console.views.rungs_view import estimate_seconds
from anvil_tui.records.plan import LadderPlan

_ROUND = 500


@dataclass(frozen=True)
class Review:
    """What a form amounts to: a plan, or why it is none yet."""

    plan: LadderPlan | None
    lines: tuple[Content, ...]
    starts_lane: bool = False


def first_form(lane: LaneRow, campaigns: Sequence[CampaignRow]) -> LadderForm:
    """The form as it opens: the newest ladder on this lane again, else the profile's defaults and a few targets."""
    assert lane.lane is not None, "a refused profile has no form"
    defaults = lane.lane.profile.endpoint
    before = [row.plan.ladder for row in campaigns if row.lane == lane.name and row.plan and row.plan.ladder]
    plan = before[-1] if before else None
    max_tokens = plan.max_tokens if plan else defaults.max_tokens
    margin = plan.margin if plan else defaults.margin
    length = model_length(lane)[0]
    targets = plan.targets if plan else suggested(None if length is None else length - max_tokens - margin)
    return LadderForm(
        targets=", ".join(str(target) for target in targets),
        max_tokens=str(max_tokens),
        margin=str(margin),
        effort=plan.reasoning_effort if plan else defaults.reasoning_effort,
    )


def suggested(limit: int | None) -> tuple[int, ...]:
    """Three targets where none was ever measured: a short one, half the limit, the limit itself, rounded down."""
    if limit is None or limit < 4 * _ROUND:
        return (1000,)
    return (2000, limit // 2 // _ROUND * _ROUND, limit // _ROUND * _ROUND)


def model_length(lane: LaneRow) -> tuple[int | None, str]:
    """max_model_len, and where it is from: observed of the load that is up, else the recipe's."""
    if lane.state in ("up", "attached") and lane.ready is not None and lane.ready.max_model_len is not None:
        return lane.ready.max_model_len, "observed"
    return (lane.lane.profile.recipe.max_model_len if lane.lane is not None else None), "the recipe's"


def review(form: LadderForm, lane: LaneRow, past: Sequence[Rung]) -> Review:
    """What will run, in words; the plan is None while something is wrong."""
    assert lane.lane is not None, "a refused profile has no form"
    plan = parsed(form)
    if isinstance(plan, str):
        return Review(None, (Content.styled(plan, STYLES["bad"]),))
    length, origin = model_length(lane)
    limit = limit_tokens(length, plan.max_tokens, plan.margin)
    lines = []
    if limit is None:
        lines.append(
            Content.styled("limit: not known, neither the lane nor its profile says max_model_len", STYLES["warn"])
        )
    else:
        taken = f"− max_tokens {count(plan.max_tokens)} − margin {count(plan.margin)}"
        arithmetic = f" = {origin} max_model_len {count(length)} {taken}"
        lines.append(Content.assemble("longest prompt ", (f"{count(limit)} tokens", "bold"), arithmetic))
    above = [target for target in plan.targets if limit is not None and target > limit]
    if above:
        lines.append(
            Content.styled(f"above it: {', '.join(count(one) for one in above)}; nothing would be sent", STYLES["bad"])
        )
        return Review(None, tuple(lines))
    starts = not lane.living and lane.state != "attached" and lane.lane.kind != "attach"
    if starts:
        lines.append(
            Content.styled(f"first {outside(lane.name, 64)} is started: it is {lane.state} now", STYLES["warn"])
        )
    gpus = lane.lane.profile.gpus
    policy = "" if gpus.policy == "enforce" else f", {gpus.policy}"
    reserve = (
        "no GPU source: reserve UNKNOWN" if gpus.source == "none" else f"reserve {count(gpus.reserve_mib)} MiB{policy}"
    )
    effort = f", reasoning effort {plan.reasoning_effort}" if plan.reasoning_effort else ""
    rungs = " → ".join(count(target) for target in plan.targets)
    lines += [
        Content(f"{len(plan.targets)} rungs, one streamed request each: {rungs}"),
        Content(f"answers up to {count(plan.max_tokens)} tokens{effort}; {reserve}"),
        Content(expected_words(plan, past)),
    ]
    return Review(plan, tuple(lines), starts_lane=starts)


def expected_words(plan: LadderPlan, past: Sequence[Rung]) -> str:
    """How long it should take, by the rungs of before."""
    each = [estimate_seconds(target, past) for target in plan.targets]
    known = [seconds for seconds in each if seconds is not None]
    if len(known) < len(each):
        return "expected time: not known, no rung was measured with this profile yet"
    return f"expected time: about {span(sum(known))}, by {len(past)} rungs measured with this profile"


def parsed(form: LadderForm) -> LadderPlan | str:
    """The plan that was typed, or a sentence about what is wrong."""
    try:
        targets = tuple(int(part.replace("_", "")) for part in form.targets.replace(" ", "").split(",") if part)
    except ValueError:
        return "targets: whole numbers with commas between, such as 2000, 60000"
    if not targets or min(targets) < 1:
        return "targets: at least one whole number from 1"
    max_tokens, margin = form.max_tokens.strip(), form.margin.strip()
    if not (max_tokens.isascii() and max_tokens.isdigit() and int(max_tokens) > 0):
        return "max tokens: a whole number from 1"
    if not (margin.isascii() and margin.isdigit()):
        return "margin: a whole number from 0"
    return LadderPlan(targets=targets, max_tokens=int(max_tokens), margin=int(margin), reasoning_effort=form.effort)
