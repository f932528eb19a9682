"""How fast the console opens and answers, and what it costs, while a lane logs and two GPUs update.

`python -m tests.benchmarks.console_speed [PRESSES]` prints and asserts nothing. The console runs in a pty of 120x40 on
a state folder with one running campaign: its journal is held, its `live.json` rewritten five times and its samples
written twenty times a second, as a runner does, and its lane's log grows by the lines of a busy server.
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
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

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
EMPTY_APP = """
from textual.app import App
from textual.widgets import Footer, Header, Static
class Empty(App):
    def compose(self):
        yield Header()
        yield Static("first paint")
        yield Footer()
Empty().run()
"""
GPUS = tuple(Gpu(uuid=f"GPU-{index}", name="RTX PRO 6000 Max-Q", index=index) for index in range(2))


class Screen:
    """A program in a pty: what it painted, and when."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        self.began = time.monotonic()
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
            os.execvpe(argv[0], argv, env)
        self._seen = b""

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
    """What a runner writes, without a campaign: the journal's lock, live figures, samples."""

    def __init__(self, where: Locations) -> None:
        self.folder = begun(where)
        self._journal = Journal.take(self.folder.journal)
        self._journal.append(started())
        self._journal.append(planned(self.folder))
        self._journal.append(events.RunStarted(lane="practice", run="practice-r1", what="rung", target_tokens=2000))
        self._samples = self.folder.samples.open("ab", buffering=0)
        self._samples.write(msgspec.json.encode(Inventory(source="nvml", gpus=GPUS)) + b"\n")
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def end(self) -> None:
        self._ending.set()
        self._thread.join()
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
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.console_speed", "--log", str(log), str(lines_per_s)],
        stdin=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        writer.kill()
        writer.wait()


def write_log(log: Path, lines_per_s: int) -> None:
    """Log until killed."""
    batch = b"".join(running(number) for number in range(lines_per_s // 50))
    due = time.monotonic()
    with log.open("ab", buffering=0) as file:
        while True:
            file.write(batch)
            due += 0.02
            time.sleep(max(0.0, due - time.monotonic()))


def first_paint(argv: list[str], env: dict[str, str], words: bytes, times: int) -> list[float]:
    """Milliseconds from the start of the process until these words stand on its screen."""
    found = []
    for _ in range(times):
        screen = Screen(argv, env)
        found.append(1000 * (screen.paint(words) - screen.began))
        screen.drain(0.3)
        screen.end()
    return found


def presses(screen: Screen, times: int) -> list[float]:
    """Milliseconds from a key until its word is painted: space, which says PAUSED; the display runs between."""
    found = []
    for _ in range(times):
        screen.drain(0.25)
        pressed = screen.press(b" ")
        found.append(1000 * (screen.paint(b"PAUSED") - pressed))
        screen.press(b" ")
    return found


def main() -> int:
    if sys.argv[1:2] == ["--log"]:
        write_log(Path(sys.argv[2]), int(sys.argv[3]))
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        env = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        env |= {"HOME": str(root), "XDG_CONFIG_HOME": str(root / "config"), "TERM": "xterm-256color"}
        where = Locations(state=root / "state", profiles=root / "profiles", config=root / "config")
        log = a_lane(where)
        console = [
            sys.executable, "-P", "-m", "anvil_tui", "--state", str(where.state), "--profiles", str(where.profiles)
        ]  # fmt: skip
        empty = first_paint([sys.executable, "-c", EMPTY_APP], env, b"first paint", 9)
        opened = first_paint(console, env, b"Rungs", 9)
        medians = f"empty Textual app {median(empty):.0f} ms, console {median(opened):.0f} ms"
        print(f"start to first paint, median of 9: {medians}")
        screen = Screen(console, env)
        screen.paint(b"Rungs")
        screen.drain(3.0)
        _tell("nothing runs, own sampler at 2 Hz", screen, None)
        runner = Runner(where)
        try:
            screen.drain(3.0)
            for lines_per_s in (0, 10_000, 50_000):
                with logging(log, lines_per_s):
                    screen.drain(2.0)
                    _tell(f"two GPUs, {lines_per_s:,} lines/s", screen, times)
        finally:
            runner.end()
            screen.end()
    return 0


def _tell(what: str, screen: Screen, times: int | None, seconds: float = 10.0) -> None:
    before, began = screen.cpu_seconds(), time.monotonic()
    painted = screen.drain(seconds)
    took = time.monotonic() - began
    words = f"{what}: CPU {100 * (screen.cpu_seconds() - before) / took:.1f} %"
    words += f", {painted / took / 1000:.1f} kB/s to the terminal, RSS {screen.resident_mib():.0f} MiB"
    if times:
        found = sorted(presses(screen, times))
        p99 = found[min(len(found) - 1, round(0.99 * len(found)))]
        words += f"; key to paint: median {median(found):.0f} ms, p99 {p99:.0f} ms of {times}"
    print(words, flush=True)


if __name__ == "__main__":
    sys.exit(main())
