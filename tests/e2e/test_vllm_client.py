"""The measuring child against a real vLLM: exact rungs, cold and warm, limits, gate, capacity, a dead engine."""

from __future__ import annotations

import os
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import psutil
import pytest

from anvil_tui.probes.ladder import Bisection
from tests.e2e.conftest import free_port, until
from tests.unit.probes.test_child import Child
from tests.vllm_engine import vllm_engine

pytestmark = [pytest.mark.vllm, pytest.mark.soak]


@dataclass
class Lane:
    """One engine process and one probe child that measures it."""

    process: subprocess.Popen[bytes]
    target: dict[str, str]
    child: Child

    def rung(self, tokens: int, **fields: Any) -> dict[str, Any]:
        asked = {"request_index": 0, "max_tokens": 16, "limit_tokens": None, "nonce": f"n{tokens}", **fields}
        self.child.ask("measure_rung", id="r", target=self.target, target_tokens=tokens, **asked)
        return self.child.until("finished")[0]["record"]


@pytest.fixture(scope="module")
def lane() -> Iterator[Lane]:
    port = free_port()
    profile = tomllib.loads(vllm_engine().profile(port))
    values = {**profile["recipe"], "port": port, "served_name": "tiny"}
    argv = [
        word.replace("{recipe.", "{").replace("{endpoint.", "{").format(**values) for word in profile["launch"]["argv"]
    ]
    env = {**os.environ, **profile["launch"]["env"]}
    process = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    base_url = f"http://127.0.0.1:{port}"
    child = Child()
    assert child.next()["kind"] == "ready"

    def ready() -> bool:
        assert process.poll() is None, "the engine ended while it started"
        try:
            return httpx.get(f"{base_url}/v1/models", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False

    try:
        until(ready, 300, "an answer of the engine")
        yield Lane(process, {"base_url": base_url, "model": "tiny"}, child)
    finally:
        child.end()
        for one in (*psutil.Process(process.pid).children(recursive=True), process) if process.poll() is None else ():
            one.kill()
        process.wait()


def test_rungs_are_exact_cold_and_warm(lane: Lane) -> None:
    for tokens in (2_000, 6_000, 12_000, 16_000):
        record = lane.rung(tokens)
        assert record["sizing"]["method"] == "tokenizer"
        assert record["prompt_tokens"] == tokens == record["sizing"]["counted_tokens"]
        assert record["cached_tokens"] == 0
        assert len(record["sizing"]["attempts"]) <= 4
        assert record["outcome"] in ("ok", "truncated")
    cold = lane.rung(6_000, nonce="warm", cache_salt=False)
    warm = lane.rung(6_000, nonce="warm", cache_salt=False)
    assert cold["cached_tokens"] == 0
    assert warm["cached_tokens"] > 5_000
    assert warm["time_to_first_output_ms"] < cold["time_to_first_output_ms"]


def test_limits(lane: Lane) -> None:
    long = lane.rung(17_000)
    assert (long["outcome"], long["error"]["param"]) == ("rejected_too_long", "input_tokens")
    clamped = lane.rung(16_000, max_tokens=7_000, nonce="clamp")
    assert clamped["output_tokens"] == 384
    assert "max_tokens_clamped" in clamped["warnings"]


def test_the_limit_is_found_by_bisection(lane: Lane) -> None:
    search = Bisection(low=4_000, high=20_000, tolerance=64)
    while (tokens := search.next) is not None:
        record = lane.rung(tokens, max_tokens=1, nonce=f"bisect-{tokens}")
        search = search.tried(tokens, served=record["outcome"] in ("ok", "truncated"))
    assert search.passed is not None
    assert search.failed is not None
    assert search.passed <= 16_383 < search.failed


def test_a_gate_fails_honestly(lane: Lane) -> None:
    checks = ["smoke", "json", "tools", "streaming-tools", "tool-result", "responses", "needle"]
    lane.child.ask(
        "measure_gate", id="g", target=lane.target, checks=checks, tool_batch=2, needle_tokens=2_000, nonce="g",
        budget={"visible_answer_tokens": 32}, reasoning_effort="low",
    )  # fmt: skip
    result = lane.child.until("gated")[0]["result"]
    assert not result["passed"]
    assert {one["check"] for one in result["observations"]} == set(checks)
    assert all(one["words"] and one["record"] for one in result["observations"])


@pytest.mark.parametrize("concurrency", [1, 8])
def test_capacity(lane: Lane, concurrency: int) -> None:
    lane.child.ask(
        "measure_capacity", id="c", target=lane.target, requests=2 * concurrency, concurrency=concurrency,
        context_tokens=500, max_tokens=24, limit_tokens=None, warmup_requests=1, output_length="fixed",
        nonce=f"c{concurrency}",
    )  # fmt: skip
    ended, before = lane.child.until("capacity")
    records = [line["record"] for line in before if line["kind"] == "measured" and not line["warmup"]]
    assert len(records) == 2 * concurrency
    assert all(record["outcome"] == "ok" and record["output_tokens"] == 24 for record in records)
    assert all(record["prompt_tokens"] == 500 and record["cached_tokens"] == 0 for record in records)
    gained = {
        name: ended["counters_after"]["values"][name] - ended["counters_before"]["values"][name]
        for name in ("prompt_tokens", "generation_tokens")
    }
    assert gained == {"prompt_tokens": 1000 * concurrency, "generation_tokens": 48 * concurrency}


def test_a_killed_engine_is_an_error_in_the_stream(lane: Lane) -> None:
    lane.child.ask("probe_url", id="k", target=lane.target, max_tokens=12_000, nonce="k")
    while (lane.child.until("progress")[0]["tokens"] or 0) < 20:
        pass
    (engine,) = [one for one in psutil.Process(lane.process.pid).children() if "EngineCore" in one.name()]
    engine.kill()
    record = lane.child.until("finished")[0]["record"]
    assert record["outcome"] == "error_in_stream"
    assert record["saw_done"]
    assert record["error"]["code"] == "500"
    assert record["output_tokens"] >= 20
