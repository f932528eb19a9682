"""`doctor`: what this machine can do, each line with what to do where it cannot."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

from anvil_tui import __version__, exit_codes
from anvil_tui.bundles import trust
from anvil_tui.campaigns import hold, sealing
from anvil_tui.cli.output import Output, table
from anvil_tui.errors import AnvilError, BadInput
from anvil_tui.gpus.inventory import inventory
from anvil_tui.lanes.profile import all_lanes
from anvil_tui.locations import Locations, runtime_dir
from anvil_tui.records.vram import Inventory


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that was looked at. `note` is neither good nor bad here."""

    what: str
    state: Literal["good", "note", "bad"]
    words: str


def doctor(arguments: Namespace, locations: Locations, output: Output) -> int:
    """Look at everything that a campaign needs; exit 1 where something is bad."""
    findings = list(_findings(locations))
    if arguments.hold or hold.applies():
        findings.append(_hold(locations, prove=arguments.hold))
    for line in table(("WHAT", "STATE", ""), [(one.what, one.state, one.words) for one in findings]):
        output.line(line)
    output.document("anvil-cli-doctor/v1", {"findings": findings})
    bad = any(one.state == "bad" for one in findings)
    return exit_codes.CHECK_FAILED if bad else exit_codes.GOOD


def _findings(locations: Locations) -> Iterator[Finding]:
    yield Finding(what="version", state="good", words=f"anvil-tui {__version__}, Python {platform.python_version()}")
    wsl = "microsoft" in platform.release().lower()
    yield Finding(what="system", state="good", words=f"{platform.platform()}{', WSL' if wsl else ''}")
    yield _tried("state folder", lambda: _folder(locations.state))
    yield _tried("runtime folder", lambda: str(runtime_dir()))
    yield _disk(locations.state)
    yield _tried("profiles", lambda: _profiles(locations))
    yield _gpus()
    yield _key(locations)
    yield _tried(
        "trusted signers", lambda: f"{len(trust.read(locations.allowed_signers))} in {locations.allowed_signers}"
    )
    yield _tool("ssh-keygen", "anyone can check a signature with it; ours needs it not")
    terminal = (
        f"TERM={os.environ.get('TERM', 'not set')}, {sys.stdout.encoding}, stdout is a terminal: {sys.stdout.isatty()}"
    )
    yield Finding(what="terminal", state="note", words=terminal)


def _tried(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what=what, state="good", words=look())
    except (AnvilError, OSError) as error:
        return Finding(what=what, state="bad", words=str(error))


def _folder(path: Path) -> str:
    path.mkdir(parents=True, exist_ok=True)
    kind = _file_system(path)
    if kind in ("9p", "drvfs", "v9fs"):
        raise OSError(f"{path} lies on {kind}: files there have no modes and may vanish; choose one on the Linux disk")
    return f"{path} ({kind})"


def _file_system(path: Path) -> str:
    """Type of the file system that holds `path`, from the longest mount point above it."""
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, found, *_ = line.split()
        if (path == Path(mount) or Path(mount) in path.parents) and len(mount) >= len(best):
            best, kind = mount, found
    return kind


def _disk(path: Path) -> Finding:
    free = shutil.disk_usage(path if path.exists() else Path.home()).free / 2**30
    return Finding(
        what="disk", state="good" if free > 4 else "bad", words=f"{free:.1f} GiB free; a campaign keeps 2 GiB free"
    )


def _profiles(locations: Locations) -> str:
    lanes = all_lanes(locations)
    refused = [name for name, lane in lanes.items() if isinstance(lane, BadInput)]
    if refused:
        raise OSError(f"refused: {', '.join(refused)}; anvil-tui check FILE says why")
    return f"{len(lanes)} lanes; your own in {locations.profiles / 'lanes'}"


def _gpus() -> Finding:
    found = asyncio.run(inventory("nvml"))
    if isinstance(found, Inventory):
        names = ", ".join(f"{gpu.name} {gpu.uuid}" for gpu in found.gpus) or "none"
        return Finding(what="GPUs", state="good", words=f"{names}; driver {found.driver}; {found.library}")
    return Finding(what="GPUs", state="note", words=f"{found.reason}; {found.hint}; rehearsal lanes work without")


def _key(locations: Locations) -> Finding:
    try:
        key = sealing.choose_key(locations)
    except BadInput as refused:
        return Finding(what="signing key", state="bad", words=str(refused))
    except AnvilError as none:
        return Finding(what="signing key", state="note", words=str(none))
    return Finding(what="signing key", state="good", words=f"{key.principal}: {key.fingerprint}")


def _hold(locations: Locations, *, prove: bool) -> Finding:
    """Whether the distro outlives its last window."""
    if not hold.applies():
        return Finding(what="WSL hold", state="good", words="not needed: this is no WSL distro")
    if not prove:
        return Finding(what="WSL hold", state="note", words=hold.words(locations))
    return _tried("WSL hold", lambda: f"proven at {hold.prove(locations).proven_at}")


def _tool(name: str, why: str) -> Finding:
    path = shutil.which(name)
    return Finding(what=name, state="good" if path else "note", words=path or f"not found; {why}")
