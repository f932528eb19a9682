"""Many streams for a minute: none lost, none counted twice, memory flat."""

from __future__ import annotations

import time

import psutil
import pytest

from tests.scripted_server import Script, ScriptedServer, Step
from tests.unit.probes.test_child import QUICK, Child

pytestmark = pytest.mark.soak

SECONDS = 60
CONCURRENCY = 256
REQUESTS = 8_000


def test_256_at_once_for_a_minute() -> None:
    steps = tuple(Step(step.at_us * 20, step.do, step.data) for step in QUICK)
    with ScriptedServer({"m": Script(steps=steps)}) as server:
        child = Child()
        assert child.next()["kind"] == "ready"
        target = {"base_url": server.base_url, "model": "m"}
        child.ask(
            "measure_capacity", id="c", target=target, requests=REQUESTS, concurrency=CONCURRENCY, context_tokens=150,
            max_tokens=64, limit_tokens=None, nonce="soak",
        )  # fmt: skip
        process = psutil.Process(child.process.pid)
        indices, outcomes, memory, started = [], set(), [], None
        while (line := child.next())["kind"] != "capacity":
            if line["kind"] == "measured":
                indices.append(line["record"]["request_index"])
                outcomes.add(line["record"]["outcome"])
            elif line["kind"] == "running" and line["step"] == "measuring":
                started = started or time.monotonic()
                memory.append(process.memory_info().rss / 2**20)
                if time.monotonic() - started > SECONDS:
                    child.ask("cancel", id="c")
        played = [entry for entry in server.log() if entry["body"].get("stream")]
        assert child.end() == 0
    assert len(indices) == len(set(indices)) == len(played)
    assert outcomes <= {"ok", "cancelled"}
    assert len(indices) > CONCURRENCY * 20
    quarter = len(memory) // 4
    assert max(memory[-quarter:]) < max(memory[:quarter]) * 1.2 + 20
