"""The simulated engine as a process: `python -m anvil_tui.rehearsal.engine --config FILE.json`.

It behaves as a vLLM server does: it binds its port at once, refuses connections while it loads and logs, then serves.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import uvicorn

from anvil_tui.clock import start_ticks
from anvil_tui.errors import AnvilError
from anvil_tui.files import write_all
from anvil_tui.records.rehearsal import EngineConfig
from anvil_tui.records.validation import decode_json, read_bytes
from anvil_tui.rehearsal import figures, startup_log
from anvil_tui.rehearsal.api import application
from anvil_tui.rehearsal.core import EngineCore
from anvil_tui.rehearsal.memory import GpuMemory
from anvil_tui.rehearsal.metrics import throughput
from anvil_tui.rehearsal.startup_log import Bar, Entry, Line, written

_STATS_SECONDS = 10.0


def main(argv: list[str] | None = None) -> int:
    """Run one engine until it is told to stop; the exit code is that of a vLLM server."""
    launched = time.monotonic() - _age()
    parser = argparse.ArgumentParser(prog="python -m anvil_tui.rehearsal.engine", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="JSON file of an EngineConfig")
    path: Path = parser.parse_args(argv).config
    try:
        config = decode_json(EngineConfig, read_bytes(path), str(path))
        figures.check(config, str(path))
    except AnvilError as error:
        write_all(2, f"{error}\n".encode())
        return error.exit_code
    return run(config, launched)


def run(config: EngineConfig, launched: float) -> int:
    """Load, then serve. `launched` is when the process began, on the monotonic clock."""
    clock = _Clock(launched, config.engine.startup_time_scale or config.engine.time_scale)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((config.host, config.port))
        except OSError as error:
            words = f"OSError: [Errno {error.errno}] {os.strerror(error.errno or 0)}"
            write_all(2, f"    sock.bind(addr)\n{words}\n".encode())
            return 1
        memory = GpuMemory(config)
        _play(startup_log.opening(config), clock, memory)
        free = memory.free_gib()
        for rank, gib in enumerate(free):
            if gib < figures.desired(config):
                _play(startup_log.too_little_memory(config, rank, gib), clock, memory)
                return 1
        _play(startup_log.loading(config, free), clock, memory)
        asyncio.run(_serve(config, memory, listener))
    return 0


def _age() -> float:
    """Seconds since this process was started, its imports included."""
    ticks = start_ticks(os.getpid())
    assert ticks is not None, "this process runs"
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


class _Clock:
    """Simulated seconds since launch, kept on absolute due times."""

    def __init__(self, launched: float, scale: float) -> None:
        self._launched = launched
        self._scale = scale

    def wait_until(self, seconds: float) -> None:
        time.sleep(max(0.0, self._launched + seconds / self._scale - time.monotonic()))


def _play(script: Iterable[Entry], clock: _Clock, memory: GpuMemory) -> None:
    """Write each entry when it is due, and hold from then on what it says."""
    for entry in script:
        clock.wait_until(entry.at)
        if entry.held is not None:
            memory.hold(entry.held)
        _log(entry)


def _log(entry: Entry) -> None:
    """Write an entry at once, as the process's own logger does; progress bars go to stderr."""
    text = written(entry, os.getpid(), time.strftime("%m-%d %H:%M:%S"))
    write_all(2 if isinstance(entry, Bar) else 1, text.encode())


async def _log_throughput(config: EngineConfig, core: EngineCore) -> None:
    """Every ten of the profile's seconds one line on what was done in them, as long as something is."""
    before = core.totals()
    while True:
        await asyncio.sleep(_STATS_SECONDS / config.engine.time_scale)
        now = core.totals()
        if now != before:
            for where, message in throughput(before, now, core.gauges(), _STATS_SECONDS):
                _log(Line(0.0, "APIServer", where, message))
        before = now


async def _serve(config: EngineConfig, memory: GpuMemory, listener: socket.socket) -> None:
    # The event-loop backend of the HTTP library is loaded on first use, which would delay the first answer.
    await anyio.sleep(0)
    core = EngineCore(config, memory)
    server = _Server(uvicorn.Config(application(config, core), lifespan="on", timeout_graceful_shutdown=1))

    stats = asyncio.ensure_future(_log_throughput(config, core))

    def stop() -> None:
        stats.cancel()
        core.stop()
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    await server.serve(sockets=[listener])


class _Server(uvicorn.Server):
    """uvicorn under signal handlers of our own, so that a stop that was asked for exits 0, as vLLM's does."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


if __name__ == "__main__":
    sys.exit(main())
