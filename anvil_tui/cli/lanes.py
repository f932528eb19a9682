"""`lanes`, `check`, `up`, `down`."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from anvil_tui import exit_codes
from anvil_tui.campaigns import preflight
from anvil_tui.campaigns.begin import begin
from anvil_tui.cli.following import follow_campaign
from anvil_tui.cli.output import Output, table
from anvil_tui.engines import flags
from anvil_tui.errors import BadInput
from anvil_tui.lanes import recipe
from anvil_tui.lanes.folder import loads
from anvil_tui.lanes.profile import Lane, all_lanes, find_lane, read_lane
from anvil_tui.lanes.site import read_site
from anvil_tui.lanes.stop import members, stop
from anvil_tui.locations import Locations
from anvil_tui.records.lane import ProcessLaunch


def lanes(_: Namespace, locations: Locations, output: Output) -> int:
    """List every lane: the operator's own before the shipped ones, refused profiles with their reason."""
    rows, documents = [], []
    for name, lane in all_lanes(locations).items():
        if isinstance(lane, BadInput):
            rows.append((name, "refused", "", "", str(lane).splitlines()[0]))
            documents.append({"lane": name, "state": "refused", "faults": str(lane).splitlines()})
            continue
        entry = _entry(lane, locations)
        documents.append(entry)
        shadow = f" (shadows {lane.shadows})" if lane.shadows else ""
        rows.append((name, entry["state"], entry["launch"], entry["base_url"], (lane.profile.about or "") + shadow))
    for line in table(("LANE", "STATE", "LAUNCH", "ENDPOINT", "ABOUT"), rows):
        output.line(line)
    output.document("anvil-cli-lanes/v1", {"lanes": documents})
    return exit_codes.GOOD


def check(arguments: Namespace, locations: Locations, output: Output) -> int:
    """Check profiles; every fault of every file is told."""
    site = read_site(locations.machine)
    documents: list[dict[str, Any]] = []
    for path in arguments.files:
        try:
            lane = read_lane(path, site)
        except BadInput as refused:
            output.error(str(refused), refused.exit_code) if not output.json else None
            faults = [
                {"place": fault.place, "found": fault.found, "allowed": fault.allowed, "nearest": fault.nearest}
                for fault in refused.faults
            ]
            documents.append({"file": str(path), "valid": False, "faults": faults})
            continue
        origins = _origins(lane)
        declared = [field for field, origin in origins.items() if origin == "declared only"]
        note = f"; declared only: {', '.join(declared)}" if declared else ""
        output.line(f"{path}: good{note}")
        documents.append({"file": str(path), "valid": True, "lane": lane.name, "recipe_origins": origins})
    output.document("anvil-cli-check/v1", {"files": documents})
    return exit_codes.GOOD if all(one["valid"] for one in documents) else exit_codes.BAD_INPUT


def up(arguments: Namespace, locations: Locations, output: Output) -> int:
    """Start a lane as a campaign of kind `startup`, and follow it."""
    lane = find_lane(arguments.lane, locations)
    preflight.check_up(lane, locations)
    return follow_campaign(begin(locations, lane, up=True), output)


def down(arguments: Namespace, locations: Locations, output: Output) -> int:
    """Stop every load of a lane of which anything still lives, also after a crash of ours."""
    lane = find_lane(arguments.lane, locations)
    living = [load for load in loads(locations.lanes, lane.name) if members(load)]
    stopped = []
    for load in living:
        output.progress(f"stopping {lane.name}, load {load.load_id}")
        gone = stop(load, arguments.grace)
        stopped.append({"load_id": load.load_id, "gone": gone})
        output.line(f"{lane.name}: load {load.load_id} " + ("is stopped" if gone else "did not end; see its processes"))
    if not living:
        output.line(f"{lane.name}: nothing of it runs")
    output.document("anvil-cli-down/v1", {"lane": lane.name, "loads": stopped})
    return exit_codes.GOOD if all(one["gone"] for one in stopped) else exit_codes.CHECK_FAILED


def _entry(lane: Lane, locations: Locations) -> dict[str, Any]:
    found = loads(locations.lanes, lane.name)
    newest = next(
        (load for load in reversed(found) if load.state() in ("up", "starting")), found[-1] if found else None
    )
    ready = newest.ready() if newest else None
    return {
        "lane": lane.name,
        "state": newest.state() if newest else "down",
        "launch": lane.profile.launch.__struct_config__.tag,
        "rehearsal": lane.rehearsal,
        "base_url": lane.profile.endpoint.base_url,
        "served_name": lane.profile.endpoint.served_name,
        "load_id": newest.load_id if newest else None,
        "startup_seconds": ready.startup_seconds if ready else None,
        "profile": str(lane.path),
        "shadows": str(lane.shadows) if lane.shadows else None,
        "about": lane.profile.about,
    }


def _origins(lane: Lane) -> dict[str, str]:
    launch = lane.profile.launch
    literal: frozenset[str] = frozenset()
    if isinstance(launch, ProcessLaunch):
        found = flags.literals(lane.profile.identity.engine, launch.argv, launch.env)
        literal = frozenset(field for field, _, value in found if not recipe.refers(value))
    return dict(recipe.origins(lane.profile, literal))
