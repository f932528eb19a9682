from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anvil_tui.clock import mono_us
from anvil_tui.gpus import host
from anvil_tui.gpus.host import SpillWatch
from anvil_tui.records.vram import MIB, GpuReading, SpillWitness, VramSample

GIB = 1024 * MIB
HEADER = (
    '"(PDH-CSV 4.0)",'
    '"\\\\H\\GPU Adapter Memory(luid_0x0_0xa_phys_0)\\Dedicated Usage",'
    '"\\\\H\\GPU Adapter Memory(luid_0x0_0xb_phys_0)\\Dedicated Usage",'
    '"\\\\H\\GPU Adapter Memory(luid_0x0_0xa_phys_0)\\Shared Usage",'
    '"\\\\H\\GPU Adapter Memory(luid_0x0_0xb_phys_0)\\Shared Usage"'
)
ERROR = "3,1,1,-;misc dxg: dxgk: dxgkio_make_resident: Ioctl failed: -12\n"


class Windows:
    """A stub `typeperf.exe` on PATH: prints the rows of a file, which it reads again for each."""

    def __init__(self, folder: Path) -> None:
        self._row = folder / "row"
        self.script = folder / "bin" / "typeperf.exe"
        self.script.parent.mkdir()
        self.behaves(
            f"""
print({HEADER!r}, flush=True)
while True:
    print('"06/12/2026 10:11:12.345",' + pathlib.Path({str(self._row)!r}).read_text(), flush=True)
    time.sleep(0.05)
"""
        )
        self.shows()

    def behaves(self, code: str) -> None:
        self.script.write_text(f"#!{sys.executable}\nimport pathlib, sys, time\n{code}\n")
        self.script.chmod(0o755)

    def shows(self, dedicated: tuple[float, float] = (60, 80), shared: tuple[float, float] = (0.1, 0.1)) -> None:
        """Set the figures of both adapters, in GiB."""
        aside = self._row.with_suffix(".new")
        aside.write_text(",".join(f'"{figure * GIB:.6f}"' for figure in (*dedicated, *shared)))
        aside.rename(self._row)


@pytest.fixture
def windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Windows]:
    stub = Windows(tmp_path)
    monkeypatch.setenv("PATH", f"{stub.script.parent}{os.pathsep}{os.environ['PATH']}")
    yield stub


def sample(*used: float | None) -> VramSample:
    readings = (GpuReading(uuid=f"GPU-{at}", used=None if u is None else round(u * GIB)) for at, u in enumerate(used))
    return VramSample(mono_us=mono_us(), at="", gpus=tuple(readings))


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)


async def rows(watch: SpillWatch, count: int = 2) -> None:
    goal = len(watch._rows) + count
    await until(lambda: len(watch._rows) >= goal)


def shared_usage(watch: SpillWatch, from_us: int) -> SpillWitness:
    _, witness = watch.witnesses(from_us, mono_us())
    assert witness.witness == "shared usage"
    return witness


def watched(tmp_path: Path, scene: Callable[[SpillWatch], object]) -> None:
    async def run() -> None:
        log = tmp_path / "kmsg"
        log.touch()
        watch = SpillWatch(kernel_log=log)
        await watch.start()
        try:
            result = scene(watch)
            if asyncio.iscoroutine(result):
                await result
        finally:
            await watch.stop()

    asyncio.run(run())


def test_shared_memory_that_stays_is_no_spill_and_a_rise_is(tmp_path: Path, windows: Windows) -> None:
    async def scene(watch: SpillWatch) -> None:
        watch.observe(sample(60.6, 80.2))
        await rows(watch)
        assert shared_usage(watch, mono_us()).spilled is None
        watch.mark_baseline()
        from_us = mono_us()
        await rows(watch)
        calm = shared_usage(watch, from_us)
        assert (calm.spilled, calm.shared_rise_bytes) == (False, 0)
        windows.shows(shared=(0.1, 0.1 + 64 / 1024))
        await rows(watch)
        assert shared_usage(watch, from_us).spilled is False
        windows.shows(shared=(0.1, 2.1))
        await rows(watch)
        risen = shared_usage(watch, from_us)
        assert (risen.spilled, risen.shared_rise_bytes) == (True, 2 * GIB)
        assert "+2,048 MiB" in risen.words

    watched(tmp_path, scene)


@pytest.mark.parametrize(
    ("used", "words"),
    [
        ((60.0, 30.0), "no adapter agrees"),
        ((60.0, 60.5), "no adapter agrees"),
        ((60.0, None), "no adapter agrees"),
        ((), "no adapter agrees"),
    ],
)
def test_adapters_that_disagree_with_nvml_say_nothing(
    tmp_path: Path, windows: Windows, used: tuple[float | None, ...], words: str
) -> None:
    async def scene(watch: SpillWatch) -> None:
        watch.observe(sample(*used))
        await rows(watch)
        watch.mark_baseline()
        await rows(watch)
        witness = shared_usage(watch, mono_us())
        assert witness.spilled is None
        assert words in witness.words

    watched(tmp_path, scene)


def test_an_adapter_that_may_be_another_device_cannot_accuse(tmp_path: Path, windows: Windows) -> None:
    windows.shows(dedicated=(1.0, 0.5))

    async def scene(watch: SpillWatch) -> None:
        watch.observe(sample(0.8))
        await rows(watch)
        watch.mark_baseline()
        windows.shows(dedicated=(1.0, 0.5), shared=(0.1, 4))
        await rows(watch)
        witness = shared_usage(watch, mono_us())
        assert witness.spilled is None
        assert "may not be one of the GPUs" in witness.words

    watched(tmp_path, scene)


def test_absurd_figures_say_nothing(tmp_path: Path, windows: Windows) -> None:
    windows.shows(shared=(-5, 1e9))

    async def scene(watch: SpillWatch) -> None:
        watch.observe(sample(60, 80))
        await rows(watch)
        watch.mark_baseline()
        await rows(watch)
        assert shared_usage(watch, mono_us()).spilled is None

    watched(tmp_path, scene)


def test_a_windows_of_another_language_is_named(tmp_path: Path, windows: Windows) -> None:
    windows.behaves("print('Fehler: Keine g\\ufffdltigen Leistungsindikatoren.'); sys.exit(1)")

    async def scene(watch: SpillWatch) -> None:
        await until(lambda: watch._fault is not None)
        witness = shared_usage(watch, mono_us())
        assert witness.spilled is None
        assert "Keine g" in witness.words

    watched(tmp_path, scene)


def test_one_that_falls_silent_says_nothing_of_the_time_after(
    tmp_path: Path, windows: Windows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "_LONGEST_PAUSE_US", 300_000)
    windows.behaves(f'print({HEADER!r})\nprint(\'"t","1","2","3","4"\', flush=True)\ntime.sleep(600)')

    async def scene(watch: SpillWatch) -> None:
        watch.observe(sample(0, 0))
        await rows(watch, 1)
        watch.mark_baseline()
        from_us = mono_us()
        assert shared_usage(watch, from_us).spilled is False
        await asyncio.sleep(0.4)
        witness = shared_usage(watch, from_us)
        assert witness.spilled is None
        assert "silent" in witness.words

    watched(tmp_path, scene)


def test_no_windows_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(host, "_SYSTEM32", tmp_path / "none")

    async def scene(watch: SpillWatch) -> None:
        assert "typeperf.exe was not found" in shared_usage(watch, mono_us()).words

    watched(tmp_path, scene)


def test_the_kernel_log_is_a_witness_of_its_own(tmp_path: Path, windows: Windows) -> None:
    def scene(watch: SpillWatch) -> None:
        from_us = mono_us()
        calm, _ = watch.witnesses(from_us, mono_us())
        assert (calm.witness, calm.spilled, calm.residency_errors) == ("kernel log", False, 0)
        with (tmp_path / "kmsg").open("a") as log:
            log.write(2 * ERROR)
        struck, _ = watch.witnesses(from_us, mono_us())
        assert (struck.spilled, struck.residency_errors) == (True, 2)
        later, _ = watch.witnesses(mono_us(), mono_us())
        assert later.spilled is False

    watched(tmp_path, scene)


def test_a_kernel_log_that_may_not_be_read_is_no_witness(tmp_path: Path, windows: Windows) -> None:
    async def scene() -> None:
        watch = SpillWatch(kernel_log=tmp_path / "none")
        try:
            witness, _ = watch.witnesses(mono_us(), mono_us())
            assert (witness.spilled, witness.residency_errors) == (None, None)
            assert "cannot be read" in witness.words
        finally:
            await watch.stop()

    asyncio.run(scene())


def test_a_window_from_before_the_watch_is_not_vouched_for(tmp_path: Path, windows: Windows) -> None:
    def scene(watch: SpillWatch) -> None:
        witness, _ = watch.witnesses(mono_us() - 60_000_000, mono_us())
        assert witness.spilled is None

    watched(tmp_path, scene)
