"""The sampler child from outside: started, watched, started again; its lines as records."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import structs

from anvil_tui.clock import mono_us
from anvil_tui.gpus.line_child import LineChild
from anvil_tui.records.vram import GpuReading, Inventory, SamplerFailed, SamplerGap, SamplerLine, VramSample

_DECODER = msgspec.json.Decoder(SamplerLine)
_SILENCE_S = 1.5
_SILENT_PERIODS = 10
START_S = 15.0
"""The driver's first answer takes seconds where no other process keeps it awake."""
_SENSORS_US = 2_000_000
"""Age up to which the sensors of an earlier sample are shown."""


def sampler_argv(
    source: Literal["nvml", "rehearsal"], hz: float, *, gpus: str | None = None, timelines: Path | None = None
) -> tuple[str, ...]:
    """Command line of a sampler child. A rehearsal needs its `gpus` as JSON and the folder of its `timelines`."""
    python = (sys.executable, "-P", "-m")
    if source == "nvml":
        return (*python, "anvil_tui.gpus.sampler", "--hz", f"{hz:g}")
    assert gpus is not None and timelines is not None, "a rehearsal has both"
    return (
        *python, "anvil_tui.rehearsal.sampler",
        "--gpus", gpus, "--timelines", str(timelines), "--hz", f"{hz:g}",
    )  # fmt: skip


class SamplerChild:
    """A sampler that is there for as long as it is wanted. It may hang, crash or print garbage; this process lives on.

    `on_line` gets each record in the order in which it came, on the event loop: what the child printed, a SamplerGap
    each time one that had given samples ended, a SamplerFailed when none came up (once for each reason).
    """

    def __init__(
        self,
        source: Literal["nvml", "rehearsal"],
        hz: float,
        on_line: Callable[[SamplerLine], None],
        *,
        gpus: str | None = None,
        timelines: Path | None = None,
        start_s: float = START_S,
    ) -> None:
        """A child is given up that prints no first line within `start_s` seconds."""
        self.period_us = round(1_000_000 / hz)
        self._forward = on_line
        self._child = LineChild(
            sampler_argv(source, hz, gpus=gpus, timelines=timelines),
            on_line=self._take,
            on_end=self._end,
            silence_s=max(_SILENCE_S, _SILENT_PERIODS / hz),
            start_s=start_s,
        )
        self._first: asyncio.Future[Inventory | SamplerFailed] | None = None
        self._failed: str | None = None
        self._sample: VramSample | None = None
        self._sensors: VramSample | None = None

    @property
    def pid(self) -> int | None:
        """The child that runs now; None between two lives."""
        return self._child.pid

    @property
    def latest(self) -> VramSample | None:
        """The newest sample, completed by the sensors of at most 2 s before: for a screen, never for a file.

        Its age is the caller's to show; None before the first sample and from the moment a child ended.
        """
        sample, sensors = self._sample, self._sensors
        if sample is None or sensors is None or sample.mono_us - sensors.mono_us > _SENSORS_US:
            return sample
        earlier = {reading.uuid: reading for reading in sensors.gpus}
        return structs.replace(
            sample, gpus=tuple(_completed(reading, earlier.get(reading.uuid)) for reading in sample.gpus)
        )

    async def start(self) -> Inventory | SamplerFailed:
        """Start the child; returns its first answer. After a SamplerFailed it is tried again until `stop`."""
        self._first = asyncio.get_running_loop().create_future()
        self._child.start()
        return await self._first

    async def stop(self) -> None:
        """End the child; no line comes any more."""
        await self._child.stop()

    def _take(self, raw: bytes) -> bool:
        try:
            line = _DECODER.decode(raw)
        except msgspec.MsgspecError:
            return False
        match line:
            case VramSample():
                self._sample, self._failed = line, None
                if any(_has_sensors(reading) for reading in line.gpus):
                    self._sensors = line
                self._forward(line)
            case SamplerFailed():
                self._fail(line)
            case Inventory():
                self._answer(line)
                self._forward(line)
            case SamplerGap():
                return False
        return True

    def _end(self, reason: str, last_us: int | None) -> None:
        if self._sample is not None:
            self._sample = self._sensors = None
            self._forward(SamplerGap(from_us=last_us or mono_us(), to_us=mono_us(), reason=f"sampler: {reason}"))
        elif self._failed is None:
            self._fail(SamplerFailed(mono_us=mono_us(), reason=f"the sampler gave no sample: {reason}"))

    def _fail(self, failed: SamplerFailed) -> None:
        self._answer(failed)
        if failed.reason != self._failed:
            self._failed = failed.reason
            self._forward(failed)

    def _answer(self, first: Inventory | SamplerFailed) -> None:
        if self._first is not None and not self._first.done():
            self._first.set_result(first)


def _has_sensors(reading: GpuReading) -> bool:
    return any(getattr(reading, name) is not None for name in _SENSORS)


def _completed(reading: GpuReading, earlier: GpuReading | None) -> GpuReading:
    if earlier is None or reading.error is not None:
        return reading
    held = {name: getattr(earlier, name) for name in _SENSORS if getattr(reading, name) is None}
    return structs.replace(reading, **held)


_SENSORS = ("reserved", "util_pct", "power_w", "power_limit_w", "temperature_c", "sm_clock_mhz", "throttle")
