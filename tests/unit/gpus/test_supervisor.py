from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from anvil_tui.clock import start_ticks
from anvil_tui.gpus import supervisor
from anvil_tui.gpus.supervisor import SamplerChild, sampler_argv
from anvil_tui.records.vram import MIB, Inventory, SamplerFailed, SamplerGap, SamplerLine, VramSample
from tests.fake_nvml import FakeNvml


async def until(condition: Callable[[], bool], seconds: float = 8.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)


class Watched:
    """A sampler child and what came of it."""

    def __init__(self, hz: float = 50, start_s: float = 8.0) -> None:
        self.lines: list[SamplerLine] = []
        self.child = SamplerChild("nvml", hz, self.lines.append, start_s=start_s)

    async def __aenter__(self) -> Watched:
        self.first = await self.child.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.child.stop()
        assert self.child.pid is None

    @property
    def samples(self) -> list[VramSample]:
        return [line for line in self.lines if isinstance(line, VramSample)]

    @property
    def gaps(self) -> list[SamplerGap]:
        return [line for line in self.lines if isinstance(line, SamplerGap)]

    @property
    def failures(self) -> list[SamplerFailed]:
        return [line for line in self.lines if isinstance(line, SamplerFailed)]

    async def sampled(self, count: int = 3) -> None:
        """Wait for `count` samples from now on."""
        goal = len(self.samples) + count
        await until(lambda: len(self.samples) >= goal)


def test_first_the_inventory_then_samples(nvml: FakeNvml) -> None:
    async def scene() -> None:
        async with Watched() as watched:
            await watched.sampled()
            assert isinstance(watched.first, Inventory)
            assert watched.lines[0] == watched.first
            assert [gpu.index for gpu in watched.first.gpus] == [0, 1]
            assert not watched.gaps and not watched.failures

    asyncio.run(scene())


def test_a_crash_in_the_driver_costs_a_gap(nvml: FakeNvml) -> None:
    async def scene() -> None:
        async with Watched() as watched:
            await watched.sampled()
            first = watched.child.pid
            nvml.write(segv__DeviceGetMemoryInfo=1)
            await until(lambda: bool(watched.gaps))
            assert watched.child.latest is None
            nvml.write()
            await watched.sampled()
            assert watched.child.pid != first
            (gap,) = watched.gaps
            assert "SIGSEGV" in gap.reason
            assert gap.from_us <= gap.to_us <= watched.samples[-1].mono_us

    asyncio.run(scene())


def test_a_hang_is_killed_and_the_child_started_again(nvml: FakeNvml) -> None:
    async def scene() -> None:
        async with Watched() as watched:
            await watched.sampled()
            first = watched.child.pid
            assert first is not None
            nvml.write(hang__DeviceGetMemoryInfo__1=1)
            await until(lambda: bool(watched.gaps))
            nvml.write()
            await watched.sampled()
            (gap,) = watched.gaps
            assert "no line for 1.5 s" in gap.reason
            assert 1_000_000 < gap.to_us - gap.from_us < 4_000_000
            assert start_ticks(first) is None

    asyncio.run(scene())


def test_a_driver_that_hangs_at_its_start_is_a_failure_and_tried_again(nvml: FakeNvml) -> None:
    nvml.write(hang__InitWithFlags=1)

    async def scene() -> None:
        async with Watched(start_s=0.7) as watched:
            assert isinstance(watched.first, SamplerFailed)
            assert "no line for 0.7 s" in watched.first.reason
            watched.child._child._start_s = 8.0
            nvml.write()
            await watched.sampled()
            assert len(watched.failures) == 1
            assert not watched.gaps

    asyncio.run(scene())


def test_the_same_failure_is_told_once(nvml: FakeNvml) -> None:
    nvml.write(error__InitWithFlags=9)

    async def scene() -> None:
        async with Watched() as watched:
            assert isinstance(watched.first, SamplerFailed)
            await until(lambda: nvml.calls()["InitWithFlags"] >= 2)
            assert len(watched.failures) == 1
            nvml.write(error__InitWithFlags=18)
            await until(lambda: len(watched.failures) == 2)

    asyncio.run(scene())


def test_killed_from_outside(nvml: FakeNvml) -> None:
    async def scene() -> None:
        async with Watched() as watched:
            await watched.sampled()
            assert watched.child.pid is not None
            os.kill(watched.child.pid, signal.SIGKILL)
            await until(lambda: bool(watched.gaps))
            await watched.sampled()
            assert "SIGKILL" in watched.gaps[0].reason

    asyncio.run(scene())


def script(monkeypatch: pytest.MonkeyPatch, path: Path, text: str) -> None:
    """Let `text` be the sampler of this test."""
    path.write_text(text)
    monkeypatch.setattr(supervisor, "sampler_argv", lambda *_, **__: (sys.executable, str(path)))


SAMPLE = '{"kind":"sample","mono_us":%d,"at":"x","gpus":[{"uuid":"GPU-a","free":5}]}'


def test_garbage_between_samples_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script(
        monkeypatch,
        tmp_path / "child.py",
        f"""
import os, sys, time
garbage = [b"NVML: warning", b"\\xff\\xfe\\x00", b'{{"kind":"sample"}}', b'{{"kind":"strange"}}', b"[]", b"x" * 300000]
print('{{"kind":"inventory","source":"nvml","gpus":[]}}', flush=True)
for at in range(10**9):
    for line in (garbage[at % len(garbage)], b'{SAMPLE}' % at):
        os.write(1, line + b"\\n")
    time.sleep(0.02)
""",
    )

    async def scene() -> None:
        async with Watched() as watched:
            await watched.sampled(12)
            assert [sample.mono_us for sample in watched.samples] == list(range(len(watched.samples)))
            assert not watched.gaps

    asyncio.run(scene())


def test_nothing_but_garbage_ends_the_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script(monkeypatch, tmp_path / "child.py", "import sys\nwhile True: sys.stdout.write('y' * 4096)")

    async def scene() -> None:
        async with Watched() as watched:
            assert isinstance(watched.first, SamplerFailed)
            assert "without one good line" in watched.first.reason

    asyncio.run(scene())


def test_what_a_dying_child_said_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script(monkeypatch, tmp_path / "child.py", "raise SystemExit('no \\x1b[31msuch thing')")

    async def scene() -> None:
        async with Watched() as watched:
            assert isinstance(watched.first, SamplerFailed)
            assert watched.first.reason.endswith("exit code 1; it said: no such thing")

    asyncio.run(scene())


def test_a_child_that_heeds_nothing_is_killed_at_the_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script(
        monkeypatch,
        tmp_path / "child.py",
        """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('{"kind":"inventory","source":"nvml","gpus":[]}', flush=True)
time.sleep(600)
""",
    )

    async def scene() -> None:
        watched = Watched()
        await watched.child.start()
        pid = watched.child.pid
        assert pid is not None
        await watched.child.stop()
        assert start_ticks(pid) is None
        assert not watched.gaps

    asyncio.run(scene())


def test_a_child_is_asked_to_end_before_it_is_killed(nvml: FakeNvml) -> None:
    async def scene() -> None:
        async with Watched() as watched:
            await watched.sampled()

    asyncio.run(scene())
    assert nvml.calls()["Shutdown"] == 1


def test_a_fault_of_the_caller_ends_the_child_and_is_raised(nvml: FakeNvml) -> None:
    def full(line: SamplerLine) -> None:
        if isinstance(line, VramSample):
            raise OSError("no space left")

    async def scene() -> None:
        child = SamplerChild("nvml", 50, full)
        assert isinstance(await child.start(), Inventory)
        await until(lambda: child.pid is None)
        with pytest.raises(OSError, match="no space left"):
            await child.stop()

    asyncio.run(scene())


def test_a_loop_that_stood_still_does_not_cost_the_child_its_life(nvml: FakeNvml) -> None:
    async def scene() -> None:
        async with Watched() as watched:
            await watched.sampled()
            time.sleep(2.0)
            await watched.sampled()
            assert not watched.gaps
            stamps = [sample.mono_us for sample in watched.samples]
            assert max(after - before for before, after in itertools.pairwise(stamps)) < 200_000

    asyncio.run(scene())


def test_a_suspend_ends_the_child(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with Watched() as watched:
            await watched.sampled()
            wall = time.time
            monkeypatch.setattr(time, "time", lambda: wall() + 3600)
            await until(lambda: bool(watched.gaps))
            await watched.sampled()
            (gap,) = watched.gaps
            assert "the clocks jumped" in gap.reason

    asyncio.run(scene())


def test_the_screen_gets_sensors_that_the_file_does_not_repeat(nvml: FakeNvml) -> None:
    async def scene() -> None:
        async with Watched() as watched:
            await watched.sampled(5)
            last = watched.samples[-1]
            assert last.gpus[0].power_w is None
            shown = watched.child.latest
            assert shown is not None
            assert (shown.gpus[0].power_w, shown.gpus[0].reserved) == (281.5, 638 * MIB)
            assert (shown.mono_us, shown.gpus[0].free) == (last.mono_us, last.gpus[0].free)
            nvml.write(error__DeviceGetMemoryInfo__0=15)
            await until(lambda: watched.samples[-1].gpus[0].error is not None)
            shown = watched.child.latest
            assert shown is not None
            assert shown.gpus[0].power_w is None

    asyncio.run(scene())


def test_the_child_dies_with_its_parent(nvml: FakeNvml, tmp_path: Path) -> None:
    parent = """
import asyncio, sys
from anvil_tui.gpus.supervisor import SamplerChild
async def main():
    child = SamplerChild("nvml", 20, lambda _: None)
    await child.start()
    print(child.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""

    async def scene() -> None:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", parent, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        pid = int(await process.stdout.readline())
        assert start_ticks(pid) is not None
        process.kill()
        await process.wait()
        await until(lambda: start_ticks(pid) is None)

    asyncio.run(scene())


def test_a_rehearsal_is_started_by_its_command_line_alone() -> None:
    argv = sampler_argv("rehearsal", 20, gpus="[]", timelines=Path("/t"))
    assert argv[1:] == (
        "-P", "-m", "anvil_tui.rehearsal.sampler", "--gpus", "[]", "--timelines", "/t", "--hz", "20",
    )  # fmt: skip
