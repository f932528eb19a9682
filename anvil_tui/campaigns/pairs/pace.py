"""How fast a lane was before: what the expected duration of a campaign rests on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

from anvil_tui.campaigns.store.folder import all_campaigns
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


def lane_pace(lane: str, locations: Locations) -> Pace:
    """The pace of a lane, from its earlier loads and the runs that are still here."""
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


def _gate_request_s(requests: Sequence[RequestRecord]) -> float | None:
    """Seconds of a gate over the number of its requests: some of them run at once."""
    wall = wall_time_ms(requests)
    return None if wall is None else wall / 1000 / len(requests)


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
