"""The console in a real terminal: the whole main job by keys, and every way out of it with the terminal as it was."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from anvil_tui.campaigns import control
from tests.e2e.conftest import Bench, until

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Terminal:
    """One terminal of a tmux server of its own, with a shell in it."""

    def __init__(self, bench: Bench, width: int = 120, height: int = 40) -> None:
        self.bench = bench
        self._socket = str(bench.root / "tmux")
        env = bench.env | {"TERM": "xterm-256color", "PS1": "$ "}
        self._tmux("-f", os.devnull, "new-session", "-d", "-x", str(width), "-y", str(height), "-s", "t", "sh", env=env)

    def _tmux(self, *words: str, env: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *words], env=env, capture_output=True, text=True, check=False, timeout=20
        )
        return done.stdout

    def open(self, *words: str) -> None:
        """Start the console from the shell; its exit code is printed when it is over."""
        self.type(" ".join([*self.bench.argv(), *words]) + "; echo ended with $?", "Enter")

    def type(self, *keys: str) -> None:
        self._tmux("send-keys", "-t", "t", *keys)

    def text(self) -> str:
        return self._tmux("capture-pane", "-p", "-t", "t")

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-t", "t", "-x", str(width), "-y", str(height))

    def modes(self) -> str:
        """Whether the alternate screen is on, the mouse, every movement of it, and the cursor: a digit each."""
        words = "#{alternate_on}#{mouse_any_flag}#{mouse_all_flag}#{cursor_flag}"
        return self._tmux("display", "-p", "-t", "t", words).strip()

    def see(self, pattern: str, seconds: float = 30.0, flags: int = 0) -> str:
        """Wait until the screen shows a match of the pattern; the screen then."""
        deadline = time.monotonic() + seconds
        while not re.search(pattern, text := self.text(), flags):
            assert time.monotonic() < deadline, f"{pattern!r} did not show up:\n{text}"
            time.sleep(0.05)
        return text

    def gone(self, words: str) -> None:
        """Wait until these words stand on the screen no more."""
        until(lambda: words not in self.text(), 20, f"the end of {words!r}")

    def restored(self, code: int) -> None:
        """The console is over with this exit code, and the terminal is a plain one again."""
        self.see(f"ended with {code}\\b")
        assert self.modes() == "0001", "no alternate screen, no mouse, a cursor"
        self.type("echo still $((40 + 2))", "Enter")
        self.see("still 42")

    def close(self) -> None:
        self._tmux("kill-server")


@pytest.fixture
def terminal(bench: Bench) -> Iterator[Terminal]:
    found = Terminal(bench)
    try:
        yield found
    finally:
        found.close()


def console_pid(bench: Bench) -> int:
    """The console's process: the one without a verb."""
    found = until(lambda: [pid for pid in bench._processes("anvil_tui") if _is_console(pid)], 20, "the console")
    return int(found[0])


def _is_console(pid: int) -> bool:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return words[-3:-2] == [b"--profiles"] and b"-m" in words


def test_the_main_job_by_keys(bench: Bench, terminal: Terminal) -> None:
    lane = bench.rehearsal("practice")
    terminal.open()
    terminal.see("Nothing was started here yet")
    terminal.type("u")
    terminal.see("enter starts it")
    _point_at(terminal, lane)
    terminal.type("Enter")
    terminal.see("STARTING")
    terminal.see(r"UP, came up in [0-9.]+ s", 60)
    screen = terminal.see(r"KV tokens +553,243")
    assert "REHEARSAL" in screen and "GPU 1" in screen
    terminal.see(r"startup complete")
    terminal.type("l")
    terminal.see("longest prompt 119,808 tokens = observed max_model_len 131,072")
    _retype(terminal, "2000,6000")
    terminal.see("2 rungs, one streamed request each: 2,000 → 6,000")
    assert len(list((bench.state / "campaigns").iterdir())) == 1, "nothing runs before Start"
    terminal.type("Enter")
    terminal.see("▸ Start")
    terminal.type("Enter")
    terminal.see("RUN ladder|ladder complete")
    terminal.see(r"6,000 +6,000 .*pass", 60)
    terminal.see("ladder complete")
    terminal.type("b")
    terminal.see("You have no signing key yet")
    terminal.see("▸ Passphrase")
    terminal.type("open sesame")
    terminal.see("Passphrase +•{11} ")
    terminal.type("Enter")
    terminal.see("▸ Once more")
    terminal.type("open sesam")
    terminal.see("Once more +•{10} ")
    terminal.type("Enter")
    terminal.see("the two passphrases differ")
    terminal.type("e")
    terminal.see("Once more +•{11} ")
    terminal.type("Enter")
    terminal.see("sealed, signed", 60)
    assert "open sesame" not in terminal.text()
    terminal.type("v")
    terminal.see("VALID: intact and signed by a trusted key")
    bench.good("verify", str(bench.last.path))
    terminal.type("q")
    terminal.gone("VALID")
    terminal.type("X")
    terminal.see("Stop the lane")
    terminal.type("y")
    terminal.see("practice is stopped", 60)
    assert bench.json("lanes")["lanes"][_index(bench, lane)]["state"] == "stopped"
    terminal.type("q")
    terminal.restored(0)


@pytest.mark.slow
def test_a_run_outlives_the_console_and_is_found_again(bench: Bench, terminal: Terminal) -> None:
    lane = bench.rehearsal("practice", time_scale="4", startup_seconds="2")
    bench.good("up", lane)
    terminal.open()
    terminal.see("UP")
    terminal.type("l")
    terminal.see("longest prompt")
    _retype(terminal, "119000,119000,119000,119000")
    terminal.type("Enter")
    terminal.see("▸ Start")
    terminal.type("Enter")
    terminal.see("RUN ladder")
    folder = bench.wait_in_rung()
    terminal.see(r"▸ (prefill|reasoning|answer)")
    assert not bench._processes("anvil_tui.rehearsal.sampler")[1:], "one sampler: the runner's"
    terminal.type("q")
    terminal.see("goes on without this screen")
    terminal.type("Enter")
    terminal.restored(0)
    assert folder.running(), "the run is left alone"
    terminal.type("clear", "Enter")
    terminal.open()
    terminal.see(r"RUN ladder \d/4")
    terminal.see(r"▸ (sizing|prefill|reasoning|answer)")
    terminal.type("x")
    terminal.see("After this request")
    terminal.type("y")
    terminal.see("stopping after the open request")
    terminal.see("ladder stopped", 90)
    assert bench.kinds(folder).count("asked") == 1
    assert bench.view(folder).ending == "stopped"
    terminal.type("r")
    terminal.see("Resume the campaign")
    terminal.type("y")
    terminal.see("RUN ladder")
    bench.wait_in_rung()
    terminal.type("q")
    terminal.see("goes on without this screen")
    terminal.type("s")
    terminal.restored(0)
    until(lambda: not folder.running(), 30, "the end of the run")
    assert bench.view(folder).ending == "stopped"


@pytest.mark.slow
def test_a_runner_that_does_not_answer_is_told_and_killed_and_the_lane_lives(bench: Bench, terminal: Terminal) -> None:
    lane = bench.rehearsal("practice", time_scale="4", startup_seconds="2")
    bench.good("up", lane)
    ladder = bench.start("ladder", lane, "--targets", "119000,119000")
    folder = bench.wait_in_rung()
    terminal.open()
    terminal.see(r"▸ ")
    runner = control.runner_of(folder)
    assert runner is not None
    os.kill(runner.pid, signal.SIGSTOP)
    terminal.type("x")
    terminal.see("After this request")
    terminal.type("y")
    terminal.see("the runner has not answered for 3 s: x offers SIGTERM")
    terminal.see("STALE")
    terminal.type("x")
    terminal.see("SIGTERM means: stop now and leave a clean folder")
    terminal.type("y")
    terminal.see("SIGTERM was sent to the runner")
    until(lambda: _killed_offered(terminal), 20, "the offer to kill")
    terminal.type("y")
    terminal.see("ladder interrupted")
    assert not runner.alive()
    assert bench.json("lanes")["lanes"][_index(bench, lane)]["state"] == "up", "the lane is untouched"
    ladder.wait(20)
    terminal.type("q")
    terminal.restored(0)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_restores_the_terminal_and_leaves_no_child(
    bench: Bench, terminal: Terminal, number: signal.Signals
) -> None:
    lane = bench.rehearsal("practice", startup_seconds="2")
    bench.good("up", lane)
    terminal.open()
    terminal.see("own sampler")
    os.kill(console_pid(bench), number)
    terminal.restored(128 + number)
    until(lambda: not bench._processes("anvil_tui.rehearsal.sampler"), 10, "the end of the sampler")


def test_sizes_from_large_to_tiny_and_back(bench: Bench, terminal: Terminal) -> None:
    bench.rehearsal("practice")
    terminal.open()
    terminal.see("Nothing was started here yet")
    terminal.resize(50, 12)
    terminal.see("Terminal too small: have 50x12")
    terminal.resize(80, 24)
    screen = terminal.see("Nothing was started here yet")
    assert all(len(line) <= 80 for line in screen.splitlines())
    terminal.resize(50, 12)
    terminal.see("too small")
    terminal.type("q")
    terminal.restored(0)


@pytest.mark.slow
def test_a_console_that_only_looks_writes_nothing_and_leaves_the_mouse(bench: Bench, terminal: Terminal) -> None:
    lane = bench.rehearsal("practice", startup_seconds="2")
    bench.good("up", lane)
    before = _files(bench)
    terminal.open("--read-only")
    terminal.see("READ ONLY .*own sampler", flags=re.DOTALL)
    terminal.type("X")
    terminal.see("READ ONLY: this console only looks")
    terminal.type(*"lpxbrdoa")
    terminal.type("u")
    terminal.see("enter: show ")
    terminal.type("Escape")
    terminal.gone("enter: show ")
    terminal.type("M")
    terminal.see("MOUSE OFF")
    assert terminal.modes()[1:3] == "00", "the terminal has its own selection"
    terminal.type("w", "t", "k", "m")
    terminal.see(r"wrap  no times  1 mark")
    terminal.type("M")
    terminal.gone("MOUSE OFF")
    assert terminal.modes()[1:3] == "11"
    assert _files(bench) == before, "lanes, campaigns, locks and keys are as they were"
    # Inside tmux as it is set up here nothing reaches a clipboard: it says so, and where the line is.
    terminal.type("y")
    terminal.see(rf"1 log line: in {re.escape(str(bench.state))}/copy-")
    terminal.type("q")
    terminal.restored(0)
    (copied,) = [Path(path) for path in _files(bench) if path not in before]
    assert "/v1/models" in copied.read_text() and copied.stat().st_mode & 0o777 == 0o600


def test_without_a_terminal_it_says_so(bench: Bench) -> None:
    done = bench.run()
    assert done.returncode == 2
    assert "needs a terminal" in done.stderr and done.stdout == ""


def test_a_terminal_that_is_lost_ends_it(bench: Bench) -> None:
    """The other side of the pty is closed; SIGHUP is ignored, so that only the dead terminal itself can tell."""
    bench.rehearsal("practice")
    pid, fd = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        argv = bench.argv()
        os.execvpe(argv[0], argv, bench.env | {"TERM": "xterm-256color"})
    seen = b""
    deadline = time.monotonic() + 20
    while b"pick a lane" not in seen and time.monotonic() < deadline:
        if select.select([fd], [], [], 0.1)[0]:
            seen += os.read(fd, 65536)
    assert b"pick a lane" in seen
    os.close(fd)
    ended = until(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid, 15, "the end of the console")
    assert ended


def _files(bench: Bench) -> dict[str, int]:
    """Every file of the bench but what the lane itself goes on writing, with the time of its last change."""
    growing = ("lane.log", ".jsonl", "tmux")
    return {
        str(path): path.stat().st_mtime_ns
        for path in bench.root.rglob("*")
        if path.is_file() and not path.name.endswith(growing) and "__pycache__" not in path.parts
    }


def _killed_offered(terminal: Terminal) -> bool:
    """Press x until the question is the last one; an earlier question says to wait."""
    terminal.type("x")
    asked = terminal.see(r"▸ (Wait|Cancel)")
    if "Kill the runner" in asked:
        return True
    terminal.type("n")
    terminal.gone("(n)")
    return False


def _point_at(terminal: Terminal, lane: str) -> None:
    """Move the cursor of the lane list to a lane: its facts say so."""
    for _ in range(10):
        if re.search(rf"127\.0\.0\.1:{_port(terminal.bench, lane)} ", terminal.text()):
            return
        before = terminal.text()
        terminal.type("Down")
        terminal.gone(before)
    raise AssertionError(terminal.text())


def _retype(terminal: Terminal, targets: str) -> None:
    """Replace the targets. Textual takes letters before control keys that come in the same instant: wait between."""
    terminal.type("C-a")
    terminal.type("C-k")
    terminal.see("targets: at least one whole number")
    terminal.type(targets)
    terminal.see(f"{targets} ")


def _port(bench: Bench, lane: str) -> str:
    found = re.search(r":(\d+)\"", (bench.own_lanes / f"{lane}.toml").read_text())
    assert found is not None
    return found[1]


def _index(bench: Bench, lane: str) -> int:
    return [one["lane"] for one in bench.json("lanes")["lanes"]].index(lane)
