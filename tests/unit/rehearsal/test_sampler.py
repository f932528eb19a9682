"""The sampler speaks the NVML child's records and ends with its parent."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from anvil_tui.clock import ProcessIdentity
from anvil_tui.records.lane import SimulatedGpu
from anvil_tui.records.vram import MIB, Inventory, SamplerLine, VramSample
from anvil_tui.rehearsal.sampler import reading, warmed
from anvil_tui.rehearsal.timeline import Load, TimelineWriter, timeline_path

from .conftest import until

GPUS = (SimulatedGpu(uuid="GPU-a", host_mib=300), SimulatedGpu(uuid="GPU-b"))


def arguments(folder: Path, hz: float = 50) -> list[str]:
    module = [sys.executable, "-P", "-m", "anvil_tui.rehearsal.sampler"]
    gpus = msgspec.json.encode(GPUS).decode()
    return [*module, "--timelines", str(folder / "timelines"), "--gpus", gpus, "--hz", str(hz)]


@pytest.fixture
def sampler(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(arguments(tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.kill()


def line(process: subprocess.Popen[bytes]) -> SamplerLine:
    assert process.stdout is not None
    return msgspec.json.decode(process.stdout.readline(), type=SamplerLine)


def sample(process: subprocess.Popen[bytes]) -> VramSample:
    found = line(process)
    assert isinstance(found, VramSample)
    return found


def test_idle_gpus_need_no_lane(sampler: subprocess.Popen[bytes]) -> None:
    first = line(sampler)
    assert isinstance(first, Inventory)
    assert (first.source, first.rehearsal, first.driver) == ("rehearsal", True, None)
    assert [(gpu.uuid, gpu.index) for gpu in first.gpus] == [("GPU-a", 0), ("GPU-b", 1)]
    one, two = sample(sampler).gpus
    assert one.free == (97887 - 448 - 300) * MIB
    assert two.free == (97887 - 448) * MIB
    for gpu in (one, two):
        assert gpu.total is not None and gpu.free is not None and gpu.used is not None and gpu.reserved is not None
        assert gpu.total == gpu.free + gpu.used + gpu.reserved
        assert gpu.util_pct == 0


def test_it_follows_the_lanes(sampler: subprocess.Popen[bytes], tmp_path: Path) -> None:
    assert isinstance(line(sampler), Inventory)
    (tmp_path / "timelines").mkdir()
    TimelineWriter(timeline_path(tmp_path / "timelines", "GPU-b"), "lane").write(5000, 99)
    while (two := sample(sampler).gpus[1]).util_pct == 0:
        pass
    assert two.free == (97887 - 448 - 5000) * MIB
    assert two.power_w is not None and 200 < two.power_w < 300
    assert two.error is None


def test_it_keeps_its_rate(sampler: subprocess.Popen[bytes]) -> None:
    line(sampler)
    stamps = [sample(sampler).mono_us for _ in range(26)]
    assert (stamps[-1] - stamps[0]) / 25 == pytest.approx(20_000, rel=0.1)


def test_it_ends_when_its_stdin_closes(sampler: subprocess.Popen[bytes]) -> None:
    line(sampler)
    assert sampler.stdin is not None
    sampler.stdin.close()
    assert sampler.wait(5) == 0


def test_it_ends_when_its_parent_dies(tmp_path: Path) -> None:
    """The grandchild keeps a stdin that never closes, so only the parent's death can end it."""
    reader, writer = os.pipe()
    samples = tmp_path / "samples"
    code = "import subprocess,sys,time; print(subprocess.Popen(sys.argv[1:], stdout=2).pid, flush=True); time.sleep(60)"
    with samples.open("wb") as out:
        parent = subprocess.Popen(
            [sys.executable, "-c", code, *arguments(tmp_path)], stdin=reader, stdout=subprocess.PIPE, stderr=out
        )
    with parent:
        assert parent.stdout is not None
        child = ProcessIdentity.of(int(parent.stdout.readline()))
        assert child is not None
        until(lambda: samples.stat().st_size > 0, "the sampler runs")
        parent.kill()
    until(lambda: not child.alive(), "the sampler ends with its parent")
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("hz", [0, 101])
def test_a_rate_that_cannot_be(tmp_path: Path, hz: float) -> None:
    done = subprocess.run(
        arguments(tmp_path, hz), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "between 0.1 and 100" in done.stderr


def test_gpus_that_cannot_be(tmp_path: Path) -> None:
    asked = arguments(tmp_path)
    asked[asked.index("--gpus") + 1] = '[{"uuid": "GPU-a", "total": 1}]'
    done = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "[0].total: unknown key" in done.stderr


def test_free_never_goes_below_zero() -> None:
    seen = reading(GPUS[0], Load(200_000, 100), 60.0)
    assert (seen.free, seen.used) == (0, (97887 - 448) * MIB)


def test_a_gpu_warms_and_cools() -> None:
    warm = warmed(33.0, 100, 60.0)
    assert 70 < warm < 75
    assert warmed(warm, 0, 1.0) < warm
    assert warmed(33.0, 0, 100.0) == pytest.approx(33.0)
