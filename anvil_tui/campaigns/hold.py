"""Holding a WSL distro open: WSL may stop it when its last window closes, running processes or not.

The hold is this program in a Windows console of its own, started through `cmd.exe` and `wsl.exe`. It lives for as long
as a lane, a runner or a console does, and its window keeps the distro up. `doctor --hold` proves that it works here.

`python -m anvil_tui.campaigns.hold --state DIR` is the hold itself.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from anvil_tui import clock
from anvil_tui.campaigns.store.folder import all_campaigns
from anvil_tui.errors import CannotRun
from anvil_tui.files import Lock, locked, write_atomic
from anvil_tui.locations import Locations, runtime_dir

WSLCONFIG = "in %UserProfile%\\.wslconfig: [general] instanceIdleTimeout=-1"
"""The setting that makes WSL leave an idle distro alone."""
_LOOK_SECONDS = 2.0
_PROOF_SECONDS = 15.0


class Hold(Struct, frozen=True, kw_only=True):
    """`hold.json`: when and where a hold was proven to work."""

    proven_at: str
    distro: str
    kernel: str


def applies() -> bool:
    """Whether this is a WSL distro, which can be stopped under us."""
    return "microsoft" in platform.release().lower() or bool(os.environ.get("WSL_DISTRO_NAME"))


def start(locations: Locations) -> None:
    """Start a hold in a Windows console of its own, unless one lives. Raises CannotRun where interop is missing."""
    if Lock.held(_lock("hold")):
        return
    distro = os.environ.get("WSL_DISTRO_NAME")
    cmd = shutil.which("cmd.exe")
    if distro is None or cmd is None or shutil.which("wsl.exe") is None:
        raise CannotRun(f"the distro cannot be held open: Windows interop is off; set {WSLCONFIG}")
    hold = [sys.executable, "-P", "-m", "anvil_tui.campaigns.hold", "--state", str(locations.state)]
    subprocess.Popen(
        [cmd, "/c", "start", "anvil-tui hold", "/min", "wsl.exe", "-d", distro, "-e", *hold],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )


def prove(locations: Locations) -> Hold:
    """Start a hold and see it live, as no child of ours; remember that. Raises CannotRun where it does not come up."""
    with locked(_lock("console"), f"doctor, pid {os.getpid()}"):
        start(locations)
        deadline = time.monotonic() + _PROOF_SECONDS
        while not Lock.held(_lock("hold")):
            if time.monotonic() > deadline:
                raise CannotRun(f"no hold came up within {_PROOF_SECONDS:g} s; set {WSLCONFIG}")
            time.sleep(0.1)
    proven = Hold(proven_at=clock.utc_now(), distro=os.environ.get("WSL_DISTRO_NAME", ""), kernel=platform.release())
    locations.state.mkdir(parents=True, exist_ok=True)
    write_atomic(_proof(locations), msgspec.json.encode(proven))
    return proven


def words(locations: Locations) -> str:
    """What the quit dialog says of the distro; empty where nothing can stop it."""
    if not applies():
        return ""
    try:
        proven = msgspec.json.decode(_proof(locations).read_bytes(), type=Hold)
    except (FileNotFoundError, msgspec.MsgspecError):
        proven = None
    held = Lock.held(_lock("hold"))
    if proven is not None and proven.kernel == platform.release():
        state = "held open" if held else "not held now"
        return f"WSL: the distro is {state}; a hold was proven on {proven.proven_at[:10]}"
    state = "a hold runs" if held else "no hold runs"
    return f"WSL may stop this distro with its last window; {state}, not verified: `doctor --hold`, or {WSLCONFIG}"


def console_lock() -> Lock | None:
    """The lock that a console holds while it lives, so that its hold lives too; None where another console has it."""
    return Lock.take(_lock("console"), f"console, pid {os.getpid()}")


def wanted(locations: Locations) -> bool:
    """Whether a GPU, a lane, a journal or a console is locked now: something would be lost with the distro."""
    names = ("gpu-*.lock", "lane-*.lock", "console.lock")
    if any(Lock.held(path) for name in names for path in runtime_dir().glob(name)):
        return True
    return any(folder.running() for folder in all_campaigns(locations.campaigns))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m anvil_tui.campaigns.hold")
    parser.add_argument("--state", type=Path, required=True)
    locations = Locations.default(state=parser.parse_args().state)
    lock = Lock.take(_lock("hold"), f"hold, pid {os.getpid()}")
    if lock is None:
        return 0
    while wanted(locations):
        time.sleep(_LOOK_SECONDS)
    return 0


def _lock(name: str) -> Path:
    return runtime_dir() / f"{name}.lock"


def _proof(locations: Locations) -> Path:
    return locations.state / "hold.json"


if __name__ == "__main__":
    sys.exit(main())
