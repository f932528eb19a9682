"""Finding and reading campaign files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from anvil_tui.campaigns.pairs.campaign_faults import campaign_faults, undeclared_fault
from anvil_tui.campaigns.pairs.planned_campaign import PlannedCampaign, arms_of
from anvil_tui.errors import BadInput, Fault, nearest
from anvil_tui.lanes.difference import covers, lane_difference
from anvil_tui.lanes.profile import Lane, find_lane
from anvil_tui.lanes.site import read_site
from anvil_tui.locations import Locations
from anvil_tui.records.acceptance import ArmRole
from anvil_tui.records.campaign_file import CampaignFile, NamedDifference
from anvil_tui.records.validation import decode_toml, read_bytes


def campaign_paths(locations: Locations) -> dict[str, tuple[Path, Path | None]]:
    """Every campaign file by name: its path, and the shipped path that it shadows."""
    shipped = {path.stem: path for path in sorted((locations.shipped_profiles / "campaigns").glob("*.toml"))}
    own = {path.stem: path for path in sorted((locations.profiles / "campaigns").glob("*.toml"))}
    return {
        name: (own.get(name) or shipped[name], shipped.get(name) if name in own else None) for name in own | shipped
    }


def find_campaign_file(name: str, locations: Locations) -> PlannedCampaign:
    """The campaign file of this name, or at this path. Raises BadInput with every fault that it has here."""
    if name.endswith(".toml") or "/" in name:
        return read_campaign_file(Path(name).absolute(), locations)
    paths = campaign_paths(locations)
    if name not in paths:
        fault = Fault("campaign", f"no campaign file {name!r}", ", ".join(sorted(paths)), nearest(name, paths))
        raise BadInput(str(locations.profiles / "campaigns"), fault)
    path, shadows = paths[name]
    return read_campaign_file(path, locations, shadows)


def all_campaign_files(locations: Locations) -> dict[str, PlannedCampaign | BadInput]:
    """Every campaign file by name, or why it is not valid here."""
    found: dict[str, PlannedCampaign | BadInput] = {}
    for name, (path, shadows) in sorted(campaign_paths(locations).items()):
        try:
            found[name] = read_campaign_file(path, locations, shadows)
        except BadInput as refused:
            found[name] = refused
    return found


def read_campaign_file(path: Path, locations: Locations, shadows: Path | None = None) -> PlannedCampaign:
    """Read one campaign file with the lanes that it names. Raises BadInput with every fault that it has here.

    Undeclared functional differences are no fault of the file: `check_declared` refuses them before a start.
    """
    site = read_site(locations.machine)
    raw = read_bytes(path)
    file = decode_toml(CampaignFile, raw, str(path), closed=True)
    faults: list[Fault] = []
    lanes: dict[ArmRole, Lane] = {}
    for role, arm in arms_of(file):
        if "/" in arm.lane or arm.lane.endswith(".toml"):
            faults.append(
                Fault(f"arms.{role}.lane", repr(arm.lane), "the name of a lane, as `anvil-tui lanes` lists it")
            )
            continue
        try:
            lanes[role] = find_lane(arm.lane, locations)
        except BadInput as refused:
            faults += _lane_faults(f"arms.{role}.lane", arm.lane, refused)
    difference = lane_difference(lanes["baseline"], lanes["candidate"]) if len(lanes) == 2 else None
    campaign = PlannedCampaign(path.stem, path, raw, file, lanes, site, difference, shadows)
    faults += campaign_faults(campaign)
    if faults:
        raise BadInput(str(path), *faults)
    return campaign


def check_declared(campaign: PlannedCampaign, named: tuple[NamedDifference, ...] = ()) -> None:
    """Refuse functional differences that nobody declared; `named` are those that the operator names at the start.

    Raises BadInput with one fault a difference.
    """
    fields = tuple(one.field for one in named)
    open_ones = [one for one in campaign.undeclared if not any(covers(field, one.field) for field in fields)]
    if open_ones:
        raise BadInput(str(campaign.path), *map(undeclared_fault, open_ones))


def _lane_faults(place: str, lane: str, refused: BadInput) -> Iterator[Fault]:
    """A lane that is not there, or each fault of its profile, at the place where the campaign names it."""
    for fault in refused.faults:
        if fault.place == "lane":
            yield Fault(place, fault.found, fault.allowed, fault.nearest)
        else:
            yield Fault(place, f"lane {lane!r} is refused: {fault.place}: {fault.found}", fault.allowed, fault.nearest)
