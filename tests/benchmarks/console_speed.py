"""How fast the console opens and answers, what it costs, and whether it disturbs a measurement. Asserts nothing.

    python -m tests.benchmarks.console_speed [--only start,idle,busy,client] [--presses N] [--starts N] [--seconds S]
                                               [--clients NAME,…] [--concurrency 1,64]

The console runs in a pty of 120x40 on a state folder of its own with one lane that is up. What is measured:

    start    from the start of its process to the first paint and to the first figures, beside an empty Textual app
    idle     CPU while nothing runs: its own sampler at 2 Hz, the log silent
    busy     CPU, and time from a key to its paint, while a campaign runs: its journal is held, live figures are written
             five times and samples of two GPUs twenty times a second, and the log grows by 0, 10,000 and 50,000 lines/s
    client   errors of the measuring client against a server that knows the truth, while the same log grows by
             10,000 lines/s, with the console closed and with it open (client_timing.py has the figures' meaning)

It takes about six minutes. Interrupted, it ends what it started. CPU is in per cent of one core, all threads together.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from anvil_tui.locations import Locations
from tests.benchmarks.console_scene import Runner, Screen, a_lane, ended, logging

PARTS = ("start", "idle", "busy", "client")
LINES_PER_S = (0, 10_000, 50_000)
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
CLIENT = Path(__file__).with_name("client_timing.py")


class Bench:
    """One state folder, and the console on it."""

    def __init__(self, root: Path) -> None:
        self._env = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self._env |= {"HOME": str(root), "XDG_CONFIG_HOME": str(root / "config"), "TERM": "xterm-256color"}
        self._env |= {"XDG_RUNTIME_DIR": str(root)}
        self._where = Locations(state=root / "state", profiles=root / "profiles", config=root / "config")
        self._log = a_lane(self._where)

    def _console(self) -> Screen:
        folders = ["--state", str(self._where.state), "--profiles", str(self._where.profiles)]
        return Screen([sys.executable, "-P", "-m", "anvil_tui", *folders], self._env)

    def _runner(self) -> Runner:
        return Runner(self._where, self._log.parent.name)

    def start(self, times: int) -> None:
        """Turn by turn, so that what else the machine does falls on both."""
        empty, frame, figures = [], [], []
        for _ in range(times):
            with Screen([sys.executable, "-c", EMPTY_APP], self._env) as screen:
                empty.append(screen.paint(b"first paint") - screen.began)
                screen.drain(0.3)
            with self._console() as screen:
                frame.append(screen.paint(b"Rungs") - screen.began)
                figures.append(screen.paint(b"practice") - screen.began)
                screen.drain(0.3)
        words = (f"{what} {1000 * median(found):.0f} ms" for what, found in (("console", frame), ("figures", figures)))
        print(f"start to first paint, median of {times}: empty Textual app {1000 * median(empty):.0f} ms,", *words)

    def idle(self, seconds: float) -> None:
        with self._console() as screen:
            screen.paint(b"practice")
            screen.drain(3.0)
            print(f"nothing runs, own sampler at 2 Hz: {cost(screen, seconds)}", flush=True)

    def busy(self, seconds: float, times: int) -> None:
        with self._runner(), self._console() as screen:
            screen.paint(b"practice-r1")
            for lines_per_s in LINES_PER_S:
                with logging(self._log, lines_per_s):
                    screen.drain(2.0)
                    words = cost(screen, seconds)
                    found = presses(screen, times)
                    keys = f"key to paint: median {median(found):.0f} ms, p99 {p99(found):.0f} ms of {times}"
                    print(f"two GPUs, {lines_per_s:,} lines/s: {words}; {keys}", flush=True)

    def client(self, clients: str, concurrency: str) -> None:
        argv = [sys.executable, str(CLIENT), "--only", clients, "--concurrency", concurrency]
        with self._runner(), logging(self._log, LINES_PER_S[1]):
            print("measuring client, console closed:", flush=True)
            with ended(argv) as process:
                process.wait()
            print("measuring client, console open:", flush=True)
            with self._console() as screen:
                screen.paint(b"200 OK")
                with ended(argv) as process:
                    screen.read_while(process)


def cost(screen: Screen, seconds: float) -> str:
    """What the console takes for a while."""
    before, began = screen.cpu_seconds(), time.monotonic()
    painted = screen.drain(seconds)
    took = time.monotonic() - began
    cpu = 100 * (screen.cpu_seconds() - before) / took
    return f"CPU {cpu:.1f} %, {painted / took / 1000:.1f} kB/s to the terminal, RSS {screen.resident_mib():.0f} MiB"


def presses(screen: Screen, times: int) -> list[float]:
    """Milliseconds from a key until its word is painted: space, which says PAUSED; the display runs between."""
    found = []
    for _ in range(times):
        screen.drain(0.25)
        pressed = screen.press(b" ")
        found.append(1000 * (screen.paint(b"PAUSED") - pressed))
        screen.press(b" ")
    return found


def p99(values: list[float]) -> float:
    """Nearest rank."""
    return sorted(values)[max(0, -(-99 * len(values) // 100) - 1)]


def _parts(text: str) -> tuple[str, ...]:
    parts = tuple(text.split(","))
    if not set(parts) <= set(PARTS):
        raise argparse.ArgumentTypeError(f"{text!r}: some of {','.join(PARTS)} are meant")
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=_parts, default=PARTS, metavar="PART,…", help="these parts (default: all)")
    parser.add_argument("--starts", type=int, default=9, metavar="N", help="starts of each program (default 9)")
    parser.add_argument("--presses", type=int, default=100, metavar="N", help="keys at each rate (default 100)")
    parser.add_argument("--seconds", type=float, default=10.0, metavar="S", help="CPU is taken so long (default 10)")
    known = "ours, bare socket; vllm bench and aiperf where client_timing.py finds them"
    parser.add_argument("--clients", default="ours,bare socket", metavar="NAME,…", help=f"measuring clients: {known}")
    parser.add_argument("--concurrency", default="1", metavar="1,64", help="of the measuring clients (default 1)")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Not at once: what was started is ended on the way out.
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    for part in options.only:
        with tempfile.TemporaryDirectory() as root:
            bench = Bench(Path(root))
            match part:
                case "start":
                    bench.start(options.starts)
                case "idle":
                    bench.idle(options.seconds)
                case "busy":
                    bench.busy(options.seconds, options.presses)
                case "client":
                    bench.client(options.clients, options.concurrency)


if __name__ == "__main__":
    main()
