"""The main job on a real vLLM: a process lane, its report, rungs exact to the token, a bundle for stock tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.e2e.conftest import Bench, free_port
from tests.e2e.test_ladder import stock_verify
from tests.vllm_engine import vllm_engine

pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One bench and one engine for the whole module."""
    bench = Bench(tmp_path_factory.mktemp("vllm"))
    (bench.own_lanes / "tiny.toml").write_text(vllm_engine().profile(free_port()))
    bench.lanes.append("tiny")
    try:
        yield bench
    finally:
        bench.clean()


def test_up_ladder_seal_sign_verify(desk: Bench) -> None:
    line = desk.good("keys", "--create", "op@lab", "--no-passphrase").rsplit("this line: ", 1)[1].strip()
    up = desk.json("up", "tiny", timeout=400)
    assert up["standing"] == "complete" and 5 < up["startup_seconds"] < 300
    assert (up["max_model_len"], up["engine_version"]) == (16384, "0.32.0")
    report = json.loads(next((desk.last.path / "startup").iterdir()).read_bytes())
    assert report["kv_tokens"]["value"] == 524288
    assert report["max_concurrency"]["value"] == 32.0
    assert report["max_model_len"]["value"] == 16384
    assert report["unread_count"] == 0

    done = desk.json("ladder", "tiny", "--targets", "2000,6000,12000", "--seal", timeout=400)
    assert [run["state"] for run in done["runs"]] == ["passed"] * 3
    folder = desk.last
    for number, target in enumerate((2000, 6000, 12000), start=1):
        artifact = json.loads((folder.path / f"runs/tiny-r{number}.json").read_bytes())
        (request,) = artifact["requests"]
        assert request["prompt_tokens"] == target == request["sizing"]["counted_tokens"]
        assert request["sizing"]["method"] == "tokenizer"
        assert request["cached_tokens"] == 0
        assert artifact["limit_tokens"] == 16384 - 64 - 64
    stock_verify(folder.path, line)
    assert desk.json("verify", str(folder.path))["exit_code"] == 0


def test_the_limit_is_observed_and_the_reported_tokens_are_never_it(desk: Bench) -> None:
    done = desk.run("ladder", "tiny", "--targets", "16257")
    assert done.returncode == 2
    assert "16,257 is above the limit of 16,256 tokens = observed max_model_len 16,384 − max_tokens 64" in done.stderr


def test_capacity_at_one_and_eight(desk: Bench) -> None:
    for concurrency in ("1", "8"):
        words = [
            "--context",
            "512",
            "--concurrency",
            concurrency,
            "--requests",
            "8",
            "--runs",
            "1",
            "--max-tokens",
            "32",
        ]
        done = desk.json("capacity", "tiny", *words, timeout=400)
        assert done["runs"][-1]["state"] == "passed", done["runs"]
        artifact = json.loads((desk.last.path / done["runs"][-1]["path"]).read_bytes())
        assert {request["prompt_tokens"] for request in artifact["requests"]} == {512}
        assert {request["cached_tokens"] for request in artifact["requests"]} == {0}
        gained = [
            artifact["counters_after"]["values"][name] - artifact["counters_before"]["values"][name]
            for name in artifact["counters_after"]["values"]
            if name.startswith("prompt_tokens")
        ]
        assert 8 * 512 in gained


def test_cached_tokens_are_seen_warm(desk: Bench) -> None:
    words = ["--context", "1024", "--shared-prefix", "768", "--requests", "3", "--runs", "1", "--max-tokens", "16"]
    done = desk.json("capacity", "tiny", *words, timeout=400)
    artifact = json.loads((desk.last.path / done["runs"][-1]["path"]).read_bytes())
    assert all(request["cached_tokens"] >= 512 for request in artifact["requests"])


def test_a_gate_that_a_toy_model_fails_honestly(desk: Bench) -> None:
    done = desk.json(
        "gate", "tiny", "--tool-batch", "2", "--visible-tokens", "32", "--reasoning-tokens", "0", code=1, timeout=400
    )
    artifact = json.loads((desk.last.path / done["runs"][-1]["path"]).read_bytes())
    checks = {check["name"]: check for check in artifact["gate"]["checks"]}
    assert set(checks) == {"smoke", "json", "tools", "streaming-tools", "tool-result", "responses"}
    assert not any(check["passed"] for check in checks.values())
    assert all(check["words"] for check in checks.values())
    assert all(one["record"]["prompt_tokens"] for one in artifact["gate"]["observations"] if one["record"])


def test_the_longest_prompt_is_found_by_bisection(desk: Bench) -> None:
    done = desk.json("ladder", "tiny", "--bisect", "4000:512", "--max-tokens", "64", "--margin", "64", timeout=400)
    targets = [run["target_tokens"] for run in done["runs"]]
    assert targets == [4000, 8000, 16000, 16256]
    assert all(run["state"] == "passed" for run in done["runs"]), done["runs"]


def test_the_engine_core_killed_in_mid_stream(desk: Bench) -> None:
    verb = desk.start("ladder", "tiny", "--targets", "2000", "--max-tokens", "8000", "--margin", "0")
    folder = desk.wait_in_rung(("answer",))
    # Of this lane alone: another engine may run on the same machine.
    servers = desk._processes("vllm.entrypoints.openai.api_server")
    family = [child for pid in servers for child in psutil.Process(pid).children(recursive=True)]
    core = next(one for one in family if "EngineCore" in " ".join(one.cmdline() or [one.name()]))
    core.kill()
    printed, _ = verb.communicate(timeout=120)
    assert verb.returncode == 1
    view = desk.view(folder)
    assert view.runs[0].state == "failed" and view.runs[0].run == "tiny-r1"
    artifact = json.loads((folder.path / "runs/tiny-r1.json").read_bytes())
    assert artifact["requests"][0]["outcome"] in ("error_in_stream", "disconnected")
    assert "died" in printed


def test_down_leaves_nothing(desk: Bench) -> None:
    desk.good("down", "tiny", timeout=60)
    load = next((desk.state / "lanes" / "tiny").iterdir())
    assert (load / "exit.json").exists()
    assert not desk._processes("vllm.entrypoints.openai.api_server")
    log: Path = load / "lane.log"
    assert desk.json("read-log", str(log))["kv_tokens"] == 524288
