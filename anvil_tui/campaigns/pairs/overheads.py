"""What a paired campaign takes beside its start-ups and its runs, read from the journals of earlier ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from anvil_tui.records import events
from anvil_tui.records.events import Envelope, Event


@dataclass(frozen=True)
class Overheads:
    """Of one campaign. Seconds; what the journal does not tell whole is left out."""

    swaps: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """By lane: each whole load from its begin to its stop, less its start-up and its runs."""
    closeout_s: float | None = None
    """Last stop to the report: watched files, validations, documents."""


def overheads(journal: Iterable[tuple[Envelope, Event | None]]) -> Overheads:
    """Fold a journal. Times compare within one boot only, so nothing is told across two runners."""
    swaps: dict[str, tuple[float, ...]] = {}
    closeout: float | None = None
    begun: int | None = None
    stopped: int | None = None
    run_began = told_us = 0
    whole = ready = False
    for envelope, event in journal:
        now = envelope.mono_us
        match event:
            case events.RunnerStarted():
                begun = stopped = None
            case events.BlockLoadBegun():
                begun, told_us, whole, ready = now, 0, False, False
            case events.LoadReady(startup_seconds=float(seconds)):
                told_us, ready = told_us + int(seconds * 1e6), True
            case events.RunStarted():
                run_began = now
            case events.RunFinished():
                told_us += now - run_began
            case events.BlockLoadEnded():
                whole = event.whole
            case events.LoadStopped():
                stopped = now
                if begun is not None and whole and ready:
                    swaps[event.lane] = (*swaps.get(event.lane, ()), max(0.0, (now - begun - told_us) / 1e6))
                begun = None
            case events.DocumentWritten(schema="text/html"):
                if closeout is None and stopped is not None:
                    closeout = (now - stopped) / 1e6
    return Overheads(swaps, closeout)
