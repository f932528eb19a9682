"""What can be refused before a campaign begins, so that nothing is sent and no folder is made."""

from __future__ import annotations

import asyncio
import os

from anvil_tui.campaigns.pairs.planned_campaign import PlannedCampaign
from anvil_tui.campaigns.steps.capacity import check_context
from anvil_tui.campaigns.steps.load import endpoint_of
from anvil_tui.campaigns.steps.rungs import check_targets
from anvil_tui.errors import CannotRun
from anvil_tui.files import Lock
from anvil_tui.lanes import launch, locks, readiness
from anvil_tui.lanes.folder import living_load
from anvil_tui.lanes.profile import Lane
from anvil_tui.lanes.readiness import Answer
from anvil_tui.locations import Locations
from anvil_tui.records.lane import AttachLaunch
from anvil_tui.records.plan import CapacityPlan, LadderPlan, MeasurePlan


def check_up(lane: Lane, locations: Locations) -> None:
    """Whether the lane can be started now. Raises BadInput or CannotRun."""
    _check_free(lane)
    if isinstance(lane.profile.launch, AttachLaunch):
        launch.check(lane, os.environ)
    living = living_load(locations.lanes, lane.name)
    if living is None:
        launch.check(lane, os.environ)
    elif living.state() == "up":
        raise CannotRun(f"{lane.name} is up already (load {living.load_id}); `anvil-tui down {lane.name}` stops it")


def check_measuring(lane: Lane, plan: MeasurePlan, locations: Locations, *, up: bool) -> None:
    """Whether a lane can be measured so: it is there or may be started, and every prompt fits. Raises CannotRun."""
    _check_free(lane)
    attached = isinstance(lane.profile.launch, AttachLaunch)
    living = None if attached else living_load(locations.lanes, lane.name)
    if attached or (living is not None and living.state() == "up"):
        answer = asyncio.run(_ask(lane))
        if not answer.ready:
            raise CannotRun(f"{lane.name}: {answer.words}")
        _check_fits(lane, answer.max_model_len, plan, "observed")
        return
    if not up:
        raise CannotRun(f"{lane.name} is down; start it with `anvil-tui up {lane.name}`, or add --up")
    if living is None:
        launch.check(lane, os.environ)
    _check_fits(lane, lane.profile.recipe.max_model_len, plan, "the recipe's")


def check_paired(campaign: PlannedCampaign, locations: Locations) -> None:
    """Whether every lane of a paired campaign can be started in turn. Raises BadInput and CannotRun."""
    for lane in {lane.name: lane for lane in campaign.lanes.values()}.values():
        _check_free(lane)
        if isinstance(lane.profile.launch, AttachLaunch):
            raise CannotRun(f"{lane.name} is attached: a paired campaign starts and stops its lanes itself")
        living = living_load(locations.lanes, lane.name)
        if living is not None:
            raise CannotRun(
                f"{lane.name} is up (load {living.load_id}); every load is started anew: `anvil-tui down {lane.name}`"
            )
        launch.check(lane, os.environ)
        for plan in (campaign.file.ladder, campaign.file.capacity):
            if plan is not None:
                _check_fits(lane, lane.profile.recipe.max_model_len, plan, "the recipe's")


def _check_fits(lane: Lane, length: int | None, plan: MeasurePlan, how: str) -> None:
    if isinstance(plan, LadderPlan):
        check_targets(lane.name, length, plan.targets, plan, how)
    elif isinstance(plan, CapacityPlan):
        check_context(lane.name, length, plan, how)


def _check_free(lane: Lane) -> None:
    """Two campaigns never measure one load."""
    path = locks.measuring_lock(lane)
    if Lock.held(path):
        holder = path.read_text(errors="replace").strip() or "another campaign"
        raise CannotRun(f"{lane.name}: {holder} measures this load now; watch it, or ask it to stop")


async def _ask(lane: Lane) -> Answer:
    async with endpoint_of(lane) as endpoint:
        return await readiness.ask(endpoint, lane.profile.endpoint.served_name)
