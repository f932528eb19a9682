"""Starting a load. One launcher a kind: process, attach, rehearsal; a new kind joins in `prepare` and `start`."""

from __future__ import annotations

import errno
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from anvil_tui import clock
from anvil_tui.errors import BadInput, CannotRun, Fault
from anvil_tui.files import write_atomic
from anvil_tui.lanes import recipe
from anvil_tui.lanes.folder import LaneFolder
from anvil_tui.lanes.profile import Lane
from anvil_tui.locations import Locations
from anvil_tui.records.lane import AttachLaunch, ProcessLaunch, RehearsalLaunch
from anvil_tui.records.load import Launched, Refused
from anvil_tui.records.rehearsal import EngineConfig

LOAD_MARK = "ANVIL_TUI_LOAD"
"""Variable in a lane's environment that names its load: its processes are found by it when all else is lost."""

_PASSED_ON = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_RUNTIME_DIR", "LD_LIBRARY_PATH",
    "VIRTUAL_ENV", "COVERAGE_PROCESS_START",
)  # fmt: skip
_DEFAULTS = {
    "PYTHONUNBUFFERED": "1",  # a block-buffered engine looks hung
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # CUDA's default order is not NVML's
}


def check(lane: Lane, environment: Mapping[str, str]) -> None:
    """What must hold before a launch. Raises BadInput or CannotRun with the sentence for the operator."""
    launch = lane.profile.launch
    if isinstance(launch, AttachLaunch):
        raise CannotRun(f"{lane.name}: an attached lane is started by whoever runs it, not here")
    if isinstance(launch, ProcessLaunch):
        _check_process(lane, launch, environment)
    host, port = lane.address
    if _in_use(host, port):
        raise CannotRun(
            f"{lane.name}: port {port} on {host} is in use by another process; free it or change the profile"
        )


def prepare(lane: Lane, locks: tuple[str, ...], locations: Locations, environment: Mapping[str, str]) -> LaneFolder:
    """Write the launch record of a new load; nothing runs yet."""
    folder = LaneFolder.create(locations.lanes, lane.name)
    profile = lane.profile
    launch = profile.launch
    argv: tuple[str, ...] = ()
    env: dict[str, str] = {}
    env_from: tuple[str, ...] = ()
    cwd: str | None = None
    log: str | None = "lane.log"
    match launch:
        case ProcessLaunch():
            names = lane.names()
            argv = tuple(recipe.render(text, names) for text in launch.argv)
            env = _DEFAULTS | {name: recipe.render(text, names) for name, text in launch.env.items()}
            env_from = launch.env_from
            cwd = recipe.render(launch.cwd, names) if launch.cwd else None
        case RehearsalLaunch():
            config = folder.path / "engine.json"
            write_atomic(config, msgspec.json.encode(_engine_config(lane, launch, locations)))
            argv = (sys.executable, "-P", "-m", "anvil_tui.rehearsal.engine", "--config", str(config))
            env = dict(_DEFAULTS)
        case AttachLaunch():
            log = None if launch.log is None else str(Path(recipe.render(launch.log, lane.names())).absolute())
    passed = {name: environment[name] for name in _PASSED_ON if name in environment}
    launched = Launched(
        lane=lane.name,
        load_id=folder.load_id,
        kind=lane.kind,
        engine=profile.identity.engine,
        at=clock.utc_now(),
        mono_us=clock.mono_us(),
        boot_id=clock.boot_id(),
        argv=argv,
        env={} if isinstance(launch, AttachLaunch) else passed | env | {LOAD_MARK: folder.load_id},
        env_from=env_from,
        cwd=cwd,
        locks=locks,
        base_url=profile.endpoint.base_url,
        served_name=profile.endpoint.served_name,
        log=log,
    )
    folder.write(launched)
    return folder


def start(folder: LaneFolder, environment: Mapping[str, str]) -> int:
    """Start the holder of a prepared load; returns the lane's pid. Raises CannotRun where the holder refuses."""
    launched = folder.launched()
    assert launched is not None, "prepare wrote it"
    secrets = {name: environment[name] for name in launched.env_from}
    holder = subprocess.Popen(
        [sys.executable, "-P", "-m", "anvil_tui.lanes.holder", str(folder.path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(launched.env) | secrets,
        start_new_session=True,
    )
    assert holder.stdout is not None and holder.stderr is not None
    with holder.stdout, holder.stderr:
        line = holder.stdout.readline()
        said = json.loads(line) if line else {"refused": holder.stderr.read().decode("utf-8", "replace").strip()}
    if "started" in said:
        return int(said["started"])
    holder.wait()
    folder.write(Refused(words=said["refused"], at=clock.utc_now()))
    raise CannotRun(f"{folder.lane}: it cannot start: {said['refused']}")


def _check_process(lane: Lane, launch: ProcessLaunch, environment: Mapping[str, str]) -> None:
    names = lane.names()
    for name in launch.env_from:
        if name not in environment:
            raise CannotRun(f"{lane.name}: launch.env_from names {name}, which is not set in your environment")
    command = recipe.render(launch.argv[0], names)
    path = launch.env.get("PATH", environment.get("PATH"))
    if shutil.which(command, path=path) is None:
        raise BadInput(
            str(lane.path), Fault("launch.argv[0]", f"no such command: {command}", "an executable on this machine")
        )
    if launch.cwd and not Path(recipe.render(launch.cwd, names)).is_dir():
        raise BadInput(str(lane.path), Fault("launch.cwd", f"no such folder: {launch.cwd}", "a folder on this machine"))


def _in_use(host: str, port: int) -> bool:
    """Whether a listener holds the address; an address that is not ours to bind counts as free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def _engine_config(lane: Lane, launch: RehearsalLaunch, locations: Locations) -> EngineConfig:
    host, port = lane.address
    timelines = locations.rehearsal
    timelines.mkdir(parents=True, mode=0o700, exist_ok=True)
    return EngineConfig(
        lane=lane.name,
        host=host,
        port=port,
        model=lane.profile.identity.model,
        served_name=lane.profile.endpoint.served_name,
        recipe=lane.profile.recipe,
        engine=launch.engine,
        gpus=launch.gpus,
        timelines=str(timelines),
    )
