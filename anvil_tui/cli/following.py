"""Following a campaign on the command line: plain lines in a pipe, a moving line on a terminal, the folder last."""

from __future__ import annotations

from typing import Any

from anvil_tui import exit_codes
from anvil_tui.campaigns.begin import Begun
from anvil_tui.campaigns.store.folder import CampaignFolder
from anvil_tui.campaigns.store.follow import Update, follow
from anvil_tui.campaigns.store.view import CampaignView
from anvil_tui.campaigns.store.words import event_words, live_words
from anvil_tui.cli.output import Output


def follow_campaign(begun: Begun, output: Output) -> int:
    """Follow a campaign that was started here until its runner ends; returns the campaign's exit code."""
    return _follow(begun.folder, output, lambda: begun.runner.poll() is None)


def watch_campaign(folder: CampaignFolder, output: Output) -> int:
    """Follow a campaign from outside."""
    return _follow(folder, output, lambda: False)


def campaign_document(folder: CampaignFolder, view: CampaignView, standing: str) -> dict[str, Any]:
    """A campaign for `--json`."""
    return {
        "campaign_id": view.id,
        "folder": str(folder.path),
        "kind": view.kind,
        "lanes": list(view.lanes),
        "rehearsal": view.rehearsal,
        "standing": standing,
        "began_at": view.began_at,
        "ended_at": view.ended_at,
        "load_id": view.load_id,
        "startup_seconds": view.startup_seconds,
        "max_model_len": view.max_model_len,
        "engine_version": view.engine_version,
        "runs": [
            {
                "run": run.run,
                "what": run.what,
                "target_tokens": run.target_tokens,
                "state": run.state,
                "words": run.words,
                "path": run.path,
                "reserve": run.reserve,
            }
            for run in view.runs
        ],
        "alarms": list(view.alarms),
        "words": view.words,
        "exit_code": view.exit_code,
        "unknown_events": view.unknown,
    }


def _follow(folder: CampaignFolder, output: Output, alive: Any) -> int:
    update: Update | None = None
    try:
        for update in follow(folder, alive):
            for envelope, event in update.events:
                if words := event_words(event, envelope.kind):
                    output.line(f"{envelope.t[11:19]}  {words}")
            if update.live is not None:
                output.progress(live_words(update.live))
    except KeyboardInterrupt:
        output.line(f"you left; the campaign goes on: anvil-tui watch {folder.id}, anvil-tui stop {folder.id}")
        raise
    assert update is not None, "follow yields at least once"
    view, standing = update.view, update.view.standing(running=False)
    if standing == "interrupted":
        output.line(
            f"the runner ended without a word; {folder.runner_log} may say why; anvil-tui resume {folder.id} goes on"
        )
    code = exit_codes.CHECK_FAILED if view.exit_code is None else view.exit_code
    output.document("anvil-cli-campaign/v1", campaign_document(folder, view, standing) | {"exit_code": code})
    output.line(str(folder.path))
    return code
