"""Following a campaign on the command line: plain lines in a pipe, a moving line on a terminal, the folder last."""

from __future__ import annotations

from typing import Any

from anvil_tui import clock, exit_codes
from anvil_tui.campaigns.begin import Begun
from anvil_tui.campaigns.folder import CampaignFolder
from anvil_tui.campaigns.follow import Update, follow
from anvil_tui.campaigns.view import CampaignView
from anvil_tui.cli.output import Output
from anvil_tui.records import events
from anvil_tui.records.live import Live
from anvil_tui.records.vram import MIB


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


def live_words(live: Live) -> str:
    """The moment in one line."""
    words = [live.step]
    if live.lane_phase and live.run is None:
        words.append(f"phase {live.lane_phase}")
    if live.run is not None:
        elapsed = (clock.mono_us() - live.run.since_us) / 1e6
        words = [f"{live.run.run}", f"{live.run.target_tokens or 0:,} tokens", live.run.phase, f"{elapsed:.1f} s"]
        if live.run.tokens is not None:
            words.append(f"{live.run.tokens:,} tokens out")
    if live.sample is not None:
        free = [f"{gpu.free / MIB:,.0f}" if gpu.free is not None else "n/a" for gpu in live.sample.gpus]
        words.append(f"free {' | '.join(free)} MiB")
    return "  ".join(words)


def event_words(event: events.Event | None, kind: str) -> str:
    """One event as a line; an empty text is not worth a line of its own."""
    match event:
        case None:
            return f"unknown event {kind}"
        case events.CampaignPlanned():
            label = "REHEARSAL  " if event.rehearsal else ""
            return f"{label}{event.campaign_kind} on {', '.join(event.lanes)}: {event.campaign_id}"
        case events.RunnerStarted(resumed=True):
            return "a new runner took the campaign"
        case events.Recovered():
            left = ", ".join(event.interrupted_runs) or "no run"
            return f"the earlier runner died: {left} was open and is kept as interrupted"
        case events.SamplerStarted():
            names = ", ".join(f"GPU{gpu.index} {gpu.name}" for gpu in event.gpus) or "no GPU"
            return f"sampling {names} at {event.hz:g} Hz ({event.source})"
        case events.SamplerFailed():
            return f"no GPU samples: {event.reason}. {event.hint}"
        case events.LoadStarted():
            return f"{event.lane} started (pid {event.pid}, load {event.load_id})"
        case events.LoadAdopted():
            return f"{event.lane} is up; measuring load {event.load_id}"
        case events.PhaseReached():
            return f"{event.lane}: {event.phase}"
        case events.LoadReady():
            took = "" if event.startup_seconds is None else f" after {event.startup_seconds:.1f} s"
            length = "" if event.max_model_len is None else f", max_model_len {event.max_model_len:,}"
            return f"{event.lane} answers as {event.served_name}{took}{length}"
        case events.LoadFailed():
            return event.words + (f"; cause: {event.cause}" if event.cause else "")
        case events.PlanRefused() | events.AlarmRaised() | events.Answered():
            return event.words
        case events.RunStarted():
            return (
                f"{event.run}: {event.target_tokens:,} tokens" if event.target_tokens else f"{event.run}: {event.what}"
            )
        case events.RunFinished():
            return f"{event.run}: {'passed' if event.passed else 'FAILED'}: {event.words}"
        case events.RunInterrupted():
            return f"{event.run}: interrupted: {event.words}"
        case events.RunSkipped():
            return f"skipped {event.target_tokens or 0:,} tokens: {event.words}"
        case events.RunnerEnded():
            return f"{event.ending}: {event.words}"
        case events.Sealed():
            return f"sealed {event.files} files"
    return ""
