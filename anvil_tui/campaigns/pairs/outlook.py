"""What a campaign will do, told before it begins: loads in order, what runs on each, how long it will take."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from anvil_tui.campaigns.pairs.order import letter
from anvil_tui.campaigns.pairs.pace import Pace, Past
from anvil_tui.campaigns.pairs.planned_campaign import PlannedCampaign
from anvil_tui.campaigns.steps.rungs import rungs_of
from anvil_tui.evidence.acceptance import condition_text
from anvil_tui.evidence.arms.differences import Difference
from anvil_tui.lanes.difference import covers
from anvil_tui.records.acceptance import ArmRole
from anvil_tui.records.campaign_file import CampaignFile, NamedDifference
from anvil_tui.records.plan import CapacityPlan, GatePlan, LadderPlan

ASSUMED_SWAP_S = 30.0
"""A load's launch, log copies, stop and returning memory, where none was measured: a stop alone may take 45 s."""
ASSUMED_CLOSEOUT_S = 30.0
"""Watched files, documents and report, where no campaign of this file was closed here."""


@dataclass(frozen=True)
class Part:
    """One thing that is run on a load."""

    what: Literal["gate", "capacity", "ladder", "post_gate"]
    words: str
    runs: int
    requests: int | None
    """Warm-up included; null where a search decides how many there are."""
    expected_s: float | None


@dataclass(frozen=True)
class LoadOutlook:
    """One load and all that is run on it."""

    number: int
    block: int
    letter: str
    arm: ArmRole
    lane: str
    replay: bool
    parts: tuple[Part, ...]
    startup_s: float | None
    expected_s: float | None
    """Start-up, runs, and the swap: memory that comes back, launch, logs, stop."""


@dataclass(frozen=True)
class DifferenceOutlook:
    """A functional difference and who stands for it."""

    difference: Difference
    standing: Literal["controlled", "named", "undeclared"]
    why: str = ""


@dataclass(frozen=True)
class Outlook:
    """All that an operator should see before the key is pressed."""

    name: str
    about: str
    document: str | None
    rehearsal: bool
    differences: tuple[DifferenceOutlook, ...]
    operational: tuple[Difference, ...]
    loads: tuple[LoadOutlook, ...]
    runs: int
    requests: int | None
    expected_s: float | None
    """Every load and the closeout, if no run must be replaced."""
    assumed: tuple[str, ...]
    """What the expected time takes for granted, in words."""
    closeout: tuple[str, ...]
    """What is watched from outside, and the commands that are run at the end."""
    acceptance: tuple[str, ...]


def describe(campaign: PlannedCampaign, past: Past, named: tuple[NamedDifference, ...] = ()) -> Outlook:
    """What will run, if nothing fails; `named` are differences that the operator names now. Pure."""
    file = campaign.file
    planned = []
    for load in campaign.loads:
        pace = past.paces.get(load.lane, Pace())
        swap_s = ASSUMED_SWAP_S if pace.swap_s is None else pace.swap_s
        parts = parts_of(file, load.arm, pace)
        planned.append(
            LoadOutlook(
                number=load.number,
                block=load.block,
                letter=letter(load),
                arm=load.arm,
                lane=load.lane,
                replay=load.replay,
                parts=parts,
                startup_s=pace.startup_s,
                expected_s=_sum([pace.startup_s, *(part.expected_s for part in parts), swap_s]),
            )
        )
    requests = [part.requests for load in planned for part in load.parts]
    closeout_s = ASSUMED_CLOSEOUT_S if past.closeout_s is None else past.closeout_s
    return Outlook(
        name=file.name,
        about=file.about,
        document=file.document,
        rehearsal=campaign.rehearsal,
        differences=_differences(campaign, (*file.undeclared_ok, *named)),
        operational=campaign.difference.operational if campaign.difference else (),
        loads=tuple(planned),
        runs=sum(part.runs for load in planned for part in load.parts),
        requests=None if None in requests else sum(one for one in requests if one is not None),
        expected_s=_sum([*(load.expected_s for load in planned), closeout_s]),
        assumed=tuple(_assumed(campaign, past)),
        closeout=(
            *(f"{one.means} watched: {one.file or one.url}" for one in file.watch),
            *(f"runs {one.name}: {' '.join(one.command)}" for one in file.validation),
        ),
        acceptance=tuple(one.words or condition_text(one) for one in file.acceptance),
    )


def parts_of(file: CampaignFile, arm: ArmRole, pace: Pace) -> tuple[Part, ...]:
    """What runs on each load of an arm, in order: gate, capacity runs, ladder, the gate after them."""
    parts = []
    gated = arm in file.gate_arms
    if file.gate is not None and gated:
        parts.append(_gate("gate", file.gate, pace))
    if file.capacity is not None:
        parts.append(_capacity(file.capacity, pace))
    if file.ladder is not None:
        parts.append(_ladder(file.ladder, pace))
    if file.post_gate is not None and gated:
        parts.append(_gate("post_gate", file.post_gate, pace))
    return tuple(parts)


def gate_requests(plan: GatePlan) -> int:
    """How many requests a gate sends where every check goes on to its end."""
    several = {"tools": plan.tool_batch, "tool-result": 2, "needle": len(plan.needle_depths)}
    return sum(several.get(check, 1) for check in plan.checks)


def _gate(what: Literal["gate", "post_gate"], plan: GatePlan, pace: Pace) -> Part:
    count = gate_requests(plan)
    words = (
        f"{len(plan.checks)} checks, {plan.tool_batch} tool calls at once, effort {plan.reasoning_effort or 'as it is'}"
    )
    expected = None if pace.gate_request_s is None else count * pace.gate_request_s
    return Part(what, words, 1, count, expected)


def _capacity(plan: CapacityPlan, pace: Pace) -> Part:
    length = plan.max_tokens if plan.output_length == "fixed" else pace.output_tokens
    one = _request_s(plan.context_tokens, length, pace)
    waves = math.ceil(plan.requests / plan.concurrency) + math.ceil(plan.warmup_requests / plan.concurrency)
    paced = plan.requests / plan.arrivals_per_s if plan.arrivals_per_s else 0.0
    words = (
        f"{plan.runs} {'run' if plan.runs == 1 else 'runs'} of {plan.requests} requests, "
        f"{plan.context_tokens:,} prompt tokens, up to {plan.max_tokens:,} out, {plan.concurrency} at a time, "
        f"{plan.warmup_requests} warm-up a run"
    )
    expected = None if one is None else plan.runs * (max(waves * one, paced) + (pace.run_extra_s or 0.0))
    return Part("capacity", words, plan.runs, plan.runs * (plan.requests + plan.warmup_requests), expected)


def _ladder(plan: LadderPlan, pace: Pace) -> Part:
    if plan.bisect_tolerance is not None:
        words = f"search from {plan.targets[0]:,} prompt tokens to the limit, to {plan.bisect_tolerance:,} tokens"
        return Part("ladder", words, 1, None, None)
    rungs = rungs_of(plan)
    words = f"rungs of {', '.join(f'{rung.target_tokens:,}' for rung in rungs)} prompt tokens"
    extra = pace.run_extra_s or 0.0
    expected = _sum([*(_request_s(rung.target_tokens, pace.output_tokens, pace) for rung in rungs), len(rungs) * extra])
    return Part("ladder", words, len(rungs), len(rungs), expected)


def _request_s(prompt_tokens: int, output_tokens: float | None, pace: Pace) -> float | None:
    if pace.prefill_tok_s is None or pace.decode_tok_s is None or output_tokens is None:
        return None
    return prompt_tokens / pace.prefill_tok_s + output_tokens / pace.decode_tok_s


def _assumed(campaign: PlannedCampaign, past: Past) -> Iterator[str]:
    lanes = dict.fromkeys(load.lane for load in campaign.loads)
    unknown = [lane for lane in lanes if past.paces.get(lane, Pace()).swap_s is None]
    if unknown:
        yield f"{ASSUMED_SWAP_S:g} s for each stop and swap of {' and '.join(unknown)}: none was measured here"
    if past.closeout_s is None:
        validated = ", its validations left out" if campaign.file.validation else ""
        yield f"{ASSUMED_CLOSEOUT_S:g} s for the closeout{validated}: this file was not run here before"


def _sum(seconds: Iterable[float | None]) -> float | None:
    """The sum; null as soon as one part is unknown."""
    total = 0.0
    for one in seconds:
        if one is None:
            return None
        total += one
    return total


def _differences(campaign: PlannedCampaign, named: tuple[NamedDifference, ...]) -> tuple[DifferenceOutlook, ...]:
    found = []
    for one in campaign.difference.functional if campaign.difference else ():
        why = next((name.why for name in named if covers(name.field, one.field)), None)
        if any(covers(field, one.field) for field in campaign.file.controlled_fields):
            found.append(DifferenceOutlook(one, "controlled"))
        elif why is not None:
            found.append(DifferenceOutlook(one, "named", why))
        else:
            found.append(DifferenceOutlook(one, "undeclared"))
    return tuple(found)
