"""Free memory of GPUs over time, from a `vram/` file, and its reduction to what a plot can show."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from anvil_tui.records.vram import Gpu, GpuReading, Inventory, SamplerGap, VramLine, VramSample, contradiction

SILENCE_US = 1_000_000
"""A line of a plot breaks where no figure came for longer: what was not measured is not drawn."""


@dataclass
class GpuTrace:
    """One GPU: times in µs of one boot, ascending as sampled, and free bytes at each."""

    at_us: array[int] = field(default_factory=lambda: array("q"))
    free: array[int] = field(default_factory=lambda: array("q"))


@dataclass
class Trace:
    """The samples of one `vram/` file within one boot; times of another boot do not compare."""

    path: str
    boot_id: str | None
    gpus: dict[str, GpuTrace] = field(default_factory=dict)
    """By UUID."""
    known: dict[str, Gpu] = field(default_factory=dict)
    gaps: list[SamplerGap] = field(default_factory=list)
    samples: int = 0
    doubtful: int = 0
    """Readings without a credible figure; they are not drawn."""

    @property
    def extent_us(self) -> tuple[int, int] | None:
        """First and last time of a figure, None of none."""
        ends = [(one.at_us[0], one.at_us[-1]) for one in self.gpus.values() if one.at_us]
        return (min(first for first, _ in ends), max(last for _, last in ends)) if ends else None

    def add(self, sample: VramSample) -> None:
        self.samples += 1
        for reading in sample.gpus:
            if reading.free is None or not _credible(reading):
                self.doubtful += 1
                continue
            one = self.gpus.setdefault(reading.uuid, GpuTrace())
            one.at_us.append(sample.mono_us)
            one.free.append(reading.free)


@dataclass(frozen=True)
class Span:
    """The lowest and highest free bytes of the samples that one column of a plot stands for."""

    from_us: int
    to_us: int
    low: int
    high: int
    segment: int
    """Spans of one segment follow each other without silence."""


def traces(path: str, lines: Iterable[VramLine], boots: Iterable[tuple[str, str]]) -> tuple[Trace, ...]:
    """The lines of one file, one Trace a boot. `boots`: when each runner started (UTC as in samples), and its boot."""
    starts = sorted(boots)
    found: dict[str | None, Trace] = {}
    known: dict[str, Gpu] = {}
    current: Trace | None = None
    for line in lines:
        match line:
            case Inventory():
                known |= {gpu.uuid: gpu for gpu in line.gpus}
            case VramSample():
                boot = next((boot for at, boot in reversed(starts) if at <= line.at), starts[0][1] if starts else None)
                if current is None or current.boot_id != boot:
                    current = found.setdefault(boot, Trace(path, boot))
                current.add(line)
            case SamplerGap():
                if current is not None:
                    current.gaps.append(line)
    for trace in found.values():
        trace.known = known
    return tuple(found.values())


def spans(trace: GpuTrace, begin_us: int, end_us: int, columns: int) -> Iterator[Span]:
    """The samples of a window reduced to at most `columns` spans (plus one a silence) with their minimum and maximum.

    No low is lost: the lowest sample of the window is the low of some span.
    """
    width = max(1, -(-(end_us - begin_us + 1) // columns))
    segment = 0
    open_: Span | None = None
    column = -1
    for at_us, free in zip(trace.at_us, trace.free, strict=True):
        if not begin_us <= at_us <= end_us:
            continue
        silent = open_ is not None and at_us - open_.to_us > SILENCE_US
        if open_ is not None and (silent or (at_us - begin_us) // width != column):
            yield open_
            open_ = None
        segment += silent
        if open_ is None:
            column = (at_us - begin_us) // width
            open_ = Span(at_us, at_us, free, free, segment)
        else:
            open_ = Span(open_.from_us, at_us, min(open_.low, free), max(open_.high, free), segment)
    if open_ is not None:
        yield open_


def _credible(reading: GpuReading) -> bool:
    """By the rule of the reserve: no error, and figures that do not contradict each other."""
    told = contradiction(total=reading.total, free=reading.free, used=reading.used, reserved=reading.reserved)
    return reading.error is None and told is None
