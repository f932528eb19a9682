"""A small engine configuration, and one real engine process for the tests that talk to it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import msgspec
import pytest

from anvil_tui.records.lane import LaneProfile, Recipe, RehearsalLaunch, SimulatedEngine, SimulatedGpu, Speculation
from anvil_tui.records.rehearsal import EngineConfig
from anvil_tui.records.validation import read_toml

PROFILES = Path(__file__).parents[3] / "profiles" / "lanes"
DEADLINE_S = 20.0


def profile(name: str) -> LaneProfile:
    """A shipped rehearsal profile."""
    return read_toml(LaneProfile, PROFILES / f"{name}.toml")


def config_of(name: str, timelines: Path = Path("timelines"), port: int = 8000) -> EngineConfig:
    """What the lane `name` tells its engine."""
    lane = profile(name)
    assert isinstance(lane.launch, RehearsalLaunch)
    return EngineConfig(
        lane=name,
        host="127.0.0.1",
        port=port,
        model=lane.identity.model,
        served_name=lane.endpoint.served_name,
        recipe=lane.recipe,
        engine=lane.launch.engine,
        gpus=lane.launch.gpus,
        timelines=str(timelines),
    )


def small(timelines: Path, port: int = 0) -> EngineConfig:
    """Two GPUs, 16,384 tokens, five draft tokens, up in a tenth of a second."""
    return EngineConfig(
        lane="small",
        host="127.0.0.1",
        port=port,
        model="example/Small-V1",
        served_name="rehearsal-small",
        recipe=Recipe(
            max_model_len=16384,
            max_num_seqs=2,
            max_num_batched_tokens=1024,
            tensor_parallel_size=2,
            speculation=Speculation(method="dspark", tokens=5),
        ),
        engine=SimulatedEngine(
            time_scale=50,
            startup_seconds=5,
            prefill_tok_s=2000,
            decode_tok_s=100,
            output_tokens=60,
            reasoning_tokens=40,
            kv_blocks=400,
            kv_blocks_per_request=200,
            acceptance=(0.8, 0.6, 0.4, 0.3, 0.2),
        ),
        gpus=(SimulatedGpu(uuid="GPU-a", host_mib=300), SimulatedGpu(uuid="GPU-b")),
        timelines=str(timelines),
    )


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(true: Callable[[], bool], what: str) -> None:
    """Poll until `true()`; fail after a deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < deadline, f"not within {DEADLINE_S:g} s: {what}"
        time.sleep(0.01)


@dataclass
class Engine:
    """A running engine process."""

    process: subprocess.Popen[bytes]
    config: EngineConfig
    log: Path
    http: httpx.Client

    def answers(self) -> bool:
        """Whether it answers; a refused connection is a no, and anything else that fails is an error."""
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.http.get("/health").status_code == 200
        except httpx.ConnectError:
            return False

    def wait_ready(self) -> None:
        until(self.answers, "the engine answers")

    def metric(self, name: str) -> float:
        """The sum of one series of /metrics."""
        lines = self.http.get("/metrics").text.splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"vllm:{name}{{"))

    def end(self) -> None:
        self.http.close()
        self.process.kill()
        self.process.wait()


def start(config: EngineConfig, folder: Path) -> Engine:
    """Start the engine as a lane does; its log goes to one file."""
    file, log = folder / "engine.json", folder / "lane.log"
    file.write_bytes(msgspec.json.encode(config))
    with log.open("wb") as out:
        argv = [sys.executable, "-P", "-m", "anvil_tui.rehearsal.engine", "--config", str(file)]
        process = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    return Engine(process, config, log, httpx.Client(base_url=f"http://127.0.0.1:{config.port}", timeout=DEADLINE_S))


@pytest.fixture(scope="package")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """One small engine, ready, shared by the tests that only ask."""
    folder = tmp_path_factory.mktemp("engine")
    running = start(small(folder / "timelines", free_port()), folder)
    try:
        running.wait_ready()
        yield running
    finally:
        running.end()
