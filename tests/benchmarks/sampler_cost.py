"""What the sampler child costs on the fake NVML: `python -m tests.benchmarks.sampler_cost [SECONDS]`.

Prints, for each rate asked for, the rate that came, p99 and the longest period, and the child's CPU. Driver time is not
in it: the fake answers at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import msgspec
import psutil

from anvil_tui.records.vram import SamplerLine, VramSample
from tests.fake_nvml import FakeNvml, compiled


def measure(fake: FakeNvml, hz: float, seconds: float) -> str:
    """One line of the table for a child at `hz`."""
    env = {**os.environ, **fake.env}
    del env["FAKE_NVML_LOG"]
    argv = [sys.executable, "-P", "-m", "anvil_tui.gpus.sampler", "--hz", f"{hz:g}"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as child:
        assert child.stdin is not None and child.stdout is not None
        process = psutil.Process(child.pid)
        decoder = msgspec.json.Decoder(SamplerLine)
        decoder.decode(child.stdout.readline())
        before, began = process.cpu_times(), time.monotonic()
        stamps, calls = [], []
        while time.monotonic() - began < seconds:
            line = decoder.decode(child.stdout.readline())
            if isinstance(line, VramSample):
                stamps.append(line.mono_us)
                calls.append(line.call_us or 0)
        after, took = process.cpu_times(), time.monotonic() - began
        child.stdin.close()
    cpu = 100 * (after.user + after.system - before.user - before.system) / took
    periods = sorted(b - a for a, b in pairwise(stamps))
    actual = 1e6 * len(periods) / (stamps[-1] - stamps[0])
    p99 = periods[min(len(periods) - 1, int(0.99 * len(periods)))]
    return (
        f"{hz:>4g} Hz asked  {actual:6.2f} Hz taken  p99 {p99 / 1000:7.2f} ms  longest {periods[-1] / 1000:7.2f} ms"
        f"  CPU {cpu:5.2f} %  calls {sum(calls) / len(calls):4.0f} µs a sample"
    )


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(Path(folder))
        if library is None:
            sys.exit("gcc builds the fake NVML; it is not here")
        fake = FakeNvml(library, Path(folder))
        for hz in (2, 20, 50):
            print(measure(fake, hz, seconds))


if __name__ == "__main__":
    main()
