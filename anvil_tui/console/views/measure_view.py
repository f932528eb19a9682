"""What the forms for ladder, gate and capacity runs have in common: their lines, and what exactly would run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast, get_args

from textual.content import Content

from anvil_tui.campaigns.steps.rungs import limit_tokens
from anvil_tui.console.snapshot import CampaignRow, LaneRow, MeasureForm, Rung
from anvil_tui.console.views.figures import STYLES, count, outside
from anvil_tui.records.lane import Effort
from anvil_tui.records.plan import MeasurePlan


@dataclass(frozen=True)
class Review:
    """What a form amounts to: a plan, or why it is none yet."""

    plan: MeasurePlan | None
    lines: tuple[Content, ...]
    starts_lane: bool = False


@dataclass(frozen=True)
class Line:
    """One line of a form: typed, or one of `choices`; `unset` says what it means that none is chosen."""

    name: str
    label: str
    choices: tuple[str, ...] = ()
    unset: str = ""


EFFORT = Line("effort", "Reasoning effort", get_args(Effort), unset="the engine's default")


@dataclass(frozen=True)
class Measure:
    """One kind of measurement that a form asks for."""

    title: str
    act: str
    """What is begun, in words: `begin the ladder`."""
    lines: tuple[Line, ...]
    """The first one has the focus."""
    first_form: Callable[[LaneRow, Sequence[CampaignRow]], MeasureForm]
    """The form as it opens: what ran on this lane last, else the profile's defaults."""
    review: Callable[[MeasureForm, LaneRow, Sequence[Rung]], Review]
    """What would run, in words; the rungs are those that were measured with this profile before."""


class Mistyped(ValueError):
    """A line of a form that means nothing; the text says what would be right."""


def refused(words: str) -> Review:
    """A form that is no plan, and why."""
    return Review(None, (Content.styled(words, STYLES["bad"]),))


def whole(form: MeasureForm, name: str, label: str, least: int, most: int | None = None) -> int:
    """The whole number in a line. Raises Mistyped."""
    text = form[name].replace("_", "").replace(",", "")
    number = int(text) if text.isascii() and text.isdigit() else None
    if number is None or number < least or (most is not None and number > most):
        raise Mistyped(f"{label}: a whole number from {least}" + (f" to {count(most)}" if most is not None else ""))
    return number


def effort_of(form: MeasureForm) -> Effort | None:
    """The reasoning effort that was chosen; None is the engine's default."""
    return cast(Effort, form["effort"]) if form["effort"] else None


def model_length(lane: LaneRow) -> tuple[int | None, str]:
    """max_model_len, and where it is from: observed of the load that is up, else the recipe's."""
    if lane.state in ("up", "attached") and lane.ready is not None and lane.ready.max_model_len is not None:
        return lane.ready.max_model_len, "observed"
    return (lane.lane.profile.recipe.max_model_len if lane.lane is not None else None), "the recipe's"


def limit_line(lane: LaneRow, max_tokens: int, margin: int) -> tuple[int | None, Content]:
    """The longest prompt that leaves room for its answer, and the arithmetic in words."""
    length, origin = model_length(lane)
    limit = limit_tokens(length, max_tokens, margin)
    if limit is None:
        words = "limit: not known, neither the lane nor its profile says max_model_len"
        return None, Content.styled(words, STYLES["warn"])
    taken = f"− max_tokens {count(max_tokens)} − margin {count(margin)}"
    arithmetic = f" = {origin} max_model_len {count(length)} {taken}"
    return limit, Content.assemble("longest prompt ", (f"{count(limit)} tokens", "bold"), arithmetic)


def starts_lane(lane: LaneRow) -> bool:
    """Whether the lane has to be started first."""
    assert lane.lane is not None, "a refused profile has no form"
    return not lane.living and lane.state != "attached" and lane.lane.kind != "attach"


def start_lines(lane: LaneRow) -> list[Content]:
    """Said where the lane is started first."""
    if not starts_lane(lane):
        return []
    return [Content.styled(f"first {outside(lane.name, 64)} is started: it is {lane.state} now", STYLES["warn"])]


def reserve_words(lane: LaneRow) -> str:
    """What decides about memory while it is measured."""
    assert lane.lane is not None, "a refused profile has no form"
    gpus = lane.lane.profile.gpus
    policy = "" if gpus.policy == "enforce" else f", {gpus.policy}"
    return (
        "no GPU source: reserve UNKNOWN" if gpus.source == "none" else f"reserve {count(gpus.reserve_mib)} MiB{policy}"
    )
