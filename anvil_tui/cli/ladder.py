"""`ladder`."""

from __future__ import annotations

from argparse import Namespace

from anvil_tui.campaigns import preflight, sealing
from anvil_tui.campaigns.begin import begin
from anvil_tui.cli.following import follow_campaign
from anvil_tui.cli.output import Output
from anvil_tui.lanes.profile import find_lane
from anvil_tui.locations import Locations
from anvil_tui.records.plan import LadderPlan


def ladder(arguments: Namespace, locations: Locations, output: Output) -> int:
    """Plan a ladder, refuse what cannot work, start it and follow it."""
    lane = find_lane(arguments.lane, locations)
    defaults = lane.profile.endpoint
    plan = LadderPlan(
        targets=arguments.targets,
        max_tokens=arguments.max_tokens or defaults.max_tokens,
        margin=defaults.margin if arguments.margin is None else arguments.margin,
        reasoning_effort=arguments.reasoning_effort or defaults.reasoning_effort,
    )
    if arguments.seal:
        sealing.choose_key(locations, unattended=True)
    preflight.check_ladder(lane, plan, locations, up=arguments.up)
    begun = begin(locations, "ladder", lane, up=arguments.up, ladder=plan, seal=arguments.seal)
    return follow_campaign(begun, output)
