"""What a writer that died left open: said once by whoever takes the journal next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anvil_tui.campaigns.store.folder import CampaignFolder
from anvil_tui.campaigns.store.journal import Journal
from anvil_tui.records.events import Event, Recovered, RunFinished, RunInterrupted, RunStarted


@dataclass(frozen=True)
class RunBefore:
    """A run of an earlier runner."""

    run: str
    what: str
    passed: bool


def runs_before(earlier: Sequence[Event]) -> list[RunBefore]:
    """The runs that were started before, in order; an open or interrupted one has not passed."""
    passed = {event.run for event in earlier if isinstance(event, RunFinished) and event.passed}
    started = [event for event in earlier if isinstance(event, RunStarted)]
    return [RunBefore(event.run, event.what, event.run in passed) for event in started]


def open_runs(earlier: Sequence[Event]) -> tuple[str, ...]:
    """Runs that were started and have no end."""
    started = [event.run for event in earlier if isinstance(event, RunStarted)]
    ended = {event.run for event in earlier if isinstance(event, RunFinished | RunInterrupted)}
    return tuple(run for run in started if run not in ended)


def unnamed_artifacts(folder: CampaignFolder, earlier: Sequence[Event]) -> tuple[str, ...]:
    """Whole artifacts on disk that no event names: their writer died between writing and saying so."""
    named = {event.path for event in earlier if isinstance(event, RunFinished | RunInterrupted)}
    named |= {path for event in earlier if isinstance(event, Recovered) for path in event.found_after_crash}
    found = (f"runs/{path.name}" for path in sorted((folder.path / "runs").glob("*.json")))
    return tuple(path for path in found if path not in named)


def recover(folder: CampaignFolder, journal: Journal, earlier: Sequence[Event]) -> None:
    """Journal what an earlier writer left: each open run is interrupted, what lies around is named."""
    left = open_runs(earlier)
    for run in left:
        journal.append(RunInterrupted(run=run, words="its runner died while it was measured"))
    torn = journal.torn
    journal.append(
        Recovered(
            torn_bytes=torn.bytes if torn else 0,
            torn_sha256=torn.sha256 if torn else None,
            kept_as=torn.kept_as if torn else None,
            interrupted_runs=left,
            found_after_crash=unnamed_artifacts(folder, earlier),
        )
    )
