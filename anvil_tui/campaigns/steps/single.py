"""Campaigns on one lane: a start-up, a gate, capacity runs, a ladder."""

from __future__ import annotations

from collections.abc import Sequence

from anvil_tui import exit_codes
from anvil_tui.campaigns.running.session import Session
from anvil_tui.campaigns.running.vram import VramWatch
from anvil_tui.campaigns.steps.capacity import run_capacity
from anvil_tui.campaigns.steps.gate import run_gate
from anvil_tui.campaigns.steps.ladder import Ladder
from anvil_tui.campaigns.steps.load import Load
from anvil_tui.campaigns.steps.measuring import Measuring
from anvil_tui.campaigns.steps.visit import visit
from anvil_tui.campaigns.store.recovery import runs_before
from anvil_tui.errors import CannotRun
from anvil_tui.lanes.profile import find_lane
from anvil_tui.records.events import Ending, Event


async def run_single(session: Session, earlier: Sequence[Event]) -> tuple[Ending, str, int]:
    """Do what the plan says on its one lane. Returns how it ended, in a word, a sentence and an exit code.

    Raises AnvilError where it cannot, Interrupt where it must end early.
    """
    plan = session.plan
    lane = find_lane(str(session.folder.lane_profile(plan.lanes[0])), session.locations)
    before = runs_before(earlier)
    vram = await VramWatch.start(session, lane)
    try:
        async with visit(session, lane, vram, len(before)) as measuring:
            if plan.kind == "startup":
                return "complete", startup_words(measuring.load), exit_codes.GOOD
            await measuring.prober.start()
            passed = await _measure(measuring, earlier)
            held = measuring.reserve_held
    finally:
        if vram is not None:
            await vram.stop()
    words = f"{plan.kind} on {lane.name} is done: " + ("all passed" if passed else "not all passed")
    words += "" if held else "; the memory reserve was not kept"
    return "complete", words, exit_codes.GOOD if passed and held else exit_codes.CHECK_FAILED


async def _measure(measuring: Measuring, earlier: Sequence[Event]) -> bool:
    """The part that the campaign's kind decides; what an earlier runner had measured counts too."""
    plan, before = measuring.session.plan, runs_before(earlier)
    if plan.ladder is not None:
        done = sum(run.what == "rung" for run in before)
        return await Ladder(measuring, plan.ladder).climb(done) and all(run.passed for run in before)
    if plan.capacity is not None:
        return await run_capacity(measuring, plan.capacity, [run.passed for run in before if run.what == "capacity"])
    if plan.gate is not None:
        return await run_gate(measuring, plan.gate)
    raise CannotRun(f"{plan.kind}: its plan says nothing that this version can run")


def startup_words(load: Load) -> str:
    """The sentence about a lane that came up."""
    ready = load.folder.ready()
    seconds = ready.startup_seconds if ready is not None else None
    how = "is up" if seconds is None else f"came up in {seconds:.1f} s"
    length = load.answer.max_model_len
    return f"{load.lane.name} {how}" + (f" with max_model_len {length:,}" if length is not None else "")
