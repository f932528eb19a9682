"""A bench for whole commands: its own state, config and profiles, lanes on free ports, all stopped at the end."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from anvil_tui.campaigns.store.folder import CampaignFolder
from anvil_tui.campaigns.store.journal import read_journal
from anvil_tui.campaigns.store.view import CampaignView, read_view
from anvil_tui.locations import Locations

SHIPPED = Locations.default().shipped_profiles / "lanes"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def until(holds: Callable[[], Any], seconds: float = 30.0, what: str = "the condition") -> Any:
    """Poll until `holds` is true; its value."""
    deadline = time.monotonic() + seconds
    while not (value := holds()):
        assert time.monotonic() < deadline, f"{what} did not hold within {seconds} s"
        time.sleep(0.02)
    return value


@dataclass
class Bench:
    """One operator's desk."""

    root: Path
    command: list[str] = field(default_factory=lambda: [sys.executable, "-P", "-m", "anvil_tui"])
    lanes: list[str] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ}
        runtime = self.root / "run"
        runtime.mkdir(exist_ok=True)
        return kept | {
            "HOME": str(self.root / "home"),
            "XDG_CONFIG_HOME": str(self.root / "config"),
            "XDG_STATE_HOME": str(self.root / "xdg-state"),
            "XDG_RUNTIME_DIR": str(runtime),
        }

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def own_lanes(self) -> Path:
        folder = self.root / "profiles" / "lanes"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def argv(self, *words: str) -> list[str]:
        return [*self.command, "--state", str(self.state), "--profiles", str(self.root / "profiles"), *words]

    def run(self, *words: str, timeout: float = 120.0, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*words), env=self.env, input=stdin, capture_output=True, text=True, timeout=timeout, check=False
        )

    def good(self, *words: str, code: int = 0, timeout: float = 120.0) -> str:
        done = self.run(*words, timeout=timeout)
        assert done.returncode == code, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def json(self, *words: str, code: int = 0, timeout: float = 120.0) -> Any:
        return json.loads(self.good(*words, "--json", code=code, timeout=timeout))

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A verb that runs on while the test does something."""
        return subprocess.Popen(
            self.argv(*words),
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def rehearsal(self, name: str, shipped: str = "rehearsal-batch4096", **changes: str) -> str:
        """A lane of our own: a shipped rehearsal on a free port, with values of its keys changed."""
        toml = (SHIPPED / f"{shipped}.toml").read_text()
        changes.setdefault("base_url", f'"http://127.0.0.1:{free_port()}"')
        changes.setdefault("startup_seconds", "40")
        for key, value in changes.items():
            toml, count = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value}", toml, count=1)
            assert count, f"{shipped} has no {key}"
        (self.own_lanes / f"{name}.toml").write_text(toml)
        self.lanes.append(name)
        return name

    @property
    def last(self) -> CampaignFolder:
        return CampaignFolder(sorted((self.state / "campaigns").iterdir())[-1])

    def view(self, folder: CampaignFolder | None = None) -> CampaignView:
        return read_view(folder or self.last)[0]

    def events(self, folder: CampaignFolder | None = None) -> list[Any]:
        return [event for _, event in read_journal((folder or self.last).journal)]

    def kinds(self, folder: CampaignFolder | None = None) -> list[str]:
        return [envelope.kind for envelope, _ in read_journal((folder or self.last).journal)]

    def pid(self, module: str) -> int:
        """The process of this bench that runs a module of ours."""
        found = self._processes(module)
        assert len(found) == 1, f"{module}: {found}"
        return found[0]

    def _processes(self, module: str) -> list[int]:
        mark = str(self.root)
        found = []
        for process in psutil.process_iter(["pid", "cmdline"]):
            line = process.info["cmdline"] or []
            if module in line and process.status() != psutil.STATUS_ZOMBIE:
                try:
                    ours = any(mark in word for word in line) or mark in process.environ().get("XDG_RUNTIME_DIR", "")
                except psutil.Error:
                    continue
                if ours:
                    found.append(process.info["pid"])
        return found

    def wait_in_rung(self, phases: tuple[str, ...] = ("prefill", "reasoning", "answer")) -> CampaignFolder:
        """Wait until a rung of the newest campaign has its request open."""

        def inside() -> CampaignFolder | None:
            try:
                folder = self.last
                live = json.loads(folder.live.read_bytes())
            except (FileNotFoundError, IndexError, ValueError):
                return None
            return folder if live.get("run") and live["run"]["phase"] in phases else None

        folder: CampaignFolder = until(inside, 60, "an open rung")
        return folder

    def clean(self) -> None:
        for name in self.lanes:
            self.run("down", name, "--grace", "2")
        for process in psutil.process_iter(["pid"]):
            try:
                if process.environ().get("XDG_RUNTIME_DIR", "").startswith(str(self.root)):
                    process.send_signal(signal.SIGKILL)
            except psutil.Error:
                continue


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    desk = Bench(tmp_path)
    try:
        yield desk
    finally:
        desk.clean()
