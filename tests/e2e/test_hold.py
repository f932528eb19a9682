"""Holding a WSL distro open, with a `cmd.exe` and a `wsl.exe` that do what Windows' do: start it apart from us."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from anvil_tui.files import Lock
from tests.e2e.conftest import Bench, until

pytestmark = pytest.mark.slow


CMD = r"""#!/bin/sh
# cmd.exe /c start TITLE /min PROGRAM ARGS…: starts it apart and returns at once
[ "$1 $2 $4" = "/c start /min" ] || exit 1
shift 4
setsid "$@" >/dev/null 2>&1 </dev/null &
"""
WSL = r"""#!/bin/sh
# wsl.exe -d DISTRO -e COMMAND…
[ "$1 $2 $3" = "-d Testing -e" ] || exit 1
shift 3
exec "$@"
"""


@pytest.fixture
def windows(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    folder = bench.root / "windows"
    folder.mkdir()
    for name, text in (("cmd.exe", CMD), ("wsl.exe", WSL)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    env = bench.env | {"WSL_DISTRO_NAME": "Testing", "PATH": f"{folder}:{os.environ['PATH']}"}
    monkeypatch.setattr(Bench, "env", property(lambda self: env))
    return bench


def hold_lock(bench: Bench) -> Path:
    return Path(bench.env["XDG_RUNTIME_DIR"]) / "anvil-tui" / "hold.lock"


def finding(bench: Bench, *words: str) -> dict[str, str]:
    document = json.loads(bench.run("doctor", *words, "--json").stdout)
    found: dict[str, str] = next(one for one in document["findings"] if one["what"] == "WSL hold")
    return found


def test_the_hold_is_proven_and_ends_with_what_it_holds_for(windows: Bench) -> None:
    assert "not verified" in finding(windows)["words"] and "instanceIdleTimeout=-1" in finding(windows)["words"]
    assert finding(windows, "--hold")["state"] == "good"
    until(lambda: not Lock.held(hold_lock(windows)), 10, "the hold's end")
    assert "proven on" in finding(windows)["words"]


def test_the_hold_lives_while_a_lane_does(windows: Bench) -> None:
    lane = windows.rehearsal("practice")
    windows.good("up", lane)
    assert finding(windows, "--hold")["state"] == "good"
    assert Lock.held(hold_lock(windows)) and "held open" in finding(windows)["words"]
    windows.good("down", lane)
    until(lambda: not Lock.held(hold_lock(windows)), 10, "the hold's end")


def test_without_interop_it_says_what_to_set(windows: Bench) -> None:
    (windows.root / "windows" / "wsl.exe").unlink()
    said = finding(windows, "--hold")
    assert said["state"] == "bad" and "interop is off" in said["words"]
