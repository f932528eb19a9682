"""Samples as the screen keeps them, from a child of our own and from a runner's file; one at a time."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import psutil
import pytest

from anvil_tui import clock
from anvil_tui.campaigns.store.folder import CampaignFolder
from anvil_tui.console.snapshot import GpuSnapshot
from anvil_tui.console.sources.gpu_source import GpuSource, GpuWish, SampleRecord
from anvil_tui.files import write_atomic
from anvil_tui.records.live import Live
from anvil_tui.records.vram import MIB, Gpu, GpuReading, Inventory, SamplerFailed, SamplerGap, VramSample
from tests.unit.console import scenes
from tests.unit.console.still import locations

GPU = Gpu(uuid="GPU-0", name="card", index=0)


def sample(at_us: int, *free_mib: int | None, error: str | None = None) -> VramSample:
    readings = tuple(
        GpuReading(uuid=f"GPU-{index}", free=None if free is None else free * MIB, error=error)
        for index, free in enumerate(free_mib)
    )
    return VramSample(mono_us=at_us, at=scenes.AT, gpus=readings)


def recorded(*lines: object) -> SampleRecord:
    record = SampleRecord()
    record.take(Inventory(source="nvml", gpus=(GPU,)))
    for line in lines:
        record.take(line)  # type: ignore[arg-type]
    return record


def test_a_second_holds_its_least_its_most_and_its_mean() -> None:
    record = recorded(
        sample(5_000_000, 4000), sample(5_050_000, 1249), sample(5_900_000, 4100), sample(6_000_000, 3000)
    )
    (gpu,) = record.now(None)
    assert [(one.second, one.low // MIB, one.high // MIB, round(one.mean / MIB)) for one in gpu.history] == [
        (5, 1249, 4100, 3116),
        (6, 3000, 3000, 3000),
    ]
    assert (gpu.worst, gpu.worst_at) == (1249 * MIB, scenes.AT)


def test_what_is_unknown_leaves_no_trace() -> None:
    (gpu,) = recorded(sample(5_000_000, None), sample(6_000_000, 17, error="GPU is lost")).now(None)
    assert (gpu.history, gpu.worst, gpu.reading) == ((), None, None)


def test_time_that_goes_back_is_another_boot() -> None:
    (gpu,) = recorded(sample(900_000_000, 1000), sample(5_000_000, 4000)).now(None)
    assert [one.second for one in gpu.history] == [5]
    assert gpu.worst == 4000 * MIB


def test_another_source_has_its_own_worst_point() -> None:
    record = recorded(sample(5_000_000, 1000))
    record.begin()
    record.take(sample(6_000_000, 4000))
    (gpu,) = record.now(None)
    assert gpu.worst == 4000 * MIB
    assert [one.second for one in gpu.history] == [5, 6], "the history goes on"


def test_a_failure_stands_until_samples_come() -> None:
    record = recorded(SamplerFailed(mono_us=1, reason="no driver"))
    assert record.failed is not None
    record.take(SamplerGap(from_us=0, to_us=1, reason="hung"))
    assert record.failed is not None
    record.take(sample(5_000_000, 4000))
    assert record.failed is None


class Watching:
    """A GPU source that is looked with by hand."""

    def __init__(self, root: Path) -> None:
        self.posted: list[GpuSnapshot] = []
        self.source = GpuSource(locations(root), lambda message: self.posted.append(message.gpus))  # type: ignore[attr-defined]

    def until(self, holds: object, seconds: float = 15.0) -> GpuSnapshot:
        deadline = time.monotonic() + seconds
        while True:
            self.source.look()
            if self.posted and holds(self.posted[-1]):  # type: ignore[operator]
                return self.posted[-1]
            assert time.monotonic() < deadline, self.posted[-1:]


@pytest.fixture
def watching(tmp_path: Path) -> Watching:
    return Watching(tmp_path)


def test_our_own_sampler_runs_only_while_no_runner_lives(watching: Watching, tmp_path: Path) -> None:
    lane = scenes.practice()
    try:
        watching.source.want(GpuWish(lane))
        found = watching.until(lambda gpus: gpus.gpus and gpus.gpus[0].reading is not None)
        assert (found.source, found.reserve_mib, found.policy, found.rehearsal) == ("console", 3072, "waived", True)
        child = watching.source._child
        assert child is not None and child.pid is not None
        pid = child.pid
        folder = CampaignFolder(tmp_path / "campaign")
        folder.samples.parent.mkdir(parents=True)
        now_us = clock.mono_us()
        lines = [Inventory(source="rehearsal", gpus=(GPU,)), sample(now_us - 50_000, 843), sample(now_us, 900)]
        folder.samples.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines) + b'{"kind":"sam')
        watching.source.want(GpuWish(lane, folder))
        found = watching.until(lambda gpus: gpus.source == "runner" and gpus.gpus[0].gpu.uuid == "GPU-0")
        assert not psutil.pid_exists(pid), "two samplers never run beside each other for long"
        assert found.gpus[0].worst == 843 * MIB
        assert found.gpus[0].reading is not None and found.gpus[0].reading.free == 900 * MIB, (
            "the last sample, as it is"
        )
        live = Live(
            mono_us=clock.mono_us(), at=scenes.AT, boot_id=clock.boot_id(), pid=1, step="x", sample=sample(now_us, 901)
        )
        write_atomic(folder.live, msgspec.json.encode(live))
        found = watching.until(lambda gpus: gpus.gpus[0].reading.free == 901 * MIB)
        assert found.gpus[0].at_us == now_us
    finally:
        watching.source.leave()


def test_without_a_lane_nothing_is_sampled(watching: Watching) -> None:
    watching.source.look()
    assert watching.posted[-1] == GpuSnapshot()
    watching.source.leave()
