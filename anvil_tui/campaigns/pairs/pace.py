"""How fast a lane was before: what the expected duration of a campaign rests on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from statistics import median

import msgspec

from anvil_tui.campaigns.pairs.overheads import Overheads, overheads
from anvil_tui.campaigns.pairs.planned_campaign import PlannedCampaign
from anvil_tui.campaigns.store.folder import CampaignFolder, all_campaigns
from anvil_tui.campaigns.store.journal import read_journal
from anvil_tui.errors import AnvilError
from anvil_tui.evidence.run_metrics import COMPLETED, request_timing, wall_time_ms
from anvil_tui.lanes.folder import loads
from anvil_tui.locations import Locations
from anvil_tui.records.artifact import RunArtifact
from anvil_tui.records.request import RequestRecord

_RECENT_CAMPAIGNS, _RECENT_RUNS = 5, 30
"""How much of a lane's past is read for its pace."""


@dataclass(frozen=True)
class Pace:
    """How fast a lane was before. Null where nothing tells."""

    startup_s: float | None = None
    """Median over its loads, launch to ready."""
    gate_request_s: float | None = None
    """Seconds of a gate over its requests."""
    prefill_tok_s: float | None = None
    decode_tok_s: float | None = None
    output_tokens: float | None = None
    """Natural length of an answer to a measured prompt."""
    run_extra_s: float | None = None
    """What a run takes beside its requests: sizing its prompts, counters, the verdict on memory."""
    swap_s: float | None = None
    """What a load of a paired campaign takes beside its start-up and its runs: memory, launch, logs, stop."""


@dataclass(frozen=True)
class Past:
    """What is known here of the lanes of a campaign, and of the campaign itself."""

    paces: Mapping[str, Pace] = field(default_factory=dict)
    """By lane."""
    closeout_s: float | None = None
    """Median over earlier campaigns of the same file."""


def read_past(campaign: PlannedCampaign, locations: Locations) -> Past:
    """Look at what was measured here before."""
    names = {lane.name for lane in campaign.lanes.values()}
    told = _recent_overheads(locations, names, campaign.name)
    return Past(
        paces={
            name: lane_pace(name, locations, [one for each in told for one in each.swaps.get(name, ())])
            for name in names
        },
        closeout_s=_median(each.closeout_s for each in told),
    )


def lane_pace(lane: str, locations: Locations, swaps: Sequence[float] = ()) -> Pace:
    """The pace of a lane, from its earlier loads and the runs that are still here; `swaps` in seconds."""
    ready = [one for load in loads(locations.lanes, lane) if (one := load.ready()) is not None]
    artifacts = _recent_runs(lane, locations)
    measured = [
        record
        for artifact in artifacts
        if artifact.what != "gate"
        for record in artifact.requests
        if record.outcome in COMPLETED
    ]
    timings = [request_timing(record) for record in measured]
    return Pace(
        startup_s=_median(one.startup_seconds for one in ready),
        gate_request_s=_median(_gate_request_s(one.requests) for one in artifacts if one.what == "gate"),
        prefill_tok_s=_median(one.effective_prefill_tok_s for one in timings),
        decode_tok_s=_median(one.decode_tok_s for one in timings),
        output_tokens=_median(record.output_tokens for record in measured),
        run_extra_s=_median(_run_extra_s(one) for one in artifacts if one.what != "gate"),
        swap_s=_median(swaps),
    )


def _recent_runs(lane: str, locations: Locations) -> list[RunArtifact]:
    """Passed and failed runs of a lane from the newest campaigns that measured it; unreadable ones are left out."""
    found: list[Path] = []
    campaigns = 0
    for folder in reversed(all_campaigns(locations.campaigns)):
        paths = sorted((folder.path / "runs").glob(f"{lane}-r*.json"))
        found += paths
        campaigns += bool(paths)
        if campaigns >= _RECENT_CAMPAIGNS or len(found) >= _RECENT_RUNS:
            break
    artifacts = []
    for path in found[:_RECENT_RUNS]:
        try:
            artifacts.append(msgspec.json.decode(path.read_bytes(), type=RunArtifact))
        except (OSError, msgspec.MsgspecError):
            continue
    return [one for one in artifacts if one.lane.lane == lane]


def _recent_overheads(locations: Locations, lanes: set[str], name: str) -> list[Overheads]:
    """The newest paired campaigns that loaded one of these lanes, or came from the same file."""
    found: list[Overheads] = []
    for folder in reversed(all_campaigns(locations.campaigns)):
        if len(found) < _RECENT_CAMPAIGNS and (told := _overheads(folder, lanes, name)) is not None:
            found.append(told)
    return found


def _overheads(folder: CampaignFolder, lanes: set[str], name: str) -> Overheads | None:
    try:
        plan = folder.plan()
        if plan.kind != "paired" or not (lanes & set(plan.lanes) or plan.campaign_name == name):
            return None
        told = overheads(read_journal(folder.journal))
    except (AnvilError, OSError):
        return None
    return told if plan.campaign_name == name else replace(told, closeout_s=None)


def _run_extra_s(run: RunArtifact) -> float | None:
    """From the begin of a run to its end, less the time in which requests were under way."""
    wall = wall_time_ms((*run.warmup, *run.requests))
    if wall is None:
        return None
    whole = datetime.fromisoformat(run.finished_at) - datetime.fromisoformat(run.started_at)
    return max(0.0, whole.total_seconds() - wall / 1000)


def _gate_request_s(requests: Sequence[RequestRecord]) -> float | None:
    """Seconds of a gate over the number of its requests: some of them run at once."""
    wall = wall_time_ms(requests)
    return None if wall is None else wall / 1000 / len(requests)


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
