"""What a campaign says to its operator: events and the moment as lines of plain words."""

from __future__ import annotations

from anvil_tui import clock
from anvil_tui.records import events
from anvil_tui.records.live import Live
from anvil_tui.records.vram import MIB


def live_words(live: Live) -> str:
    """The moment in one line."""
    words = [live.step]
    if live.lane_phase and live.run is None:
        words.append(f"phase {live.lane_phase}")
    if live.run is not None:
        elapsed = (clock.mono_us() - live.run.since_us) / 1e6
        words = [f"{live.run.run}", f"{live.run.target_tokens or 0:,} tokens", live.run.phase, f"{elapsed:.1f} s"]
        if live.run.words:
            words.append(live.run.words)
        if live.run.prefill_pct is not None:
            left = "" if live.run.left_s is None else f", {live.run.left_s:.0f} s left"
            words.append(f"prompt {live.run.prefill_pct:.0f} %{left}")
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
            what = event.what if event.target_tokens is None else f"{event.target_tokens:,} tokens"
            return f"skipped {what}: {event.words}"
        case events.RunnerEnded():
            return f"{event.ending}: {event.words}"
        case events.Sealed():
            return f"sealed {event.files} files"
    return ""
