"""What no measurement can be, whatever file states it: a foreign file is refused with the figure that is impossible."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from anvil_tui.errors import BadInput, Fault
from anvil_tui.records.arm import DraftCounters, GateOutcome, MeasuredRun, MemoryWindow
from anvil_tui.records.request import RequestRecord

LIMIT = 1e15
_RUN = ("completed", "failed", "concurrency", "label_tokens", "max_tokens", "max_model_len", "wall_ms")
_REQUEST = ("request_index", "prompt_tokens", "output_tokens", "cached_tokens")
_TIMES = ("time_to_first_output_ms", "ttft_ms", "e2e_ms")


def check(record: MeasuredRun | GateOutcome | MemoryWindow | DraftCounters, source: str) -> None:
    """Raise BadInput that names `source` where a figure is negative, no number, beyond LIMIT or against its order."""
    if faults := tuple(_faults(record)):
        raise BadInput(source, *faults)


def _faults(record: MeasuredRun | GateOutcome | MemoryWindow | DraftCounters) -> Iterator[Fault]:
    match record:
        case MeasuredRun():
            yield from _figures(record, _RUN)
            yield from (fault for name, value in record.reported.items() for fault in _figure(name, value))
            for name in ("output_lengths", "prompt_lengths"):
                for number, value in enumerate(getattr(record, name)):
                    yield from _figure(f"{name}[{number}]", value)
            for number, request in enumerate(record.requests):
                yield from _request(request, f"requests[{number}].")
        case MemoryWindow():
            for gpu in record.gpus:
                yield from _figures(gpu, ("free_mib", "total_mib", "reserved_mib"), f"{gpu.gpu}.")
        case DraftCounters():
            yield from _figures(record, ("drafts", "draft_tokens", "accepted_tokens"))
            if record.accepted_tokens > record.draft_tokens:
                yield Fault("accepted_tokens", f"{record.accepted_tokens:g}", "no more than were drafted")


def _request(request: RequestRecord, place: str) -> Iterator[Fault]:
    yield from _figures(request, (*_REQUEST, *_TIMES), place)
    told = [(name, value) for name in _TIMES if (value := getattr(request, name)) is not None]
    for (_, early), (name, late) in pairwise(told):
        if late < early:
            yield Fault(place + name, f"{late:g}", "first output ≤ first visible ≤ end")


def _figures(record: object, names: tuple[str, ...], place: str = "") -> Iterator[Fault]:
    for name in names:
        yield from _figure(place + name, getattr(record, name))


def _figure(place: str, value: float | None) -> Iterator[Fault]:
    if value is not None and not 0 <= value <= LIMIT:
        yield Fault(place, f"{value:g}", f"a number from 0 to {LIMIT:g}")
