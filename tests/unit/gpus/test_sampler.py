"""The sampler child as a process, on the fake NVML under NVIDIA's own binding."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from anvil_tui.gpus import nvml as nvml_module
from anvil_tui.records.vram import MIB, GpuReading, Inventory, SamplerFailed, SamplerLine, VramSample
from tests.fake_nvml import FakeNvml

COMMAND = (sys.executable, "-P", "-m", "anvil_tui.gpus.sampler")
A, B = "GPU-00000001-fa4e-4000-8000-000000000000", "GPU-00000002-fa4e-4000-8000-000000000001"


class Sampler:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def line(self) -> SamplerLine:
        assert self.process.stdout is not None
        return msgspec.json.decode(self.process.stdout.readline(), type=SamplerLine)

    def sample(self) -> VramSample:
        """The next sample, whatever else comes before it."""
        while not isinstance(line := self.line(), VramSample):
            pass
        return line

    def reading(self, gpu: int = 0) -> GpuReading:
        return self.sample().gpus[gpu]

    def until(self, condition: str, seconds: float = 5.0) -> VramSample:
        """The first sample for which `condition` holds: an expression over its two readings a and b."""
        deadline = time.monotonic() + seconds
        while True:
            sample = self.sample()
            if eval(condition, {"a": sample.gpus[0], "b": sample.gpus[1]}):
                return sample
            assert time.monotonic() < deadline, f"never {condition}: {sample}"

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(5)


@contextmanager
def sampling(hz: float = 50, env: dict[str, str] | None = None) -> Iterator[Sampler]:
    process = subprocess.Popen(
        [*COMMAND, "--hz", f"{hz:g}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, bufsize=0
    )
    try:
        yield Sampler(process)
    finally:
        process.kill()
        process.wait()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        process.stdout.close()


def failure(env: dict[str, str] | None = None) -> SamplerFailed:
    """What a sampler says that cannot work; it ends by itself with exit code 2."""
    with sampling(env=env) as sampler:
        line = sampler.line()
        assert isinstance(line, SamplerFailed)
        assert sampler.process.wait(5) == 2
        return line


def test_identity_and_figures(nvml: FakeNvml) -> None:
    nvml.write(free__0=2430, free__1=3041, mig__1=0)
    with sampling() as sampler:
        inventory = sampler.line()
        assert isinstance(inventory, Inventory)
        assert [(g.uuid, g.index, g.bus_id, g.mig) for g in inventory.gpus] == [
            (A, 0, "00000000:01:00.0", None),
            (B, 1, "00000000:02:00.0", False),
        ]
        assert (inventory.driver, inventory.library) == ("580.95.05", str(nvml.library))
        first = sampler.reading()
        assert (first.total, first.free, first.used, first.reserved) == (
            97887 * MIB, 2430 * MIB, 95457 * MIB, 638 * MIB,
        )  # fmt: skip
        assert (first.util_pct, first.power_w, first.power_limit_w, first.temperature_c) == (97, 281.5, 300.0, 71)
        assert (first.sm_clock_mhz, first.throttle, first.error) == (2430, 4, None)
        second = sampler.reading(1)
        assert (second.free, second.reserved, second.power_w) == (3041 * MIB, None, None)


def test_a_changed_figure_is_in_the_next_sample(nvml: FakeNvml) -> None:
    with sampling() as sampler:
        sampler.sample()
        nvml.write(free__0=7249)
        sampler.until("a.free == 7249 * 2**20 and b.free == 97249 * 2**20")


def test_a_short_dip_is_caught_at_its_floor(nvml: FakeNvml) -> None:
    with sampling() as sampler:
        sampler.sample()
        nvml.write(timeline__1="0:5000,300:1249,360:5000")
        dipped = sampler.until("b.free == 1249 * 2**20")
        assert dipped.gpus[0].free == 97249 * MIB


def test_not_available_is_null_and_named(nvml: FakeNvml) -> None:
    nvml.write(free__0="NA", total__1="NA", free__1=5000, used__1=9, reserved__1="NA")
    with sampling() as sampler:
        a, b = sampler.sample().gpus
        assert (a.free, a.used, a.error) == (None, None, "NOT_AVAILABLE")
        assert (b.total, b.free, b.reserved, b.error) == (None, 5000 * MIB, None, None)


SENSORS = (
    "DeviceGetMemoryInfo_v2", "DeviceGetUtilizationRates", "DeviceGetPowerUsage", "DeviceGetEnforcedPowerLimit",
    "DeviceGetTemperature", "DeviceGetClockInfo", "DeviceGetCurrentClocksEventReasons",
)  # fmt: skip


@pytest.mark.parametrize("code", [3, 999, 13, 25])
def test_any_error_of_an_optional_call_is_null(nvml: FakeNvml, code: int) -> None:
    """WSL says unknown (999) where not supported (3) is meant."""
    nvml.write(**{f"error__{name}": code for name in SENSORS})
    with sampling() as sampler:
        reading = sampler.reading()
        assert (reading.free, reading.error) == (97249 * MIB, None)
        assert (reading.reserved, reading.util_pct, reading.power_w, reading.throttle) == (None, None, None, None)
        assert (reading.temperature_c, reading.sm_clock_mhz, reading.power_limit_w) == (None, None, None)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"total__0": 0, "free__0": 0}, "no dedicated memory"),
        ({"free__0": 98000, "used__0": 1}, "free is"),
        ({"used__0": 99000}, "used is"),
        ({"free__0": 50000, "used__0": 60000}, "do not sum"),
        ({"reserved__0": 99000}, "reserved is"),
    ],
)
def test_figures_that_contradict_each_other_are_null_and_named(
    nvml: FakeNvml, settings: dict[str, int], words: str
) -> None:
    nvml.write(**settings)
    with sampling() as sampler:
        a, b = sampler.sample().gpus
        assert (a.free, a.total, a.used) == (None, None, None)
        assert a.error is not None and words in a.error
        assert a.power_w == 281.5
        assert (b.free, b.error) == (97249 * MIB, None)


def test_a_lost_gpu_is_named_and_the_other_lives_on(nvml: FakeNvml) -> None:
    with sampling() as sampler:
        sampler.sample()
        nvml.write(error__DeviceGetMemoryInfo__0=15, error__DeviceGetHandleByUUID__0=15)
        lost = sampler.until("a.error")
        assert (lost.gpus[0].error, lost.gpus[0].free) == ("GPU_IS_LOST", None)
        assert lost.gpus[1].free == 97249 * MIB
        nvml.write()
        sampler.until("a.error is None and a.free")


def test_a_lost_gpu_is_looked_for_once_a_second(nvml: FakeNvml) -> None:
    with sampling() as sampler:
        sampler.sample()
        nvml.write(error__DeviceGetMemoryInfo__0=15, error__DeviceGetHandleByUUID__0=15)
        for _ in range(40):
            sampler.sample()
        assert nvml.calls()["DeviceGetHandleByUUID"] == 1


def test_stale_handles_are_taken_anew_within_the_sample(nvml: FakeNvml) -> None:
    with sampling() as sampler:
        sampler.sample()
        nvml.write(generation=2, free__0=4321)
        fresh = sampler.until("a.free == 4321 * 2**20")
        assert fresh.gpus[1].error is None
        assert nvml.calls()["DeviceGetHandleByUUID"] == 2
        assert nvml.calls()["InitWithFlags"] == 1


def test_a_gpu_that_comes_or_goes_changes_the_inventory(nvml: FakeNvml) -> None:
    nvml.write(error__DeviceGetHandleByIndex__1=15)
    with sampling() as sampler:
        first = sampler.line()
        assert isinstance(first, Inventory)
        assert ([gpu.uuid for gpu in first.gpus], first.unreadable) == ([A], ("GPU 1: GPU_IS_LOST",))
        nvml.write()
        while not isinstance(second := sampler.line(), Inventory):
            assert isinstance(second, VramSample)
            assert [reading.uuid for reading in second.gpus] == [A]
        assert ([gpu.uuid for gpu in second.gpus], second.unreadable) == ([A, B], ())
        nvml.write(count=1)
        while not isinstance(third := sampler.line(), Inventory):
            pass
        assert [gpu.uuid for gpu in third.gpus] == [A]
        assert [reading.uuid for reading in sampler.sample().gpus] == [A, B]


def test_gpus_are_known_by_uuid_when_their_order_changes(nvml: FakeNvml) -> None:
    nvml.write(free__0=1000, free__1=2000)
    with sampling() as sampler:
        sampler.sample()
        nvml.write(uuid__0=B, uuid__1=A, free__0=2001, free__1=1001, generation=2)
        sampler.until("a.free == 1001 * 2**20 and b.free == 2001 * 2**20")
        assert {reading.uuid for reading in sampler.sample().gpus} == {A, B}


@pytest.mark.parametrize(
    ("code", "reason", "hint"),
    [
        (9, "DRIVER_NOT_LOADED (9)", "wsl --update"),
        (17, "OPERATING_SYSTEM (17)", "TCC"),
        (18, "LIB_RM_VERSION_MISMATCH (18)", "restart"),
        (4, "NO_PERMISSION (4)", "device files"),
        (77, "error 77 (77)", ""),
    ],
)
def test_a_driver_that_does_not_start_is_named(nvml: FakeNvml, code: int, reason: str, hint: str) -> None:
    nvml.write(error__InitWithFlags=code)
    failed = failure()
    assert reason in failed.reason
    assert str(nvml.library) in failed.reason
    assert hint in failed.hint


def test_no_gpu_is_a_failure(nvml: FakeNvml) -> None:
    nvml.write(count=0)
    assert "it sees no GPU" in failure().reason


def test_a_library_that_is_not_there(nvml: FakeNvml, tmp_path: Path) -> None:
    missing = failure({**os.environ, "ANVIL_TUI_NVML": str(tmp_path / "none.so")})
    assert "cannot be loaded" in missing.reason


def system_library() -> bool:
    return (
        "libnvidia-ml.so.1"
        in subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
        or Path("/usr/lib/wsl/lib/libnvidia-ml.so.1").exists()
    )


@pytest.mark.skipif(system_library(), reason="this machine has an NVML of its own")
def test_no_library_anywhere_and_one_on_the_loader_path(nvml: FakeNvml) -> None:
    env = {name: value for name, value in os.environ.items() if name != "ANVIL_TUI_NVML"}
    failed = failure(env)
    assert "NVML was not found" in failed.reason
    assert failed.hint
    with sampling(env={**env, "LD_LIBRARY_PATH": str(nvml.library.parent)}) as sampler:
        first = sampler.line()
        assert isinstance(first, Inventory)
        assert first.library == str(nvml.library)


def test_another_package_in_the_place_of_the_binding(tmp_path: Path) -> None:
    """nvidia-ml-py3 and pynvml install a module of the same name."""
    (tmp_path / "pynvml.py").write_text("class NVMLError(Exception): pass\n")
    failed = failure({**os.environ, "PYTHONPATH": str(tmp_path)})
    assert str(tmp_path / "pynvml.py") in failed.reason
    assert "nvidia-ml-py" in failed.hint


def test_no_binding_at_all(tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text("raise ImportError\n")
    assert "missing" in failure({**os.environ, "PYTHONPATH": str(tmp_path)}).reason


def test_what_the_library_prints_stays_out_of_the_lines(nvml: FakeNvml) -> None:
    nvml.write(noise__DeviceGetMemoryInfo=1)
    with sampling() as sampler:
        for _ in range(5):
            sampler.line()


def test_one_session_and_only_the_calls_that_are_needed(nvml: FakeNvml) -> None:
    with sampling(hz=20) as sampler:
        first = sampler.sample()
        while sampler.sample().mono_us - first.mono_us < 2_500_000:
            pass
        assert sampler.end() == 0
    calls = nvml.calls()
    assert (calls["InitWithFlags"], calls["Shutdown"]) == (1, 1)
    assert 2 * 45 <= calls["DeviceGetMemoryInfo"] <= 2 * 55
    assert calls["DeviceGetMemoryInfo_v2"] == calls["DeviceGetPowerUsage"] == 2 * 3
    assert calls["DeviceGetUUID"] == calls["DeviceGetName"] == 2
    forbidden = re.compile("Process|Pcie|Nvlink|Encoder|Decoder|Cuda")
    assert not [name for name in calls if forbidden.search(name)]


def test_a_slow_driver_slows_the_sampler_down(nvml: FakeNvml) -> None:
    nvml.write(latency__DeviceGetMemoryInfo=4000)
    with sampling() as sampler:
        earlier = sampler.sample().mono_us
        deadline = earlier + 8_000_000
        while (now := sampler.sample().mono_us) - earlier < 58_000:
            assert now < deadline
            earlier = now


def test_it_ends_when_its_stdin_closes(nvml: FakeNvml) -> None:
    with sampling() as sampler:
        sampler.sample()
        assert sampler.end() == 0


def test_it_ends_when_its_stdin_closes_in_a_call_that_never_returns(nvml: FakeNvml) -> None:
    with sampling() as sampler:
        sampler.sample()
        nvml.write(hang__DeviceGetMemoryInfo=1)
        before = nvml.calls().total()
        while nvml.calls().total() == before:
            time.sleep(0.005)
        assert sampler.end() == 0


def test_it_ends_when_nobody_reads(nvml: FakeNvml) -> None:
    with sampling() as sampler:
        sampler.sample()
        assert sampler.process.stdout is not None
        sampler.process.stdout.close()
        assert sampler.process.wait(5) == 0


@pytest.mark.parametrize("hz", ["0", "-1", "101", "fast", "nan"])
def test_an_impossible_rate_is_refused(hz: str) -> None:
    done = subprocess.run([*COMMAND, "--hz", hz], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--hz" in done.stderr


def test_the_binding_is_the_one_that_is_meant() -> None:
    assert nvml_module.pynvml.nvmlMemory_v2 == 0x02000028
