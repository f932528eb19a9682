"""`campaigns`, `watch`, `resume`, `stop`, `decide`."""

from __future__ import annotations

import signal
import sys
import time
from argparse import Namespace
from pathlib import Path

from anvil_tui import exit_codes
from anvil_tui.campaigns import control, deciding
from anvil_tui.campaigns.begin import Begun, start_runner
from anvil_tui.campaigns.store.folder import all_campaigns, find_campaign
from anvil_tui.campaigns.store.view import read_view
from anvil_tui.cli.following import campaign_document, follow_campaign, watch_campaign
from anvil_tui.cli.output import Output, table
from anvil_tui.errors import CannotRun
from anvil_tui.locations import Locations
from anvil_tui.records.validation import read_bytes


def campaigns(_: Namespace, locations: Locations, output: Output) -> int:
    """List every campaign of this state folder."""
    rows, documents = [], []
    for folder in all_campaigns(locations.campaigns):
        view, standing = read_view(folder)
        passed = sum(run.state == "passed" for run in view.runs)
        runs = f"{passed}/{len(view.runs)}" if view.runs else ""
        label = "REHEARSAL" if view.rehearsal else ""
        rows.append((folder.id, view.kind, ", ".join(view.lanes), standing, runs, label))
        documents.append(campaign_document(folder, view, standing))
    for line in table(("CAMPAIGN", "KIND", "LANES", "STANDING", "PASSED", ""), rows):
        output.line(line)
    output.document("anvil-cli-campaigns/v1", {"campaigns": documents})
    return exit_codes.GOOD


def watch(arguments: Namespace, locations: Locations, output: Output) -> int:
    """Follow a campaign from outside until its runner ends."""
    return watch_campaign(find_campaign(locations.campaigns, arguments.campaign), output)


def resume(arguments: Namespace, locations: Locations, output: Output) -> int:
    """Start a new runner on a campaign whose runner died; it goes on with the next run."""
    folder = find_campaign(locations.campaigns, arguments.campaign)
    _, standing = read_view(folder)
    if standing not in ("interrupted", "stopped"):
        raise CannotRun(f"{folder.id} is {standing}; only an interrupted or stopped campaign can be resumed")
    return follow_campaign(Begun(folder, start_runner(folder, locations)), output)


def stop(arguments: Namespace, locations: Locations, output: Output) -> int:
    """Ask the runner to stop, and wait until it is done."""
    folder = find_campaign(locations.campaigns, arguments.campaign)
    if not folder.running():
        raise CannotRun(f"{folder.id}: no runner writes it now")
    name = control.ask(folder.inbox, control.Request(ask="stop_now" if arguments.now else "stop_after_request"))
    deadline = time.monotonic() + control.ANSWER_SECONDS
    while folder.running() and (folder.inbox / f"{name}.json").exists():
        if time.monotonic() > deadline:
            output.line(f"the runner did not take the request within {control.ANSWER_SECONDS:g} s; it is sent SIGTERM")
            control.signal_runner(folder, signal.SIGTERM)
            break
        time.sleep(0.05)
    watch_campaign(folder, output)
    return exit_codes.GOOD


def decide(arguments: Namespace, locations: Locations, output: Output) -> int:
    """Put the operator's decision into the campaign; a later one replaces it until the campaign is sealed."""
    folder = find_campaign(locations.campaigns, arguments.campaign)
    text = sys.stdin.buffer.read() if arguments.text == Path("-") else read_bytes(arguments.text)
    path = deciding.decide(folder, text, str(arguments.text))
    output.line(str(folder.path / path))
    output.document("anvil-cli-decide/v1", {"campaign_id": folder.id, "path": path})
    return exit_codes.GOOD
