"""Samples of the simulated GPUs: `python -m anvil_tui.rehearsal.sampler --timelines DIR --gpus JSON --hz 20`.

It speaks the NVML sampler child's records on stdout, one JSON line each, and ends when its stdin closes or its parent
dies. It needs no lane: GPUs that nobody uses are idle.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import select
import sys
import time
from pathlib import Path

import msgspec

from anvil_tui import clock
from anvil_tui.errors import AnvilError
from anvil_tui.files import write_all
from anvil_tui.records.lane import SimulatedGpu
from anvil_tui.records.validation import decode_json
from anvil_tui.records.vram import MIB, Gpu, GpuReading, Inventory, VramSample
from anvil_tui.rehearsal.timeline import Load, TimelineReader, timeline_path

POWER_LIMIT_W = 300.0
_IDLE_W, _IDLE_C, _FULL_C = 14.0, 33.0, 74.0
_IDLE_MHZ, _FULL_MHZ = 180, 2280
_WARMING_S = 8.0
"""Time constant with which a GPU warms up and cools down."""


def inventory(gpus: tuple[SimulatedGpu, ...]) -> Inventory:
    """The sampler's first line."""
    seen = (
        Gpu(uuid=gpu.uuid, name=gpu.name, index=index, bus_id=f"00000000:{index + 1:02X}:00.0")
        for index, gpu in enumerate(gpus)
    )
    return Inventory(source="rehearsal", gpus=tuple(seen), rehearsal=True)


def reading(gpu: SimulatedGpu, load: Load, temperature: float) -> GpuReading:
    """One GPU under `load`. As NVML's v2 memory figures: total = reserved + used + free, in bytes."""
    used = min(gpu.host_mib + load.mib, gpu.total_mib - gpu.reserved_mib)
    share = load.busy_pct / 100
    return GpuReading(
        uuid=gpu.uuid,
        free=(gpu.total_mib - gpu.reserved_mib - used) * MIB,
        total=gpu.total_mib * MIB,
        used=used * MIB,
        reserved=gpu.reserved_mib * MIB,
        util_pct=load.busy_pct,
        power_w=round(_IDLE_W + share * (POWER_LIMIT_W - _IDLE_W) * 0.88, 1),
        power_limit_w=POWER_LIMIT_W,
        temperature_c=round(temperature),
        sm_clock_mhz=_FULL_MHZ if load.busy_pct else _IDLE_MHZ,
        throttle=0,
    )


def warmed(temperature: float, busy_pct: int, seconds: float) -> float:
    """The temperature after `seconds` more at that utilisation, on its way to where that ends, in degrees Celsius."""
    target = _IDLE_C + busy_pct / 100 * (_FULL_C - _IDLE_C)
    return target + (temperature - target) * math.exp(-seconds / _WARMING_S)


class Sampler:
    """Looks at all simulated GPUs, again and again."""

    def __init__(self, gpus: tuple[SimulatedGpu, ...], timelines: Path) -> None:
        self._gpus = gpus
        self._readers = [TimelineReader(timeline_path(timelines, gpu.uuid)) for gpu in gpus]
        self._temperatures = [_IDLE_C] * len(gpus)
        self._last_us = clock.mono_us()

    def sample(self) -> VramSample:
        """All GPUs at this moment."""
        now = clock.mono_us()
        seconds, self._last_us = (now - self._last_us) / 1e6, now
        loads = [reader.load() for reader in self._readers]
        self._temperatures = [
            warmed(temperature, load.busy_pct, seconds)
            for temperature, load in zip(self._temperatures, loads, strict=True)
        ]
        seen = tuple(map(reading, self._gpus, loads, self._temperatures))
        return VramSample(mono_us=now, at=clock.utc_now(), gpus=seen, call_us=clock.mono_us() - now)


def main(argv: list[str] | None = None) -> int:
    """Write samples until stdin closes or the parent is gone."""
    parser = argparse.ArgumentParser(prog="python -m anvil_tui.rehearsal.sampler", description=__doc__)
    parser.add_argument("--timelines", type=Path, required=True, help="folder of the timeline files")
    parser.add_argument("--gpus", required=True, help="JSON list of SimulatedGpu")
    parser.add_argument("--hz", type=_hz, default=20.0, help="samples a second, up to 100 (default 20)")
    asked = parser.parse_args(argv)
    try:
        gpus = decode_json(tuple[SimulatedGpu, ...], asked.gpus.encode(), "--gpus")
    except AnvilError as error:
        write_all(2, f"{error}\n".encode())
        return error.exit_code
    with contextlib.suppress(BrokenPipeError):
        _run(gpus, asked.timelines, asked.hz)
    return 0


def _run(gpus: tuple[SimulatedGpu, ...], timelines: Path, hz: float) -> None:
    parent = os.getppid()
    _write(inventory(gpus))
    sampler, due = Sampler(gpus, timelines), time.monotonic()
    while os.getppid() == parent:
        _write(sampler.sample())
        # A tick that was missed is skipped: samples never come in a burst.
        due = max(due + 1 / hz, time.monotonic())
        while (left := due - time.monotonic()) > 0:
            readable, _, _ = select.select([0], [], [], left)
            if readable and not os.read(0, 4096):
                return


def _write(line: Inventory | VramSample) -> None:
    write_all(1, msgspec.json.encode(line) + b"\n")


def _hz(text: str) -> float:
    value = float(text)
    if not 0.1 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text}: must lie between 0.1 and 100")
    return value


if __name__ == "__main__":
    sys.exit(main())
