"""What a console is measured on: a terminal that reads it, a lane whose log grows, and what a runner writes.

`python -m tests.benchmarks.console_scene LOG LINES_PER_S` logs so many lines a second until it or its parent ends.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import msgspec

from anvil_tui import clock
from anvil_tui.campaigns.store.journal import Journal
from anvil_tui.files import write_atomic
from anvil_tui.lanes.folder import LaneFolder
from anvil_tui.locations import Locations
from anvil_tui.records import events
from anvil_tui.records.live import Live, LiveRun
from anvil_tui.records.load import Launched, Ready, Started
from anvil_tui.records.startup_report import StartupReport
from anvil_tui.records.vram import MIB, Gpu, GpuReading, Inventory, VramSample
from tests.benchmarks.log_reading import running
from tests.unit.console import scenes
from tests.unit.console.test_desk_source import begun, planned, started

SIZE = (40, 120)
GPUS = tuple(Gpu(uuid=f"GPU-{index}", name="RTX PRO 6000 Max-Q", index=index) for index in range(2))


class Screen:
    """A program in a pty of 120x40 for the length of a block: what it painted, and when."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        self.began = time.monotonic()
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
            os.execvpe(argv[0], argv, env)
        self._seen = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def paint(self, words: bytes, seconds: float = 20.0) -> float:
        """The moment in which these words were painted, after what was looked for before."""
        deadline = time.monotonic() + seconds
        while words not in self._seen:
            left = deadline - time.monotonic()
            if left < 0:
                raise TimeoutError(f"{words!r} was not painted: {self._seen[-500:]!r}")
            self._read(left)
        at = time.monotonic()
        self._seen = self._seen.split(words, 1)[1]
        return at

    def drain(self, seconds: float) -> int:
        """Read for a while; the bytes that came."""
        deadline, got = time.monotonic() + seconds, 0
        while (left := deadline - time.monotonic()) > 0:
            got += self._read(left)
        self._seen = b""
        return got

    def read_while(self, process: subprocess.Popen[bytes]) -> None:
        """Read as a terminal does, until the process has ended."""
        while process.poll() is None:
            self._read(0.1)
            self._seen = b""

    def press(self, key: bytes) -> float:
        """Send a key; the moment before."""
        at = time.monotonic()
        os.write(self._fd, key)
        return at

    def cpu_seconds(self) -> float:
        """CPU time of the program so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mib(self) -> float:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / MIB

    def end(self) -> None:
        """SIGTERM, on which the console ends its own children; SIGKILL only where that is not heard."""
        os.kill(self.pid, signal.SIGTERM)
        deadline = time.monotonic() + 10
        while os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            self._read(0.1)
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
        os.close(self._fd)

    def _read(self, seconds: float) -> int:
        if not select.select([self._fd], [], [], seconds)[0]:
            return 0
        try:
            got = os.read(self._fd, 1 << 20)
        except OSError:
            return 0
        self._seen += got
        return len(got)


class Runner:
    """What a runner writes for the length of a block: the journal, which it holds, live figures, samples."""

    def __init__(self, where: Locations, load_id: str) -> None:
        self.folder = begun(where)
        self._journal = Journal.take(self.folder.journal)
        self._journal.append(started())
        self._journal.append(planned(self.folder))
        self._journal.append(events.LoadAdopted(lane="practice", load_id=load_id, launch="rehearsal"))
        self._journal.append(events.RunStarted(lane="practice", run="practice-r1", what="rung", target_tokens=2000))
        self._samples = self.folder.samples.open("ab", buffering=0)
        self._samples.write(msgspec.json.encode(Inventory(source="nvml", gpus=GPUS)) + b"\n")
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        self._samples.close()
        self._journal.close()

    def _write(self) -> None:
        tick = 0
        while not self._ending.wait(0.05):
            now_us = clock.mono_us()
            readings = tuple(
                GpuReading(
                    uuid=gpu.uuid, free=(3400 + 40 * (tick % 9)) * MIB, total=97887 * MIB, util_pct=40 + tick % 50,
                    power_w=230.0 + tick % 30, temperature_c=50 + tick % 9,
                )
                for gpu in GPUS
            )  # fmt: skip
            sample = VramSample(mono_us=now_us, at=clock.utc_now(), gpus=readings)
            self._samples.write(msgspec.json.encode(sample) + b"\n")
            if tick % 4 == 0:
                run = LiveRun(run="practice-r1", target_tokens=2000, phase="answer", since_us=now_us, tokens=tick)
                live = Live(
                    mono_us=now_us, at=clock.utc_now(), boot_id=clock.boot_id(), pid=os.getpid(), step="practice-r1",
                    run=run, sample=sample,
                )  # fmt: skip
                write_atomic(self.folder.live, msgspec.json.encode(live), durable=False)
            tick += 1


def a_lane(where: Locations) -> Path:
    """A load that is up; its log."""
    lanes = where.profiles / "lanes"
    lanes.mkdir(parents=True)
    (lanes / "practice.toml").write_bytes(scenes.practice().raw)
    load = LaneFolder.create(where.lanes, "practice")
    ticks = clock.start_ticks(os.getpid())
    assert ticks is not None
    load.write(
        Launched(
            lane="practice", load_id=load.load_id, kind="rehearsal", engine="vllm", at=clock.utc_now(),
            mono_us=clock.mono_us(), boot_id=clock.boot_id(), base_url="http://127.0.0.1:1", served_name="m",
            log="lane.log",
        )
    )  # fmt: skip
    (load.path / "started.json").write_bytes(
        msgspec.json.encode(
            Started(
                pid=os.getpid(), start_ticks=ticks, boot_id=clock.boot_id(), at=clock.utc_now(),
                mono_us=clock.mono_us(), holder_pid=os.getpid(), holder_start_ticks=ticks,
            )
        )
    )  # fmt: skip
    load.write(
        Ready(
            at=clock.utc_now(), mono_us=clock.mono_us(), startup_seconds=4.6, served_name="m", max_model_len=131072,
            engine_version="0.32.0",
        )
    )  # fmt: skip
    load.write(StartupReport(engine="vllm", state="ready"))
    log = load.path / "lane.log"
    log.write_bytes(b"(APIServer pid=1) INFO:     Application startup complete.\n")
    return log


@contextmanager
def logging(log: Path, lines_per_s: int) -> Iterator[None]:
    """A process of its own that logs so many lines a second, in fifty writes."""
    if not lines_per_s:
        yield
        return
    with ended([sys.executable, "-m", __name__, str(log), str(lines_per_s)]):
        yield


@contextmanager
def ended(argv: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A command in a session of its own, which is ended whole with the block: SIGTERM first, then SIGKILL."""
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        yield process
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)


def write_log(log: Path, lines_per_s: int) -> None:
    """Log until this process or its parent ends."""
    batch = b"".join(running(number) for number in range(lines_per_s // 50))
    parent, due = os.getppid(), time.monotonic()
    with log.open("ab", buffering=0) as file:
        while os.getppid() == parent:
            file.write(batch)
            due += 0.02
            time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    write_log(Path(sys.argv[1]), int(sys.argv[2]))
