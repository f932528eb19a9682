"""Beginning a campaign: its folder with everything that it needs, then a runner in a session of its own."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from anvil_tui import __version__, clock
from anvil_tui.campaigns import control
from anvil_tui.campaigns.store.folder import CampaignFolder
from anvil_tui.campaigns.store.journal import take_lock
from anvil_tui.errors import CannotRun
from anvil_tui.files import write_new
from anvil_tui.lanes.profile import Lane
from anvil_tui.locations import Locations
from anvil_tui.records.plan import CampaignKind, CampaignPlan, CapacityPlan, GatePlan, LadderPlan, MeasurePlan

if TYPE_CHECKING:
    from anvil_tui.campaigns.pairs.planned_campaign import PlannedCampaign


@dataclass(frozen=True)
class Begun:
    """A campaign whose runner was started from here."""

    folder: CampaignFolder
    runner: subprocess.Popen[bytes]


def begin(
    locations: Locations,
    lane: Lane,
    measure: MeasurePlan | None = None,
    *,
    up: bool,
    seal: bool = False,
) -> Begun:
    """Write a new campaign's folder and start its runner. The plan is on disk before the runner is.

    `measure` is null where the lane is only started.
    """
    kind = kind_of(measure)
    folder = CampaignFolder.create(locations.campaigns, kind, lane.name)
    plan = CampaignPlan(
        campaign_id=folder.id,
        kind=kind,
        lanes=(lane.name,),
        up=up,
        rehearsal=lane.rehearsal,
        nonce_seed=secrets.token_hex(16),
        gate=measure if isinstance(measure, GatePlan) else None,
        capacity=measure if isinstance(measure, CapacityPlan) else None,
        ladder=measure if isinstance(measure, LadderPlan) else None,
        seal=seal,
        lane_sha256={lane.name: lane.sha256},
        created_at=clock.utc_now(),
        tool_version=__version__,
    )
    write_new(folder.lane_profile(lane.name), lane.raw)
    write_new(folder.path / "plan.json", msgspec.json.format(msgspec.json.encode(plan)) + b"\n")
    return Begun(folder, start_runner(folder, locations))


def kind_of(measure: MeasurePlan | None) -> CampaignKind:
    """What a campaign on one lane is called."""
    match measure:
        case GatePlan():
            return "gate"
        case CapacityPlan():
            return "capacity"
        case LadderPlan():
            return "ladder"
        case None:
            return "startup"


def begin_paired(
    locations: Locations, campaign: PlannedCampaign, accepted: Mapping[str, str], *, seal: bool = False
) -> Begun:
    """Write a paired campaign's folder and start its runner. The order of loads is fixed here, before the first one."""
    folder = CampaignFolder.create(locations.campaigns, "paired", campaign.name)
    lanes = {lane.name: lane for lane in campaign.lanes.values()}
    plan = CampaignPlan(
        campaign_id=folder.id,
        kind="paired",
        lanes=tuple(lanes),
        up=True,
        rehearsal=campaign.rehearsal,
        nonce_seed=secrets.token_hex(16),
        loads=campaign.loads,
        campaign_sha256=campaign.sha256,
        accepted_differences=dict(accepted),
        campaign_name=campaign.name,
        seal=seal,
        lane_sha256={name: lane.sha256 for name, lane in lanes.items()},
        created_at=clock.utc_now(),
        tool_version=__version__,
    )
    for name, lane in lanes.items():
        write_new(folder.lane_profile(name), lane.raw)
    write_new(folder.path / "campaign.toml", campaign.raw)
    write_new(folder.path / "plan.json", msgspec.json.format(msgspec.json.encode(plan)) + b"\n")
    write_new(folder.base, os.fsencode(campaign.path.parent))
    return Begun(folder, start_runner(folder, locations))


def start_runner(folder: CampaignFolder, locations: Locations) -> subprocess.Popen[bytes]:
    """Start a runner on a campaign that no one writes. Raises CannotRun where someone does, or where it is sealed.

    The journal's lock is taken here and inherited, so that the campaign is never seen without a writer in between.
    """
    if folder.closed:
        raise CannotRun(f"{folder.id} is sealed; nothing is ever added to it but signatures")
    lock = take_lock(folder.journal)
    try:
        # What was asked of a runner that died unheard is not meant for the next one.
        for taken in control.take(folder.inbox):
            taken.path.unlink(missing_ok=True)
        log = os.open(folder.runner_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            return subprocess.Popen(
                [
                    sys.executable, "-P", "-m", "anvil_tui.campaigns.runner", str(folder.path),
                    "--journal-fd", str(lock), "--state", str(locations.state),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(lock,),
                start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(log)
    finally:
        os.close(lock)
