"""GPU samples for the screen: a sampler child of our own while no runner lives, else what the runner writes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from anvil_tui import clock
from anvil_tui.campaigns.running.sampler import sampler_of
from anvil_tui.campaigns.store.folder import CampaignFolder
from anvil_tui.campaigns.store.follow import LIVE_HZ, read_live
from anvil_tui.console.messages import GpusRead
from anvil_tui.console.snapshot import Bucket, Desk, GpuNow, GpuSnapshot
from anvil_tui.console.sources.source import Post, Source
from anvil_tui.gpus.supervisor import SamplerChild
from anvil_tui.lanes.profile import Lane
from anvil_tui.locations import Locations
from anvil_tui.records.vram import (
    Gpu,
    Inventory,
    SamplerFailed,
    SamplerGap,
    SamplerLine,
    SpillWitness,
    VramLine,
    VramSample,
)

IDLE_HZ = 2.0
PERIOD_SECONDS = 0.25
KEPT_SECONDS = 600
_CHUNK = 4 << 20
_BOOT_STEP_US = 1_000_000
"""Time that goes back by more than this in a file of samples means that the machine was started anew."""
_DECODER = msgspec.json.Decoder(VramLine)


@dataclass(frozen=True)
class GpuWish:
    """Whose GPUs are shown, and the campaign whose runner samples them now."""

    lane: Lane | None = None
    runner: CampaignFolder | None = None


class GpuSource(Source):
    """One thread with an event loop of its own for the sampler child; it runs one only while no runner does."""

    def __init__(self, locations: Locations, post: Post) -> None:
        super().__init__("gpus", PERIOD_SECONDS, post)
        self._locations = locations
        self._wish = GpuWish()
        self._shown: GpuWish | None = None
        self._loop = asyncio.new_event_loop()
        self._child: SamplerChild | None = None
        self._starting: asyncio.Task[object] | None = None
        self._tail: _SampleFile | None = None
        self._record = SampleRecord()

    def follow(self, desk: Desk) -> None:
        """Show the GPUs of the lane that runs, else of the one that is shown."""
        row = desk.running
        lane = (desk.row(row.lane) if row is not None else None) or desk.lane
        self.want(GpuWish(lane.lane if lane is not None else None, row.folder if row is not None else None))

    def want(self, wish: GpuWish) -> None:
        """Show these GPUs from now on."""
        if wish != self._wish:
            self._wish = wish
            self.poke()

    def look(self) -> None:
        wish = self._wish
        if wish != self._shown:
            self._switch(wish)
            self._shown = wish
        if self._tail is not None:
            self._tail.read(self._record.take)
        self._loop.run_until_complete(asyncio.sleep(PERIOD_SECONDS if self._child is not None else 0))
        self.publish(GpusRead(self._snapshot(wish)))

    def leave(self) -> None:
        self._end_child()
        self._loop.close()

    def _switch(self, wish: GpuWish) -> None:
        self._end_child()
        self._tail = None
        self._record.begin()
        if wish.lane is None or wish.lane.profile.gpus.source == "none":
            return
        if wish.runner is not None:
            self._tail = _SampleFile(wish.runner.samples)
            return
        self._child = sampler_of(wish.lane, self._locations, IDLE_HZ, self._record.take)
        # Its first answer is not waited for: a driver may take its time, the screen does not.
        self._starting = self._loop.create_task(self._child.start())

    def _end_child(self) -> None:
        if self._child is not None:
            child, self._child = self._child, None
            self._loop.run_until_complete(child.stop())
        if self._starting is not None:
            self._starting.cancel()
            self._loop.run_until_complete(asyncio.wait((self._starting,)))
            self._starting = None

    def _snapshot(self, wish: GpuWish) -> GpuSnapshot:
        if wish.lane is None or (self._child is None and self._tail is None):
            return GpuSnapshot()
        policy = wish.lane.profile.gpus
        if wish.runner is not None:
            # A runner that hangs writes no live figures: its last sample is shown for what it is, stale.
            live = read_live(wish.runner)
            sample = live.sample if live is not None and live.sample is not None else self._record.last
        else:
            sample = self._child.latest if self._child is not None else None
        return GpuSnapshot(
            source="console" if wish.runner is None else "runner",
            period_us=round(1e6 / (IDLE_HZ if wish.runner is None else LIVE_HZ)),
            gpus=self._record.now(sample),
            reserve_mib=policy.reserve_mib,
            policy=policy.policy,
            rehearsal=wish.lane.rehearsal,
            failed=self._record.failed.reason if self._record.failed else None,
            hint=self._record.failed.hint if self._record.failed else "",
        )


class _SampleFile:
    """A runner's file of samples, read as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def read(self, take: Callable[[VramLine], None]) -> None:
        """Take every line that was written since the last call."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self._offset)
            while chunk := file.read(_CHUNK):
                self._offset += len(chunk)
                *lines, self._rest = (self._rest + chunk).split(b"\n")
                for line in lines:
                    try:
                        take(_DECODER.decode(line))
                    except msgspec.MsgspecError:
                        continue


class SampleRecord:
    """What the samples so far say of each GPU: by second for the last minutes, and at worst."""

    def __init__(self) -> None:
        self._gpus: tuple[Gpu, ...] = ()
        self._history: dict[str, deque[Bucket]] = {}
        self._worst: dict[str, tuple[int, str]] = {}
        self.last: VramSample | None = None
        """The newest sample, as it came."""
        self.failed: SamplerFailed | None = None

    def begin(self) -> None:
        """Another source of samples: its worst point is its own; the GPUs and their history stay until it speaks."""
        self._worst = {}
        self.last = None
        self.failed = None

    def take(self, line: SamplerLine | SpillWitness) -> None:
        """Take one record of a sampler or of a file of samples."""
        match line:
            case Inventory():
                self._gpus = line.gpus
                self.failed = None
            case SamplerFailed():
                self.failed = line
            case VramSample():
                self._sample(line)
            case SamplerGap() | SpillWitness():
                return

    def now(self, sample: VramSample | None) -> tuple[GpuNow, ...]:
        """Each GPU with its reading in `sample`, the newest one that may be shown."""
        readings = {reading.uuid: reading for reading in sample.gpus} if sample is not None else {}
        return tuple(
            GpuNow(
                gpu=gpu,
                reading=readings.get(gpu.uuid),
                at_us=sample.mono_us if sample is not None else None,
                history=tuple(self._history.get(gpu.uuid, ())),
                worst=self._worst[gpu.uuid][0] if gpu.uuid in self._worst else None,
                worst_at=self._worst[gpu.uuid][1] if gpu.uuid in self._worst else None,
            )
            for gpu in self._gpus
        )

    def _sample(self, sample: VramSample) -> None:
        self.failed = None
        before_us = self.last.mono_us if self.last is not None else 0
        if sample.mono_us > clock.mono_us() + _BOOT_STEP_US or sample.mono_us < before_us - _BOOT_STEP_US:
            self._history.clear()
            self._worst.clear()
        self.last = sample
        second = sample.mono_us // 1_000_000
        for reading in sample.gpus:
            free = reading.free
            if free is None or reading.error is not None:
                continue
            history = self._history.setdefault(reading.uuid, deque(maxlen=KEPT_SECONDS))
            if not history or history[-1].second < second:
                history.append(Bucket(second, free, free, free, 1))
            elif history[-1].second == second:
                last = history[-1]
                history[-1] = Bucket(
                    second, min(last.low, free), max(last.high, free), last.total + free, last.count + 1
                )
            if reading.uuid not in self._worst or free < self._worst[reading.uuid][0]:
                self._worst[reading.uuid] = (free, sample.at)
