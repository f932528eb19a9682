"""Gate, capacity, ladders of every plan and the single probe, as whole commands on rehearsal lanes."""

from __future__ import annotations

import json
import os
import signal
import tomllib
from typing import Any

import pytest

from tests.e2e.conftest import Bench, until

pytestmark = pytest.mark.slow


def artifact(bench: Bench, run: str) -> dict[str, Any]:
    return json.loads((bench.last.path / f"runs/{run}.json").read_bytes())


@pytest.fixture
def lane(bench: Bench) -> str:
    name = bench.rehearsal("practice", time_scale="20")
    bench.good("up", name)
    return name


def test_the_gate_of_the_seeds(bench: Bench, lane: str) -> None:
    done = bench.json("gate", lane, "--reasoning", "required")
    assert done["runs"][0]["state"] == "passed", done["runs"][0]["words"]
    gate = artifact(bench, f"{lane}-r1")["gate"]
    assert [check["name"] for check in gate["checks"]] == [
        "smoke", "json", "tools", "streaming-tools", "tool-result", "responses",
    ]  # fmt: skip
    assert sum(one["check"] == "tools" for one in gate["observations"]) == 20
    assert gate["reasoning_effort"] == "high"
    assert all(one["record"]["reasoning_effort"] == "high" for one in gate["observations"] if one["record"])


def test_a_needle_in_the_gate(bench: Bench, lane: str) -> None:
    done = bench.json("gate", lane, "--checks", "smoke,needle", "--needle-tokens", "8000")
    assert done["runs"][0]["state"] == "passed", done["runs"][0]["words"]


def test_capacity_runs_are_scored_and_warmed_up_apart(bench: Bench, lane: str) -> None:
    done = bench.json("capacity", lane, "--context", "1024", "--max-tokens", "512", "--runs", "2", "--concurrency", "3")
    assert [run["state"] for run in done["runs"]] == ["passed", "passed"], done["runs"]
    one = artifact(bench, f"{lane}-r2")
    assert len(one["requests"]) == 3 and len(one["warmup"]) == 1
    assert {request["prompt_tokens"] for request in one["requests"]} == {1024}
    assert one["capacity"]["concurrency"] == 3 and one["metrics"]["completed"] == 3
    assert one["metrics"]["throughput_tok_s"] > 0 and one["wall_clock_ms"] > 0
    assert one["counters_after"]["values"] != one["counters_before"]["values"]
    nonces = {request["nonce"] for run in (1, 2) for request in artifact(bench, f"{lane}-r{run}")["requests"]}
    assert len(nonces) == 6


def test_a_capacity_run_of_fixed_length_over_a_shared_prefix(bench: Bench, lane: str) -> None:
    words = ["--context", "2048", "--shared-prefix", "1024", "--fixed-output", "--max-tokens", "400", "--runs", "1"]
    done = bench.json("capacity", lane, *words)
    assert done["runs"][0]["state"] == "passed", done["runs"]
    requests = artifact(bench, f"{lane}-r1")["requests"]
    assert {request["output_tokens"] for request in requests} == {400}
    assert all(request["cached_tokens"] > 0 for request in requests)


def test_a_failed_capacity_run_is_kept_and_replaced_up_to_a_limit(bench: Bench, lane: str) -> None:
    done = bench.json(
        "capacity", lane, "--context", "512", "--max-tokens", "16", "--runs", "1", "--extra-runs", "2", code=1
    )
    assert [run["state"] for run in done["runs"]] == ["failed"] * 3
    assert all("no_visible_content" in run["words"] for run in done["runs"])


def test_a_geometric_ladder_with_needles_and_the_gate_after_it(bench: Bench, lane: str) -> None:
    done = bench.json("ladder", lane, "--geometric", "1000:4000", "--needle", "0.2,0.9", "--post-gate")
    targets = [run["target_tokens"] for run in done["runs"]]
    assert targets == [1000, 1000, 1000, 2000, 2000, 2000, 4000, 4000, 4000, None]
    assert all(run["state"] == "passed" for run in done["runs"]), done["runs"]
    needle = artifact(bench, f"{lane}-r3")["requests"][0]["needle"]
    assert (needle["depth"], needle["found"]) == (0.9, True)
    assert artifact(bench, f"{lane}-r10")["what"] == "gate"


def test_the_longest_prompt_is_found_by_bisection(bench: Bench) -> None:
    lane = bench.rehearsal("short", max_model_len="16384", time_scale="60")
    done = bench.json("ladder", lane, "--bisect", "2000:512", "--max-tokens", "256", "--margin", "0", "--up")
    limit = 16384 - 256
    targets = [run["target_tokens"] for run in done["runs"]]
    assert targets == [2000, 4000, 8000, 16000, limit]


def test_one_probe_of_any_server(bench: Bench, lane: str) -> None:
    toml = tomllib.loads((bench.own_lanes / f"{lane}.toml").read_text())
    url, model = toml["endpoint"]["base_url"], toml["endpoint"]["served_name"]
    record = bench.json("probe", f"{url}/v1", "--model", model, "--prompt-tokens", "700", "--max-tokens", "400")
    assert record["outcome"] == "ok" and record["prompt_tokens"] == 700
    for name in ("time_to_first_output_ms", "ttft_ms", "e2e_ms", "output_tokens", "cached_tokens", "finish_reason"):
        assert record[name] is not None, name
    assert "TTFT" in bench.good("probe", f"{url}/v1", "--model", model).upper()
    assert bench.json("probe", f"{url}/v1", "--model", "nope", code=1)["outcome"] == "http_error"
    assert "one ending in /v1" in bench.run("probe", url, "--model", model).stderr


def test_a_killed_runner_of_a_capacity_campaign_is_resumed(bench: Bench) -> None:
    lane = bench.rehearsal("slow", time_scale="1", startup_seconds="1", decode_tok_s="100")
    verb = bench.start(
        "capacity", lane, "--context", "512", "--max-tokens", "400", "--runs", "2", "--requests", "1", "--up"
    )
    folder = bench.wait_in_rung()
    os.kill(bench.pid("anvil_tui.campaigns.runner"), signal.SIGKILL)
    verb.communicate(timeout=20)
    until(lambda: not folder.running(), 5)
    done = bench.json("resume", folder.id)
    assert [run["state"] for run in done["runs"]] == ["interrupted", "passed", "passed"]
