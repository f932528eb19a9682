"""The paired campaign: exclusive lanes swapped on the same GPUs, each measured the same way, ending in documents."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

from anvil_tui import exit_codes
from anvil_tui.campaigns.pairs import concluding
from anvil_tui.campaigns.pairs.facts import gather, read_artifacts
from anvil_tui.campaigns.pairs.swapping import await_memory, stop_load
from anvil_tui.campaigns.pairs.validating import validate
from anvil_tui.campaigns.pairs.watched import hash_watched
from anvil_tui.campaigns.running.interrupts import Interrupt
from anvil_tui.campaigns.running.session import Session
from anvil_tui.campaigns.running.vram import VramWatch
from anvil_tui.campaigns.steps.capacity import run_capacity
from anvil_tui.campaigns.steps.gate import run_gate
from anvil_tui.campaigns.steps.ladder import Ladder
from anvil_tui.campaigns.steps.measuring import Measuring
from anvil_tui.campaigns.steps.visit import visit
from anvil_tui.campaigns.store.journal import read_journal
from anvil_tui.campaigns.store.recovery import runs_before
from anvil_tui.engines.endpoint import EndpointError
from anvil_tui.errors import AnvilError
from anvil_tui.evidence.acceptance import judge_conditions
from anvil_tui.lanes.folder import living_load
from anvil_tui.lanes.profile import find_lane
from anvil_tui.lanes.shared_memory import reclaimable_bytes
from anvil_tui.lanes.site import read_site
from anvil_tui.records.acceptance import ConditionState
from anvil_tui.records.campaign_file import CampaignFile
from anvil_tui.records.events import BlockInterrupted, BlockLoadBegun, BlockLoadEnded, Ending, Event, RunSkipped
from anvil_tui.records.plan import PlannedLoad
from anvil_tui.records.validation import read_toml


async def run_paired(session: Session, earlier: Sequence[Event]) -> tuple[Ending, str, int]:
    """Run every load that is not done yet, then conclude. What fails on the way is concluded too.

    Returns how it ended, in a word, a sentence and an exit code.
    """
    paired = Paired(session, earlier)
    await paired.begin()
    ending: tuple[Ending, str, int]
    try:
        passed = await paired.run_loads()
        word = "every run passed" if passed else "not every run passed"
        word += "" if paired.reserve_held else "; the memory reserve was not kept"
        good = passed and paired.reserve_held
        ending = "complete", f"the campaign is done: {word}", exit_codes.GOOD if good else exit_codes.CHECK_FAILED
    except Interrupt as interrupt:
        how: Ending = "failed" if interrupt.kind == "lane_died" else "stopped"
        ending = how, str(interrupt), exit_codes.CHECK_FAILED
    except AnvilError as refused:
        ending = "failed", str(refused), refused.exit_code
    finally:
        await paired.leave()
    return await paired.conclude(ending)


class Paired:
    """One paired campaign at work."""

    def __init__(self, session: Session, earlier: Sequence[Event]) -> None:
        self._session = session
        self._earlier = tuple(earlier)
        self._file: CampaignFile = read_toml(CampaignFile, session.folder.path / "campaign.toml")
        self._lanes = {
            name: find_lane(str(session.folder.lane_profile(name)), session.locations) for name in session.plan.lanes
        }
        self._site = dict(read_site(session.locations.machine))
        self._base = session.folder.base_folder()
        self._vram: VramWatch | None = None
        self._baseline: dict[str, int] = {}
        self._number = len(runs_before(earlier))
        self.reserve_held = True

    async def begin(self) -> None:
        """Watch the GPUs, hash what is watched, and put aside the block that an earlier runner left open."""
        session = self._session
        for lane in self._lanes.values():
            living = living_load(session.locations.lanes, lane.name)
            if living is not None:
                # Only a load of ours can be up here: a runner that died in its middle left it.
                await stop_load(session, living)
        self._vram = await VramWatch.start(session, next(iter(self._lanes.values())))
        if self._vram is not None:
            self._baseline = await self._vram.settled_free()
        if not self._earlier or not any(isinstance(event, BlockLoadBegun) for event in self._earlier):
            for event in await hash_watched(self._file.watch, "before", self._base, self._site):
                session.event(event)
        for block in sorted(_open_blocks(self._earlier, self._session.plan.loads)):
            session.event(BlockInterrupted(block=block, words="its load was cut short; the block is redone whole"))
        self._accept(finished=False)

    async def run_loads(self) -> bool:
        """Every planned load whose block is not whole yet. Returns whether all runs passed."""
        whole = _whole_blocks(self._earlier, self._session.plan.loads)
        passed = True
        for planned in self._session.plan.loads:
            if planned.block not in whole:
                passed = await self._run_load(planned) and passed
        return passed

    async def leave(self) -> None:
        """Stop what is still up of this campaign, and the sampler."""
        for lane in self._lanes.values():
            living = living_load(self._session.locations.lanes, lane.name)
            if living is not None:
                await stop_load(self._session, living)
        if self._vram is not None:
            await self._vram.stop()

    async def conclude(self, ending: tuple[Ending, str, int]) -> tuple[Ending, str, int]:
        """Hash again what is watched, run the validations, write the documents and the report."""
        session = self._session
        for event in await hash_watched(self._file.watch, "after", self._base, self._site):
            session.event(event)
        for one in self._file.validation:
            await validate(session, one, self._base, self._site)
        session.step = "writing the documents"
        conditions = self._accept(finished=True)
        await asyncio.to_thread(concluding.write_documents, session, self._file, conditions, ending[:2])
        failed = [one.text for one in conditions if one.state != "met"]
        if failed and ending[0] == "complete":
            return "complete", f"{ending[1]}; not met: {'; '.join(failed)}", exit_codes.CHECK_FAILED
        return ending

    async def _run_load(self, planned: PlannedLoad) -> bool:
        """One load of one arm from launch to stop, everything planned for it in between."""
        session, lane = self._session, self._lanes[planned.lane]
        session.event(
            BlockLoadBegun(
                number=planned.number, block=planned.block, arm=planned.arm, lane=lane.name, replay=planned.replay
            )
        )
        measuring: Measuring | None = None
        whole, words = False, ""
        try:
            if self._vram is not None:
                self._vram.serve(lane)
                await await_memory(session, self._vram, self._baseline)
            async with visit(session, lane, self._vram, self._number, planned) as measuring:
                await measuring.prober.start()
                self._accept(finished=False)
                passed = await self._measure(measuring, planned)
                whole, words = True, "everything planned for it was done"
                self.reserve_held = self.reserve_held and measuring.reserve_held
                health = await _health(measuring)
        except (AnvilError, Interrupt) as error:
            words, health = str(error), "not asked: its load ended early"
            self._skip_rest(planned, words)
            raise
        finally:
            if measuring is not None:
                self._number = measuring.number
            session.event(
                BlockLoadEnded(
                    number=planned.number,
                    block=planned.block,
                    arm=planned.arm,
                    load_id=measuring.load.folder.load_id if measuring is not None else None,
                    whole=whole,
                    health=health,
                    shared_memory_reclaimable_bytes=reclaimable_bytes(),
                    words=words,
                )
            )
            self._accept(finished=False)
        await stop_load(session, measuring.load.folder)
        return passed

    async def _measure(self, measuring: Measuring, planned: PlannedLoad) -> bool:
        """Gate, runs, ladder, gate: what the campaign file asks of each load."""
        file, passed = self._file, True
        if file.gate is not None and planned.arm in file.gate_arms:
            passed = await run_gate(measuring, file.gate) and passed
            self._accept(finished=False)
        if file.capacity is not None:
            passed = await run_capacity(measuring, file.capacity) and passed
            self._accept(finished=False)
        if file.ladder is not None:
            passed = await Ladder(measuring, file.ladder).climb() and passed
            self._accept(finished=False)
        if file.post_gate is not None and planned.arm in file.gate_arms:
            passed = await run_gate(measuring, file.post_gate, "post") and passed
        return passed

    def _accept(self, *, finished: bool) -> tuple[ConditionState, ...]:
        """How the acceptance conditions stand now, where the operator sees them."""
        events = [event for _, event in read_journal(self._session.folder.journal) if event is not None]
        folder = self._session.folder.path
        facts = gather(folder, events, read_artifacts(folder), finished=finished)
        conditions = judge_conditions(self._file.acceptance, facts)
        self._session.acceptance = conditions
        return conditions

    def _skip_rest(self, planned: PlannedLoad, words: str) -> None:
        file = self._file
        what: Literal["rung", "gate", "capacity"] = "capacity" if file.capacity else "rung" if file.ladder else "gate"
        later = [one for one in self._session.plan.loads if one.number > planned.number]
        for one in later:
            self._session.event(
                RunSkipped(what=what, target_tokens=None, words=f"load {one.number + 1} of {one.lane}: {words}")
            )


async def _health(measuring: Measuring) -> str:
    """How the endpoint answers at the end of its load."""
    try:
        await measuring.load.endpoint.one_token(measuring.load.lane.profile.endpoint.served_name, timeout_s=30.0)
    except EndpointError as error:
        return str(error)
    return "healthy"


def _whole_blocks(events: Sequence[Event], loads: Sequence[PlannedLoad]) -> set[int]:
    """Blocks all of whose loads were done whole, in one go."""
    done: dict[int, set[int]] = {}
    for event in events:
        if isinstance(event, BlockInterrupted):
            done.pop(event.block, None)
        elif isinstance(event, BlockLoadEnded) and event.whole:
            done.setdefault(event.block, set()).add(event.number)
    planned: dict[int, set[int]] = {}
    for load in loads:
        planned.setdefault(load.block, set()).add(load.number)
    return {block for block, numbers in planned.items() if done.get(block) == numbers}


def _open_blocks(events: Sequence[Event], loads: Sequence[PlannedLoad]) -> set[int]:
    """Blocks that were begun and are not whole: a resume redoes them, on whatever load or boot."""
    begun: set[int] = set()
    for event in events:
        if isinstance(event, BlockLoadBegun):
            begun.add(event.block)
        elif isinstance(event, BlockInterrupted):
            begun.discard(event.block)
    return begun - _whole_blocks(events, loads)
