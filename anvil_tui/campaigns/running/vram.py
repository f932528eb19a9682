"""The runner's own sampler: every sample on disk, those of the open window in memory, the verdict at its end."""

from __future__ import annotations

import asyncio
import os

import msgspec

from anvil_tui import clock
from anvil_tui.campaigns.running.sampler import sampler_of
from anvil_tui.campaigns.running.session import Session
from anvil_tui.errors import CannotRun
from anvil_tui.evidence.reserve import judge
from anvil_tui.files import write_all
from anvil_tui.gpus.host import SpillWatch, spill_applies
from anvil_tui.gpus.inventory import choose
from anvil_tui.gpus.supervisor import SamplerChild
from anvil_tui.lanes.profile import Lane
from anvil_tui.records.events import AlarmRaised, SamplerFailed, SamplerStarted
from anvil_tui.records.vram import (
    MIB,
    Gpu,
    Inventory,
    ReserveVerdict,
    SamplerGap,
    SamplerLine,
    VramSample,
)
from anvil_tui.records.vram import SamplerFailed as SamplerFailedLine

MEASURING_HZ = 20.0
_SYNC_SECONDS = 1.0
_CALM_BYTES = 256 * MIB
"""An alarm can come again once free memory was this far above the reserve."""


class VramWatch:
    """Samples of the lane's GPUs for as long as the runner lives."""

    def __init__(self, session: Session, lane: Lane, fd: int) -> None:
        self._session = session
        self._lane = lane
        self._policy = lane.profile.gpus
        self._fd = fd
        self._synced_us = clock.mono_us()
        self._gpus: tuple[Gpu, ...] = ()
        self._samples: list[VramSample] = []
        self._gaps: list[SamplerGap] = []
        self._minimum: dict[str, int] = {}
        self._alarmed: set[str] = set()
        self._window_open = False
        self._child: SamplerChild | None = None
        self._spill: SpillWatch | None = None

    @classmethod
    async def start(cls, session: Session, lane: Lane) -> VramWatch | None:
        """Start sampling; None where the profile says that the lane has no GPU. Raises BadInput and CannotRun.

        Without a driver the campaign goes on and every verdict is UNKNOWN, unless the lane must choose its GPUs.
        """
        source = lane.profile.gpus.source
        if source == "none":
            return None
        samples = session.folder.samples
        watch = cls(session, lane, os.open(samples, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
        watch._child = sampler_of(lane, session.locations, MEASURING_HZ, watch._take)
        if not lane.rehearsal and spill_applies():
            watch._spill = SpillWatch()
            await watch._spill.start()
        first = await watch._child.start()
        if isinstance(first, Inventory):
            watch._gpus = choose(lane.profile.gpus.devices, first)
            session.event(
                SamplerStarted(
                    source=first.source,
                    hz=MEASURING_HZ,
                    gpus=watch._gpus,
                    driver=first.driver,
                    rehearsal=first.rehearsal,
                )
            )
        elif session.plan.up and lane.profile.gpus.devices != "all":
            await watch.stop()
            raise CannotRun(f"{lane.name}: its GPUs cannot be chosen: {first.reason}. {first.hint}")
        return watch

    @property
    def uuids(self) -> tuple[str, ...]:
        """The GPUs of the lane."""
        return tuple(gpu.uuid for gpu in self._gpus)

    def serve(self, lane: Lane) -> None:
        """Judge the reserve by this lane's policy from now on: the GPUs are the same."""
        self._lane = lane
        self._policy = lane.profile.gpus
        self._alarmed.clear()

    def free_now(self) -> dict[str, int]:
        """Free bytes of each of the lane's GPUs in the newest sample; a GPU without a figure is left out."""
        newest = self._samples[-1].gpus if self._samples else ()
        mine = set(self.uuids)
        return {one.uuid: one.free for one in newest if one.uuid in mine and one.free is not None}

    async def settled_free(self) -> dict[str, int]:
        """Free bytes of each GPU once there is a sample; empty where none comes within three seconds."""
        for _ in range(30):
            if free := self.free_now():
                return free
            await asyncio.sleep(0.1)
        return {}

    def mark_baseline(self) -> None:
        """Take the host's figures of now for those without the lane: it is about to start."""
        if self._spill is not None:
            self._spill.mark_baseline()

    def begin_window(self) -> None:
        """Forget the samples before now: a window of the reserve begins."""
        self._window_open = True
        self._samples = self._samples[-2:]
        self._gaps.clear()
        self._minimum.clear()

    def window_minimum(self) -> dict[str, int]:
        """Least free bytes of each GPU since the window began."""
        return dict(self._minimum)

    async def judge_window(self, from_us: int, to_us: int) -> ReserveVerdict:
        """The verdict over a window that has just ended; waits for the sample that closes it."""
        assert self._child is not None, "start made it"
        patience = 5
        while patience and not (self._samples and self._samples[-1].mono_us >= to_us):
            await asyncio.sleep(self._child.period_us / 1e6)
            patience -= 1
        self._window_open = False
        witnesses = self._spill.witnesses(from_us, to_us) if self._spill is not None else ()
        for witness in witnesses:
            write_all(self._fd, msgspec.json.encode(witness) + b"\n")
        return judge(
            samples=self._samples,
            gaps=self._gaps,
            window_from_us=from_us,
            window_to_us=to_us,
            gpus=self._gpus,
            reserve_mib=self._policy.reserve_mib,
            policy=self._policy.policy,
            policy_reason=self._policy.reason,
            period_us=self._child.period_us,
            spill_applies=self._spill is not None,
            witnesses=witnesses,
            rehearsal=self._lane.rehearsal,
        )

    async def stop(self) -> None:
        if self._child is not None:
            await self._child.stop()
        if self._spill is not None:
            await self._spill.stop()
        os.fsync(self._fd)
        os.close(self._fd)

    def _take(self, line: SamplerLine) -> None:
        write_all(self._fd, msgspec.json.encode(line) + b"\n")
        now = clock.mono_us()
        if now - self._synced_us > _SYNC_SECONDS * 1e6:
            os.fsync(self._fd)
            self._synced_us = now
        match line:
            case VramSample():
                self._keep(line)
            case SamplerGap():
                self._gaps.append(line)
                self._session.sample = None
                words = f"GPU samples are missing for {(line.to_us - line.from_us) / 1e6:.1f} s: {line.reason}"
                self._session.raise_alarm(AlarmRaised(alarm="sampler", words=words))
            case SamplerFailedLine():
                self._session.event(SamplerFailed(reason=line.reason, hint=line.hint))

    def _keep(self, sample: VramSample) -> None:
        self._session.sample = self._child.latest if self._child else None
        self._samples.append(sample)
        if self._spill is not None:
            self._spill.observe(sample)
        if not self._window_open and len(self._samples) > 2 * MEASURING_HZ:
            del self._samples[: -int(MEASURING_HZ)]
        mine = {gpu.uuid: gpu for gpu in self._gpus}
        reserve = self._policy.reserve_mib * MIB
        for reading in sample.gpus:
            if reading.uuid not in mine or reading.free is None:
                continue
            self._minimum[reading.uuid] = min(reading.free, self._minimum.get(reading.uuid, reading.free))
            if reading.free < reserve and reading.uuid not in self._alarmed and self._policy.policy == "enforce":
                self._alarmed.add(reading.uuid)
                short = (reserve - reading.free) / MIB
                name = f"GPU{mine[reading.uuid].index}"
                words = f"{name} has {reading.free / MIB:,.0f} MiB free, {short:,.0f} below the reserve"
                self._session.raise_alarm(AlarmRaised(alarm="reserve", words=words))
            elif reading.free > reserve + _CALM_BYTES:
                self._alarmed.discard(reading.uuid)
