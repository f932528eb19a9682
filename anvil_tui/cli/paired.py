"""`plans`, `run`, `report`."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict

from anvil_tui import exit_codes
from anvil_tui.campaigns import preflight, reporting, sealing
from anvil_tui.campaigns.begin import begin_paired
from anvil_tui.campaigns.pairs.campaign_file import all_campaign_files, check_declared, find_campaign_file
from anvil_tui.campaigns.pairs.outlook import Outlook, describe
from anvil_tui.campaigns.pairs.pace import read_past
from anvil_tui.campaigns.pairs.planned_campaign import PlannedCampaign
from anvil_tui.campaigns.store.folder import find_campaign
from anvil_tui.cli.following import follow_campaign
from anvil_tui.cli.output import Output, table
from anvil_tui.errors import BadInput
from anvil_tui.locations import Locations
from anvil_tui.records.campaign_file import NamedDifference


def plans(arguments: Namespace, locations: Locations, output: Output) -> int:
    """List the campaign files and whether each is valid here; or show what one of them will do."""
    if arguments.campaign is not None:
        outlook = _outlook(find_campaign_file(arguments.campaign, locations), locations)
        for line in _outlook_lines(outlook):
            output.line(line)
        output.document("anvil-cli-plan/v1", {"plan": asdict(outlook)})
        return exit_codes.GOOD
    rows, documents = [], []
    for name, found in all_campaign_files(locations).items():
        if isinstance(found, BadInput):
            faults = [str(fault) for fault in found.faults]
            rows.append((name, "not valid here", "", faults[0]))
            documents.append({"campaign": name, "valid": False, "file": found.source, "faults": faults})
            continue
        label = "REHEARSAL " if found.rehearsal else ""
        loads = "1 load" if len(found.loads) == 1 else f"{len(found.loads)} loads"
        order = f"{found.file.order or 'one arm'}, {loads}"
        rows.append((name, "valid", order, label + found.file.name.removeprefix("REHEARSAL: ")))
        documents.append(
            {
                "campaign": name,
                "valid": True,
                "file": str(found.path),
                "shadows": str(found.shadows) if found.shadows else None,
                "rehearsal": found.rehearsal,
                "name": found.file.name,
                "about": found.file.about,
                "lanes": {arm: lane.name for arm, lane in found.lanes.items()},
                "order": found.file.order,
                "loads": len(found.loads),
                "undeclared": [one.field for one in found.undeclared],
            }
        )
    for line in table(("CAMPAIGN", "STATE", "ORDER", ""), rows):
        output.line(line)
    output.document("anvil-cli-plans/v1", {"campaigns": documents})
    return exit_codes.GOOD


def run(arguments: Namespace, locations: Locations, output: Output) -> int:
    """Run a paired campaign: every load in its order, then the documents and the report."""
    campaign = find_campaign_file(arguments.campaign, locations)
    accepted = dict(arguments.accept)
    check_declared(campaign, tuple(NamedDifference(field=field, why=why) for field, why in accepted.items()))
    if arguments.seal:
        sealing.choose_key(locations, unattended=True)
    preflight.check_paired(campaign, locations)
    return follow_campaign(begin_paired(locations, campaign, accepted, seal=arguments.seal), output)


def _outlook(campaign: PlannedCampaign, locations: Locations) -> Outlook:
    return describe(campaign, read_past(campaign, locations))


def _outlook_lines(outlook: Outlook) -> list[str]:
    """What a person should know before it runs."""
    lines = [outlook.name, outlook.about]
    for one in outlook.differences:
        why = f": {one.why}" if one.why else ""
        lines.append(
            f"{one.standing}: {one.difference.field}: {one.difference.baseline} → {one.difference.candidate}{why}"
        )
    lines += [f"operational: {one.field}: {one.baseline} → {one.candidate}" for one in outlook.operational]
    for load in outlook.loads:
        lines.append(
            f"load {load.number + 1}, block {load.block}, {load.letter}: {load.lane}, {_about(load.expected_s)}"
        )
        lines += [f"    {part.what}: {part.words}" for part in load.parts]
    requests = "an unknown number of" if outlook.requests is None else f"{outlook.requests:,}"
    lines.append(f"in all {outlook.runs} runs, {requests} requests, {_about(outlook.expected_s)}")
    if outlook.expected_s is not None:
        lines += [f"assumed: {words}" for words in outlook.assumed]
    lines += [f"at closeout: {text}" for text in outlook.closeout]
    return [*lines, *(f"accepted if: {text}" for text in outlook.acceptance)]


def _about(seconds: float | None) -> str:
    return "duration unknown" if seconds is None else f"about {seconds / 60:.1f} minutes"


def report(arguments: Namespace, locations: Locations, output: Output) -> int:
    """Write the report of a campaign: into its folder, or where it is sealed, to the file that --output names."""
    folder = find_campaign(locations.campaigns, arguments.campaign)
    path = reporting.write(folder, arguments.output)
    output.line(str(path))
    output.document("anvil-cli-report/v1", {"campaign_id": folder.id, "report": str(path)})
    return exit_codes.GOOD
